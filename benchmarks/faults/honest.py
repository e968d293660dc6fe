"""Honest kernels at the edges: every op of the table, in every dtype, on few elements and on awkward values.

Both frameworks' kernels and the same formula in wider precision, rounded at the end, are all honest: none of them may get a hard
verdict or be called inaccurate, but for what ``padiff_shim.patches._quirks`` knows of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import paddle
import torch

from padiff_shim.catalogue import known_differences
from padiff_shim.catalogue.registry import ops
from padiff_shim.numerics.precision import KINDS
from padiff_shim.verdicts import HARD, Judgement, Verdict

from .kernels import paddle_kernel, torch_kernel
from .problems import TORCH, Problem, params
from .score import defect, verdict_of

DTYPES = ("float16", "bfloat16", "float32", "float64")
SIZES = (1, 2, 3, 7, 64, 1000)
ALARMS = (HARD - {Verdict.NONFINITE}) | {Verdict.LOW_ACCURACY}
LONG = 64  # a sum of so many terms may be much worse than one in float64, which is what LOW_ACCURACY says: see _in_order
VERSIONS = {"paddle": paddle.__version__, "torch": torch.__version__}

Draw = Callable[[np.random.Generator, tuple[int, ...], torch.dtype], np.ndarray]


def _huge(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray:
    return KINDS[dtype].format.largest * rng.uniform(0.01, 0.9, shape) * rng.choice((-1.0, 1.0), shape)


def _alternating(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray:
    """Neighbours cancel but for a few last bits."""
    values = rng.uniform(0.5, 2.0, shape)
    flat = values.reshape(-1)
    even = flat.size // 2 * 2
    flat[1:even:2] = -flat[0:even:2] * (1 + 4 * KINDS[dtype].format.unit * rng.standard_normal(even // 2))
    return values


def _masked(rng: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> np.ndarray:
    values = rng.standard_normal(shape)
    return np.where(rng.random(shape) < 0.3, rng.choice((-30.0, -1e4, -np.inf), shape), values)


VALUES: dict[str, Draw] = {
    "normal": lambda rng, shape, dtype: rng.standard_normal(shape),
    "positive": lambda rng, shape, dtype: rng.uniform(0.5, 2.0, shape),
    "mixed scales": lambda rng, shape, dtype: rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3, shape),
    "integers": lambda rng, shape, dtype: rng.integers(-4, 5, shape).astype(float),
    "saturated": lambda rng, shape, dtype: rng.uniform(4, 9.2, shape) * rng.choice((-1.0, 1.0), shape),
    "near one": lambda rng, shape, dtype: 1 + 8 * KINDS[dtype].format.unit * rng.integers(-8, 9, shape),
    "alternating": _alternating,
    "offset": lambda rng, shape, dtype: 100 + rng.standard_normal(shape),
    "constant": lambda rng, shape, dtype: np.full(shape, rng.uniform(0.1, 3.0)),
    "subnormal": lambda rng, shape, dtype: KINDS[dtype].tiny * rng.uniform(-2, 2, shape),
    "small": lambda rng, shape, dtype: KINDS[dtype].tiny ** 0.5 * rng.standard_normal(shape),
    "huge": _huge,
    "large": lambda rng, shape, dtype: KINDS[dtype].format.largest ** 0.5 * rng.standard_normal(shape),
    "masked": _masked,
}  # fmt: skip
# Such masks are for exponentials alone: elsewhere they are but more infinities.
EXPONENTIAL = ("softmax", "logsumexp", "exp", "tanh", "gelu")


@dataclass(frozen=True)
class Case:
    """One call's shapes (by parameter name, for some size n) and its numbers."""

    op: str
    shapes: Mapping[str, tuple[int, ...]]
    others: Mapping[str, Any]


def _unary(op: str, n: int, others: tuple[dict[str, Any], ...] = ({},)) -> Iterator[Case]:
    for shape in ((n,), (), (3, n))[: 3 if n == 1 else 1]:
        for other in others:
            yield Case(op, {"x": shape}, other)


def _binary(op: str, n: int, numbers: tuple[float, ...]) -> Iterator[Case]:
    for x, y in (((n,), (n,)), ((3, n), (n,)), ((n,), ()), ((3, 1), (1, n))):
        yield Case(op, {"x": x, "y": y}, {})
        yield Case(op, {"x": y, "y": x}, {})
    for number in numbers:
        yield Case(op, {"x": (n,)}, {"y": number})
        if op in ("divide", "subtract"):
            yield Case(op, {"y": (n,)}, {"x": number})


def _products(n: int) -> Iterator[Case]:
    for rows, columns, inner in ((1, 1, n), (3, 2, n), (n, 2, 3)):
        yield Case("matmul", {"x": (rows, inner), "y": (inner, columns)}, {})
        yield Case("linear", {"x": (rows, inner), "weight": (columns, inner), "bias": (columns,)}, {})
        yield Case("linear", {"x": (rows, inner), "weight": (columns, inner)}, {"bias": None})
        for beta, alpha in ((1.0, 1.0), (0.1, 1.0), (1.0, 0.1), (0.5, -2.3)):
            shapes = {"input": (rows, columns), "x": (rows, inner), "y": (inner, columns)}
            yield Case("addmm", shapes, {"beta": beta, "alpha": alpha})
        shapes = {"input": (2, rows, columns), "x": (2, rows, inner), "y": (2, inner, columns)}
        yield Case("baddbmm", shapes, {"beta": 0.1, "alpha": 0.7})
        yield Case("bmm", {"x": (2, rows, inner), "y": (2, inner, columns)}, {})
        yield Case("mv", {"x": (rows, inner), "vec": (inner,)}, {})
    yield Case("dot", {"x": (n,), "y": (n,)}, {})
    yield Case("dot", {"x": (3, n), "y": (3, n)}, {})


def _rows(n: int) -> Iterator[Case]:
    for op in ("sum", "mean", "logsumexp"):
        yield Case(op, {"x": (n,)}, {"axis": None})
        yield Case(op, {"x": (3, n)}, {"axis": -1})
        yield Case(op, {"x": (n, 3)}, {"axis": 0, "keepdim": True})
    for shape, axis in (((n,), -1), ((3, n), -1), ((n, 3), 0)):
        yield Case("softmax", {"x": shape}, {"axis": axis})
    for epsilon in (1e-5, 1e-12):
        attrs = {"epsilon": epsilon, "begin_norm_axis": 1}
        yield Case("layer_norm", {"x": (3, n), "scale": (n,), "bias": (n,)}, attrs)
        yield Case("layer_norm", {"x": (n, 4)}, attrs)


def cases(n: int) -> Iterator[Case]:
    """Every op at the size ``n``."""
    yield from _products(n)
    yield from _rows(n)
    for op in ("relu", "tanh", "exp", "sqrt", "rsqrt", "square"):
        yield from _unary(op, n)
    yield from _unary("gelu", n, ({"approximate": False}, {"approximate": True}))
    numbers = ((-2.3, 0.9), (0.1, 0.0), (-1.0, 0.0), (1e3, -0.7))
    yield from _unary("scale", n, tuple({"scale": s, "bias": b, "bias_after_scale": a} for s, b in numbers for a in (True, False)))
    for op in ("add", "subtract", "multiply", "divide"):
        yield from _binary(op, n, (0.3, -7.1))
    yield from _binary("pow", n, (2.0, 0.5, -1.5, 3.3))


def problem(case: Case, data: str, dtype: str, rng: np.random.Generator) -> Problem | None:
    """The call with operands drawn from ``data``; None where the op has no such values."""
    op, kind = ops()[case.op], TORCH[dtype]
    if data == "masked" and case.op not in EXPONENTIAL:
        return None
    attributes: dict[str, Any] = {}
    for name, default in params(case.op):
        shape = case.shapes.get(name)
        if shape is None:
            attributes[name] = case.others.get(name, default)
            continue
        values = VALUES[data](rng, shape, kind)
        if name in ("bias", "scale", "weight") and rng.random() < 0.5:
            values = VALUES["positive"](rng, shape, kind)
        if any(sample.positive for sample in op.samples):
            values = np.abs(values)
            if case.op in ("divide", "rsqrt", "pow"):
                values = np.where(values == 0, 1.0, values)
        attributes[name] = torch.from_numpy(np.asarray(values)).to(kind)
    return Problem(case.op, attributes, data=data)


def problems(dtype: str, n: int, rng: np.random.Generator, share: float = 1.0) -> Iterator[Problem]:
    """The result and every gradient of every case (of a random ``share``), for a normal incoming gradient or one of ones."""
    for case in cases(n):
        for data in VALUES:
            drawn = problem(case, data, dtype, rng) if rng.random() < share else None
            if drawn is None:
                continue
            yield drawn
            shape = torch_kernel(drawn).shape
            grad = torch.from_numpy(rng.standard_normal(tuple(shape)) if rng.random() < 0.7 else np.ones(tuple(shape)))
            for name in case.shapes:
                yield replace(drawn, wanted=name, grad=grad.to(TORCH[dtype]))


def wide_kernel(problem: Problem) -> torch.Tensor:
    """The reference in float64, rounded once at the end."""
    kind = TORCH[problem.dtype]
    wide = problem.each(lambda t: t.double(), (*problem.values, "grad"))
    return torch_kernel(wide).to(kind)


def native_kernel(problem: Problem) -> torch.Tensor | None:
    """Paddle's kernel, or None where it has none for this dtype."""
    if defect(problem) is not None:
        return None
    try:
        return paddle_kernel(problem)
    except (RuntimeError, ValueError, TypeError):
        return None


def known(problem: Problem, judged: Judgement) -> bool:
    """Whether the shipped table of known differences has it, or equal terms rounded alike, beyond the sqrt(k) model."""
    if judged.verdict is Verdict.LOW_ACCURACY and problem.data == "constant":
        worst = judged.stats[judged.side.value if judged.side.value in ("paddle", "torch") else "paddle"]
        return bool(worst["prob"] > 1 >= worst["det"])
    wanted = problem.wanted
    record = {
        "op": problem.op,
        "verdict": judged.verdict.value,
        "side": judged.side.value,
        "hypothesis": judged.hypothesis,
        "phase": "forward" if wanted == "out" else "backward",
        "tensor": wanted if wanted == "out" else f"grad:{wanted}",
        "dtype": problem.dtype,
        "stats": judged.stats,
    }
    return known_differences.find(record, VERSIONS) is not None


def _in_order(judged: Judgement) -> bool:
    """Whether the worse side is off by no more than sums taken term by term: sqrt(k) unit roundoffs (Higham 2002, section 2.8).

    There are machines whose products of narrow matrices are such sums (Paddle's on an AMD EPYC), beside which another order is
    much better.
    """
    worse = max(judged.stats[side]["rho_max"] for side in ("paddle", "torch"))
    return bool(worse <= math.sqrt(judged.stats["k"]))


def alarms(problem: Problem, seed: int) -> Iterator[tuple[str, Judgement]]:
    """The false alarms of one problem: the pair of kernels, and what was said of it."""
    theirs = torch_kernel(problem)
    for name, kernel in (("paddle", native_kernel), ("wide", wide_kernel)):
        mine = kernel(problem)
        if mine is None or mine.dtype != theirs.dtype:
            continue
        judged = verdict_of(problem, mine, theirs, seed, audit=True)
        if judged.verdict is Verdict.LOW_ACCURACY and judged.stats["k"] >= LONG and (name == "wide" or _in_order(judged)):
            continue
        if judged.verdict in ALARMS and not known(problem, judged):
            yield name, judged
