"""How far two tensors are apart, and whether they are equal: one definition of each, for every answer of this package."""
