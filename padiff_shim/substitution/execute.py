"""One call of the table, answered by torch's kernel.

quick (shortcut.py), or: prepare -> torch's kernel -> a new Paddle tensor, or one on the tape
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..dispatch.containers import each, flat
from ..dispatch.door import Door
from ..dispatch.frames import Frame
from ..dispatch.operands import Inputs, without_gradient
from ..dispatch.prepare import Prepared, device_of, prepare
from ..frameworks import weights
from ..frameworks.memory import hand_over, own, stream_of
from ..frameworks.versions import IS_3
from ..gradients import inplace
from ..gradients.calls import Call
from ..gradients.saved import Reads, apart, keeping_apart, reads, watched
from ..gradients.twins import finish, twin
from ..table import reasons
from ..table.reasons import StayNative
from .keeping import keeps_itself
from .leaves import weight_with_gradient
from .results import beside, fits, gradientless, handed, moved, on_tape, overwritten
from .shortcut import shortcut

BY_DEFINITION = '; definitions="torch" computes that'  # behind a remark on an op of which Torch has another definition


class Substitution:
    """What stands behind one door: torch's kernel."""

    def __init__(self, door: Door) -> None:
        self.door, self.op, self.entry, self.transposed = door, door.op, door.entry, door.transposed
        self.writes = {position: door.names.index(name) for position, name in door.op.writes.items()}
        self.unset = {door.op.results.index(result): door.op.unset[result] for result in door.op.unset}
        self.unread = frozenset(door.names.index(name) for name in door.op.unread)
        self.apart = not (self.op.gradient or self.entry.inplace)
        self.with_mask = self.entry.with_mask and not IS_3
        self.handed = moved if door.op.exact else handed
        self.moves = door.op.exact and not door.op.copies_result  # what comes out may be a view of Torch's, where Paddle copies
        self.single = not (self.writes or self.entry.returns_list or self.with_mask)  # one tensor comes out, and nothing is written
        self.keeping: dict[int, bool] = {}  # operand that lies strided -> whether Paddle keeps it itself: see :mod:`.keeping`
        self.quick = shortcut(self)

    def execute(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Bridge and compute one bound call; with gradients wanted, on the tape. Counted where Paddle has no kernel for it."""
        prepared = prepare(self.door, frame, values, args, kwargs)
        inputs, casts = prepared.inputs, prepared.casts
        if self.entry.inplace and inputs.needs and inplace.refused(inputs.paddle[0]):
            raise StayNative(reasons.LEAF)
        lacks = "" if casts.region else self.door.rules.ask(inputs, casts.targets, values, args, kwargs)
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
            return casts.run(self.door, tensors, attributes)

        with stream_of(device_of(inputs.torch)):
            if not inputs.needs or self.apart:
                out = without_gradient(run, inputs.paddle, inputs.torch)
                return self.write(inputs, out) if self.entry.inplace else self.answer(inputs.paddle, inputs.torch, out, self.handed)
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
        self.door.tell(frame, arguments, BY_DEFINITION if self.op.definition else "")

    @torch.enable_grad()  # within a backward torch's are off, and a replay there has gradients of its own
    def on_tape(self, frame: Frame, tensors: Sequence[Any], sides: Sequence[Any], settings: Any, run: Callable[..., Any]) -> Any:
        """The result with gradients wanted: torch's own graph goes on behind it.

        ``tensors``: the bound call, Paddle's tensors first. ``settings``: what else ``run`` depends on.
        """
        call, read, out = self.recorded(frame, tensors, sides, settings, run)

        wanting = next(result for result in flat(out) if isinstance(result, torch.Tensor) and result.requires_grad)

        def made(one: torch.Tensor, operands: Sequence[Any], position: int) -> Any:
            if not one.requires_grad:
                if self.unused(position):
                    return handed(one, operands)
                result = beside(wanting, one, operands)
                if self.door.python and not one.is_floating_point():  # of indices Paddle's Python functions say that none is wanted
                    result.stop_gradient = True
                return result
            if self.moves:
                return on_tape(call, one, operands)
            if position in read.results and self.op.copies_result:
                return finish(call, one.clone(), False)  # torch's graph keeps the other one
            return finish(call, own(one, operands), position in read.results)

        return self.answer(tensors, sides, out, made, wanting)

    @torch.enable_grad()
    def write_on_tape(self, frame: Frame, bound: Sequence[Any], sides: list[Any], settings: Any, run: Callable[..., Any]) -> Any:
        """The same of an in-place op."""
        target, side = bound[0], sides[0]
        own = inplace.before(target) if target.stop_gradient else side  # that is its twin already
        # What torch keeps for the backward must not be overwritten.
        sides = [own.clone() if tensor is target else side for side, tensor in zip(sides, bound)]
        call, read, out = self.recorded(frame, bound, sides, settings, run, target)
        fits(out, side)
        return inplace.write(call, target, out, reads_result=0 in read.results and not self.op.copies_result)

    def recorded(
        self, frame: Frame, tensors: Sequence[Any], sides: Sequence[Any], settings: Any, run: Callable[..., Any], target: Any = None
    ) -> tuple[Call, Reads, Any]:
        """Torch's kernel with its graph, and the call's part in a backward. ``target``: what the call is about to write."""
        read = self._reads(settings, sides, run)
        places = [index for index in read.operands - self.unread if tensors[index] is not target]
        copied = [index for index in places if self.strays(index, tensors[index], sides[index]) and self.copied(tensors, index)]
        out = keeping_apart([sides[index] for index in copied], lambda: run(*sides)) if copied else run(*sides)
        if not any(isinstance(one, torch.Tensor) and one.requires_grad for one in flat(out)):
            raise StayNative(reasons.INDEPENDENT)
        saved = [watched(tensors[index], sides[index]) for index in places if index not in copied]
        at = self.transposed
        return Call(self.op.name, frame.tally, saved, None if at is None else weights.renewer(tensors[at], sides[at])), read, out

    def strays(self, index: int, tensor: Any, side: torch.Tensor) -> bool:
        """Whether an operand that the backward reads may be written before it, and Paddle is not known to mind."""
        return not self.keeping.get(index, False) and apart(tensor, side)

    def copied(self, values: Sequence[Any], index: int) -> bool:
        """Whether Paddle keeps a copy of an operand that lies strided."""
        known = self.keeping.get(index)
        if known is None:
            known = keeps_itself(self.door, values, index)
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
        return reads(self.door.reads, settings, sides, run)

    def answer(
        self,
        tensors: Sequence[Any],
        sides: Sequence[Any],
        out: Any,
        made: Callable[[torch.Tensor, Sequence[Any], int], Any],
        wanting: torch.Tensor | None = None,
    ) -> Any:
        """What Paddle's function returns: a tensor, or its several results in a tuple or list, as the formula gives them.

        ``wanting``: a result that has a gradient.
        """
        if isinstance(out, torch.Tensor):
            result = made(out, sides, 0)
            if self.with_mask:
                return result, None
            return [result] if self.entry.returns_list else result

        twice: dict[int, Any] = {}  # a result that is handed back in two places is one tensor, as natively

        def built(position: int, one: Any) -> Any:
            if not isinstance(one, torch.Tensor):
                return told(position, one)
            if id(one) not in twice:
                twice[id(one)] = told(position, one)
            return twice[id(one)]

        def told(position: int, one: Any) -> Any:
            place = self.writes.get(position)
            if place is not None and tensors[place] is not None:
                return tensors[place] if one is None else overwritten(tensors[place], one)
            if one is None and position in self.unset:
                return self.without_memory(tensors, sides[0], position, wanting)
            return made(one, sides, position) if isinstance(one, torch.Tensor) else one

        return each(out, built)

    def without_memory(self, tensors: Sequence[Any], side: torch.Tensor, position: int, wanting: torch.Tensor | None) -> Any:
        """A result that Paddle's kernel leaves unset."""
        name = self.unset[position]
        shape = tensors[self.door.names.index(name)].shape if name else [0]
        result = hand_over(side.new_empty(shape))
        result = result if wanting is None else gradientless(result, wanting)
        result._clear_data()
        return result

    def write(self, inputs: Inputs, out: torch.Tensor) -> Any:
        """The result of an in-place op, without gradients, in the memory of the first operand."""
        fits(out, inputs.torch[0])
        tensor = overwritten(inputs.paddle[0], out)
        tensor._bump_inplace_version()
        return tensor
