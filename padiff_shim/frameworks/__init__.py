"""Paddle and Torch in one process: memory, versions, autocast, weight copies, settings."""
