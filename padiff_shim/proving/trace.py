"""What a program computed in Torch: its calls, the values between them, and where each came from.

A Paddle program under ``reference("torch")`` and a Torch program leave traces of one kind, for both call the same kernels.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..dispatch.site import Site


class Value:
    """A tensor that a program made or was given.

    ``node`` is the call that made it (None for what was there before: a parameter, an input, a constant), ``label`` says what it is
    then. ``tensor`` keeps the values it had; its shape may differ between two programs that lay out the same values otherwise.
    """

    __slots__ = ("_ends", "_sorted", "label", "node", "readers", "tensor")

    def __init__(self, tensor: torch.Tensor, node: Node | None = None, label: str = "") -> None:
        self.tensor, self.node, self.label = tensor, node, label
        self.readers: list[Node] = []  # the calls that are given it
        self._ends: tuple[float, float, float] | None = None
        self._sorted: torch.Tensor | None = None

    @property
    def count(self) -> int:
        """How many numbers it holds: two for a complex one."""
        return self.tensor.numel() * (2 if self.tensor.is_complex() else 1)

    @property
    def ends(self) -> tuple[float, float, float]:
        """The least and the greatest number, and the mean of their sizes: all NaN, if one is; zeros, if there is none."""
        if self._ends is None:
            every = numbers(self.tensor)
            least, greatest = map(float, every.aminmax()) if len(every) else (0.0, 0.0)
            self._ends = least, greatest, float(every.abs().mean()) if len(every) else 0.0
        return self._ends

    @property
    def sorted(self) -> torch.Tensor:
        """All elements in ascending order, float64: the same for any layout of the same values."""
        if self._sorted is None:
            self._sorted = numbers(self.tensor).sort().values
        return self._sorted

    def forget(self) -> None:
        """Hold no numbers any longer."""
        self.tensor, self._sorted = _without_numbers(self.tensor), None


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """All elements in order as float64, complex ones as pairs."""
    tensor = tensor.detach().resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).to(torch.float64).reshape(-1)


def _without_numbers(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="meta")


class Step(NamedTuple):
    """A call that arranges a value's elements otherwise: a view, a transpose, a copy."""

    name: str
    shape: tuple[int, ...]
    site: Site

    def __str__(self) -> str:
        return f"{self.name} to {list(self.shape)}"


class Operand(NamedTuple):
    """What a call is given under one of its parameters' names: a value, the tensor in which its elements are arranged, and how."""

    name: str
    value: Value
    tensor: torch.Tensor
    way: tuple[Step, ...]


def described(name: str, attributes: dict[str, Any]) -> str:
    """A call with its attributes in one line."""
    shown = ", ".join(f"{key}={value!r}" for key, value in attributes.items())
    return f"{name}({shown})" if shown else name


class Key(NamedTuple):
    """Tells a call from all others of its run, and finds it in the next: the how-maniest of its name in its line and layer."""

    name: str
    site: Site
    layer: str
    occurrence: int


@dataclass(eq=False)
class Node:
    """A call of one of Torch's kernels."""

    index: int
    key: Key
    name: str  # of Torch's operator without its overload: "addmm", "native_layer_norm"
    attributes: dict[str, Any]  # arguments that are no tensors, defaults filled in
    operands: list[Operand]
    site: Site
    layer: str
    moves: bool  # takes elements of its operands and computes none
    view: bool  # its results lie in its operands' memory
    backward: bool  # site and layer are then those of the call whose gradient it computes
    results: list[Value] = field(default_factory=list)
    updated: list[Value] = field(default_factory=list)  # written beside them: running statistics

    @property
    def values(self) -> list[Value]:
        """All that it made."""
        return [*self.results, *self.updated]

    @property
    def result(self) -> Value:
        """The first result."""
        return self.results[0]

    def __str__(self) -> str:
        return described(self.name, self.attributes)


@dataclass
class Trace:
    """The calls of one run in order, and what the run began with."""

    nodes: list[Node] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)

    def forget(self, but: Collection[Value] = ()) -> None:
        """Hold the numbers of no value any longer, ``but`` of some; which calls there were, and on what, stays."""
        for value in self.values():
            if value not in but:
                value.forget()
        for node in self.nodes:
            node.operands = [operand._replace(tensor=_without_numbers(operand.tensor)) for operand in node.operands]

    def values(self) -> list[Value]:
        """Everything that was there or was made, in order."""
        return [*self.constants, *(value for node in self.nodes for value in node.values)]
