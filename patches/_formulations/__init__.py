"""Equal mathematics whose bits differ: one module for each cause, with ``FORMULATIONS`` as data."""
