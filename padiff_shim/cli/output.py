"""Where commands write: files that the user names, and standard output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ..errors import FileError
from ..runs.compare_run import CompareRun


def write(path: str | Path, text: str) -> Path:
    """``text`` into a file, in a folder that is made if need be; returns its path.

    Raises:
        FileError: it cannot be written.
    """
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{place} cannot be written: {error.strerror or error}") from error
    return place


def write_json(path: str | Path, data: Any) -> Path:
    """``data`` as JSON into a file, or onto standard output if ``path`` is ``-``."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n"
    if str(path) == "-":
        click.echo(text, nl=False)
        return Path("-")
    return write(path, text)


def summary(run: Any) -> str:
    """What ``print(run)`` shows, in colours where standard output is a terminal that has some."""
    if not isinstance(run, CompareRun):
        return str(run)
    from ..report.summary import summary as text

    return text(run, colour=sys.stdout.isatty())
