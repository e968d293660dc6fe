"""Compare mode: both kernels inline at every call, and a verdict for each result and each gradient."""
