"""The events of a log and of a recording: each line of their files is one (docs/log.md and docs/record.md describe the fields).

The types below are the schema. :func:`fault` checks a table against them before anybody relies on it: a folder may come from
another machine and another hand. What passes has fields of these types, whole numbers of at most 63 bits, and tables at most
:data:`DEPTH` deep; names and texts are still text to be shown with care. ``None`` stands for "no such figure" in any field, and
fields that are not listed here are allowed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypedDict, get_args, get_origin, get_type_hints

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
                    return _unsound(name)
                continue
            if wrong := field.fault(value, name):
                return wrong
        return ""


def _unsound(name: str) -> str:
    return f"{name!r} holds a number of more than 63 bits, or tables more than {DEPTH} deep"


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
    return type(value) is float or (type(value) is int and -_LARGEST < value < _LARGEST) or _number_word(value)


def _number_word(value: Any) -> bool:
    return type(value) is str and value in _NUMBER_WORDS


def _word_of(words: Iterable[str]) -> Check:
    accepted = frozenset(words)
    return lambda value: type(value) is str and value in accepted


def _list_of(check: Check, most: int | None = None) -> Check:
    return lambda value: type(value) is list and (most is None or len(value) <= most) and all(map(check, value))


def _table_of(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


def _is_shape(value: Any) -> bool:
    return type(value) is list and len(value) <= 64 and all(map(_whole, value)) and math.prod(value) < _LARGEST


def _is_place(value: Any) -> bool:
    """Whether a record points into a file of values beside it, and nowhere else."""
    named = type(value) is list and len(value) == 2 and type(value[0]) is str and type(value[1]) is int
    return named and bool(VALUES.fullmatch(value[0])) and 0 <= value[1] < 2**62


def _is_sample(value: Any) -> bool:
    if type(value) is not list or len(value) > MOST_SAMPLED:
        return False
    return set(map(type, value)) <= {float, bool} or all(_number(element) or type(element) is bool for element in value)


def _plain_table(value: Any) -> bool:
    return type(value) is dict and _is_sound(value, DEPTH - 1)


# Whole and the like are what annotations say; mypy sees the plain type, the schema sees the field.
Whole = Annotated[int, Field("a whole number from 0 on", check=_whole)]
Number = Annotated[float | str, Field('a number, "nan", "inf" or "-inf"', float, check=_number)]
Text = Annotated[str, Field("a text", str)]
Truth = Annotated[bool, Field("true or false", bool)]
Texts = Annotated[list[str], Field("a list of texts", check=_list_of(_text))]
Numbers = Annotated[list[Any], Field("a list of numbers", check=_list_of(_number))]
Lengths = Annotated[list[int], Field("a list of at most 64 whole numbers", check=_list_of(_whole, 64))]
Shape = Annotated[list[int], Field("the shape of a tensor, at most 64 whole numbers", check=_is_shape)]
Table = Annotated[JsonTable, Field("a table", check=_plain_table)]
TextsByName = Annotated[dict[str, str], Field("a table of texts", check=_table_of(_text))]
NumbersByName = Annotated[dict[str, Any], Field("a table of numbers", check=_table_of(_number))]
CountsByName = Annotated[dict[str, int], Field("a table of whole numbers", check=_table_of(_whole))]
CountsByNames = Annotated[
    dict[str, dict[str, int]], Field("a table of tables of whole numbers", check=_table_of(_table_of(_whole)))
]
VerdictName = Annotated[str, Field("a class of verdicts", check=_word_of(Verdict.__members__))]
SideName = Annotated[str, Field("one of paddle, torch, both, none", check=_word_of(side.value for side in Side))]
Phase = Annotated[str, Field("forward or backward", check=_word_of(("forward", "backward")))]
Kind = Annotated[str, Field(f"one of {', '.join(KINDS)}", check=_word_of(KINDS))]
Place = Annotated[list[Any], Field("a file of values and a byte in it", check=_is_place)]
Sample = Annotated[list[Any], Field(f"a list of at most {MOST_SAMPLED} numbers", check=_is_sample)]


# ---- A compare run's log


class CoverageEntry(TypedDict, total=False):
    """How much was compared."""

    float_calls: Whole
    checked_calls: Whole
    float_elements: Whole
    checked_elements: Whole
    screened: Whole
    exact_calls: Whole
    idle: Whole
    stretches: Whole
    estimated_calls: Whole
    unchecked: CountsByName
    unchecked_ops: CountsByNames


class FileHeader(TypedDict, total=False):
    """The first line of any file of events."""

    type: str
    schema: Whole
    id: Text
    session: Text
    created: Text
    stopped: Text
    rank: Whole
    ranks: Whole
    pid: Whole
    parent: Whole
    environment: Table
    flags: Table
    options: Table


class RunHeader(FileHeader, total=False):
    """``"type": "run"``, the first line of a log."""

    command: Text
    backend: Text
    carry: Text
    warnings: Texts


class OperandEntry(TypedDict, total=False):
    """An operand of a call."""

    name: Text
    shape: Lengths
    dtype: Text
    strides: Text
    digest: Text


class SideStats(TypedDict, total=False):
    """The error of one side."""

    rho_max: Number
    rho_rms: Number
    prob: Number
    det: Number
    error_max: Number
    nan: Whole
    inf: Whole


class ToleranceEntry(TypedDict, total=False):
    """What assert_close would need, each alone."""

    atol: Number
    rtol: Number


class Stats(TypedDict, total=False):
    """The figures of a judged tensor."""

    count: Whole
    different: Whole
    max_abs: Number
    mean_abs: Number
    rel_fro: Number
    ulp_max: Number
    incoming: Number
    propagated: Number
    amplification: Number
    tied: Whole
    first_tied: Lengths
    sampled: Number
    k: Number
    kappa: Number
    error: Number
    bound: Number
    allowed: Number
    tolerance: ToleranceEntry
    paddle: SideStats
    torch: SideStats
    first_bad: Lengths
    oracle: Text


class BornOperand(TypedDict, total=False):
    """An operand of the call in which a NaN or an infinity begins."""

    name: Text
    shape: Lengths
    infinite: Whole
    least: Number
    most: Number
    there: Number
    number: Number


class Birth(TypedDict, total=False):
    """Where a NaN or an infinity begins."""

    what: Annotated[str, Field("NaN or infinity", check=_word_of(("NaN", "infinity")))]
    side: SideName
    at: Lengths
    came_in: Texts
    values: NumbersByName
    operands: list[BornOperand]


class CallRecord(TypedDict, total=False):
    """``"type": "call"``, one judged tensor: a call's result or one of its gradients."""

    type: str
    index: Whole
    call: Whole
    op: Text
    entry: Text
    site: Text
    file: Text
    line: Whole
    layer: Text
    step: Whole
    train: Truth
    phase: Phase
    tensor: Text
    result: Whole
    inputs: list[OperandEntry]
    needs: Texts
    attributes: Table
    shape: Shape
    dtype: Text
    device: Text
    amp: Text
    verdict: VerdictName
    side: SideName
    hypothesis: Text
    alternatives: Texts
    modifiers: Texts
    quirk: Text
    muted: Truth
    reason: Text
    born: Birth
    stats: Stats


class RunEvent(TypedDict, total=False):
    """``"type": "event"``, what happened between two records."""

    type: str
    kind: Text
    text: Text
    created: Text
    step: Whole
    parameters: TextsByName
    gradients: TextsByName
    shapes: TextsByName
    outputs: Texts
    coverage: CoverageEntry


class RunEnd(TypedDict, total=False):
    """``"type": "end"``, the last line of a log or of a recording."""

    type: str
    how: Text
    calls: Whole
    records: Whole
    seconds: Number
    coverage: CoverageEntry


# ---- A recording


class RecordingHeader(FileHeader, total=False):
    """``"type": "recording"``, the first line of a recording."""

    framework: Annotated[str, Field("paddle or torch", check=_word_of(("paddle", "torch")))]
    split_axes: NumbersByName
    mesh: NumbersByName
    command: Text
    configuration: Text
    checkpoint: Text


class TensorRecord(TypedDict, total=False):
    """``"type": "tensor"``, one tensor of a recording."""

    type: str
    index: Whole
    call: Whole
    step: Whole
    kind: Kind
    name: Text
    names: Texts
    function: Text
    tensor: Text
    layer: Text
    site: Text
    file: Text
    line: Whole
    shape: Annotated[
        list[int],
        Field(
            f"the shape of a tensor, at most {DIMENSIONS} whole numbers",
            check=_list_of(lambda size: type(size) is int and 0 <= size < 2**48, DIMENSIONS),
        ),
    ]
    dtype: Text
    digest: Text
    figures: NumbersByName
    at: Place
    left_out: Text
    sample: Sample
    rows: Texts
    operands: list[OperandEntry]
    arguments: TextsByName
    family: Text
    draws: Truth
    kernels: Text


class FingerprintTensors(TypedDict, total=False):
    """``"type": "tensors"``: tensors whose fingerprints the following steps have, each described once."""

    type: str
    first: Whole
    tensors: list[TensorRecord]


class FingerprintStep(TypedDict, total=False):
    """``"type": "step"``: the fingerprints of one step, by the numbers of their tensors.

    ``of``: the numbers of the tensors as spans: begin, end behind the last, begin, end... ``bits``: 64-bit hashes as 16 hexadecimal
    digits each, joined. ``figures``: four numbers of float32 for each tensor, as 8 digits each, joined.
    """

    type: str
    step: Whole
    of: Annotated[list[int], Field("a list of whole numbers", check=_list_of(_whole))]
    bits: Text
    figures: Text


class OptimizerGroup(TypedDict, total=False):
    """Parameters with one setting each; without ``parameters`` those of the event before."""

    settings: Table
    parameters: Texts


class OptimizerRecord(TypedDict, total=False):
    """``"type": "optimizer"``: the settings of an optimizer from a step on."""

    type: str
    step: Whole
    number: Whole
    groups: list[OptimizerGroup]


# ---- A reference run's log


class ReferenceLine(TypedDict, total=False):
    """Calls of an op that stayed native at one line."""

    op: Text
    reason: Text
    layer: Text
    site: Text
    calls: Whole


class ProfilePlace(TypedDict, total=False):
    """The calls and seconds of one place of a profile."""

    part: Text
    op: Text
    layer: Text
    site: Text
    calls: Whole
    seconds: Number


class Profile(TypedDict, total=False):
    """Where the time of a reference run went."""

    seconds: Number
    threads: Whole
    processes: Whole
    places: list[ProfilePlace]


class LayoutCosts(TypedDict, total=False):
    """What copies of Linear weights cost."""

    copies: Whole
    bytes: Whole
    seconds: Number
    reused: Whole
    views: Whole
    spared: Whole


def _is_op_counts(value: Any) -> bool:
    return (
        type(value) is dict
        and all(_whole(value.get(name, 0)) for name in ("substituted", "integers", "backward"))
        and all(_table_of(_whole)(value.get(name, {})) for name in ("native", "without_kernel"))
    )


class ReferenceLog(TypedDict, total=False):
    """``"type": "reference"``, all that a reference run counted."""

    type: str
    schema: Whole
    session: Text
    started: Text
    created: Text
    rank: Whole
    ended: Truth
    backend: Text
    linear_layout: Text
    command: Text
    environment: TextsByName
    layout_cost: LayoutCosts
    warnings: Texts
    optimizers: CountsByNames
    ops: Annotated[JsonTable, Field("a table of ops", check=_table_of(_is_op_counts))]
    lines: list[ReferenceLine]
    profile: Profile


def _schema_of(kind: Any, required: Iterable[str] = (), *, many: bool = False) -> Schema:
    """The checks that a type stands for."""
    return Schema({name: _field_of(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}, required, many=many)


def _field_of(hint: Any) -> Field:
    if hint is str:
        return Text.__metadata__[0]  # type: ignore[attr-defined, no-any-return]
    if get_origin(hint) is list:
        (kind,) = get_args(hint)
        return _schema_of(kind, _REQUIRED.get(kind, ()), many=True)
    metadata = getattr(hint, "__metadata__", None)
    return metadata[0] if metadata else _schema_of(hint, _REQUIRED.get(hint, ()))


# What no event may lack.
_REQUIRED: dict[Any, tuple[str, ...]] = {
    CallRecord: ("op", "verdict"),
    RunEvent: ("kind", "text"),
    RecordingHeader: ("rank", "framework"),
    TensorRecord: ("kind", "shape"),
    FingerprintTensors: ("first", "tensors"),
    FingerprintStep: ("step", "of", "bits", "figures"),
    OptimizerRecord: ("step", "number", "groups"),
    OptimizerGroup: ("settings",),
    OperandEntry: ("name",),
}
EVENTS: dict[str, Schema] = {
    kind: _schema_of(event, _REQUIRED.get(event, ()))
    for kind, event in (
        ("run", RunHeader),
        ("call", CallRecord),
        ("event", RunEvent),
        ("end", RunEnd),
        ("recording", RecordingHeader),
        ("tensor", TensorRecord),
        ("tensors", FingerprintTensors),
        ("step", FingerprintStep),
        ("optimizer", OptimizerRecord),
        ("reference", ReferenceLog),
    )
}
EVENTS["call"].fields["stats"].fields["lambda"] = EVENTS["call"].fields["stats"].fields["k"]  # type: ignore[attr-defined]
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
