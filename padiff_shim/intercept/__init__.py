"""Every redirected door of Paddle."""
