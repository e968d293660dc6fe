"""The op families: every module whose name has no underscore in front is one. Installed as ``padiff_shim.patches``."""
