"""Where a port parts from its original: one mistake after the other, each mended by the original's values before the next is sought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .capture import Capture, Forced
from .causes import Difference, explain
from .matching import Matching, guilty
from .sides import Outcome, Side
from .trace import Key, Trace, Value

MOST = 24  # mistakes that are looked for
_SLACK = 64.0  # how many times the effect of one rounding error per call counts as rounding


@dataclass
class Located:
    """What was found: the differences in the order of the port's calls.

    ``over``: they explain all that is wrong. ``apart``: how far outputs and gradients were apart in float64 before any was mended.
    """

    differences: list[Difference]
    over: bool
    apart: float


class Tolerances:
    """How far a float64 value of the original moves if each call's result is changed by about one unit roundoff."""

    def __init__(self, plain: Trace, moved: Trace) -> None:
        self._plain, self._moved = plain, moved

    def __call__(self, value: Value) -> float:
        scale = _scale(value)
        floor = 1e-13 * scale if value.tensor.dtype in (torch.float64, torch.complex128) else _unit(value.tensor) * 8 * scale
        if value.node is None:
            return floor
        twin = self._twin(value)
        return floor if twin is None else floor + _SLACK * _distance(value, twin)

    def _twin(self, value: Value) -> Value | None:
        node = value.node
        assert node is not None
        if node.index >= len(self._moved.nodes) or self._moved.nodes[node.index].name != node.name:
            return None  # the rounding errors changed a decision
        return self._moved.nodes[node.index].results[node.results.index(value)]


def _unit(tensor: torch.Tensor) -> float:
    return float(torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0.0


def _scale(value: Value) -> float:
    finite = value.sorted[torch.isfinite(value.sorted)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _distance(one: Value, other: Value) -> float:
    if one.tensor.shape != other.tensor.shape or one.tensor.is_complex():
        return 0.0
    apart = (one.tensor.detach().to(torch.float64) - other.tensor.detach().to(torch.float64)).abs()
    apart = apart[torch.isfinite(apart)]
    return float(apart.max()) if apart.numel() else 0.0


def rounded(generator: torch.Generator) -> Any:
    """Changes a tensor's elements by up to one unit roundoff each."""

    def touch(tensor: torch.Tensor) -> None:
        noise = torch.rand(tensor.shape, dtype=torch.float64, generator=generator).sub_(0.5).mul_(2.0 * _unit(tensor)).add_(1.0)
        tensor.mul_(noise.to(tensor.dtype))

    return touch


Names = Sequence[tuple[str, str]]
Array = np.ndarray[Any, Any]


def locate(theirs: Side, ours: Side, gradients: Names = ()) -> Located:
    """Run both in float64 and find what the port does otherwise. See the module's docstring.

    ``gradients``: parameters whose gradients must agree, as (name in the original, name in the port). They are looked at if the
    outputs agree: behind a wrong forward every gradient is wrong.
    """
    original = theirs.run(double=True, capturing=Capture)
    generator = torch.Generator().manual_seed(0)
    touched = theirs.run(double=True, capturing=lambda *known: Capture(*known, touch=rounded(generator)))
    assert original.capture is not None and touched.capture is not None
    tolerance = _cached(Tolerances(original.capture.trace, touched.capture.trace))
    _settle(ours)
    forced: dict[Key, Sequence[torch.Tensor]] = {}
    found: list[Difference] = []
    apart = None
    while len(found) < MOST:
        port = ours.run(double=True, capturing=lambda *known: Capture(*known, forced=forced))
        assert port.capture is not None
        apart = _apart(original, port, gradients) if apart is None else apart
        matching = Matching(original.capture.trace, port.capture.trace, tolerance)
        difference = _first_difference(matching, original, port, [])
        if difference is None and all(one.backward for one in found):
            difference = _first_difference(matching, original, port, gradients)
        if difference is None:
            return Located(found, over=True, apart=apart)
        found.append(difference)
        if difference.mend is None or difference.mend[0].key in forced:
            break
        node, wanted = difference.mend
        forced[node.key] = [tensor.detach().clone() for tensor in wanted]
    return Located(found, over=False, apart=apart or 0.0)


def _settle(side: Side) -> None:
    """Run until two runs make the same calls: what is made once (copies of weights, what a backward reads) has then been made."""
    before: list[str] = []
    for _ in range(4):
        capture = side.run(double=True, capturing=Capture).capture
        assert capture is not None
        names = [node.name for node in capture.trace.nodes]
        if names == before:
            return
        before = names


def _cached(tolerance: Tolerances) -> Any:
    known: dict[Value, float] = {}

    def cached(value: Value) -> float:
        found = known.get(value)
        if found is None:
            found = known[value] = tolerance(value)
        return found

    return cached


def _first_difference(matching: Matching, original: Outcome, port: Outcome, gradients: Names) -> Difference | None:
    assert original.capture is not None and port.capture is not None
    arrays = _paired(original, port, gradients)
    ends = [(_end(original.capture.trace, theirs), _end(port.capture.trace, ours)) for theirs, ours in arrays]
    wrong = [(mine, yours) for mine, yours in ends if mine is None or yours is None or not matching.same(mine, yours)]
    if not wrong:
        return None
    theirs = guilty([mine for mine, _ in wrong if mine], lambda value: value in matching.of_first)
    ours = guilty([yours for _, yours in wrong if yours], matching.good)
    return explain(matching, theirs, ours)


def _paired(original: Outcome, port: Outcome, gradients: Names) -> list[tuple[Array, Array]]:
    """Outputs and gradients of both."""
    known = [(their, our) for their, our in gradients if their in original.gradients and our in port.gradients]
    return [
        *zip(_floats(original.outputs), _floats(port.outputs)),
        *((original.gradients[their], port.gradients[our]) for their, our in known),
    ]


def _apart(original: Outcome, port: Outcome, gradients: Names) -> float:
    """The largest difference, whatever the layout."""
    found = [0.0]
    for one, other in _paired(original, port, gradients):
        if one.size == other.size and one.size:
            mine, yours = (one, other) if one.shape == other.shape else (np.sort(one, None), np.sort(other, None))
            found.append(float(np.nan_to_num(np.abs(mine - yours), nan=0.0).max()))
    return max(found)


def _floats(outputs: dict[str, Array]) -> list[Array]:
    return [array for array in outputs.values() if np.issubdtype(array.dtype, np.inexact)]


def _end(trace: Trace, array: Array) -> Value | None:
    """The last value of a trace that holds an output's numbers."""
    wanted = torch.from_numpy(np.ascontiguousarray(array)).to(torch.float64)
    for node in reversed(trace.nodes):
        for value in node.results:
            if value.tensor.numel() == wanted.numel() and not value.tensor.is_complex():
                held = value.tensor.detach().to(torch.float64)
                if torch.equal(held.reshape(-1), wanted.reshape(-1)) or torch.equal(value.sorted, wanted.reshape(-1).sort().values):
                    return value
    return None
