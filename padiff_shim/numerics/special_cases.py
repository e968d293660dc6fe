"""Results where nothing rounds, or that are NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..interrupts import let_pass
from ..language import logged
from ..verdicts import Judgement, Side, Verdict
from . import noise
from .measured import Formula
from .precision import KINDS, Array, first_place
from .quantity import Quantity, to_host
from .trial import wrong_class

# ---- Integer and bool results: nothing rounds, but a comparison or an argument of a maximum may stand on the edge.

RUNS = 12  # runs with operands moved by one unit roundoff; as many again beside operands of 0


def judge_exact(
    paddle: torch.Tensor, torch_: torch.Tensor, kernel: Callable[..., torch.Tensor], operands: Sequence[torch.Tensor], seed: int
) -> Judgement:
    """Judge two results that are integers or bools, of one shape and dtype.

    TIE where they differ only in outputs that change when the float operands move by one unit roundoff, to what such a move gives;
    UNVERIFIED if to something else. Else the side that is not what float64 gives is WRONG, or LOCAL_WRONG in single outputs;
    without float operands nobody can say which it is.
    """
    unlike = paddle != torch_
    count = int(unlike.sum())
    stats: dict[str, Any] = {"count": paddle.numel(), "different": count}
    if not count:
        return Judgement(Verdict.EQUAL, reason=logged("equal in value"), stats=stats)
    floats = [t for t in operands if t.is_floating_point()]
    if not floats:
        reason = logged("{count} of {numel} results of integers differ; nothing is rounded", count=count, numel=paddle.numel())
        return Judgement(Verdict.SEMANTICS, Side.NONE, reason=reason, stats=stats)
    inputs = [noise.wide(t) for t in operands]
    value = noise.exact(kernel, inputs)
    values = [value, *_moved(kernel, inputs, floats[0].dtype, seed)]
    stable = unlike & ~torch.stack([other != value for other in values]).any(0)
    stats["oracle"] = "float64"
    if not stable.any():
        edge = logged("{count} of {numel} results", count=count, numel=paddle.numel())
        reached = [torch.stack([side == other for other in values]).any(0) for side in (paddle, torch_)]
        if not bool((reached[0] & reached[1] | ~unlike).all()):
            reason = logged("{edge} on the edge; what is allowed there could not be settled", edge=edge)
            return Judgement(Verdict.UNVERIFIED, reason=reason, stats=stats)
        stats["tied"], stats["first_tied"] = count, first_place(unlike)
        reason = logged("{edge} on the edge, within one unit roundoff, where both choices are allowed", edge=edge)
        return Judgement(Verdict.TIE, reason=reason, stats=stats)
    wrong = {side: int((stable & (t != value)).sum()) for side, t in ((Side.PADDLE, paddle), (Side.TORCH, torch_))}
    guilty = [side for side, n in wrong.items() if n]
    stats["first_bad"] = first_place(stable)
    bad = max(wrong.values())
    reason = logged(
        "{guilty}: {bad} of {numel} results are not what float64 gives, and no tie explains it",
        guilty=" and ".join(guilty),
        bad=bad,
        numel=paddle.numel(),
    )
    return Judgement(wrong_class(bad, paddle.numel()), Side.of(guilty), reason=reason, stats=stats)


def _moved(
    kernel: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], dtype: torch.dtype, seed: int
) -> Iterator[torch.Tensor]:
    """What comes out when operands move by a unit roundoff, or zeros by a number near the smallest."""
    info = torch.finfo(dtype)
    sizes = [noise.MoveSize(info.eps, unit=info.eps), noise.MoveSize(0.0, zeros=2 * info.tiny, unit=info.eps)]
    for place, size in enumerate(sizes):
        for run in range(RUNS):
            yield noise.moved(kernel, inputs, size, seed + 2 * run + place)[0]


# ---- NaN and Inf: each side's pattern against the oracle's.

SAMPLES = 16
INFINITE = "; " + logged("an operand is infinite, and whether NaN or an infinity comes of it depends on the order of the steps")
BEYOND_RANGE = "; " + logged("that is beyond the range, and what is met on the way depends on the order of the steps")
WITHOUT_DIGITS = "; " + logged("rounding leaves no digit of that number")


def classes(values: Array, largest: float = np.inf) -> Array:
    """0 finite, 1 NaN, 2 +Inf, 3 -Inf; beyond ``largest`` counts as infinite."""
    kinds = np.zeros(values.shape, np.int8)
    kinds[values > largest] = 2
    kinds[values < -largest] = 3
    kinds[np.isposinf(values)] = 2
    kinds[np.isneginf(values)] = 3
    kinds[np.isnan(values)] = 1
    return kinds


def _places(mask: torch.Tensor, count: int, rng: np.random.Generator) -> Array:
    """Flat positions of ``mask``: the first and some random ones."""
    flat = mask.reshape(-1).nonzero().reshape(-1).cpu().numpy()
    if flat.size <= count:
        return flat
    return np.unique(np.concatenate([flat[: count // 2], rng.choice(flat, count // 2, replace=False)]))


def judge_nonfinite(
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
    wrong = [(kinds != expected) & ~(near & (kinds != 1)) for kinds in seen_as]
    guilty, remark = _excused(quantity, wrong, expected, seen_as, value, bound, where)
    verdict = Verdict.UNVERIFIED if remark else Verdict.NONFINITE
    if not (wrong[0] | wrong[1]).any():
        return None
    place = int(np.argmax(wrong[0] | wrong[1] if remark else guilty[0] | guilty[1]))
    stats["first_bad"] = [int(i[place]) for i in index]
    seen = [float(v[place]) for v in (*sides, value)]
    values = {name: f"{number:g}" for name, number in zip(("paddle", "torch", "oracle"), seen)}
    at = stats["first_bad"]
    reason = logged("at {place}: paddle {paddle}, torch {torch}, oracle {oracle}", place=at, **values) + remark
    named = [side for side, places in zip((Side.PADDLE, Side.TORCH), guilty) if places.any()]
    return Judgement(verdict, Side.of(named), reason=reason, stats=stats)


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
        # The logarithm of a determinant that is 0 but for rounding: the next order of steps gives -inf.
        lost = np.isfinite(value) & (bound >= np.maximum(np.abs(value), 1) / 2)
        guilty = [places & ~(left & (kinds > 0)) & ~(lost & (kinds > 1)) for places, kinds in zip(wrong, seen_as)]
    else:  # of an infinity and another one the formula makes NaN; other steps may meet one of them alone
        guilty = [places & ~((expected == 1) & (kinds > 1)) for places, kinds in zip(wrong, seen_as)]
    if (guilty[0] | guilty[1]).any():
        return guilty, ""
    return guilty, INFINITE if not finite else BEYOND_RANGE if (left & (wrong[0] | wrong[1])).any() else WITHOUT_DIGITS


# ---- NaN from operands that are NaN or infinite: where a formula is no proof against a side that has NaN, or has none.
#
# Torch's formula answers for both sides, and compares and skips as Torch's kernel does: a step that passes over NaN in one passes
# over it in the other. So for such operands the formula runs again, with numbers in their places:
#
# - A side is NaN and the formula gives a number. Where the number depends on an operand that is NaN, NaN is an answer as well. For
#   an infinite operand the formula has to come near its number for large ones, or that number proves nothing. NaN stands for any
#   number, one beyond all others among them: the largest of NaN and an infinity is not the infinity.
# - A side is a number and the formula gives NaN. Where nothing depends on the operand that is no number, the NaN is its product
#   with 0, which other kernels leave out (the zeros that pad a convolution's input).
# - A matrix with NaN or infinities has no factors and no determinant; transforms, and products of reflections, add up infinities
#   and their products with 0 in orders of their own. Outputs that depend on them prove nothing, whatever they are.

NUMBERS = 0.375, -0.8125, 812.5, -812.5  # in place of NaN
LARGE = 1.1e9, 3.3e12, 7.7e15  # in place of infinities: so many times the largest number beside them
BEYOND = 1e9  # in place of NaN beside infinities: so many times what takes the place of those
NEAR = 1e-2  # relative, and absolute


def unproven_places(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the formula proves nothing against Paddle's result, and against Torch's."""
    own = formula.value
    values = [_with_numbers(formula, number, large) for number in NUMBERS for large in LARGE]
    depends = torch.stack([~_near(value, values[0]) for value in values]).any(0)
    first = len(LARGE)
    moved = torch.stack([~_near(value, values[0]) for value in values[::first]]).any(0)  # by what takes the place of NaN
    floats = [tensor for tensor in map(in_parts, formula.inputs) if tensor.is_floating_point()]
    if any(bool(tensor.isnan().any()) for tensor in floats) and any(bool(tensor.isinf().any()) for tensor in floats):
        beyond = [_with_numbers(formula, sign * BEYOND * LARGE[0], LARGE[0], related=True) for sign in (1.0, -1.0)]
        moved |= torch.stack([~_near(value, values[0]) for value in beyond]).any(0)
        depends |= moved
    limit = torch.stack([_near(value, own) for value in values[:first]]).all(0)
    steps = torch.stack(values[:first]).diff(dim=0)
    grows = own.isinf() & (steps * own.sign() > 0).all(0)
    spread = ~own.isnan() & (moved | ~(limit | grows))
    hidden = own.isnan() & ~depends & values[0].isfinite()
    if formula.mixed:
        lost = _spread(formula, depends | _with_nan(formula))
        return lost, lost
    of_paddle, of_torch = ((spread & side.isnan()) | (hidden & _near(side.double(), values[0])) for side in (paddle, torch_))
    return of_paddle, of_torch


def _with_nan(formula: Formula) -> torch.Tensor:
    """What is another value, or none, with NaN in place of infinities."""
    try:
        value = _with_numbers(formula, math.nan, math.nan)
    except Exception as error:  # some factorisations refuse NaN
        let_pass(error)
        return torch.ones_like(formula.value, dtype=torch.bool)
    return ~_near(value, formula.value)


def _spread(formula: Formula, lost: torch.Tensor) -> torch.Tensor:
    """Both parts of a complex number where one is lost; all elements of a matrix that is made of matrices."""
    rank = max((tensor.ndim for tensor in formula.inputs), default=0)
    if lost.ndim == rank + 1 and lost.shape[-1] == 2:
        return lost.any(-1, keepdim=True).expand_as(lost)
    if lost.ndim > 1 and any(tensor.shape[-2:] == lost.shape[-2:] for tensor in formula.inputs if tensor.is_floating_point()):
        return lost.any(-1, keepdim=True).any(-2, keepdim=True).expand_as(lost)
    return lost


def _with_numbers(formula: Formula, number: float, large: float, *, related: bool = False) -> torch.Tensor:
    """The formula's value with numbers for NaN and infinities in the operands; ``related``: both beside the largest number."""
    floats = [tensor for tensor in map(in_parts, formula.inputs) if tensor.is_floating_point() and tensor.numel()]
    largest = max([1.0, *(float(tensor.nan_to_num(0.0, 0.0, 0.0).abs().max()) for tensor in floats)])
    large *= largest
    number *= largest if related else 1.0
    operands = [_replaced(tensor, number, large) for tensor in formula.inputs]
    return formula.kernel.of(operands).exact().double()


def in_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as their real and imaginary parts; others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _replaced(tensor: torch.Tensor, number: float, large: float) -> torch.Tensor:
    if tensor.is_complex():
        return torch.view_as_complex(in_parts(tensor).nan_to_num(number, large, -large))
    return tensor.nan_to_num(number, large, -large) if tensor.is_floating_point() else tensor


def _near(values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    room = NEAR * torch.maximum(others.abs(), torch.ones_like(others)).nan_to_num(math.inf, math.inf)
    return (values == others) | ((values - others).abs() <= room) & values.isfinite() & others.isfinite()
