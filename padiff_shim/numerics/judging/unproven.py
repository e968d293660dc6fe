"""NaN of operands that are NaN or infinite: where a formula is no proof against a side that has NaN, or has none.

Torch's formula answers for both sides, and compares and skips as Torch's kernel does: what passes over NaN in one does so in the
other. So of such operands the formula is asked again, with numbers in their places:

- A side is NaN and the formula a number. Where the number depends on an operand that is NaN, NaN is an answer as well. Of an
  infinite operand the formula has to come near its number for large ones, or that number proves nothing.
  NaN stands for any number, one beyond all others among them: the largest of NaN and an infinity is not the infinity.
- A side is a number and the formula NaN. Where nothing depends on the operand that is none, NaN came of it times 0, which other
  kernels leave out (the zeros that pad a convolution's input).
- A matrix with NaN or infinities has no factors, and no determinant; transforms, and products of reflections, add up infinities and
  their products with 0 in orders of their own. What depends on them proves nothing, whatever it is.
"""

from __future__ import annotations

import math

import torch

from ...signals import let_pass
from ..oracle.measured import Formula

NUMBERS = 0.375, -0.8125, 812.5, -812.5  # in place of NaN
LARGE = 1.1e9, 3.3e12, 7.7e15  # in place of infinities: so many times the largest number beside them
BEYOND = 1e9  # in place of NaN beside infinities: so many times what takes the place of those
NEAR = 1e-2  # relative, and absolute


def unproven_places(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the formula proves nothing against Paddle's result, and against Torch's."""
    own = formula.value
    values = [_with_numbers(formula, number, large) for number in NUMBERS for large in LARGE]
    depends = torch.stack([~_near(value, values[0]) for value in values]).any(0)
    first = len(LARGE)
    moved = torch.stack([~_near(value, values[0]) for value in values[::first]]).any(0)  # by what takes the place of NaN
    if _has_both(formula):
        beyond = [_with_numbers(formula, sign * BEYOND * LARGE[0], LARGE[0], related=True) for sign in (1.0, -1.0)]
        moved |= torch.stack([~_near(value, values[0]) for value in beyond]).any(0)
        depends |= moved
    limit = torch.stack([_near(value, own) for value in values[:first]]).all(0)
    steps = torch.stack(values[:first]).diff(dim=0)
    grows = own.isinf() & (steps * own.sign() > 0).all(0)
    spread = ~own.isnan() & (moved | ~(limit | grows))
    hidden = own.isnan() & ~depends & values[0].isfinite()
    if formula.mixed:
        lost = _spread(formula, depends | _with_nan(formula))
        return lost, lost
    mine, yours = ((spread & side.isnan()) | (hidden & _near(side.double(), values[0])) for side in (paddle, torch_))
    return mine, yours


def _has_both(formula: Formula) -> bool:
    """Whether there are NaN and infinities among the operands."""
    floats = [tensor for tensor in map(_in_parts, formula.given) if tensor.is_floating_point()]
    return any(bool(tensor.isnan().any()) for tensor in floats) and any(bool(tensor.isinf().any()) for tensor in floats)


def _with_nan(formula: Formula) -> torch.Tensor:
    """What is another value, or none, with NaN in place of infinities."""
    try:
        value = _with_numbers(formula, math.nan, math.nan)
    except Exception as error:  # some factorisations refuse NaN
        let_pass(error)
        return torch.ones_like(formula.value, dtype=torch.bool)
    return ~_near(value, formula.value)


def _spread(formula: Formula, lost: torch.Tensor) -> torch.Tensor:
    """Both parts of a complex number of which one is lost; of matrices that come of matrices, all."""
    rank = max((tensor.ndim for tensor in formula.given), default=0)
    if lost.ndim == rank + 1 and lost.shape[-1] == 2:
        return lost.any(-1, keepdim=True).expand_as(lost)
    if lost.ndim > 1 and any(tensor.shape[-2:] == lost.shape[-2:] for tensor in formula.given if tensor.is_floating_point()):
        return lost.any(-1, keepdim=True).any(-2, keepdim=True).expand_as(lost)
    return lost


def _with_numbers(formula: Formula, number: float, large: float, *, related: bool = False) -> torch.Tensor:
    """The formula's value with numbers in place of what is none in the operands; ``related``: both beside the largest number."""
    floats = [tensor for tensor in map(_in_parts, formula.given) if tensor.is_floating_point() and tensor.numel()]
    largest = max([1.0, *(float(tensor.nan_to_num(0.0, 0.0, 0.0).abs().max()) for tensor in floats)])
    large *= largest
    number *= largest if related else 1.0
    operands = [_replaced(tensor, number, large) for tensor in formula.given]
    return formula.kernel.of(operands).exact().double()


def _in_parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _replaced(tensor: torch.Tensor, number: float, large: float) -> torch.Tensor:
    if tensor.is_complex():
        return torch.view_as_complex(_in_parts(tensor).nan_to_num(number, large, -large))
    return tensor.nan_to_num(number, large, -large) if tensor.is_floating_point() else tensor


def _near(values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    room = NEAR * torch.maximum(others.abs(), torch.ones_like(others)).nan_to_num(math.inf, math.inf)
    return (values == others) | ((values - others).abs() <= room) & values.isfinite() & others.isfinite()
