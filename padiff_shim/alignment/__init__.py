"""Questions about whole programs and models."""
