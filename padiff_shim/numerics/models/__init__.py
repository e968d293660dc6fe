"""The rounding models as an op's entry names them: ``Op(..., model=models.Linear())``."""

from . import pointwise
from .base import Model
from .pointwise import Add, Binary, Divide, Gelu, Multiply, Power, Scale, Subtract, Unary
from .products import Addmm, Dot, Einsum, Linear, Matmul, MatrixVector
from .reductions import LayerNorm, LogSumExp, Mean, Softmax, Sum

EXP, RELU, RSQRT = pointwise.EXP, pointwise.RELU, pointwise.RSQRT
SQRT, SQUARE, TANH = pointwise.SQRT, pointwise.SQUARE, pointwise.TANH

__all__ = [
    "EXP", "RELU", "RSQRT", "SQRT", "SQUARE", "TANH",
    "Add", "Addmm", "Binary", "Divide", "Dot", "Einsum", "Gelu", "LayerNorm", "Linear", "LogSumExp", "Matmul", "MatrixVector",
    "Mean", "Model", "Multiply", "Power", "Scale", "Softmax", "Subtract", "Sum", "Unary",
]  # fmt: skip
