"""Fused ops of ``paddle.incubate`` that Paddle has for the CPU, and that Torch has a function for."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import KernelLimits, Sample, c_op, each, op

_QUANTISING = "quant_scale=-1.0 quant_round_type=0 quant_max_bound=0.0 quant_min_bound=0.0"


def _plain(x: torch.Tensor, scale: float) -> None:
    if scale > 0:
        raise NotImplementedError("a result in integers of eight bits")
    if x.ndim < 2:
        raise NotImplementedError("no rows")


def _of_one_axis(*parameters: torch.Tensor | None) -> None:
    if any(parameter is not None and parameter.ndim != 1 for parameter in parameters):
        raise ValueError("a weight or bias of several axes")


_NORMS = (  # without a residual Paddle leaves the second result unset
    Sample((2, 3, 8), (8,), (2, 3, 8), (8,), (8,), begin_norm_axis=2),
    Sample((2, 3, 8), None, (2, 3, 8), (8,), None, begin_norm_axis=2),
)


@op(
    f"x bias residual norm_weight norm_bias epsilon=1e-05 residual_alpha=1.0 begin_norm_axis=1 {_QUANTISING}",
    results=("out", "residual_out", "mean", "deviation"),
    unset={"residual_out": "x"},
    gradient=False,
    limits=KernelLimits(avx512=True),
    samples=each(_NORMS, residual_alpha=(1.0, 0.5)),
    note="`fused_layer_norm`: a bias counts beside a residual only; it has no gradient",
)
def fused_bias_residual_layernorm(
    x: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    shift: torch.Tensor | None,
    epsilon: float,
    alpha: float,
    axis: int,
    *quantising: float,
) -> tuple[Any, ...]:
    """``torch.nn.functional.layer_norm`` of x, or of its sum with a bias and a residual, and the reciprocals of deviations."""
    _plain(x, quantising[0])
    if weight is None:
        raise NotImplementedError("without a weight: Paddle then adds only, and leaves a result unset")
    summed = x if residual is None else (x if bias is None else x + bias) + (residual if alpha == 1 else residual * alpha)
    summed, shape = summed.detach(), x.shape[axis:]
    _of_one_axis(weight, shift)
    parameters = [None if parameter is None else parameter.detach().reshape(shape) for parameter in (weight, shift)]
    out, mean, deviation = torch.native_layer_norm(summed, shape, *parameters, epsilon)
    return out, None if residual is None else summed, mean.reshape(-1), deviation.reshape(-1)


_RMS_NORM = f"x bias residual norm_weight norm_bias epsilon=1e-06 begin_norm_axis=1 {_QUANTISING}"


@op(
    _RMS_NORM,
    more_entries=(c_op("rms_norm", _RMS_NORM, until="fused_rms_norm_quant"),),
    results=("out", "residual_out"),
    unset={"residual_out": ""},
    limits=KernelLimits(avx512=True),
    samples=_NORMS,
    deviations={"gradient": "Paddle has no kernel of the gradient on the CPU"},
    note="`fused_rms_norm`: a bias counts beside a residual only; neither has a gradient",
)
def fused_rms_norm_quant(
    x: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    shift: torch.Tensor | None,
    epsilon: float,
    axis: int,
    *quantising: float,
) -> tuple[Any, ...]:
    """``torch.nn.functional.rms_norm`` of x, or of its sum with a bias and a residual, which is a result, too."""
    _plain(x, quantising[0])
    summed = x if residual is None else (x if bias is None else x + bias.detach()) + residual.detach()
    shape = x.shape[axis:]
    _of_one_axis(weight, shift)
    out = F.rms_norm(summed, shape, weight.reshape(shape), epsilon)
    return out if shift is None else out + shift.reshape(shape), None if residual is None else summed
