"""Where commands write: files that the user names, and standard output."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from ..errors import FileError
from ..writing import write as write


def write_json(path: str | Path, data: Any) -> Path:
    """``data`` as JSON into a file, or onto standard output if ``path`` is ``-``."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n"
    if str(path) == "-":
        click.echo(text, nl=False)
        return Path("-")
    return write(path, text)


def write_markdown(path: str | None, found: Any) -> None:
    """``found.to_markdown()`` into a file, and a line that says so, or onto standard output if ``path`` is ``-``; None: nowhere."""
    if path == "-":
        click.echo(found.to_markdown(), nl=False)
    elif path is not None:
        click.echo(f"{write(path, found.to_markdown())} written", err=True)


def writable(path: str | None) -> Path | None:
    """A file that is going to be written, by its absolute path; None stays None.

    Raises:
        FileError: it cannot be written, as far as that can be told before.
    """
    if path is None:
        return None
    place = Path(os.path.abspath(path))
    folder = next(one for one in place.parents if one.exists())
    why = "it is a folder" if place.is_dir() else f"{folder} is no folder" if not folder.is_dir() else ""
    if not why and not os.access(place if place.exists() else folder, os.W_OK):
        why = f"{place if place.exists() else folder} is not writable"
    if why:
        raise FileError(f"{path} cannot be written: {why}")
    return place


def look(stream: TextIO | None = None) -> dict[str, Any]:
    """How wide text for ``stream`` (default: standard output) is, and whether it has colours."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    return {"width": max(80, shutil.get_terminal_size().columns) if terminal else None, "colour": terminal}


def told(found: Any) -> str:
    """What ``print(found)`` shows, in colours where standard output is a terminal."""
    return str(found.text(**look()))


def summary(run: Any, stream: TextIO | None = None) -> str:
    """What ``print(run)`` shows, as wide as ``stream`` (default: standard output), in colours where it is a terminal."""
    if not hasattr(run, "recorder"):  # a run of reference mode
        from ..report.terminal import run_table

        return run_table(run, **look(stream))
    from ..report.summary import summary as text

    return text(run, **look(stream))
