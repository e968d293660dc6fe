"""Activation functions, as layers of a network use them."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from padiff_shim.numerics import models
from padiff_shim.table.op import Sample, each, op

from ._spell import UNARY, unary

relu = unary(torch.relu, model=models.RELU)
tanh = unary(torch.tanh, model=models.TANH)


@op(
    "x|input axis|dim=-1",
    inplace=True,
    legacy=True,
    model=models.Softmax(),
    samples=(Sample((3, 4)), Sample((2, 3, 4), axis=1), Sample((5,), axis=0), Sample((2, 0, 4))),
)
def softmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    """``torch.softmax``."""
    return torch.softmax(x, axis)


@op("x|input approximate=False", inplace=True, legacy=True, model=models.Gelu(), samples=each(UNARY, approximate=(False, True)))
def gelu(x: torch.Tensor, approximate: bool | str) -> torch.Tensor:
    """``torch.nn.functional.gelu``, exact (erf) or by tanh."""
    form = approximate if isinstance(approximate, str) else ("tanh" if approximate else "none")
    return F.gelu(x, approximate=form)
