"""A model of either framework as a tree of layers and weights, in words that both frameworks share.

Each weight is described in *canonical* layout, which is Torch's for its kind of layer: ``torch.nn.Linear`` holds [out, in], so the
[in, out] weight of ``paddle.nn.Linear`` has the layout ``"transposed"``. Two weights that belong together then have one canonical
shape, and the way from one to the other leads through it. No tensor is held here, only names and shapes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

Shape = tuple[int, ...]

# How a weight lies, seen from the canonical layout: as it is, its two axes exchanged, or with another number of axes.
AS_IS, TRANSPOSED, FLAT = "as it is", "transposed", "flat"


class Weight(NamedTuple):
    """One parameter or buffer of a model, by its name in the model's ``state_dict``.

    ``key`` is equal for tied weights (one tensor under several names).
    """

    name: str
    shape: Shape
    dtype: str
    buffer: bool = False
    trainable: bool = True
    key: Any = None

    @property
    def optional(self) -> bool:
        """Whether nothing is wrong if it has no partner: masks, indices and counters are constants of the code."""
        return self.buffer and not self.dtype.startswith(("float", "bfloat", "complex"))


class Slot(NamedTuple):
    """The place of a weight, or of a section of it, in a layer.

    Args:
        role: what it is to the layer, in canonical words (``weight``, ``bias``, ``running_mean``, ``weight_ih_l0``).
        weight: None if the layer has no such weight, where the other framework's has one.
        layout: how the weight lies.
        section: (axis, start, stop) of the canonical layout, for a part of a weight that holds several.
        fill: of an absent weight, the number that it would hold; None if nothing stands in its place.
        shape: the canonical shape, of the section.
        neutral: of a weight that only stands for an absent one, the number that it has to hold.
        settled: whether the layout is known from the type of the layer; else the partner decides.
        typed: whether the layer's type is known at all (a state dict knows none).
    """

    role: str
    weight: Weight | None
    shape: Shape
    layout: str = AS_IS
    section: tuple[int, int, int] | None = None
    fill: float | None = None
    neutral: float | None = None
    settled: bool = True
    typed: bool = True

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def readings(self) -> list[Slot]:
        """The slot in every layout that is possible."""
        if self.settled or self.weight is None:
            return [self]
        found = [self]
        if len(self.shape) == 2:
            found.append(self._replace(layout=TRANSPOSED, shape=self.shape[::-1]))
        if len(self.shape) != 1:
            found.append(self._replace(layout=FLAT, shape=(self.size,)))
        return found

    def part(self, axis: int, start: int, stop: int) -> Slot:
        """A section of it."""
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        return self._replace(section=(axis, start, stop), shape=shape)


_Answer = TypeVar("_Answer")


def remembered(question: Callable[[Node], _Answer]) -> Callable[[Node], _Answer]:
    """A question about a layer and all that is below it, which is answered once when the tree is fixed: see :meth:`Node.fix`."""

    @functools.wraps(question)
    def asked(node: Node) -> _Answer:
        if node.facts is None:
            return question(node)
        try:
            found: _Answer = node.facts[question]
        except KeyError:
            found = node.facts[question] = question(node)
        return found

    return asked


@dataclass(eq=False)
class Node:
    """A layer.

    Args:
        path: its dotted name in the model; the root's is "".
        type: the name of its class.
        kind: what it computes in words of both frameworks; "" if its class is the user's own.
        slots: its own weights, in order of construction; not those of the layers below.
        virtual: whether no layer of that name exists (the query projection in a fused ``in_proj_weight``).
        again: whether the layer stands in the tree before under another name.
        extras: buffers that may lack a partner.
        taken: whether it has been matched already, at the caller's word.
        place: its number in order of construction, once the tree is complete.
        facts: answers to :func:`remembered` questions; None while the tree may change.
    """

    path: str
    type: str = ""
    kind: str = ""
    slots: list[Slot] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    virtual: bool = False
    again: bool = False
    extras: list[Slot] = field(default_factory=list)
    taken: bool = False
    place: int = 0
    facts: dict[Any, Any] | None = None

    def fix(self) -> None:
        """From now on no weight and no layer is taken out of the tree."""
        for node in self.walk():
            node.facts = {}

    def number(self) -> None:
        """Number all layers in order of construction."""
        for place, node in enumerate(self.walk()):
            node.place = place

    def walk(self) -> Iterator[Node]:
        """Itself and all layers below, in order of construction."""
        found: list[Node] = []

        def fill(node: Node) -> None:
            found.append(node)
            for child in node.children:
                fill(child)

        fill(self)
        return iter(found)

    def all_slots(self) -> Iterator[Slot]:
        """Its slots and those of all layers below that are still to be matched."""
        if not self.taken:
            yield from self.slots
            for child in self.children:
                yield from child.all_slots()

    @property
    def is_unit(self) -> bool:
        """Whether no layer below it holds a weight."""
        return _is_unit(self)

    @property
    def has_weights(self) -> bool:
        return _has_weights(self)

    def parts(self) -> list[Node]:
        """What it is made of: its own weights as one unit, and the layers below that hold weights."""
        if self.is_unit:
            return [self]
        own = [Node(self.path, self.type, "", self.slots, virtual=True, place=self.place)] if self.slots else []
        return own + [child for child in self.children if child.has_weights]


@remembered
def _has_weights(node: Node) -> bool:
    return not node.taken and (bool(node.slots) or any(map(_has_weights, node.children)))


@remembered
def _is_unit(node: Node) -> bool:
    return not any(map(_has_weights, node.children))


@dataclass(eq=False)
class Side:
    """One of the two models: its tree, and its tensors by the names of the weights."""

    framework: str
    root: Node
    tensors: dict[str, Any]
    objects: dict[str, Any] = field(default_factory=dict)  # layers by name
    ordered: bool = True  # whether the order is that of construction

    @functools.cached_property
    def weights(self) -> dict[str, Weight]:
        """All weights by name, those that may lack a partner included."""
        found: dict[str, Weight] = {}
        for node in self.root.walk():
            for slot in (*node.slots, *node.extras):
                if slot.weight is not None:
                    found.setdefault(slot.weight.name, slot.weight)
        return found

    @functools.cached_property
    def canonical(self) -> dict[str, Shape]:
        """The canonical shapes of whole weights, by name."""
        slots = [slot for node in self.root.walk() for slot in node.slots]
        return {slot.weight.name: slot.shape for slot in slots if slot.weight and slot.section is None}

    @functools.cached_property
    def nodes(self) -> dict[str, Node]:
        """All layers by name; virtual ones, which no program knows, are left out."""
        return {node.path: node for node in reversed(list(self.root.walk())) if not node.virtual}
