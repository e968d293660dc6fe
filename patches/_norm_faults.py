"""Norms as Paddle's kernels compute them, and what is made of them: formulas for ``op(faults=...)``, as in :mod:`._faults`.

Powers are added up unscaled, so that a length may leave the range where it is a common number; and a gradient divides by
norm^(p - 1) plus a number, which a short vector feels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from padiff_shim.table.op import Fault

from ._declarations import axes, reduced
from ._faults import single

Norm = Callable[..., torch.Tensor]
NUMBER = single(1e-12)  # of most kernels an attribute, which is a float32


def norm_of(
    x: torch.Tensor, p: float, axis: Any, keepdim: bool, added: float = 0.0, *, rounded: bool = False, adds: bool = True
) -> torch.Tensor:
    """A norm with its gradient. ``added``: to norm^(p - 1), if ``adds``; ``rounded``: 1 / p in float32."""
    if p == 0 or math.isinf(p):
        raise NotImplementedError("a norm without powers")
    if rounded and p in (1.0, 2.0):
        raise NotImplementedError("orders whose reciprocal float32 holds")
    order, lies, whole = (single(p) if rounded else float(p)), x.detach(), axis is None and not keepdim
    powers = lies.abs().pow(order)
    inverse = single(1.0 / order) if rounded else 1.0 / order
    norm = powers.sum(axis, True).pow(inverse)
    slope = lies.sign() * lies.abs().pow(order - 1) / (norm.pow(order - 1) + (added if adds else 0.0))
    value = (powers.sum() if whole else powers.sum(axis, keepdim)).pow(inverse)
    if not x.requires_grad:
        return value
    change = slope * (x - lies)
    return value + (change.sum() if whole else change.sum(axis, keepdim))


def norms(of: Callable[..., torch.Tensor], *, adds: bool = True) -> dict[str, Fault]:
    """Faults of what is made of norms. ``of``: called with a norm (see :func:`norm_of`) and the op's arguments.

    ``adds``: the norms have a number added in their gradient, which ``of`` names.
    """

    def formula(own: Callable[..., Any], *values: Any, rounded: bool, adds: bool) -> torch.Tensor:
        return of(partial(norm_of, rounded=rounded, adds=adds), *values)

    kinds = {"powers": (False, False), "1/p->float32": (True, False)}
    if adds:
        kinds |= {"norm+number": (False, True), "1/p->float32+norm+number": (True, True)}
    return {name: Fault(partial(formula, rounded=rounded, adds=more), precision=True) for name, (rounded, more) in kinds.items()}


def _normalized(norm: Norm, x: torch.Tensor, p: float, axis: int, epsilon: float, out: Any) -> torch.Tensor:
    return x / norm(x, p, axis, True, single(epsilon)).clamp_min(epsilon)


def _triplets(
    norm: Norm, x: Any, positive: Any, negative: Any, margin: float, p: float, epsilon: float, swap: bool, *how: str
) -> Any:
    def missing(x: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        near, far = (norm(x - other + epsilon, p, -1, False) for other in (positive, negative))
        if swap:
            far = torch.minimum(far, norm(positive - negative + epsilon, p, -1, False))
        return near - far + margin

    loss, clipped = missing(x, positive, negative), missing(x.detach(), positive.detach(), negative.detach()) == math.inf
    loss = torch.where(clipped, torch.finfo(loss.dtype).max, torch.relu(loss))
    return reduced(loss, how[0])


def _pairs(norm: Norm, x: torch.Tensor, p: float, *rest: Any) -> torch.Tensor:
    return norm(x[:, None] - x, p, -1, False, NUMBER)[torch.ones(len(x), len(x), dtype=torch.bool).triu(1)]


def _weights(norm: Norm, v: torch.Tensor, g: torch.Tensor, dim: int) -> torch.Tensor:
    if dim == -1:
        return v / ((v * v).sum().sqrt() + 1e-12) * g
    lengths = g.reshape([-1 if axis == dim else 1 for axis in range(v.ndim)])
    return v / norm(v, 2.0, [axis for axis in range(v.ndim) if axis != dim], True, NUMBER).clamp_min(1e-12) * lengths


def _frobenius(norm: Norm, x: torch.Tensor, axis: Any, keepdim: bool, whole: bool) -> torch.Tensor:
    return norm(x, 2.0, None if whole or axis in (None, []) else axis, keepdim, NUMBER)


def _longer(own: Callable[..., Any], p: torch.Tensor, dim: int) -> torch.Tensor:
    """``norm_except_dim`` with a number added to the sum of squares."""
    squares = p * p
    if dim == -1:
        return (squares.sum() + 1e-12).sqrt()
    return (squares.sum([axis for axis in range(p.ndim) if axis != dim]) + NUMBER).sqrt()


def largest_whole(arguments: Callable[..., tuple[torch.Tensor, float, Any, bool]]) -> dict[str, Fault]:
    """Norms of infinite order whose gradient goes to each of equal elements whole. ``arguments``: as of :func:`roots`."""

    def formula(own: Callable[..., Any], *values: Any) -> torch.Tensor:
        x, p, axis, keepdim = arguments(*values)
        if not math.isinf(p):
            raise NotImplementedError("an infinite order")
        over, lies = axes(axis, x.ndim), x.detach()
        largest = torch.linalg.vector_norm(lies, p, over, True)
        value = largest + (lies.sign() * (lies.abs() == largest) * (x - lies)).sum(over, True)
        return value if keepdim else value.squeeze(over)

    return {"whole-to-each": Fault(formula)}


P_NORM = norms(lambda norm, x, p, axis, epsilon, keepdim, asvector: norm(x, p, None if asvector else axis, keepdim, epsilon))
VECTOR_NORM = norms(lambda norm, x, p, axis, keepdim, name, dtype: norm(x, p, axis, keepdim, NUMBER))
FROBENIUS = norms(_frobenius)
DIST = norms(lambda norm, x, y, p: norm(x - y, p, None, False, NUMBER))
PAIRWISE = norms(lambda norm, x, y, p, epsilon, keepdim: norm(x - y + epsilon, p, -1, keepdim), adds=False)
NORMALIZE, TRIPLET = norms(_normalized), norms(_triplets, adds=False)
PDIST = norms(_pairs)
CDIST = norms(lambda norm, x, y, p, *rest: norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1, False, NUMBER))
WEIGHT_NORM, EXCEPT_DIM = norms(_weights), {"squares+1e-12": Fault(_longer)}
