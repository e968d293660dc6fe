"""The steps of a formula, traced once and made again on other operands.

A bound is measured by running a formula half a dozen times (:mod:`.measured`). All of these runs make the same steps, and so do
those of every later call with operands of the same kind. To ask the formula, Torch's autograd and the decompositions of fused
kernels for them takes many times as long as small kernels do. So one run notes each step, with what it reads and what it makes, and
the others only make them.

A formula that looks at values goes on as they say. It has no such trace (:attr:`Tracer.usable`), or for other operands another one:
who makes traced steps for another call compares what they give with what the formula itself gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from . import steps
from .noise import POOL, STRIDE, Functions, MoveSize, RoundedSteps, StepsApart, signs_on

LIMIT = 2**27  # bytes of all tensors of a run, which live until it ends: a larger one is not traced
CONSTANT = 2**16  # bytes of what a step reads and neither an operand nor a step gave
VALUES = frozenset((torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__))  # functions that look at values

Slot = int  # the number of a tensor: operands first, then what steps read and make


class TracedStep:
    """One step: a function, and where its arguments come from.

    Attributes:
        args, kwargs: its arguments, None in the place of each tensor.
        tensors, named: place and slot of those.
        lists: of each sequence that holds tensors its place, its values, and place and slot of the tensors in it.
        made: slots of the results, None for one that is no tensor; ``several``: they come in a sequence.
        over: slots that no later step reads.
        kind: how it rounds (:func:`.steps.kind`).
        indexed: it reads integers or bools.
        forward: it belongs to no backward.
        counts: how many terms its sums have; None where that is not known, or said by an index.
    """

    __slots__ = (
        *("args", "counts", "forward", "func", "indexed", "kind", "kwargs"),
        *("lists", "made", "named", "over", "several", "tensors"),
    )

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], slot: Callable[[torch.Tensor], Slot]) -> None:
        self.func, self.kind = func, steps.kind(func, args, kwargs)
        self.args, self.tensors = _parted(args, slot)
        lists = [(place, *_parted(value, slot)) for place, value in enumerate(self.args) if isinstance(value, (list, tuple))]
        self.lists = [entry for entry in lists if entry[2]]
        for place, _, _ in self.lists:
            self.args[place] = None
        self.named = [(name, slot(value)) for name, value in kwargs.items() if isinstance(value, torch.Tensor)]
        self.kwargs = {name: None if isinstance(value, torch.Tensor) else value for name, value in kwargs.items()}
        self.indexed = not all(map(_is_float, _tensors((*args, *kwargs.values()))))
        self.forward = torch.is_grad_enabled()
        self.counts: list[Any] | None = None
        self.made: tuple[Slot | None, ...] = ()
        self.several = False
        self.over: tuple[Slot, ...] = ()

    def read(self) -> list[Slot]:
        """The slots of its arguments."""
        inside = (pair for _, _, pairs in self.lists for pair in pairs)
        return [slot for _, slot in (*self.tensors, *self.named, *inside)]

    def make(self, held: list[Any], mode: RoundedSteps | None) -> None:
        """Make it, with an error if ``mode`` says so. ``held``: the tensors, by slot."""
        args, kwargs = self.args.copy(), self.kwargs
        for place, slot in self.tensors:
            args[place] = held[slot]
        for place, values, pairs in self.lists:
            args[place] = chosen = values.copy()
            for at, slot in pairs:
                chosen[at] = held[slot]
        if self.named:
            kwargs = {**kwargs, **{name: held[slot] for name, slot in self.named}}
        rounds = mode is not None and self.kind is not steps.EXACT
        exactly = steps.MENDED.get(self.func, self.func)
        made = mode.rounded(self.kind, self.func, args, kwargs) if rounds else exactly(*args, **kwargs)  # type: ignore[union-attr]
        if self.several:
            for place_made, value in zip(self.made, made):
                if place_made is not None:
                    held[place_made] = value
        elif self.made:
            held[self.made[0]] = made  # type: ignore[index]  # a tensor
        for slot in self.over:
            held[slot] = None


def _parted(values: Sequence[Any], slot: Callable[[torch.Tensor], Slot]) -> tuple[list[Any], list[tuple[int, Slot]]]:
    """The values with None in the place of each tensor, and the places and slots of the tensors."""
    tensors = [(place, slot(value)) for place, value in enumerate(values) if isinstance(value, torch.Tensor)]
    return [None if isinstance(value, torch.Tensor) else value for value in values], tensors


def _tensors(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class Perturbed(RoundedSteps):
    """Moves the results of traced steps.

    ``looks``: notes which results are sums of how many terms, and (:attr:`inside`) whether all numbers lie in the narrower format's
    range; ``careful``: those that do not are made what they are there.
    """

    def __init__(self, size: MoveSize, seed: int, *, looks: bool, careful: bool) -> None:
        super().__init__(size, seed)
        self.looks, self.careful = looks, careful
        self.current: TracedStep = None  # type: ignore[assignment]  # the step that is made now
        self.terms_of: dict[Slot | None, float] = {}
        self._moved: list[torch.Tensor] = []

    def rounded(self, kind: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if (kind is not steps.PLAIN and kind is not steps.FUNCTION) or self.size.beyond:
            return super().rounded(kind, func, args, kwargs)
        results = func(*args, **kwargs)
        for place, tensor in enumerate((results,) if isinstance(results, torch.Tensor) else results):
            self._move(tensor, kind, place)
        return results

    def note(self, place: int, terms: float) -> None:
        self.terms_of[self.current.made[place]] = terms

    def counted(self, kind: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: int) -> list[Any]:
        """Once for all calls, where no index says which terms come together."""
        step = self.current
        counts = super().counted(kind, func, args, kwargs, results) if step.counts is None else step.counts
        if not step.indexed:
            step.counts = counts
        return counts

    def _move(self, result: torch.Tensor, kind: Any, place: int, sums: Any = None, terms: Any = None, reach: Any = None) -> None:
        self._drawn = start = (self._drawn + STRIDE) % POOL
        count = result.numel()
        if self.careful or start + count > POOL or result.dtype is not torch.float64:
            super()._move(result, kind, place, sums, terms, reach)
            return
        scale, amount = steps.roundings(kind) * self.size.step, result if sums is None else sums
        if terms is not None:
            several = isinstance(terms, torch.Tensor)
            if self.looks:
                self.note(place, terms.max().item() if several else terms)
            if several and self.size.sums:
                amount, scale = amount * (scale + self.size.sums * terms.clamp_min(1).sqrt()), 1.0
            elif not several:
                scale += self.size.sums * math.sqrt(terms)
        pool, whole = signs_on(result.device), result.is_contiguous()  # one look into the pool where that will do
        signs = pool.as_strided(result.shape, result.stride(), start) if whole else pool[start : start + count].view(result.shape)
        result.addcmul_(amount, signs, value=scale)
        if self.looks:
            self._moved += [result.reshape(-1)] if reach is None else [result.reshape(-1), reach.reshape(-1)]

    @property
    def inside(self) -> bool:
        """Whether all numbers lie in the range of the narrower format."""
        if not self._moved:
            return True
        size = torch.cat(self._moved).abs_()
        low, top = (bound.item() for bound in size.masked_fill_(size == 0, 1.0).aminmax())
        return self._tiny <= low and top <= self._largest  # NaN: no


class Traits(NamedTuple):
    """What was seen of the steps that a result is made of: the most terms of a sum, factorisations of matrices, others that mix."""

    terms: float
    normwise: bool
    mixed: bool


class FormulaTrace:
    """The steps of a formula for operands of one kind.

    Attributes:
        inputs: how many tensors it takes; ``slots``: how many it has.
        constants: tensors that come from elsewhere.
        results: their slots.
        parts: for each the slots that are made until it is there: those of the forward, and what it is made of.
        normwise: for each result whether a factorisation of a matrix is among its steps; ``mixed``: see :func:`.steps.mixed`.
        trusted: which results were seen to be those of the formula.
        indexed: an operand is no float tensor, so that values may say which steps there are.
        alters: a step is another one than Torch alone would make: see :class:`.noise.WideSteps`.
        smooth: see :func:`.steps.smooth`; of all steps.
    """

    def __init__(self, tracer: Tracer, results: Sequence[torch.Tensor]) -> None:
        self.inputs, self.constants, self.alters = tracer.inputs, tracer.constants, tracer.alters
        self.trusted: set[int] = set()
        self.results = [tracer.slot(result) for result in results]
        self.slots = len(tracer.storages)
        self.indexed = any(slot not in tracer.floats for slot in range(tracer.inputs))
        self.steps = tracer.steps
        forward = frozenset(slot for step in self.steps if step.forward for slot in step.made)
        self.parts = [forward | self._part([slot], tracer.storages) for slot in self.results]
        sums = [
            slot for step in self.steps if step.forward and step.kind in steps.WITH_TERMS for slot in step.made if slot is not None
        ]
        needed = self._part([*self.results, *sums], tracer.storages)
        normwise = [step.made for step in self.steps if step.kind is steps.NORMWISE]
        mixed = [step.made for step in self.steps if steps.mixed(step.kind, step.func)]
        self.steps = [step for step in tracer.steps if not step.made or not needed.isdisjoint(step.made)]
        self.smooth = all(steps.smooth(step.kind, step.func) for step in self.steps)
        self.normwise = [not all(map(part.isdisjoint, normwise)) for part in self.parts]
        self.mixed = [not all(map(part.isdisjoint, mixed)) for part in self.parts]
        readers = {slot: step for step in self.steps for slot in (*step.read(), *step.made)}  # the last of each slot
        for slot, step in readers.items():
            if slot is not None and slot not in self.results:
                step.over += (slot,)

    def _part(self, results: Sequence[Slot], storages: Sequence[int]) -> frozenset[Slot]:
        """What results are made of: results of steps that lie in their memory, or in that of what these read."""
        memory, slots = {storages[result] for result in results}, set()
        for step in reversed(self.steps):
            here = [slot for slot in step.made if slot is not None and storages[slot] in memory]
            if here:
                slots.update(here)
                memory.update(storages[slot] for slot in step.read())
        return frozenset(slots)

    def run(self, inputs: Sequence[Any], mode: Perturbed | None = None) -> list[torch.Tensor]:
        """The results of these operands, with errors if ``mode`` says so."""
        held: list[Any] = [*inputs, *[None] * (self.slots - self.inputs)]
        for slot, constant in self.constants.items():
            held[slot] = constant
        with torch.no_grad():
            for step in self.steps:
                if mode is not None:
                    mode.current = step
                step.make(held, mode)
        return [held[slot] for slot in self.results]

    def moved(self, inputs: Sequence[Any], operands: int, mode: Perturbed) -> tuple[list[torch.Tensor], list[Traits]]:
        """The results with errors, and what was seen of each. The first ``operands`` of the inputs are moved."""
        results = self.run([*(mode.operand(tensor) for tensor in inputs[:operands]), *inputs[operands:]], mode)
        most = [max((mode.terms_of[slot] for slot in part if slot in mode.terms_of), default=1.0) for part in self.parts]
        return results, list(map(Traits, most, self.normwise, self.mixed))


class Tracer(StepsApart):
    """Notes the steps of a formula as they are made.

    A tensor is known by its memory: of what autograd saves Torch makes other objects.

    Attributes:
        usable: the steps are all that the formula does.
        inputs: how many operands there are, with the other tensors that the formula reads.
        storages: the memory of each slot; ``floats``: slots of numbers that are no integers.
        constants: tensors that come from elsewhere.
    """

    def __init__(self, operands: Sequence[torch.Tensor], others: Sequence[torch.Tensor], apart: bool) -> None:
        super().__init__()
        self.apart, self.usable = apart, True
        self.steps: list[TracedStep] = []
        self.inputs = len(operands) + len(others)
        self.storages: list[int] = []
        self.floats: set[Slot] = set()
        self.constants: dict[Slot, torch.Tensor] = {}
        self._slots: dict[Any, Slot] = {}
        self._alive: dict[int, Any] = {}  # so that no memory is used twice
        self._bytes = 0
        for tensor in (*operands, *others):
            self._hold(tensor)

    def simple(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if not self.usable:
            return super().simple(func, args, kwargs)
        step = TracedStep(func, args, kwargs, self.slot)
        results = super().simple(func, args, kwargs)
        if isinstance(results, torch.Tensor) and not func._schema.is_mutable and _memory(results) in self._slots:
            return results  # a cast to its own dtype, a view of all of it
        step.several = isinstance(results, (list, tuple))
        several = results if step.several else () if results is None else (results,)
        self.usable &= all(value is None or isinstance(value, torch.Tensor) for value in several)  # a number: a value was looked at
        self.usable &= not any(_tensors([value for value in kwargs.values() if isinstance(value, (list, tuple))]))
        step.made = tuple([self._hold(value) if isinstance(value, torch.Tensor) else None for value in several])
        self.steps.append(step)
        return results

    def slot(self, tensor: torch.Tensor) -> Slot:
        """The slot of a tensor that is read."""
        slot = self._slots.get(_memory(tensor))
        if slot is None:
            slot = self._hold(tensor)
            self.constants[slot] = tensor
            self.usable &= tensor.untyped_storage().nbytes() <= CONSTANT
        return slot

    def _hold(self, tensor: torch.Tensor) -> Slot:
        """A new slot."""
        slot, storage = len(self.storages), tensor.untyped_storage()
        self.storages.append(storage._cdata)
        self._slots[_memory(tensor)] = slot
        if _is_float(tensor):
            self.floats.add(slot)
        if storage._cdata not in self._alive:
            self._alive[storage._cdata] = storage
            self._bytes += storage.nbytes()
            self.usable &= self._bytes <= LIMIT
        if not self.usable:
            self._alive.clear()
        return slot


def _memory(tensor: torch.Tensor) -> Any:
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg()


class _Watching(Functions):
    """Sees as well whether values are looked at behind the back of all steps. ``apart``: functions are taken apart."""

    def __init__(self, apart: bool) -> None:
        super().__init__()
        self.apart, self.looked = apart, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.looked |= func in VALUES
        return super().__torch_function__(func, types, args, kwargs) if self.apart else func(*args, **(kwargs or {}))


def trace(
    formula: Callable[..., Sequence[torch.Tensor]], operands: Sequence[torch.Tensor], others: Sequence[torch.Tensor], *, apart: bool
) -> tuple[list[torch.Tensor], FormulaTrace | None]:
    """What a formula gives for these operands in float64, and its steps; None if it cannot be made of steps.

    ``others``: further tensors that it reads. ``apart``: fused kernels are taken apart into steps.
    """
    tracer, watch = Tracer(operands, others, apart), _Watching(apart)
    with watch, tracer:
        results = formula(*operands)
    results = [result.detach() for result in results]
    return results, FormulaTrace(tracer, results) if tracer.usable and not watch.looked else None
