"""Options from outside of a call: the environment and settings files.

``PADIFF_SHIM_OPS=linear,norm`` in the environment; or, in the current folder or the nearest one above it that has such a table::

    [tool.padiff_shim]      # pyproject.toml           [padiff_shim]        # setup.cfg
    ops = ["linear"]                                   ops = linear, norm
    keep_inputs = 20                                   keep_inputs = 20

The names are those of the options; each mode takes those that it has. A call's own arguments come first, then the environment, then
the file, then the default.
"""

from __future__ import annotations

import configparser
import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeVar

from ..errors import ArgumentError, PadiffShimError, UnknownNameError, described, toml, unknown, unreadable
from .options import MODES, Options, kind_of, textual

PREFIX = "PADIFF_SHIM_"
RUN = "PADIFF_SHIM_RUN"  # no setting: how `padiff-shim run` tells the ranks of its program of itself
_TABLES = {
    "pyproject.toml": re.compile(rb"^\s*\[\s*tool\s*\.\s*['\"]?padiff_shim\b", re.MULTILINE),
    "setup.cfg": re.compile(rb"^\[padiff_shim\]", re.MULTILINE),
}
# Heads as other tools have them, and the command's spelling: what stands below them would be passed over in silence.
_MISSPELT = re.compile(rb"^\s*\[\s*(?:tool\s*[.:]\s*)?['\"]?padiff[-_]?shim['\"]?\s*\]", re.MULTILINE | re.IGNORECASE)
_Opener = TypeVar("_Opener", bound=Callable[..., Any])


@dataclass(frozen=True)
class Setting:
    """A value that was found outside of a call, and where."""

    value: Any
    origin: str  # "PADIFF_SHIM_OPS", "ops in [tool.padiff_shim] of /work/pyproject.toml"


def outside(mode: type[Options]) -> dict[str, Setting]:
    """What the environment and the settings file say of the options that ``mode`` has, checked.

    Raises:
        ArgumentError: a name that no mode has (the nearest are named), or a value that the option does not accept.
        MissingFrameworkError: the file is TOML, and this Python has no reader of it.
    """
    known = _known()
    found: dict[str, Setting] = {}
    for name, setting in (*_from_file(), *_from_environment()):
        if name not in known:
            raise _not_known(name, setting, known)
        _check(name, setting)
        found[name] = setting
    mine = textual(mode)
    return {name: setting for name, setting in found.items() if name in mine}


@functools.cache
def _known() -> Mapping[str, Any]:
    """Every option that can stand outside of a call -> its field."""
    return {name: one for mode in MODES.values() for name, one in textual(mode).items()}


def _not_known(name: str, setting: Setting, known: Iterable[str]) -> ArgumentError:
    only = {one.name for mode in MODES.values() for one in fields(mode)} - set(known)
    if name in only:
        return ArgumentError(f"{setting.origin}: {name}= takes a function, which only a call can give")
    if setting.origin.startswith(PREFIX):
        return unknown("setting", setting.origin, (f"{PREFIX}{one.upper()}" for one in known), prefix=PREFIX)
    return ArgumentError(f"{setting.origin}: {unknown('setting', name, known)}")


def _check(name: str, setting: Setting) -> None:
    try:
        kind_of(_known()[name]).checked(name, setting.value)
    except PadiffShimError as error:
        raise ArgumentError(f"{error} ({setting.origin})") from None


def _from_environment() -> Iterator[tuple[str, Setting]]:
    known = _known()
    for variable in sorted(name for name in os.environ if name.startswith(PREFIX) and name != RUN):
        name, text = variable[len(PREFIX) :].lower(), os.environ[variable]
        yield name, Setting(kind_of(known[name]).from_text(text) if name in known else text, variable)


def _from_file() -> Iterator[tuple[str, Setting]]:
    path = settings_file()
    if path is None:
        return
    table, known = _table(path), _known()
    where = f"in [{'tool.' if path.suffix == '.toml' else ''}padiff_shim] of {path}"
    for name, value in table.items():
        kind = kind_of(known[name]) if name in known else None
        if kind is not None and isinstance(value, str):  # in TOML, too: steps = "10:20"
            value = kind.from_text(value)
        yield name, Setting(value, f"{name} {where}")


def settings_file() -> Path | None:
    """The file that holds settings: in the current folder or the nearest above that has one, pyproject.toml before setup.cfg.

    Raises:
        ArgumentError: one of them has such a table under a name that is not read.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:  # somebody removed the current folder
        return None
    for folder in (here, *here.parents):
        for name in _TABLES:
            path = folder / name
            try:
                stat = path.stat()
                has_table, misspelt = _heads(path, stat.st_mtime_ns, stat.st_size) if S_ISREG(stat.st_mode) else (False, "")
            except OSError:
                continue  # not ours to complain of: whether it has our table is not known
            if has_table:
                return path
            if misspelt:
                head = "[tool.padiff_shim]" if path.suffix == ".toml" else "[padiff_shim]"
                raise ArgumentError(f"{path}: {misspelt} is not read. Did you mean {head}?")
    return None


@functools.lru_cache(maxsize=64)
def _heads(path: Path, *_: int) -> tuple[bool, str]:
    """Whether a file has our table, and otherwise the head of one that looks like it; ``_`` tells a file that was changed."""
    text = path.read_bytes()
    misspelt = _MISSPELT.search(text)
    return _TABLES[path.name].search(text) is not None, misspelt.group().decode(errors="replace").strip() if misspelt else ""


def _table(path: Path) -> Mapping[str, Any]:
    try:
        stat = path.stat()
        return _parsed(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise unreadable("the settings file", path, error) from None
    except (ValueError, configparser.Error) as error:
        raise ArgumentError(f"{path}: {error}") from error


@functools.lru_cache(maxsize=8)
def _parsed(path: Path, *_: int) -> Mapping[str, Any]:
    """The table of settings; ``_`` tells a file that was changed."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".toml":
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(text)
        return dict(parser["padiff_shim"])
    table = toml(f"{path} holds settings").loads(text).get("tool", {}).get("padiff_shim")
    if not isinstance(table, dict):
        raise ValueError(f"tool.padiff_shim is not a table: {described(table)}")
    return table


def filled(mode: type[Options]) -> Callable[[_Opener], _Opener]:
    """A function that opens a mode, with what its call leaves open taken from outside. The run says so."""

    def decorate(opener: _Opener) -> _Opener:
        @functools.wraps(opener)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            settings = {} if kwargs.get("compare") else outside(mode)  # reference(compare=True) hands its call on to compare
            settings = {name: one for name, one in settings.items() if name not in kwargs and not (args and name == "backend")}
            with owing(settings):
                made = opener(*args, **{name: one.value for name, one in settings.items()}, **kwargs)
            remark(made.run, settings)
            return made

        return wrapper  # type: ignore[return-value]

    return decorate


@contextlib.contextmanager
def owing(settings: Mapping[str, Setting]) -> Iterator[None]:
    """A name that a mode does not know, and only now can know that, is told with where it stands, as every other setting."""
    try:
        yield
    except UnknownNameError as error:
        origins = [one.origin for one in settings.values() if _names(one.value) & set(re.findall(r"'([^']*)'", str(error))[:1])]
        raise UnknownNameError(f"{error} ({', '.join(origins)})") if origins else error from None


def _names(value: Any) -> set[str]:
    """The names that a setting holds, if it is of names."""
    return (
        {value} if isinstance(value, str) else {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()
    )


def resolved(mode: str, given: Mapping[str, Any], spelt: Callable[[str], str]) -> tuple[Options, dict[str, Setting]]:
    """The options of a mode, from what a command line gave (text, a list of texts, or a bool), then from outside.

    Args:
        mode: a name of :data:`~padiff_shim.modes.options.MODES`.
        given: what was given, by name of the option.
        spelt: how an option is spelt there, for errors.

    Returns:
        The options, and what was taken from outside, for :func:`remark`.

    Raises:
        ArgumentError: an option that this mode does not have, or a value that it does not accept.
    """
    mine, values = textual(MODES[mode]), {}
    for name, value in given.items():
        if name not in mine:
            others = [other for other in MODES if name in textual(MODES[other])]
            raise ArgumentError(f"{spelt(name)} belongs to {others[0]}") if others else unknown("option", name, mine)
        kind = kind_of(mine[name])
        if not isinstance(value, bool):
            value = kind.from_text(value if isinstance(value, str) else ",".join(value))
        _check(name, Setting(value, spelt(name)))
        values[name] = value
    settings = {name: one for name, one in outside(MODES[mode]).items() if name not in values}
    return MODES[mode](**{name: one.value for name, one in settings.items()}, **values), settings


def remark(run: Any, settings: Mapping[str, Setting]) -> None:
    """Tell the run what it owes to settings that no reader of the program sees."""
    for name, one in sorted(settings.items()):
        run.warn(f"{name}={_spelt(one.value)}: {one.origin}")


def _spelt(value: Any) -> str:
    """A value as a settings file spells it, where Python's own spelling is another: steps."""
    if not isinstance(value, slice):
        return repr(value)
    parts = [value.start, value.stop, value.step]
    return ":".join("" if part is None else str(part) for part in (parts if value.step not in (None, 1) else parts[:2]))
