"""Ports that others wrote, beside their originals: what `make demo-ports` proves."""
