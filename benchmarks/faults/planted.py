"""The faults. Each is planted by running a kernel on changed operands, by changing its result, or by another formula.

A plant is a function ``(kernel, problem, rng) -> array or None`` (None: does not apply). The same plant runs with a real kernel,
giving the faulty result in the working precision, and with the oracle as its kernel, giving what the fault moves without rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .kernels import paddle_kernel, torch_kernel
from .problems import TORCH, Problem
from .truth import PRODUCTS, high, truth

Plant = Callable[["Kernel", Problem, np.random.Generator], "np.ndarray | None"]
SUMS = ("sum", "mean")


class Kernel:
    """A kernel as the plants see it: problems in, arrays out."""

    def __init__(self, side: str):
        """``side``: ``"paddle"``, ``"torch"``, or ``"oracle"``."""
        self.run = {"paddle": paddle_kernel, "torch": torch_kernel, "oracle": lambda problem: truth(problem)[0]}[side]
        self.exact = side == "oracle"

    def __call__(self, problem: Problem) -> np.ndarray:
        """The result; the caller may write into it."""
        result = self.run(problem)
        return np.array(result.numpy() if isinstance(result, torch.Tensor) else result)

    def arrays(self, problem: Problem) -> dict[str, Any]:
        """The operands for a formula written out in :mod:`.formulas`, in the kernel's precision."""
        if self.exact:
            return high(problem)
        values = {**problem.values, "g": problem.grad}
        return {n: v.numpy() if isinstance(v, torch.Tensor) else v for n, v in values.items()}


@dataclass(frozen=True)
class Fault:
    """``kind``: precision, arithmetic (no exact value to compare with), semantics, element, or unlisted (no name is expected).

    ``rare``: applies to few problems; such a fault is planted wherever it does.
    """

    name: str
    kind: str
    plant: Plant
    rare: bool = False


def tf32(x: torch.Tensor) -> torch.Tensor:
    """float32 rounded to 10 bits of fraction, ties to even."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def tf32_truncated(x: torch.Tensor) -> torch.Tensor:
    """float32 cut to 10 bits of fraction."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def through(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Rounded to ``dtype`` and back."""
    return lambda x: x.to(dtype).to(x.dtype)


def rounded_inputs(change: Callable[[torch.Tensor], torch.Tensor], dtypes: tuple[str, ...], only: tuple[str, ...] = ()) -> Plant:
    """The kernel's factors pass through ``change`` (a bias or an addend does not)."""

    def plant(kernel: Kernel, problem: Problem, rng: np.random.Generator) -> np.ndarray | None:
        if problem.dtype not in dtypes or (only and problem.op not in only) or problem.op == "relu":
            return None
        if problem.op in ("layer_norm", "gelu", "softmax", "logsumexp") and problem.wanted != "out":
            return None  # their backward reads saved statistics, which a rounding of x alone would not describe
        return kernel(problem.each(change, ("x", "y", "weight", "grad")))

    return plant


def rounded_output(dtype: torch.dtype, dtypes: tuple[str, ...] = ("float32", "float64")) -> Plant:
    """The result is stored in ``dtype``."""

    def plant(kernel: Kernel, problem: Problem, rng: np.random.Generator) -> np.ndarray | None:
        if problem.dtype not in dtypes:
            return None
        result = kernel(problem)
        with np.errstate(over="ignore"):
            return torch.from_numpy(result.astype(np.float64)).to(dtype).double().numpy().astype(result.dtype)

    return plant


def on(ops: tuple[str, ...], change: Callable[[Problem, dict[str, Any]], Problem | None], wanted: tuple[str, ...] = ()) -> Plant:
    """The kernel runs on the problem that ``change(problem, values)`` makes of it."""

    def plant(kernel: Kernel, problem: Problem, rng: np.random.Generator) -> np.ndarray | None:
        if problem.op not in ops or (wanted and problem.wanted not in wanted):
            return None
        changed = change(problem, dict(problem.values))
        return None if changed is None else kernel(changed)

    return plant


def scalar_float32(problem: Problem, v: dict[str, Any]) -> Problem | None:
    """Python numbers rounded to float32 in a float64 op."""
    names = [n for n in ("x", "y", "scale", "bias", "alpha", "beta") if isinstance(v.get(n), float)]
    if problem.dtype != "float64" or not names:
        return None
    return problem.change(**{n: float(np.float32(v[n])) for n in names})


def epsilon(value: float) -> Plant:
    """Layer norm with another epsilon."""
    return on(("layer_norm",), lambda p, v: None if v["epsilon"] == value else p.change(epsilon=value), ("out", "x", "scale"))


def epsilon_float32(problem: Problem, v: dict[str, Any]) -> Problem | None:
    """The epsilon of a float64 layer norm rounded to float32."""
    return problem.change(epsilon=float(np.float32(v["epsilon"]))) if problem.dtype == "float64" else None


def put(problem: Problem, name: str, where: Any, value: float) -> Problem:
    """The problem with ``value`` written into a part of one operand."""
    tensor = problem.values[name].clone()
    tensor[where] = value
    return problem.change(**{name: tensor})


def dropped(where: Callable[[int], slice]) -> Plant:
    """Part of the summed axis left out: ``where(k)`` is what the sum does not see."""

    def change(problem: Problem, v: dict[str, Any]) -> Problem | None:
        x = v["x"]
        if problem.op == "linear":
            return put(problem, "x", (..., where(x.shape[-1])), 0.0) if problem.wanted == "out" else drop_rows(problem)
        if problem.op in PRODUCTS:
            axis = -2 if v.get("transpose_x") else -1
            return put(problem, "x", (..., where(x.shape[axis]), *[slice(None)] * (-1 - axis)), 0.0)
        if not isinstance(v["axis"], int):
            return None
        index = [slice(None)] * x.ndim
        index[v["axis"]] = where(x.shape[v["axis"]])
        return put(problem, "x", tuple(index), float("-inf") if problem.op == "logsumexp" else 0.0)

    def drop_rows(problem: Problem) -> Problem | None:
        if problem.wanted == "x":
            return put(problem, "weight", where(len(problem.values["weight"])), 0.0)
        grad = problem.grad.clone()
        grad.reshape(-1, grad.shape[-1])[where(grad.numel() // grad.shape[-1])] = 0.0
        return problem.change(grad=grad)

    ops = ("linear", "matmul", "bmm", "addmm", "baddbmm", *SUMS, "logsumexp")
    plant = on(ops, change)
    return lambda kernel, p, rng: plant(kernel, p, rng) if p.wanted == "out" or p.op == "linear" else None


def other_axis(problem: Problem, v: dict[str, Any]) -> Problem | None:
    """The reduction runs over another axis of the same length."""
    axis, x = v["axis"], v["x"]
    if not isinstance(axis, int) or v.get("keepdim"):
        return None  # with keepdim the result would have another shape
    axis %= x.ndim
    twins = [a for a in range(x.ndim) if a != axis and x.shape[a] == x.shape[axis]]
    return problem.change(axis=twins[-1]) if twins else None


def result(change: Callable[[np.ndarray, Problem, np.random.Generator], np.ndarray | None]) -> Plant:
    """The kernel's result, changed afterwards."""
    return lambda kernel, problem, rng: change(kernel(problem), problem, rng)


def one_element(factor: float, dtypes: tuple[str, ...]) -> Plant:
    """A single element of the result times ``1 + factor``."""

    def change(result: np.ndarray, problem: Problem, rng: np.random.Generator) -> np.ndarray | None:
        if problem.dtype not in dtypes:
            return None
        where = np.unravel_index(int(rng.integers(result.size)), result.shape)
        result[where] = result[where] * (1 + result.dtype.type(factor))
        return result

    return result(change)


def bit_flip(result: np.ndarray, problem: Problem, rng: np.random.Generator) -> np.ndarray | None:
    """One bit of the fraction of one element inverted; the oracle's element moves by that bit's weight."""
    where = np.unravel_index(int(rng.integers(result.size)), result.shape)
    bits = 23 if problem.dtype == "float32" else 52
    weight = 2.0 ** -int(rng.integers(1, bits - 4))
    value = abs(float(result[where]))
    if not 0 < value < np.inf:
        return None
    step = weight * 2.0 ** np.floor(np.log2(value))
    is_set = np.floor(value / step) % 2 == 1
    result[where] += result.dtype.type(-step if is_set else step) * np.sign(result[where])
    return result


def formula(ops: tuple[str, ...], function: Callable[..., Any], dtypes: tuple[str, ...] = ("float32", "float64")) -> Plant:
    """The forward result by another formula, in the kernel's precision."""

    def plant(kernel: Kernel, problem: Problem, rng: np.random.Generator) -> np.ndarray | None:
        if problem.op not in ops or problem.wanted != "out" or problem.dtype not in dtypes:
            return None
        return function(kernel.arrays(problem), problem.op)

    return plant


def float32_arithmetic(kernel: Kernel, problem: Problem, rng: np.random.Generator) -> np.ndarray | None:
    """A float64 call computed in float32 throughout."""
    if problem.dtype != "float64" or kernel.exact:
        return None
    names = tuple(n for n, v in problem.values.items() if isinstance(v, torch.Tensor))
    return kernel(problem.each(lambda x: x.to(TORCH["float32"]), (*names, "grad"))).astype(np.float64)
