"""``padiff-shim log DIR``."""

from __future__ import annotations

import re
from typing import Any

import click

from ..errors import ArgumentError, PadiffShimError
from ..present.text import Screen
from ..runlog.calls import Call
from ..runs.compare_run import CompareRun, load, loaded
from ..text import marked, tr
from . import output
from .main import FINE, NO

_EPILOG = """\
\b
Examples:
  # what print(run) shows
  padiff-shim log runs/monday
  # a page that needs nothing beside it
  padiff-shim log runs/monday --html monday.html
  # for a pull request
  padiff-shim log runs/monday --markdown -
  # in a workflow of GitHub
  padiff-shim log runs/monday --format github --sarif monday.sarif
  padiff-shim log runs/monday --json - | jq .verdicts
  # the calls whose operands were saved
  padiff-shim log runs/monday --saved
  # writes repro-worst.py and its operands beside it
  padiff-shim log runs/monday --repro worst
  # run.calls[30], as the report numbers it
  padiff-shim log runs/monday --repro 30 -o bug.py
  # needs paddle, torch and numpy alone
  python bug.py

Several processes' logs in one folder are read as one run.
"""
_NOTHING = marked("no operands were saved: there was no serious difference, or keep_inputs=0 said so")


@click.command(epilog=_EPILOG, short_help="What the log of a run holds; one call's difference as a script.")
@click.argument("folder", metavar="DIR")
@click.option("--saved", is_flag=True, help="List the calls whose operands were saved; exit with 1 if there are none.")
@click.option("--repro", "call", metavar="CALL", help="Write a script: of run.calls[CALL], the worst, or the first saved call.")
@click.option("-o", "--output", "script", metavar="FILE", help="The script; default repro-CALL.py. Operands go beside it (.npz).")
@output.format_options
@output.file_options
def command(
    folder: str,
    saved: bool,
    call: str | None,
    script: str | None,
    **files: Any,
) -> int:
    """Show what a log holds. Of a comparison: the worst calls, verdicts per op and layer, what was not checked. Of a reference run:
    coverage, what stayed native and at which lines, where the time went.

    DIR is what compare(log=...), reference(log=...) or `padiff-shim run --log` named. With no FILE the summary is printed. --repro
    writes one call's difference as a script that does without this library."""
    if saved:
        kept_calls = loaded(folder).kept()
        for place, each in zip(kept_calls.places, kept_calls):
            _say(f"{place}: {each}")
        if not kept_calls:
            click.echo(str(tr(_NOTHING)), err=True)
        return FINE if kept_calls else NO
    if call is None:
        output.answer(load(folder), **files, always=False)
        return FINE
    run = loaded(folder)
    chosen = _chosen(run, call)
    path = run.repro(chosen, script if script is not None else f"repro-{call}.py")
    _say(tr("{path} written: {call}", path=path, call=chosen if isinstance(chosen, Call) else run.calls[chosen]))
    return FINE


def _say(text: str) -> None:
    """Within the width of a terminal; as one line into a file or another program."""
    screen = Screen()
    screen.say(text, hang=2)
    click.echo(screen.text())


def _chosen(run: CompareRun, word: str) -> Call | int:
    """The call that was asked for."""
    if re.fullmatch(r"[0-9]+", word):
        place, size = int(word[:18]), len(run.calls)
        if place >= size:
            raise ArgumentError(
                "CALL is 'worst', 'first' or a number below {size:,}, as many records as there are; got {word}",
                size=size,
                word=word,
            )
        return place
    if word not in ("worst", "first"):
        raise ArgumentError("CALL is a number from 0 on, 'worst' or 'first', got {word}", word=repr(word))
    calls = list(run.kept())
    if not calls:
        raise PadiffShimError(_NOTHING)
    if word == "first":
        return calls[0]
    saved = set(calls)
    return next((record for record in run.worst(len(run.calls)) if record in saved), calls[0])
