"""Which calls are tried: shapes, arguments, judged tensors and data for each op."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .problems import Problem, Shape

F32 = ("float32",)
WIDE = ("normal", "normal*1e-3", "normal*1e3", "heavy-tailed", "positive", "one-hot", "mixed scales", "denormal")
ROWS = ("normal", "normal*1e-3", "normal*1e3", "heavy-tailed", "offset 1e4", "positive", "one-hot")
SHORT = ("normal", "heavy-tailed")
POSITIVE = ("positive",)
LINEAR = ("out", "x", "weight", "bias")
NORM = ("out", "x", "scale", "bias")


def _norm(rows: tuple[int, ...], begin: int, eps: float, **options) -> Shape:
    width = int(np.prod(rows[begin:]))
    shapes = {"x": rows, "scale": (width,), "bias": (width,)}
    return Shape("layer_norm", shapes, {"epsilon": eps, "begin_norm_axis": begin}, **options)


PLAN = (
    Shape("linear", {"x": (8, 64), "weight": (32, 64), "bias": (32,)}, wanted=LINEAR, data=WIDE),
    Shape("linear", {"x": (2, 16, 256), "weight": (96, 256), "bias": (96,)}, wanted=LINEAR, data=("normal", "normal*0.02")),
    Shape("linear", {"x": (24, 128), "weight": (128, 128), "bias": (128,)}, wanted=LINEAR, data=("normal", "offset 1e4")),
    Shape("linear", {"x": (32, 768), "weight": (64, 768)}, {"bias": None}, ("out", "x", "weight"), ("normal", "positive")),
    Shape("linear", {"x": (3, 3), "weight": (2, 3), "bias": (2,)}, wanted=LINEAR, data=("normal",)),
    Shape("linear", {"x": (4, 4096), "weight": (8, 4096), "bias": (8,)}, data=("normal", "positive"), dtypes=F32),
    Shape("linear", {"x": (256, 512), "weight": (512, 512), "bias": (512,)}, data=("normal",), dtypes=F32),
    Shape("matmul", {"x": (12, 64), "y": (64, 20)}, wanted=("out", "x", "y"), data=WIDE),
    Shape("matmul", {"x": (2, 3, 16, 32), "y": (2, 3, 24, 32)}, {"transpose_y": True}, ("out", "x", "y"), SHORT),
    Shape("matmul", {"x": (4, 8, 40), "y": (40, 8)}, wanted=("out", "x", "y"), data=("normal",)),
    Shape("matmul", {"x": (300, 6), "y": (300, 8)}, {"transpose_x": True}, ("out", "x", "y"), SHORT),
    Shape("matmul", {"x": (32, 32), "y": (32, 32)}, wanted=("out", "x", "y"), data=("normal", "positive")),
    Shape("matmul", {"x": (16, 1024), "y": (1024, 16)}, data=("normal", "offset 1e4"), dtypes=F32),
    Shape("matmul", {"x": (900, 48), "y": (48, 400)}, wanted=("out", "x"), data=SHORT, dtypes=F32),
    Shape("bmm", {"x": (6, 10, 48), "y": (6, 48, 12)}, wanted=("out", "x", "y"), data=SHORT),
    Shape("addmm", {"input": (10, 12), "x": (10, 48), "y": (48, 12)}, {"beta": 0.3, "alpha": 0.7}, data=SHORT),
    Shape("baddbmm", {"input": (3, 6, 5), "x": (3, 6, 24), "y": (3, 24, 5)}, {"beta": 0.5, "alpha": 2.0}, data=SHORT),
    Shape("sum", {"x": (32, 400)}, {"axis": -1}, ("out", "x"), (*WIDE, "offset 1e4", "constant")),
    Shape("sum", {"x": (64, 64)}, {"axis": 0}, ("out", "x"), SHORT),
    Shape("sum", {"x": (5, 7, 11)}, {"axis": [0, 2], "keepdim": True}, ("out", "x"), ("normal", "positive")),
    Shape("sum", {"x": (3, 20000)}, {"axis": 1}, data=("normal", "positive", "constant"), dtypes=F32),
    Shape("mean", {"x": (32, 400)}, {"axis": -1}, ("out", "x"), (*WIDE, "offset 1e4", "constant")),
    Shape("mean", {"x": (48, 48)}, {"axis": 0}, ("out", "x"), SHORT),
    Shape("mean", {"x": (40, 50)}, {"axis": None}, ("out", "x"), SHORT),
    Shape("logsumexp", {"x": (32, 200)}, {"axis": -1}, ("out", "x"), (*ROWS, "constant")),
    Shape("logsumexp", {"x": (40, 40)}, {"axis": 0}, ("out", "x"), SHORT),
    Shape("softmax", {"x": (32, 100)}, {"axis": -1}, ("out", "x"), ("normal", "normal*1e-3", "positive", "one-hot", "constant")),
    Shape("softmax", {"x": (4, 30, 30)}, {"axis": 1}, ("out", "x"), ("normal",)),
    Shape("softmax", {"x": (2, 4, 16, 48)}, {"axis": -1}, ("out", "x"), ("normal", "positive")),
    Shape("softmax", {"x": (1500, 200)}, {"axis": -1}, ("out", "x"), ("normal", "normal*1e3"), F32),
    _norm((700, 512), 1, 1e-5, wanted=("out", "x", "scale"), data=("normal", "heavy-tailed"), dtypes=F32),
    _norm((24, 64), 1, 1e-5, wanted=NORM, data=ROWS),
    _norm((6, 8, 96), 2, 1e-12, wanted=NORM, data=("normal", "normal*1e-3", "offset 1e4")),
    _norm((16, 768), 1, 1e-6, wanted=NORM, data=("normal", "heavy-tailed")),
    Shape("layer_norm", {"x": (16, 40)}, {"epsilon": 1e-5, "begin_norm_axis": 1}, ("out", "x"), SHORT),
    Shape("add", {"x": (500, 700), "y": (700,)}, data=("normal", "mixed scales"), dtypes=F32),
    Shape("gelu", {"x": (500, 700)}, {"approximate": False}, ("out", "x"), ("normal",), F32),
    Shape("multiply", {"x": (400, 900), "y": (900,)}, wanted=("y",), data=("normal",), dtypes=F32),
    Shape("sum", {"x": (6000, 60)}, {"axis": -1}, data=("normal", "mixed scales"), dtypes=F32),
    Shape("add", {"x": (24, 40), "y": (40,)}, data=WIDE),
    Shape("subtract", {"x": (24, 40), "y": (24, 40)}, data=SHORT),
    Shape("multiply", {"x": (24, 40), "y": (40,)}, wanted=("out", "x", "y"), data=("normal", "heavy-tailed", "positive")),
    Shape("multiply", {"x": (24, 40)}, {"y": 0.3}, data=SHORT),
    Shape("divide", {"x": (24, 40), "y": (24, 1)}, wanted=("out", "x", "y"), data=("normal", "positive")),
    Shape("divide", {"x": (24, 40)}, {"y": 80**0.5}, wanted=("out", "x"), data=("normal", "normal*1e3", "heavy-tailed")),
    Shape("divide", {"y": (24, 40)}, {"x": 80**0.5}, data=POSITIVE),
    Shape("pow", {"x": (24, 40)}, {"y": 1.3}, ("out", "x"), POSITIVE),
    Shape("pow", {"x": (24, 40)}, {"y": 3.0}, ("out",), POSITIVE),
    Shape("square", {"x": (24, 40)}, wanted=("out", "x"), data=SHORT),
    Shape("scale", {"x": (24, 40)}, {"scale": 0.3, "bias": 1.7}, ("out", "x"), SHORT),
    Shape("scale", {"x": (24, 40)}, {"scale": 0.3, "bias": 1.7, "bias_after_scale": False}, data=("normal",)),
    Shape("exp", {"x": (24, 40)}, wanted=("out", "x"), data=("normal", "normal*1e-3", "heavy-tailed")),
    Shape("tanh", {"x": (24, 40)}, wanted=("out", "x"), data=("normal", "normal*1e-3", "heavy-tailed")),
    Shape("sqrt", {"x": (24, 40)}, wanted=("out", "x"), data=POSITIVE),
    Shape("rsqrt", {"x": (24, 40)}, wanted=("out", "x"), data=POSITIVE),
    Shape("relu", {"x": (24, 40)}, data=SHORT),
    Shape("gelu", {"x": (24, 40)}, {"approximate": False}, ("out", "x"), ("normal", "normal*1e-3", "heavy-tailed"), F32),
    Shape("gelu", {"x": (24, 40)}, {"approximate": True}, ("out", "x"), ("normal", "normal*1e-3", "heavy-tailed"), F32),
    Shape("gelu", {"x": (5, 8)}, {"approximate": False}, ("out", "x"), ("normal",), ("float64",)),
    Shape("gelu", {"x": (5, 8)}, {"approximate": True}, ("out", "x"), ("normal",), ("float64",)),
)


def problems(seed: int, dtypes: tuple[str, ...] = ("float32", "float64"), plan: tuple[Shape, ...] = PLAN) -> Iterator[Problem]:
    """Every problem of the plan, drawn from ``seed``."""
    rng = np.random.default_rng(seed)
    for line in plan:
        yield from line.problems(rng, dtypes)
