"""How far rounding alone can take a program's values: measured in the program itself, never set.

The program runs in reference mode again, with more rounding errors at each of Torch's kernels: each element of a result is off by a
unit roundoff, and of a kernel that is no function of single elements the operands are, each by one of its largest element. (That is
what a stable kernel may do: its result is the rounded one of such operands.) What a value moves by in some of these runs, times
``SLACK``, is what rounding explains; where they turn a decision over (the order of two elements, an integer that was cut out), it
decides nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from padiff_shim.frameworks.torch_state import LooksOn
from padiff_shim.proof.agreement import SLACK
from padiff_shim.proof.trace import is_passive

from .execute import Outcome, Plan, run, same

SAMPLES = 4
FLOOR = 8.0  # unit roundoffs of a tensor's largest element: no run is needed for so little
ROUNDOFF = {name: float(torch.finfo(getattr(torch, name)).eps) for name in ("float64", "float32", "float16", "bfloat16")}
ROUNDOFF |= {"complex64": ROUNDOFF["float32"], "complex128": ROUNDOFF["float64"]}


class Noise(LooksOn):
    """Within it each of Torch's kernels makes one rounding error more."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        writes = function._schema.is_mutable
        if is_passive(function):
            return function(*args, **kwargs)
        if torch.Tag.pointwise not in function.tags and not writes:
            args, kwargs = tree_map(self._disturbed, args), tree_map(self._disturbed, kwargs)
        result = function(*args, **kwargs)
        if not writes:
            return tree_map(self._rounded, result)
        tree_map(lambda part: part.copy_(self._rounded(part)) if isinstance(part, torch.Tensor) else part, args[:1])
        return result

    def _factors(self, tensor: torch.Tensor) -> torch.Tensor:
        made = torch.rand(tensor.shape, dtype=torch.float64, generator=self._generator)
        return made.sub_(0.5).mul_(2.0 * ROUNDOFF[str(tensor.dtype).rpartition(".")[2]])

    def _rounded(self, part: Any) -> Any:
        """Each element off by at most a unit roundoff."""
        if not _takes_noise(part):
            return part
        return (part * (1.0 + self._factors(part)).to(part.real.dtype)).to(part.dtype)

    def _disturbed(self, part: Any) -> Any:
        """Each element off by at most a unit roundoff of the largest."""
        if not _takes_noise(part) or not part.numel():
            return part
        largest = part.abs().nan_to_num(0.0, 0.0, 0.0).max()  # of the numbers among NaN and infinities
        return (part + (self._factors(part) * largest).to(part.real.dtype)).to(part.dtype)


def _takes_noise(part: Any) -> bool:
    dtype = str(part.dtype).rpartition(".")[2] if isinstance(part, torch.Tensor) else ""
    return dtype in ROUNDOFF and not part._is_zerotensor()


class Rounding:
    """Says which differences of a program rounding explains; ``plan``: the mode whose values these are."""

    def __init__(self, lines: list[str], plan: Plan, plain: Outcome) -> None:
        self._lines, self._plan, self._plain = lines, plan, plain
        self._samples: list[Outcome] | None = None

    def samples(self) -> Iterator[Outcome]:
        """The runs with more rounding, made when they are first needed."""
        if self._samples is None:
            self._samples = []
            for seed in range(SAMPLES):
                noise = functools.partial(Noise, torch.Generator().manual_seed(seed))
                sample = run(self._lines, self._plan, noise)
                if [error[:2] for error in sample.errors] == [error[:2] for error in self._plain.errors]:
                    self._samples.append(sample)
        return iter(self._samples)

    def __call__(self, name: str, key: str, x: Any, y: Any) -> bool:
        """Whether rounding explains two facts of a variable, the second one under the mode."""
        if not _numbers(x) or not _numbers(y) or x.shape != y.shape or x.dtype != y.dtype:
            return self._turned_over(name, key, y)
        finite = np.isfinite(x)
        if not np.array_equal(finite, np.isfinite(y)) or not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return self._turned_over(name, key, y)
        if not finite.any():
            return True
        apart, scale = float(np.abs(x - y)[finite].max()), float(np.abs(x[finite]).max())
        floor = FLOOR * self._roundoff(name, key, x) * scale
        return apart <= floor or apart <= floor + SLACK * self._moved(name, key, y)

    def _roundoff(self, name: str, key: str, x: np.ndarray) -> float:
        facts = self._plain.values[name]
        dtype = (
            str(facts.get("dtype" if key == "value" else "grad's dtype and shape", "")).removeprefix("paddle.").partition("[")[0]
        )
        return ROUNDOFF.get(dtype, ROUNDOFF[x.dtype.name])

    def _moved(self, name: str, key: str, y: np.ndarray) -> float:
        """How far the farthest element went."""
        apart = [0.0]
        for sample in self.samples():
            other = sample.values.get(name, {}).get(key)
            if not isinstance(other, np.ndarray) or other.shape != y.shape:
                return np.inf
            with np.errstate(invalid="ignore"):
                apart.append(float(np.nanmax(np.abs(other - y), initial=0.0)))
        return max(apart)

    def _turned_over(self, name: str, key: str, y: Any) -> bool:
        """Whether one of the runs decided otherwise."""
        return any(not _alike(sample.values.get(name, {}).get(key), y) for sample in self.samples())


def _numbers(fact: Any) -> bool:
    """Whether a fact is an array of numbers that have fractions."""
    return isinstance(fact, np.ndarray) and fact.dtype.kind in "fc"


def _alike(fact: Any, other: Any) -> bool:
    """Whether two facts are the same but for the finite numbers in them."""
    if not _numbers(fact) or not _numbers(other) or fact.shape != other.shape:
        return same(fact, other)
    return bool(np.array_equal(np.isfinite(fact), np.isfinite(other)))
