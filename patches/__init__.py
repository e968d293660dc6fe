"""The op families: one flat module each, pure data and torch formulas. Installed as ``padiff_shim.patches``."""

FAMILIES = ("linalg", "linear", "norm", "reduction", "division", "arithmetic", "activation")
