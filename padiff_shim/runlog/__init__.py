"""Judged tensors and counts, in memory and on disk; no framework."""
