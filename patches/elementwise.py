"""Elementwise mathematics: arithmetic with tensors and with Python numbers, powers, roots, exponentials."""

from __future__ import annotations

import operator as python

import torch

from padiff_shim.numerics import models
from padiff_shim.table.op import Sample, c_op, op, operator

from ._declarations import ROUNDED, binary, unary

exp = unary(torch.exp, model=models.EXP)
sqrt = unary(torch.sqrt, model=models.SQRT, within=(0.5, 2))
rsqrt = unary(torch.rsqrt, model=models.RSQRT, within=(0.5, 2))
square = unary(torch.square, model=models.SQUARE)

add = binary(
    python.add,
    legacy="elementwise_add",
    more_entries=(operator("add"), operator("radd")),  # Paddle computes y + x as x + y where it asks for __radd__
    amp=("elementwise_add", "scale"),
    model=models.Add(),
)
subtract = binary(
    python.sub,
    name="subtract",
    legacy="elementwise_sub",
    symbols=("sub",),
    amp=("elementwise_sub", "scale"),
    model=models.Subtract(),
)
multiply = binary(
    python.mul,
    name="multiply",
    legacy="elementwise_mul",
    more_entries=(operator("mul"), operator("rmul")),
    amp=("elementwise_mul", "scale"),
    model=models.Multiply(),
)
# Python's operator, because torch computes number / tensor by another formula than tensor / tensor.
divide = binary(
    python.truediv,
    name="divide",
    legacy="elementwise_div",
    symbols=("truediv", "div"),
    within=(0.5, 2),
    amp=("elementwise_div", "scale"),
    model=models.Divide(),
)
pow_ = binary(
    torch.pow,
    params="x|input y|exponent",
    numbers=("y",),
    legacy=("elementwise_pow", "pow: x y|factor=1.0"),
    more_entries=(c_op("elementwise_pow", "x|input y|exponent"),),
    symbols=("pow",),
    within=(0.5, 2),
    amp=("elementwise_pow", "pow"),
    elementwise=False,
    copies_result=True,
    model=models.Power(),
    deviations=ROUNDED,
)


@op(
    "x scale=1.0 bias=0.0 bias_after_scale=True",
    inplace=True,
    legacy=True,
    model=models.Scale(),
    deviations=ROUNDED,
    samples=(
        Sample((3, 4), scale=-1.0),
        Sample((3, 4), scale=0.3),
        Sample((3, 4), scale=0.3, bias=1.7),
        Sample((3, 4), scale=0.3, bias=1.7, bias_after_scale=False),
    ),
)
def scale(x: torch.Tensor, scale: float, bias: float, bias_after_scale: bool) -> torch.Tensor:
    """x * scale + bias, or (x + bias) * scale; Paddle's negation is scale=-1."""
    if not isinstance(scale, (int, float)) or not isinstance(bias, (int, float)):
        raise NotImplementedError("scale= or bias= is a tensor")
    if bias == 0:
        return torch.neg(x) if scale == -1 else x * scale
    return x * scale + bias if bias_after_scale else (x + bias) * scale
