"""Whether both frameworks can be used together in this process, and what to know of them before a kernel is blamed."""
