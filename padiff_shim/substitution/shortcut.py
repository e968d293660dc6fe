"""The way of :mod:`.execute` for its commonest cases, with nothing left to decide.

No autocast, CPU tensors of dtypes whose rule is known and asks for no cast: then a call is bridge, kernel, bridge; with a gradient
wanted, on the tape. Anything else answers None and takes the full way. Tests run every sample with and without this shortcut.

What is asked of each operand is written out per number of operands (:func:`_written`): a loop over two operands costs as much as
Torch's kernel for a small tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch

from ..dispatch.frames import Frame
from ..dispatch.operands import FLOATS, weight, without_gradient
from ..frameworks import weights
from ..frameworks.memory import CPU_ALONE, TENSOR_TYPES, as_operand, grad_tracer, torch_dtype
from ..frameworks.versions import attribute
from ..gradients.calls import Call
from ..gradients.twins import TAPE, finish, twin
from ..table import reasons
from ..table.reasons import StayNative
from ..table.signature import REFUSALS, refused
from . import results
from .leaves import with_gradient

if TYPE_CHECKING:
    from .execute import Substitution

Quick = Callable[[Frame, tuple[Any, ...]], Any]
_PLAIN = frozenset({int, float, type(None)})

_OPERAND = """
    k{i} = type(v{i})
    t{i} = n{i} = False
    if k{i} in TENSOR_TYPES:
        if not v{i}._is_initialized(){elsewhere}:
            return None
        t{i}, k{i}, n{i} = True, v{i}.dtype, not v{i}.stop_gradient"""

_CALL = """
def quick(frame, values):
    tracer = grad_tracer()
    if tracer is None or tracer._amp_dtype != "float32"{dtype}:
        return None
    {names}, *rest = values{operands}
    key = ({kinds},)
    whole = plain.get(key)
    if whole is None and (whole := known(key)) is None:
        return None
    if not whole and ({integers}):
        return None
    taped = ({wanted}) and tracer._has_grad
{sides}
    if {empty}:
        return None
    if taped:
        return on_tape(frame, values, ({given},), rest, (key, {needs}, {ranks}, repr(rest) if rest else None))
    return without(values, ({given},), rest, {wanted})
"""

_SIDE = """
    s{i} = v{i}
    if t{i}:
        s{i} = {twin} if taped and n{i} else {plain}"""


@functools.cache
def _written(count: int, transposed: int | None, dtype_at: int | None) -> CodeType:
    """The code of a shortcut for ``count`` operands, of which ``transposed`` is a Linear weight."""

    def each(text: str, between: str) -> str:
        return between.join(text.format(i=i) for i in range(count))

    def side(i: int) -> str:
        if i == transposed:
            return _SIDE.format(i=i, twin=f"with_gradient(frame, v{i}, transposed=True)", plain=f"weight(frame, v{i})")
        return _SIDE.format(i=i, twin=f"twin(v{i})", plain=f"as_operand(v{i})")

    elsewhere = "" if CPU_ALONE else " or not v{i}.place.is_cpu_place()"
    source = _CALL.format(
        dtype="" if dtype_at is None else f" or values[{dtype_at}] is not None",
        names=each("v{i}", ", "),
        operands=each(_OPERAND.replace("{elsewhere}", elsewhere), ""),
        kinds=each("k{i}", ", "),
        integers=each("n{i} and k{i} not in FLOATS", " or "),
        wanted=each("n{i}", " or "),
        sides="".join(side(i) for i in range(count)),
        empty=each("t{i} and not s{i}.numel()", " or "),
        given=each("s{i}", ", "),
        needs=each("n{i}", ", "),
        ranks=each("s{i}.ndim if t{i} else None", ", "),
    )
    return compile(source, f"<shortcut for {count} operands>", "exec")


def shortcut(substitution: Substitution) -> Quick | None:
    """A function from the bound values to the result, or None where it does not apply; None if the op never qualifies."""
    door, op = substitution.door, substitution.op
    if op.operands or door.entry.inplace or not op.tensors:
        return None
    plain: dict[tuple[Any, ...], bool] = {}  # kinds of operands that need no cast -> whether no tensor is one of integers

    def known(key: tuple[Any, ...]) -> bool | None:
        if any(isinstance(kind, type) and kind not in _PLAIN for kind in key):
            return None
        if (
            tuple([kind if isinstance(kind, type) else FLOATS.get(kind) or torch_dtype(kind) for kind in key])
            not in door.rules.plain
        ):
            return None
        return plain.setdefault(key, all(isinstance(kind, type) or kind in FLOATS for kind in key))

    names: dict[str, Any] = {
        "grad_tracer": grad_tracer,
        "TENSOR_TYPES": TENSOR_TYPES,
        "FLOATS": FLOATS,
        "plain": plain,
        "known": known,
        "twin": twin,
        "with_gradient": with_gradient,
        "weight": weight,
        "as_operand": as_operand,
        "on_tape": _on_tape(substitution),
        "without": _without(substitution),
    }
    exec(_written(op.tensors, door.transposed, door.dtype_at), names)
    quick: Quick = names["quick"]
    return quick


def _without(substitution: Substitution) -> Callable[..., Any]:
    """The kernel and its result where no gradient is wanted."""
    reference, answer, handed = substitution.op.reference, substitution.answer, substitution.handed
    single = not (substitution.writes or substitution.entry.returns_list or substitution.with_mask)

    def without(values: Any, sides: Any, rest: Any, trainable: bool) -> Any:
        try:
            if trainable:
                out = without_gradient(lambda *tensors: reference(*tensors, *rest), values, sides)
            else:
                out = reference(*sides, *rest)
        except REFUSALS as error:
            raise refused(error) from None
        return handed(out, sides) if single and type(out) is torch.Tensor else answer(values, sides, out, handed)

    return without


def _on_tape(substitution: Substitution) -> Callable[..., Any]:
    """The kernel and its result on the tape. What the backward reads is learnt at the first call of each kind, on the full way."""
    op, transposed, reference = substitution.op, substitution.transposed, substitution.op.reference
    single = not (substitution.writes or substitution.entry.returns_list or substitution.with_mask)
    learnt: dict[Any, tuple[tuple[int, ...], bool] | None] = {}  # operands that are read, and whether the result is

    def on_tape(frame: Frame, values: Any, sides: Any, rest: Any, kind: Any) -> Any:
        found = learnt.get(kind)
        if found is None or not torch.is_grad_enabled():
            return fully(frame, values, sides, rest, kind)
        try:
            out = reference(*sides, *rest)
        except REFUSALS as error:
            raise refused(error) from None
        if not out.requires_grad:
            raise StayNative(reasons.INDEPENDENT)
        saved = [(values[index], values[index].inplace_version) for index in found[0]]
        renew = None if transposed is None else weights.renewer(values[transposed], sides[transposed])
        call = Call(op.name, frame.tally, saved, renew)
        return (
            results.on_tape(call, out, sides)
            if op.exact and not op.copies_result
            else finish(call, out, sides, reads_result=found[1])
        )

    def fully(frame: Frame, values: Any, sides: Any, rest: Any, kind: Any) -> Any:
        try:
            result = substitution.on_tape(frame, values, sides, rest, lambda *tensors: reference(*tensors, *rest))
        except REFUSALS as error:
            raise refused(error) from None
        if kind not in learnt:
            learnt[kind] = simple(result, sides, rest)
        return result

    def simple(result: Any, sides: Any, rest: Any) -> tuple[tuple[int, ...], bool] | None:
        if not single or type(result) not in TENSOR_TYPES or attribute(result, TAPE) is None:
            return None
        read = substitution.read(sides, rest)
        if op.copies_result and read.results:
            return None
        return tuple(sorted(read.operands - substitution.unread)), bool(read.results)

    return on_tape
