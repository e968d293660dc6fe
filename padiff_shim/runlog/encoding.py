"""Records as lines of JSON: what a record may hold, checked, and written quickly."""

from __future__ import annotations

import functools
import json
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..verdicts import Side, Verdict

# ---- What a record of the log may hold (docs/log.md), checked before anybody relies on it.
#
# A log folder may come from another machine and another hand. What passes here has the types that the readers use, numbers that
# are finite in size and a depth that no recursion minds; names and texts are still text to be shown with care.

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
    if fault := unsound(record):
        return fault
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
    fault_ = wrong(stats, _STATS)
    for name, fields in (("paddle", _SIDE_STATS), ("torch", _SIDE_STATS), ("tolerance", _TOLERANCE)):
        fault_ = fault_ or wrong(stats.get(name) or {}, fields)
    for operand in record.get("inputs") or ():
        fault_ = fault_ or wrong(operand, _INPUT) or ("" if operand.get("name") is not None else "an operand has no name")
    fault = fault_ or _of_birth(record.get("born") or {})
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
            text = repr(value)
            return f"{name!r} is not {expected.words}: {text[:60]}{'...' if len(text) > 60 else ''}"
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


# ---- Records as lines of JSON, quickly: most of a record's time is the writing out of some thirty floats.

_COUNTED = ("type", "index", "call", "step")
# A plain record: what it has beside the known fields, what is constant in it, and what is known of every difference.
_PLAIN = frozenset((*_COUNTED, "verdict", "side", "hypothesis", "alternatives", "modifiers", "quirk", "muted", "reason", "stats"))
_HARMLESS = ("EQUAL", "ROUNDING")
_COUNTED_TEXT = '"type":"call","index":%d,"call":%d,"step":%d'
# What plain records have in common; their two lists are empty, and each record's own.
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
_DIFFERENCE = ("count", "different", "max_abs", "mean_abs", "rel_fro", "ulp_max", "tolerance")
_TOLERANCE_NAMES = ("atol", "rtol")
_DIFFERENCE_TYPES = (int, int, float, float, float, float, float, float)
_DIFFERENCE_TEXT = (
    '{"count":%d,"different":%d,"max_abs":%.9g,"mean_abs":%.9g,"rel_fro":%.9g,"ulp_max":%.9g,"tolerance":{"atol":%.9g,"rtol":%.9g}}'
)
_quoted = json.encoder.encode_basestring_ascii
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _plain(value: Any) -> Any:
    """What :mod:`json` does not know: NumPy's scalars (long double among them) and arrays, paths."""
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
    """Fields that come in many records, with their JSON, which is written out once.

    ``counted``: what a :class:`~.counts.Counts` needs of such records, by their verdict.
    """

    __slots__ = ("counted", "equal", "fields", "text")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields, self.text = fields, _json(fields)[1:-1]
        self.equal: tuple[Any, str, str] = (None, "", "")  # figures and reason of an equal tensor, and their JSON
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
    if written is not None and figures is not None and (plain := _plain_text(record, written)) is not None:
        return f'{{{plain},"stats":{figures}}}\n'.encode("ascii")
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
    """As :func:`encode`, of a record of which nothing is to be said beside a reason; None where it cannot be written so."""
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
    nothing = _MODIFIED_TEXT % _json_list(modifiers) if modifiers else _NOTHING_TEXT
    rest = f'{written.text},"verdict":"{verdict}",{nothing},"reason":{_quoted(reason)},"stats":{figures}}}'
    if verdict == "EQUAL":
        written.equal = dict(stats), reason, rest
    return f"{{{begin},{rest}\n".encode("ascii")


def _json_list(words: Sequence[str]) -> str:
    return f"[{','.join(map(_quoted, words))}]"


def _plain_text(record: Mapping[str, Any], written: WrittenFields) -> str | None:
    """As :func:`encode` has it, without the ``stats``: of a record of which nothing is to be said beside a reason, as of most."""
    if len(record) != len(written.fields) + len(_PLAIN) or not record.keys() >= _PLAIN:
        return None
    if record["alternatives"] or record["modifiers"] or record["side"] != "none" or record["muted"]:
        return None
    if record["hypothesis"] is not None or record["quirk"] is not None or record["verdict"] not in _HARMLESS:
        return None
    counted = _COUNTED_TEXT % (record["index"], record["call"], record["step"])
    return f'{counted},{written.text},"verdict":"{record["verdict"]}",{_NOTHING_TEXT},"reason":{_quoted(record["reason"])}'


def _figures(stats: Mapping[str, Any]) -> str | None:
    """``stats`` as JSON by one formatting of all its numbers; None for what that cannot write (NaN)."""
    if tuple(stats) == _DIFFERENCE:
        tolerance = stats["tolerance"]
        values = (*tuple(stats.values())[:-1], *tolerance.values())
        if tuple(tolerance) == _TOLERANCE_NAMES and tuple(map(type, values)) == _DIFFERENCE_TYPES:
            text = _DIFFERENCE_TEXT % values
            return None if ":nan" in text or ":inf" in text else text
    return _any_figures(stats)


def _any_figures(stats: Mapping[str, Any]) -> str | None:
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


# ---- Records of which there is nothing to say beside their figures: nearly all are, and few are ever read in memory again.


def tables(stats: Mapping[str, Any]) -> dict[str, Any]:
    """A record's own figures: those of tensors that are equal are made once and stand in many records."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in stats.items()}


class Plain(Mapping[str, Any]):
    """The record of a tensor that is EQUAL or only rounding, without a name or a hypothesis.

    It becomes a table when somebody looks at it. ``counted``: its fields that count calls and steps; ``written``: the others that
    were known before the verdict; ``modifiers``: none, or that it was screened; ``index``: what the recorder gives it.
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
    def table(self) -> dict[str, Any]:
        """All fields, in the order of every record."""
        if self._table is None:
            judgement = {"verdict": self.verdict, **PLAIN_FIELDS, "alternatives": [], "modifiers": [*self.modifiers]}
            last = {"reason": self.reason, "stats": tables(self.stats), "index": self.index}
            self._table = {**self.counted, **self.written.fields, **judgement, **last}
        return self._table

    def line(self) -> bytes | None:
        """One line of the log; None where that has to be written as any record's."""
        return plain_line(self.index, self.counted, self.written, self.verdict, self.reason, self.stats, self.modifiers)

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)
