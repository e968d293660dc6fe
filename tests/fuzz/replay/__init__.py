"""Random programs once more, in plain Torch: the same lines over names that are Torch's functions, and never the shim's."""
