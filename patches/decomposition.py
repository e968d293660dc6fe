"""Factorisations of matrices, and what is solved with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from padiff_shim.table.op import Fault, Floats, Ints, Sample, c_op, each, op

from . import _aligned
from ._declarations import of
from ._matrix_faults import (
    DEGREE_OF_EIGHT,
    FEW_SQUARINGS,
    FIRST_OF_BATCH,
    IN_TURN,
    REAL_PAIRS,
    SMALL_DETERMINANTS,
    THROUGH_DETERMINANT,
    THROUGH_FACTORS,
    whole_factor,
)

TALL, WIDE, SQUARE = Sample((2, 5, 3)), Sample((3, 5)), Sample((2, 4, 4))

_PHASES = "vectors of complex matrices have phases that nothing fixes: Torch refuses the gradient of what depends on them"


def _several(formula: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """The results of a function as a plain tuple."""
    return tuple(formula(*arguments))


inverse = op("x|input", name="inverse", legacy=True, complex=True, samples=(SQUARE, Sample((3, 3))))(torch.linalg.inv)
det = op("x|input", name="det", legacy="determinant", samples=(SQUARE, Sample((3, 3))), faults=SMALL_DETERMINANTS)(torch.linalg.det)


svdvals = op(
    "x|input",
    name="svdvals",
    legacy=True,
    samples=(TALL, WIDE),
    copies_result=True,
    note="of several axes of matrices Paddle's shape has one",
    faults={"one-batch-axis": Fault(lambda own, x: own(x).flatten(0, -2))},
)(torch.linalg.svdvals)
solve = op(
    "x|input y|other",
    name="solve",
    tensors=2,
    legacy=True,
    complex=True,
    samples=(Sample((2, 4, 4), (2, 4, 3)), Sample((3, 3), (3, 2))),
)(torch.linalg.solve)
matrix_power = op("x|input n", name="matrix_power", legacy="matrix_power: x * n", samples=each((Sample((3, 3)),), n=(0, 1, 2, 3)))(
    torch.linalg.matrix_power
)


@op("x upper=False", legacy=True)
def cholesky(x: torch.Tensor, upper: bool) -> torch.Tensor:
    """``torch.linalg.cholesky``."""
    return torch.linalg.cholesky(x, upper=upper)


@op(
    "x y upper=True transpose=False unitriangular=False",
    legacy=True,
    samples=each(
        (Sample((3, 3), (3, 2), positive=True),), upper=(True, False), transpose=(True, False), unitriangular=(True, False)
    ),
    deviations={"gradient": "where y wants no gradient, Paddle computes that of x from memory that nothing was written to"},
)
def triangular_solve(x: torch.Tensor, y: torch.Tensor, upper: bool, transpose: bool, unitriangular: bool) -> torch.Tensor:
    """The solution of ``x @ result = y`` with a triangular ``x``."""
    if transpose:
        return torch.linalg.solve_triangular(x.mT, y, upper=not upper, unitriangular=unitriangular)
    return torch.linalg.solve_triangular(x, y, upper=upper, unitriangular=unitriangular)


@op(
    "x y upper=False",
    legacy=True,
    samples=each((Sample((3, 2), (3, 3), positive=True),), upper=(True, False)),
    deviations={"gradient": "of a factor that is not 0 outside of its triangle, Paddle's gradient is wrong inside, too"},
    faults={"whole-factor": Fault(whole_factor)},
)
def cholesky_solve(x: torch.Tensor, y: torch.Tensor, upper: bool) -> torch.Tensor:
    """The solution for the right side ``x``, where ``y`` is the matrix's Cholesky factor: only its triangle is read.

    Torch's own gradient is not 0 outside of the triangle, as Paddle's is, and wrong inside where the factor is not 0 outside.
    """
    return torch.cholesky_solve(x, y.triu() if upper else y.tril(), upper=upper)


@op("x mode='reduced'", legacy=True, complex=True, results=("q", "r"), aligned=_aligned.triangular)
def qr(x: torch.Tensor, mode: str) -> tuple[Any, ...]:
    """``torch.linalg.qr``."""
    if mode == "complete" and x.shape[-2] > x.shape[-1] and x.requires_grad:
        raise NotImplementedError("a gradient of more rows than columns with mode='complete'")
    if mode == "r" and x.requires_grad:
        raise NotImplementedError("a gradient with mode='r', which neither framework has")
    return tuple(torch.linalg.qr(x, mode=mode))


svd = op(
    "x full_matrices=False",
    name="svd",
    legacy=True,
    complex=True,
    results=("u", "s", "vh"),
    aligned=_aligned.singular,
    note=_PHASES,
)(of(_several, torch.linalg.svd))


eigh = op(
    "x UPLO='L'",
    name="eigh",
    legacy=True,
    complex=True,
    results=("values", "vectors"),
    aligned=_aligned.eigenvectors,
    note=_PHASES,
    faults=FIRST_OF_BATCH,
)(of(_several, torch.linalg.eigh))


@op(
    "x uplo|UPLO='L' is_test=False",
    legacy="eigvalsh: x uplo|UPLO='L' is_test=False",
    complex=True,
    results=("values", "vectors"),
    scratch=("vectors",),
    faults=IN_TURN,
)
def eigvalsh(x: torch.Tensor, uplo: str, is_test: bool) -> tuple[Any, ...]:
    """``torch.linalg.eigvalsh``; the vectors, which Paddle keeps for its backward, are left out."""
    return torch.linalg.eigvalsh(x, UPLO=uplo), None


@op(
    "x|input",
    amp="slogdeterminant",
    samples=(SQUARE, Sample((3, 3))),
    note="One tensor: the signs, then the logarithms.",
    faults=THROUGH_DETERMINANT,
)
def slogdet(x: torch.Tensor) -> torch.Tensor:
    """``torch.linalg.slogdet``, stacked."""
    return torch.stack(tuple(torch.linalg.slogdet(x)))


slogdet_v2 = op(
    "x", name="slogdet_v2", legacy=True, results=("sign", "logarithm"), samples=(SQUARE, Sample((3, 3))), faults=THROUGH_DETERMINANT
)(of(_several, torch.linalg.slogdet))


def _info_of_one(native: Callable[..., Any], tensor: Callable[..., Any]) -> int:
    """The rank of what tells whether one matrix was singular: 0, in Paddle 2.6 1."""
    return len(native(tensor([[1.0]]), True)[2].shape)


@op(
    "x pivot=True info_of_one=0",
    c=False,
    more_entries=(c_op("lu", "x pivot=True"),),
    probes={"info_of_one": _info_of_one},
    results=("lu", "pivots", "info"),
)
def lu(x: torch.Tensor, pivot: bool, info_of_one: int) -> tuple[Any, ...]:
    """``torch.linalg.lu_factor_ex``; pivots count from 1 in both."""
    factors, pivots, info = torch.linalg.lu_factor_ex(x, pivot=pivot)
    return factors, pivots, info.reshape([1]) if info_of_one > info.ndim else info


lu_unpack = op(
    "x y unpack_ludata=True unpack_pivots=True", tensors=2, legacy=True, promote="same", results=("p", "l", "u"), integers=("y",)
)(of(_several, torch.lu_unpack))

eig = op(
    "x",
    name="eig",
    legacy=True,
    promote="same",
    complex=True,
    results=("values", "vectors"),
    aligned=_aligned.eigenpairs,
    note=_PHASES,
    faults=REAL_PAIRS,
)(of(_several, torch.linalg.eig))

eigvals = op("x", name="eigvals", legacy=True, promote="same", complex=True, gradient=False, aligned=_aligned.eigenvalues)(
    torch.linalg.eigvals
)


@op(
    "b lu pivots trans='N'",
    legacy=True,
    promote="same",
    samples=each((Sample((3, 2), Floats((3, 3), 0.5, 2), Ints((3,), 1, 4, "int32")),), trans=("N", "T")),
    deviations={"gradient": "with trans='T' Paddle's gradient of the factors is wrong"},
)
def lu_solve(b: torch.Tensor, lu: torch.Tensor, pivots: torch.Tensor, trans: str) -> torch.Tensor:
    """``torch.linalg.lu_solve``."""
    if trans not in ("N", "T"):
        raise NotImplementedError(f"trans={trans!r}")
    return torch.linalg.lu_solve(lu, pivots, b, adjoint=trans != "N")


@op(
    "x y rcond=None driver=None",
    promote="same",
    python="paddle.linalg.lstsq",
    results=("solution", "residuals", "rank", "singular_values"),
    note="Paddle has no gradient of it; with the driver gelsy Torch's last digits vary from call to call",
)
def lstsq(x: torch.Tensor, y: torch.Tensor, rcond: float | None, driver: str | None) -> tuple[Any, ...]:
    """``torch.linalg.lstsq``; Paddle's rank is in int32."""
    solution, residuals, rank, values = torch.linalg.lstsq(x.detach(), y.detach(), rcond, driver=driver or "gelsy")
    return solution, residuals, rank.int() if rank.numel() else rank, values


def _whole(name: str, params: str, **options: Any) -> Any:
    """A decorator: a function of ``paddle.linalg`` that Paddle itself makes of several ops."""
    return op(
        params,
        name=name,
        promote="same",
        amp="matmul_v2",
        products=True,
        python=f"paddle.linalg.{name}",
        **options,
    )


matrix_exp = _whole("matrix_exp", "x", samples=(SQUARE, Sample((3, 3))), faults={**FEW_SQUARINGS, **DEGREE_OF_EIGHT})(
    torch.linalg.matrix_exp
)


@_whole("pinv", "x rcond=1e-15 hermitian=False", samples=(TALL, Sample((1, 3, 5))), copies_result=True, faults=THROUGH_FACTORS)
def pinv(x: torch.Tensor, rcond: Any, hermitian: bool) -> torch.Tensor:
    """``torch.linalg.pinv``; the tolerance may be a tensor of one element."""
    if hasattr(rcond, "item"):
        if rcond.size != 1:
            raise NotImplementedError("several tolerances")
        rcond = rcond.item()
    return torch.linalg.pinv(x, rtol=float(rcond), hermitian=bool(hermitian))


@_whole("cholesky_inverse", "x upper=False")
def cholesky_inverse(x: torch.Tensor, upper: bool) -> torch.Tensor:
    """``torch.cholesky_inverse``, which reads a triangle alone."""
    if not torch.equal(x, x.triu() if upper else x.tril()):
        raise NotImplementedError("a factor that is not triangular")
    return torch.cholesky_inverse(x, upper)


_OVERWRITES = "Paddle writes ones into x on its way, and then refuses its backward"


householder_product = _whole("householder_product", "x tau", tensors=2, overwrites=("x",), note=_OVERWRITES)(
    torch.linalg.householder_product
)


@_whole("ormqr", "x tau y left=True transpose=False", overwrites=("x",), note=_OVERWRITES)
def ormqr(x: torch.Tensor, tau: torch.Tensor, y: torch.Tensor, left: bool, transpose: bool) -> torch.Tensor:
    """``torch.ormqr``; of a matrix that is not square Paddle takes as many columns as it has."""
    if x.shape[-2] != x.shape[-1]:
        raise NotImplementedError("a product with some of the columns")
    return torch.ormqr(x, tau, y, left, transpose)
