"""A model of either framework as a tree of layers and weights, in words that both frameworks share.

Each weight is described in *canonical* layout, which is Torch's for its kind of layer: ``torch.nn.Linear`` holds [out, in], so the
[in, out] weight of ``paddle.nn.Linear`` has the layout ``"transposed"``. Two weights that belong together then have one canonical
shape, and the way from one to the other leads through it. No tensor is held here, only names and shapes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from .layouts import AS_IS, FLAT, TRANSPOSED, ViewStep, is_whole

Shape = tuple[int, ...]
OTHER = {"torch": "paddle", "paddle": "torch"}


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
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def optional(self) -> bool:
        """Whether nothing is wrong if it has no partner: masks, indices and counters are constants of the code."""
        return self.buffer and not self.dtype.startswith(("float", "bfloat", "complex"))


class Slot(NamedTuple):
    """The place of a weight, or of a part of it, in a layer.

    Args:
        role: what it is to the layer, in canonical words (``weight``, ``bias``, ``running_mean``, ``weight_ih_l0``).
        weight: None if the layer has no such weight, where the other framework's has one.
        layout: how the weight lies.
        steps: what leads from the whole weight's canonical layout to this place, for a part of a weight that holds several.
        fill: of an absent weight, the number that it would hold; None if nothing stands in its place.
        shape: the canonical shape, behind the steps.
        neutral: of a weight that only stands for an absent one, the number that it has to hold.
        settled: whether the layout is known from the type of the layer; else the partner decides.
        typed: whether the layer's type is known at all (a state dict knows none).
    """

    role: str
    weight: Weight | None
    shape: Shape
    layout: str = AS_IS
    steps: tuple[ViewStep, ...] = ()
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
        if len(self.shape) in (2, 3):  # three: a stack of matrices, one for each expert
            found.append(self._replace(layout=TRANSPOSED, shape=(*self.shape[:-2], *self.shape[:-3:-1])))
        if len(self.shape) != 1:
            found.append(self._replace(layout=FLAT, shape=(self.size,)))
        return found

    @property
    def whole(self) -> bool:
        """Whether it holds all of its weight."""
        return is_whole(self)

    def at(self, *steps: ViewStep) -> Slot:
        """A part of it."""
        shape = self.shape
        for step in steps:
            shape = step.shape(shape)
        return self._replace(steps=(*self.steps, *steps), shape=shape)


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

    def copied(self) -> Node:
        """A tree of its own, of the same weights."""
        children = [child.copied() for child in self.children]
        return replace(self, slots=list(self.slots), extras=list(self.extras), children=children, facts=None)

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

    def copied(self) -> Side:
        """The same with a tree of its own, from which weights may be taken."""
        return Side(self.framework, self.root.copied(), self.tensors, self.objects, self.ordered)

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
        return {slot.weight.name: slot.shape for slot in slots if slot.weight and not slot.steps}

    @functools.cached_property
    def nodes(self) -> dict[str, Node]:
        """All layers by name; virtual ones, which no program knows, are left out."""
        return {node.path: node for node in reversed(list(self.root.walk())) if not node.virtual}


def take(side: Side, wanted: Callable[[Slot], bool]) -> list[tuple[Node, Slot]]:
    """Take slots out of a tree."""
    taken = []
    for node in side.root.walk():
        taken += [(node, slot) for slot in (*node.slots, *node.extras) if wanted(slot)]
        node.slots = [slot for slot in node.slots if not wanted(slot)]
        node.extras = [slot for slot in node.extras if not wanted(slot)]
    return taken
