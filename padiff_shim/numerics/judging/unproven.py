"""NaN of operands that are NaN or infinite: where a formula is no proof against a side that has NaN, or has none.

Torch's formula answers for both sides, and compares and skips as Torch's kernel does: what passes over NaN in one does so in the
other. So of such operands the formula is asked again, with numbers in their places:

- A side is NaN and the formula a number. Where the number depends on an operand that is NaN, NaN is an answer as well. Of an
  infinite operand the formula has to come near its number for large ones, or that number proves nothing.
- A side is a number and the formula NaN. Where nothing depends on the operand that is none, NaN came of it times 0, which other
  kernels leave out (the zeros that pad a convolution's input).
"""

from __future__ import annotations

import math

import torch

from ..oracle.measured import Formula

NUMBERS = 0.375, -0.8125, 812.5, -812.5  # in place of NaN
LARGE = 1.1e9, 3.3e12, 7.7e15  # in place of infinities: so many times the largest number beside them
NEAR = 1e-2  # relative, and absolute


def unproven_places(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the formula proves nothing against Paddle's result, and against Torch's."""
    own = formula.value
    values = [_with_numbers(formula, number, large) for number in NUMBERS for large in LARGE]
    depends = torch.stack([~_near(value, values[0]) for value in values]).any(0)
    first = len(LARGE)
    moved = torch.stack([~_near(value, values[0]) for value in values[::first]]).any(0)  # by what takes the place of NaN
    limit = torch.stack([_near(value, own) for value in values[:first]]).all(0)
    steps = torch.stack(values[:first]).diff(dim=0)
    grows = own.isinf() & (steps * own.sign() > 0).all(0)
    spread = ~own.isnan() & (moved | ~(limit | grows))
    hidden = own.isnan() & ~depends & values[0].isfinite()
    mine, yours = ((spread & side.isnan()) | (hidden & _near(side.double(), values[0])) for side in (paddle, torch_))
    return mine, yours


def _with_numbers(formula: Formula, number: float, large: float) -> torch.Tensor:
    """The formula's value with numbers in place of what is none in the operands."""
    floats = [tensor for tensor in formula.given if tensor.is_floating_point() and tensor.numel()]
    large *= max([1.0, *(float(tensor.nan_to_num(0.0, 0.0, 0.0).abs().max()) for tensor in floats)])
    operands = [tensor.nan_to_num(number, large, -large) if tensor.is_floating_point() else tensor for tensor in formula.given]
    return formula.kernel.of(operands).exact().double()


def _near(values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    room = NEAR * torch.maximum(others.abs(), torch.ones_like(others)).nan_to_num(math.inf, math.inf)
    return (values == others) | ((values - others).abs() <= room) & values.isfinite() & others.isfinite()
