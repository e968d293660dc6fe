"""click's own words, in the reader's language: usage, headings, and errors of a command line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ..text import marked, tr

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
