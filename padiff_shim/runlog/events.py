"""The events of a log and of a recording: each line of their files is one (docs/log.md and docs/record.md describe the fields).

The tables below are the schema. Lines are decoded against them before anybody relies on what they say: a folder may come from
another machine and another hand. What passes has fields of these kinds, whole numbers of at most 63 bits, and tables at most
:data:`DEPTH` deep; names and texts are still text to be shown with care. ``None`` stands for "no such figure" in any field, and
fields that are not listed here are left out.
"""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta

from ..text import counted, marked, tr
from ..verdicts import Side, Verdict

SCHEMA = 1  # of logs
RECORDING_SCHEMA = 3  # of recordings
DEPTH = 5  # of lists and tables within each other, in a field that may hold any: each doubles what a decoder has to know
LOSS = "loss"  # the kind of what a backward starts from, in fingerprints
IN_STEP = counted(marked("step gradient"))  # the kind of a gradient as an optimizer's step uses it
CLIPPED = counted(marked("clipped gradient"))  # behind the clipping, in a step or before it
STATE = counted(marked("optimizer state"))  # of a parameter, behind a step: moments, master weight
NAMED = (marked("parameter"), marked("gradient"), IN_STEP, CLIPPED, STATE)  # kinds that go by the name of a parameter
KINDS = ("op", marked("layer"), *NAMED, marked("note"), marked("input"), LOSS)  # of a recording's tensors
DIMENSIONS = 32
MOST_SAMPLED = 128  # elements of a recorded sample
VALUES = re.compile(r"values-rank(\d{1,9})-pid(\d{1,12})(?:-(\d{1,9}))?\.npy")  # the files beside a recording

JsonTable = dict[str, Any]  # a JSON object; what lies in it is checked, or shown as text


def _most_nested(depth: int) -> Any:
    """Anything that JSON holds, in lists and tables of that depth."""
    plain: Any = _INTEGER | float | str | bool | None
    for _ in range(depth):
        plain = _INTEGER | float | str | bool | list[plain] | dict[str, plain] | None
    return plain


_INTEGER: Any = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_WHOLE: Any = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_NUMBER: Any = _INTEGER | float | Literal["nan", "inf", "-inf"]
_LENGTHS: Any = Annotated[list[_WHOLE], Meta(max_length=64)]
_SIZE: Any = Annotated[int, Meta(ge=0, lt=2**48)]
_SHAPE: Any = Annotated[list[_SIZE], Meta(max_length=64)]
_RECORDED_SHAPE: Any = Annotated[list[_SIZE], Meta(max_length=DIMENSIONS)]
_ANYTHING: Any = _most_nested(DEPTH)
_TABLE: Any = dict[str, _ANYTHING]
_SIDE: Any = Literal[tuple(side.value for side in Side)]
# A file of values beside the recording, and nowhere else, and a byte in it.
_PLACE: Any = tuple[Annotated[str, Meta(pattern=rf"^{VALUES.pattern}\Z")], Annotated[int, Meta(ge=0, lt=2**62)]]
_SAMPLE: Any = Annotated[list[_NUMBER | bool], Meta(max_length=MOST_SAMPLED)]


class _OpCounts(TypedDict, total=False):
    """Of a reference run."""

    substituted: _WHOLE
    integers: _WHOLE
    backward: _WHOLE
    native: dict[str, _WHOLE]
    without_kernel: dict[str, _WHOLE]


_Typed: Any = TypedDict  # for tables whose fields are computed


def _schema(*fields: tuple[Any, str], required: str = "", many: bool = False) -> Any:
    """``fields``: what a field holds, and the names of those that hold it; ``many``: of a list of such tables."""
    types = {name: kind for kind, names in fields for name in names.split()}
    needed = _Typed("needed", {name: types[name] for name in required.split()})

    class EventTable(needed, total=False):  # type: ignore[call-arg, misc, valid-type]
        """A JSON object with these fields, each of which may be null or absent but for those that are needed."""

        __annotations__ = {name: kind | None for name, kind in types.items() if name not in required.split()}

    return list.__class_getitem__(EventTable) if many else EventTable


# How much was compared; an operand of a call; the first line of any file of events.
_COVERAGE = _schema(
    (
        _WHOLE,
        "float_calls checked_calls float_elements checked_elements screened exact_calls updates idle stretches estimated_calls",
    ),
    (dict[str, _WHOLE], "unchecked"),
    (dict[str, dict[str, _WHOLE]], "unchecked_ops"),
)
_OPERANDS = _schema(
    (str, "name dtype strides digest"), (_LENGTHS, "shape"), (bool, "graph"), (_ANYTHING, "number"), required="name", many=True
)
_HEADER = (
    (str, "type id session created stopped command"),
    (_WHOLE, "schema rank ranks pid parent"),
    (_TABLE, "environment flags options"),
)

# ---- A compare run's log

# The figures of a judged tensor: the errors of both sides, and what assert_close would need, each alone.
_ERRORS = _schema((_NUMBER, "rho_max rho_rms prob det error_max"), (_WHOLE, "nan inf"))
STATS = _schema(
    (_WHOLE, "count different tied missing"),
    (_NUMBER, "max_abs mean_abs rel_fro ulp_max incoming propagated amplification sampled k lambda kappa error bound allowed"),
    (_schema((_NUMBER, "atol rtol")), "tolerance"),
    (_ERRORS, "paddle torch"),
    (_LENGTHS, "first_tied first_bad"),
    (str, "oracle"),
)
# Where a NaN or an infinity begins, with the operands of the call.
_BIRTH = _schema(
    (Literal["NaN", "infinity"], "what"),
    (_SIDE, "side"),
    (_LENGTHS, "at"),
    (list[str], "came_in"),
    (dict[str, _NUMBER], "values"),
    (
        _schema((str, "name"), (_LENGTHS, "shape"), (_WHOLE, "infinite"), (_NUMBER, "least most there number"), many=True),
        "operands",
    ),
)
# One judged tensor: a call's result or one of its gradients.
_CALL = _schema(
    (str, "type op entry site file layer tensor dtype device amp hypothesis quirk reason"),
    (_WHOLE, "index call line step result"),
    (bool, "train muted"),
    (list[str], "needs alternatives modifiers"),
    (Literal["forward", "backward"], "phase"),
    (_OPERANDS, "inputs"),
    (_TABLE, "attributes environment"),
    (_SHAPE, "shape"),
    (Literal[tuple(Verdict.__members__)], "verdict"),
    (_SIDE, "side"),
    (_BIRTH, "born"),
    (STATS, "stats"),
    required="op verdict",
)
# What happened between two records.
_EVENT = _schema(
    (str, "type kind text created"),
    (_WHOLE, "step"),
    (dict[str, str], "parameters gradients shapes"),
    (list[str], "outputs"),
    (_COVERAGE, "coverage"),
    required="kind text",
)
# The last line of a log or of a recording.
_END = _schema((str, "type how"), (_WHOLE, "calls records"), (_NUMBER, "seconds"), (_COVERAGE, "coverage"))

# ---- A recording

_TENSOR = (
    (str, "type name function tensor layer site file dtype digest left_out family kernels"),
    (_WHOLE, "index call step line"),
    (Literal[tuple(map(str, KINDS))], "kind"),
    (list[str], "names rows"),
    (_RECORDED_SHAPE, "shape"),
    (dict[str, _NUMBER], "figures"),
    (_PLACE, "at"),
    (_SAMPLE, "sample"),
    (_OPERANDS, "operands"),
    (dict[str, str], "arguments"),
    (bool, "draws"),
)
# Parameters with one setting each; without ``parameters`` those of the event before.
_GROUPS = _schema((_TABLE, "settings"), (list[str], "parameters"), required="settings", many=True)

# ---- A reference run's log

_LINES = _schema((str, "op reason layer site"), (_WHOLE, "calls"), many=True)  # of calls that stayed native
_PLACES = _schema((str, "part op layer site"), (_WHOLE, "calls"), (_NUMBER, "seconds"), many=True)
# All that a run counted: with the costs of copies of Linear weights, and where the time went.
_REFERENCE = _schema(
    (str, "type session started created backend linear_layout command"),
    (_WHOLE, "schema rank"),
    (bool, "ended"),
    (dict[str, str], "environment"),
    (_schema((_WHOLE, "copies bytes reused views spared"), (_NUMBER, "seconds")), "layout_cost"),
    (list[str], "warnings"),
    (dict[str, dict[str, _WHOLE]], "optimizers"),
    (dict[str, _OpCounts], "ops"),
    (_LINES, "lines"),
    (_schema((_NUMBER, "seconds"), (_WHOLE, "threads processes"), (_PLACES, "places")), "profile"),
)

EVENTS: dict[str, Any] = {
    "run": _schema(*_HEADER, (str, "backend carry"), (list[str], "warnings")),
    "call": _CALL,
    "event": _EVENT,
    "end": _END,
    "recording": _schema(
        *_HEADER,
        (Literal["paddle", "torch"], "framework"),
        (dict[str, _NUMBER], "split_axes mesh"),
        (str, "configuration checkpoint"),
        required="rank framework",
    ),
    "tensor": _schema(*_TENSOR, required="kind shape"),
    # Tensors whose fingerprints the following steps have, each described once.
    "tensors": _schema(
        (str, "type"),
        (_WHOLE, "first"),
        (_schema(*_TENSOR, required="kind shape", many=True), "tensors"),
        required="first tensors",
    ),
    # The fingerprints of one step, by the numbers of their tensors. ``of``: the numbers of the tensors as spans: begin, end behind
    # the last, begin, end... ``bits``: 64-bit hashes as 16 hexadecimal digits each, joined. ``figures``: four numbers of float32
    # for each tensor, as 8 digits each, joined.
    "step": _schema((str, "type bits figures"), (_WHOLE, "step"), (list[_WHOLE], "of"), required="step of bits figures"),
    # The settings of an optimizer from a step on.
    "optimizer": _schema((str, "type"), (_WHOLE, "step number"), (_GROUPS, "groups"), required="step number groups"),
    "reference": _REFERENCE,
}
_BEGINS_CALL, _CALL_DECODER = b'{"type":"call",', msgspec.json.Decoder(_CALL)


def decoded(line: bytes) -> JsonTable:
    """The event of a line. An unknown type of event may hold any sound table.

    Raises:
        ValueError: the line is none; the message says which field is wrong, and why.
        RecursionError: it nests too deep to say so.

    >>> decoded(b'{"type":"call","op":"exp","verdict":"EQUAL","step":-1}')
    Traceback (most recent call last):
    msgspec.ValidationError: Expected `int` >= 0 - at `$.step`
    """
    if b"\\ud" in line:  # half of a surrogate pair, as names of files may have, is nothing in UTF-8
        line = json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace")
    return _of_sound_size(_CALL_DECODER.decode(line)) if line.startswith(_BEGINS_CALL) else checked(msgspec.json.decode(line))


def checked(event: Any) -> JsonTable:
    """An event that was decoded, with the fields of its type.

    Raises:
        ValueError: it is none.
    """
    if type(event) is not dict or type(event.get("type")) is not str:
        raise ValueError(tr("it is not a table with a type"))
    table: JsonTable = msgspec.convert(event, EVENTS.get(event["type"], _TABLE))
    return _of_sound_size(table) if event["type"] == "call" else table


def _of_sound_size(call: JsonTable) -> JsonTable:
    if math.prod(call.get("shape") or ()) >= 2**63:
        raise ValueError(tr("no tensor is of shape {shape}", shape=call["shape"]))
    return call
