"""A model of either framework as a tree of layers and weights, in terms that both frameworks share; how a weight lies in
memory; and the words of a name."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import torch

# The layout of a weight relative to the one in which it is compared with its partner. A row of steps leads from one to the other;
# each step is a view of an array or tensor, never a copy. So one description serves values, gradients and updates, of either
# framework, in both directions.

# A whole weight: as it is, with its last two axes exchanged, or as one axis.
AS_IS, TRANSPOSED, FLAT = "as it is", "transposed", "flat"


class ViewStep(NamedTuple):
    """One step: see :func:`narrow`, :func:`select`, :func:`unflatten`, :func:`permute`."""

    kind: str
    axis: int
    numbers: tuple[int, ...]

    def of(self, values: Any) -> Any:
        """The view of an array or tensor."""
        before = (slice(None),) * self.axis
        if self.kind == "narrow":
            return values[(*before, slice(*self.numbers))]
        if self.kind == "select":
            return values[(*before, self.numbers[0])]
        if self.kind == "unflatten":
            return values.reshape(self.shape(tuple(values.shape)))
        return values.permute(self.numbers) if isinstance(values, torch.Tensor) else values.transpose(self.numbers)

    def shape(self, shape: Shape) -> Shape:
        """The shape of the view of something of that shape."""
        before, after = shape[: self.axis], shape[self.axis + 1 :]
        if self.kind == "narrow":
            return (*before, self.numbers[1] - self.numbers[0], *after)
        if self.kind == "select":
            return (*before, *after)
        if self.kind == "unflatten":
            return (*before, *self.numbers, *after)
        return tuple(shape[axis] for axis in self.numbers)


def narrow(axis: int, start: int, stop: int) -> ViewStep:
    """The elements from ``start`` to ``stop`` of an axis."""
    return ViewStep("narrow", axis, (start, stop))


def select(axis: int, index: int) -> ViewStep:
    """One element of an axis, which is gone then."""
    return ViewStep("select", axis, (index,))


def unflatten(axis: int, *sizes: int) -> ViewStep:
    """One axis as several, in row-major order."""
    return ViewStep("unflatten", axis, sizes)


def permute(*axes: int) -> ViewStep:
    """The axes in another order."""
    return ViewStep("permute", 0, axes)


class Blocks(NamedTuple):
    """How one weight holds several along an axis.

    Args:
        shares: the relative sizes of the parts.
        order: the order of the parts, by their numbers; (): the order of the numbers.
        groups: the number of groups, each with its share of every part; 0: as many groups as make the shares rows.
    """

    shares: tuple[int, ...] = (1, 1)
    order: tuple[int, ...] = ()
    groups: int = 1

    def counted(self, rows: int) -> Blocks:
        """The same blocks with the number of groups in ``rows`` rows."""
        return self if self.groups else self._replace(groups=max(1, rows // sum(self.shares)))

    def sizes(self, rows: int) -> tuple[int, ...]:
        """The number of rows of each part; () if ``rows`` rows cannot be divided into such parts."""
        unit, rest = divmod(rows, sum(self.shares))
        parts = tuple(share * unit for share in self.shares)
        return () if rest or not unit or any(size % self.groups for size in parts) else parts

    def steps(self, axis: int, sizes: tuple[int, ...]) -> list[tuple[ViewStep, ...]]:
        """For each part the steps from the whole to it: its rows, or [groups, rows of each] for several groups."""
        share = [size // self.groups for size in sizes]
        starts, stop = {}, 0
        for part in self.order or range(len(sizes)):
            starts[part], stop = stop, stop + share[part]
        apart = () if self.groups == 1 else (unflatten(axis, self.groups, stop),)
        inside = axis + len(apart)
        return [(*apart, narrow(inside, start, start + share[part])) for part, start in sorted(starts.items())]

    def split(self, whole: Slot, parts: Sequence[Slot], axis: int = 0) -> Iterator[tuple[Slot, Slot]]:
        """(share of ``whole``, part) of each part, in one shape; ``whole`` holds the parts along an axis."""
        sizes = tuple(part.shape[axis] for part in parts)
        for steps, part, size in zip(self.steps(axis, sizes), parts, sizes):
            own = () if self.groups == 1 else (unflatten(axis, self.groups, size // self.groups),)
            yield whole.at(*steps), part.at(*own)


def reordered(first: Blocks, second: Blocks, axis: int, rows: int) -> list[tuple[tuple[ViewStep, ...], tuple[ViewStep, ...]]]:
    """For each part the steps to it in both orders, which end in one shape; [] if the rows cannot be divided so."""
    first, second = first.counted(rows), second.counted(rows)
    sizes = first.sizes(rows)
    few, many = sorted((first.groups, second.groups))
    if not sizes or sizes != second.sizes(rows) or many % few:
        return []
    pairs = []
    for number, ways in enumerate(zip(first.steps(axis, sizes), second.steps(axis, sizes))):
        ends = []
        for way, blocks in zip(ways, (first, second)):
            if few < many and blocks.groups == few:
                way = (*way, unflatten(axis + (few > 1), many // few, sizes[number] // many))
            elif 1 < few < many:
                way = (*way, unflatten(axis, few, many // few))
            ends.append(way)
        pairs.append((ends[0], ends[1]))
    return pairs


def canonical(slot: Slot, values: Any) -> Any:
    """The values of a slot in canonical layout: a view of an array or tensor."""
    if slot.layout == TRANSPOSED:
        values = values.swapaxes(-1, -2)
    elif slot.layout == FLAT:
        values = values.reshape(-1)
    for step in slot.steps:
        values = step.of(values)
    return values


def own_layout(slot: Slot, value: torch.Tensor) -> torch.Tensor:
    """Values of a whole weight in canonical layout as the weight holds them."""
    assert slot.weight is not None
    assert not slot.steps
    return value.mT if slot.layout == TRANSPOSED else value.reshape(slot.weight.shape) if slot.layout == FLAT else value


def in_words(slot: Slot) -> str:
    """The part of a weight that a slot is, in words; "" for the whole weight."""
    parts, groups = [], 0
    for step in slot.steps:
        axis = step.axis
        if step.kind == "unflatten":
            groups = step.numbers[-1]
        elif step.kind == "select":
            parts.append(f"number {step.numbers[0]}")
        elif step.kind == "narrow":
            lines = "rows" if axis - bool(groups) == 0 else f"axis {axis - bool(groups)}"
            parts.append(f"{lines} {step.numbers[0]}:{step.numbers[1]}" + (f" of every {groups}" if groups else ""))
    return ", ".join(parts)


# The tree of a model. Each weight is described in *canonical* layout, which is Torch's for its kind of layer: ``torch.nn.Linear``
# holds [out, in], so the [in, out] weight of ``paddle.nn.Linear`` has the layout ``"transposed"``. Two weights that belong together
# then have one canonical shape. The tree holds names and shapes, no tensor.

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
        """Whether it may lack a partner: masks, indices and counters are constants of the code."""
        return self.buffer and not self.dtype.startswith(("float", "bfloat", "complex"))


class Slot(NamedTuple):
    """The place of a weight, or of a part of it, in a layer.

    Args:
        role: its canonical name in the layer (``weight``, ``bias``, ``running_mean``, ``weight_ih_l0``).
        weight: None if the layer lacks a weight that the other framework's layer has.
        layout: the layout of the whole weight.
        steps: the steps from the whole weight's canonical layout to this place, for a part of a weight that holds several.
        fill: of an absent weight, the number that it would hold; None if nothing stands in its place.
        shape: the canonical shape after the steps.
        neutral: of a weight that only stands for an absent one, the number that it has to hold.
        settled: whether the layer's type tells the layout; else the partner decides.
        linear: of a state dict, which knows no types of layers: how Linears' matrices lie in it.
    """

    role: str
    weight: Weight | None
    shape: Shape
    layout: str = AS_IS
    steps: tuple[ViewStep, ...] = ()
    fill: float | None = None
    neutral: float | None = None
    settled: bool = True
    linear: str = ""

    @property
    def typed(self) -> bool:
        """Whether the layer's type is known at all."""
        return not self.linear

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def readings(self) -> list[Slot]:
        """The slot in every possible layout."""
        if self.settled or self.weight is None:
            return [self]
        readings = [self]
        if len(self.shape) in (2, 3):  # three: a stack of matrices, one for each expert
            readings.append(self._replace(layout=TRANSPOSED, shape=(*self.shape[:-2], *self.shape[:-3:-1])))
        if len(self.shape) != 1:
            readings.append(self._replace(layout=FLAT, shape=(self.size,)))
        return readings

    @property
    def whole(self) -> bool:
        """Whether it holds all of its weight."""
        return self.weight is None or self.size == self.weight.size

    def as_linear(self) -> Slot:
        """A matrix of a state dict as that of a Linear; anything else as it is."""
        turned = self.linear == TRANSPOSED and len(self.shape) == 2 and not self.settled
        return (self.readings()[1] if turned else self)._replace(settled=True)

    def at(self, *steps: ViewStep) -> Slot:
        """The part at the end of further steps."""
        shape = self.shape
        for step in steps:
            shape = step.shape(shape)
        return self._replace(steps=(*self.steps, *steps), shape=shape)


_Answer = TypeVar("_Answer")


def remembered(question: Callable[[LayerNode], _Answer]) -> Callable[[LayerNode], _Answer]:
    """A function of a layer and all layers below it, computed once as soon as the tree is fixed (:meth:`LayerNode.fix`)."""

    @functools.wraps(question)
    def cached(node: LayerNode) -> _Answer:
        if node.facts is None:
            return question(node)
        try:
            answer: _Answer = node.facts[question]
        except KeyError:
            answer = node.facts[question] = question(node)
        return answer

    return cached


@dataclass(eq=False)
class LayerNode:
    """A layer.

    Args:
        path: its dotted name in the model; the root's is "".
        type: the name of its class.
        kind: what it computes, in terms of both frameworks; "" if its class is the user's own.
        slots: its own weights, in order of construction; not those of the layers below.
        virtual: whether no layer of that name exists (the query projection in a fused ``in_proj_weight``).
        again: whether the tree has the layer before, under another name.
        extras: buffers that may lack a partner.
        taken: whether ``layer_map=`` has matched it already.
        place: its number in order of construction, once the tree is complete.
        facts: answers to :func:`remembered` questions; None while the tree may change.
    """

    path: str
    type: str = ""
    kind: str = ""
    slots: list[Slot] = field(default_factory=list)
    children: list[LayerNode] = field(default_factory=list)
    virtual: bool = False
    again: bool = False
    extras: list[Slot] = field(default_factory=list)
    taken: bool = False
    place: int = 0
    facts: dict[Any, Any] | None = None

    def copied(self) -> LayerNode:
        """A separate tree of the same weights."""
        children = [child.copied() for child in self.children]
        return replace(self, slots=list(self.slots), extras=list(self.extras), children=children, facts=None)

    def fix(self) -> None:
        """Declare that no weight and no layer leaves the tree from now on."""
        for node in self.walk():
            node.facts = {}

    def number(self) -> None:
        """Number all layers in order of construction."""
        for place, node in enumerate(self.walk()):
            node.place = place

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its own name."""
        return words_of(last_name(self.path))

    def walk(self) -> Iterator[LayerNode]:
        """Itself and all layers below, in order of construction, as they are now."""
        waiting, nodes = [self], []
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            waiting += reversed(node.children)
        return iter(nodes)

    def all_slots(self) -> Iterator[Slot]:
        """Its slots and those of all layers below that are not matched yet."""
        if not self.taken:
            yield from self.slots
            for child in self.children:
                yield from child.all_slots()

    @property
    @remembered
    def is_unit(self) -> bool:
        """Whether no layer below it holds a weight."""
        return not any(child.has_weights for child in self.children)

    @property
    @remembered
    def has_weights(self) -> bool:
        return not self.taken and (bool(self.slots) or not self.is_unit)

    def parts(self) -> list[LayerNode]:
        """Its parts: its own weights as one unit, and the layers directly below that hold weights."""
        if self.is_unit:
            return [self]
        own = [LayerNode(self.path, self.type, "", self.slots, virtual=True, place=self.place)] if self.slots else []
        return own + [child for child in self.children if child.has_weights]


@dataclass(eq=False)
class WeightSide:
    """One of the two models: its tree, and its tensors by the names of the weights."""

    framework: str
    root: LayerNode
    tensors: dict[str, Any]
    objects: dict[str, Any] = field(default_factory=dict)  # layers by name
    ordered: bool = True  # whether the order is that of construction
    certain: bool = True  # whether its framework is known, not guessed

    def copied(self, linear: str = "") -> WeightSide:
        """The same side with a separate tree, from which weights may be taken.

        ``linear``: how Linears' matrices lie, if it is a state dict.
        """
        copy = replace(self, root=self.root.copied())
        for node in copy.root.walk() if linear and not self.objects else ():
            node.slots = [slot._replace(linear=linear) for slot in node.slots]
        return copy

    @functools.cached_property
    def weights(self) -> dict[str, Weight]:
        """All weights by name, also those that may lack a partner."""
        weights: dict[str, Weight] = {}
        for node in self.root.walk():
            for slot in (*node.slots, *node.extras):
                if slot.weight is not None:
                    weights.setdefault(slot.weight.name, slot.weight)
        return weights

    @functools.cached_property
    def canonical(self) -> dict[str, Shape]:
        """The canonical shapes of whole weights, by name."""
        slots = [slot for node in self.root.walk() for slot in node.slots]
        return {slot.weight.name: slot.shape for slot in slots if slot.weight and not slot.steps}

    @functools.cached_property
    def nodes(self) -> dict[str, LayerNode]:
        """All layers by name, except virtual ones, which no program knows."""
        return {node.path: node for node in reversed(list(self.root.walk())) if not node.virtual}


def take(side: WeightSide, wanted: Callable[[Slot], bool]) -> list[tuple[LayerNode, Slot]]:
    """Take slots out of a tree."""
    taken = []
    for node in side.root.walk():
        taken += [(node, slot) for slot in (*node.slots, *node.extras) if wanted(slot)]
        node.slots = [slot for slot in node.slots if not wanted(slot)]
        node.extras = [slot for slot in node.extras if not wanted(slot)]
    return taken


_Element = TypeVar("_Element")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(elements: Iterable[_Element], key: Callable[[_Element], _Key]) -> dict[_Key, list[_Element]]:
    """The elements by their keys, in order."""
    groups: dict[_Key, list[_Element]] = {}
    for element in elements:
        groups.setdefault(key(element), []).append(element)
    return groups


def unique_pairs(
    ts: Iterable[_Element], ps: Iterable[_Element], key: Callable[[_Element], Hashable]
) -> Iterator[tuple[_Element, _Element]]:
    """Pairs with one key that no other element of either side has; an empty key pairs nothing."""
    partners = grouped(ps, key)
    for words, elements in grouped(ts, key).items():
        if words and len(elements) == len(partners.get(words, ())) == 1:
            yield elements[0], partners[words][0]


# The words of names: one layer is ``query`` in one model and ``q_proj`` in the other. The first word of a line stands for all.
_SYNONYMS = (
    "q query queries qproj wq",
    "k key keys kproj wk",
    "v value values vproj wv",
    "out output o wo",
    "attn attention attend",
    "embedding embeddings embed emb embeds",
    "word words token tokens wte tok",
    "position positions positional pos wpe",
    "norm layernorm ln bn batchnorm rmsnorm groupnorm gn instancenorm normalization",
    "linear dense fc lin",
    "mlp ffn feedforward ff",
    "cross crossattn multihead",
    "downsample shortcut",
    "head classifier cls",
    "encoder enc",
    "decoder dec",
)
_SAME = {word: line.split()[0] for line in _SYNONYMS for word in line.split()}
_OF_ANY_LAYER = "linear proj projection layer layers norm conv conv1d weight module block blocks list to the sub my w"
_GENERIC = frozenset(_OF_ANY_LAYER.split())

# The roles of weights in a layer, in Torch's words.
_ROLES = {
    "gamma": "weight",
    "scale": "weight",
    "_weight": "weight",
    "beta": "bias",
    "_bias": "bias",
    "_mean": "running_mean",
    "moving_mean": "running_mean",
    "_variance": "running_var",
    "moving_variance": "running_var",
}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def role(name: str) -> str:
    """The canonical role of a weight of that name in its layer."""
    return _ROLES.get(name, name)


@functools.lru_cache(maxsize=10_000)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a dotted name, each replaced by the one that stands for its synonyms; numbers are words."""
    return tuple(_SAME.get(word.lower(), word.lower()) for word in _WORD.findall(name))


def telling_words(name: str) -> frozenset[str]:
    """The words of a name that distinguish its layer from others; numbers do not, for they only say an order."""
    return frozenset(word for word in words_of(name) if word not in _GENERIC and not word.isdigit())


def plain(name: str) -> tuple[str, ...]:
    """The telling words of a weight's full name, with its numbers and its role: equal for ``h.0.up.bias`` and ``w0_up_b``.

    () if there are only numbers and a role.
    """
    path, last = parent(name), last_name(name)
    words = [word for word in words_of(path) if word not in _GENERIC]
    words += [_LETTERS.get(word, word) for word in words_of(_ROLES.get(last, last))]
    words = [word for word in words if word not in _GENERIC]
    return tuple(words) if any(word != "bias" and not word.isdigit() for word in words) else ()


# Roles of weights at the end of a name; a matrix needs none.
_LETTERS = {"b": "bias", "beta": "bias", "g": "weight", "gamma": "weight", "scale": "weight", "kernel": "weight"}


def place_of(name: str) -> tuple[str, str]:
    """(layer, role) of a weight."""
    return parent(name), role(last_name(name))


def starred(name: str) -> str:
    """A name as a pattern for the same of all layers: with a ``*`` for each number."""
    return ".".join("*" if word.isdigit() else word for word in name.split("."))


def relative(path: str, scope: str) -> str:
    """The part of a path below ``scope``."""
    return path[len(scope) + 1 :] if scope and path.startswith(f"{scope}.") else path


def parent(name: str) -> str:
    return name.rpartition(".")[0]


def last_name(name: str) -> str:
    return name.rpartition(".")[2]


def joined(*parts: str) -> str:
    return ".".join(filter(None, parts))
