"""The way of :mod:`.execute` for its commonest cases, with nothing left to decide.

No autocast, CPU tensors of dtypes whose rule is known and asks for no cast: then a call is bridge, kernel, bridge; with a gradient
wanted, on the tape. Anything else answers None and takes the full way. Tests run every sample with and without this shortcut.

It is written out for each number of operands and attributes (:data:`_CALL`): a loop over two operands, lists of them and a function
for each step would cost more than Torch's kernel of a small tensor.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..dispatch.containers import flat
from ..dispatch.frames import Frame, top
from ..dispatch.kinds import make_room
from ..dispatch.operands import weight
from ..frameworks import strides, weights
from ..frameworks.lend import lend_numpy
from ..frameworks.memory import CPU_ALONE, FLOATS, TENSOR_TYPES, as_operand, grad_tracer, own
from ..frameworks.versions import EXPORT_IS_WHOLE, IS_3, attribute
from ..gradients.calls import Call
from ..gradients.leaves import leaf
from ..gradients.saved import LARGE, watched
from ..gradients.twins import TAPE, finish, twin
from ..signals import let_pass
from ..table import reasons
from ..table.reasons import StayNative
from ..table.signature import REFUSALS, refused
from . import results
from .leaves import weight_with_gradient

if TYPE_CHECKING:
    from .execute import Substitution

Quick = Callable[[Frame, tuple[Any, ...]], Any]
_PLAIN = frozenset({int, float, type(None)})  # operands that are no tensors
_TORCH_FLOATS = frozenset(FLOATS.values())

# Of each operand: v as Paddle gave it, t whether it is a tensor, w whether its gradient is wanted, s its torch side, r whether the
# backward reads it. Attributes: a.
_CALL = """
def quick(frame, values):
    {names}, = values
    tracer = grad_tracer()
    if tracer is None or tracer._amp_dtype != "float32"{unfit}:
        return None
    {tensors}
    if {absent}:
        return None
    {wants}
    trainable = {wanted}
    if not (trainable and tracer._has_grad):
        try:
            {plain}
        except Exception as error:
            let_pass(error)
            return None  # the full way finds the reason
        if {empty}:
            return None
        kind, lacks = ({kinds}, {ranks}, {attributes}), ""
        try:
            met = kind in taken
        except TypeError:  # a list among the attributes
            kind = (*kind[:{plain_many}], repr(values[{count}:]))
            met = kind in taken
        if not met and ((lacks := takes(kind, values)) is None or (lacks and not frame.plan.lends)):
            return None
        {weight}
        enabled = trainable and is_grad_enabled()
        try:
            if trainable:  # as operands.without_gradient
                {requiring}
                set_grad_enabled(False)
            out = formula({given})
        except REFUSALS as error:
            raise refused(error) from None
        finally:
            if trainable:
                set_grad_enabled(enabled)
        {result}
        frame.tally.substituted[name] += 1
        if lacks:
            frame.tally.lacking[name, lacks] += 1
        return result

    try:
        {twins}
    except Exception as error:
        let_pass(error)
        return None
    kind = ({kinds}, {wanting}, {ranks}, {attributes})
    try:
        found = learnt.get(kind)
    except TypeError:  # a list among the attributes
        kind = (*kind[:{many}], repr(values[{count}:]))
        found = learnt.get(kind)
    if {empty} or (found is None and not ready(kind, values)):
        return None
    {weight_leaf}
    if {empty_weight}:
        return None
    if found is None or not is_grad_enabled():
        return unknown(frame, values, ({sides},), kind)
    {reads}, reads_result, lacks = found
    if lacks and not frame.plan.lends:
        return None
    if {strided}:
        return unknown(frame, values, ({sides},), kind)
    try:
        out = formula({given})
    except REFUSALS as error:
        raise refused(error) from None
    if not out.requires_grad:
        raise StayNative(INDEPENDENT)
    saved = []
    {saves}
    call = Call(name, frame.tally, saved, {renew})
    result = {made}
    frame.tally.substituted[name] += 1
    if lacks:
        frame.tally.lacking[name, lacks] += 1
    return result
"""

_CONTIGUOUS = """if type(out) is Tensor and out.is_contiguous() and (pointer := out.data_ptr()) {elsewhere}:
            result = lend(out)
        else:
            result = answer(values, ({sides},), out, handed)"""

# Paddle 3 keeps the record of a tensor on the tape in its ``__dict__``: as twins.twin, and versions.to_torch.
_TWIN = "(leaf(v) if (tape := v.__dict__.get(TAPE)) is None else tape.twin if tape.current(v) else twin(v))"
_SIDE = "as_operand(v)"
if EXPORT_IS_WHOLE:
    _SIDE = f"(from_dlpack(v.get_tensor()._to_dlpack()) if not layouts and v.is_contiguous() else {_SIDE})"


class _Form(NamedTuple):
    """What the text of a shortcut depends on."""

    operands: int  # how many
    attributes: int
    transposed: int | None  # which operand is a Linear weight
    dtype_at: int | None  # which attribute is a dtype
    single: bool  # one tensor comes out, and nothing is written
    moves: bool  # what comes out may be a view of Torch's where Paddle copies
    integers: frozenset[int]  # which operands have no gradient where they are integers


@functools.cache
def _written(form: _Form) -> CodeType:
    """The code of a shortcut."""
    operands, attributes = range(form.operands), [f"a{i}" for i in range(form.operands, form.operands + form.attributes)]

    def each(text: str, between: str = ", ") -> str:
        """``text`` for each operand, where v, t, w, s and r stand alone for the operand's own."""
        return between.join(_own(text, i) for i in operands)

    def side(i: int, plain: str, twinned: str = "") -> str:
        return _own(f"s = {twinned} if w else {plain} if t else v" if twinned else f"s = {plain} if t else v", i)

    at = form.transposed  # comes last, when it is known that the call is for the shortcut: its copies are counted
    others = [i for i in operands if i != at]
    of_weight = "weight(frame, v, s0, v2)", "weight_with_gradient(frame, v, s0, v2)"
    of_other = (_SIDE, _TWIN if IS_3 else "twin(v)")
    kinds = ", ".join(_own(f"{'FLOATS.get(v.dtype)' if i == at else 's.dtype'} if t else type(v)", i) for i in operands)
    empty = " or ".join(_own("t and not s.numel()", i) for i in others)
    absent = "t and not v._is_initialized()" if CPU_ALONE else "t and not (v._is_initialized() and v.place.is_cpu_place())"
    # With its graph on, Torch says of every alias that it is a view; only the operand itself is none.
    indented, sides = "\n        ", each("s")
    contiguous = _CONTIGUOUS.format(elsewhere=each("and not (t and pointer == s.data_ptr())", " "), sides=sides)
    made = "on_tape(call, out, ({sides},))" if form.moves else "finish(call, own(out, ({sides},)) if {view} else out, reads_result)"
    source = _CALL.format(
        names=", ".join([each("v"), *attributes]),
        unfit="" if form.dtype_at is None else f" or values[{form.dtype_at}] is not None",
        tensors=each("t = type(v) in TENSOR_TYPES", "\n    "),
        absent=each(absent, " or "),
        wanted=each("w", " or "),
        plain=(indented + "    ").join(side(i, of_other[0]) for i in others),
        weight="pass" if at is None else side(at, of_weight[0]),
        weight_leaf="pass" if at is None else side(at, *of_weight),
        kinds=kinds,
        sides=sides,
        given=", ".join([sides, *attributes]),
        result=contiguous if form.single and not form.moves else f"result = answer(values, ({sides},), out, handed)",
        wants="\n    ".join(
            _own(f"w = t and not v.stop_gradient{' and v.dtype in FLOATS' * (i in form.integers)}", i) for i in operands
        ),
        twins=indented.join(side(i, *of_other) for i in others),
        wanting=each("w"),
        ranks=", ".join(_own("s.ndim if t else None", i) for i in others),
        attributes=", ".join([*(f"type({name})" for name in attributes), *attributes]),
        many=2 * form.operands + len(others),
        plain_many=form.operands + len(others),
        count=form.operands,
        empty=empty,
        empty_weight="False" if at is None else _own("t and not s.numel()", at),
        reads=each("r"),
        strided=" or ".join(_own(f"r and not s.is_contiguous() and strays({i}, v, s)", i) for i in operands),
        requiring=each("s = s.detach().requires_grad_() if w and s.is_floating_point() else s", "\n                "),
        saves=each("if r:\n        saved.append((v, v._inplace_version()) if s.nbytes < LARGE else watched(v, s))", "\n    "),
        renew="None" if at is None else _own("renewer(v, s)", at),
        made=made.format(sides=sides, view="out._is_view() or " + each("out is s", " or ")),
    )
    return compile(source, f"<shortcut for {form.operands} operands>", "exec")


def _own(text: str, i: int) -> str:
    """``text`` with the names of one operand."""
    return re.sub(r"\b([vtwsr])\b", rf"\g<1>{i}", text)


def shortcut(substitution: Substitution) -> Quick | None:
    """A function from the bound values to the result, or None where it does not apply; None if the op never qualifies."""
    door, op = substitution.door, substitution.op
    if op.operands or door.entry.inplace or not op.tensors or not op.gradient or (op.differs is not None and op.asked):
        return None
    form = _Form(
        operands=op.tensors,
        attributes=len(door.names) - op.tensors,
        transposed=door.transposed,
        dtype_at=door.dtype_at,
        single=substitution.single,
        moves=substitution.moves,
        integers=op.integer_places if door.without_integers else frozenset(),
    )
    rules: set[tuple[Any, ...]] = set()  # kinds of operands that need no cast
    taken: set[tuple[Any, ...]] = set()  # kinds of calls that Paddle takes and has a kernel for, of which the rule is known
    lacking: dict[tuple[Any, ...], str] = {}  # the same where it has none: the dtype

    def known(kinds: tuple[Any, ...]) -> bool:
        if kinds not in door.rules.plain or any(isinstance(kind, type) and kind not in _PLAIN for kind in kinds):
            return False
        rules.add(kinds)
        return True

    def takes(kind: tuple[Any, ...], values: tuple[Any, ...]) -> str | None:
        """As :meth:`DtypeRules.taken`; None as well where the rule is not known."""
        if kind in lacking:
            return lacking[kind]
        kinds = kind[: op.tensors]
        lacks = door.rules.taken(values) if kinds in rules or known(kinds) else None
        if lacks is None:
            return None
        make_room(taken)
        make_room(lacking)
        if not any(type(value) in TENSOR_TYPES for value in flat(list(values[op.tensors :]))):  # it would be held
            if lacks:
                lacking[kind] = lacks
            else:
                taken.add(kind)
        return lacks

    def ready(kind: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
        kinds, wanting = kind[: op.tensors], kind[op.tensors : 2 * op.tensors]
        floats = all(dtype in _TORCH_FLOATS for dtype, wanted in zip(kinds, wanting) if wanted)
        return floats and (kinds in rules or known(kinds)) and door.rules.taken(values) is not None

    # Kinds of calls -> whether a backward reads each operand, and the result; the dtype that Paddle has no kernel of, or "".
    learnt: dict[Any, tuple[bool | str, ...]] = {}
    names: dict[str, Any] = {
        "FLOATS": FLOATS,
        "LARGE": LARGE,
        "__name__": __name__,
        "INDEPENDENT": reasons.INDEPENDENT,
        "REFUSALS": REFUSALS,
        "StayNative": StayNative,
        "TAPE": TAPE,
        "TENSOR_TYPES": TENSOR_TYPES,
        "Call": Call,
        "Tensor": torch.Tensor,
        "answer": substitution.answer,
        "as_operand": as_operand,
        "finish": finish,
        "formula": _formula(substitution),
        "from_dlpack": torch._C._from_dlpack,
        "grad_tracer": grad_tracer,
        "handed": substitution.handed,
        "is_grad_enabled": torch.is_grad_enabled,
        "strays": substitution.strays,
        "set_grad_enabled": torch._C._set_grad_enabled,
        "layouts": strides.layouts,
        "leaf": leaf,
        "learnt": learnt,
        "let_pass": let_pass,
        "lend": lend_numpy,
        "name": op.name,
        "on_tape": results.on_tape,
        "own": own,
        "refused": refused,
        "renewer": weights.renewer,
        "taken": taken,
        "takes": takes,
        "twin": twin,
        "ready": ready,
        "unknown": _learning(substitution, learnt),
        "watched": watched,
        "weight": weight,
        "weight_with_gradient": weight_with_gradient,
    }
    exec(_written(form), names)
    quick: Quick = names["quick"]
    return quick


def _formula(substitution: Substitution) -> Callable[..., Any]:
    """The op's formula; where Torch's definition may be another, the run is told of that first."""
    op = substitution.op
    if op.differs is None:
        return op.reference

    def formula(*arguments: Any) -> Any:
        frame = top()
        if frame is not None:
            substitution.tell(frame, arguments)
        return op.reference(*arguments)

    return formula


def _learning(substitution: Substitution, learnt: dict[Any, Any]) -> Callable[..., Any]:
    """The full way on the tape, where what the backward reads is not known yet, or is not all there is to know."""
    op, reference = substitution.op, _formula(substitution)
    count = op.tensors

    def unknown(frame: Frame, values: tuple[Any, ...], sides: Sequence[Any], kind: tuple[Any, ...]) -> Any:
        rest = values[count:]
        lacks = substitution.door.rules.taken(values) or ""
        if lacks and not frame.plan.lends:
            return None
        try:
            result = substitution.on_tape(frame, values, sides, rest, lambda *tensors: reference(*tensors, *rest))
        except REFUSALS as error:
            raise refused(error) from None
        places = simple(result, sides, rest)
        if places is not None:
            make_room(learnt)
            learnt[kind] = (*places, lacks)
        frame.tally.substituted[op.name] += 1
        if lacks:
            frame.tally.lacking[op.name, lacks] += 1
        return result

    def simple(result: Any, sides: Sequence[Any], rest: Sequence[Any]) -> tuple[bool, ...] | None:
        if not substitution.single or type(result) not in TENSOR_TYPES or attribute(result, TAPE) is None:
            return None
        if op.by_layout or any(type(one) in TENSOR_TYPES for one in flat(list(rest))):
            return None  # a tensor would be held, and is another one at the next call
        read = substitution.read(sides, rest)
        if op.copies_result and read.results:
            return None
        return (*[index in read.operands - substitution.unread for index in range(count)], bool(read.results))

    return unknown
