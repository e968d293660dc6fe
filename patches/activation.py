"""Elementwise functions and softmax."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from padiff_shim.numerics import models
from padiff_shim.table.op import Op, Sample, c_op, legacy

UNARY = (Sample(((3, 4),)), Sample(((2, 3, 4),)), Sample(((),)), Sample(((0, 3),)))
POSITIVE = tuple(Sample(sample.shapes, positive=True) for sample in UNARY)


def gelu(x: torch.Tensor, approximate: bool | str) -> torch.Tensor:
    """``torch.nn.functional.gelu``, exact (erf) or by tanh."""
    form = approximate if isinstance(approximate, str) else ("tanh" if approximate else "none")
    return F.gelu(x, approximate=form)


def softmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    """``torch.softmax``."""
    return torch.softmax(x, axis)


def unary(
    name: str,
    reference: Callable[[torch.Tensor], torch.Tensor],
    model: models.Model,
    samples: tuple[Sample, ...] = UNARY,
) -> Op:
    """An op of one tensor with an in-place form, with an in-place form."""
    return Op(
        name,
        "activation",
        reference,
        "x",
        (
            c_op(name, "x|input"),
            c_op(f"{name}_", "x|input", inplace=True),
            legacy(name, "x"),
            legacy(f"{name}_", "x", inplace=True),
        ),
        samples,
        amp=(name, ""),
        model=model,
    )


OPS = (
    Op(
        "softmax",
        "activation",
        softmax,
        "x axis=-1",
        (
            c_op("softmax", "x|input axis|dim=-1"),
            c_op("softmax_", "x|input axis|dim=-1", inplace=True),
            legacy("softmax", "x axis=-1"),
            legacy("softmax_", "x axis=-1", inplace=True),
        ),
        (
            Sample(((3, 4),), {"axis": -1}),
            Sample(((2, 3, 4),), {"axis": 1}),
            Sample(((5,),), {"axis": 0}),
            Sample(((2, 0, 4),), {"axis": -1}),
        ),
        amp=("softmax", ""),
        model=models.Softmax(),
    ),
    Op(
        "gelu",
        "activation",
        gelu,
        "x approximate=False",
        (
            c_op("gelu", "x|input approximate=False"),
            c_op("gelu_", "x|input approximate=False", inplace=True),
            legacy("gelu", "x approximate=False"),
        ),
        tuple(Sample(sample.shapes, {"approximate": form}) for sample in UNARY for form in (False, True)),
        amp=("gelu", ""),
        model=models.Gelu(),
    ),
    unary("relu", torch.relu, models.RELU),
    unary("tanh", torch.tanh, models.TANH),
    unary("exp", torch.exp, models.EXP),
    unary("sqrt", torch.sqrt, models.SQRT, POSITIVE),
    unary("rsqrt", torch.rsqrt, models.RSQRT, POSITIVE),
)
