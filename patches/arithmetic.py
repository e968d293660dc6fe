"""Sums, differences, products and powers, with tensors and with Python numbers."""

from __future__ import annotations

import operator as python
from collections.abc import Sequence
from typing import Any

import torch

from padiff_shim.numerics import models
from padiff_shim.table.op import Op, Sample, c_op, legacy, operator

PAIRS = (
    Sample(((3, 4), (3, 4))),
    Sample(((3, 4), (4,))),
    Sample(((2, 1, 4), (3, 1))),
    Sample(((), (3,))),
    Sample(((0, 3), (3,))),
)
_XY = "x|input y|other"
_LEGACY_XY = "x y axis=-1"


def scale(x: torch.Tensor, scale: float, bias: float, bias_after_scale: bool) -> torch.Tensor:
    """x * scale + bias, or (x + bias) * scale; Paddle's negation is scale=-1."""
    if not isinstance(scale, (int, float)) or not isinstance(bias, (int, float)):
        raise NotImplementedError("scale= or bias= is a tensor")
    if bias == 0:
        return torch.neg(x) if scale == -1 else x * scale
    return x * scale + bias if bias_after_scale else (x + bias) * scale


def _fit(grad: torch.Tensor, values: Sequence[Any], needs: Sequence[int]) -> list[torch.Tensor]:
    """Sum the gradient over the axes along which each operand was broadcast (torch's sum_to)."""
    return [grad.sum_to_size(values[index].shape) for index in needs]


OPS = (
    Op(
        "add",
        "arithmetic",
        python.add,
        "x y",
        (
            c_op("add", _XY),
            c_op("add_", _XY, inplace=True),
            operator("add"),
            operator("radd", "x y"),
            legacy("elementwise_add", _LEGACY_XY, tensors=2),
            legacy("elementwise_add_", _LEGACY_XY, tensors=2, inplace=True),
        ),
        PAIRS,
        tensors=2,
        amp=("elementwise_add", "scale"),
        model=models.Add(),
        elementwise=True,
    ),
    Op(
        "subtract",
        "arithmetic",
        python.sub,
        "x y",
        (
            c_op("subtract", _XY),
            c_op("subtract_", _XY, inplace=True),
            operator("sub"),
            operator("rsub", "y x"),
            legacy("elementwise_sub", _LEGACY_XY, tensors=2),
            legacy("elementwise_sub_", _LEGACY_XY, tensors=2, inplace=True),
        ),
        PAIRS,
        tensors=2,
        amp=("elementwise_sub", "scale"),
        model=models.Subtract(),
        elementwise=True,
    ),
    Op(
        "multiply",
        "arithmetic",
        python.mul,
        "x y",
        (
            c_op("multiply", _XY),
            c_op("multiply_", _XY, inplace=True),
            operator("mul"),
            operator("rmul", "x y"),
            legacy("elementwise_mul", _LEGACY_XY, tensors=2),
        ),
        PAIRS,
        tensors=2,
        amp=("elementwise_mul", "scale"),
        model=models.Multiply(),
        elementwise=True,
    ),
    Op(
        "pow",
        "arithmetic",
        torch.pow,
        "x y",
        (
            c_op("pow", "x|input y|exponent", numbers=("y",)),
            c_op("pow_", "x|input y|exponent", inplace=True, numbers=("y",)),
            c_op("elementwise_pow", "x|input y|exponent"),
            operator("pow"),
            operator("rpow", "y x"),
            legacy("elementwise_pow", _LEGACY_XY, tensors=2),
            legacy("pow", "x y|factor=1.0", numbers=("y",)),
            legacy("pow_", "x y|factor=1.0", inplace=True, numbers=("y",)),
        ),
        (
            Sample(((3, 4), (3, 4)), positive=True),
            Sample(((3, 4), (4,)), positive=True),
            Sample(((), (3,)), positive=True),
            Sample(((0, 3), (3,)), positive=True),
        ),
        tensors=2,
        copies_result=True,
        amp=("elementwise_pow", "pow"),
        model=models.Power(),
    ),
    Op(
        "square",
        "arithmetic",
        torch.square,
        "x",
        (
            c_op("square", "x|input"),
            c_op("square_", "x|input", inplace=True),
            legacy("square", "x"),
            legacy("square_", "x", inplace=True),
        ),
        (Sample(((3, 4),)), Sample(((),)), Sample(((0, 3),))),
        amp=("square", ""),
        model=models.SQUARE,
    ),
    Op(
        "scale",
        "arithmetic",
        scale,
        "x scale=1.0 bias=0.0 bias_after_scale=True",
        (
            c_op("scale", "x scale=1.0 bias=0.0 bias_after_scale=True"),
            c_op("scale_", "x scale=1.0 bias=0.0 bias_after_scale=True", inplace=True),
            legacy("scale", "x scale=1.0 bias=0.0 bias_after_scale=True"),
            legacy("scale_", "x scale=1.0 bias=0.0 bias_after_scale=True", inplace=True),
        ),
        (
            Sample(((3, 4),), {"scale": -1.0}),
            Sample(((3, 4),), {"scale": 0.3}),
            Sample(((3, 4),), {"scale": 0.3, "bias": 1.7}),
            Sample(((3, 4),), {"scale": 0.3, "bias": 1.7, "bias_after_scale": False}),
        ),
        amp=("scale", ""),
        model=models.Scale(),
    ),
)
