"""Output of commands: files that the user names, and standard output."""

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
from ..present.result import Presented
from ..text import tr


class Target(click.ParamType):  # type: ignore[type-arg]
    """A file that a command will write. A file that cannot be written is an error before the command begins.

    Args:
        piped: ``-`` is standard output.
    """

    name = "FILE"

    def __init__(self, *, piped: bool = False) -> None:
        self.piped = piped

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The unchanged path.

        Raises:
            FileError: the file cannot be written.
        """
        if value == "-" and self.piped:
            return value
        if value == "-":
            self.fail("it is written into a file, not onto standard output", param, ctx)
        try_file(value)
        return value


PAGE, TEXT = Target(), Target(piped=True)


def write_json(path: str | None, data: Callable[[], Any], who: str | None = "") -> None:
    """Write ``data()`` as JSON into a file, with a line by ``who``, or onto standard output if ``path`` is ``-``; None: nothing.

    Raises:
        FileError: the file cannot be written.
    """
    _put(path, lambda: json.dumps(data(), indent=2, ensure_ascii=False, default=str) + "\n", who)


def write_markdown(path: str | None, result: Any, who: str | None = "") -> None:
    """Write ``result.to_markdown()`` in the same way."""
    _put(path, lambda: str(result.to_markdown()), who)


def file_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--html``, ``--markdown`` and ``--json`` (as ``data``) to a command; :func:`answer` does what they ask."""
    for option in (
        click.option("--json", "data", type=TEXT, help="Write it as JSON; - is standard output."),
        click.option("--markdown", type=TEXT, help="Write it for a pull request; - is standard output."),
        click.option("--html", type=PAGE, help="Write it as a page."),
    ):
        function = option(function)
    return function


def answer(result: Any, html: str | None, markdown: str | None, data: str | None) -> None:
    """Write a result into the files that the options name, and print its text, unless standard output has one of them.

    Raises:
        FileError: a file cannot be written.
    """
    if html is not None:
        written(write(html, result.page()))
    write_json(data, result.as_dict)
    write_markdown(markdown, result)
    if "-" not in (data, markdown):
        click.echo(as_text(result))


def deliver(result: Any, html: str | None, markdown: str | None, data: str | None) -> None:
    """Write a result into the files that the options name, or print its text if they name none.

    Raises:
        FileError: a file cannot be written.
    """
    if html is not None:
        written(result.to_html(html))
    write_json(data, result.as_dict)
    write_markdown(markdown, result)
    if html is None and data is None and markdown is None:
        click.echo(as_text(result))


def _put(path: str | None, text: Callable[[], str], who: str | None) -> None:
    if path == "-":
        click.echo(text(), nl=False)
    elif path is not None:
        written(write(path, text()), who)


def written(path: Path, who: str | None = "") -> None:
    """Report a written file, in a line that begins with ``who``; None: nothing."""
    if who is not None:
        click.echo(str(tr("{who}{path} written", who=who, path=path)), err=True)


def look(stream: TextIO | None = None) -> dict[str, Any]:
    """The width of text for ``stream`` (default: standard output), and whether it has colours: on a terminal with colours, unless
    ``NO_COLOR`` (no-color.org) is set."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    plain = os.environ.get("TERM", "") in ("dumb", "unknown") or bool(os.environ.get("NO_COLOR"))
    return {"width": max(80, shutil.get_terminal_size().columns) if terminal else None, "colour": terminal and not plain}


def as_text(result: Presented, stream: TextIO | None = None) -> str:
    """The text of ``print(result)``, as wide as ``stream`` (default: standard output), in colours if that is a terminal."""
    return result.text(**look(stream))
