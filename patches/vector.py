"""Norms of vectors and of whole tensors, distances, and products of vectors."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.numerics.ties import Either, Kinks, Selected
from padiff_shim.table.op import Fault, Sample, each, op

from ._declarations import axes, reduction, rows, with_axes
from ._faults import bounded_together
from ._norm_faults import DIST, FROBENIUS, P_NORM, PAIRWISE, VECTOR_NORM, largest_whole

_MATRIX = (Sample((3, 4), axis=1), Sample((2, 3, 4), axis=0))
_EXPONENT = "Paddle rounds the reciprocal of the order to float32"
_ROOTS = {"float64": _EXPONENT, "gradient float64": _EXPONENT}


def _further(arguments: Any) -> dict[str, Fault]:
    return {**largest_whole(arguments), **_without_axes(arguments)}


def _without_axes(arguments: Any) -> dict[str, Fault]:
    """What Paddle gives for an axis of a tensor that has none: where it begins, having seen no element."""

    def formula(own: Any, *values: Any) -> torch.Tensor:
        x, p, axis, _ = arguments(*values)
        if x.ndim or axis is None:
            raise NotImplementedError("an axis of a tensor without axes")
        return torch.full_like(x, -p if abs(p) == torch.inf else 0.0)

    return {"no-element-seen": Fault(formula)}


def _sizes(axis: Any) -> Either:
    """Ties of a norm: at 0 in order 1, of the largest or smallest in an infinite one. ``axis``: reads it from the op's numbers."""
    return Either(
        Kinks(when=lambda p, *rest: p == 1),
        Selected(lambda x, *numbers: rows(x, axis(*numbers)), sizes=True, when=lambda p, *rest: math.isinf(p)),
    )


_POWERS = (2.0, 1.0, 3.0, 0.0, float("inf"), float("-inf"))


@op(
    "x|input porder=2.0 axis=-1 epsilon=1e-12 keepdim=False asvector=False",
    legacy=True,
    note="of several largest (smallest) elements, torch shares the gradient of an infinite order among them; epsilon has no effect",
    deviations=_ROOTS,
    samples=(
        *each(_MATRIX, porder=_POWERS, keepdim=(False, True)),
        *each(_MATRIX[:1], porder=_POWERS[:3], asvector=(True,), keepdim=(False, True)),
        Sample((5,)),
        Sample((), asvector=True),
    ),
    refusals=(Sample((3, 4), axis=7),),
    faults=P_NORM | _further(lambda x, p, axis, epsilon, keepdim, asvector: (x, p, None if asvector else axis, keepdim)),
    ties=_sizes(lambda p, axis, epsilon, keepdim, asvector: None if asvector else axis),
)
def p_norm(x: torch.Tensor, porder: float, axis: int, epsilon: float, keepdim: bool, asvector: bool) -> torch.Tensor:
    """``torch.linalg.vector_norm`` along one axis, or with asvector over all of them; Paddle's epsilon stands for nothing."""
    if not x.ndim:
        raise NotImplementedError("0-D, which Paddle 2 refuses")
    if porder == 0:
        raise NotImplementedError("order 0, a count: Torch has no gradient where Paddle's is zeros")
    return torch.linalg.vector_norm(x, porder, None if asvector else axis, keepdim)


_VECTOR = "x p=2.0 axis=None keepdim=False name=None dtype=None"


@op(
    _VECTOR,
    promote="none",
    python="paddle.linalg.vector_norm",
    deviations=_ROOTS,
    samples=(*each((Sample((3, 4)), Sample((2, 3, 4), axis=[0, 2])), p=_POWERS[:3], keepdim=(False, True)), Sample((3, 4), axis=1)),
    faults=VECTOR_NORM | _further(lambda x, p, axis, keepdim, name, dtype: (x, p, axis, keepdim)),
    ties=_sizes(lambda p, axis, *rest: axis),
)
def vector_norm(x: torch.Tensor, p: float, axis: Any, keepdim: bool, name: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """``torch.linalg.vector_norm``."""
    if p == 0:
        raise NotImplementedError("order 0, a count: Torch has no gradient where Paddle's is zeros")
    return torch.linalg.vector_norm(x, p, axis, keepdim, dtype=dtype)


@reduction(
    "x|input axis|dim=None keepdim=False reduce_all=False",
    legacy="frobenius_norm",
    deviations={"gradient float64": "Paddle adds 1e-12 to the norm by which it divides"},
    faults=FROBENIUS,
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


_ADDED = "Torch adds 1e-7 to the norm by which it divides"
_SMALL = {"float64": _ADDED, "gradient float64": _ADDED}


@op("x", legacy=True, copies_result=True, samples=(Sample((3, 4)), Sample(())), ties=Kinks())
def l1_norm(x: torch.Tensor) -> torch.Tensor:
    """``torch.linalg.vector_norm`` of order 1 of the whole tensor."""
    return torch.linalg.vector_norm(x, 1)


def _shortened(x: torch.Tensor, p: float, axis: int, max_norm: float, added: float = 0.0) -> torch.Tensor:
    """Rows that are longer than ``max_norm`` brought to that length."""
    others = [other for other in range(x.ndim) if other != axis % x.ndim]
    norms = torch.linalg.vector_norm(x, p, others, keepdim=True)
    return torch.where(norms > max_norm, x * (max_norm / (norms + added)), x)


renorm = op(
    "x p axis max_norm",
    inplace=True,
    legacy=True,
    note="of a row that is too long, torch adds 1e-7 to the norm by which it divides",
    oracle=_shortened,
    faults={"norm+1e-7": Fault(lambda own, x, p, axis, max_norm: _shortened(x, p, axis, max_norm, 1e-7))},
    deviations=_SMALL,
    samples=each((Sample((3, 4), axis=0), Sample((2, 3, 4), axis=1)), p=(2.0, 1.0), max_norm=(0.5, 100.0)),
)(torch.renorm)


@op(
    "x y p=2.0",
    legacy=True,
    note="of several largest elements, torch shares the gradient of an infinite order among them",
    deviations={**_ROOTS, "gradient float64": "Paddle adds 1e-12 to the numbers by which it divides"},
    samples=(*each((Sample((3, 4), (3, 4)),), p=_POWERS), Sample((3, 4), (4,))),
    faults=DIST | largest_whole(lambda x, y, p: (x - y, p, None, False)),
    ties=Kinks(together=True, when=lambda p: p == 1),
)
def dist(x: torch.Tensor, y: torch.Tensor, p: float) -> torch.Tensor:
    """``torch.dist``, whose backward fails at order 0."""
    if p == 0:
        raise NotImplementedError("order 0, of which Torch has no gradient")
    return torch.dist(x, y, p)


@op(
    "x|x1 y|x2 p=2.0 epsilon|eps=1e-6 keepdim=False",
    promote="same",
    deviations=_ROOTS,
    python="paddle.nn.functional.pairwise_distance",
    samples=(*each((Sample((3, 4), (3, 4)),), p=_POWERS[:3], keepdim=(False, True)), Sample((3, 4), (4,)), Sample((4,), (4,))),
    faults=PAIRWISE,
)
def pairwise_distance(x: torch.Tensor, y: torch.Tensor, p: float, epsilon: float, keepdim: bool) -> torch.Tensor:
    """``torch.nn.functional.pairwise_distance``."""
    with_axes(x)  # of such Paddle gives one of one axis
    if p == 0:  # a count: Torch's backward of it gives nothing where Paddle's gives zeros
        x, y = x.detach(), y.detach()
    return F.pairwise_distance(x, y, p, epsilon, keepdim)


@op(
    "x1 x2 axis|dim=1 eps=1e-8",
    promote="same",
    note="torch bounds each norm by eps from below, Paddle their product by its square",
    faults={"bounded-together": Fault(bounded_together)},
    python="paddle.nn.functional.cosine_similarity",
    samples=(Sample((3, 4), (3, 4)), Sample((2, 3, 4), (2, 3, 4), axis=-1), Sample((3, 4), (1, 4)), Sample((4,), (4,), axis=0)),
)
def cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, axis: int, eps: float) -> torch.Tensor:
    """``torch.nn.functional.cosine_similarity``."""
    with_axes(x1, x2)
    return F.cosine_similarity(x1, x2, axis, eps)


_FIRST_OF_THREE = 9  # an axis that no tensor has: the first with three elements


@op(
    "x y axis=9",
    legacy=True,
    samples=(Sample((2, 3), (2, 3)), Sample((3, 4), (3, 4), axis=0), Sample((2, 4, 3), (2, 4, 3), axis=-1)),
    refusals=(Sample((2, 4), (2, 4)),),
)
def cross(x: torch.Tensor, y: torch.Tensor, axis: int) -> torch.Tensor:
    """``torch.linalg.cross``; Paddle's does not broadcast, and looks for an axis itself."""
    if x.shape != y.shape:
        raise ValueError("operands of different shapes")
    return torch.linalg.cross(x, y, dim=list(x.shape).index(3) if axis == _FIRST_OF_THREE else axis)


kron = op("x y", tensors=2, legacy=True, samples=(Sample((2, 3), (3, 2)), Sample((3,), (2, 2)), Sample((2, 1, 3), (4,))))(
    torch.kron
)


@op(
    "x y weight bias=None",
    amp="bilinear_tensor_product",
    unread=("bias",),
    samples=(Sample((4, 3), (4, 5), (2, 3, 5), (1, 2)), Sample((4, 3), (4, 5), (2, 3, 5), None)),
    refusals=(Sample((4, 3), (4, 5), (2, 5, 5), None),),
)
def bilinear(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """``torch.nn.functional.bilinear``; Paddle's bias has an axis of one in front."""
    return F.bilinear(x, y, weight, None if bias is None else bias.reshape(-1))
