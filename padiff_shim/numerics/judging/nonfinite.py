"""NaN and Inf: each side's pattern against the oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...verdicts import Judgement, Side, Verdict
from ..oracle.precision import KINDS, Array
from ..oracle.staging import Quantity, to_host

SAMPLES = 16
INFINITE = "; an operand is infinite, and whether NaN or an infinity comes of it depends on the order of the steps"
BEYOND = "; that is beyond the range, and what is met on the way depends on the order of the steps"


def classes(values: Array, largest: float = np.inf) -> Array:
    """0 finite, 1 NaN, 2 +Inf, 3 -Inf; beyond ``largest`` counts as infinite."""
    found = np.zeros(values.shape, np.int8)
    found[values > largest] = 2
    found[values < -largest] = 3
    found[np.isposinf(values)] = 2
    found[np.isneginf(values)] = 3
    found[np.isnan(values)] = 1
    return found


def _places(mask: torch.Tensor, count: int, rng: np.random.Generator) -> Array:
    """Flat positions of ``mask``: the first and some random ones."""
    flat = mask.reshape(-1).nonzero().reshape(-1).cpu().numpy()
    if flat.size <= count:
        return flat
    return np.unique(np.concatenate([flat[: count // 2], rng.choice(flat, count // 2, replace=False)]))


def judge(
    quantity: Quantity, paddle: torch.Tensor, torch_: torch.Tensor, stats: dict[str, Any], rng: np.random.Generator
) -> Judgement | None:
    """NONFINITE with the side whose NaN or Inf the oracle does not share, or None where every pattern is right.

    Where finite operands lead out of the range, or may do so on the way to a number that lies in it, what is met there depends on
    the order of the steps (inf - inf is NaN): no side is wrong, and nothing can be verified.
    """
    bad_p, bad_t = ~torch.isfinite(paddle), ~torch.isfinite(torch_)
    unlike = (bad_p != bad_t) | (bad_p & ((paddle != torch_) & ~(paddle.isnan() & torch_.isnan())))
    both = (bad_p | bad_t) & ~unlike
    flat = np.concatenate([_places(unlike, SAMPLES, rng), _places(both, SAMPLES, rng)])
    counts = torch.stack([paddle.isnan().sum(), paddle.isinf().sum(), torch_.isnan().sum(), torch_.isinf().sum()]).tolist()
    stats["paddle"] = {"nan": counts[0], "inf": counts[1]}
    stats["torch"] = {"nan": counts[2], "inf": counts[3]}
    index = np.unravel_index(flat, quantity.shape) if quantity.shape else ()
    axes = quantity.axes
    where = tuple(i for axis, i in enumerate(index) if axis not in axes)
    evaluation = quantity.solve(quantity.stage(where))
    value, bound = evaluation.value, evaluation.bound(1.0)
    if axes:
        inner = np.ravel_multi_index([index[a] for a in axes], [quantity.shape[a] for a in axes])
        value, bound = (numbers[np.arange(len(value)), inner] for numbers in (value, np.broadcast_to(bound, value.shape)))
    value, bound = value.reshape(-1), bound.reshape(-1)
    sides = [
        to_host([tensor.detach().reshape(-1)[torch.from_numpy(flat).to(tensor.device)]])[0].astype(quantity.kind.oracle)
        for tensor in (paddle, torch_)
    ]
    largest = KINDS[quantity.dtype].format.largest
    expected = classes(value, largest)
    near = np.abs(np.abs(value) / largest - 1) < 0.01  # there rounding decides between the largest number and infinity
    seen_as = [classes(numbers) for numbers in sides]
    wrong = [(found != expected) & ~(near & (found != 1)) for found in seen_as]
    guilty, remark = _excused(quantity, wrong, expected, seen_as, value, bound, where)
    verdict = Verdict.UNVERIFIED if remark else Verdict.NONFINITE
    if not (wrong[0] | wrong[1]).any():
        return None
    place = int(np.argmax(wrong[0] | wrong[1] if remark else guilty[0] | guilty[1]))
    stats["first_bad"] = [int(i[place]) for i in index]
    seen = [float(v[place]) for v in (*sides, value)]
    reason = f"at {stats['first_bad']}: paddle {seen[0]:g}, torch {seen[1]:g}, oracle {seen[2]:g}{remark}"
    named = [side for side, places in zip((Side.PADDLE, Side.TORCH), guilty) if places.any()]
    side = Side.BOTH if len(named) == 2 else named[0] if named else Side.NONE
    return Judgement(verdict, side, reason=reason, stats=stats)


def _excused(
    quantity: Quantity,
    wrong: Sequence[Array],
    expected: Array,
    seen_as: Sequence[Array],
    value: Array,
    bound: Array,
    where: tuple[Array, ...],
) -> tuple[Sequence[Array], str]:
    """Where each side is to blame for what it has, and why nobody is: what is met on the way depends on the order of the steps."""
    if not (wrong[0] | wrong[1]).any():
        return wrong, ""
    finite = quantity.finite()
    if finite:
        left = quantity.beyond(value, where) | (np.isfinite(value) & np.isinf(bound))
        guilty = [places & ~(left & (kinds > 0)) for places, kinds in zip(wrong, seen_as)]
    else:  # of an infinity and another one the formula makes NaN; other steps may meet one of them alone
        guilty = [places & ~((expected == 1) & (kinds > 1)) for places, kinds in zip(wrong, seen_as)]
    return guilty, "" if (guilty[0] | guilty[1]).any() else BEYOND if finite else INFINITE
