"""What a native call on the tape is given in place of its operands: aliases, whose gradients come to an island."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ..frameworks.memory import FLOATS, TENSOR_TYPES, to_torch
from .local import floats
from .nodes import led_to
from .twins import Arriving, seated, twin

_KEEPS, _PASSES_ON, _NOTHING = "keeps", "passes on", "nothing"  # what an inlet does with a gradient


class _Inlet(Arriving):
    """Where an operand enters a native call: what Paddle's engine brings there is an island's, or goes on to torch at once."""

    __slots__ = ("found", "hears", "twin")

    def __init__(self, side: torch.Tensor) -> None:
        self.twin = side
        self.found: torch.Tensor | None = None
        self.hears = _KEEPS

    def arrive(self, grad: Any) -> Any:
        """Hook of the alias that stands for the operand."""
        if self.hears is _PASSES_ON:
            return super().arrive(grad)
        if self.hears is _NOTHING:
            return None
        self.found = to_torch(grad).clone()  # torch's own memory: Paddle goes on to use the gradient's
        return floats(self.twin)[1]

    def taken(self) -> torch.Tensor | None:
        """What has arrived, once."""
        found, self.found = self.found, None
        return found


def has_twin(tensor: Any) -> bool:
    """Whether a tensor can be one of Torch's that wants a gradient."""
    return tensor.dtype in FLOATS and bool(tensor.is_dense())


class Operands:
    """The operands of a native call that want gradients: each is exchanged for an alias over its memory, with an inlet as node.

    Attributes:
        twinless: those of whole numbers and sparse ones that want a gradient as well; their own nodes stay.
    """

    __slots__ = ("aliases", "inlets", "known", "sides", "twinless")

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        self.aliases: list[Any] = []
        self.inlets: list[_Inlet] = []
        self.sides: list[torch.Tensor] = []
        self.twinless: list[Any] = []

    def alias(self, value: Any) -> Any:
        """The argument with every tensor that wants a gradient exchanged."""
        kind = type(value)
        if kind in TENSOR_TYPES:
            if value.stop_gradient:
                return value
            if not has_twin(value):
                self.twinless.append(value)
                return value
            found = self.known.get(id(value))
            if found is None:
                found = self.known[id(value)] = self.enter(value, twin(value))
            return found
        if kind is list or kind is tuple:
            return kind([self.alias(item) for item in value])
        return value

    def enter(self, value: Any, side: torch.Tensor) -> Any:
        """A tensor over the memory of ``value``, whose gradient comes to a new inlet."""
        inlet = _Inlet(side)
        alias = seated(value, side, inlet.arrive)
        self.sides.append(side)
        self.inlets.append(inlet)
        self.aliases.append(alias)
        return alias

    def led_to_by(self, results: Sequence[Any]) -> bool:
        """Keep those alone that Paddle's graph leads to from the results of the call; whether there are any.

        What it does not lead to can get no gradient. And a state that each step reads and writes anew (a quantiser's scale) would,
        as an operand, hold the graph of the step before, and that one the graph of the step before it.
        """
        if len(self.sides) == 1 and not self.sides[0].is_leaf:  # the usual case: what wants a gradient because of it leads to it
            return True
        reached = led_to(results, self.aliases)
        if any(reached) and not all(reached):
            self.known.clear()
            self.aliases, self.inlets, self.sides = (
                [one for one, kept in zip(several, reached) if kept] for several in (self.aliases, self.inlets, self.sides)
            )
        return any(reached)

    def joined(self) -> Operands:
        """The same operands, to which others may be added."""
        other = Operands()
        other.aliases, other.inlets, other.sides = [*self.aliases], [*self.inlets], [*self.sides]
        return other

    def pass_on(self) -> None:
        """From now on gradients that arrive go on to torch, whose engine begins at steps, not at leaves."""
        for inlet in self.inlets:
            inlet.hears = _PASSES_ON
            if inlet.twin.is_leaf:
                with torch.enable_grad():
                    inlet.twin = inlet.twin.view_as(inlet.twin)

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Inside, gradients that arrive are Paddle's engine's own."""
        for inlet in self.inlets:
            inlet.hears = _NOTHING
        try:
            yield
        finally:
            for inlet in self.inlets:
                inlet.hears = _KEEPS
