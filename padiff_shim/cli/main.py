"""The entry point of ``padiff-shim`` and ``python -m padiff_shim``."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence

from ..errors import MissingFrameworkError, PadiffShimError, optional
from ..text import tr

FINE, NO, UNUSABLE = 0, 1, 2  # exit statuses: docs/command-line.md


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute a command (default: ``sys.argv``); returns the exit status.

    The program of ``run`` runs here and not inside click, so that its exceptions stay unchanged.
    """
    try:
        optional("click", "pip install click")
    except MissingFrameworkError as error:
        return _unusable(error)
    from .app import translated

    with _any_encoding(), translated():
        try:
            result = _execute(arguments)
        except Exception as error:  # of the user's models and programs: without their answer there is none of ours
            from .program import tidy

            tidy(error)
            traceback.print_exception(error)
            return UNUSABLE
    return result() if callable(result) else result


def _unusable(why: object) -> int:
    """Say why there is no answer."""
    print(f"padiff-shim: {why}", file=sys.stderr)
    return UNUSABLE


@contextlib.contextmanager
def _any_encoding() -> Iterator[None]:
    """Signs that standard output's encoding lacks (GBK, Latin-1, ASCII) are written as escapes: they must not end a command."""
    if sys.stdout is None:  # it was closed before this began
        sys.stdout = io.TextIOWrapper(io.FileIO(os.devnull, "w"), "utf-8")
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream.errors != "strict":
        yield
        return
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        stream.reconfigure(errors="strict")


def _execute(arguments: Sequence[str] | None) -> int | Callable[[], int]:
    """The command's result: an exit status, or the program to run."""
    import click

    from .app import app, choose_language

    choose_language(sys.argv[1:] if arguments is None else arguments)
    try:
        return app.main(arguments, prog_name="padiff-shim", standalone_mode=False) or FINE
    except click.ClickException as error:
        error.show()
        return error.exit_code if error.exit_code != 1 else UNUSABLE  # 1 is an answer here: no
    except click.Abort:
        return 128 + 2  # Ctrl-C
    except SystemExit:
        if not type(sys.stdout).__name__.endswith("PacifyFlushWrapper"):
            raise
        return 128 + 13  # click's 1, for a pipe that nobody reads any longer, would be an answer here
    except PadiffShimError as error:
        return _unusable(error)
    except (AttributeError, ImportError) as error:
        from ..modes.environment import explained

        explanation = explained(error)
        if explanation is error:
            raise
        return _unusable(explanation)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # which no file has that is there
            return _unusable(f"{error.strerror}: {str(error.filename)[:100]}...")
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest of its buffer is written at exit
        return _unusable(tr("standard output cannot be written: {strerror}", strerror=error.strerror))
