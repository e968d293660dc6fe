"""The options of each mode, once: calls, the command line, the environment, settings files and pytest all use them."""

from __future__ import annotations

import configparser
import contextlib
import functools
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import Any, TypeVar

from .. import arguments
from ..arguments import one_of
from ..catalogue.registry import BESIDE_OPS, ops as all_ops, optimizers, resolve
from ..comparison.sampling import fraction, in_steps, positive
from ..errors import ArgumentError, PadiffShimError, UnknownNameError, described, toml, unknown, unreadable
from ..patterns import LayerFilter
from ..text import LANGUAGE_VARIABLE, joined, marked, tr
from ..verdicts import Verdict
from .environment import frameworks

# ---- The kinds of values: how each is checked, and how it is read from text.
#
# Text comes from the environment, the command line and ``setup.cfg``. Text that cannot be read stays text, so that the check names
# it: one message for one mistake, wherever it was made.

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class OptionKind:
    """One kind of value.

    ``check``: (name, value) -> the value as it is used; raises ArgumentError. ``read``: text -> value, or the text itself.
    ``metavar``: what stands for it in ``--help``. ``unset``: what else than a value it may be: None. ``words``: all there are, if
    they can be listed. ``several``: a list; on the command line the option may be repeated. ``textual``: can be text at all.
    """

    check: Callable[[str, Any], Any]
    read: Callable[[str], Any] = str
    metavar: str = ""
    unset: bool = False
    words: tuple[str, ...] = ()
    several: bool = False
    textual: bool = True

    def checked(self, name: str, value: Any) -> Any:
        """``value``, as it is used.

        Raises:
            ArgumentError: it is not accepted; the message says what is.
        """
        return None if self.unset and value is None else self.check(name, value)

    def from_text(self, text: str) -> Any:
        """What ``text`` means; ``none`` and nothing at all mean that the option is not set, where that is possible."""
        if self.unset and text.strip().lower() in ("", "none"):
            return None
        return self.read(text.strip())


def _flag(text: str) -> Any:
    return text.lower() in _TRUE if text.lower() in (*_TRUE, *_FALSE) else text


def _number(text: str) -> Any:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else text


def _list(text: str) -> Any:
    return [word.strip() for word in re.split(r"[,\n]", text) if word.strip()]


def _numbers(text: str) -> Any:
    """``"3"``, ``"10:20"``, ``"10:20:2"``, ``"5:"``, ``"0,4,8"``."""
    if re.fullmatch(r"[0-9]{0,18}(:[0-9]{0,18}){1,2}", text):
        return slice(*(int(part) if part else None for part in text.split(":")))
    if re.fullmatch(r"[0-9]{1,18}(\s*,\s*[0-9]{1,18})+", text):
        return [int(part) for part in text.split(",")]
    return _number(text)


def _members(text: str) -> Any:
    """As :func:`_numbers`, for what can be asked whether a number is in it."""
    numbers = _numbers(text)
    if not isinstance(numbers, slice):
        return numbers
    return range(numbers.start or 0, 2**31 if numbers.stop is None else numbers.stop, numbers.step or 1)


def _steps(name: str, value: Any) -> Any:
    in_steps(value)
    return value


def _budget(name: str, value: Any) -> Any:
    fraction(value)
    return value


def _ranks(name: str, value: Any) -> Any:
    if isinstance(value, Container) and not isinstance(value, (str, bytes)):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(
            "{name}= is the number of a process, a range or a set of them, got {value}", name=name, value=described(value)
        )
    return value


def word(accepted: Iterable[str]) -> OptionKind:
    """One of some words."""
    words = tuple(map(str, accepted))
    return OptionKind(lambda name, value: arguments.one_of(name, value, words), metavar="WORD", words=words)


def whole(least: int = 0) -> OptionKind:
    """A whole number."""
    return OptionKind(lambda name, value: arguments.whole(name, value, least), _number, "N")


def function(of: str) -> OptionKind:
    """Something to call, or None."""
    return OptionKind(lambda name, value: arguments.function(name, value, of), unset=True, textual=False)


FLAG = OptionKind(arguments.flag, _flag)
MAYBE = OptionKind(arguments.flag, _flag, unset=True)  # None: decided by the other options
NAMES = OptionKind(arguments.names, _list, "NAME", several=True)
MAYBE_NAMES = OptionKind(arguments.names, _list, "NAME", unset=True, several=True)
LAYERS = OptionKind(lambda name, value: list(LayerFilter(value, name).patterns), _list, "PATTERN", unset=True, several=True)
PATH = OptionKind(arguments.path, metavar="PATH", unset=True)
COUNT = OptionKind(positive, _number, "N", unset=True)
STEPS = OptionKind(_steps, _numbers, "STEPS", unset=True)
RANKS = OptionKind(_ranks, _members, "RANKS", unset=True)
BUDGET = OptionKind(_budget, lambda text: float(text) if re.fullmatch(r"\d*\.\d+|\d+\.?", text) else text, "SHARE", unset=True)
ANYTHING = OptionKind(lambda name, value: value, metavar="WORD")  # checked where it is used


# ``reference`` and ``compare`` have the same names and defaults in their signatures; a test compares them.

LAYOUTS = ("contiguous", "copy", "view")  # what linear_layout= may be
STATIC = ("compiled", "eager")  # what to_static= may be
WHOSE = ("paddle", "torch")  # whose random numbers, and whose definition of an optimizer or an op
CARRIES = ("native", "torch")
ACTIONS = ("log", "warn", "raise")  # what on_mismatch= may be
LOG_ERRORS = ("warn", "raise")


def _of(kind: OptionKind, help: str) -> dict[str, Any]:
    return {"kind": kind, "help": help}


@dataclass(frozen=True)
class ModeOptions:
    """The options of all modes. Values are checked and made uniform when an object is made.

    Raises:
        ArgumentError: a value is not accepted. Names of ops are looked up when a mode is made of the options, as they need Torch.
    """

    backend: str = field(default="torch", metadata=_of(ANYTHING, "Whose kernels; torch."))
    ops: Any = field(default=None, metadata=_of(MAYBE_NAMES, "Only these ops or families."))
    exclude: Any = field(default=(), metadata=_of(NAMES, "Not these ops or families."))
    layers: Any = field(
        default=None, metadata=_of(LAYERS, "Only calls inside layers whose path matches, such as 'encoder.layers.*.linear1'.")
    )
    linear_layout: str = field(
        default="contiguous",
        metadata=_of(word(LAYOUTS), "How Torch gets a Linear's weight: in its own order, always by a copy, or as a view."),
    )
    to_static: str = field(
        default="compiled",
        metadata=_of(word(STATIC), "How functions of to_static run: compiled, or eager: op by op, so that they are seen."),
    )
    all_threads: bool = field(default=False, metadata=_of(FLAG, "Also in threads that have no mode of their own."))
    log: Any = field(default=None, metadata=_of(PATH, "Folder of the log."))

    def __post_init__(self) -> None:
        for option in fields(self):
            object.__setattr__(self, option.name, kind_of(option).checked(option.name, getattr(self, option.name)))


@dataclass(frozen=True)
class ReferenceOptions(ModeOptions):
    """The options of :func:`padiff_shim.reference`."""

    strict: bool = field(default=False, metadata=_of(FLAG, "Raise at the first float op call that stays native."))
    optimizer: str = field(
        default="paddle", metadata=_of(word(WHOSE), "Whose definition of an optimizer's step, where they differ.")
    )
    random: str = field(
        default="paddle", metadata=_of(word(WHOSE), "Whose generator dropout, initializers and samplers draw from.")
    )
    definitions: Any = field(
        default="paddle",
        metadata=_of(NAMES, "Whose definition where one name means two things: paddle, torch, or ops in Torch's."),
    )
    kernels: str = field(
        default="torch",
        metadata=_of(word(WHOSE), "What answers where Paddle has no kernel: torch's, or its own error."),
    )
    profile: bool = field(default=False, metadata=_of(FLAG, "Note the layer, line and time of every call, for the page."))


@dataclass(frozen=True)
class CompareOptions(ModeOptions):
    """The options of :func:`padiff_shim.compare`."""

    steps: Any = field(default=None, metadata=_of(STEPS, "In these steps only: 3, 10:20, 0:100:10 or 0,5,9."))
    ranks: Any = field(default=None, metadata=_of(RANKS, "In processes of these ranks only: 0, 0:2 or 0,3."))
    every: int | None = field(default=None, metadata=_of(COUNT, "Each n-th call of a kind: op, shapes and dtypes."))
    first: int | None = field(default=None, metadata=_of(COUNT, "The first ones of a kind, then with probability first / n."))
    budget: str | float | None = field(
        default=None, metadata=_of(BUDGET, "Time that comparing may take: 10% or 0.1 of the native time.")
    )
    carry: str = field(default="native", metadata=_of(word(CARRIES), "Whose results the program goes on with."))
    on_mismatch: str = field(default="log", metadata=_of(word(ACTIONS), "What a verdict from mismatch_from up leads to."))
    mismatch_from: str = field(
        default=str(Verdict.LOW_ACCURACY), metadata=_of(word(Verdict), "From which verdict on_mismatch acts.")
    )
    callback: Any = field(
        default=None, metadata=_of(function(marked("one record")), "Called with the record of each such verdict.")
    )
    equal: Any = field(
        default=None, metadata=_of(function(marked("two arrays and a name")), "A comparator of your own, for what differs.")
    )
    on_log_error: str = field(default="warn", metadata=_of(word(LOG_ERRORS), "When the log cannot be written."))
    known_differences: Any = field(default=None, metadata=_of(PATH, "A file of known differences, to name or mute them."))
    audit: int = field(default=16, metadata=_of(whole(), "One in so many equal results of a place is checked, too; 0: none."))
    screening: bool | None = field(
        default=None, metadata=_of(MAYBE, "Do not judge again what was rounding at its place; default with a budget.")
    )
    keep_inputs: int = field(default=8, metadata=_of(whole(), "Save the operands of so many serious calls, for repro."))
    exact: bool = field(default=True, metadata=_of(FLAG, "Compare ops that move or choose values, too."))
    shadow: bool = field(default=False, metadata=_of(FLAG, "Tell incoming from local error; costs a second forward pass."))
    progress: bool = field(default=True, metadata=_of(FLAG, "A live line on long runs, on terminals."))
    seed: int = field(default=0, metadata=_of(whole(), "Of the sample of outputs that are checked."))


def kind_of(option: Field[Any]) -> OptionKind:
    """The kind of an option's values."""
    kind: OptionKind = option.metadata["kind"]
    return kind


def textual(mode: type[ModeOptions]) -> dict[str, Field[Any]]:
    """The options of a mode that text can set, by name."""
    return {option.name: option for option in fields(mode) if kind_of(option).textual}


def as_data(value: Any) -> Any:
    """A value of an option as JSON holds it, for another process that opens the same mode (:func:`from_data`)."""
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, (list, tuple)):
        return [as_data(entry) for entry in value]
    return str(value) if isinstance(value, PurePath) else value


def from_data(data: Any) -> Any:
    """The inverse of :func:`as_data`."""
    if isinstance(data, dict):
        ((name, numbers),) = data.items()
        return {"slice": slice, "range": range}[name](*numbers)
    return [from_data(entry) for entry in data] if isinstance(data, list) else data


MODES: dict[str, type[ModeOptions]] = {"reference": ReferenceOptions, "compare": CompareOptions}


# ---- Options from outside of a call: the environment and settings files.
#
# ``PADIFF_SHIM_OPS=linear,norm`` in the environment; or, in the current folder or the nearest one above it that has such a table::
#
#     [tool.padiff_shim]      # pyproject.toml           [padiff_shim]        # setup.cfg
#     ops = ["linear"]                                   ops = linear, norm
#     keep_inputs = 20                                   keep_inputs = 20
#
# The names are those of the options; each mode takes those that it has. A call's own arguments come first, then the environment,
# then the file, then the default.

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


def outside(mode: type[ModeOptions]) -> dict[str, Setting]:
    """What the environment and the settings file say of the options that ``mode`` has, checked.

    Raises:
        ArgumentError: a name that no mode has (the nearest are named), or a value that the option does not accept.
        MissingFrameworkError: the file is TOML, and this Python has no reader of it.
    """
    known = _known()
    settings: dict[str, Setting] = {}
    for name, setting in (*_from_file(), *_from_environment()):
        if name not in known:
            raise _not_known(name, setting, known)
        _check(name, setting)
        settings[name] = setting
    own = textual(mode)
    return {name: setting for name, setting in settings.items() if name in own}


@functools.cache
def _known() -> Mapping[str, Any]:
    """Every option that can stand outside of a call -> its field."""
    return {name: option for mode in MODES.values() for name, option in textual(mode).items()}


def _not_known(name: str, setting: Setting, known: Iterable[str]) -> ArgumentError:
    only = {option.name for mode in MODES.values() for option in fields(mode)} - set(known)
    if name in only:
        return ArgumentError("{origin}: {name}= takes a function, which only a call can give", origin=setting.origin, name=name)
    if setting.origin.startswith(PREFIX):
        return unknown(tr("setting"), setting.origin, (f"{PREFIX}{option.upper()}" for option in known), prefix=PREFIX)
    return ArgumentError(joined(": ", (setting.origin, unknown(tr("setting"), name, known))))


def _check(name: str, setting: Setting) -> None:
    try:
        kind_of(_known()[name]).checked(name, setting.value)
    except PadiffShimError as error:
        raise ArgumentError("{error} ({origin})", error=error, origin=setting.origin) from None


def _from_environment() -> Iterator[tuple[str, Setting]]:
    known = _known()
    for variable in sorted(name for name in os.environ if name.startswith(PREFIX) and name not in (RUN, LANGUAGE_VARIABLE)):
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
        folders = _upwards(os.getcwd())
    except FileNotFoundError:  # somebody removed the current folder
        return None
    for folder in folders:
        for name in _TABLES:
            path = os.path.join(folder, name)
            try:
                stat = os.stat(path)
                has_table, misspelt = _heads(path, stat.st_mtime_ns, stat.st_size) if S_ISREG(stat.st_mode) else (False, "")
            except OSError:
                continue  # not ours to complain of: whether it has our table is not known
            if has_table:
                return Path(path)
            if misspelt:
                head = "[tool.padiff_shim]" if name.endswith(".toml") else "[padiff_shim]"
                raise ArgumentError("{path}: {misspelt} is not read. Did you mean {head}?", path=path, misspelt=misspelt, head=head)
    return None


@functools.lru_cache(maxsize=8)
def _upwards(folder: str) -> list[str]:
    """A folder and those above it: modes are opened by the thousand, and each looks for settings."""
    return [folder, *map(str, Path(folder).parents)]


@functools.lru_cache(maxsize=64)
def _heads(path: str, *_: int) -> tuple[bool, str]:
    """Whether a file has our table, and otherwise the head of one that looks like it; ``_`` tells a file that was changed."""
    file = Path(path)
    text = file.read_bytes()
    misspelt = _MISSPELT.search(text)
    return _TABLES[file.name].search(text) is not None, misspelt.group().decode(errors="replace").strip() if misspelt else ""


def _table(path: Path) -> Mapping[str, Any]:
    try:
        stat = path.stat()
        return _parsed(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise unreadable(tr("the settings file"), path, error) from None
    except (ValueError, configparser.Error) as error:
        raise ArgumentError(joined(": ", (path, error))) from error


@functools.lru_cache(maxsize=8)
def _parsed(path: Path, *_: int) -> Mapping[str, Any]:
    """The table of settings; ``_`` tells a file that was changed."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".toml":
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(text)
        return dict(parser["padiff_shim"])
    table = toml(tr("{path} holds settings", path=path)).loads(text).get("tool", {}).get("padiff_shim")
    if not isinstance(table, dict):
        raise ValueError(tr("tool.padiff_shim is not a table: {table}", table=described(table)))
    return table


def filled(mode: type[ModeOptions]) -> Callable[[_Opener], _Opener]:
    """A function that opens a mode, with what its call leaves open taken from outside. The run says so."""

    def decorate(opener: _Opener) -> _Opener:
        @functools.wraps(opener)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            settings = {} if kwargs.get("compare") else outside(mode)  # reference(compare=True) hands its call on to compare
            settings = {
                name: setting for name, setting in settings.items() if name not in kwargs and not (args and name == "backend")
            }
            with owing(settings):
                made = opener(*args, **{name: setting.value for name, setting in settings.items()}, **kwargs)
            remark(made.run, settings)
            return made

        return wrapper  # type: ignore[return-value]

    return decorate


@contextlib.contextmanager
def owing(settings: Mapping[str, Setting]) -> Iterator[None]:
    """An error about a name that only an open mode can look up says where the setting stands, as all errors of settings do."""
    try:
        yield
    except UnknownNameError as error:
        origins = [
            setting.origin for setting in settings.values() if _names(setting.value) & set(re.findall(r"'([^']*)'", str(error))[:1])
        ]
        raise (UnknownNameError("{error} ({origins})", error=error, origins=joined(", ", origins)) if origins else error) from None


def _names(value: Any) -> set[str]:
    """The names that a setting holds, if it is of names."""
    return (
        {value}
        if isinstance(value, str)
        else {name for name in value if isinstance(name, str)}
        if isinstance(value, list)
        else set()
    )


def resolved(mode: str, texts: Mapping[str, Any], spelt: Callable[[str], str]) -> tuple[ModeOptions, dict[str, Setting]]:
    """The options of a mode, from what a command line gave (text, a list of texts, or a bool), then from outside.

    Args:
        mode: a name of :data:`~padiff_shim.modes.options.MODES`.
        texts: what the command line gave, by name of the option.
        spelt: how an option is spelt there, for errors.

    Returns:
        The options, and what was taken from outside, for :func:`remark`.

    Raises:
        ArgumentError: an option that this mode does not have, or a value that it does not accept.
    """
    own, values = textual(MODES[mode]), {}
    for name, value in texts.items():
        if name not in own:
            others = [other for other in MODES if name in textual(MODES[other])]
            raise (
                ArgumentError("{name} belongs to {other}", name=spelt(name), other=others[0])
                if others
                else unknown(tr("option"), name, own)
            )
        kind = kind_of(own[name])
        if not isinstance(value, bool):
            value = kind.from_text(value if isinstance(value, str) else ",".join(value))
        _check(name, Setting(value, spelt(name)))
        values[name] = value
    settings = {name: setting for name, setting in outside(MODES[mode]).items() if name not in values}
    return MODES[mode](**{name: setting.value for name, setting in settings.items()}, **values), settings


def remark(run: Any, settings: Mapping[str, Setting]) -> None:
    """Tell the run what it owes to settings that no reader of the program sees."""
    for name, setting in sorted(settings.items()):
        run.warn(f"{name}={_spelt(setting.value)}: {setting.origin}")


def _spelt(value: Any) -> str:
    """A value as a settings file spells it, where Python's own spelling is another: steps."""
    if not isinstance(value, slice):
        return repr(value)
    parts = [value.start, value.stop, value.step]
    return ":".join("" if part is None else str(part) for part in (parts if value.step not in (None, 1) else parts[:2]))


# ---- What the options that all modes share select.

BACKENDS = ("torch",)


def _check_backend(backend: Any, opener: str) -> None:
    """The first argument; for a model or a function, a common slip, the error says what to write."""
    if isinstance(backend, str) or not callable(backend):
        if not isinstance(backend, str) or backend not in BACKENDS:
            raise unknown("backend", backend, BACKENDS)
        return
    kind = f"padiff_shim.{opener}"
    if hasattr(backend, "named_sublayers"):
        use = tr('call the model inside `with {opener}("torch") as run:`', opener=kind)
    else:
        use = tr('write `@{opener}("torch")` above the function, or call it inside `with {opener}("torch") as run:`', opener=kind)
    name = getattr(backend, "__qualname__", type(backend).__qualname__)
    raise ArgumentError(
        "backend= is the name of a framework, {backends}, got {name}: {use}",
        backends=joined(" or ", map(repr, BACKENDS)),
        name=name,
        use=use,
    )


def selection(options: ModeOptions, *, opener: str) -> tuple[frozenset[str], LayerFilter | None]:
    """What all modes look up: the enabled ops and the layer filter (or None)."""
    _check_backend(options.backend, opener)
    frameworks()
    enabled = _everything() if options.ops is None else resolve(options.ops, "ops")
    if options.exclude:
        enabled -= resolve(options.exclude, "exclude")
    if not enabled:
        raise UnknownNameError("no op is left to substitute: ops= selects nothing, or exclude= takes away everything it selects")
    return enabled, None if options.layers is None else LayerFilter(options.layers)


@functools.cache
def _everything() -> frozenset[str]:
    return frozenset(all_ops()) | optimizers()


@functools.cache
def _differing() -> tuple[str, ...]:
    return (*(name for name, op in all_ops().items() if op.definition is not None), *BESIDE_OPS)


def by_torchs_definition(definitions: list[str]) -> frozenset[str]:
    """Names of the ops that ``definitions=`` wants computed as Torch defines them."""
    chosen = [one_of("definitions", name, (*WHOSE, *_differing())) for name in definitions]
    if "torch" in chosen:
        return frozenset(_differing())
    return frozenset(chosen) - {WHOSE[0]}
