"""The events of a log and of a recording: each line of their files is one (docs/log.md and docs/record.md describe the fields).

The tables below are the schema. :func:`fault` checks an event against them before anybody relies on it: a folder may come from
another machine and another hand. What passes has fields of these kinds, whole numbers of at most 63 bits, and tables at most
:data:`DEPTH` deep; names and texts are still text to be shown with care. ``None`` stands for "no such figure" in any field, and
fields that are not listed here are allowed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..text import counted, marked
from ..verdicts import Side, Verdict

SCHEMA = 1  # of logs
RECORDING_SCHEMA = 3  # of recordings
DEPTH = 16  # of lists and tables within each other
LOSS = "loss"  # the kind of what a backward starts from, in fingerprints
IN_STEP = counted(marked("step gradient"))  # the kind of a gradient as an optimizer's step uses it
CLIPPED = counted(marked("clipped gradient"))  # behind the clipping, in a step or before it
STATE = counted(marked("optimizer state"))  # of a parameter, behind a step: moments, master weight
NAMED = (marked("parameter"), marked("gradient"), IN_STEP, CLIPPED, STATE)  # kinds that go by the name of a parameter
KINDS = ("op", marked("layer"), *NAMED, marked("note"), marked("input"), LOSS)  # of a recording's tensors
DIMENSIONS = 32
MOST_SAMPLED = 128  # elements of a recorded sample
VALUES = re.compile(r"values-rank(\d{1,9})-pid(\d{1,12})(?:-(\d{1,9}))?\.npy")  # the files beside a recording
_LARGEST = 2**63
_PLANS = 1000  # kinds of tables that a schema remembers
_NONE = type(None)

JsonTable = dict[str, Any]  # a JSON object; what lies in it is checked, or shown as text
Check = Callable[[Any], bool]


class Field:
    """What a field may hold: in words, by types that need no further look, and by a test of everything else."""

    __slots__ = ("check", "types", "words")

    def __init__(self, words: str, *types: type, check: Check = lambda value: False) -> None:
        self.words, self.types, self.check = words, frozenset((*types, _NONE)), check

    def fault(self, value: Any, name: str) -> str:
        """What is wrong with a value of none of the :attr:`types`; ``""`` if nothing is."""
        if self.check(value):
            return ""
        text = repr(value)
        return f"{name!r} is not {self.words}: {text[:60]}{'...' if len(text) > 60 else ''}"


class Schema(Field):
    """A table with fields of its own, or (``many``) a list of such tables.

    Tables mostly have the same names with values of the same types: what has to be looked at in those is remembered.
    """

    __slots__ = ("_plans", "fields", "many", "required")

    def __init__(self, fields: Mapping[str, Field], required: Iterable[str] = (), *, many: bool = False) -> None:
        super().__init__("a list of tables" if many else "a table")
        self.fields, self.required, self.many = dict(fields), tuple(required), many
        self._plans: dict[Any, list[tuple[str, Field | None]]] = {}

    def fault(self, value: Any, name: str) -> str:
        """As of a field."""
        tables = value if self.many else [value]
        if type(tables) is not list or not all(type(table) is dict for table in tables):
            return super().fault(value, name)
        for table in tables:
            if wrong := self.fault_in(table) or self.missing(table):
                return f"'{name}.{wrong[1:]}"
        return ""

    def missing(self, table: JsonTable) -> str:
        """Which field a table lacks; ``""`` if it has all that are required."""
        for name in self.required:
            if table.get(name) is None:
                return f"{name!r} is missing"
        return ""

    def fault_in(self, table: JsonTable) -> str:
        """What is wrong with the fields that a table has; ``""`` if nothing is."""
        kinds = (tuple(table), tuple(map(type, table.values())))
        plan = self._plans.get(kinds)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[kinds] = [
                (name, field)
                for name, kind, field in ((name, type(value), self.fields.get(name)) for name, value in table.items())
                if (kind in (dict, list, int) if field is None else kind not in field.types)
            ]
        for name, field in plan:
            value = table[name]
            if field is None:
                if not _is_sound(value, DEPTH - 1):
                    return f"{name!r} holds a number of more than 63 bits, or tables more than {DEPTH} deep"
                continue
            if wrong := field.fault(value, name):
                return wrong
        return ""


def _is_sound(value: Any, depth: int) -> bool:
    """Whether ``value`` is no deeper than ``depth``, and its whole numbers have at most 63 bits."""
    level = [[value]]
    while level:
        inner = []
        for table in level:
            for entry in table.values() if type(table) is dict else table:
                kind = type(entry)
                if kind is dict or kind is list:
                    inner.append(entry)
                elif kind is int and not -_LARGEST < entry < _LARGEST:
                    return False
        if inner and not depth:
            return False
        depth -= 1
        level = inner
    return True


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _text(value: Any) -> bool:
    return type(value) is str


_NUMBER_WORDS = frozenset(("nan", "inf", "-inf"))


def _number(value: Any) -> bool:
    kind = type(value)
    return kind is float or (kind is int and -_LARGEST < value < _LARGEST) or (kind is str and value in _NUMBER_WORDS)


def _one_of(description: str, *words: str) -> Field:
    accepted = frozenset(words)
    return Field(description, check=lambda value: type(value) is str and value in accepted)


def _list_of(check: Check, most: int | None = None) -> Check:
    return lambda value: type(value) is list and (most is None or len(value) <= most) and all(map(check, value))


def _table_of(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


def _is_place(value: Any) -> bool:
    """Whether a record points into a file of values beside it, and nowhere else."""
    named = type(value) is list and len(value) == 2 and type(value[0]) is str and type(value[1]) is int
    return named and bool(VALUES.fullmatch(value[0])) and 0 <= value[1] < 2**62


def _is_sample(value: Any) -> bool:
    if type(value) is not list or len(value) > MOST_SAMPLED:
        return False
    return set(map(type, value)) <= {float, bool} or all(_number(element) or type(element) is bool for element in value)


def _is_op_counts(value: Any) -> bool:
    return (
        type(value) is dict
        and all(_whole(value.get(name, 0)) for name in ("substituted", "integers", "backward"))
        and all(_table_of(_whole)(value.get(name, {})) for name in ("native", "without_kernel"))
    )


_WHOLE = Field("a whole number from 0 on", check=_whole)
_WHOLES = Field("a list of whole numbers", check=_list_of(_whole))
_NUMBER = Field('a number, "nan", "inf" or "-inf"', float, check=_number)
_TEXT = Field("a text", str)
_TRUTH = Field("true or false", bool)
_TEXTS = Field("a list of texts", check=_list_of(_text))
_LENGTHS = Field("a list of at most 64 whole numbers", check=_list_of(_whole, 64))
_SHAPE = Field(
    "the shape of a tensor, at most 64 whole numbers", check=lambda value: _LENGTHS.check(value) and math.prod(value) < _LARGEST
)
_RECORDED_SHAPE = Field(
    f"the shape of a tensor, at most {DIMENSIONS} whole numbers",
    check=_list_of(lambda size: type(size) is int and 0 <= size < 2**48, DIMENSIONS),
)
_TABLE = Field("a table", check=lambda value: type(value) is dict and _is_sound(value, DEPTH - 1))
_TEXTS_BY_NAME = Field("a table of texts", check=_table_of(_text))
_NUMBERS_BY_NAME = Field("a table of numbers", check=_table_of(_number))
_COUNTS_BY_NAME = Field("a table of whole numbers", check=_table_of(_whole))
_COUNTS_BY_NAMES = Field("a table of tables of whole numbers", check=_table_of(_table_of(_whole)))
_SIDE = _one_of("one of paddle, torch, both, none", *(side.value for side in Side))


def _schema(*fields: tuple[Field, str], required: str = "", many: bool = False) -> Schema:
    """``fields``: what a field holds, and the names of those that hold it."""
    return Schema({name: field for field, names in fields for name in names.split()}, required.split(), many=many)


# How much was compared; an operand of a call; the first line of any file of events.
_COVERAGE = _schema(
    (_WHOLE, "float_calls checked_calls float_elements checked_elements screened exact_calls idle stretches estimated_calls"),
    (_COUNTS_BY_NAME, "unchecked"),
    (_COUNTS_BY_NAMES, "unchecked_ops"),
)
_OPERANDS = _schema((_TEXT, "name dtype strides digest"), (_LENGTHS, "shape"), (_TRUTH, "graph"), required="name", many=True)
_HEADER = (
    (_TEXT, "type id session created stopped command"),
    (_WHOLE, "schema rank ranks pid parent"),
    (_TABLE, "environment flags options"),
)

# ---- A compare run's log

# The figures of a judged tensor: the errors of both sides, and what assert_close would need, each alone.
_ERRORS = _schema((_NUMBER, "rho_max rho_rms prob det error_max"), (_WHOLE, "nan inf"))
STATS = _schema(
    (_WHOLE, "count different tied"),
    (_NUMBER, "max_abs mean_abs rel_fro ulp_max incoming propagated amplification sampled k lambda kappa error bound allowed"),
    (_schema((_NUMBER, "atol rtol")), "tolerance"),
    (_ERRORS, "paddle torch"),
    (_LENGTHS, "first_tied first_bad"),
    (_TEXT, "oracle"),
)
# Where a NaN or an infinity begins, with the operands of the call.
_BIRTH = _schema(
    (_one_of("NaN or infinity", "NaN", "infinity"), "what"),
    (_SIDE, "side"),
    (_LENGTHS, "at"),
    (_TEXTS, "came_in"),
    (_NUMBERS_BY_NAME, "values"),
    (
        _schema((_TEXT, "name"), (_LENGTHS, "shape"), (_WHOLE, "infinite"), (_NUMBER, "least most there number"), many=True),
        "operands",
    ),
)
# One judged tensor: a call's result or one of its gradients.
_CALL = _schema(
    (_TEXT, "type op entry site file layer tensor dtype device amp hypothesis quirk reason"),
    (_WHOLE, "index call line step result"),
    (_TRUTH, "train muted"),
    (_TEXTS, "needs alternatives modifiers"),
    (_one_of("forward or backward", "forward", "backward"), "phase"),
    (_OPERANDS, "inputs"),
    (_TABLE, "attributes"),
    (_SHAPE, "shape"),
    (_one_of("a class of verdicts", *Verdict.__members__), "verdict"),
    (_SIDE, "side"),
    (_BIRTH, "born"),
    (STATS, "stats"),
    required="op verdict",
)
# What happened between two records.
_EVENT = _schema(
    (_TEXT, "type kind text created"),
    (_WHOLE, "step"),
    (_TEXTS_BY_NAME, "parameters gradients shapes"),
    (_TEXTS, "outputs"),
    (_COVERAGE, "coverage"),
    required="kind text",
)
# The last line of a log or of a recording.
_END = _schema((_TEXT, "type how"), (_WHOLE, "calls records"), (_NUMBER, "seconds"), (_COVERAGE, "coverage"))

# ---- A recording

_TENSOR = (
    (_TEXT, "type name function tensor layer site file dtype digest left_out family kernels"),
    (_WHOLE, "index call step line"),
    (_one_of(f"one of {', '.join(KINDS)}", *KINDS), "kind"),
    (_TEXTS, "names rows"),
    (_RECORDED_SHAPE, "shape"),
    (_NUMBERS_BY_NAME, "figures"),
    (Field("a file of values and a byte in it", check=_is_place), "at"),
    (Field(f"a list of at most {MOST_SAMPLED} numbers", check=_is_sample), "sample"),
    (_OPERANDS, "operands"),
    (_TEXTS_BY_NAME, "arguments"),
    (_TRUTH, "draws"),
)
# Parameters with one setting each; without ``parameters`` those of the event before.
_GROUPS = _schema((_TABLE, "settings"), (_TEXTS, "parameters"), required="settings", many=True)

# ---- A reference run's log

_LINES = _schema((_TEXT, "op reason layer site"), (_WHOLE, "calls"), many=True)  # of calls that stayed native
_PLACES = _schema((_TEXT, "part op layer site"), (_WHOLE, "calls"), (_NUMBER, "seconds"), many=True)
# All that a run counted: with the costs of copies of Linear weights, and where the time went.
_REFERENCE = _schema(
    (_TEXT, "type session started created backend linear_layout command"),
    (_WHOLE, "schema rank"),
    (_TRUTH, "ended"),
    (_TEXTS_BY_NAME, "environment"),
    (_schema((_WHOLE, "copies bytes reused views spared"), (_NUMBER, "seconds")), "layout_cost"),
    (_TEXTS, "warnings"),
    (_COUNTS_BY_NAMES, "optimizers"),
    (Field("a table of ops", check=_table_of(_is_op_counts)), "ops"),
    (_LINES, "lines"),
    (_schema((_NUMBER, "seconds"), (_WHOLE, "threads processes"), (_PLACES, "places")), "profile"),
)

EVENTS: dict[str, Schema] = {
    "run": _schema(*_HEADER, (_TEXT, "backend carry"), (_TEXTS, "warnings")),
    "call": _CALL,
    "event": _EVENT,
    "end": _END,
    "recording": _schema(
        *_HEADER,
        (_one_of("paddle or torch", "paddle", "torch"), "framework"),
        (_NUMBERS_BY_NAME, "split_axes mesh"),
        (_TEXT, "configuration checkpoint"),
        required="rank framework",
    ),
    "tensor": _schema(*_TENSOR, required="kind shape"),
    # Tensors whose fingerprints the following steps have, each described once.
    "tensors": _schema(
        (_TEXT, "type"),
        (_WHOLE, "first"),
        (_schema(*_TENSOR, required="kind shape", many=True), "tensors"),
        required="first tensors",
    ),
    # The fingerprints of one step, by the numbers of their tensors. ``of``: the numbers of the tensors as spans: begin, end behind
    # the last, begin, end... ``bits``: 64-bit hashes as 16 hexadecimal digits each, joined. ``figures``: four numbers of float32
    # for each tensor, as 8 digits each, joined.
    "step": _schema((_TEXT, "type bits figures"), (_WHOLE, "step"), (_WHOLES, "of"), required="step of bits figures"),
    # The settings of an optimizer from a step on.
    "optimizer": _schema((_TEXT, "type"), (_WHOLE, "step number"), (_GROUPS, "groups"), required="step number groups"),
    "reference": _REFERENCE,
}
_UNKNOWN = Schema({})


def fault(event: Any) -> str:
    """What is wrong with an event, which field and why; ``""`` if it is one. An unknown type of event may hold any sound table.

    >>> fault({"type": "call", "op": "exp", "verdict": "EQUAL", "step": -1})
    "'step' is not a whole number from 0 on: -1"
    """
    if type(event) is not dict or type(event.get("type")) is not str:
        return "it is not a table with a type"
    schema = EVENTS.get(event["type"], _UNKNOWN)
    return schema.fault_in(event) or schema.missing(event)
