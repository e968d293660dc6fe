"""Whether a port is right: both models run, their calls are laid side by side, and the first that differs is named."""
