"""How far rounding explains what differs between two runs: where it begins, and how calls amplify what they read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..measure.distance import coarser
from ..runlog.events import CLIPPED, IN_STEP, STATE
from .difference import TensorRow
from .tensors import GRADIENTS, WEIGHT, Tensor

_UNITS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
_OWN = 8.0  # units of roundoff, times the root of how many numbers a call sums: what its own rounding makes
_SUMMED = 4096  # where that is not known: of a layer, or of a backward
_UPDATED = 64  # as many numbers as an update rounds like
_AMPLIFIED = 100.0  # what a call makes of a difference that it reads; beyond, something else is the reason
_SMALL = 1e-2  # relative: beyond, a backward or an update makes no more of it than this
_UPDATED_FAR = 10.0
_FAR = dict.fromkeys(("parameter", STATE, *GRADIENTS), _UPDATED_FAR)
_BEHIND = (CLIPPED, STATE, "parameter")  # the forward and the backward
_ONE_SIDED = 0.5  # of a difference that lies along the tensor, as that of a factor does, and rounding's does not
_FIGURES = 3e-7  # relative: figures have no more digits
_FEW = 16  # elements of which that says nothing


@dataclass
class Rounding:
    """What rounding explains.

    Attributes:
        begins: the largest relative difference that calls make of equal operands.
        amplification: the largest factor between what a call makes and what it reads.
        largest: the largest relative difference that it explains.
        rest: the first row that rounding does not explain; None where it explains all.
        incoming: the relative difference of what that row's call reads; 0 where nothing before it differs.
        unseen: that row reads weights behind an update, and parameters were not recorded.
        rows: those that it explains, by identity.
    """

    begins: float = 0.0
    amplification: float = 1.0
    largest: float = 0.0
    rest: TensorRow | None = None
    incoming: float = 0.0
    unseen: bool = False
    rows: set[int] = field(default_factory=set)

    def stopped(self, unexplained: Unexplained) -> Rounding:
        """At what it does not explain."""
        self.rest, self.incoming, self.unseen = unexplained
        return self


def explained(
    rows: Sequence[TensorRow],
    inputs: Sequence[TensorRow],
    other_settings: Callable[[TensorRow, bool], bool],
    name: Callable[[TensorRow], str],
    begins: Callable[[TensorRow], bool],
    *,
    same_rules: bool,
    crossing: bool,
) -> Rounding:
    """Follow rounding along a run.

    Args:
        rows: of the difference, in the order of the runs.
        inputs: what both runs were given.
        other_settings: whether the optimizers made a row with settings that differ; with whether its update is unseen.
        name: what the rows of one parameter share.
        begins: whether a row is of a parameter as the runs begin: of a resume, with what rounding has made before.
        same_rules: whether both optimizers are known to have the same settings.
        crossing: whether the runs are of two frameworks.
    """
    rounding, flow, formulas = Rounding(), _Flow(rows, name, same_rules), _OtherFormulas()
    flow.begin(inputs)
    for row in rows:
        if formulas.first is not None and (row.any.step != formulas.first[0].any.step or row.any.kind in _BEHIND):
            if not formulas.agree:
                break
            formulas = _OtherFormulas()
        if row.a is None or row.b is None or row.apart is None:
            if row.differs:
                return rounding.stopped(formulas.first or (row, 0.0, False))
            formulas.read(row, explained=False)
            continue
        incoming, size = flow.incoming(row, row.a, row.b), row.apart.relative
        own = negligible = False
        if not row.apart.identical and (row.differs or not begins(row)):
            own, negligible, factor, carried = flow.explains(row, row.a, row.b, incoming)
            if not (own or negligible or carried) or other_settings(row, flow.unseen(row.a)):
                unexplained = row, incoming, flow.unseen(row.a)
                if not crossing or row.a.kind != "op":
                    return rounding.stopped(formulas.first or unexplained)
                formulas.first = formulas.first or unexplained
                formulas.read(row, explained=False)
                flow.add(row, incoming)
                continue
            if row.differs:
                rounding.rows.add(id(row))
                rounding.largest = max(rounding.largest, size)
            if carried and not own and not negligible and factor <= _AMPLIFIED:
                rounding.amplification = max(rounding.amplification, factor)
        formulas.read(row, explained=True)
        size = 0.0 if row.apart.identical or math.isnan(size) else size
        negligible = negligible and not own
        rounding.begins = rounding.begins if incoming or negligible else max(rounding.begins, size)
        flow.add(row, size, negligible=negligible)
    return rounding if formulas.first is None or formulas.agree else rounding.stopped(formulas.first)


Unexplained = tuple[TensorRow, float, bool]  # what rounding does not explain, the difference of what it reads, Rounding.unseen


class _OtherFormulas:
    """Calls of two frameworks that rounding does not explain, and that are no mistake if what is computed from them agrees.

    Each framework computes a norm, or the entropy of a distribution, by calls of its own; those with one name become partners. They
    agree if each is read by a call that does, by one that does not and is read in turn, or by one without a partner, and if the
    last call of the forward and the gradients behind it are explained.
    """

    def __init__(self) -> None:
        self.first: Unexplained | None = None
        self._unread: tuple[dict[str, bool], ...] = {}, {}  # of a and b: digest of a result -> whether it has a partner
        self._last = self._gradients = False

    @property
    def agree(self) -> bool:
        """Whether nothing is left of them in what was computed."""
        return self.first is None or (self._last and self._gradients and not any(any(unread.values()) for unread in self._unread))

    def read(self, row: TensorRow, *, explained: bool) -> None:
        """The next row, with a partner or without."""
        if row.any.kind in GRADIENTS:
            self._gradients = True
        if self.first is None or row.any.kind != "op":
            return
        paired = row.a is not None and row.b is not None
        for tensor, unread in zip((row.a, row.b), self._unread):
            if tensor is None:
                continue
            reads = [unread.pop(operand.digest, None) for operand in tensor.reads.operands] if tensor.reads is not None else []
            if not explained and (paired or any(partner is not None for partner in reads)):
                unread[tensor.digest] = paired
        self._last = explained if paired else self._last


class _Flow:
    """Relative differences of what a run has made so far.

    Args:
        rows: all of the run.
        name: what the rows of one parameter share.
        same_rules: both optimizers have the same settings.
    """

    def __init__(self, rows: Sequence[TensorRow], name: Callable[[TensorRow], str], same_rules: bool) -> None:
        self._name, self._same_rules = name, same_rules
        self._made: dict[str, float] = {}  # digest of a result of a -> its difference
        self._largest = 0.0  # of all
        self._first = self._step = rows[0].any.step if rows else 0
        self._forward = self._backward = 0.0  # the largest of this step
        self._forwards = 0.0  # and of all steps
        self._gradients: dict[str, float] = {}  # of this step: parameter -> the difference of its gradient
        self._states: dict[tuple[str, str], float] = {}  # parameter, name of a state -> its difference
        self._parameters: dict[str, float] = {}
        self._norm = 0.0  # the largest of a gradient
        self._vectors = [row for row in rows if row.any.kind == "parameter" and row.apart is not None and len(row.any.shape) == 1]
        self._recorded = any(row.any.kind == "parameter" for row in rows)

    def begin(self, inputs: Sequence[TensorRow]) -> None:
        """The weights with which the runs begin, behind the updates of steps before in a resume; not those of others."""
        weights = [(row, row.apart) for row in inputs if row.any.tensor == WEIGHT and not row.differs]
        sizes = {self._name(row): apart.relative for row, apart in weights if apart is not None}
        self._parameters = {name: size for name, size in sizes.items() if not math.isnan(size)}

    def add(self, row: TensorRow, size: float, *, negligible: bool = False) -> None:
        """What was made next; a ``negligible`` gradient counts for its own parameter alone."""
        assert row.a is not None
        assert row.b is not None
        if row.a.digest:
            self._made[row.a.digest] = size
        kind, name = row.a.kind, self._name(row)
        self._largest = max(self._largest, 0.0 if negligible else size)
        if kind in GRADIENTS:
            self._gradients[name] = size
            self._backward = max(self._backward, 0.0 if negligible else size)
            self._norm = max(self._norm, row.b.figures.get("norm", 0.0))
        elif kind == STATE:
            self._states[name, row.a.tensor] = size
        elif kind == "parameter":
            self._parameters[name] = size
        else:
            self._forward = max(self._forward, size)
            self._forwards = max(self._forwards, size)

    def incoming(self, row: TensorRow, a: Tensor, b: Tensor) -> float:
        """The largest difference of what is read; where operands were not recorded, of what was made before in this step."""
        if a.step != self._step:
            self._step, self._forward, self._backward = a.step, 0.0, 0.0
            self._gradients.clear()
        name = self._name(row)
        gradient = self._gradients.get(name)
        if a.kind == STATE and gradient is not None:
            return max(gradient, self._states.get((name, a.tensor), 0.0))
        if a.kind == "parameter" and gradient is not None:
            states = [size for (parameter, _), size in self._states.items() if parameter == name]
            return max(gradient, self._parameters.get(name, 0.0), *states)
        if a.kind in (IN_STEP, CLIPPED) and gradient is not None:
            return max(gradient, self._backward)
        if a.kind == "parameter":  # whose gradient is not known, or a buffer
            return max(self._forwards, self._parameters.get(name, 0.0))
        if a.kind in GRADIENTS:
            return self._forward
        if a.reads is None or b.reads is None:
            return self._made.get(a.digest) or self._unknown(a.layer)
        equal = {operand.digest for operand in b.reads.operands}
        sizes = [
            self._unknown(a.layer) if (size := self._made.get(operand.digest)) is None else size
            for operand in a.reads.operands
            if operand.digest not in equal
        ]
        return max(sizes, default=0.0)

    def explains(self, row: TensorRow, a: Tensor, b: Tensor, incoming: float) -> tuple[bool, bool, float, bool]:
        """Whether rounding of a call, or of larger gradients, makes a difference; by which factor it grew, and whether by few."""
        size, unit = row.apart.relative if row.apart is not None else math.nan, _UNITS.get(coarser(a.dtype, b.dtype), math.nan)
        own = size <= _OWN * unit * math.sqrt(_summed(a)) and not (incoming == 0 and _one_sided(a, b, size))
        own = own and not (self.unseen(a) and self.equal)
        factor = size / max(incoming, unit)
        far = size > _SMALL or (a.kind == "parameter" and not self._same_rules)
        carried = factor <= (_FAR.get(a.kind, _AMPLIFIED) if far else _AMPLIFIED) or self.alone(row)
        return own, a.kind in GRADIENTS and self.negligible(row, unit), factor, incoming > 0 and carried

    @property
    def equal(self) -> bool:
        """Whether nothing has differed so far."""
        return not self._largest

    def _unknown(self, layer: str) -> float:
        """What a call may read that no recorded call has made: what was made in this step, or the layer's own parameters."""
        if not self._recorded:
            return self._largest
        own = (size for name, size in self._parameters.items() if name.split()[-1].startswith(f"{layer}." if layer else ""))
        return max(self._forward, max(own, default=0.0))

    def unseen(self, a: Tensor) -> bool:
        """Whether a call reads weights behind an update that was not recorded."""
        return not self._recorded and a.step > self._first

    def alone(self, row: TensorRow) -> bool:
        """Whether a vector's update is apart beyond its gradient's difference, and those of most vectors in this step are not.

        An adaptive optimizer makes a whole update of elements whose gradients are zero but for rounding, as of a bias of keys.
        """
        peers = [(peer, peer.apart) for peer in self._vectors if peer.any.step == row.any.step]
        far = {peer.any.name: _UPDATED_FAR * self._gradients.get(self._name(peer), 0.0) for peer, _ in peers}
        near = [peer for peer, apart in peers if apart is not None and apart.relative <= far[peer.any.name]]
        updated = row.any.kind == "parameter" and self._name(row) in self._gradients
        return updated and len(row.any.shape) == 1 and 2 * len(near) > len(peers)

    def negligible(self, row: TensorRow, unit: float) -> bool:
        """Whether a gradient, as one that is zero but for rounding, differs by no more than rounding of the largest gradients."""
        assert row.b is not None
        assert row.apart is not None
        norm = row.b.figures.get("norm", 0.0)
        return row.apart.relative * norm <= _OWN * unit * math.sqrt(_SUMMED) * max(self._norm, norm)


def _summed(tensor: Tensor) -> float:
    """How many numbers a call adds up for an element of its result."""
    if tensor.kind == "parameter":
        return _UPDATED
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
    if norms[0] is None or not norms[1] or b.size < _FEW or size < _FIGURES:
        return False
    return abs(norms[0] - norms[1]) > _ONE_SIDED * size * norms[1]
