"""Updates of parameters: Torch's own optimizers, and Paddle's definitions in Torch's functions where the two differ."""
