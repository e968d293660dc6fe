"""The commands, and the form of their ``--help``.

A command is a module of this folder with a click command named ``command``, and a name in :data:`COMMANDS`. It is imported when it
is called, and imports the frameworks inside functions only. It returns its exit status (None: 0; :mod:`.main` names them), or a
function that returns one and runs outside of click. Options of a mode come from ``modes/options.py`` by :mod:`.run`.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from rich.cells import cell_len

from .. import __version__
from ..errors import nearest
from ..present.text import folded
from ..text import LANGUAGE_VARIABLE, LANGUAGES, Sentence, current, joined, marked, tr

LANGUAGE_OPTION = "lang"
_WIDTH, _OPTIONS = 100, 34  # columns of help, and of those what stands before the help of an option
COMMANDS = ("doctor", "run", "prove", "transfer", "record", "diff", "bisect", "log", "audit", "gate")

_EPILOG = """\
\b
Examples:
  padiff-shim doctor
  padiff-shim run train.py --epochs 3
  padiff-shim run --compare --log runs/monday train.py
  padiff-shim prove port.py:build original.py:build --inputs x.npy
  padiff-shim prove port.py:build original.py:build --inputs x.npy \\
      --train AdamW --report align.md
  padiff-shim transfer --torch model.safetensors --paddle port.py:build \\
      --output model.pdparams
  padiff-shim log runs/monday --html monday.html
  padiff-shim log runs/monday --repro worst
  padiff-shim record here train.py
  padiff-shim diff here there

Exit status: 0, 1 if the answer is no, 2 if there is no answer (wrong arguments, missing files or frameworks).
`padiff-shim COMMAND --help` has examples of each.
"""


# What has a name in Python and is an option here.
_OF_PYTHON = {"compare": "run --compare", "reference": "run", "bits": "prove --bits", "drift": "prove --drift"}


class Commands(click.Group):
    """The group of :data:`COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f".{cmd_name}", __package__).command
        return readable(command)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """In the reader's language."""
        with translated_help(self):
            super().format_help(ctx, formatter)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """As in click, but the error for an unknown command names the nearest ones."""
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            known, names = _OF_PYTHON.get(args[0]), ", ".join(COMMANDS)
            near = tr(" Did you mean {names}?", names=known) if known else did_you_mean(args[0], COMMANDS)
            ctx.fail(str(tr("no command {name}.{near} There are: {names}.", name=repr(args[0]), near=near, names=names)))
        return super().resolve_command(ctx, args)


def readable(command: click.Command) -> click.Command:
    """The command with ``--lang``, and its help in the reader's language."""
    if all(parameter.name != LANGUAGE_OPTION for parameter in command.params):
        for option in (each for each in command.params if isinstance(each, click.Option) and each.required):
            option.type = copy.copy(option.type)  # one of click's for all
            option.type.get_missing_message = lambda param, ctx=None: str(tr(param.help))  # type: ignore[method-assign,misc]
        command.params.append(_language_option())
        written = command.format_help

        def format_help(ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with translated_help(command):
                written(ctx, formatter)

        command.format_help = format_help  # type: ignore[method-assign]
        command.get_short_help_str = lambda limit=0: str(tr(command.short_help or ""))  # type: ignore[method-assign]
    return command


def _language_option() -> click.Option:
    def choose(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            os.environ[LANGUAGE_VARIABLE] = value  # so that what the command starts speaks it, too

    words = marked("Language of the output: en or zh; default: as PADIFF_SHIM_LANG or the locale say.")
    names = [f"--{LANGUAGE_OPTION}"]
    return click.Option(names, type=click.Choice(list(LANGUAGES)), expose_value=False, is_eager=True, callback=choose, help=words)


def choose_language(arguments: Sequence[str]) -> None:
    """What ``--lang`` says, before click reads a command line that it may refuse, or answers ``--help`` in front of it.

    Behind ``run`` and ``record`` stands a program with arguments of its own: there click alone knows whose ``--lang`` it is.
    """
    if {"run", "record"}.isdisjoint(arguments):
        for word, after in zip(arguments, [*arguments[1:], ""]):
            name, sign, value = word.partition("=")
            value = value if sign else after
            if name == f"--{LANGUAGE_OPTION}" and value in LANGUAGES:
                os.environ[LANGUAGE_VARIABLE] = value


@contextlib.contextmanager
def translated_help(command: click.Command) -> Iterator[None]:
    """The help of a command and of its options in the reader's language meanwhile."""
    if current() == "en":
        yield
        return
    width = min(max(shutil.get_terminal_size().columns, 80), _WIDTH)
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    written = command.help, command.epilog, [option.help for option in options]
    command.help = _translated(command.help, width - 4)
    for option in options:
        option.help = _translated(option.help, width - _OPTIONS)
        if option.help and (option.required or option.show_default):  # click writes so behind it, without a look at the width
            behind = 8 if option.required else 24
            option.help += "\n" * (cell_len(option.help.rpartition("\n")[2]) + behind > width - _OPTIONS)
    if command.epilog:
        command.epilog = "\n\n".join(_lines(paragraph, width - 4) for paragraph in command.epilog.strip().split("\n\n"))
    try:
        yield
    finally:
        command.help, command.epilog, helps = written
        for option, text in zip(options, helps):
            option.help = text


def _lines(paragraph: str, width: int) -> str:
    """A paragraph of an epilog, line by line."""
    lines = [str(tr(line)) for line in paragraph.removeprefix("\b\n").split("\n")]
    return "\b\n" + "\n".join(lines if paragraph.startswith("\b") else [part for line in lines for part in folded(line, width)])


def _translated(text: str | None, width: int) -> str | None:
    """A translation in lines that click leaves as they are: it counts signs, of which Chinese ones are two columns wide."""
    if not text or text.startswith("\b"):
        return text
    translation = str(text if isinstance(text, Sentence) else tr(inspect.cleandoc(text)))
    return "\n\n".join("\b\n" + "\n".join(folded(paragraph, width)) for paragraph in translation.split("\n\n"))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The nearest of ``names`` as a sentence, or nothing."""
    near = nearest(name, names)
    return str(tr(" Did you mean {names}?", names=joined(" or ", near))) if near else ""


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH})
@click.version_option(__version__, "--version", message="padiff_shim %(version)s")
def app() -> None:
    """Is a Paddle port wrong, or is a framework's kernel? padiff_shim runs an unchanged Paddle program on Torch's kernels, or on
    both, and says which side is wrong, where and why."""


app.params.append(_language_option())


# ---- click's own words, in the reader's language: usage, headings, and errors of a command line.

# Of click 8.1 to 8.5, as far as these commands show them. A text that is not here is shown as click writes it.
WORDS = (
    marked("Usage:"),
    marked("Options"),
    marked("Commands"),
    marked("Positional arguments"),
    marked("Show this message and exit."),
    marked("Show the version and exit."),
    marked("default: {default}"),
    marked("env var: {var}"),
    marked("required"),
    marked("Try '{command} {option}' for help."),
    marked("Error: {message}"),
    marked("Missing command."),
    marked("Missing argument"),
    marked("Missing option"),
    marked("Missing parameter"),
    marked("Missing {param_type}"),
    marked("Missing parameter: {param_name}"),
    marked("Invalid value: {message}"),
    marked("Invalid value for {param_hint}: {message}"),
    marked("No such option {name!r}."),
    marked("No such option: {name}"),
    marked("Did you mean {possibility}?"),
    marked("(Did you mean one of: {possibilities}?)"),
    marked("(Possible options: {possibilities})"),
    marked("Option {name!r} does not take a value."),
    marked("Option {name!r} requires an argument."),
    marked("Option {name!r} requires {nargs} arguments."),
    marked("Argument {name!r} takes {nargs} values."),
    marked("Got unexpected extra argument ({args})"),
    marked("Got unexpected extra arguments ({args})"),
    marked("Choose from:\n\t{choices}"),
    marked("{value!r} is not {choice}."),
    marked("{value!r} is not one of {choices}."),
    marked("{value!r} is not a valid {number_type}."),
    marked("{value} is not in the range {range}."),
    marked("file"),
    marked("directory"),
    marked("path"),
    marked("{name} {filename!r} does not exist."),
    marked("{name} {filename!r} is a file."),
    marked("{name} {filename!r} is a directory."),
    marked("{name} {filename!r} is not readable."),
    marked("{name} {filename!r} is not writable."),
)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """click's words in the reader's language meanwhile.

    click asks gettext, by the names ``_`` and ``ngettext`` of its modules; but gettext's domain and locale are those of the whole
    process, and belong to the program that a command runs.
    """
    words = {"_": _word, "ngettext": lambda single, several, number: _word(single if number == 1 else several)}
    modules = [module for name, module in sys.modules.items() if name.startswith("click.")]
    before = [(module, name, getattr(module, name)) for module in modules for name in words if hasattr(module, name)]
    for module, name, _ in before:
        setattr(module, name, words[name])
    try:
        yield
    finally:
        for module, name, own in before:
            setattr(module, name, own)


def _word(message: str) -> str:
    return str(tr(message)) if message in WORDS else message
