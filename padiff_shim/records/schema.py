"""What a record of the log may hold (docs/log.md), checked before anybody relies on it.

A log folder may come from another machine and another hand. What passes here has the types that the readers use, numbers that
are finite in size and a depth that no recursion minds; names and texts are still text to be shown with care.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..verdicts import Side, Verdict

LINE = 4 * 2**20  # bytes of the longest line that is read
DEPTH = 16  # of lists and mappings within each other
_LARGEST = 2**63
Check = Callable[[Any], bool]


class Field(NamedTuple):
    """What a field may hold: in words, by types that need no further look, and by a test of everything else."""

    words: str
    types: frozenset[type]
    check: Check

    def holds(self, value: Any) -> bool:
        """Whether it may hold this."""
        return type(value) in self.types or self.check(value)


_NONE = type(None)  # "no such figure", wherever a field may be absent


def _of(words: str, *types: type, check: Check = lambda value: False) -> Field:
    return Field(words, frozenset((*types, _NONE)), check)


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _text(value: Any) -> bool:
    return type(value) is str


def _table(value: Any) -> bool:
    return type(value) is dict


def _word_of(words: Iterable[str]) -> Check:
    accepted = frozenset(words)
    return lambda value: type(value) is str and value in accepted


def _list_of(check: Check, most: int | None = None) -> Check:
    return lambda value: type(value) is list and (most is None or len(value) <= most) and all(map(check, value))


def _table_of(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


WHOLE = _of("a whole number from 0 on", check=_whole)
NUMBER = _of('a number, "nan", "inf" or "-inf"', int, float, check=_word_of(("nan", "inf", "-inf")))
TEXT = _of("a text", str)
TRUTH = _of("true or false", bool)
TEXTS = _of("a list of texts", check=_list_of(_text))
LENGTHS = _of("a list of at most 64 whole numbers", check=_list_of(_whole, 64))
TABLE = _of("a table", dict)
WORDS_BY_NAME = _of("a table of texts", check=_table_of(_text))
TABLES = _of("a list of tables", check=_list_of(_table))
COUNTS = _of("a table of whole numbers", check=_table_of(_whole))
COUNTS_BY_NAME = _of("a table of tables of whole numbers", check=_table_of(_table_of(_whole)))
VERDICT = _of("a class of verdicts", check=_word_of(Verdict.__members__))
SIDE = _of("one of paddle, torch, both, none", check=_word_of(side.value for side in Side))
PHASE = _of("forward or backward", check=_word_of(("forward", "backward")))

_SIDE_STATS: dict[str, Field] = {
    **dict.fromkeys(("rho_max", "rho_rms", "prob", "det", "error_max"), NUMBER),
    **dict.fromkeys(("nan", "inf"), WHOLE),
}
_TOLERANCE: dict[str, Field] = {"atol": NUMBER, "rtol": NUMBER}
_STATS: dict[str, Field] = {
    **dict.fromkeys(("count", "different"), WHOLE),
    **dict.fromkeys(("max_abs", "mean_abs", "rel_fro", "ulp_max", "incoming", "propagated", "amplification"), NUMBER),
    "tied": WHOLE,
    "first_tied": LENGTHS,
    **dict.fromkeys(("sampled", "k", "lambda", "kappa", "error", "bound", "allowed"), NUMBER),
    **dict.fromkeys(("tolerance", "paddle", "torch"), TABLE),
    "first_bad": LENGTHS,
    "oracle": TEXT,
}
_CALL: dict[str, Field] = {
    **dict.fromkeys(("index", "call", "line", "result", "step"), WHOLE),
    **dict.fromkeys(("op", "entry", "site", "file", "layer", "tensor", "dtype", "device", "amp"), TEXT),
    **dict.fromkeys(("hypothesis", "quirk", "reason"), TEXT),
    **dict.fromkeys(("alternatives", "modifiers", "needs"), TEXTS),
    **dict.fromkeys(("train", "muted"), TRUTH),
    **dict.fromkeys(("attributes", "stats", "born"), TABLE),
    "inputs": TABLES,
    "shape": LENGTHS,
    "verdict": VERDICT,
    "side": SIDE,
    "phase": PHASE,
}
_BORN: dict[str, Field] = {
    "what": _of("NaN or infinity", check=_word_of(("NaN", "infinity"))),
    "side": SIDE,
    "at": LENGTHS,
    "came_in": TEXTS,
    "values": _of("a table of numbers", check=_table_of(NUMBER.holds)),
    "operands": TABLES,
}
_BORN_OF: dict[str, Field] = {
    "name": TEXT,
    "shape": LENGTHS,
    "infinite": WHOLE,
    **dict.fromkeys(("least", "most", "there", "number"), NUMBER),
}
_INPUT: dict[str, Field] = {"name": TEXT, "shape": LENGTHS, "dtype": TEXT, "strides": TEXT}
_COVERAGE: dict[str, Field] = {
    **dict.fromkeys(("float_calls", "checked_calls", "float_elements", "checked_elements"), WHOLE),
    **dict.fromkeys(("screened", "exact_calls", "idle", "stretches"), WHOLE),
    "unchecked": COUNTS,
    "unchecked_ops": COUNTS_BY_NAME,
}
_RECORDS: dict[str, dict[str, Field]] = {
    "call": _CALL,
    "run": {
        **dict.fromkeys(("schema", "rank", "ranks", "pid", "parent"), WHOLE),
        **dict.fromkeys(("id", "created", "backend", "carry", "command"), TEXT),
        **dict.fromkeys(("environment", "flags", "options"), TABLE),
        "warnings": TEXTS,
    },
    "event": {
        **dict.fromkeys(("kind", "text", "created"), TEXT),
        **dict.fromkeys(("parameters", "gradients"), WORDS_BY_NAME),
        "coverage": TABLE,
        "step": WHOLE,
    },
    "end": {**dict.fromkeys(("calls", "records"), WHOLE), "seconds": NUMBER, "coverage": TABLE},
}
_REQUIRED = {"call": ("op", "verdict"), "event": ("kind", "text")}


def complaint(record: Any) -> str:
    """What is wrong with a record; ``""`` if it is one. Unknown fields and unknown types of records are passed over."""
    if type(record) is not dict or type(record.get("type")) is not str:
        return "it is not a table with a type"
    if said := unsound(record):
        return said
    kind = record["type"]
    missing = [name for name in _REQUIRED.get(kind, ()) if record.get(name) is None]
    if missing:
        return f"{missing[0]!r} is missing"
    return wrong(record, _RECORDS.get(kind, {})) or _inner(record)


def unsound(record: Mapping[str, Any]) -> str:
    """What is wrong with the size of what a table holds; ``""`` if nothing is."""
    return "" if _sound(record, DEPTH) else f"it holds a number of more than 63 bits, or tables more than {DEPTH} deep"


def _inner(record: Mapping[str, Any]) -> str:
    """What is wrong in the tables of a record whose own fields are as they should be."""
    if record["type"] != "call":
        return wrong(record.get("coverage") or {}, _COVERAGE) if record["type"] in ("event", "end") else ""
    stats = record.get("stats") or {}
    found = wrong(stats, _STATS)
    for name, fields in (("paddle", _SIDE_STATS), ("torch", _SIDE_STATS), ("tolerance", _TOLERANCE)):
        found = found or wrong(stats.get(name) or {}, fields)
    for one in record.get("inputs") or ():
        found = found or wrong(one, _INPUT) or ("" if one.get("name") is not None else "an operand has no name")
    fault = found or _of_birth(record.get("born") or {})
    if not fault and math.prod(record.get("shape") or ()) >= _LARGEST:
        return f"'shape' is that of no tensor: {record['shape']}"
    return fault


def _of_birth(about: Mapping[str, Any]) -> str:
    """What is wrong in what a record says of a NaN or an infinity that begins there."""
    return wrong(about, _BORN) or next(filter(None, (wrong(part, _BORN_OF) for part in about.get("operands") or ())), "")


def wrong(table: Mapping[str, Any], fields: Mapping[str, Field]) -> str:
    """The first field that is not what is expected."""
    for name, value in table.items():
        expected = fields.get(name)
        if expected is not None and not expected.holds(value):
            given = repr(value)
            return f"{name!r} is not {expected.words}: {given[:60]}{'...' if len(given) > 60 else ''}"
    return ""


def _sound(record: Mapping[str, Any], depth: int) -> bool:
    """Whether ``record`` is no deeper than ``depth``, and its whole numbers have at most 63 bits."""
    level: list[Any] = [record]
    while level:
        if not depth:
            return False
        depth -= 1
        inner = []
        for table in level:
            for value in table.values() if type(table) is dict else table:
                kind = type(value)
                if kind is dict or kind is list:
                    inner.append(value)
                elif kind is int and not -_LARGEST < value < _LARGEST:
                    return False
        level = inner
    return True
