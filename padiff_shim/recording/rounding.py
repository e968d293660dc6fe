"""How far rounding explains what differs between two runs: where it begins, and how calls amplify what they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..measure.distance import coarser
from ..runlog.events import CLIPPED, IN_STEP
from .difference import TensorRow
from .tensors import Tensor

_UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
_OWN = 8.0  # units of roundoff, times the root of how many numbers a call sums: what its own rounding makes
_SUMMED = 4096  # where that is not known: of a layer, or of a backward
_AMPLIFIED = 100.0  # what a call makes of a difference that it reads; beyond, something else is the reason
_ONE_SIDED = 0.5  # of a difference that lies along the tensor, as that of a factor does, and rounding's does not
_FEW = 16  # elements of which that says nothing
_GRADIENTS = frozenset({"gradient", IN_STEP, CLIPPED})


@dataclass
class Rounding:
    """What rounding explains.

    Attributes:
        begins: the largest relative difference that calls make of equal operands.
        amplification: the largest factor between what a call makes and what it reads.
        largest: the largest relative difference that it explains.
        rest: the first row that rounding does not explain; None where it explains all.
        incoming: the relative difference of what that row's call reads; 0 where nothing before it differs.
        rows: those that it explains, by identity.
    """

    begins: float = 0.0
    amplification: float = 1.0
    largest: float = 0.0
    rest: TensorRow | None = None
    incoming: float = 0.0
    rows: set[int] = field(default_factory=set)


def explained(rows: Sequence[TensorRow], same_update: Callable[[TensorRow, set[int]], bool]) -> Rounding:
    """Follow rounding along a run.

    Args:
        rows: of the difference, in the order of the runs.
        same_update: whether both runs update a parameter by one rule, each by its own gradient; with the rows explained so far.
    """
    rounding, flow = Rounding(), _Flow()
    for row in rows:
        if row.a is None or row.b is None or row.apart is None:
            if row.differs:
                rounding.rest = row
                return rounding
            continue
        incoming, size = flow.incoming(row.a, row.b), row.apart.relative
        if row.differs:
            unit = _UNITS.get(coarser(row.a.dtype, row.b.dtype), math.nan)
            own = size <= _OWN * unit * math.sqrt(_summed(row.a)) and not (incoming == 0 and _one_sided(row.a, row.b, size))
            negligible = row.a.kind in _GRADIENTS and flow.negligible(row, unit)
            factor = size / max(incoming, unit)
            if not (own or negligible or (incoming > 0 and factor <= _AMPLIFIED) or same_update(row, rounding.rows)):
                rounding.rest, rounding.incoming = row, incoming
                return rounding
            rounding.rows.add(id(row))
            rounding.largest = max(rounding.largest, size)
            if incoming and not own and not negligible and factor <= _AMPLIFIED:
                rounding.amplification = max(rounding.amplification, factor)
        size = 0.0 if row.apart.identical or math.isnan(size) else size
        rounding.begins = rounding.begins if incoming else max(rounding.begins, size)
        flow.add(row, size)
    return rounding


class _Flow:
    """Relative differences of what a run has made so far."""

    def __init__(self) -> None:
        self._made: dict[str, float] = {}  # digest of a result of a -> its difference
        self._largest = 0.0
        self._gradients = 0.0  # the largest norm of a gradient

    def add(self, row: TensorRow, size: float) -> None:
        """What was made next."""
        assert row.b is not None
        if size and row.a is not None:
            self._made[row.a.digest] = size
            self._largest = max(self._largest, size)
        if row.b.kind in _GRADIENTS:
            self._gradients = max(self._gradients, row.b.figures.get("norm", 0.0))

    def incoming(self, a: Tensor, b: Tensor) -> float:
        """The largest difference of what a call reads; where its operands were not recorded, of all that was made before."""
        if a.reads is None or b.reads is None:
            return self._largest
        equal = {operand.digest for operand in b.reads.operands}
        sizes = [self._made.get(operand.digest, self._largest) for operand in a.reads.operands if operand.digest not in equal]
        return max(sizes, default=0.0)

    def negligible(self, row: TensorRow, unit: float) -> bool:
        """Whether a gradient, as one that is zero but for rounding, differs by no more than rounding of the largest gradients."""
        assert row.b is not None
        assert row.apart is not None
        norm = row.b.figures.get("norm", 0.0)
        return row.apart.relative * norm <= _OWN * unit * math.sqrt(_SUMMED) * max(self._gradients, norm)


def _summed(tensor: Tensor) -> float:
    """How many numbers a call adds up for an element of its result."""
    sizes = [math.prod(operand.shape) for operand in tensor.reads.operands] if tensor.reads is not None else []
    sizes = sorted(size for size in sizes if size)
    if not sizes or not tensor.size:
        return _SUMMED
    of_one = sizes[-1] / tensor.size  # a reduction
    of_two = math.sqrt(sizes[-1] * sizes[-2] / tensor.size) if len(sizes) > 1 else 1.0  # a product
    return max(1.0, of_one, of_two)


def _one_sided(a: Tensor, b: Tensor, size: float) -> bool:
    """Whether a difference changes the norm nearly as much as itself, as another factor or constant does."""
    norms = a.figures.get("norm"), b.figures.get("norm")
    if norms[0] is None or not norms[1] or b.size < _FEW:
        return False
    return abs(norms[0] - norms[1]) > _ONE_SIDED * size * norms[1]
