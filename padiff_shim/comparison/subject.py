"""One compared call: its operands on torch's side, and what the verdicts on its result and its gradients need."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..dispatch.containers import flat
from ..dispatch.door import Door
from ..dispatch.operands import Inputs, wanting, without_gradient
from ..dispatch.prepare import NO_CASTS, Prepared
from ..frameworks import weights
from ..frameworks.memory import to_torch
from ..gradients.formula import gradients
from ..gradients.saved import reads
from ..numerics import same
from ..numerics.oracle.few import array
from ..numerics.oracle.together import Together
from . import describe
from .kernels import Kernels
from .overwriting import spared
from .packing import Passage

if TYPE_CHECKING:
    from .flow import Comparison

_NONE: dict[int, Any] = {}  # never written to
_UNSEEN = (None, None)
_NOWHERE: frozenset[int] = frozenset()


class Subject(Kernels):
    """Built before Paddle's kernel runs; lives as long as Paddle's grad node where a gradient is wanted."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_arrays",
        "_graph",
        "_incoming",
        "_leaves",
        "_renew",
        "aliased",
        "asks_ahead",
        "attributes",
        "comparison",
        "counted",
        "door",
        "incoming",
        "inputs",
        "key",
        "lacks",
        "operands",
        "outs",
        "passages",
        "place",
        "places",
        "read",
        "replay",
        "saved",
        "shared",
        "shown",
    )

    def __init__(self, comparison: Comparison, door: Door, key: Any, number: int, prepared: Prepared) -> None:
        self.comparison, self.door, self.key = comparison, door, key
        self.inputs, self.attributes, casts = prepared
        sides = self.inputs.torch
        if door.overwritten:  # Paddle is about to write there, and into what shares that memory
            sides[:] = spared(sides, door.overwritten)
        # Of the operands as they came in; autocast's casts come after it.
        self.places = comparison.places
        self.place = self.places.of(door, sides, self.attributes, wanting(self.inputs.paddle, sides))
        self.counted = {"call": number, "step": comparison.step}
        if casts is not NO_CASTS:  # both kernels compute on the cast operands, and their gradients have that dtype
            sides[:] = casts.apply(sides)
        self.operands = list(sides)
        self.outs: list[Any] = []  # Torch's results
        self._graph: list[Any] | None = None  # the same with Torch's graph behind them, if a gradient is wanted
        self._leaves: dict[int, torch.Tensor] = {}  # where that begins, by the operands that want one
        self._renew: Callable[[], Any] | None = None  # to be called before a backward: a weight's copy may be out of date
        self.shown: dict[int, tuple[list[int], Any]] = _NONE  # position -> shape and dtype of Paddle's results with a gradient
        self.read: frozenset[int] = _NOWHERE  # positions of what torch's backward reads
        self.saved: Sequence[tuple[Any, int]] = ()  # Paddle's tensors that the backward reads, and their in-place versions
        self.shared: Sequence[tuple[Any, int]] = ()  # the other operands
        self.aliased = False
        self.lacks = ""  # the dtype in which Paddle has no kernel for the call
        self.passages: Sequence[Passage] = ()  # of what the backward reads, through hooks of the program
        self.replay: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # Paddle's arguments, where the call is made again
        self.incoming: dict[int, Any] = _NONE  # the gradients of the results, between two hooks of one backward
        self.asks_ahead = False  # Paddle has two nodes for the call: Torch's engine is asked once
        self._ahead: tuple[torch.Tensor, dict[int, torch.Tensor]] | None = None  # the incoming gradient, and what it gave
        self._arrays: dict[int, np.ndarray] = {}
        self._incoming: tuple[Any, Any] = _UNSEEN
        # The results, and the gradients for these incoming ones, as formulas.
        self.results: Together | None = None
        self.together: tuple[Mapping[int, torch.Tensor], Together] | None = None
        self.like: Sequence[torch.Tensor] = ()

    def run_reference(self, results: Sequence[Any]) -> list[Any]:
        """Torch's kernel; keeps its graph if a gradient is wanted. ``results``: Paddle's."""
        if self.door.op.aligned is not None:  # copies: the program may write into its own
            self.like = [to_torch(result).clone() for result in results]
        inputs, door = self.inputs, self.door
        needs = inputs.needs
        if not needs:
            self.outs = flat(without_gradient(self.run, inputs.paddle, inputs.torch))
            return self.outs
        sides, at = list(inputs.torch), door.transposed
        if at is not None and 0 in needs:  # only the gradient of x reads the weight
            self._renew = weights.renewer(inputs.paddle[at], sides[at])
        leaves = {index: sides[index].detach().requires_grad_() for index in needs}
        for index, leaf in leaves.items():
            sides[index] = leaf
        recorded = torch.is_grad_enabled()
        try:
            torch._C._set_grad_enabled(True)  # not enable_grad(), which takes several times as long
            self.read = self._read_by_backward(sides)
            graph = flat(self.run(*sides))
        finally:
            torch._C._set_grad_enabled(recorded)
        self._leaves, self._graph = leaves, graph
        self.outs = [out.detach() if isinstance(out, torch.Tensor) else out for out in graph]
        return self.outs

    def _read_by_backward(self, sides: Sequence[Any]) -> frozenset[int]:
        """Positions of what Torch's backward reads: as the place knows it, or as the door does."""
        known, key = self.place.reads, tuple(self.inputs.needs)
        found = known.get(key)
        if found is None:
            found = known[key] = reads(self.door.reads, self.attributes, sides, self.run).operands
        return found

    def values(self) -> tuple[Any, ...]:
        """The arguments as ``Op.reference`` takes them."""
        return (self.operands, *self.attributes) if self.door.op.operands else (*self.operands, *self.attributes)

    def array(self, place: int, grads: Mapping[int, torch.Tensor] | None = None) -> np.ndarray:
        """A tensor on the host for NumPy: an operand, by its place, or behind all arguments the first incoming gradient.

        It lies over the tensor's own memory; made once, for several verdicts read it.
        """
        if place < len(self.operands):
            found = self._arrays.get(place)
            if found is None:
                found = self._arrays[place] = array(self.operands[place])
            return found
        assert grads is not None
        if self._incoming[0] is not grads:
            self._incoming = grads, array(grads[0])
        return self._incoming[1]

    def differentiable(self, position: int) -> bool:
        """Whether Torch gives a result a gradient: not indices, nor running statistics."""
        result = None if self._graph is None else self._graph[position]
        return isinstance(result, torch.Tensor) and result.requires_grad

    def gradients(self, grads: Mapping[int, torch.Tensor], wanted: Container[int]) -> dict[int, torch.Tensor]:
        """Torch's gradients of the operands ``wanted`` for these incoming gradients: nothing is kept for another backward.

        Raises:
            RuntimeError: if an operand that the backward reads was changed in place since.
        """
        for tensor, version in self.saved:
            if tensor.inplace_version != version:
                raise RuntimeError("an operand was changed in place between forward and backward")
        outs, leaves = self._graph, self._leaves
        if outs is None:
            raise RuntimeError("the graph was freed by an earlier backward")
        chosen = [index for index in self.inputs.needs if index in wanted]
        if self._renew is not None and self._renew():
            self._ahead = None
        if self._ahead is not None and (found := self._found_ahead(grads, chosen)) is not None:
            return found
        asked = chosen
        if self.asks_ahead and len(grads) == 1 and chosen != self.inputs.needs:
            asked = self.inputs.needs
        results = gradients([(outs[position], grad) for position, grad in grads.items()], [leaves[index] for index in asked])
        found = dict(zip(asked, results))
        if asked is not chosen:
            self._ahead = next(iter(grads.values())), found
            found = {index: found[index] for index in chosen}
        return found

    def _found_ahead(self, grads: Mapping[int, torch.Tensor], chosen: Sequence[int]) -> dict[int, torch.Tensor] | None:
        """What Torch's engine gave for the other node of the call, if the very same gradient comes to this one."""
        assert self._ahead is not None
        (before, found), self._ahead = self._ahead, None
        now = next(iter(grads.values()))
        if len(grads) != 1 or now.shape != before.shape or now.dtype != before.dtype or now.data_ptr() == before.data_ptr():
            return None  # the same memory may have been written to since
        if not weights.same_bits(now, before):
            return None
        return {index: found[index] for index in chosen}

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
        self._graph = self._renew = self.replay = self.results = self.together = self._ahead = None
        self._leaves = self.incoming = self._arrays = _NONE
        self._incoming = _UNSEEN
        self.operands = self.outs = []
        self.like = ()
        self.saved = self.shared = ()
        self.inputs = Inputs([], [], self.inputs.needs)

    def let_go(self) -> None:
        """The backward has ended: an incoming gradient that its node never took is held no longer."""
        self.incoming, self.together, self._incoming, self._ahead = _NONE, None, _UNSEEN, None

    @property
    def altered(self) -> bool:
        """Whether Paddle's backward read something else than was saved."""
        return bool(self.passages) and any(one.altered for one in self.passages)

    @property
    def layer(self) -> str:
        """The path of the layer in which the call is made."""
        return self.place.layer

    def name_of(self, index: int) -> str:
        """The operand's parameter name; those of a sequence are numbered."""
        return describe.name_of(self.door, index)


def _unchanged(again: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether a result is what it was; where it was NaN it has to be again."""
    return same(again, out) or (
        again.shape == out.shape and torch.isclose(again, out, 0.0, 0.0, equal_nan=True).all().item() is True
    )
