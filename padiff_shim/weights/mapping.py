"""The answer of a match: what belongs together, as data and as a table, and whether values are equal."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ArgumentError
from ..frameworks import settings
from ..frameworks.weight_copies import same_tensor_bits
from ..measure.bits import largest
from ..present.annotations import Finding
from ..present.document import Column, Document, Items, ListItem, Notes, Table
from ..present.result import Presented
from ..text import from_log, joined, many, marked, shown, tr
from .pairing import Choice
from .reading import sides_of, synchronise, view
from .rules import Cast
from .tree import OTHER, Shape, Slot, Weight, WeightSide, canonical, grouped, in_words, own_layout

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Moves:
    """A function of a weight whose result holds elements of its argument, none of them twice.

    Args:
        index: for each element of the result its place in the argument, both flattened.
        shape: the shape of the result.
        size: the number of the argument's elements.
    """

    index: torch.Tensor
    shape: tuple[int, ...]
    size: int

    @property
    def inverse(self) -> torch.Tensor | None:
        """For each element of the argument its place in the result; None if some are dropped."""
        return torch.argsort(self.index) if self.index.numel() == self.size else None

    def of(self, values: Array) -> Array:
        """The function's result for an array."""
        moved: Array = values.reshape(-1)[self.index.numpy()].reshape(self.shape)
        return moved


def moves(function: Callable[[Any], Any], shape: tuple[int, ...]) -> Moves | None:
    """How a function of a tensor moves its elements, as two trials show; None if it does anything else to them."""
    size = math.prod(shape)
    try:
        places = torch.as_tensor(function(torch.arange(size, dtype=torch.float64).reshape(shape)))
        index = places.reshape(-1).to(torch.int64)
        values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        made = torch.as_tensor(function(values.clone())).reshape(-1)
    except Exception:  # the weight's own values raise the same error later
        return None
    known = bool((index == places.reshape(-1)).all()) and bool(((index >= 0) & (index < size)).all())
    if not known or index.unique().numel() != index.numel() or not torch.equal(made, values.reshape(-1)[index]):
        return None
    return Moves(index, tuple(places.shape), size)


def is_affine(function: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    """Whether a function is a linear map and a shift, so that the adjoint of the map transforms gradients."""
    generator = torch.Generator().manual_seed(0)
    first_values, second_values = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    try:
        together, first, second, zero = (
            torch.as_tensor(function(value))
            for value in (first_values + second_values, first_values.clone(), second_values.clone(), torch.zeros_like(first_values))
        )
        if not torch.allclose(
            together + zero, first + second, rtol=1e-9, atol=1e-9 * float(first.abs().max() + second.abs().max())
        ):
            return False
        adjoint(function, shape, np.ones(tuple(together.shape)))
    except Exception:  # the result is no tensor, or autograd cannot follow it
        return False
    return True


def adjoint(function: Callable[[Any], Any], shape: tuple[int, ...], gradient: Array) -> Array:
    """The gradient with respect to a function's argument of that shape, from the gradient with respect to its result."""
    with torch.enable_grad():
        start = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        result = function(start * 1)
        back = torch.autograd.grad(result, start, torch.from_numpy(np.ascontiguousarray(gradient, dtype=np.float64)))[0]
    adjoined: Array = back.numpy().astype(gradient.dtype)
    return adjoined


TURNED, RESHAPED, SWAPPED = "transposed", "reshaped", "swapped"
SIGNS, DTYPES, DIFFERENT = "signs of zeros", "rounded", "different"


@dataclass(frozen=True)
class UnequalPair:
    """A pair that holds unequal values.

    Args:
        pair: the pair of weights.
        largest: the largest absolute difference; nan if one side is not finite where the other is, or the shapes differ.
        finding: ``"transposed"`` (equal once the Paddle side is transposed), ``"reshaped"`` (equal in order of memory: it was
            copied where it had to be transposed), ``"swapped"`` (equal to the partner of another pair), ``"rounded"`` (equal once
            rounded to the narrower dtype), ``"signs of zeros"``, or ``"different"``.
        other: the Paddle weights that hold the Torch side's values, if they are swapped.
    """

    pair: Pair
    largest: float
    finding: str
    other: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = self.pair.torch if self.pair.torch == self.pair.paddle else f"{self.pair.torch} and {self.pair.paddle}"
        what = {
            TURNED: tr("equal if one is transposed"),
            RESHAPED: tr("the same numbers in the same order: reshaped where it had to be transposed"),
            SWAPPED: tr("Torch's values are in {other}", other=joined(" and ", self.other)),
            SIGNS: tr("equal but for the signs of zeros"),
            DTYPES: tr("equal once rounded to the narrower dtype"),
            DIFFERENT: "",
        }[self.finding]
        return str(
            joined(", ", filter(None, (tr("{names}: largest difference {largest:.3g}", names=names, largest=self.largest), what)))
        )


def _finding(unequal: UnequalPair) -> Finding:
    where, numbers = unequal.pair.paddle or unequal.pair.torch, {"max_abs": unequal.largest}
    return Finding(f"weights: {unequal.finding}", "error", str(unequal), where=where, numbers=numbers)


@dataclass(repr=False)
class WeightCheck(Presented):
    """The result of :meth:`Mapping.check`; true if all pairs are equal bit for bit.

    Args:
        compared: number of compared pairs.
        differences: the pairs that hold unequal values.
        environment: versions of both frameworks, and the device.
    """

    compared: int = 0
    differences: list[UnequalPair] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=settings.environment)

    def __bool__(self) -> bool:
        return not self.differences

    @property
    def answer(self) -> str:
        """Whether all pairs are equal, or how many are not."""
        if self:
            return tr("{compared} pairs of weights, all equal bit for bit", compared=self.compared)
        first = self.differences[0].pair
        return tr(
            "{differences} of {compared} pairs of weights differ, first {name}",
            differences=len(self.differences), compared=self.compared, name=shown(first.paddle or first.torch),
        )  # fmt: skip

    @property
    def findings(self) -> list[Finding]:
        """The pairs that differ, each by its name."""
        return [_finding(each) for each in self.differences]

    def content(self) -> Document:
        """The answer, and a line for each pair that differs."""
        return Document(
            self.answer, [Items([ListItem(str(each), "", "bad") for each in self.differences])], "good" if self else "bad"
        )


def check(mapping: Mapping, torch_side: WeightSide, paddle_side: WeightSide) -> WeightCheck:
    """Compare the values of every pair.

    Raises:
        ArgumentError: the models are not those of the mapping.
    """
    synchronise()
    result = WeightCheck()
    unequal = []
    for pair in mapping.pairs:
        if pair.torch_slot.weight is None or pair.paddle_slot.weight is None:
            continue
        torch_values, paddle_values = pair.values(torch_side), pair.values(paddle_side)
        result.compared += 1
        if not same_tensor_bits(torch_values, paddle_values):
            unequal.append((pair, torch_values, paddle_values))
    candidates = [(pair.paddle, paddle_values) for pair, _, paddle_values in unequal]
    result.differences = [
        _difference(pair, torch_values, paddle_values, candidates) for pair, torch_values, paddle_values in unequal
    ]
    return result


def _difference(
    pair: Pair, torch_values: torch.Tensor, paddle_values: torch.Tensor, candidates: list[tuple[str, torch.Tensor]]
) -> UnequalPair:
    if torch_values.shape != paddle_values.shape:
        return UnequalPair(pair, math.nan, DIFFERENT)
    wide = torch.promote_types(torch.promote_types(torch_values.dtype, paddle_values.dtype), torch.float64)
    apart = largest(*(values.detach().to(wide).cpu().numpy() for values in (torch_values, paddle_values)))
    if torch.equal(torch_values, paddle_values):
        return UnequalPair(pair, 0.0, SIGNS)
    if torch_values.dtype != paddle_values.dtype and any(
        torch.equal(torch_values.to(dtype), paddle_values.to(dtype)) for dtype in (torch_values.dtype, paddle_values.dtype)
    ):
        return UnequalPair(pair, apart, DTYPES)
    if (
        torch_values.ndim == 2
        and torch_values.shape[0] > 1 < torch_values.shape[1]
        and pair.rule is None
        and (finding := _turned(pair, torch_values, paddle_values))
    ):
        return UnequalPair(pair, apart, finding)
    others = tuple(name for name, values in candidates if values is not paddle_values and same_tensor_bits(torch_values, values))
    return UnequalPair(pair, apart, SWAPPED if others else DIFFERENT, others)


def _turned(pair: Pair, torch_values: torch.Tensor, paddle_values: torch.Tensor) -> str:
    """How a matrix was copied instead of transposed, or the other way round; "" if it is neither."""
    if torch_values.shape[0] == torch_values.shape[1]:
        return TURNED if torch.equal(torch_values, paddle_values.t()) else ""
    if pair.paddle_slot.steps:
        return ""
    stored = own_layout(pair.paddle_slot, paddle_values)  # [in, out] filled with the elements of [out, in] in memory order
    return RESHAPED if torch.equal(torch_values.reshape(-1), stored.reshape(-1)) else ""


@dataclass(frozen=True)
class Pair:
    """A weight of the Torch module, or a part of it, and its partner in the Paddle layer.

    Args:
        torch_slot, paddle_slot: the places of the weight in both models.
        note: a remark for the reader.
        rule: a function of the caller that makes the values of one side from the other's, or None.
        rule_from: the side whose values are the function's argument.
        moves: how the function moves elements, if it does nothing else to them.
        cast: set if values may be rounded on the way.
        undecided: why nothing tells whether a square matrix has to be transposed; "" if something does.
        doubted: whether another weight would fit as well, so that only the order of construction decides.
        turnable: whether it is a square matrix of layers of unknown type, which was taken as it is.
    """

    torch_slot: Slot
    paddle_slot: Slot
    note: str = ""
    rule: Callable[[Any], Any] | None = None
    rule_from: str = "torch"
    moves: Moves | None = None
    cast: Cast | None = None
    undecided: str = ""
    doubted: bool = False
    turnable: bool = False

    def slot(self, framework: str) -> Slot:
        return self.torch_slot if framework == "torch" else self.paddle_slot

    def name(self, framework: str) -> str:
        """The name on one side; "" if that side has no such weight."""
        weight = self.slot(framework).weight
        return weight.name if weight else ""

    @property
    def torch(self) -> str:
        """The name in the Torch module's ``state_dict``."""
        return self.name("torch")

    @property
    def paddle(self) -> str:
        """The name in the Paddle layer's ``state_dict``."""
        return self.name("paddle")

    def shape(self, framework: str) -> Shape | None:
        """The stored shape of the whole weight on one side; None if that side has no such weight."""
        weight = self.slot(framework).weight
        return weight.shape if weight else None

    @property
    def transform(self) -> str:
        """The transformation on the way, in words; "" for a plain copy."""
        if self.rule is not None:
            return marked("by rule")
        if self.torch_slot.weight is None or self.paddle_slot.weight is None:
            return marked("absent")
        ends = dict.fromkeys(in_words(self.slot(side)) for side in (self.rule_from, OTHER[self.rule_from]))
        words = [" to ".join(filter(None, ends))] if any(ends) else []
        layouts = {self.torch_slot.layout, self.paddle_slot.layout}
        if "transposed" in layouts and len(layouts) > 1:
            words.append(marked("transposed"))
        elif self.torch_slot.steps == self.paddle_slot.steps and self.shape("torch") != self.shape("paddle"):
            words.append(marked("reshaped"))
        return ", ".join(words)

    @property
    def is_exact(self) -> bool:
        """Whether each side's whole weight holds the elements of the other's, rearranged."""
        whole = self.torch_slot.whole and self.paddle_slot.whole
        return whole and (self.rule is None or (self.moves is not None and self.moves.inverse is not None))

    @functools.cached_property
    def has_gradient(self) -> bool:
        """Whether the gradients of both sides can be compared: they cannot if a function on the way is no affine map."""
        shape = self.shape(self.rule_from)
        return self.rule is None or self.moves is not None or (shape is not None and is_affine(self.rule, shape))

    def in_common(self, framework: str, values: Array, *, gradient: bool = False) -> Array | None:
        """Values or a gradient of one side's weight in the layout in which both sides are compared; None if there is none.

        Without a function this is the canonical layout of the pair. With a function f of the caller, w' = f(w), values are compared
        as f(w) and w', and gradients as g and J^T g', where J is the Jacobian of f: for one loss, g = J^T g'. If f only moves
        elements, both are rearrangements, exact to the last bit.
        """
        if self.rule is None:
            laid_out: Array = canonical(self.slot(framework), values)
            return laid_out
        is_source = framework == self.rule_from
        if self.moves is not None:
            return self.moves.of(values) if is_source else values
        if not gradient:
            return torch.as_tensor(self.rule(torch.from_numpy(values.copy()))).numpy() if is_source else values
        if not self.has_gradient:
            return None
        return values if is_source else adjoint(self.rule, self.shape(self.rule_from) or (), values)

    def values(self, side: WeightSide) -> Tensor:
        """The present values of one side, in the layout in which both are compared.

        Raises:
            ArgumentError: the side belongs to another model.
        """
        slot = self.slot(side.framework)
        weight = slot.weight
        assert weight is not None
        now = side.weights.get(weight.name)
        if now is None or now.shape != weight.shape:
            raise ArgumentError(
                "the mapping was made for another {framework} model: {name} {shape}",
                framework=side.framework.title(),
                name=repr(weight.name),
                shape=list(weight.shape),
            )
        values = view(side.tensors[weight.name])
        if self.rule is None:
            return canonical(slot, values).cpu()
        return (torch.as_tensor(self.rule(values.clone())) if self.rule_from == side.framework else values).cpu()

    def to_dict(self) -> dict[str, Any]:
        """The pair as plain data."""
        shapes = {side: self.shape(side) for side in ("torch", "paddle")}
        return {
            "torch": self.torch or None,
            "paddle": self.paddle or None,
            **{f"{side}_shape": None if shape is None else list(shape) for side, shape in shapes.items()},
            "transform": self.transform,
            "note": self.note,
        }

    def noted(self, note: str) -> Pair:
        """The pair with a further note."""
        return replace(self, note="; ".join(filter(None, (self.note, note)))) if note not in self.note else self


@dataclass(repr=False)
class Mapping(Presented):
    """Which weights and layers of a Torch module and a Paddle layer belong together; true if every weight has a partner.

    It holds names and shapes, no tensors, and so keeps no model alive.

    Args:
        src: ``"torch"`` or ``"paddle"``, the side from which weights are copied.
        pairs: the pairs of weights, or of parts of weights, in order of the source.
        layers: names of the Torch module's layers -> names of the Paddle layer's, in order of construction. The models
            themselves are ``""``. Layers without weights are included if they could be identified.
        left: (weights without partner of the source, of the target).
        choices: weights whose layout only their use tells, decided or not.
        notes: remarks that concern no single pair.
        environment: versions of both frameworks, and the device.

    Example:
        >>> import paddle, torch, padiff_shim
        >>> mapping = padiff_shim.transfer_weights(torch.nn.Linear(3, 4), paddle.nn.Linear(3, 4))
        >>> [(pair.torch, pair.paddle, pair.transform) for pair in mapping]
        [('weight', 'weight', 'transposed'), ('bias', 'bias', '')]
        >>> bool(mapping), mapping.unmatched_src, mapping.partner("weight")
        (True, [], ['weight'])
    """

    src: str
    pairs: list[Pair]
    layers: dict[str, str]
    left: tuple[list[Weight], list[Weight]]
    choices: list[Choice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=settings.environment)
    _names = ("src", "pairs", "layers", "unmatched_src", "unmatched_dst", "notes", "environment")

    def __bool__(self) -> bool:
        return not any(self.left)

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    @property
    def findings(self) -> list[Finding]:
        """The weights without a partner."""
        alone = [(side, weight.name) for side, weights in sorted(zip((self.src, self.dst), self.left)) for weight in weights]
        texts = [tr("{side} {name} has no partner", side=side, name=shown(name)) for side, name in alone]
        return [Finding("weights: no partner", "error", text, where=name) for text, (_, name) in zip(texts, alone)]

    @property
    def dst(self) -> str:
        """The side into which weights are copied, ``"torch"`` or ``"paddle"``."""
        return "paddle" if self.src == "torch" else "torch"

    @property
    def undecided(self) -> list[Choice]:
        """The choices without evidence for one way; ``pairs`` holds the usual way."""
        return [choice for choice in self.choices if choice.is_open]

    def remarks(self, *, updates: bool = False) -> list[str]:
        """Remarks on how weights correspond: layouts that a use has decided, rules, descriptions.

        ``updates``: also remarks on optimizer steps.
        """
        decided = {choice.key: choice for choice in self.choices if choice.taken}
        lines = [choice.decision() for choice in decided.values()]
        alike = [
            f"{pair.torch} {list(pair.shape('torch') or ())} and {pair.paddle} {list(pair.shape('paddle') or ())}"
            for pair in self.pairs
            if _is_alike_but_for_ones(pair)
        ]
        if alike:
            lines.append(tr("paired, for they are alike but for axes of one: {alike}", alike="; ".join(alike)))
        behind = [pair for pair in self.pairs if not pair.has_gradient]
        if behind:
            listed = ", ".join(dict.fromkeys(pair.paddle for pair in behind))
            lines.append(tr("gradients not compared, for the rule is no affine map of the weight: {listed}", listed=listed))
        computed = [pair.paddle for pair in self.pairs if pair.rule is not None and pair.moves is None] if updates else []
        if computed:
            lines.append(
                tr(
                    "rules that do more than move elements, behind which steps of optimizers may differ: {computed}",
                    computed=", ".join(computed),
                )
            )
        return [*lines, *self.notes]

    @property
    def unmatched_src(self) -> list[str]:
        """Names of the source's weights that have no partner."""
        return [weight.name for weight in self.left[0]]

    @property
    def unmatched_dst(self) -> list[str]:
        """Names of the target's weights that have no partner."""
        return [weight.name for weight in self.left[1]]

    def tied_apart(self, framework: str) -> Iterator[list[Pair]]:
        """The pairs of each weight that is one tensor on that side, and several on the other: a training makes these differ."""
        other = OTHER[framework]
        tied = grouped((pair for pair in self.pairs if pair.slot(framework).whole), lambda pair: _key(pair.slot(framework)))
        for key, group in tied.items():
            pairs = [pair for pair in group if pair.slot(other).weight]
            if key is not None and len({_key(pair.slot(other)) for pair in pairs}) > 1:
                yield pairs

    def partner(self, name: str) -> list[str]:
        """The names of a weight's partners on the other side; several if it holds several weights.

        Raises:
            ArgumentError: no pair has a weight of that name.
        """
        partners = [pair.paddle if pair.torch == name else pair.torch for pair in self.pairs if name in (pair.torch, pair.paddle)]
        if not partners:
            raise ArgumentError("no pair has a weight named {name}", name=repr(name))
        return list(dict.fromkeys(partners))

    def check(self, src: Any, dst: Any) -> WeightCheck:
        """Compare the present values of all pairs: how far they differ, and whether they are transposed or swapped.

        Args:
            src, dst: the two models of the match (in either order), or others with the same weights.

        Raises:
            ArgumentError: the models have other weights.
        """
        return check(self, *sides_of(src, dst))

    def content(self) -> Document:
        """The pairs as a table, weights without a partner, and notes."""
        arrow = "->" if self.src == "paddle" else "<-"
        columns = (Column("paddle"), Column("torch"), Column(tr("shapes"), 1), Column(tr("on the way"), fold=True))
        rows = [
            (
                *(shown(pair.name(side) or "-") for side in ("paddle", "torch")),
                _shapes(pair, arrow),
                joined("; ", filter(None, (joined(", ", map(tr, pair.transform.split(", "))), from_log(pair.note)))),
            )
            for pair in self.pairs
        ]
        lonely = [
            ListItem(f"{side} {shown(weight.name)} {list(weight.shape)}", tr("no partner"), "bad")
            for side, weights in sorted(zip((self.src, self.dst), self.left))
            for weight in weights
        ]
        weights = many(len({pair.name(self.src) for pair in self.pairs} - {""}), "weight")
        headline = tr("Paddle {arrow} Torch: {weights}", arrow=arrow, weights=weights)
        if lonely:
            headline = tr("{headline}, {count} without partner", headline=headline, count=len(lonely))
        return Document(headline, [Table(columns, rows), Items(lonely), Notes(self.notes)])


def _is_alike_but_for_ones(pair: Pair) -> bool:
    """Whether whole weights were brought into one shape by axes of one."""
    slots = (pair.torch_slot, pair.paddle_slot)
    return pair.is_exact and any(step.kind == "unflatten" for slot in slots for step in slot.steps)


def _key(slot: Slot) -> Any:
    return slot.weight and slot.weight.key


def _shapes(pair: Pair, arrow: str) -> str:
    """One shape, or Paddle's and Torch's where they differ."""
    shapes = ["-" if shape is None else "x".join(map(str, shape)) or "scalar" for shape in map(pair.shape, ("paddle", "torch"))]
    return f" {arrow} ".join(dict.fromkeys(shapes))
