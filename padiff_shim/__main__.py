"""``python -m padiff_shim``: the command line, where no script is installed (a checkout)."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
