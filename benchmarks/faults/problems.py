"""Problems: one op, its operands, and which of its tensors is judged; and the data they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from padiff_shim.catalogue.registry import ops
from padiff_shim.table import signature

TORCH = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Problem:
    """One judged tensor of one call.

    ``values``: the op's arguments by parameter name, as its reference takes them (a linear weight as [out, in]).
    ``wanted``: ``"out"``, or the operand whose gradient is judged; then ``grad`` is the incoming gradient.
    ``data``: the name of the distribution the operands were drawn from.
    """

    op: str
    values: Mapping[str, Any]
    wanted: str = "out"
    grad: torch.Tensor | None = None
    data: str = ""

    @property
    def dtype(self) -> str:
        """``"float32"`` or ``"float64"``."""
        return next(str(v.dtype).rpartition(".")[2] for v in self.values.values() if isinstance(v, torch.Tensor))

    @property
    def label(self) -> str:
        """For people: op, judged tensor, dtype, data, shapes."""
        shapes = " ".join("x".join(map(str, v.shape)) or "0-D" for v in self.values.values() if isinstance(v, torch.Tensor))
        others = {n: v for n, v in self.values.items() if v is not None and not isinstance(v, torch.Tensor)}
        return f"{self.op} {self.wanted} {self.dtype} {self.data} {shapes} {others}"

    def change(self, **values: Any) -> Problem:
        """The same with other arguments; ``grad=`` is the incoming gradient."""
        grad = values.pop("grad", self.grad)
        return replace(self, values={**self.values, **values}, grad=grad)

    def forward(self) -> Problem:
        """The forward call of the same operands."""
        return replace(self, wanted="out", grad=None)

    def each(self, change: Callable[[torch.Tensor], torch.Tensor], names: tuple[str, ...]) -> Problem:
        """The same with ``change`` applied to these tensors (``"grad"``: to the incoming gradient)."""
        changed = {n: change(self.values[n]) for n in names if isinstance(self.values.get(n), torch.Tensor)}
        if "grad" in names and self.grad is not None:
            changed["grad"] = change(self.grad)
        return self.change(**changed)


def params(op: str) -> tuple[tuple[str, Any], ...]:
    """(name, default) of the op's parameters, in the reference's order."""
    return tuple((names[0], default) for names, default in signature.parse(ops()[op].params))


def _tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_t(2.0, shape)


def _one_hot(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = np.zeros(shape)
    if values.ndim:
        last = values.reshape(-1, values.shape[-1])
        last[np.arange(len(last)), rng.integers(0, last.shape[1], len(last))] = 1.0
    return values


DATA: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "normal*0.02": lambda rng, shape: 0.02 * rng.standard_normal(shape),
    "normal*1e-3": lambda rng, shape: 1e-3 * rng.standard_normal(shape),
    "normal*1e3": lambda rng, shape: 1e3 * rng.standard_normal(shape),
    "offset 1e4": lambda rng, shape: 1e4 + rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.uniform(0.5, 2.0, shape),
    "heavy-tailed": _tailed,
    "mixed scales": lambda rng, shape: rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3, shape),
    "one-hot": _one_hot,
    "constant": lambda rng, shape: np.full(shape, 0.1),
    "denormal": lambda rng, shape: 1e-40 * rng.standard_normal(shape),
}


@dataclass(frozen=True)
class Shape:
    """One line of the plan: operand shapes by name, the other arguments, what is judged, which data suit.

    The sizes are typical ones: each problem has them larger or smaller by a random factor of at most 1.65, equal ones alike.
    """

    op: str
    shapes: Mapping[str, tuple[int, ...]]
    others: Mapping[str, Any] = field(default_factory=dict)
    wanted: tuple[str, ...] = ("out",)
    data: tuple[str, ...] = ("normal",)
    dtypes: tuple[str, ...] = ("float32", "float64")

    def problems(self, rng: np.random.Generator, dtypes: tuple[str, ...]) -> Iterator[Problem]:
        """Every judged tensor for every distribution and dtype, freshly drawn; the sizes vary too."""
        sizes = {n: n if n < 4 else round(n * np.exp(rng.uniform(-0.5, 0.5))) for shape in self.shapes.values() for n in shape}
        shapes = {name: tuple(sizes[n] for n in shape) for name, shape in self.shapes.items()}
        for dtype in (d for d in self.dtypes if d in dtypes):
            for data in self.data:
                if data == "denormal" and dtype == "float64":
                    continue
                arguments = {}
                for name, default in params(self.op):
                    shape = shapes.get(name)
                    arguments[name] = self.others.get(name, default) if shape is None else draw(rng, data, name, shape, dtype)
                for wanted in self.wanted:
                    problem = Problem(self.op, arguments, wanted, None, data)
                    if wanted != "out":
                        out = ops()[self.op].reference(*arguments.values())
                        problem = problem.change(grad=torch.from_numpy(rng.standard_normal(tuple(out.shape))).to(out.dtype))
                    yield problem


def draw(rng: np.random.Generator, data: str, name: str, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """One operand. Weights and biases are normal whatever the data; a layer norm's scale is near 1."""
    if name in ("bias", "scale", "weight"):
        values = (1.0 if name == "scale" else 0.0) + (0.1 if name == "weight" else 0.5) * rng.standard_normal(shape)
    else:
        values = DATA[data](rng, shape)
    return torch.from_numpy(np.asarray(values)).to(TORCH[dtype])
