"""Steps of a formula that declares no ties: what a move gives that is too small to be a rounding.

Where the results of two such moves differ, the operands stand at a tie. A side's answer is allowed if one of these moves gives it,
at all such places at once; nobody is accused of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from ...verdicts import Judgement, Verdict
from ..oracle import noise
from ..oracle.elements import first_place
from ..oracle.measured import Formula

RUNS = 8
MOVE = 2.0**-46  # of operands and results: numbers of float32 that are not equal are further apart
FAR, LEAST = 64.0, 2.0**-28  # unit roundoffs, and part of a result: what is nearer needs no step, and such moves alone give less
SHARE = 0.25  # of a difference: a step that explains it is no smaller


def settled(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, judgement: Judgement) -> Judgement:
    """A verdict of rounding: as TIE where a step lies between the two sides, UNVERIFIED where one is what no such move gives."""
    roundoff = max(formula.kind.unit, formula.kind.output)
    sides = paddle.double(), torch_.double()
    apart, size = (sides[0] - sides[1]).abs(), torch.maximum(sides[0].abs(), sides[1].abs())
    if paddle.dtype == torch.float64:  # where moves are no smaller than roundings: sums that cancel are no steps
        size = size.maximum(size.nan_to_num(0.0, 0.0, 0.0).max())
    far = (apart > max(FAR * roundoff, LEAST) * size + FAR * formula.kind.tiny) & apart.isfinite()
    if not bool(far.any()):
        return judgement
    values = [formula.value, *_moved(formula), *(value for side in sides for value in _towards(formula, side))]
    tied = far & torch.stack([(value - formula.value).abs() > SHARE * apart for value in values]).any(0)
    if not bool(tied.any()):
        return judgement
    number, place = int(tied.sum()), first_place(tied)
    text = f"{number} of {tied.numel()} elements differ at a tie"

    def reached(side: torch.Tensor) -> bool:
        return any(bool((((side - value).abs() <= FAR * roundoff * value.abs()) | ~tied).all()) for value in values)

    if not all(map(reached, sides)):
        return replace(judgement, verdict=Verdict.UNVERIFIED, reason=f"{text}; what is allowed there was not to be settled")
    seen = [f"{side[tuple(place)].item():g}" for side in sides]
    reason = f"{text}, where both choices are allowed: at {place} paddle {seen[0]}, torch {seen[1]}"
    stats = {name: figure for name, figure in judgement.stats.items() if name != "allowed"}  # no tolerance is meant for a step
    return Judgement(Verdict.TIE, reason=reason, stats={**stats, "tied": number, "first_tied": place})


def _moved(formula: Formula) -> Iterator[torch.Tensor]:
    """The formula's values as its steps are moved by next to nothing, and operands of 0 to either side."""
    sizes = [noise.Size(MOVE, unit=formula.kind.unit)] * RUNS
    if any(bool((tensor == 0).any()) for tensor in formula.given if tensor.is_floating_point()):
        sizes += [noise.Size(0.0, zeros=2 * formula.kind.tiny, unit=formula.kind.unit)] * RUNS
    for run, size in enumerate(sizes):
        seed = formula.seed + 104729 * run
        yield noise.moved(formula.kernel, formula.given, size, seed, apart=formula.apart)[0].double()


def _towards(formula: Formula, side: torch.Tensor) -> Iterator[torch.Tensor]:
    """The values as an operand that lies as they do is moved to where they are more like one side's."""
    kernel, operands = formula.kernel, list(formula.given)
    alike = [place for place, tensor in enumerate(operands) if tensor.is_floating_point() and tensor.shape == formula.value.shape]
    for place in alike:
        operand = operands[place]
        size = torch.where(operand == 0, 2 * formula.kind.tiny, MOVE * operand.abs())
        for step in (size * (side - formula.value).sign(), size * (formula.value - side).sign()):
            yield noise.exact(kernel, [*operands[:place], operand + step, *operands[place + 1 :]]).double()
