"""Sampling of images: interpolation, grids, and the places of their pixels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from padiff_shim.numerics.ties import Sampled
from padiff_shim.table.op import Floats, KernelLimits, Op, Sample, each, function, op

from ._resampling import RESAMPLED
from ._windows import to_first, to_last

_FACTOR = "Paddle computes positions and weights in float32"
_DOUBLE = {"float64": _FACTOR, "gradient float64": _FACTOR}


def _size(x: torch.Tensor, scale: list[float]) -> list[int]:
    """The sizes as Paddle computes them: in float32, and not by Torch's kernels, whose rounding errors a verdict moves."""
    return [int(np.float32(size) * np.float32(factor)) for size, factor in zip(x.shape[2:], scale)]


def _interpolated(
    x: Any,
    out_size: Any,
    sizes: Any,
    factors: Any,
    form: str,
    depth: int,
    height: int,
    width: int,
    scale: Any,
    mode: str,
    corners: bool,
    align_mode: int,
    *,
    antialias: bool = False,
) -> torch.Tensor:
    """``torch.nn.functional.interpolate``."""
    if out_size is not None or sizes is not None or factors is not None:
        raise NotImplementedError("a size in tensors")
    if (mode == "nearest" and corners) or (mode not in ("nearest", "bicubic") and align_mode == 1 and not corners):
        raise NotImplementedError("align_mode=1, or nearest with align_corners: Torch has neither")
    if align_mode not in (0, 1):
        raise NotImplementedError(f"align_mode={align_mode}")
    last = form[-1] == "C"
    how: dict[str, Any] = {"mode": mode, "align_corners": None if mode == "nearest" else bool(corners), "antialias": antialias}
    x = to_first(x, last)
    if not scale:
        return to_last(F.interpolate(x, [depth, height, width][5 - x.ndim :], **how), last)
    scale = [float(factor) for factor in scale] * (x.ndim - 2 if len(scale) == 1 else 1)
    out = F.interpolate(x, scale_factor=tuple(scale), **how)
    if list(out.shape[2:]) != _size(x, scale):
        raise NotImplementedError("a scale that gives another size in float32")
    return to_last(out, last)


_CALL = (
    "x out_size=None size_tensor=None scale_tensor=None data_format='NCHW' out_d=-1 out_h=-1 out_w=-1 scale=[] interp_method={!r} "
    "align_corners=False align_mode=0"
)


def _interpolation(mode: str, *shape: int, **deviations: str) -> Op:
    n = len(shape) - 2
    sizes = dict(zip(("out_w", "out_h", "out_d"), (6, 9, 5)[:n]))
    corners = (False,) if mode == "nearest" else (False, True)
    samples = [Sample(shape, **size, align_corners=corner) for size in (sizes, {"scale": [2.0] * n}) for corner in corners]
    return op(
        _CALL.format(mode),
        name=f"{mode}_interp",
        amp=f"{mode}_interp_v2",
        samples=tuple(samples),
        deviations={**_DOUBLE, **deviations},
        note="align_mode=1 has no counterpart in Torch and stays native",
        faults={} if mode == "nearest" else RESAMPLED,
    )(_interpolated)


nearest_interp = _interpolation("nearest", 2, 3, 5, 4)
linear_interp = _interpolation("linear", 2, 3, 5)
bilinear_interp = _interpolation("bilinear", 2, 3, 5, 4)
bicubic_interp = _interpolation("bicubic", 2, 3, 5, 4)
trilinear_interp = _interpolation("trilinear", 1, 2, 4, 3, 3)


interp_antialias = op(
    _CALL.format("bilinear"),
    name="interp_antialias",
    deviations=_DOUBLE,
    samples=each(
        (Sample((1, 2, 9, 7), out_h=4, out_w=3), Sample((1, 2, 5, 4), out_h=7, out_w=9)),
        interp_method=("bilinear", "bicubic"),
        align_corners=(False, True),
    ),
)(functools.partial(_interpolated, antialias=True))


grid_sample = op(
    "x grid mode='bilinear' padding_mode='zeros' align_corners=True",
    tensors=2,
    legacy="grid_sampler: x grid * mode='bilinear' padding_mode='zeros' align_corners=True",
    limits=KernelLimits(wanting=0),
    ties=Sampled(),
    samples=(
        Sample((2, 3, 4, 5), Floats((2, 3, 4, 2), -1.2, 1.2)),
        Sample((2, 3, 4, 5), Floats((2, 3, 4, 2), -1.2, 1.2), padding_mode="border", align_corners=False),
        Sample((2, 3, 4, 5), Floats((2, 3, 4, 2), -1.2, 1.2), padding_mode="reflection"),
        Sample((1, 2, 4, 3, 3), Floats((1, 3, 2, 2, 3), -1.2, 1.2)),
    ),
)(F.grid_sample)


@op(
    "theta out_shape align_corners=True",
    doors=(function("paddle.nn.functional.affine_grid", "theta out_shape align_corners=True"),),
    samples=(
        Sample((2, 2, 3), out_shape=[2, 3, 4, 5]),
        Sample((2, 2, 3), out_shape=[2, 3, 4, 5], align_corners=False),
    ),
)
def affine_grid(theta: Any, out_shape: Any, align_corners: bool) -> torch.Tensor:
    """``torch.nn.functional.affine_grid``."""
    sizes = out_shape.tolist() if hasattr(out_shape, "tolist") else out_shape
    return F.affine_grid(theta, [int(size) for size in sizes], align_corners)
