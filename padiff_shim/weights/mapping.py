"""The answer of a match: what belongs together, as data and as a table; whether values are equal, and what has no partner."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..errors import ArgumentError, nearest
from ..frameworks import settings
from ..frameworks.weight_copies import same_tensor_bits
from ..measure.bits import largest
from ..present.annotations import Finding
from ..present.document import Column, Document, Items, ListItem, Notes, Table
from ..present.result import Presented
from ..text import from_log, joined, many, shown, tr
from . import tree
from .pairing import Choice, Pair
from .reading import sides_of, synchronise
from .tree import OTHER, Shape, Slot, Weight, WeightSide, grouped, own_layout

Array = np.ndarray[Any, Any]


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
        rows = [(each, each.pair.paddle or each.pair.torch, {"max_abs": each.largest}) for each in self.differences]
        return [Finding(f"weights: {each.finding}", "error", str(each), where=name, numbers=size) for each, name, size in rows]

    def content(self) -> Document:
        """The answer, and a line for each pair that differs."""
        return Document(
            self.answer, [Items([ListItem(str(each), "", "bad") for each in self.differences])], "good" if self else "bad"
        )


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
            if pair.is_exact and any(step.kind == "unflatten" for slot in pair.slots for step in slot.steps)
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

    def layers_of(self, framework: str) -> dict[str, str]:
        """Names of that framework's layers -> names of the other's."""
        return self.layers if framework == "torch" else {partner: name for name, partner in self.layers.items()}

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
        torch_side, paddle_side = sides_of(src, dst)
        synchronise()
        whole = [pair for pair in self.pairs if pair.torch_slot.weight is not None and pair.paddle_slot.weight is not None]
        rows = ((pair, pair.values(torch_side), pair.values(paddle_side)) for pair in whole)
        unequal = [row for row in rows if not same_tensor_bits(*row[1:])]
        candidates = [(pair.paddle, paddle_values) for pair, _, paddle_values in unequal]
        return WeightCheck(len(whole), [_difference(*row, candidates) for row in unequal])

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


def _key(slot: Slot) -> Any:
    return slot.weight and slot.weight.key


def _shapes(pair: Pair, arrow: str) -> str:
    """One shape, or Paddle's and Torch's where they differ."""
    shapes = ["-" if shape is None else "x".join(map(str, shape)) or "scalar" for shape in map(pair.shape, ("paddle", "torch"))]
    return f" {arrow} ".join(dict.fromkeys(shapes))


# ---- Messages on weights without partner: why they have none, and which weights are near.

REMEDY = tr(
    'layer_map={"torch layer": "paddle layer"} says which layers belong together; rules=[("name", None)] leaves weights out.'
)
_LISTED = 12  # weights of one side that a message names
_SPELT = 2000  # names that are looked through letter by letter for one that is spelt alike


def incomplete(mapping: Mapping, src: WeightSide, dst: WeightSide) -> str:
    """The message for weights without partner."""
    head = tr("{weights} without a partner; nothing was written.", weights=many(sum(map(len, mapping.left)), "weight"))
    return "\n".join(map(str, [head, *without_partner(mapping, src, dst), REMEDY]))


def without_partner(mapping: Mapping, src: WeightSide, dst: WeightSide, names: Collection[str] | None = None) -> list[str]:
    """Lines on weights without partner: pairs of one place with other shapes, then the others, each with the nearest weights.

    ``names``: only these weights, and those that clash with them.
    """
    clashes = list(_clashes(mapping))
    left = [[weight for weight in weights if names is None or weight.name in names] for weights in mapping.left]
    named = [clash for clash in clashes if clash[0] in left[0] or clash[1] in left[1]]
    lines = []
    if named:
        lines.append(tr("Other shapes ({src}, {dst}):", src=mapping.src.title(), dst=mapping.dst.title()))
        lines += _listed((f"{_shown(first, src)} and {_shown(second, dst)}" for first, second in named), len(named))
    clashing = {id(weight) for clash in clashes for weight in clash}
    for place, (side, other) in enumerate(((src, dst), (dst, src))):
        alone = [weight for weight in left[place] if id(weight) not in clashing]
        free = [weight for weight in mapping.left[1 - place] if id(weight) not in clashing]
        if alone:
            texts = (_shown(weight, side) + _likely_partners(weight, free, side, other, mapping) for weight in alone)
            lines += [tr("Only in the {title} model:", title=side.framework.title()), *_listed(texts, len(alone))]
    return lines


def in_one_line(lines: Iterable[str]) -> str:
    """The lines as one sentence."""
    text = ""
    for line in lines:
        text += ("; " if text and not text.endswith(":") else " " if text else "") + str(line).strip()
    return text


def _listed(lines: Iterable[str], count: int) -> list[str]:
    """The first of so many lines, and the number of the others."""
    more = [tr("  and {things} more", things=count - _LISTED)] if count > _LISTED else []
    return [f"  {line}" for line in itertools.islice(lines, _LISTED)] + more


def _clashes(mapping: Mapping) -> Iterator[tuple[Weight, Weight]]:
    """Weights without partner in layers that belong together, of one role: their shapes do not fit."""
    layers = mapping.layers_of(mapping.src)
    free = {tree.place_of(weight.name): weight for weight in mapping.left[1]}
    for weight in mapping.left[0]:
        layer, what = tree.place_of(weight.name)
        other = free.get((layers.get(layer, ""), what)) if layer in layers else None
        if other is not None:
            yield weight, other


def _shown(weight: Weight, side: WeightSide) -> str:
    """Name and shape, and the shape in Torch's layout if it differs."""
    shape = side.canonical.get(weight.name, weight.shape)
    return f"{weight.name} {_text(weight.shape)}" + (f" (in Torch's layout {_text(shape)})" if shape != weight.shape else "")


def _text(shape: Shape) -> str:
    return str(list(shape))


def _likely_partners(weight: Weight, free: list[Weight], side: WeightSide, other: WeightSide, mapping: Mapping) -> str:
    """The end of a line on a weight: free weights of its shape, or its layer's partner, or weights with similar names."""
    size = sorted(weight.shape)
    fitting = [
        candidate for candidate in free if sorted(candidate.shape) == size or math.prod(candidate.shape) == math.prod(weight.shape)
    ]
    if fitting:
        names = [candidate.name for candidate in fitting]
        return tr(": of this shape and free: {near}", near=", ".join(_nearest(weight.name, names) or names[:3]))
    layers = mapping.layers_of(side.framework)
    layer = tree.parent(weight.name)
    if layer in layers and layer:
        return tr(": its layer's partner, {layers}, has no weight for it", layers=layers[layer])
    similar_names = _nearest(weight.name, list(other.weights))[:2]
    free_names = {candidate.name for candidate in free}
    words = [f"{name} {_text(other.weights[name].shape)} ({'free' if name in free_names else 'taken'})" for name in similar_names]
    return tr(": nearest in name: {words}", words=", ".join(words)) if words else ""


def _nearest(name: str, among: list[str]) -> list[str]:
    """Names that are spelt much like this one; among very many names only those with the same last component."""
    if len(among) > _SPELT:
        among = [other for other in among if tree.last_name(other) == tree.last_name(name)]
    return nearest(name, among[:_SPELT])


def unpaired(name: str, mapping: Mapping, weights: dict[str, dict[str, Weight]]) -> str:
    """Why a rule was not applied to a weight, and which weights are free on the other side."""
    side = next(side for side in weights if name in weights[side])
    free = mapping.left[side == mapping.src]
    if any(name in (pair.torch, pair.paddle) for pair in mapping.pairs):
        return tr("its partner is absent, or an earlier rule says how it is made")
    listed = ", ".join(f"{weight.name} {_text(weight.shape)}" for weight in free[:_LISTED]) or "nothing"
    return tr(
        "{text} has no partner, and the rule does not tell which it is (free on the other side: "
        '{listed}); layer_map={{"torch weight": "paddle weight"}} does',
        text=_text(weights[side][name].shape),
        listed=listed,
    )


def undecided(mapping: Mapping, pairs: Sequence[Pair]) -> str:
    """The message for square matrices whose layout nothing tells."""
    others = {tree.starred(pair.name(mapping.src)) for pair in mapping if pair not in pairs}
    names = [pair.name(mapping.src) for pair in pairs]
    return tr(
        "nothing tells whether these square weights have to be transposed: {reason}.\n{listed}\n"
        "To copy them as they lie: from padiff_shim.weights import as_is; rules=[(name, as_is) for name in {names}]. "
        "To transpose them: transpose in its place. Nothing was written.",
        reason=pairs[0].undecided,
        listed="\n".join(
            _listed((f"{pair.name(mapping.src)} {_text(pair.shape(mapping.src) or ())}" for pair in pairs), len(pairs))
        ),
        names=list(dict.fromkeys(name if tree.starred(name) in others else tree.starred(name) for name in names)),
    )
