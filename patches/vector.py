"""Norms of vectors and of whole tensors."""

from __future__ import annotations

from typing import Any

import torch

from padiff_shim.table.op import Sample, each, op

from ._spell import axes, reduction

_MATRIX = (Sample((3, 4), axis=1), Sample((2, 3, 4), axis=0))
_EXPONENT = "Paddle rounds the reciprocal of the order to float32"
_POWERS = (2.0, 1.0, 3.0, 0.0, float("inf"), float("-inf"))


@op(
    "x|input porder=2.0 axis=-1 epsilon=1e-12 keepdim=False asvector=False",
    legacy=True,
    note="of several largest (smallest) elements, torch shares the gradient of an infinite order among them; epsilon has no effect",
    deviations={"float64": _EXPONENT, "gradient float64": _EXPONENT},
    samples=(
        *each(_MATRIX, porder=_POWERS, keepdim=(False, True)),
        *each(_MATRIX[:1], porder=_POWERS[:3], asvector=(True,), keepdim=(False, True)),
        Sample((5,)),
        Sample((), asvector=True),
    ),
    refusals=(Sample((3, 4), axis=7),),
)
def p_norm(x: torch.Tensor, porder: float, axis: int, epsilon: float, keepdim: bool, asvector: bool) -> torch.Tensor:
    """``torch.linalg.vector_norm`` along one axis, or with asvector over all of them; Paddle's epsilon stands for nothing."""
    if not x.ndim:
        raise NotImplementedError("0-D, which Paddle 2 refuses")
    return torch.linalg.vector_norm(x, porder, None if asvector else axis, keepdim)


@reduction(
    "x|input axis|dim=None keepdim=False reduce_all=False",
    legacy="frobenius_norm",
    deviations={"gradient float64": "Paddle adds 1e-12 to the norm by which it divides"},
)
def frobenius_norm(x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``torch.linalg.vector_norm`` over axes."""
    return torch.linalg.vector_norm(x, 2, axes(None if reduce_all else axis, x.ndim), keepdim)


@op("x", legacy=True, samples=(Sample((3, 4)), Sample((2, 3, 4)), Sample(())))
def squared_l2_norm(x: torch.Tensor) -> torch.Tensor:
    """The sum of all squares, of shape [1]."""
    return x.square().sum().reshape(1)


@op(
    "x max_norm",
    legacy=True,
    note="x itself where its norm is at most max_norm; without gradient in Paddle: native where one is wanted",
    samples=each((Sample((3, 4)), Sample((2, 3, 4)), Sample(())), max_norm=(0.5, 100.0)),
)
def clip_by_norm(x: torch.Tensor, max_norm: float) -> torch.Tensor:
    """``x`` times ``max_norm`` over its Euclidean norm where that is larger; Paddle has no gradient of it."""
    x = x.detach()
    norm = torch.linalg.vector_norm(x)
    return x * torch.where(norm <= max_norm, torch.ones_like(norm), max_norm / norm)
