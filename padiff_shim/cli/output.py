"""Where commands write: files that the user names, and standard output."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import click

from ..files import try_file
from ..files import write as write


class Target(click.ParamType):
    """A file that a command is going to write. One that cannot be written is refused before the command begins.

    Args:
        piped: ``-`` is standard output.
    """

    name = "FILE"

    def __init__(self, *, piped: bool = False) -> None:
        self.piped = piped

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as it was given.

        Raises:
            FileError: it cannot be written, as far as that can be told before.
        """
        if value == "-" and self.piped:
            return value
        if value == "-":
            self.fail("it is written into a file, not onto standard output", param, ctx)
        try_file(value)
        return value


PAGE, TEXT = Target(), Target(piped=True)


def write_json(path: str | None, data: Callable[[], Any], who: str | None = "") -> None:
    """What ``data`` gives as JSON into a file, and a line by ``who`` that says so, or onto standard output if ``path`` is ``-``.

    None: nowhere, and nothing is asked for.

    Raises:
        FileError: it cannot be written.
    """
    _put(path, lambda: json.dumps(data(), indent=2, ensure_ascii=False, default=str) + "\n", who)


def write_markdown(path: str | None, result: Any, who: str | None = "") -> None:
    """``found.to_markdown()`` likewise."""
    _put(path, lambda: str(result.to_markdown()), who)


def _put(path: str | None, text: Callable[[], str], who: str | None) -> None:
    if path == "-":
        click.echo(text(), nl=False)
    elif path is not None:
        written(write(path, text()), who)


def written(path: Path, who: str | None = "") -> None:
    """Say that a file is there; None as ``who`` says nothing."""
    if who is not None:
        click.echo(f"{who}{path} written", err=True)


def look(stream: TextIO | None = None) -> dict[str, Any]:
    """How wide text for ``stream`` (default: standard output) is, and whether it has colours: where the terminal can, and unless
    ``NO_COLOR`` (no-color.org) is set."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    plain = os.environ.get("TERM", "") in ("dumb", "unknown") or bool(os.environ.get("NO_COLOR"))
    return {"width": max(80, shutil.get_terminal_size().columns) if terminal else None, "colour": terminal and not plain}


def told(result: Any) -> str:
    """What ``print(found)`` shows, in colours where standard output is a terminal."""
    return str(result.text(**look()))


def summary(run: Any, stream: TextIO | None = None) -> str:
    """What ``print(run)`` shows, as wide as ``stream`` (default: standard output), in colours where it is a terminal."""
    if not hasattr(run, "recorder"):  # a run of reference mode
        from ..report.reference_text import run_table

        return run_table(run, **look(stream))
    from ..report.compare_text import summary as text

    return text(run, **look(stream))
