"""One call, made ready for any plan: where it happens, whether it is wanted, its operands, dtypes and casts."""
