"""One compared call: its operands on torch's side, and what the verdicts on its result and its gradients need."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..dispatch.containers import flat
from ..dispatch.door import Door
from ..dispatch.dtypes import apart
from ..dispatch.operands import Inputs, wanting, without_gradient
from ..dispatch.prepare import Prepared
from ..frameworks import weights
from ..frameworks.memory import to_paddle, to_torch
from ..gradients.formula import gradients
from ..gradients.saved import reads
from ..numerics import same
from ..numerics.judging.fallback import Variant
from ..numerics.oracle.together import Part, Together
from . import describe
from .packing import Passage
from .results import of_paddle

if TYPE_CHECKING:
    from .flow import Comparison

Run = Callable[..., Any]


class Subject:
    """Built before Paddle's kernel runs; lives as long as Paddle's grad node where a gradient is wanted."""

    def __init__(self, comparison: Comparison, door: Door, key: Any, number: int, prepared: Prepared) -> None:
        self.comparison, self.door, self.key = comparison, door, key
        self.inputs, self.attributes, casts = prepared
        sides = self.inputs.torch
        overwritten = [0] if door.entry.inplace else [door.names.index(name) for name in door.op.writes.values()]
        if overwritten:  # Paddle is about to write there, and into what shares that memory
            targets = [_memory(side) for side in (sides[index] for index in overwritten) if isinstance(side, torch.Tensor)]
            sides[:] = [_kept(side) if _shares(side, targets) else side for side in sides]
        self.overwritten = overwritten
        # Of the operands as they came in; autocast's casts come after it.
        self.place = comparison.places.of(door, sides, self.attributes, wanting(self.inputs.paddle, sides))
        self.counted = {"call": number, "step": comparison.step}
        if not casts.none:  # both kernels compute on the cast operands, and their gradients have that dtype
            sides[:] = casts.apply(sides)
        self.operands = list(sides)
        # (incoming gradients by position, operands) -> gradients
        self.backward: Callable[[Mapping[int, torch.Tensor], Sequence[int]], Sequence[Any]] | None = None
        self.outs: list[Any] = []  # Torch's results
        self.shown: dict[int, tuple[list[int], Any]] = {}  # position -> shape and dtype of Paddle's results with a gradient
        self.read: frozenset[int] = frozenset()  # positions of what torch's backward reads
        self.saved: list[tuple[Any, int]] = []  # Paddle's tensors that the backward reads, and their in-place versions
        self.shared: list[tuple[Any, int]] = []  # the other operands
        self.aliased = False
        self.passages: list[Passage] = []  # of what the backward reads, through hooks of the program
        self.replay: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # Paddle's arguments, where the call is made again
        self.incoming: dict[int, Any] = {}  # the gradients of the results, between two hooks of one backward
        self._together: tuple[Mapping[int, torch.Tensor], Together] | None = (
            None  # the gradients for these incoming ones, as a formula
        )

    def run_reference(self) -> list[Any]:
        """Torch's kernel; keeps its backward if a gradient is wanted."""
        run = self.run
        if not self.inputs.needs:
            self.outs = flat(without_gradient(run, self.inputs.paddle, self.inputs.torch))
            return self.outs
        sides, needs, at = list(self.inputs.torch), self.inputs.needs, self.door.transposed
        copy = None if at is None else sides[at]
        leaves = {index: sides[index].detach().requires_grad_() for index in needs}
        for index, leaf in leaves.items():
            sides[index] = leaf
        with torch.enable_grad():
            self.read = reads(self.door.reads, self.attributes, sides, run).operands
            outs = flat(run(*sides))

        def backward(grads: Mapping[int, torch.Tensor], wanted: Sequence[int]) -> list[torch.Tensor]:
            return gradients([(outs[position], grad) for position, grad in grads.items()], [leaves[index] for index in wanted])

        renews = at is not None and 0 in needs  # only the gradient of x reads the weight
        self.backward = weights.renewing(backward, self.inputs.paddle[at], copy) if renews else backward  # type: ignore[index]
        self.outs = [out.detach() if isinstance(out, torch.Tensor) else out for out in outs]
        return self.outs

    def run(self, *tensors: Any) -> Any:
        """Torch's formula on these operands."""
        return self.door.torch(tensors, self.attributes)

    def meaning(self, *tensors: Any) -> Any:
        """What both kernels are held against: Torch's formula, or the op's own oracle."""
        return self.door.torch(tensors, self.attributes, self.door.op.oracle)

    def variants(self, kernel: Callable[..., torch.Tensor]) -> dict[str, Variant]:
        """What a kernel may compute instead, by name: the call's numbers in float32, and what is known of the op.

        ``kernel``: the judged tensor as a function of the operands, and of ``run``, which stands for the op's formula.
        """
        door, attributes = self.door, tuple(_in_float32(value) for value in self.attributes)
        found = {}
        for name, fault in door.op.faults.items():
            formula = partial(fault.formula, door.op.oracle or door.op.reference)
            run = partial(self._run_other, formula)
            found[name] = Variant(partial(kernel, run=run), fault.precision, fault.narrow)
        if attributes != self.attributes:
            found["numbers->float32"] = Variant(
                partial(kernel, run=lambda *tensors: door.torch(tensors, attributes)), precision=True, wide=True
            )
        return found

    def _run_other(self, formula: Callable[..., Any], *tensors: Any) -> Any:
        """Another formula than the op's."""
        return self.door.torch(tensors, self.attributes, formula)

    def values(self) -> tuple[Any, ...]:
        """The arguments as ``Op.reference`` takes them."""
        return (self.operands, *self.attributes) if self.door.op.operands else (*self.operands, *self.attributes)

    def gradients(self, grads: Mapping[int, torch.Tensor], wanted: Container[int]) -> dict[int, torch.Tensor]:
        """Torch's gradients of the operands ``wanted`` for these incoming gradients: nothing is kept for another backward.

        Raises:
            RuntimeError: if an operand that the backward reads was changed in place since.
        """
        if any(tensor.inplace_version != version for tensor, version in self.saved):
            raise RuntimeError("an operand was changed in place between forward and backward")
        if self.backward is None:
            raise RuntimeError("the graph was freed by an earlier backward")
        chosen = [index for index in self.inputs.needs if index in wanted]
        return {index: found.detach() for index, found in zip(chosen, self.backward(grads, chosen)) if found is not None}

    def overtaken(self) -> bool:
        """Whether an operand was changed in place since the forward, also where Paddle does not count it.

        Torch's kernel is run again: of the same operands it gives the same bits.
        """
        if self.door.op.writes:  # it would write a second time
            return any(tensor.inplace_version != version for tensor, version in self.shared)
        needs = self.inputs.needs
        if needs:  # Torch chooses kernels by it
            sides = [side.detach().requires_grad_() if index in needs else side for index, side in enumerate(self.operands)]
            with torch.enable_grad():
                again = flat(self.run(*sides))
        else:
            again = flat(without_gradient(self.run, self.inputs.paddle, self.operands))
        return not all(_unchanged(one.detach(), out) for one, out in zip(again, self.outs) if isinstance(out, torch.Tensor))

    def release(self) -> None:
        """Backward is over for good: hold no tensor of the program any longer."""
        self.backward, self.replay = None, None
        self.operands, self.outs, self.saved, self.shared, self.incoming, self._together = [], [], [], [], {}, None
        self.inputs = Inputs([], [], self.inputs.needs)

    def let_go(self) -> None:
        """The backward has ended: an incoming gradient that its node never took is held no longer."""
        self.incoming, self._together = {}, None

    @property
    def altered(self) -> bool:
        """Whether Paddle's backward read something else than was saved."""
        return any(one.altered for one in self.passages)

    @property
    def layer(self) -> str:
        """The path of the layer in which the call is made."""
        return self.place.layer

    def name_of(self, index: int) -> str:
        """The operand's parameter name; those of a sequence are numbered."""
        return describe.name_of(self.door, index)

    def kernels(self, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Both kernels as functions of the operands that are tensors, for results without a bound."""
        places = [index for index, side in enumerate(self.operands) if isinstance(side, torch.Tensor)]

        def torch_kernel(*tensors: torch.Tensor, run: Run = self.meaning) -> torch.Tensor:
            sides = list(self.operands)
            for place, tensor in zip(places, tensors):
                sides[place] = tensor
            return flat(run(*sides))[position]

        def paddle_kernel(*tensors: torch.Tensor) -> torch.Tensor:
            copies = {id(self.inputs.paddle[place]): to_paddle(tensor.clone()) for place, tensor in zip(places, tensors)}
            found = apart(self.door.original, args, kwargs, copies)
            return to_torch(of_paddle(self.door, found)[position])

        kernels: dict[str, Any] = {
            "torch_kernel": torch_kernel,
            "operands": [self.operands[place] for place in places],
            "variants": self.variants(torch_kernel),
        }
        plain_weights = self.door.transposed is None and not self.overwritten
        return {**kernels, "paddle_kernel": paddle_kernel if plain_weights else None}

    def gradient_kernels(self, operand: int, grads: Mapping[int, torch.Tensor]) -> dict[str, Any]:
        """The same for the gradient of an operand; Paddle's is not run a second time."""
        if self._together is None or self._together[0] is not grads:
            operands = [*(self.operands[i] for i in self.inputs.needs), *grads.values()]
            elements = sum(self.operands[i].numel() for i in self.inputs.needs)
            self._together = grads, Together(partial(self._gradients_of, list(grads)), operands, elements)
        together, needs = self._together[1], self.inputs.needs

        def other(*tensors: torch.Tensor, run: Run) -> torch.Tensor:
            return together.formula(*tensors, chosen=[operand], run=run)[0]

        return {
            "torch_kernel": Part(together, needs, needs.index(operand)),
            "paddle_kernel": None,
            "operands": together.operands,
            "variants": self.variants(other),
        }

    def _gradients_of(
        self, positions: Sequence[int], *tensors: torch.Tensor, chosen: Sequence[int], run: Run | None = None
    ) -> list[torch.Tensor]:
        """The gradients of the operands ``chosen``, of operands that want one and the incoming gradients of these results."""
        needs = self.inputs.needs
        given, incoming = tensors[: len(needs)], tensors[len(needs) :]
        sides = list(self.operands)
        for index, tensor in zip(needs, given):
            sides[index] = tensor.detach().requires_grad_()
        others = {t.dtype for t in given}
        if len(others) == 1:
            dtype = others.pop()
            sides = [
                s.to(dtype) if isinstance(s, torch.Tensor) and s.is_floating_point() and not s.requires_grad else s for s in sides
            ]
        with torch.enable_grad():
            outs = flat((run or self.meaning)(*sides))
            return gradients([(outs[p], grad) for p, grad in zip(positions, incoming)], [sides[index] for index in chosen])


def _unchanged(again: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether a result is what it was; where it was NaN it has to be again."""
    return same(again, out) or (
        again.shape == out.shape and torch.isclose(again, out, 0.0, 0.0, equal_nan=True).all().item() is True
    )


def _in_float32(value: Any) -> Any:
    """A Python number as a kernel holds it that has float32 for it; also those of a list."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_in_float32, value)) if type(value) in (list, tuple) else value
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return float(torch.tensor(value, dtype=torch.float32))


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's elements, and the one behind the last."""
    if not tensor.numel():
        return 0, 0
    return tensor.data_ptr(), tensor.data_ptr() + _span(tensor) * tensor.element_size()


def _span(tensor: torch.Tensor) -> int:
    """Elements between a tensor's first and its last one, both counted."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges of memory have a byte in common; views that interleave are taken to."""
    return one[0] < other[1] and other[0] < one[1]


def _shares(side: Any, targets: Sequence[tuple[int, int]]) -> bool:
    return isinstance(side, torch.Tensor) and any(_overlap(_memory(side), target) for target in targets)


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, which matter to a kernel's last bits."""
    if not tensor.numel():
        return tensor
    return tensor.as_strided((_span(tensor),), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)
