"""``padiff-shim run``: a program as it is, inside of a mode."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import click

from ..errors import PadiffShimError
from ..files import try_folder
from ..modes.environment import not_imported
from ..modes.options import MODES, ModeOptions, Setting, kind_of, resolved, textual
from ..text import marked, tr
from . import output, program
from .ranks import Ranks, watched
from .recorded import WHO

# ---- The options of the modes as options of a command, made from ``padiff_shim.modes.options``.

BOTH = marked("Options of both modes")
SECTIONS = {"reference": marked("Options of --reference"), "compare": marked("Options of --compare")}


class Option(click.Option):
    """An option of a mode, under its own heading."""

    def __init__(self, *args: Any, section: str = "", help: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section, self.help = section, help  # click would make plain English of a sentence with words in it


class Command(click.Command):
    """A command whose ``--help`` lists options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them, those without section first."""
        sections: dict[str, list[tuple[str, str]]] = {marked("Options"): []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title, rows in sections.items():
            with formatter.section(str(tr(title))):
                formatter.write_dl(rows)


def switch(name: str) -> str:
    """The option's spelling: ``--mismatch-from``."""
    return f"--{name.replace('_', '-')}"


def mode_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add every option of every mode to a command; a missing option is None, or empty."""
    shared = {field.name for field in fields(ModeOptions)}
    options = {name: (mode, field) for mode, kind in MODES.items() for name, field in textual(kind).items()}
    for name, (mode, field) in reversed(options.items()):
        kind = kind_of(field)
        spelling = f"{switch(name)}/--no-{name.replace('_', '-')}" if not kind.metavar else switch(name)
        metavar = "|".join(kind.words) if 0 < len(kind.words) < 4 else kind.metavar
        form: dict[str, Any] = {"metavar": metavar} if metavar else {}
        words = field.metadata["help"]
        help = tr(words)
        if len(kind.words) > 3:
            help = tr("{text} One of {words}.", text=help, words=", ".join(kind.words))
        section = BOTH if name in shared else SECTIONS[mode]
        option = click.option(spelling, name, cls=Option, section=section, default=None, multiple=kind.several, help=help, **form)
        function = option(function)
    return function


def chosen(mode: str, words: Mapping[str, Any]) -> tuple[ModeOptions, dict[str, Setting]]:
    """The options of a mode, from the command line, the environment and the settings file, in this order; and the settings used.

    Raises:
        ArgumentError: an option of the other mode, or a value that is not accepted, in any of these places.
    """
    return resolved(mode, {name: value for name, value in words.items() if value not in (None, ())}, switch)


# ---- The command.

_EPILOG = """\
\b
Examples:
  # Torch's kernels; what stayed native is listed at the end
  padiff-shim run train.py --epochs 3
  padiff-shim run --random torch --optimizer torch train.py
  # a page: coverage by layer, where the time went
  padiff-shim run --profile --html run.html train.py
  # both kernels, with verdicts
  padiff-shim run --compare train.py --epochs 3
  padiff-shim run --compare --log runs/monday --html monday.html train.py
  # two processes, each with a log of its own
  padiff-shim run --compare --log runs/two \\
      -m paddle.distributed.launch --nproc_per_node 2 train.py
  padiff-shim run --compare --ops linear --layers 'encoder.*' --steps 10:20 \\
      -m project.train

Options of the mode come before the program, the program's own after it. Exit status: the program's own; 2 if it was not begun.
"""


@click.command(
    cls=Command,
    epilog=_EPILOG,
    short_help="A program on Torch's kernels, or on both.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("--reference", "reference", is_flag=True, help="Run the program on Torch's kernels (the default).")
@click.option("--compare", "compare", is_flag=True, help="Run Paddle's and Torch's kernels at each call, and judge both.")
@click.option("-m", "is_module", is_flag=True, help="PROGRAM is a module's name, as of python -m.")
@output.file_options
@click.option(
    "--inherit/--no-inherit",
    default=True,
    help="Ranks that PROGRAM starts (paddle.distributed.launch, spawn) are in the mode, too; the default.",
)
@click.option("--quiet", is_flag=True, help="Say nothing at the end.")
@mode_options
@click.argument("program_name", metavar="PROGRAM")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
def command(
    reference: bool,
    compare: bool,
    is_module: bool,
    inherit: bool,
    quiet: bool,
    program_name: str,
    arguments: tuple[str, ...],
    **words: Any,
) -> Callable[[], int]:
    """Run an unchanged program with all of its Paddle calls inside of a mode, and print the run's summary on standard error at the
    end, also after an error, sys.exit or Ctrl-C."""
    if reference and compare:
        raise click.UsageError(tr("--reference and --compare exclude each other"))
    files = {name: words.pop(name) for name in ("html", "markdown", "data")}
    options, settings = chosen("compare" if compare else "reference", words)
    started = (program.module if is_module else program.script)(program_name, arguments)
    if options.log is not None:
        try_folder(options.log, "the log ")
        object.__setattr__(options, "log", _absolute(options.log))  # the program may go elsewhere before it imports Paddle
    report = partial(_report, files={name: _absolute(path) for name, path in files.items()}, quiet=quiet)
    return watched(started, lambda: _mode(options, settings), report, Ranks(options, settings) if inherit else None)


def _mode(options: ModeOptions, settings: dict[str, Setting]) -> Any:
    """The mode of these options; imports Torch."""
    from ..modes.opening import opened

    return opened(options, settings)


def _report(run: Any, remarks: list[str], *, files: Mapping[str, str | None], quiet: bool) -> None:
    """What is written when the program has ended."""
    if run is None:
        remarks = [*remarks, tr("nothing was observed: {why}", why=not_imported("paddle"))]
    if not quiet:
        for remark in remarks:
            print(f"{WHO}{remark}", file=sys.stderr)
    if run is None:
        return
    if not quiet:
        print(output.as_text(run, sys.stderr), file=sys.stderr)
    writing = {"html": output.write_page, "markdown": output.write_markdown, "data": output.write_json}
    for name, write in writing.items():
        try:
            write(files[name], run, None if quiet else WHO)
        except PadiffShimError as error:
            print(f"{WHO}{error}", file=sys.stderr)


def _absolute(path: str | None) -> str | None:
    """A path that stays the same wherever the program goes."""
    return path if path in (None, "-") else os.path.abspath(path)
