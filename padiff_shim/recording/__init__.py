"""Runs written down on one machine, and compared with others offline."""
