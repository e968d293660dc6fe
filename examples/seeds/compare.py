"""One case: the steps of a computation in Paddle and in Torch, and how far apart they are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import padiff_shim


class Steps(dict):
    """The results of a run as arrays, by step, in the order they were computed."""

    def note(self, step: Any, tensor: Any) -> Any:
        """Keep a copy of a tensor of either framework; returns the tensor, so that a call can stand in a formula."""
        if step in self:
            raise ValueError(f"step {step!r} was noted before")
        self[step] = np.array(tensor.detach().numpy())
        return tensor

    def only(self, wanted: Callable[[Any], bool]) -> Callable[[Any, Any], Any]:
        """A `note` that keeps some of the steps."""
        return lambda step, tensor: self.note(step, tensor) if wanted(step) else tensor


@dataclass(frozen=True)
class Case:
    """A computation written twice. Both sides get `Steps`, and note what the report listed."""

    paddle: Callable[[Steps], Any]
    torch: Callable[[Steps], Any]
    # Steps that need not be equal under the shim, and why: shown, but neither counted nor judged.
    aside: dict[Any, str] = field(default_factory=dict)


class Difference(NamedTuple):
    """How far an array is from Torch's."""

    mean: float
    max: float
    identical: bool  # bit for bit


class Row(NamedTuple):
    """A step of a case: Paddle natively and under the shim, both against Torch."""

    step: Any
    native: Difference
    shim: Difference
    aside: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.aside) or self.shim.identical


class Result(NamedTuple):
    """All rows of a case."""

    title: str
    rows: list[Row]
    substituted: Collection[str]  # the ops that ran on Torch kernels under the shim

    @property
    def judged(self) -> list[Row]:
        return [row for row in self.rows if not row.aside]

    @property
    def exact(self) -> int:
        """How many of the judged rows are exactly 0 under the shim."""
        return sum(row.shim.identical for row in self.judged)


def difference(ours: np.ndarray, theirs: np.ndarray) -> Difference:
    """Measure in float64, so that the measurement itself does not round float32 results."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        raise ValueError(f"not the same computation: {ours.dtype}{ours.shape} and {theirs.dtype}{theirs.shape}")
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return Difference(float(apart.mean()), float(apart.max()), ours.tobytes() == theirs.tobytes())


def steps_of(side: Callable[[Steps], Any]) -> Steps:
    """Run one side of a case."""
    steps = Steps()
    side(steps)
    return steps


def measure(title: str, case: Case) -> Result:
    """Run Torch, native Paddle, and the same Paddle code under the shim."""
    theirs = steps_of(case.torch)
    native = steps_of(case.paddle)
    with padiff_shim.reference("torch") as run:
        shim = steps_of(case.paddle)
    if not list(theirs) == list(native) == list(shim):
        raise ValueError(f"{title}: the two sides do not note the same steps")
    rows = [
        Row(step, difference(native[step], array), difference(shim[step], array), case.aside.get(step, ""))
        for step, array in theirs.items()
    ]
    return Result(title, rows, run.substituted.keys())
