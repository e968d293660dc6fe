"""What people look at: built from the record alone."""
