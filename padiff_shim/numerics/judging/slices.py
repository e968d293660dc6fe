"""Large calls of formulas without a model: a part of the outputs, if it can be computed from a part of the operands.

Most formulas treat some axes apart: the batch, the channels, for elementwise functions all of them. Which ones nobody declares; so
it is tried. A few places along an axis, those where the two results differ most among them, are cut out of operands and results,
and the formula of the cut operands in float64 has to be what one of the two sides has there. If not, the axis stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ...signals import let_pass
from ..oracle import noise

LARGE = 1 << 15  # elements of the result: below, everything is computed
LEADING, OTHERS = 4, 2  # places kept of an axis for each of the largest differences, and at random
NEAR = 2.0**-7  # of the part's root mean square: no rounding, and nothing that a formula of other operands would give by accident


class Part(NamedTuple):
    """Operands and both results, cut."""

    operands: list[torch.Tensor]
    paddle: torch.Tensor
    torch: torch.Tensor


def cut(
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    kernel: Callable[..., torch.Tensor],
    operands: Sequence[torch.Tensor],
    rng: np.random.Generator,
) -> Part | None:
    """The call cut along every axis that the formula treats apart; None where there is none, or where the call is not large."""
    if paddle.numel() < LARGE:
        return None
    leading = _leading(paddle, torch_)
    found = Part(list(operands), paddle, torch_)
    for axis in range(paddle.ndim):
        size = paddle.shape[axis]
        if size <= 2 * LEADING:
            continue
        kept = np.unique(np.concatenate([leading[axis], rng.integers(0, size, OTHERS)]))
        index = torch.from_numpy(kept).to(paddle.device)
        smaller = Part(
            [_along(t, axis, paddle.ndim, size, index) for t in found.operands],
            found.paddle.index_select(axis, index),
            found.torch.index_select(axis, index),
        )
        if _right(kernel, smaller):
            found = smaller
    return None if found.paddle.numel() == paddle.numel() else found


def _leading(paddle: torch.Tensor, torch_: torch.Tensor) -> list[np.ndarray]:
    """For each axis the places of the largest differences, absolute and relative."""
    apart = (paddle - torch_).abs().nan_to_num_(0.0, 0.0, 0.0).reshape(-1)
    relative = (apart / torch_.abs().reshape(-1)).nan_to_num_(0.0, 0.0, 0.0)
    odd = (torch.isfinite(paddle) != torch.isfinite(torch_)).reshape(-1).nonzero().reshape(-1)[:LEADING]
    flat = torch.cat([apart.topk(LEADING).indices, relative.topk(LEADING).indices, odd]).cpu().numpy()
    return list(np.unravel_index(flat, tuple(paddle.shape)))


def _along(tensor: torch.Tensor, axis: int, ndim: int, size: int, index: torch.Tensor) -> torch.Tensor:
    """An operand cut along the axis of the result that it shares: as it broadcasts, or, of a vector, its only one."""
    place = axis - ndim + tensor.ndim
    if place < 0 or tensor.shape[place] != size:
        place = axis if axis < tensor.ndim and tensor.shape[axis] == size else 0 if tensor.ndim == 1 else -1
    if place < 0 or tensor.shape[place] != size:
        return tensor
    return tensor.index_select(place, index)


def _right(kernel: Callable[..., torch.Tensor], part: Part) -> bool:
    """The formula of the cut operands is what one side has there."""
    try:
        value = noise.exact(kernel, [noise.wide(t) for t in part.operands])
    except Exception as error:  # shapes that do not fit: this axis cannot be cut
        let_pass(error)
        return False
    if value.shape != part.torch.shape:
        return False
    limit = NEAR * float(value.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    for side in (part.torch, part.paddle):
        apart = side.double() - value
        if float(apart[torch.isfinite(apart)].abs().max() if torch.isfinite(apart).any() else 0.0) <= limit:
            return True
    return False
