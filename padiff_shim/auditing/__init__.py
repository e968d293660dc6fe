"""The audit: every op of the table tried on this machine, and what its kernels get wrong."""
