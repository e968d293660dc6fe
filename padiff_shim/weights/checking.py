"""Whether two models hold equal values now, pair by pair, and what happened where they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .layouts import own_layout
from .tensors import synchronise
from .tree import Side

if TYPE_CHECKING:
    from .mapping import Mapping, Pair

TURNED, SWAPPED, SIGNS, DTYPES, DIFFERENT = "transposed", "swapped", "signs of zeros", "rounded", "different"


@dataclass(frozen=True)
class Difference:
    """A pair that holds unequal values.

    Args:
        pair: which.
        largest: the largest absolute difference; nan if one side is not finite where the other is, or the values have no one shape.
        finding: ``"transposed"`` (equal once the Paddle side is transposed), ``"swapped"`` (equal to the partner of another
            pair), ``"rounded"`` (equal once rounded to the narrower dtype), ``"signs of zeros"``, or ``"different"``.
        other: the Paddle weights that hold the Torch side's values, if they are swapped.
    """

    pair: Pair
    largest: float
    finding: str
    other: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = self.pair.torch if self.pair.torch == self.pair.paddle else f"{self.pair.torch} and {self.pair.paddle}"
        what = {
            TURNED: "equal if one is transposed",
            SWAPPED: f"Torch's values are in {' and '.join(self.other)}",
            SIGNS: "equal but for the signs of zeros",
            DTYPES: "equal once rounded to the narrower dtype",
            DIFFERENT: "",
        }[self.finding]
        return f"{names}: largest difference {self.largest:.3g}" + (f", {what}" if what else "")


@dataclass
class WeightCheck:
    """What :meth:`Mapping.check` found; true if all pairs are equal bit for bit."""

    compared: int = 0
    differences: list[Difference] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        if self:
            return f"{self.compared} pairs of weights, all equal bit for bit"
        return "\n".join([f"{len(self.differences)} of {self.compared} pairs of weights differ:", *map(str, self.differences)])

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        rows = [
            {
                "torch": one.pair.torch,
                "paddle": one.pair.paddle,
                "largest": one.largest,
                "finding": one.finding,
                "other": [*one.other],
            }
            for one in self.differences
        ]
        return {"compared": self.compared, "differences": rows}


def check(mapping: Mapping, torch_side: Side, paddle_side: Side) -> WeightCheck:
    """Compare the values of every pair.

    Raises:
        ArgumentError: the models are not those of the mapping.
    """
    synchronise()
    found = WeightCheck()
    unequal = []
    for pair in mapping.pairs:
        if pair.torch_slot.weight is None or pair.paddle_slot.weight is None:
            continue
        mine, yours = pair.values(torch_side), pair.values(paddle_side)
        found.compared += 1
        if not _same_bits(mine, yours):
            unequal.append((pair, mine, yours))
    held = [(pair.paddle, yours) for pair, _, yours in unequal]
    found.differences = [_difference(pair, mine, yours, held) for pair, mine, yours in unequal]
    return found


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(one.element_size())
    if bits is None:  # complex128
        return torch.equal(torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj()))
    return torch.equal(one.contiguous().view(bits), other.contiguous().view(bits))


def _difference(pair: Pair, mine: torch.Tensor, yours: torch.Tensor, held: list[tuple[str, torch.Tensor]]) -> Difference:
    if mine.shape != yours.shape:
        return Difference(pair, math.nan, DIFFERENT)
    wide = torch.promote_types(torch.promote_types(mine.dtype, yours.dtype), torch.float64)
    largest = float((mine.to(wide) - yours.to(wide)).abs().max()) if mine.numel() else 0.0
    if torch.equal(mine, yours):
        return Difference(pair, 0.0, SIGNS)
    if mine.dtype != yours.dtype and any(torch.equal(mine.to(dtype), yours.to(dtype)) for dtype in (mine.dtype, yours.dtype)):
        return Difference(pair, largest, DTYPES)
    if mine.ndim == 2 and mine.shape[0] > 1 < mine.shape[1] and pair.rule is None and _turned(pair, mine, yours):
        return Difference(pair, largest, TURNED)
    others = tuple(name for name, values in held if values is not yours and _same_bits(mine, values))
    return Difference(pair, largest, SWAPPED if others else DIFFERENT, others)


def _turned(pair: Pair, mine: torch.Tensor, yours: torch.Tensor) -> bool:
    """Whether somebody copied or reshaped a matrix where it had to be transposed, or the other way round."""
    if mine.shape[0] == mine.shape[1]:
        return torch.equal(mine, yours.t())
    if pair.paddle_slot.steps:
        return False
    stored = own_layout(pair.paddle_slot, yours)  # [in, out] filled with the elements of [out, in] in memory order
    return torch.equal(mine.reshape(-1), stored.reshape(-1))
