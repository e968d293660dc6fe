"""What a user opens."""
