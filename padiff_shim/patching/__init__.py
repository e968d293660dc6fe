"""Replacing an attribute of somebody else's module, and restoring it exactly."""
