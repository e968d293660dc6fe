"""Statistics of samples, sums of areas, and distances between all pairs, as the functions that Torch has for them."""

from __future__ import annotations

from typing import Any

import torch

from padiff_shim.table.op import Fault, Floats, Ints, Sample, each, function, op

from ._declarations import ROUNDED, of, with_axes
from ._faults import correlation, half_centred
from ._norm_faults import CDIST, PDIST


def _rows(x: torch.Tensor, rowvar: bool) -> torch.Tensor:
    """The variables as rows."""
    return x if rowvar or x.ndim < 2 or x.shape[0] == 1 else x.t()


def _half_centred(own: Any, x: torch.Tensor, fweights: Any, aweights: Any, rowvar: bool, ddof: bool) -> torch.Tensor:
    return half_centred(own, x, rowvar, ddof, fweights, aweights)


@op(
    "x fweights=None aweights=None rowvar=True ddof=True",
    tensors=3,
    c=False,
    promote="none",
    amp="matmul_v2",
    products=True,
    more_entries=(function("paddle.linalg.cov", "x rowvar=True ddof=True fweights=None aweights=None"),),
    samples=(
        *each((Sample((3, 6)), Sample((6, 3))), rowvar=(True, False), ddof=(True, False)),
        Sample((5,)),
        Sample((3, 6), Ints((6,), 1, 4), None),
        Sample((3, 6), Ints((6,), 1, 4), Floats((6,), 0.5, 2)),
    ),
    refusals=(Sample((2, 3, 4)),),
    faults={"half-centred": Fault(_half_centred, precision=True)},
)
def cov(x: torch.Tensor, fweights: Any, aweights: Any, rowvar: bool, ddof: bool) -> torch.Tensor:
    """``torch.cov``."""
    with_axes(x)
    if x.ndim > 2:
        raise ValueError("more than two axes")
    counts = None if fweights is None else fweights.long()
    return torch.cov(_rows(x, rowvar), correction=int(ddof), fweights=counts, aweights=aweights)


@op(
    "x rowvar=True",
    amp="matmul_v2",
    products=True,
    python="paddle.linalg.corrcoef",
    samples=(Sample((3, 6)), Sample((6, 3), rowvar=False)),
    refusals=(Sample((2, 3, 4)),),
    faults={"half-centred": Fault(correlation, precision=True)},
)
def corrcoef(x: torch.Tensor, rowvar: bool) -> torch.Tensor:
    """``torch.corrcoef``."""
    with_axes(x)
    if x.ndim > 2:
        raise ValueError("more than two axes")
    return torch.corrcoef(_rows(x, rowvar))


_MODE = "use_mm_for_euclid_dist_if_necessary"


@op(
    f"x y p=2.0 compute_mode={_MODE!r}",
    promote="same",
    copies_result=True,
    amp="matmul_v2",
    products=True,
    python="paddle.cdist",
    deviations=ROUNDED,
    samples=(
        *each((Sample((3, 4), (5, 4)), Sample((2, 3, 4), (2, 5, 4))), p=(2.0, 1.0, 3.0, float("inf"))),
        Sample((30, 4), (28, 4)),
        Sample((30, 4), (28, 4), compute_mode="donot_use_mm_for_euclid_dist"),
    ),
    refusals=(Sample((3, 4), (5, 3)),),
    faults=CDIST,
)
def cdist(x: torch.Tensor, y: torch.Tensor, p: float, compute_mode: str) -> torch.Tensor:
    """``torch.cdist``."""
    if p == 0:
        raise NotImplementedError("order 0, a count")
    return torch.cdist(x, y, p, compute_mode)


@op(
    "x p=2.0",
    promote="same",
    copies_result=True,
    python="paddle.pdist",
    deviations=ROUNDED,
    faults=PDIST,
)
def pdist(x: torch.Tensor, p: float) -> torch.Tensor:
    """``torch.pdist``."""
    if p == 0:
        raise NotImplementedError("order 0, a count")
    return torch.pdist(x, p)


_AREA = "y x=None dx=None axis=-1"
_AREAS = (
    *each((Sample((3, 5)), Sample((3, 5), dx=0.3)), axis=(-1, 0)),
    Sample((3, 5), (3, 5)),
    Sample((3, 5), (5,)),
)


def _area(formula: Any, y: torch.Tensor, x: torch.Tensor | None, dx: float | None, axis: int) -> torch.Tensor:
    """``torch.trapezoid`` or ``torch.cumulative_trapezoid``."""
    if x is None:
        return formula(y, dx=1.0 if dx is None else dx, dim=axis)
    if dx is not None:
        raise ValueError("x and dx")
    if x.ndim == 1 and axis % y.ndim != y.ndim - 1:
        raise NotImplementedError("places of one axis, and areas along another than the last")
    return formula(y, x, dim=axis)


trapezoid = op(_AREA, tensors=2, promote="same", python="paddle.trapezoid", samples=_AREAS, deviations=ROUNDED)(
    of(_area, torch.trapezoid)
)


cumulative_trapezoid = op(
    _AREA,
    tensors=2,
    promote="same",
    python="paddle.cumulative_trapezoid",
    samples=_AREAS,
    deviations=ROUNDED,
)(of(_area, torch.cumulative_trapezoid))
