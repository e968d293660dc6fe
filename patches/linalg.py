"""Matrix products: ``paddle.matmul`` and everything that reaches it or its relatives."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from padiff_shim.numerics import models
from padiff_shim.table.op import Sample, c_op, op, operator

from ._declarations import alike, with_axes

MATRICES = (
    Sample((4, 6), (6, 3)),
    Sample((2, 4, 6), (6, 3)),
    Sample((2, 1, 4, 6), (3, 6, 5)),
    Sample((6,), (6,)),
    Sample((6,), (2, 6, 3)),
    Sample((2, 4, 6), (6,)),
    Sample((0, 4), (4, 3)),
    Sample((2, 0), (0, 3)),
    Sample((4, 6), (4, 3), transpose_x=True),
    Sample((2, 4, 6), (2, 3, 6), transpose_y=True),
    Sample((6, 4), (3, 6), transpose_x=True, transpose_y=True),
)


@op(
    "x|input y|other transpose_x=False transpose_y=False",
    more_entries=(operator("matmul"), operator("rmatmul", "y x")),
    legacy="matmul_v2: x y transpose_x|trans_x=False transpose_y|trans_y=False",
    model=models.Matmul(),
    samples=MATRICES,
    refusals=(Sample((4, 6), (5, 3)),),
)
def matmul(x: torch.Tensor, y: torch.Tensor, transpose_x: bool, transpose_y: bool) -> torch.Tensor:
    """``torch.matmul`` with Paddle's transpose flags as views (a 1-D operand is not transposed)."""
    return torch.matmul(x.mT if transpose_x and x.ndim > 1 else x, y.mT if transpose_y and y.ndim > 1 else y)


bmm = op(
    "x|input y|mat2",
    tensors=2,
    legacy=True,
    model=models.Matmul(),
    samples=(Sample((2, 4, 6), (2, 6, 3)), Sample((1, 1, 5), (1, 5, 1)), Sample((3, 0, 4), (3, 4, 2))),
)(torch.bmm)
mv = op(
    "x|input vec",
    tensors=2,
    legacy=True,
    model=models.MatrixVector(),
    samples=(Sample((4, 6), (6,)), Sample((1, 1), (1,))),
)(torch.mv)


@op("x|input y|tensor", legacy=True, model=models.Dot(), samples=(Sample((7,), (7,)), Sample((3, 5), (3, 5))))
def dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Inner product of vectors, or row by row of two matrices."""
    with_axes(x, y)
    alike(x, y)
    return torch.dot(x, y) if x.ndim == 1 else torch.linalg.vecdot(x, y)


@op(
    "input x y beta=1.0 alpha=1.0",
    inplace=True,
    legacy="addmm: input x y beta|Beta=1.0 alpha|Alpha=1.0",
    model=models.Addmm(),
    samples=(Sample((4, 3), (4, 6), (6, 3)), Sample((4, 3), (4, 6), (6, 3), beta=0.5, alpha=2.0)),
)
def addmm(input: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    """beta * input + alpha * x @ y."""
    with_axes(input)
    return torch.addmm(input, x, y, beta=beta, alpha=alpha)


@op(
    "input x y beta=1.0 alpha=1.0",
    inplace=True,
    legacy="baddbmm: input x y beta|Beta=1.0 alpha|Alpha=1.0",
    model=models.Addmm(),
    samples=(Sample((2, 4, 3), (2, 4, 6), (2, 6, 3), beta=0.5, alpha=2.0),),
)
def baddbmm(input: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: float, alpha: float) -> torch.Tensor:
    """beta * input + alpha * x @ y, batched."""
    with_axes(input)
    return torch.baddbmm(input, x, y, beta=beta, alpha=alpha)


@op(
    "operands equation",
    operands=True,
    c=False,
    more_entries=(c_op("einsum", "operands equation", returns_list=True),),
    model=models.Einsum(),
    samples=(
        Sample((3, 4), (4, 5), equation="ij,jk->ik"),
        Sample((2, 3, 4, 5), (2, 3, 6, 5), equation="bhqd,bhkd->bhqk"),
        Sample((4, 4), equation="ii->i"),
        Sample((3,), (4,), equation="i,j->ij"),
    ),
)
def einsum(operands: Sequence[torch.Tensor], equation: str) -> torch.Tensor:
    """``torch.einsum``."""
    if any(tensor.requires_grad for tensor in operands):
        # Refuses letters with two sizes: Paddle broadcasts them, but has no gradient of it
        sizes: dict[str, int] = {}
        for term, tensor in zip(equation.replace(" ", "").partition("->")[0].split(","), operands):
            before, _, after = term.partition("...")
            for letter, size in (*zip(before, tensor.shape), *zip(after, tensor.shape[tensor.ndim - len(after) :])):
                if sizes.setdefault(letter, size) != size:
                    raise ValueError("a letter with two sizes")
    return torch.einsum(equation, *operands)


@op("operands|x", operands=True, legacy=True, samples=(Sample((3, 4), (4, 5), (5, 2)),))
def multi_dot(operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """Product of a chain of matrices, in torch's order of multiplication."""
    return torch.linalg.multi_dot(list(operands))


@op(
    "x y x_num_col_dims=1 y_num_col_dims=1",
    legacy="mul: x y * x_num_col_dims=1 y_num_col_dims=1",
    samples=(Sample((2, 3, 4), (12, 5)), Sample((2, 3, 4), (2, 2, 3), x_num_col_dims=2, y_num_col_dims=2)),
)
def matmul_with_flatten(x: torch.Tensor, y: torch.Tensor, x_num_col_dims: int, y_num_col_dims: int) -> torch.Tensor:
    """``torch.matmul`` of two tensors that count as matrices: so many leading axes are one, and so are the others."""
    rows, columns = x.shape[:x_num_col_dims], y.shape[y_num_col_dims:]
    return torch.matmul(x.flatten(0, x_num_col_dims - 1).flatten(1), y.flatten(0, y_num_col_dims - 1).flatten(1)).reshape(
        *rows, *columns
    )
