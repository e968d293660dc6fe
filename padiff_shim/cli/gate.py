"""``padiff-shim gate DIR --baseline FILE``."""

from __future__ import annotations

from typing import Any

import click

from ..progress import Waiting
from ..runs.gate import MARGIN, gate
from ..text import tr
from . import output
from .main import FINE, NO

_EPILOG = """\
\b
Examples:
  # once: make this run the baseline
  padiff-shim gate runs/today --baseline baseline.jsonl --update
  # in CI
  padiff-shim gate runs/today --baseline baseline.jsonl
  padiff-shim gate runs/today --baseline baseline.jsonl --margin 10
  # for a pull request
  padiff-shim gate runs/today --baseline baseline.jsonl --markdown -
  # in a workflow of GitHub
  padiff-shim gate runs/today --baseline baseline.jsonl --format github

Exit status: 0, 1 if it fails (--update: if FILE was not updated), 2 without baseline or log.
"""


@click.command(epilog=_EPILOG, short_help="Whether a call got worse than in a baseline.")
@click.argument("folder", metavar="DIR")
@click.option("--baseline", metavar="FILE", required=True, help="The baseline: a file for version control.")
@click.option("--update", is_flag=True, help="Write the run into FILE.")
@click.option(
    "--margin", metavar="X", type=click.FloatRange(1), default=MARGIN, show_default=True, help="An error may grow by this factor."
)
@output.format_options
@click.option("--markdown", type=output.TEXT, help="Write what changed as Markdown; - is standard output.")
def command(
    folder: str,
    baseline: str,
    update: bool,
    margin: float,
    **files: Any,
) -> int:
    """Compare the log of a comparison with a baseline, and fail if a call got worse: its verdict, from LOW_ACCURACY up, or its
    error by more than the margin; if calls are missing, or the program ended with an error. New calls are listed."""
    with Waiting(tr("reading {folder}", folder=folder)):
        result = gate(folder, baseline, update=update, margin=margin)
    output.answer(result, **files)
    return FINE if result else NO
