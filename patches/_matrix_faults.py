"""Known faults of linear algebra kernels: formulas for ``op(faults=...)``, as in :mod:`._faults`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from padiff_shim.table.op import Fault


def whole_factor(own: Callable[..., Any], x: torch.Tensor, y: torch.Tensor, upper: bool) -> torch.Tensor:
    """``cholesky_solve`` whose gradient of the factor reads what lies outside of the triangle, too."""
    lies = y.detach()
    change = (y - lies).triu() if upper else (y - lies).tril()
    outer = change.mT @ lies if upper else change @ lies.mT
    solution = own(x, lies, upper)
    return solution - own((outer + outer.mT) @ solution.detach(), lies, upper)


def first_of_batch(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
    """Eigenvalues of several matrices, whose gradients all count for those of the first."""
    values, vectors = own(x, *rest)
    if values.ndim < 2 or values.shape[:-1].numel() < 2:
        raise NotImplementedError("several matrices")
    rows = values.reshape(-1, values.shape[-1])
    first = rows[:1].detach() + (rows - rows.detach()).sum(0, keepdim=True)
    return torch.cat([first, rows[1:].detach()]).reshape(values.shape), vectors


def gradients_in_turn(own: Callable[..., Any], x: torch.Tensor, uplo: str, is_test: bool) -> tuple[Any, ...]:
    """``eigvalsh`` of several matrices, whose vectors take the gradients of the values in turn, element by element."""
    values, vectors = torch.linalg.eigh(x.detach(), UPLO=uplo)
    if values.shape[:-1].numel() < 2 or vectors.is_complex():
        raise NotImplementedError("several real matrices")
    change = vectors * ((x - x.detach()) @ vectors)
    return values + change.reshape(-1, values.numel()).sum(0).reshape(values.shape), None


def real_pairs(own: Callable[..., Any], x: torch.Tensor) -> tuple[Any, ...]:
    """``eig`` that leaves LAPACK's pairs (real part, imaginary part) as they are where an eigenvalue is near the real axis."""
    values, vectors = own(x)
    near = (values.imag != 0) & (values.imag.abs() < 1e-6)
    if x.is_complex() or not near.any():
        raise NotImplementedError("real matrices with eigenvalues beside the real axis")
    parts = torch.where((values.imag > 0).unsqueeze(-2), vectors.real, -vectors.imag)
    return values, torch.where(near.unsqueeze(-2), parts.to(vectors.dtype), vectors)


def small_determinants(limit: float) -> dict[str, Fault]:
    """``det`` whose gradient is zero where the determinant, of one matrix of a batch at least, is below a limit."""

    def formula(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        value = own(x.detach())
        if not (value.abs() < limit).any():
            raise NotImplementedError("small determinants")
        return value + 0.0 * (x - x.detach()).sum((-2, -1))

    return {f"below-{limit:g}->0": Fault(formula)}


def through_determinant(own: Callable[..., Any], x: torch.Tensor) -> Any:
    """``slogdet`` as sign and logarithm of the determinant, which may have left the range."""
    determinant = torch.linalg.det(x)
    parts = torch.sign(determinant), determinant.abs().log()
    return torch.stack(parts) if isinstance(own(x.detach()), torch.Tensor) else parts


# Of 1 / (2 degree)! (degree)! ...: the numerator of the Pade approximant of exp, from the constant up.
def _pade(degree: int) -> list[float]:
    return [
        math.factorial(2 * degree - k)
        * math.factorial(degree)
        / (math.factorial(2 * degree) * math.factorial(k) * math.factorial(degree - k))
        for k in range(degree + 1)
    ]


def few_squarings(degree: int, largest: float) -> dict[str, Fault]:
    """``matrix_exp`` by a Pade approximant of a matrix that was halved once too few: its norm may be up to twice what is allowed.

    Higham, The scaling and squaring method for the matrix exponential revisited, SIAM J. Matrix Anal. Appl. 26 (2005).
    """

    def formula(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        norm = torch.linalg.matrix_norm(x.detach(), 1)
        if x.shape[-1] == 1 or not (norm > largest).any():
            raise NotImplementedError("large matrices")
        squarings = torch.log2(norm / largest).floor().clamp(min=0.0)[..., None, None]
        scaled = x / 2.0**squarings
        power = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).expand(x.shape)
        upper = lower = torch.zeros_like(x)
        for order, weight in enumerate(_pade(degree)):
            upper, lower = upper + weight * power, lower + (-1) ** order * weight * power
            power = power @ scaled
        exponential = torch.linalg.solve(lower, upper)
        for turn in range(int(squarings.max())):
            exponential = torch.where(squarings > turn, exponential @ exponential, exponential)
        return torch.where((norm > largest)[..., None, None], exponential, own(x))

    return {f"few-squarings-{degree}": Fault(formula, precision=True)}


def degree_of_eight(smallest: float, largest: float) -> Fault:
    """``matrix_exp`` of one matrix of such a norm by Torch's polynomial of degree 8: a coefficient of it lacks a factor of 3 / 2.

    Bader, Blanes, Casas, Computing the matrix exponential with an optimized Taylor polynomial approximation, Mathematics 7 (2019).
    """
    root = math.sqrt(177.0)
    inner = (1.0 + root) / 132.0, (1.0 + root) / 528.0
    outer = (29.0 * root - 271.0) / 210.0, 11.0 * (root - 1.0) / 840.0, 11.0 * (root - 9.0) / 3360.0, (89.0 - root) / 3360.0

    def formula(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        norm = torch.linalg.matrix_norm(x.detach(), 1)
        if x.shape[-1] == 1 or norm.numel() != 1 or not smallest < norm.item() <= largest:
            raise NotImplementedError("one matrix of such a norm")
        unit = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
        square = x @ x
        fourth = square @ (inner[0] * x + inner[1] * square)
        factor = outer[0] * unit + outer[1] * x + outer[2] * square + outer[3] * fourth
        return unit + x + (857.0 - 58.0 * root) / 630.0 * square + (2.0 / 3.0 * square + fourth) @ factor

    return Fault(formula, precision=True)


def through_factors(own: Callable[..., Any], x: torch.Tensor, rcond: Any, hermitian: bool) -> torch.Tensor:
    """``pinv`` in steps, whose gradient is that of the singular or eigenvectors: equal values have none."""
    limit = float(rcond.item() if hasattr(rcond, "item") else rcond)
    if hermitian:
        several = x.shape[:-2].numel() > 1
        values, left = first_of_batch(torch.linalg.eigh, x) if several else torch.linalg.eigh(x)
        right = left
    else:
        left, values, rows = torch.linalg.svd(x, full_matrices=False)
        right = rows.mT.conj()
    counted = values.abs() > limit * values.abs().amax(-1, keepdim=True)
    return (right * torch.where(counted, 1 / values, 0.0).unsqueeze(-2)) @ left.mT.conj()


FEW_SQUARINGS = {**few_squarings(7, 3.925724783138660), **few_squarings(13, 5.371920351148152)}
DEGREE_OF_EIGHT = {
    "degree-8 of float32": degree_of_eight(5.116619363445086e-02, 5.800524627688768e-01),
    "degree-8 of float64": degree_of_eight(3.397168839976962e-04, 4.991228871115323e-02),
}
SMALL_DETERMINANTS = {**small_determinants(1e-12), **small_determinants(1e-5)}
THROUGH_FACTORS = {"through-vectors": Fault(through_factors)}
FIRST_OF_BATCH, IN_TURN = {"first-of-batch": Fault(first_of_batch)}, {"gradients-in-turn": Fault(gradients_in_turn)}
REAL_PAIRS = {"pairs-of-reals": Fault(real_pairs)}
THROUGH_DETERMINANT = {"through-determinant": Fault(through_determinant, precision=True)}
