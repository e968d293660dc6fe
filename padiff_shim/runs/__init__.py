"""What a user asks of a run."""
