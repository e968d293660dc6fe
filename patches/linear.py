"""The affine layer, as ``torch.nn.Linear`` computes it."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from padiff_shim.numerics import models
from padiff_shim.table.op import Sample, c_op, function, op


@op(
    "x|input weight bias=None transpose_weight=False",
    c=False,
    # The function itself: on a CUDA wheel it reaches linear_v2 or plain matmul, where its meaning is lost.
    more_entries=(
        function("paddle.nn.functional.linear", "x|input weight bias=None"),
        c_op("linear", "x weight bias=None"),
        c_op("linear_v2", "x|input weight bias=None transpose_weight=False"),
    ),
    legacy="linear_v2: x weight bias transpose_weight=False",
    amp="matmul_v2",
    promote="alike",  # natively the product is one of its own operands' dtype, to which a bias of another is added
    layouts={"weight": "transposed"},
    model=models.Linear(),
    samples=(
        Sample((5, 7), (7, 3), (3,)),
        Sample((5, 7), (7, 3), None),
        Sample((2, 4, 6), (6, 3), (3,)),
        Sample((6,), (6, 3), (3,)),
        Sample((1, 8), (8, 2), (2,)),
        Sample((0, 8), (8, 2), (2,)),
    ),
)
def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, transpose_weight: bool) -> torch.Tensor:
    """``x @ weight.T + bias`` by ``torch.nn.functional.linear``; ``weight`` arrives as [out, in] (frameworks/weight_copies.py)."""
    if transpose_weight:  # Paddle's accuracy-compatible CUDA path passes [out, in] itself: not this op's convention
        raise NotImplementedError("linear_v2 with a transposed weight")
    return F.linear(x, weight, bias)
