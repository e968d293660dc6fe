"""``padiff-shim record DIR PROGRAM``: a program as it is, natively, and what its steps compute as files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from ..files import try_folder
from ..text import tr
from . import program
from .ranks import Ranks, watched
from .recorded import RecordOptions, report

_EPILOG = """\
\b
Examples:
  # a fingerprint of each step
  padiff-shim record runs/a train.py --epochs 3
  # of each hundredth
  padiff-shim record --every 100 runs/a train.py
  # all values of the steps 199 to 201
  padiff-shim record --around 200 runs/full train.py
  padiff-shim record --framework torch runs/torch -m project.train

Options come before DIR, the program's own after it. Exit status: the program's own; 2 if it was not begun.
"""


@click.command(
    epilog=_EPILOG,
    short_help="A program's steps as fingerprints, for diff.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--every", type=click.IntRange(1), metavar="N", help="Record each N-th step only.")
@click.option("--around", type=click.IntRange(0), metavar="STEP", help="All values of the steps around STEP alone.")
@click.option("--first-step", type=click.IntRange(0), metavar="N", default=0, help="The program goes on at step N.")
@click.option("--framework", type=click.Choice(["paddle", "torch"]), default="paddle", show_default=True, help="Its framework.")
@click.option("--inherit/--no-inherit", default=True, help="Ranks that PROGRAM starts are recorded, too; the default.")
@click.option("--overwrite", is_flag=True, help="Take the place of the recording in DIR.")
@click.option("--quiet", is_flag=True, help="Say nothing at the end.")
@click.argument("folder", metavar="DIR")
@click.argument("program_name", metavar="[-m] PROGRAM")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
def command(
    every: int | None,
    around: int | None,
    first_step: int,
    framework: str,
    inherit: bool,
    overwrite: bool,
    quiet: bool,
    folder: str,
    program_name: str,
    arguments: tuple[str, ...],
) -> Callable[[], int]:
    """Run an unchanged program, of Paddle or of Torch, natively, and write what it computes into DIR: a fingerprint of each
    step, or all values of some steps. `padiff-shim diff` says where two recordings differ first."""
    if program_name == "-m" and arguments:
        started = program.module(arguments[0], arguments[1:])
    elif program_name.startswith("-"):
        raise click.UsageError(
            tr("the options of padiff-shim come before DIR, got {program_name} behind it", program_name=program_name)
        )
    else:
        started = program.script(program_name, arguments)
    if every is not None and around is not None:
        raise click.UsageError(tr("--every and --around exclude each other"))
    try_folder(folder, "the recording ")
    absolute = os.path.abspath(folder)  # the program may go elsewhere before it imports Paddle
    options = RecordOptions(absolute, every or 1, around, framework=framework, overwrite=overwrite, first_step=first_step)
    ranks = Ranks(options, {}) if inherit and options.framework == "paddle" else None  # the ranks of Paddle's launcher

    def ended(run: Any, remarks: list[str]) -> None:
        if not quiet:
            report(run, remarks, options)

    return watched(started, options.opened, ended, ranks, options.framework)
