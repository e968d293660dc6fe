"""Every function of Paddle that is intercepted, and what its calls are led to."""
