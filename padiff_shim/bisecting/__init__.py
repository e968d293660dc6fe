"""Which kernels of a program make a difference, found by exchanging some of them at a time."""
