"""``padiff-shim report DIR``."""

from __future__ import annotations

import click

from ..runs.reference_run import load_any
from . import output

_EPILOG = """\
\b
Examples:
  # what print(run) shows
  padiff-shim report runs/monday
  # a page that needs nothing beside it
  padiff-shim report runs/monday --html monday.html
  # for a pull request
  padiff-shim report runs/monday --markdown -
  # in a workflow of GitHub
  padiff-shim report runs/monday --format github --sarif monday.sarif
  padiff-shim report runs/monday --json - | jq .verdicts

Several processes' logs in one folder are read as one run.
"""


@click.command(epilog=_EPILOG, short_help="What the log of a run holds.")
@click.argument("folder", metavar="DIR")
@output.format_options
@click.option("--html", type=output.PAGE, help="Write the page (docs/compare.md, docs/run.md).")
@click.option("--markdown", type=output.TEXT, help="Write the findings as Markdown; - is standard output.")
@click.option("--json", "data", type=output.TEXT, help="Write everything counted as JSON; - is standard output.")
def command(folder: str, form: str | None, sarif: str | None, html: str | None, markdown: str | None, data: str | None) -> None:
    """Show what a log holds. Of a comparison: the worst calls, verdicts per op and layer, what was not checked. Of a reference run:
    coverage, what stayed native and at which lines, where the time went.

    DIR is what compare(log=...), reference(log=...) or `padiff-shim run --log` named. With no FILE the summary is printed."""
    run = load_any(folder)
    output.answer(run, html, markdown, data, form, sarif, always=False)
