"""The command line, ``padiff-shim``: one module a command, named in ``app.COMMANDS``."""
