"""``padiff-shim diff A B``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..errors import ArgumentError, FileError, toml
from ..recording.diff import diff
from ..text import joined
from . import output
from .main import FINE, NO

_EPILOG = """\
\b
Examples:
  padiff-shim diff here there
  # a pair is equal within the tolerances
  padiff-shim diff cpu gpu --rtol 1e-5
  padiff-shim diff before after --html difference.html
  # for a pull request
  padiff-shim diff before after --report align.md
  # rank 0 of the first against rank 3 of the second
  padiff-shim diff one all --ranks 0,3
  # all ranks of the first, put together, against the second
  padiff-shim diff two_ranks one_rank --shards auto --rtol 1e-5
  padiff-shim diff two_ranks one_rank --rtol 1e-5 \\
      --shards '*.qkv.weight=1,*.out.weight=0'
  # in a workflow of GitHub
  padiff-shim diff before after --format github

The folders are those of padiff_shim.record(); neither framework is needed.
Exit status: 0 if nothing differs, 1 if something does, 2 if nothing can be compared.
"""


@click.command(epilog=_EPILOG, short_help="Where two recorded runs differ first.")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--atol", type=float, default=0.0, show_default=True, help="Elements may differ by this much.")
@click.option("--rtol", type=float, default=0.0, show_default=True, help="And by this share of the tensor's largest element.")
@click.option("--ranks", metavar="N[,M]", help="Which process of A, and which of B; by default all that both have.")
@click.option(
    "--shards",
    metavar="RULES",
    help="Put the ranks together: auto, PATTERN=AXIS,... (or =sum, =mean, =replicate), or a file (.toml, .json) with such a table.",
)
@click.option(
    "--names", metavar="PATHS", help="With --shards: PATTERN=PATH,... of names in A and in B, or a file with such a table."
)
@click.option(
    "--report", type=output.TEXT, help="Write the pull request's Markdown, with hashes of what was computed; - is standard output."
)
@output.format_options
@output.file_options
def command(
    first: str,
    second: str,
    atol: float,
    rtol: float,
    ranks: str | None,
    shards: str | None,
    names: str | None,
    report: str | None,
    **files: Any,
) -> int:
    """Compare two runs that padiff_shim.record() recorded: machines, devices, versions, commits, Paddle and Torch. Says where
    they differ first, at which lines, in which layer, and by how much."""
    chosen = _ranks(ranks)
    named = None if names is None else _table("--names", names)
    difference = diff(first, second, atol=atol, rtol=rtol, ranks=chosen, shards=_shards(shards), names=named)
    output.write_markdown(report, difference.report())
    if not output.answer(difference, **files, always=False, piped=report == "-"):
        click.echo("\n".join(map(str, (difference.answer, *difference.untested()))))
    return FINE if difference else NO


def _ranks(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})?", text) is None:
        raise ArgumentError("--ranks takes one rank of both (0), or one of each (0,3), got {text}", text=repr(text))
    first, _, second = text.partition(",")
    return (int(first), int(second)) if second else int(first)


def _shards(text: str | None) -> Mapping[str, Any] | str | None:
    """Rules on splits, as they were written on the command line or into a file."""
    if text is None or text == "auto":
        return text
    rules = _table("--shards", text)
    return {pattern: int(way) if re.fullmatch(r"-?[0-9]{1,9}", str(way)) else way for pattern, way in rules.items()}


def _table(option: str, text: str) -> dict[str, Any]:
    """``PATTERN=WORD,...``, or a file with a table."""
    if text.endswith((".toml", ".json")):
        try:
            content = Path(text).read_text(encoding="utf-8")
            table = toml(text).loads(content) if text.endswith(".toml") else json.loads(content)
        except (OSError, ValueError) as error:
            raise FileError(joined(": ", (f"{option} {text}", error))) from None
        if not isinstance(table, dict):
            raise FileError("{option} {text}: it holds no table", option=option, text=text)
        return table
    table = {}
    for entry in text.split(","):
        pattern, sign, word = entry.rpartition("=")
        if not sign or not pattern.strip():
            raise ArgumentError(
                "{option} takes PATTERN=WORD,... or a .toml or .json file, got {entry}", option=option, entry=repr(entry)
            )
        table[pattern.strip()] = word.strip()
    return table
