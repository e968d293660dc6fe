"""True division."""

from __future__ import annotations

import operator as python

from padiff_shim.numerics import models
from padiff_shim.table.op import Op, Sample, c_op, legacy, operator

OPS = (
    Op(
        "divide",
        "division",
        # Python's operator, because torch computes number / tensor by another formula than tensor / tensor.
        python.truediv,
        "x y",
        (
            c_op("divide", "x|input y|other"),
            c_op("divide_", "x|input y|other", inplace=True),
            operator("truediv"),
            operator("rtruediv", "y x"),
            operator("div"),
            operator("rdiv", "y x"),
            legacy("elementwise_div", "x y axis=-1", tensors=2),
        ),
        (
            Sample(((3, 4), (3, 4)), positive=True),
            Sample(((3, 4), (4,)), positive=True),
            Sample(((2, 1, 4), (3, 1)), positive=True),
            Sample(((), (3,)), positive=True),
            Sample(((0, 3), (3,)), positive=True),
        ),
        tensors=2,
        amp=("elementwise_div", "scale"),
        model=models.Divide(),
        elementwise=True,
    ),
)
