"""Matrix products: ``paddle.matmul`` and everything that reaches it or its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from padiff_shim.numerics import models
from padiff_shim.table.op import Entry, Op, Sample, c_op, legacy, operator

MATRICES = (
    Sample(((4, 6), (6, 3))),
    Sample(((2, 4, 6), (6, 3))),
    Sample(((2, 1, 4, 6), (3, 6, 5))),
    Sample(((6,), (6,))),
    Sample(((6,), (2, 6, 3))),
    Sample(((2, 4, 6), (6,))),
    Sample(((0, 4), (4, 3))),
    Sample(((2, 0), (0, 3))),
    Sample(((4, 6), (4, 3)), {"transpose_x": True}),
    Sample(((2, 4, 6), (2, 3, 6)), {"transpose_y": True}),
    Sample(((6, 4), (3, 6)), {"transpose_x": True, "transpose_y": True}),
)


def matmul(x: torch.Tensor, y: torch.Tensor, transpose_x: bool, transpose_y: bool) -> torch.Tensor:
    """``torch.matmul`` with Paddle's transpose flags as views (a 1-D operand is not transposed)."""
    return torch.matmul(x.mT if transpose_x and x.ndim > 1 else x, y.mT if transpose_y and y.ndim > 1 else y)


def dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Inner product of vectors, or row by row of two matrices."""
    return torch.dot(x, y) if x.ndim == 1 else torch.linalg.vecdot(x, y)


def addmm(input: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    """beta * input + alpha * x @ y."""
    return torch.addmm(input, x, y, beta=beta, alpha=alpha)


def baddbmm(input: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    """beta * input + alpha * x @ y, batched."""
    return torch.baddbmm(input, x, y, beta=beta, alpha=alpha)


def einsum(operands: Sequence[torch.Tensor], equation: str) -> torch.Tensor:
    """``torch.einsum``."""
    return torch.einsum(equation, *operands)


def multi_dot(operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """Product of a chain of matrices, in torch's order of multiplication."""
    return torch.linalg.multi_dot(list(operands))


_ADD: dict[str, Any] = {"tensors": 3, "model": models.Addmm()}
_ADD_PARAMS = "input x y beta=1.0 alpha=1.0"
_LEGACY_ADD_PARAMS = "input x y beta|Beta=1.0 alpha|Alpha=1.0"


def _add_entries(name: str) -> tuple[Entry, ...]:
    """The doors of ``addmm`` and ``baddbmm``."""
    return (
        c_op(name, _ADD_PARAMS),
        c_op(f"{name}_", _ADD_PARAMS, inplace=True),
        legacy(name, _LEGACY_ADD_PARAMS, tensors=3),
        legacy(f"{name}_", _LEGACY_ADD_PARAMS, tensors=3, inplace=True),
    )


OPS = (
    Op(
        "matmul",
        "linalg",
        matmul,
        "x y transpose_x=False transpose_y=False",
        (
            c_op("matmul", "x|input y|other transpose_x=False transpose_y=False"),
            operator("matmul"),
            operator("rmatmul", "y x"),
            legacy("matmul_v2", "x y transpose_x|trans_x=False transpose_y|trans_y=False", tensors=2),
        ),
        MATRICES,
        tensors=2,
        amp=("matmul_v2", ""),
        model=models.Matmul(),
    ),
    Op(
        "bmm",
        "linalg",
        torch.bmm,
        "x y",
        (c_op("bmm", "x|input y|mat2"), legacy("bmm", "x y", tensors=2)),
        (Sample(((2, 4, 6), (2, 6, 3))), Sample(((1, 1, 5), (1, 5, 1))), Sample(((3, 0, 4), (3, 4, 2)))),
        tensors=2,
        amp=("bmm", ""),
        model=models.Matmul(),
    ),
    Op(
        "mv",
        "linalg",
        torch.mv,
        "x vec",
        (c_op("mv", "x|input vec"), legacy("mv", "x vec", tensors=2)),
        (Sample(((4, 6), (6,))), Sample(((1, 1), (1,)))),
        tensors=2,
        amp=("mv", ""),
        model=models.MatrixVector(),
    ),
    Op(
        "dot",
        "linalg",
        dot,
        "x y",
        (c_op("dot", "x|input y|tensor"), legacy("dot", "x y", tensors=2)),
        (Sample(((7,), (7,))), Sample(((3, 5), (3, 5)))),
        tensors=2,
        amp=("dot", ""),
        model=models.Dot(),
    ),
    Op(
        "addmm",
        "linalg",
        addmm,
        _ADD_PARAMS,
        _add_entries("addmm"),
        (Sample(((4, 3), (4, 6), (6, 3))), Sample(((4, 3), (4, 6), (6, 3)), {"beta": 0.5, "alpha": 2.0})),
        amp=("addmm", ""),
        **_ADD,
    ),
    Op(
        "baddbmm",
        "linalg",
        baddbmm,
        _ADD_PARAMS,
        _add_entries("baddbmm"),
        (Sample(((2, 4, 3), (2, 4, 6), (2, 6, 3)), {"beta": 0.5, "alpha": 2.0}),),
        amp=("baddbmm", ""),
        **_ADD,
    ),
    Op(
        "einsum",
        "linalg",
        einsum,
        "operands equation",
        (c_op("einsum", "operands equation", returns_list=True),),
        (
            Sample(((3, 4), (4, 5)), {"equation": "ij,jk->ik"}),
            Sample(((2, 3, 4, 5), (2, 3, 6, 5)), {"equation": "bhqd,bhkd->bhqk"}),
            Sample(((4, 4),), {"equation": "ii->i"}),
            Sample(((3,), (4,)), {"equation": "i,j->ij"}),
        ),
        operands=True,
        amp=("einsum", ""),
        model=models.Einsum(),
    ),
    Op(
        "multi_dot",
        "linalg",
        multi_dot,
        "operands",
        (c_op("multi_dot", "operands|x"), legacy("multi_dot", "operands")),
        (Sample(((3, 4), (4, 5), (5, 2))),),
        operands=True,
        amp=("multi_dot", ""),
    ),
)
