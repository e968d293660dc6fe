"""Answering a call with Torch's kernels."""
