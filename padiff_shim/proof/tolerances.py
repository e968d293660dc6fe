"""How far rounding travels in a program: measured, never set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, NamedTuple

import torch

from ..frameworks.torch_state import LooksOn
from .trace import Trace, Value, is_passive, numbers, tensors_in

# ---- How far a value of a float64 run may lie from another program's, for rounding alone to explain it: measured, never
# set.

SLACK = 64.0  # how many times the effect of one rounding error per call counts as rounding
FLOOR = 1e-13  # of the largest element: sums whose terms cancel keep no more digits of float64
_NARROW_FLOOR = 8.0  # the same of narrower dtypes, in their unit roundoffs
EXACT = 2.0**24  # whole numbers below are exact in float32, too
FILLED, _GAP = 1e3, 100.0  # the least size of what fills masked places, and how many times as large as all others it is


def floor_of(dtype: Any) -> float:
    """The share of the largest element that is always allowed; ``dtype``: Torch's, NumPy's, or its name. 0 of whole numbers."""
    name = str(dtype).rpartition(".")[2]
    unit = _unit(torch.empty(0, dtype=getattr(torch, name)))
    return FLOOR if name in ("float64", "complex128") else _NARROW_FLOOR * unit


class RoundingBound(NamedTuple):
    """How far elements may be apart: up to ``limit`` in size by ``usual``; larger ones, which fill masked places, by ``filled``.

    Of scores under a mask the largest element says nothing: it is the -1e9 or the smallest number of a dtype that fills them.
    """

    usual: float
    limit: float = math.inf
    filled: float = 0.0

    def holds(self, expected: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
        """Which elements are near enough, equal infinities and NaN included; ``expected``: the original's."""
        apart = (expected - actual).abs()
        near = (expected == actual) | (apart <= self.usual) | (expected.isnan() & actual.isnan())
        return near | ((expected.abs() > self.limit) & (apart <= self.filled))

    def end_alike(self, expected: Value, actual: Value) -> bool:
        """Whether by their :attr:`.trace.Value.ends` two values may be near enough; means are no nearer than what they are of."""
        mean = expected.ends[2], actual.ends[2]
        means = RoundingBound(self.usual + self.filled).least(FLOOR * mean[0])  # in another order a sum rounds otherwise
        return self.range_alike(expected, actual) and means._near(*mean)

    def range_alike(self, expected: Value, actual: Value) -> bool:
        """The same of the least and the greatest number alone."""
        return all(map(self._near, expected.ends[:2], actual.ends[:2]))

    def _near(self, expected: float, actual: float) -> bool:
        """:meth:`holds` of single numbers."""
        apart = abs(expected - actual)
        near = expected == actual or apart <= self.usual or (math.isnan(expected) and math.isnan(actual))
        return near or (abs(expected) > self.limit and apart <= self.filled)

    def least(self, usual: float) -> RoundingBound:
        """At least so much."""
        return self._replace(usual=max(self.usual, usual))


def measured(values: torch.Tensor, moved: torch.Tensor | None, unit: float = FLOOR) -> RoundingBound:
    """The tolerance of numbers of which a run with rounding errors has ``moved`` ones (None: none of that shape)."""
    if moved is not None and moved.shape != values.shape:
        moved = None
    low, high = (float(end) for end in values.aminmax()) if len(values) else (0.0, 0.0)
    if max(-low, high) < FILLED:  # nothing is as large as what fills masked places
        travelled = 0.0 if moved is None or not len(values) else float((moved - values).abs_().max())
        if math.isfinite(travelled):
            return RoundingBound(unit * max(-low, high) + SLACK * travelled)
    finite = torch.isfinite(values)
    sizes = values[finite].abs()
    limit = _limit(sizes)
    far = sizes > limit
    apart = torch.zeros_like(sizes)
    if moved is not None:
        apart = (moved[finite] - values[finite]).abs().nan_to_num(0.0, 0.0, 0.0)
    usual, filled = (unit * _most(sizes[part]) + SLACK * _most(apart[part]) for part in (~far, far))
    return RoundingBound(usual, limit, filled)


def _most(sizes: torch.Tensor) -> float:
    return float(sizes.max()) if sizes.numel() else 0.0


def _limit(sizes: torch.Tensor) -> float:
    """The largest size that is none of what fills masked places; infinite if nothing does."""
    if sizes.numel() < 2 or float(sizes.max()) < FILLED:
        return math.inf
    ordered = sizes.sort().values
    gaps = ((ordered[1:] >= FILLED) & (ordered[1:] >= _GAP * ordered[:-1])).nonzero()
    return float(ordered[gaps[0, 0]]) if len(gaps) else math.inf


class Tolerances:
    """How far a value of the original moves in a wide run if each call's result is changed by about one unit roundoff.

    Args:
        trace: of the original.
        moved: the same with these changes.
    """

    def __init__(self, trace: Trace, moved: Trace) -> None:
        self._known = {value: _tolerance(value, _twin(value, moved)) for value in trace.values()}

    def __call__(self, value: Value) -> RoundingBound:
        if value not in self._known:  # of memory that nothing was written into
            self._known[value] = _tolerance(value, None)
        return self._known[value]


def _tolerance(value: Value, twin: Value | None) -> RoundingBound:
    moved = None if twin is None or twin.tensor.shape != value.tensor.shape else numbers(twin.tensor)
    return measured(numbers(value.tensor), moved, floor_of(value.tensor.dtype))


def _twin(value: Value, moved: Trace) -> Value | None:
    """The same value in a run that was moved; None for what was there before, or if the rounding errors changed a decision."""
    node = value.node
    if node is None or node.index >= len(moved.nodes) or moved.nodes[node.index].name != node.name:
        return None
    return moved.nodes[node.index].values[node.values.index(value)]


def _unit(tensor: torch.Tensor) -> float:
    return float(torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0.0


def rounded(generator: torch.Generator) -> Any:
    """Changes a tensor's elements by up to one unit roundoff each."""

    return lambda tensor: nudged(tensor, _unit(tensor), generator)


def nudged(tensor: torch.Tensor, unit: float, generator: torch.Generator) -> None:
    """Changes a tensor's elements by up to so many parts of each, but for whole numbers.

    A count of tokens is exact, however it is computed: moved, and cut to an integer again, it would be another position.
    """
    large = tensor.numel() > 2 * _PIECE and tensor.is_contiguous()
    shape = (2 * _PIECE,) if large else tensor.shape
    noise = torch.rand(shape, dtype=torch.float64, generator=generator).sub_(0.5).mul_(2.0 * unit).add_(1.0).to(tensor.dtype)
    if not large:
        _move(tensor, noise)
        return
    flat = tensor.view(-1)  # piece by piece, which stay in a processor's cache, each by other numbers of the same noise
    begins = range(0, len(flat), _PIECE)
    offsets = torch.randint(_PIECE, (len(begins),), generator=generator).tolist()
    for begin, offset in zip(begins, offsets):
        piece = flat[begin : begin + _PIECE]
        _move(piece, noise[offset : offset + len(piece)])


_PIECE = 1 << 15  # elements


def _move(tensor: torch.Tensor, noise: torch.Tensor) -> None:
    whole = (tensor == tensor.round()) & (tensor.abs() < EXACT)
    tensor.mul_(noise.masked_fill(whole, 1.0))


# ---- One rounding error more at every call of a program: how far rounding travels in it.


class Noise(LooksOn):
    """Within it each result of ``dtype`` of Torch's kernels is changed by up to one unit roundoff; nothing is written down."""

    def __init__(self, generator: torch.Generator, dtype: str) -> None:
        super().__init__()
        self._dtype = getattr(torch, dtype)
        self._touch = rounded(generator)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not is_passive(function):
            for tensor in tensors_in(result if result is not None else args[:1]):
                if tensor.dtype is self._dtype:  # not the counters of steps
                    self._touch(tensor)
        return result


# ---- A run of the original with one rounding error more in the result of every call that computes; nothing of it is written
# down.


class Nudged(LooksOn):
    """Within it results of Torch's kernels are moved by up to one unit roundoff, the same in each run."""

    def __init__(self, names: Mapping[int, str], layer: Callable[[], str], until: CodeType | None = None) -> None:
        super().__init__()
        self._nudge = rounded(torch.Generator().manual_seed(0))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        first = next(iter(tensors_in(result)), None)
        if first is not None and first.is_floating_point() and not is_passive(function):
            self._nudge(first)
        return result
