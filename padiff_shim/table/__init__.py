"""The words of an op, and looking them up."""
