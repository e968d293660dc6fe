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

from .. import __version__
from ..files import try_file, write as write
from ..present.annotations import Level, github, sarif as as_sarif
from ..present.result import Presented
from ..text import reader, tr


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
            self.fail(tr("it is written into a file, not onto standard output"), param, ctx)
        try_file(value)
        return value


PAGE, TEXT = Target(), Target(piped=True)


def write_json(path: str | None, result: Presented, who: str | None = "") -> None:
    """Write a result as JSON into a file, with a line by ``who``, or onto standard output if ``path`` is ``-``; None: nothing.

    Raises:
        FileError: the file cannot be written.
    """
    _put(path, lambda: json.dumps(result.to_dict(), indent=2, ensure_ascii=False, default=str) + "\n", who)


def write_markdown(path: str | None, result: Presented, who: str | None = "") -> None:
    """Write ``result.markdown()`` in the same way."""
    _put(path, lambda: _plain(result.markdown(), sys.stdout) if path == "-" else str(result.markdown()), who)


def write_page(path: str | None, result: Presented, who: str | None = "") -> None:
    """Write a result's page into a file; None: nothing."""
    if path is not None:
        written(write(path, result.page_for(path), "the page "), who)


def file_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--html``, ``--markdown`` and ``--json`` (as ``data``) to a command; :func:`answer` does what they ask."""
    for option in (
        click.option("--json", "data", type=TEXT, help="Write it as JSON; - is standard output."),
        click.option("--markdown", type=TEXT, help="Write it for a pull request; - is standard output."),
        click.option("--html", type=PAGE, help="Write it as a page."),
    ):
        function = option(function)
    return function


FORMATS = ("text", "markdown", "github", "sarif")
FILES = ("html", "markdown", "data", "form", "sarif")  # what both kinds of options name, as :func:`answer` takes it
_LEVELS: dict[str, Level] = {"": "note", "good": "note", "bad": "error"}  # of a document's tone; others: warning


def format_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format`` (as ``form``) and ``--sarif`` to a command whose findings have lines."""
    for option in (
        click.option("--sarif", type=TEXT, help="Write findings for code scanning and editors; - is standard output."),
        click.option("--format", "form", type=click.Choice(FORMATS), help="What is printed: github annotates lines. Default text."),
    ):
        function = option(function)
    return function


def formatted(result: Presented, form: str | None) -> str:
    """A result as ``--format`` prints it."""
    if form in (None, "text"):
        return as_text(result)
    if form == "markdown":
        return _plain(str(result.markdown()).rstrip("\n"), sys.stdout)
    with reader(None):
        document = result.content()
        findings, level = result.findings, _LEVELS.get(document.tone, "warning")
        headline = "; ".join(map(str, (document.headline, *result.untested())))
        if form == "github":
            return github(findings, headline, level)
        return json.dumps(as_sarif(findings, headline, level, __version__), indent=2, ensure_ascii=False)


def answer(
    result: Presented,
    html: str | None = None,
    markdown: str | None = None,
    data: str | None = None,
    form: str | None = None,
    sarif: str | None = None,
    *,
    always: bool = True,
    piped: bool = False,
) -> bool:
    """Write a result into the files that the options name, and print it, unless standard output has one of them.

    Args:
        always: print it also if files are named and no ``--format`` is.
        piped: standard output has something else already.

    Returns:
        Whether standard output has the result, or something else.

    Raises:
        FileError: a file cannot be written.
    """
    write_page(html, result)
    write_json(data, result)
    write_markdown(markdown, result)
    _put(sarif, lambda: formatted(result, "sarif") + "\n", "")
    files = [path for path in (html, markdown, data, sarif) if path is not None]
    if "-" in files or piped:
        return True
    printed = always or form is not None or not files
    if printed:
        click.echo(formatted(result, form))
    return printed


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
    """The text of ``print(result)``, as wide as ``stream`` (default: standard output), in colours if that is a terminal.

    Lines of tables and marks that the stream's encoding lacks are ASCII: ``|`` and ``-``.
    """
    return _plain(result.text(**look(stream)), stream or sys.stdout)


def _plain(text: str, stream: Any) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.translate({ord(sign): plain for sign, plain in _PLAIN.items() if sign in text and not _writes(encoding, sign)})


_PLAIN = {
    **dict.fromkeys("━─┄", "-"),
    **dict.fromkeys("┃│", "|"),
    **dict.fromkeys("┏┳┓┡╇┩└┴┘├┼┤╷╵", "+"),
    "✓": "+",
    "✗": "x",
    "–": "-",
    "−": "-",
    "…": "...",
    "×": "x",
    "÷": "/",
    "±": "+-",
}


def _writes(encoding: str, sign: str) -> bool:
    try:
        return bool(sign.encode(encoding))
    except (UnicodeEncodeError, LookupError):
        return False
