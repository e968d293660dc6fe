"""The options of the modes as options of a command, made from ``padiff_shim.modes.options``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import click

from ..modes.options import MODES, ModeOptions, Setting, kind_of, resolved, textual
from ..text import marked, tr

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
