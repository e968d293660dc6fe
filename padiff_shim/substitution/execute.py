"""One call of the table answered by Torch's kernel: the general way, and the shortcut for its commonest cases."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

import paddle
import torch
from paddle.base import core

from .. import torch_versions
from ..dispatch.dtypes import has_kernel, is_listed_without, make_room
from ..dispatch.entry_point import EntryPoint, spelled
from ..dispatch.frames import Frame, paused, top
from ..dispatch.operands import CallOperands, each, flat, spares, weight, without_gradient
from ..dispatch.prepare import Prepared, device_of, prepare, readers
from ..frameworks import memory, weight_copies
from ..frameworks.autocast import grad_tracer
from ..frameworks.memory import (
    CPU_ALONE,
    EXPORT_IS_WHOLE,
    FLOATS,
    TENSOR_TYPES,
    as_it_lies,
    as_operand,
    dtype_of,
    hand_over,
    lend_numpy,
    own,
    shares_memory,
    stream_of,
    to_torch,
    torch_dtype,
)
from ..frameworks.versions import IS_3, PaddleTensor, attribute
from ..interrupts import let_pass
from ..table import reasons
from ..table.reasons import StayNative
from ..table.signature import REFUSALS, refused
from ..tape import islands
from ..tape.calls import LARGE, Reads, TapeCall, apart, keeping_apart, never_unpacked, reads, watched
from ..tape.paddle_graph import LOCAL
from ..tape.twins import (
    TAPE,
    WithoutGradient,
    ZerosBehind,
    begin_as_it_lies,
    finish_call,
    leaf,
    lies_in_graph,
    taped_result,
    twin,
    weight_leaf,
    with_hook,
)

# The shortcut, or: prepare -> Torch's kernel -> a new Paddle tensor, or one on the tape

BY_DEFINITION = '; definitions="torch" computes that'  # behind a remark on an op of which Torch has another definition


class Substitution:
    """The answer to the calls of one entry point: Torch's kernel."""

    def __init__(self, entry_point: EntryPoint) -> None:
        self.entry_point, self.op, self.entry, self.transposed = (
            entry_point,
            entry_point.op,
            entry_point.entry,
            entry_point.transposed,
        )
        self.writes = {position: entry_point.names.index(name) for position, name in entry_point.op.writes.items()}
        self.unset = {entry_point.op.results.index(result): entry_point.op.unset[result] for result in entry_point.op.unset}
        self.unread = frozenset(entry_point.names.index(name) for name in entry_point.op.unread)
        self.apart = not (self.op.gradient or self.entry.inplace)
        self.with_mask = self.entry.with_mask and not IS_3
        self.as_result = moved_result if entry_point.op.exact else new_result
        self.moves = (
            entry_point.op.exact and not entry_point.op.copies_result
        )  # what comes out may be a view of Torch's, where Paddle copies
        self.single = not (self.writes or self.entry.returns_list or self.with_mask)  # one tensor comes out, and nothing is written
        self.keeping: dict[int, bool] = {}  # operand that lies strided -> whether Paddle keeps it itself: see keeps_itself
        self.quick = shortcut(self)

    def execute(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Bridge and compute one bound call; with gradients wanted, on the tape. Counted where Paddle has no kernel for it."""
        prepared = prepare(self.entry_point, frame, values, args, kwargs)
        inputs, casts = prepared.inputs, prepared.casts
        if self.entry.inplace and inputs.needs and islands.refuses_writes(inputs.paddle[0]):
            raise StayNative(reasons.LEAF)
        lacks = "" if casts.region else self.entry_point.rules.ask((inputs, casts.targets, values, args, kwargs))
        if lacks and not frame.plan.lends:
            raise StayNative(reasons.NO_KERNEL, dtype=lacks)
        result = self.computed(frame, values, prepared)
        if lacks:
            frame.tally.lacking[self.op.name, lacks] += 1
        return result

    def computed(self, frame: Frame, values: tuple[Any, ...], prepared: Prepared) -> Any:
        """The result of a call that Paddle takes."""
        inputs, attributes, casts = prepared
        self.tell(frame, (*inputs.torch, *attributes))

        def run(*tensors: Any) -> Any:
            return casts.run(self.entry_point, tensors, attributes)

        with stream_of(device_of(inputs.torch)):
            if not inputs.needs or self.apart:
                out = without_gradient(run, inputs.paddle, inputs.torch)
                return (
                    self.write(inputs, out) if self.entry.inplace else self.answer(inputs.paddle, inputs.torch, out, self.as_result)
                )
            sides = list(inputs.torch)
            for index in inputs.needs:
                value = inputs.paddle[index]
                turned = index == self.transposed
                sides[index] = weight_with_gradient(frame, value, sides[0], inputs.paddle[2]) if turned else twin(value)
            bound = [*inputs.paddle, *values[len(inputs.paddle) :]]
            settings = attributes if casts.none else (*attributes, *casts.settings)
            if self.entry.inplace:
                return self.write_on_tape(frame, bound, sides, settings, run)
            return self.on_tape(frame, bound, sides, settings, run)

    def tell(self, frame: Frame, arguments: Sequence[Any]) -> None:
        """A remark in the run where Torch's definition gives the formula's arguments another value."""
        self.entry_point.tell(frame, arguments, BY_DEFINITION if self.op.definition else "")

    @torch.enable_grad()  # within a backward torch's are off, and a replay there has gradients of its own
    def on_tape(self, frame: Frame, tensors: Sequence[Any], sides: Sequence[Any], settings: Any, run: Callable[..., Any]) -> Any:
        """The result with gradients wanted: torch's own graph goes on behind it.

        ``tensors``: the bound call, Paddle's tensors first. ``settings``: what else ``run`` depends on.
        """
        call, read, out = self.recorded(frame, tensors, sides, settings, run)

        result_with_gradient = next(result for result in flat(out) if isinstance(result, torch.Tensor) and result.requires_grad)

        def made(out_tensor: torch.Tensor, operands: Sequence[Any], position: int) -> Any:
            if not out_tensor.requires_grad:
                if self.unused(position):
                    return new_result(out_tensor, operands)
                result = result_beside(result_with_gradient, out_tensor, operands)
                if (
                    self.entry_point.python and not out_tensor.is_floating_point()
                ):  # of indices Paddle's Python functions say that none is wanted
                    result.stop_gradient = True
                return result
            if self.moves:
                return on_tape(call, out_tensor, operands)
            return finish_call(call, own(out_tensor, operands), position in read.results and not self.op.copies_result)

        return self.answer(tensors, sides, out, made, result_with_gradient)

    @torch.enable_grad()
    def write_on_tape(self, frame: Frame, bound: Sequence[Any], sides: list[Any], settings: Any, run: Callable[..., Any]) -> Any:
        """The same of an in-place op."""
        target, side = bound[0], sides[0]
        own = islands.twin_before_write(target) if target.stop_gradient else side  # that is its twin already
        # What torch keeps for the backward must not be overwritten.
        sides = [own.clone() if tensor is target else side for side, tensor in zip(sides, bound)]
        call, read, out = self.recorded(frame, bound, sides, settings, run, target)
        check_fits(out, side)
        return islands.write(call, target, out, reads_result=0 in read.results and not self.op.copies_result)

    def recorded(
        self, frame: Frame, tensors: Sequence[Any], sides: Sequence[Any], settings: Any, run: Callable[..., Any], target: Any = None
    ) -> tuple[TapeCall, Reads, Any]:
        """Torch's kernel with its graph, and the call's part in a backward. ``target``: what the call is about to write."""
        read = self._reads(settings, sides, run)
        places = [index for index in read.operands - self.unread if tensors[index] is not target]
        copied = [index for index in places if self.strays(index, tensors[index], sides[index]) and self.copied(tensors, index)]
        results = bool(read.results) and self.op.copies_result and target is None
        if copied or results:
            out = keeping_apart([sides[index] for index in copied], lambda: run(*sides), results=results)
        else:
            out = run(*sides)
        if not any(isinstance(result, torch.Tensor) and result.requires_grad for result in flat(out)):
            raise StayNative(reasons.INDEPENDENT)
        saved = [watched(tensors[index], sides[index]) for index in places if index not in copied]
        at = self.transposed
        call = TapeCall(self.op.name, frame.tally, saved, None if at is None else weight_copies.renewer(tensors[at], sides[at]))
        call.block = LOCAL.block if read.operands or read.results else None
        return call, read, out

    def strays(self, index: int, tensor: PaddleTensor, side: torch.Tensor) -> bool:
        """Whether an operand that the backward reads may be written before it, and Paddle is not known to mind."""
        return not self.keeping.get(index, False) and apart(tensor, side)

    def copied(self, values: Sequence[Any], index: int) -> bool:
        """Whether Paddle keeps a copy of an operand that lies strided."""
        known = self.keeping.get(index)
        if known is None:
            known = keeps_itself(self.entry_point, values, index)
            if known is not None:
                self.keeping[index] = known
        return known is False

    def unused(self, position: int) -> bool:
        """Whether nobody but Paddle's own backward reads a result."""
        return position < len(self.op.results) and self.op.results[position] in self.op.scratch

    def read(self, sides: Sequence[Any], attributes: Any) -> Reads:
        """What the backward of a call reads that was made before."""
        return self._reads(attributes, sides, lambda *tensors: self.op.reference(*tensors, *attributes))

    def _reads(self, settings: Sequence[Any], sides: Sequence[Any], run: Callable[..., Any]) -> Reads:
        if self.op.by_layout:
            settings = (*settings, *[(side.shape, side.stride()) for side in sides if isinstance(side, torch.Tensor)])
        return reads(self.entry_point.reads, settings, sides, run)

    def answer(
        self,
        tensors: Sequence[Any],
        sides: Sequence[Any],
        out: Any,
        made: Callable[[torch.Tensor, Sequence[Any], int], Any],
        result_with_gradient: torch.Tensor | None = None,
    ) -> Any:
        """What Paddle's function returns: a tensor, or its several results in a tuple or list, as the formula gives them.

        ``result_with_gradient``: one of the call's other results.
        """
        if isinstance(out, torch.Tensor):
            result = made(out, sides, 0)
            if self.with_mask:
                return result, None
            return [result] if self.entry.returns_list else result

        twice: dict[int, Any] = {}  # a result that is handed back in two places is one tensor, as natively

        def built(position: int, result: Any) -> Any:
            if not isinstance(result, torch.Tensor):
                return placed(position, result)
            if id(result) not in twice:
                twice[id(result)] = placed(position, result)
            return twice[id(result)]

        def placed(position: int, result: Any) -> Any:
            place = self.writes.get(position)
            if place is not None and tensors[place] is not None:
                return tensors[place] if result is None else overwritten(tensors[place], result)
            if result is None and position in self.unset:
                return self.without_memory(tensors, sides[0], position, result_with_gradient)
            return made(result, sides, position) if isinstance(result, torch.Tensor) else result

        return each(out, built)

    def without_memory(
        self, tensors: Sequence[Any], side: torch.Tensor, position: int, result_with_gradient: torch.Tensor | None
    ) -> Any:
        """A result that Paddle's kernel leaves unset."""
        name = self.unset[position]
        shape = tensors[self.entry_point.names.index(name)].shape if name else [0]
        result = hand_over(side.new_empty(shape))
        result = result if result_with_gradient is None else gradientless(result, result_with_gradient)
        result._clear_data()
        return result

    def write(self, inputs: CallOperands, out: torch.Tensor) -> Any:
        """The result of an in-place op, without gradients, in the memory of the first operand."""
        check_fits(out, inputs.torch[0])
        tensor = overwritten(inputs.paddle[0], out)
        tensor._bump_inplace_version()
        return tensor


# ---- Torch's results, made into what Paddle's function returns.


def check_fits(out: torch.Tensor, target: torch.Tensor) -> None:
    """StayNative where an in-place op's result does not fit into the operand."""
    if out.shape != target.shape or out.dtype != target.dtype:
        raise StayNative(reasons.OTHER_RESULT)


def overwritten(tensor: PaddleTensor, values: torch.Tensor) -> Any:
    """The Paddle tensor, with new values in its own memory."""
    try:
        to_torch(tensor).copy_(values.detach())  # not into the operand's side: that may be a copy with a Torch program's strides
    except REFUSALS as error:  # elements that overlap
        raise refused(error) from None
    return tensor


def new_result(out: torch.Tensor, operands: Sequence[Any], position: int = 0) -> Any:
    """A result without gradients as a new Paddle tensor, never over the memory of an operand."""
    out = out.detach() if out.requires_grad else out
    pointer = out.data_ptr()
    for side in operands:
        if type(side) is torch.Tensor and side.data_ptr() == pointer:
            out = own(out, operands)
    return hand_over(out)


def result_beside(result_with_gradient: torch.Tensor, out: torch.Tensor, operands: Sequence[Any]) -> Any:
    """A result without a gradient (indices, a mask) beside one that has it: in Paddle both have one node."""
    if out.is_floating_point():
        return taped_result(ZerosBehind.apply(own(out.detach(), operands), result_with_gradient))
    return gradientless(new_result(out, operands), result_with_gradient)


def gradientless(result: Any, result_with_gradient: torch.Tensor) -> Any:
    """A result that no gradient comes from, with the node that ``result_with_gradient`` has in Paddle."""
    return with_hook(result, result_with_gradient, WithoutGradient(result_with_gradient).arrive)


def in_own_memory(side: torch.Tensor, operands: Sequence[Any]) -> torch.Tensor:
    """A result of an op that moves values, with Torch's strides; a copy where Paddle would get memory of an operand."""
    return side.clone() if side.is_contiguous() and shares_memory(side, operands) else side


def on_tape(call: TapeCall, out: torch.Tensor, operands: Sequence[Any]) -> Any:
    """A result of an op that moves values. Torch may make a view where Paddle copies; its strides are kept."""
    if any(out is operand for operand in operands):  # a cast to the dtype that it has: no step of torch's graph
        out = out.view_as(out)
    call.behind(out)
    return taped_result(in_own_memory(out, operands))


def moved_result(out: torch.Tensor, operands: Sequence[Any], position: int = 0) -> Any:
    """A result without gradients of an op that moves values."""
    return hand_over(in_own_memory(out.detach() if out.requires_grad else out, operands))


# ---- The torch side of a Linear weight whose gradient is wanted.


def weight_with_gradient(frame: Frame, value: Any, x: Any, bias: Any) -> torch.Tensor:
    """A Linear weight as [out, in], by which ``x``, on Torch's side, is multiplied, to add ``bias``, on Paddle's."""
    if not torch.is_grad_enabled():  # within a backward: a replay asks for gradients of its own
        with torch.enable_grad():
            return weight_with_gradient(frame, value, x, bias)
    cost = frame.run.layout_cost
    if value.ndim != 2:
        raise StayNative(reasons.NOT_A_MATRIX)
    if frame.linear_layout == "view":
        cost.views += 1
        return twin(value).t()
    if value.is_leaf:
        return _of_leaf(frame, value, x, bias)
    return _computed(frame, twin(value))  # a computed weight: its copy is computed, too


def _of_leaf(frame: Frame, value: Any, x: Any, bias: Any) -> torch.Tensor:
    """The weight as it lies, where that leaves Torch's bits, else a copy."""
    cost = frame.run.layout_cost
    if lies_in_graph(value):
        side = leaf(value)
        if not spares(frame, x, side, bias):
            return _computed(frame, side)
        cost.spared += 1
        return side.t()
    source = as_it_lies(value)
    if spares(frame, x, source, bias) and begin_as_it_lies(value):
        weight_copies.forget(value)
        cost.spared += 1
        return leaf(value).t()
    return weight_leaf(value, weight_copies.transposed_copy(value, source, cost))


def _computed(frame: Frame, side: torch.Tensor) -> torch.Tensor:
    """A copy that is a step of torch's graph."""
    # Not contiguous(), which leaves an axis of size 1 the stride that it has: BLAS may be asked with it.
    turned = side.t().clone(memory_format=torch.contiguous_format)
    frame.run.layout_cost.copies += 1
    frame.run.layout_cost.bytes += turned.numel() * turned.element_size()
    return turned


# ---- What Paddle keeps for its backward of an operand that lies strided: the operand itself, or a contiguous copy.
#
# Some of its kernels read strided tensors, more from version to version; for the others it makes a copy, and keeps that. A
# program may then write into the operand's memory (fill a buffer column by column from the columns before), and its backward goes
# on with the old values; where the operand itself is kept, the backward raises.


def keeps_itself(entry_point: EntryPoint, values: Sequence[Any], index: int) -> bool | None:
    """Whether Paddle keeps operand ``index`` of a call itself; learnt by making the call again, with copies of what it writes into.

    True as well of calls that cannot be made once more, so that a backward that reads what was written raises. None if it cannot be
    seen now. ``values``: the bound call, as Paddle's own tensors.
    """
    op = entry_point.op
    if op.random or op.operands or entry_point.entry.arrange is not None or not has_kernel(op) or not values[index].data_ptr():
        return True
    operand = values[index].detach()
    saved: list[Any] = []
    operand.stop_gradient = False
    own = [operand if place == index else _apart(value, place in entry_point.overwritten) for place, value in enumerate(values)]
    args = spelled(entry_point.entry, dict(zip(entry_point.names, own)), entry_point.names)
    with paused(), paddle.enable_grad():
        try:
            core.eager.register_saved_tensors_hooks(saved.append, never_unpacked)
        except ValueError:  # the program's own are set
            return None
        try:
            entry_point.native(*args)
        except Exception as error:
            let_pass(error)
            return True
        finally:
            core.eager.reset_saved_tensors_hooks()
    memory = operand.data_ptr()
    return any(tensor.data_ptr() == memory for tensor in saved)


def _apart(value: Any, written: bool) -> Any:
    """A value beside the graph; a copy of what the native call would write into: the program's own call is yet to come."""
    if type(value) not in TENSOR_TYPES:
        return value
    return value.detach().clone() if written else value.detach()


# ---- The shortcut: the commonest cases, with nothing left to decide.
#
# No autocast, CPU tensors of dtypes whose rule is known and asks for no cast: then a call is bridge, kernel, bridge; with a
# gradient wanted, on the tape. Anything else answers None and takes the full way. Tests run every sample with and without this
# shortcut.
#
# It is written out for each number of operands and attributes (:data:`_CALL`): a loop over two operands, lists of them and a
# function for each step would cost more than Torch's kernel of a small tensor.

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

# Paddle 3 keeps the record of a tensor on the tape in its ``__dict__``: as twins.twin, and memory.to_torch.
_TWIN = "(leaf(v) if (tape := v.__dict__.get(TAPE)) is None else tape.twin if tape.current(v) else twin(v))"
_SIDE = "as_operand(v)"
if EXPORT_IS_WHOLE:
    _SIDE = f"(from_dlpack(v.get_tensor()._to_dlpack()) if not layouts and v.is_contiguous() else {_SIDE})"


class _ShortcutForm(NamedTuple):
    """What the text of a shortcut depends on."""

    operands: int  # how many
    attributes: int
    transposed: int | None  # which operand is a Linear weight
    dtype_at: int | None  # which attribute is a dtype
    single: bool  # one tensor comes out, and nothing is written
    moves: bool  # what comes out may be a view of Torch's where Paddle copies
    integers: frozenset[int]  # which operands have no gradient where they are integers


@functools.cache
def _written(form: _ShortcutForm) -> CodeType:
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
    made = (
        "on_tape(call, out, ({sides},))"
        if form.moves
        else "finish_call(call, own(out, ({sides},)) if {view} else out, reads_result)"
    )
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
    entry_point, op = substitution.entry_point, substitution.op
    if op.operands or entry_point.entry.inplace or not op.tensors or not op.gradient or (op.differs is not None and op.probes):
        return None
    form = _ShortcutForm(
        operands=op.tensors,
        attributes=len(entry_point.names) - op.tensors,
        transposed=entry_point.transposed,
        dtype_at=entry_point.dtype_at,
        single=substitution.single,
        moves=substitution.moves,
        integers=op.integer_places if entry_point.without_integers else frozenset(),
    )
    rules: set[tuple[Any, ...]] = set()  # kinds of operands that need no cast
    taken: set[tuple[Any, ...]] = set()  # kinds of calls that Paddle takes and has a kernel for, of which the rule is known
    lacking: dict[tuple[Any, ...], str] = {}  # the same where it has none: the dtype

    def known(kinds: tuple[Any, ...]) -> bool:
        if kinds not in entry_point.rules.plain or any(isinstance(kind, type) and kind not in _PLAIN for kind in kinds):
            return False
        rules.add(kinds)
        return True

    def takes(kind: tuple[Any, ...], values: tuple[Any, ...]) -> str | None:
        """As :meth:`DtypeRules.taken`; None as well where the rule is not known."""
        if kind in lacking:
            return lacking[kind]
        kinds = kind[: op.tensors]
        lacks = entry_point.rules.taken(values) if kinds in rules or known(kinds) else None
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
        return floats and (kinds in rules or known(kinds)) and entry_point.rules.taken(values) is not None

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
        "Call": TapeCall,
        "Tensor": torch.Tensor,
        "answer": substitution.answer,
        "as_operand": as_operand,
        "finish_call": finish_call,
        "formula": _formula(substitution),
        "from_dlpack": torch_versions.from_dlpack,
        "grad_tracer": grad_tracer,
        "handed": substitution.as_result,
        "is_grad_enabled": torch.is_grad_enabled,
        "strays": substitution.strays,
        "set_grad_enabled": torch_versions.set_grad_enabled,
        "layouts": memory.layouts,
        "leaf": leaf,
        "learnt": learnt,
        "let_pass": let_pass,
        "lend": lend_numpy,
        "name": op.name,
        "on_tape": on_tape,
        "own": own,
        "refused": refused,
        "renewer": weight_copies.renewer,
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
    """The op's formula; where Torch's definition may be another, it notes that in the run first."""
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
        lacks = substitution.entry_point.rules.taken(values) or ""
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
        if op.by_layout or any(type(value) in TENSOR_TYPES for value in flat(list(rest))):
            return None  # a tensor would be held, and is another one at the next call
        read = substitution.read(sides, rest)
        if op.copies_result and read.results:
            return None
        return (*[index in read.operands - substitution.unread for index in range(count)], bool(read.results))

    return unknown


class Drawing:
    """The answer to the calls of an op that creates random numbers: Torch's generator.

    There is no operand: shape, dtype and place are the call's own, and are handed to the op's formula as Torch's.
    """

    quick = None  # there is no shorter way

    def __init__(self, entry_point: EntryPoint) -> None:
        self.name, self.reference = entry_point.op.name, entry_point.op.reference
        self.fills = entry_point.entry.fills
        self.redirects = entry_point.names[-1] == "out"  # the formula does not get that one
        self.names = entry_point.names[: len(entry_point.names) - self.redirects]
        self.readers = readers(self.names)

    def execute(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A new Paddle tensor of numbers from Torch's generator; None if they are in a parameter now."""
        if grad_tracer() is None:
            raise StayNative(reasons.STATIC)
        arguments = [read(value) for read, value in zip(self.readers, values)]
        target = values[-1] if self.redirects else None
        if target is not None:
            _fitting(target, dict(zip(self.names, arguments)))
        dtype = dtype_of(next((value for value in arguments if isinstance(value, torch.dtype)), torch.float32))
        lacks = is_listed_without(self.name, dtype)
        if lacks and not frame.plan.lends:
            raise StayNative(reasons.NO_KERNEL, dtype=dtype)
        try:
            with torch.no_grad():
                out = self.reference(*arguments)
        except REFUSALS as error:
            raise refused(error) from None
        if lacks:
            frame.tally.lacking[self.name, dtype] += 1
        if target is not None:
            return overwritten(target, out).detach()  # another tensor over its memory, as natively
        if not self.fills:
            return hand_over(out)
        memory.copied(out)._share_underline_tensor_to(values[0])  # memory of Paddle's own: a parameter lives long
        return None


def _fitting(target: Any, arguments: Mapping[str, Any]) -> None:
    """StayNative, before anything is drawn, where the tensor of ``out=`` would be given other memory."""
    shape = arguments.get("shape", (arguments.get("n"),))
    same = list(target.shape) == list(shape) and torch_dtype(target.dtype) == arguments["dtype"]
    if not (same and target._is_initialized() and target.is_contiguous()):
        raise StayNative(reasons.REDIRECTED, name="out")
