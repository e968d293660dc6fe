"""Normalisation over trailing axes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from padiff_shim.numerics import models
from padiff_shim.table.op import Sample, op


@op(
    "x scale=None bias=None epsilon=1e-5 begin_norm_axis=1",
    tensors=3,
    promote="none",
    unread=("bias",),
    model=models.LayerNorm(),
    deviations={
        "float64": "Paddle rounds epsilon to float32",
        "gradient float64": "Paddle rounds epsilon to float32",
        "gradient": "Paddle leaves the scale out of x's gradient where the scale's own is not asked for",
    },
    samples=(
        Sample((4, 6), (6,), (6,)),
        Sample((4, 6), None, None, epsilon=1e-12),
        Sample((4, 6), (6,), None),
        Sample((4, 6), None, (6,)),
        Sample((2, 3, 4), (12,), (12,), epsilon=1e-6),
        Sample((2, 3, 4), (4,), (4,), epsilon=1e-6, begin_norm_axis=2),
    ),
)
def layer_norm(
    x: torch.Tensor, scale: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float, begin_norm_axis: int
) -> torch.Tensor:
    """``torch.nn.functional.layer_norm`` over the axes from ``begin_norm_axis`` on.

    Paddle keeps weights flat, and in float32 beside low-precision input; then the whole row is computed in float32, as Paddle does.
    """
    if begin_norm_axis <= 0:
        raise ValueError("Paddle normalises over trailing axes, never over all")
    shape = x.shape[begin_norm_axis:]
    weight, shift = (None if p is None else p.reshape(shape) for p in (scale, bias))
    if any(p is not None and p.dtype != x.dtype for p in (weight, shift)):
        weight, shift = (None if p is None else p.float() for p in (weight, shift))
        return F.layer_norm(x.float(), shape, weight, shift, epsilon).to(x.dtype)
    return F.layer_norm(x, shape, weight, shift, epsilon)
