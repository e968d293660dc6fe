"""Events as lines of JSON, written quickly: most of a record's time is the writing out of some thirty floats."""

from __future__ import annotations

import functools
import json
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_COUNTED = ("type", "index", "call", "step")
_COUNTED_TEXT = '"type":"call","index":%d,"call":%d,"step":%d'
# What plain records have in common; each record gets lists of its own.
PLAIN_FIELDS: dict[str, Any] = {
    "side": "none",
    "hypothesis": None,
    "alternatives": [],
    "modifiers": [],
    "quirk": None,
    "muted": False,
}
_NOTHING_TEXT = '"side":"none","hypothesis":null,"alternatives":[],"modifiers":[],"quirk":null,"muted":false'
_MODIFIED_TEXT = '"side":"none","hypothesis":null,"alternatives":[],"modifiers":%s,"quirk":null,"muted":false'
_quoted = json.encoder.encode_basestring_ascii
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _plain(value: Any) -> Any:
    """For :mod:`json`: NumPy's scalars (long double among them) and arrays as numbers and lists, anything else as text."""
    try:
        if isinstance(value, numbers.Real):
            return int(value) if isinstance(value, numbers.Integral) else float(value)
        return value.tolist()
    except Exception:
        return str(value)


_dumps = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


def finite(value: Any) -> Any:
    """``value`` as strict JSON holds it: non-finite floats as ``"nan"``, ``"inf"``, ``"-inf"``."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value if isinstance(value, (str, int, bool, type(None))) else finite(_plain(value))


def numeric(value: Any) -> Any:
    """The inverse of :func:`finite` for data whose strings are numbers (``stats``, ``attributes``)."""
    if isinstance(value, str):
        return _WORDS.get(value, value)
    if isinstance(value, dict):
        return {key: numeric(item) for key, item in value.items()}
    return [numeric(item) for item in value] if isinstance(value, list) else value


class WrittenFields:
    """Fields that many records share, with their JSON, which is written out once.

    Attributes:
        fields: the fields.
        text: their JSON, without braces.
        equal: figures and reason of an equal tensor, and the JSON of both.
        counted: what a :class:`~.counts.Counts` remembers of such records, by their verdict.
    """

    __slots__ = ("counted", "equal", "fields", "text")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields, self.text = fields, _json(fields)[1:-1]
        self.equal: tuple[Any, str, str] = (None, "", "")
        self.counted: dict[str, Any] = {}


def _json(table: Mapping[str, Any]) -> str:
    try:
        return _dumps(table)
    except ValueError:  # a NaN or an infinity somewhere
        return _dumps(finite(table))


def encode(record: Mapping[str, Any], written: WrittenFields | None = None) -> bytes:
    """One line of the log, ASCII, with its newline. ``stats`` comes last, its floats with nine significant digits.

    ``written``: fields of the record whose JSON is known. They stand before the others, but for those that count.
    """
    stats = record.get("stats")
    figures = _figures(stats) if stats else None
    rest = dict(record)
    rest.pop("stats", None)
    if figures is None and stats is not None:
        rest["stats"] = stats
    if written is None:
        parts = [_json(rest)[1:-1]] if rest else []
    else:
        known = written.fields
        counted = {name: rest.pop(name) for name in _COUNTED if name in rest}
        parts = [_json(counted)[1:-1], written.text, _json({name: rest[name] for name in rest if name not in known})[1:-1]]
    if figures is not None:
        parts.append(f'"stats":{figures}')
    return f"{{{','.join(filter(None, parts))}}}\n".encode("ascii")


def plain_line(
    index: int,
    counted: Mapping[str, Any],
    written: WrittenFields,
    verdict: str,
    reason: str,
    stats: Mapping[str, Any],
    modifiers: Sequence[str] = (),
) -> bytes | None:
    """As :func:`encode`, of a record with a reason and figures alone; None where it cannot be written so."""
    if len(counted) != 2 or not stats:  # a call and a step
        return None
    begin = _COUNTED_TEXT % (index, counted["call"], counted["step"])
    if verdict == "EQUAL":
        known = written.equal
        if stats == known[0] and reason == known[1]:
            return f"{{{begin},{known[2]}\n".encode("ascii")
    figures = _figures(stats)
    if figures is None:
        return None
    nothing = _MODIFIED_TEXT % f"[{','.join(map(_quoted, modifiers))}]" if modifiers else _NOTHING_TEXT
    rest = f'{written.text},"verdict":"{verdict}",{nothing},"reason":{_quoted(reason)},"stats":{figures}}}'
    if verdict == "EQUAL":
        written.equal = dict(stats), reason, rest
    return f"{{{begin},{rest}\n".encode("ascii")


def _figures(stats: Mapping[str, Any]) -> str | None:
    """``stats`` as JSON by one formatting of all its numbers; None for what that cannot write (NaN)."""
    values: list[Any] = []
    names: list[Any] = []
    for name, value in stats.items():
        names.append(name)
        if type(value) is dict:
            names.append(tuple(value))
            values.extend(value.values())
        else:
            values.append(value)
    kinds = tuple([value if type(value) is str else type(value) for value in values])
    if list in kinds and not all(type(item) is int for value in values if type(value) is list for item in value):
        return None
    template = _template(tuple(names), kinds)
    if template is None:
        return None
    text = template % tuple(values)
    return None if ":nan" in text or ":inf" in text or ":-inf" in text else text


@functools.lru_cache(maxsize=512)
def _template(names: tuple[Any, ...], kinds: tuple[Any, ...]) -> str | None:
    """The JSON of a mapping of numbers, and of mappings of numbers, with a place for each value.

    ``names``: the keys, each followed by the tuple of inner keys where the value is a mapping. ``kinds``: for each value its
    type, or the value itself if it is a string.
    """
    signs = [_sign(kind) for kind in kinds]
    return _laid_out(names, iter(signs)) if all(signs) else None


def _sign(kind: Any) -> str:
    """The place for one value; "" if it has none. ``%.0s`` takes a value and shows nothing of it."""
    if isinstance(kind, str):
        return _literal(kind) + "%.0s"
    if kind is type(None):
        return "null%.0s"
    if kind is list:
        return "%s"  # of whole numbers: Python writes them as JSON does
    if kind is bool or not issubclass(kind, numbers.Real):
        return ""
    return "%d" if issubclass(kind, numbers.Integral) else "%.9g"


def _literal(text: str) -> str:
    return json.dumps(text).replace("%", "%%")


def _laid_out(names: tuple[Any, ...], signs: Iterator[str]) -> str:
    parts = []
    for name, following in zip(names, (*names[1:], "")):
        if isinstance(name, str):
            value = _laid_out(following, signs) if isinstance(following, tuple) else next(signs)
            parts.append(f"{_literal(name)}:{value}")
    return "{" + ",".join(parts) + "}"


def tables(stats: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a record's figures: those of equal tensors are made once and stand in many records."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in stats.items()}


def excess_of(stats: Mapping[str, Any]) -> float:
    """The larger of both sides' error as a multiple of the probabilistic bound; infinite for NaN, 0 where there is none."""
    largest = 0.0
    if "paddle" not in stats and "torch" not in stats:
        return largest
    for side in ("paddle", "torch"):
        value = (stats.get(side) or {}).get("prob")
        if value is not None:
            number = float(value)
            largest = max(largest, math.inf if math.isnan(number) else number)
    return largest


class Figures(NamedTuple):
    """The figures of a plain record that are counted, as in ``stats``; ``elements``: ``count``; ``excess``: :func:`excess_of`."""

    elements: int
    different: int
    max_abs: float
    allowed: float | None
    excess: float


class Plain(Mapping[str, Any]):
    """The record of a tensor that is EQUAL or only rounding, without a name or a hypothesis, as nearly all are.

    It becomes a table when somebody looks at it; few are ever looked at.

    Attributes:
        counted: its fields that count calls and steps.
        written: its other fields that were known before the verdict.
        verdict, reason, stats: as in the table.
        modifiers: none, or that it was screened.
        index: its number in the log; the recorder sets it.
    """

    __slots__ = ("_table", "counted", "index", "modifiers", "reason", "stats", "verdict", "written")

    def __init__(
        self,
        counted: Mapping[str, Any],
        written: WrittenFields,
        verdict: str,
        reason: str,
        stats: dict[str, Any],
        modifiers: Sequence[str] = (),
    ) -> None:
        self.counted, self.written, self.verdict, self.reason, self.stats = counted, written, verdict, reason, stats
        self.modifiers, self.index = modifiers, 0
        self._table: dict[str, Any] | None = None

    @property
    def figures(self) -> Figures:
        """Those that are counted."""
        get = self.stats.get
        return Figures(self.stats["count"], get("different", 0), get("max_abs", 0.0), get("allowed"), excess_of(self.stats))

    @property
    def table(self) -> dict[str, Any]:
        """All fields, in the order of every record."""
        if self._table is None:
            judgement = {"verdict": self.verdict, **PLAIN_FIELDS, "alternatives": [], "modifiers": [*self.modifiers]}
            last = {"reason": self.reason, "stats": tables(self.stats), "index": self.index}
            self._table = {**self.counted, **self.written.fields, **judgement, **last}
        return self._table

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def line(self) -> bytes | None:
        """One line of the log; None where that has to be written as any record's."""
        return plain_line(self.index, self.counted, self.written, self.verdict, self.reason, self.stats, self.modifiers)
