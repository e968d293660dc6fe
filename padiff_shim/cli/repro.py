"""``padiff-shim repro DIR CALL``."""

from __future__ import annotations

import re

import click

from ..errors import ArgumentError, PadiffShimError
from ..present.text import Screen
from ..runlog.calls import Call
from ..runs.compare_run import CompareRun, load
from ..text import tr
from .main import NO

_EPILOG = """\
\b
Examples:
  # the calls whose operands were saved
  padiff-shim repro runs/monday
  # writes repro-worst.py and its operands beside it
  padiff-shim repro runs/monday worst
  # run.calls[30], as the report numbers it
  padiff-shim repro runs/monday 30 -o bug.py
  # needs paddle, torch and numpy alone
  python bug.py
"""


@click.command(epilog=_EPILOG, short_help="One call's difference as a script.")
@click.argument("folder", metavar="DIR")
@click.argument("call", required=False)
@click.option("-o", "--output", metavar="FILE", help="The script; default repro-CALL.py. Its operands go beside it (.npz).")
def command(folder: str, call: str | None, output: str | None) -> int:
    """Write a script that shows one call's difference without this library.

    CALL is the call's number in the report (run.calls), `worst` or `first`: the worst saved one, or the first. Without CALL the
    saved calls are listed, and the exit status is 1 if there are none."""
    run = load(folder)
    if call is None:
        return _listed(run)
    chosen = _chosen(run, call)
    path = run.repro(chosen, output if output is not None else f"repro-{call}.py")
    written = chosen if isinstance(chosen, Call) else run.calls[chosen]
    _say(tr("{path} written: {call}", path=path, call=written))
    return 0


def _say(text: str) -> None:
    """Within the width of a terminal; as one line into a file or another program."""
    screen = Screen()
    screen.say(text, hang=2)
    click.echo(screen.text())


def _listed(run: CompareRun) -> int:
    saved = run.kept()
    for place, call in zip(saved.places, saved):
        _say(f"{place}: {call}")
    if not saved:
        click.echo(str(tr("no operands were saved: there was no serious difference, or keep_inputs=0 said so")), err=True)
    return 0 if saved else NO


def _chosen(run: CompareRun, word: str) -> Call | int:
    """The call that was asked for."""
    if re.fullmatch(r"[0-9]+", word):
        place, size = int(word[:18]), len(run.calls)
        if place >= size:
            raise ArgumentError(
                tr(
                    "CALL is 'worst', 'first' or a number below {size:,}, as many records as there are; got {word}",
                    size=size,
                    word=word,
                )
            )
        return place
    if word not in ("worst", "first"):
        raise ArgumentError(tr("CALL is a number from 0 on, 'worst' or 'first', got {word}", word=repr(word)))
    calls = list(run.kept())
    if not calls:
        raise PadiffShimError(tr("no operands were saved: there was no serious difference, or keep_inputs=0 said so"))
    if word == "first":
        return calls[0]
    saved = set(calls)
    return next((record for record in run.worst(len(run.calls)) if record in saved), calls[0])
