"""Torch's own autograd graph behind Paddle's tensors: the tape."""
