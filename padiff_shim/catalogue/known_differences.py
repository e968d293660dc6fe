"""Known differences: names and reasons for verdicts, from the shipped table or from the user's own file.

A file is TOML or JSON with the same keys::

    [[known]]
    name = "our gelu"                 # required: its name in the log and the report
    op = "gelu"                       # required: an op's name, a pattern, or a list of them
    reason = "we accept the tanh form in the encoder"        # required
    verdict = ["SEMANTICS", "WRONG"]  # required: the classes that this entry explains
    side = "paddle"                   # everything from here on is optional and narrows the match
    hypothesis = "gelu-*"
    phase = "forward"                 # or "backward"
    tensor = "grad:*"                 # "out", "grad:x", ...
    dtype = ["float32", "float64"]
    layer = "encoder.layers.*"
    site = "*train.py:*"
    rho_max = 100                     # largest error of the named side that this entry explains, in units of rounding
    paddle = ">=3.3,<3.4"             # versions; likewise torch = "..."
    mute = true                       # counted and shown, but never the worst call, never a warning or an error

    [[known]]                         # an entry of the shipped table, by name alone
    name = "sequential sum"
    mute = true

A record matches an entry if it matches every key that the entry has. Patterns are those of :mod:`fnmatch` (``*``, ``?``,
``[...]``), case-sensitive; ``layer`` works like ``layers=`` of a mode, so that a match covers all layers below. The user's entries
come before the shipped ones, each table from top to bottom; the first match wins.

With ``hypothesis`` the formula of that name must explain all of the error: if another fault remains (the modifier ``partly``), the
entry does not match. All shipped entries have a hypothesis. An entry without ``hypothesis`` and ``rho_max`` covers every difference
of its op and class, however large.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..arguments import path as file
from ..errors import ArgumentError, toml, unknown, unreadable
from ..language import joined, tr
from ..patterns import LayerFilter, named
from ..tested import numbers
from ..verdicts import PARTLY, Side, Verdict

_NAMES = ("op", "hypothesis", "tensor", "dtype", "site")
_PATTERNS = (*_NAMES, "layer")
_VERSION = re.compile(r"(==|!=|>=|<=|>|<)\s*(\d+(?:\.\d+)*)(\.\*)?")


@dataclass(frozen=True)
class Quirk:
    """A known difference. A condition that is None, or empty, matches everything.

    ``op``, ``hypothesis``, ``tensor``, ``dtype``, ``layer``, ``site``: patterns, of which one must match.
    ``verdict``: names of :class:`~padiff_shim.verdicts.Verdict` classes. ``side``: of :class:`~padiff_shim.verdicts.Side`.
    ``rho_max``: the largest error of the named side, in rounding units, that the entry still explains.
    ``paddle``, ``torch``: version ranges such as ``">=3.3,<3.4"``.
    ``mute``: the difference is counted and shown but raises nothing.
    """

    name: str
    op: tuple[str, ...]
    reason: str
    verdict: tuple[str, ...]
    side: str | None = None
    hypothesis: tuple[str, ...] = ()
    phase: str | None = None
    tensor: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    layer: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    rho_max: float | None = None
    paddle: str = ""
    torch: str = ""
    mute: bool = False

    def __post_init__(self) -> None:
        for version_range in (self.paddle, self.torch):
            _conditions(version_range)

    def matches(self, record: Mapping[str, Any], versions: Mapping[str, str]) -> bool:
        """Whether the entry explains a record of the log (docs/log.md); ``versions``: the run's ``environment``."""
        return (
            record["verdict"] in self.verdict
            and self.side in (None, record.get("side"))
            and self.phase in (None, record.get("phase"))
            and all(named(patterns, record.get(name)) for name in _NAMES if (patterns := getattr(self, name)))
            and (not self.layer or _layers(self.layer).accepts(record.get("layer") or ""))
            and not (self.hypothesis and PARTLY in (record.get("modifiers") or ()))
            and self._near_enough(record)
            and all(in_range(versions.get(name, ""), getattr(self, name)) for name in ("paddle", "torch"))
        )

    def _near_enough(self, record: Mapping[str, Any]) -> bool:
        if self.rho_max is None:
            return True
        stats, side = record.get("stats") or {}, record.get("side")
        named = ("paddle", "torch") if side in ("both", "none", None) else (side,)
        # "not <=" and not ">": NaN, and the strings in which the log writes it, are never near enough.
        return all(float((stats.get(name) or {}).get("rho_max", "nan")) <= self.rho_max for name in named)


_layers = functools.cache(LayerFilter)


@functools.cache
def _conditions(version_range: str) -> tuple[tuple[str, tuple[int, ...], bool], ...]:
    """``">=3.3,<3.4"`` -> comparisons. Raises ArgumentError for anything else."""
    conditions = []
    for part in filter(None, (part.strip() for part in version_range.split(","))):
        match = _VERSION.fullmatch(part)
        if match is None or (match[3] and match[1] not in ("==", "!=")):
            raise ArgumentError("{part} is not a version condition such as '>=3.3', '<3.4' or '==3.3.*'", part=repr(part))
        conditions.append((match[1], numbers(match[2]), bool(match[3])))
    return tuple(conditions)


def in_range(version: str, version_range: str) -> bool:
    """Whether ``"2.13.0+cpu"`` lies in ``">=2.5,<2.14"``; only release numbers count, and an unknown version lies in no range.

    Example:
        >>> from padiff_shim.catalogue.known_differences import in_range
        >>> in_range("2.13.0+cpu", ">=2.5,<2.14"), in_range("3.4.0", "==3.3.*")
        (True, False)
    """
    conditions, release = _conditions(version_range), numbers(version)
    return not conditions or (bool(release) and all(_holds(release, *condition) for condition in conditions))


def _holds(release: tuple[int, ...], sign: str, limit: tuple[int, ...], prefix: bool) -> bool:
    width = len(limit) if prefix else max(len(release), len(limit))
    a, b = ((version + (0,) * width)[:width] for version in (release, limit))
    return {"==": a == b, "!=": a != b, ">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b}[sign]


@functools.cache
def shipped() -> tuple[Quirk, ...]:
    """The table of :mod:`padiff_shim.patches._known`."""
    from ..patches._known import QUIRKS

    return tuple(_entry(entry, "padiff_shim.patches._known") for entry in QUIRKS)


def find(record: Mapping[str, Any], versions: Mapping[str, str], known: Iterable[Quirk] = ()) -> Quirk | None:
    """The first entry that explains ``record``: of ``known`` (the user's), then of the shipped table.

    Args:
        record: a "call" record of the log, or any mapping with at least ``op`` and ``verdict``.
        versions: ``{"paddle": "3.3.1", "torch": "2.13.0"}``, for example the run header's ``environment``.
    """
    for quirk in (*known, *shipped()):
        if quirk.matches(record, versions):
            return quirk
    return None


def load(path: str | Path) -> tuple[Quirk, ...]:
    """The entries of a known-differences file.

    Raises:
        FileError: the file cannot be read.
        ArgumentError: it is not TOML or JSON, or an entry is wrong; the message names the file, the entry and what is accepted.
            Also a TOML file on Python older than 3.11, which cannot read it; use JSON there.
    """
    path = file("known_differences", path)
    content = _parsed(path)
    entries = content.get("known") if isinstance(content, dict) else None
    if not isinstance(entries, list) or set(content) != {"known"}:
        raise ArgumentError("{path}: expected a list of entries named 'known' ([[known]] in TOML) and nothing beside it", path=path)
    return tuple(_entry(entry, f"{path}: entry {number}") for number, entry in enumerate(entries, 1))


def _parsed(path: Path) -> Any:
    if path.suffix.lower() == ".json":
        reader: Any = json
    else:
        reader = toml(str(path))
    try:
        return reader.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(tr("the file of known differences"), path, error) from None
    except (ValueError, RecursionError) as error:  # both decoders' errors, and UnicodeDecodeError
        raise ArgumentError(joined(": ", (path, error))) from error


def _entry(entry: Any, where: str) -> Quirk:
    """One entry, checked."""
    if not isinstance(entry, Mapping):
        raise ArgumentError("{where} is not a table of keys: {entry}", where=where, entry=repr(entry))
    names = [field.name for field in fields(Quirk)]
    where = f"{where} ({entry.get('name', 'without a name')})"
    for key in entry:
        if key not in names:
            raise ArgumentError(joined(": ", (where, unknown(tr("key"), str(key), names))))
    if set(entry) <= {"name", "mute"} and entry.get("name"):
        names = [quirk.name for quirk in shipped()]
        _among(str(entry["name"]), names, "name", where)
        return replace(shipped()[names.index(entry["name"])], mute=_value("mute", entry.get("mute", False), where))
    for key in ("name", "op", "reason", "verdict"):
        if not entry.get(key):
            raise ArgumentError("{where}: {key} is missing", where=where, key=repr(key))
    return Quirk(**{key: _value(key, value, where) for key, value in entry.items()})


def _value(key: str, value: Any, where: str) -> Any:
    """The value of a key, in the type of :class:`Quirk`."""
    if key in (*_PATTERNS, "verdict"):
        values = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, (list, tuple)) else ()
        if not values or not all(isinstance(word, str) and word for word in values):
            raise ArgumentError(
                "{where}: {key} is a string or a list of strings, not {value}", where=where, key=repr(key), value=repr(value)
            )
        for word in values if key == "verdict" else ():
            _among(word, [str(verdict) for verdict in Verdict], key, where)
        return tuple(str(word) for word in values)
    if key == "rho_max":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise ArgumentError("{where}: 'rho_max' is a number of rounding units, not {value}", where=where, value=repr(value))
        return float(value)
    if key == "mute":
        if not isinstance(value, bool):
            raise ArgumentError("{where}: 'mute' is true or false, not {value}", where=where, value=repr(value))
        return value
    if not isinstance(value, str):
        raise ArgumentError("{where}: {key} is a string, not {value}", where=where, key=repr(key), value=repr(value))
    if key in ("side", "phase"):
        _among(value, [str(side) for side in Side] if key == "side" else ["forward", "backward"], key, where)
    if key in ("paddle", "torch"):
        try:
            _conditions(value)
        except ValueError as error:
            raise ArgumentError(joined(": ", (where, repr(key), error))) from None
    return value


def _among(value: str, accepted: list[str], key: str, where: str) -> None:
    if value not in accepted:
        raise ArgumentError(joined(": ", (where, repr(key), unknown(key, value, accepted))))
