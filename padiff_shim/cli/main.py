"""The entry point of ``padiff-shim`` and ``python -m padiff_shim``.

The command line is built with click, which only it needs: an extra, so that ``import padiff_shim`` inside of somebody's pinned
training environment asks for as little as it did.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence

from ..errors import MissingFrameworkError, PadiffShimError, optional

FINE, NO, UNUSABLE = 0, 1, 2  # exit statuses: docs/command-line.md


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command (default: ``sys.argv``); returns the exit status.

    ``run`` gives a program, which runs here and not inside of click: what the program raises is its own.
    """
    try:
        optional("click", "pip install 'padiff_shim[cli]'")
    except MissingFrameworkError as error:
        print(f"padiff-shim: {error}", file=sys.stderr)
        return UNUSABLE
    result = _carried_out(arguments)
    return result() if callable(result) else result


def _carried_out(arguments: Sequence[str] | None) -> int | Callable[[], int]:
    """What the command returns: an exit status, or the program to run."""
    import click

    from .app import app

    try:
        return app.main(arguments, prog_name="padiff-shim", standalone_mode=False) or FINE
    except click.ClickException as error:
        error.show()
        return error.exit_code if error.exit_code != 1 else UNUSABLE  # 1 is an answer here: no
    except click.Abort:
        return 128 + 2  # Ctrl-C
    except PadiffShimError as error:
        print(f"padiff-shim: {error}", file=sys.stderr)
        return UNUSABLE
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in its buffer is written at the end
        print(f"padiff-shim: standard output cannot be written: {error.strerror}", file=sys.stderr)
        return UNUSABLE
