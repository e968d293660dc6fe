"""What :func:`padiff_shim.diff` returns: how two recordings differ, by tensor, by step, and by layer."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ..measure.difference import Comparator, accepts
from ..measure.distance import Distance
from ..present.annotations import Finding
from ..present.document import Document, untested_words, version_words
from ..present.result import Presented, plain
from ..runlog.events import NAMED
from . import pages
from .alignment import apart, by_figures, repeated
from .call_origins import CallOrigins, origins_as_dict
from .report import hash_cells, hashed
from .settings import ComparedSettings
from .tensors import GRADIENTS, WEIGHT, Tensor, is_weight, parameter_name

HELD = 5_000  # rows that a difference holds, and as many more that differ
_COLUMNS = 512  # of a heat map


@dataclass(frozen=True)
class TensorRow:
    """A tensor of one recording and its partner in the other.

    Attributes:
        rank: of a's process.
        a, b: the tensors; one is None where there is no partner.
        apart: how far they are apart; None without partner.
        differs: that counts as a difference.
        joined: how the tensors of several ranks were put together, in words; "" where they were not.
    """

    rank: int
    a: Tensor | None
    b: Tensor | None
    apart: Distance | None
    differs: bool
    joined: str = ""

    @property
    def any(self) -> Tensor:
        """The tensor of a, or of b where a has none."""
        tensor = self.a or self.b
        assert tensor is not None
        return tensor

    def to_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        tensor = self.any
        places = {side: None if one_side is None else one_side.site for side, one_side in (("a", self.a), ("b", self.b))}
        return {
            "rank": self.rank,
            "kind": tensor.kind,
            "name": tensor.name,
            "tensor": tensor.tensor,
            "layer": tensor.layer,
            "step": tensor.step,
            **places,
            "indices": [None if side is None else side.index for side in (self.a, self.b)],
            "apart": plain(self.apart),
            "differs": self.differs,
            "joined": self.joined,
        }


@dataclass(frozen=True)
class DifferenceReason:
    """Why two runs differ.

    Attributes:
        kind: a word, as ``"learning rate"`` or ``"partial sums"``.
        text: in a sentence.
        numbers: what was measured, by name.
        brief: the text for a headline; "": the same.
    """

    kind: str
    text: str
    numbers: Mapping[str, Any]
    brief: str = ""


@dataclass
class StepDifference:
    """How one step of two runs differs.

    Attributes:
        rank, step: of a's process; from 0.
        losses: what the backward of each run started from; None where that is not known.
        kinds: kind of tensor -> (how many are equal, how many were compared).
        largest: the largest relative difference: norm of the difference by the norm of b.
        first: the first tensor that differs, in words; "" where none does.
        data: digests of what a and b are given in the step.
    """

    rank: int
    step: int
    losses: tuple[float | None, float | None] = (None, None)
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    largest: float = 0.0
    first: str = ""
    data: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

    @property
    def loss_distance(self) -> float:
        """How far the losses are apart; 0 where they are not known."""
        return 0.0 if self.losses[0] is None or self.losses[1] is None else abs(self.losses[0] - self.losses[1])

    def count(self, kind: str, equal: int, compared: int) -> None:
        """Add tensors of a kind."""
        before = self.kinds.get(kind, (0, 0))
        self.kinds[kind] = before[0] + equal, before[1] + compared

    def to_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        return {
            "rank": self.rank,
            "step": self.step,
            "losses": plain(self.losses),
            "equal": {kind: list(counts) for kind, counts in self.kinds.items()},
            "largest": plain(self.largest),
            "first": self.first,
        }


class HeatMap:
    """The largest relative difference by layer and step, in at most :data:`_COLUMNS` columns of ``width`` steps each."""

    def __init__(self) -> None:
        self.width = 1
        self.layers: dict[str, dict[int, float]] = {}
        self._last = 0

    def add(self, layer: str, step: int, relative: float) -> None:
        """A difference of a layer's output; 0 makes the layer known."""
        self._last = max(self._last, step)
        while self._last // self.width >= _COLUMNS:
            self.width *= 2
            for name, row in self.layers.items():
                folded: dict[int, float] = {}
                for column, value in row.items():
                    folded[column // 2] = max(value, folded.get(column // 2, 0.0))
                self.layers[name] = folded
        row, column = self.layers.setdefault(layer, {}), step // self.width
        if relative > row.get(column, 0.0):
            row[column] = relative

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return self._last // self.width + 1


@dataclass
class RowCounts:
    """How many rows there are, how many of them have both sides, and how many differ."""

    rows: int = 0
    compared: int = 0
    differing: int = 0


@dataclass(repr=False)
class Difference(Presented):
    """How two recordings differ. True in a condition if nothing differs.

    That is: something was compared, every pair is equal (or within ``atol`` and ``rtol``), no tensor is without a partner, and
    neither recording lacks what it should hold. Between recordings of two frameworks calls without a partner are no difference,
    for each divides its work into calls of its own; there the last results must be among the pairs, and a parameter that both
    have by name must have a gradient in both or in neither.

    Attributes:
        a, b: the folders.
        rows: what was computed, in the order of the runs; of long runs the first 5,000 rows, and 5,000 more that differ.
        surroundings: (name, value in a, value in b) of versions, devices and switches that differ.
        notes: what a reader should know.
        frameworks: those of both.
        met: whether the last results of both were compared with each other.
        inputs: what both runs were given, weights at the start and data: the pairs.
        steps: one entry a step and rank.
        counts: numbers of all rows, those that ``rows`` does not hold included.
        unpaired: (kind, ``"a"`` or ``"b"``) -> names of parameters whose tensors of this kind have no partner: not compared.
        holes: what a recording should hold and does not.
        one_sided: kinds of tensors that one recording alone holds -> ``"a"`` or ``"b"``; they were not compared.
        heat: the largest differences by layer and step.
        call_origins: where bits part: calls that read equal bits in both runs and make other ones, and what can be the reason.
        fingerprints: the recordings hold fingerprints: distances are estimates.
        not_joined: with ``shards=``, (tensor, reason) of tensors that were not put together, or have no partner.
        left_out: with ``shards=``, how many of :attr:`not_joined` there are, by kind.
        values_missing: with ``shards=``, how many tensors are split and were recorded without values.
        ranks_lost: with ``shards=``, ranks of a run left no recording: what they hold may be the reason for a difference.
        reason: why the first difference is there, a :class:`~.reasons.DifferenceReason`; None where nothing tells.
        begins: ("b", 20) where b begins at step 20 of a, and steps before are not compared; None where both begin alike.
        micro_batches: how many batches a step has in a and b, where they were put together because these numbers differ.
        settings: in what the runs' optimizers differ.
        most: how many rows are held.
        reported: hashes of what was computed are shown, too, as :meth:`report` has them.
        data_behind: as :attr:`StepDifference.data`, of the first steps that one run alone has behind those of both.
        headers: the first lines of a and of b: versions, devices, options, command, the model's configuration and checkpoint.

    >>> import numpy as np, padiff_shim, tempfile, torch
    >>> folders = [tempfile.mkdtemp(), tempfile.mkdtemp()]
    >>> for folder, shift in zip(folders, (0.0, 1e-3)):
    ...     with padiff_shim.record(folder, framework="torch"):
    ...         _ = torch.exp(torch.zeros(3) + shift)
    >>> difference = padiff_shim.diff(*folders)
    >>> bool(difference), difference.first.a.name, difference.counts.differing
    (False, 'add', 2)
    """

    a: str
    b: str
    rows: list[TensorRow] = field(default_factory=list)
    surroundings: list[tuple[str, Any, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frameworks: tuple[str, str] = ("paddle", "paddle")
    met: bool = True
    inputs: list[TensorRow] = field(default_factory=list)
    steps: list[StepDifference] = field(default_factory=list)
    counts: RowCounts = field(default_factory=RowCounts)
    unpaired: dict[tuple[str, str], set[str]] = field(default_factory=dict, repr=False)
    holes: list[str] = field(default_factory=list)
    heat: HeatMap = field(default_factory=HeatMap, repr=False)
    call_origins: CallOrigins = field(default_factory=CallOrigins, repr=False)
    fingerprints: bool = False
    one_sided: dict[str, str] = field(default_factory=dict)
    not_joined: list[tuple[str, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    values_missing: int = 0
    ranks_lost: bool = False
    reason: DifferenceReason | None = None
    begins: tuple[str, int] | None = None
    micro_batches: tuple[int, int] = (1, 1)
    settings: ComparedSettings = field(default_factory=ComparedSettings, repr=False)
    most: int = HELD
    reported: bool = field(default=False, repr=False)
    data_behind: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list, repr=False)
    headers: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default=({}, {}), repr=False)

    def __post_init__(self) -> None:
        rows, self.rows = self.rows, []
        for row in rows:
            self.add(row)

    def add(self, row: TensorRow) -> None:
        """Count a row, and hold it while there is room."""
        counts = self.counts
        counts.rows += 1
        counts.compared += row.apart is not None
        counts.differing += row.differs
        if row.apart is None and not row.differs and row.any.kind in NAMED:
            self.unpaired.setdefault((row.any.kind, "a" if row.b is None else "b"), set()).add(row.any.name)
        if counts.rows <= self.most or (row.differs and counts.differing <= self.most):
            self.rows.append(row)

    @property
    def compared(self) -> list[TensorRow]:
        """Those of :attr:`rows` with both sides."""
        return [row for row in self.rows if row.apart is not None]

    @property
    def differing(self) -> list[TensorRow]:
        """Those of :attr:`rows` that differ, in order."""
        return [row for row in self.rows if row.differs]

    @property
    def first(self) -> TensorRow | None:
        """The first row that differs."""
        return next((row for row in self.rows if row.differs), None)

    @property
    def origin(self) -> TensorRow | None:
        """The first input that differs, if nothing differs before it: then the runs differ by what they were given."""
        first_by_rank: dict[int, int] = {}
        for row in self.differing:
            if row.a is not None:
                first_by_rank[row.rank] = min(row.a.index, first_by_rank.get(row.rank, row.a.index))
        for row in self.inputs:
            early = row.differs and row.a is not None and row.a.index < first_by_rank.get(row.rank, row.a.index + 1)
            if early and (row.any.tensor == WEIGHT or self.sender(row) is None):
                return row
        return None

    def sender(self, row: TensorRow) -> TensorRow | None:
        """The row of another rank that has made in one of the runs what a rank is given there."""
        for other in self.rows:
            if other.rank == row.rank:
                continue
            for made, received in ((other.a, row.a), (other.b, row.b)):
                if made and received and made.digest == received.digest != "" and made.step == received.step:
                    return other
        return None

    def __bool__(self) -> bool:
        return bool(self.counts.compared) and self.met and not (self.counts.differing or self.holes or self.values_missing)

    @property
    def environments(self) -> list[Mapping[str, Any]]:
        """Versions and devices of a and of b."""
        return [header.get("environment") or {} for header in self.headers]

    def report(self, *, lang: str | None = None) -> Difference:
        """This difference for a pull request: also with command, configuration, checkpoint, and hashes of what was computed.

        Of several ranks they are those of the tensors put together, or of each rank. MD5 needs recorded values; of others the
        recorded digests stand there.

        Args:
            lang: the language of the report, ``"en"`` or ``"zh"``; default: as the environment says.

        >>> import padiff_shim, tempfile, torch
        >>> folder = tempfile.mkdtemp()
        >>> with padiff_shim.record(folder, framework="torch"):
        ...     _ = torch.nn.Linear(2, 2)(torch.ones(1, 2))
        >>> [rows[0][1] for rows in padiff_shim.diff(folder, folder).report().to_dict()["hashes"].values() if rows]
        ['linear [0]', 'Linear']
        """
        report = copy.copy(self)
        report.reported = True
        report.speak(lang)
        return report

    @property
    def answer(self) -> str:
        """The answer in one line."""
        return pages.headline(self)

    def _shorter(self) -> Iterator[str]:
        return pages.shorter(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain types (JSON)."""
        parts = hashed(self) if self.reported else ()
        hashes = {str(title): [list(map(str, hash_cells(row))) for row in rows] for title, rows in parts}
        return {
            "headline": self.answer,
            "right": bool(self),
            "a": self.a,
            "b": self.b,
            "frameworks": list(self.frameworks),
            "environments": self.environments,
            "reason": None
            if self.reason is None
            else {"kind": self.reason.kind, "text": str(self.reason.text), **self.reason.numbers},
            "begins": None if self.begins is None else list(self.begins),
            "compared": self.counts.compared,
            "differing": self.counts.differing,
            "first": None if self.first is None else self.first.to_dict(),
            "origin": None if self.origin is None else self.origin.to_dict(),
            "call_origins": origins_as_dict(self.call_origins),
            "inputs": [row.to_dict() for row in self.inputs],
            "surroundings": [list(change) for change in self.surroundings],
            "settings": [known.to_dict(self.frameworks) for known in self.settings.differences],
            "notes": list(self.notes),
            "holes": list(self.holes),
            "one_sided": dict(self.one_sided),
            "unpaired": {kind: {side: sorted(names)} for (kind, side), names in self.unpaired.items()},
            "not_joined": [list(entry) for entry in self.not_joined],
            "steps": [step.to_dict() for step in self.steps],
            "rows": [row.to_dict() for row in self.rows],
            **({"headers": list(map(dict, self.headers)), "hashes": hashes} if self.reported else {}),
        }

    @property
    def findings(self) -> list[Finding]:
        """The first difference, and where bits part, each at its line."""
        return pages.first_and_origins(self)

    def untested(self) -> list[str]:
        """A line for each version of either run that the tests were not run on."""
        return list(dict.fromkeys(line for environment in self.environments for line in untested_words(environment)))

    def _versions(self) -> str:
        a, b = map(version_words, self.environments)
        return a if a == b else f"a: {a}; b: {b}"

    def content(self) -> Document:
        """Where both runs part, by how much, and what differs around them."""
        return pages.difference_document(self)


class ExpectedPartners:
    """Whether a tensor without a partner is a difference.

    In one framework it is. Two frameworks divide their work otherwise, and their models their weights; there a gradient must have a
    partner if the other model has the parameter, by name and shape, and the gradient is not zero everywhere.

    Args:
        crossing: whether the recordings are of two frameworks.
    """

    def __init__(self, *, crossing: bool) -> None:
        self._crossing = crossing
        self._weights: tuple[dict[str, list[int]], ...] = {}, {}  # of a and b: name -> lengths in order of size
        self._gradients: tuple[set[str], ...] = set(), set()  # of a and b in this step: names of parameters

    def note(self, first: Iterable[Tensor], second: Iterable[Tensor]) -> None:
        """A step begins, with these tensors on both sides; the first step's inputs are the weights at the start."""
        if not self._crossing:
            return
        for weights, gradients, tensors in zip(self._weights, self._gradients, (first, second)):
            gradients.clear()
            for tensor in tensors:
                if tensor.tensor == WEIGHT:
                    weights[parameter_name(tensor.name)] = sorted(tensor.shape)
                elif tensor.kind in GRADIENTS[1:]:
                    gradients.add(parameter_name(tensor.name))

    def lacking(self, a: Tensor | None, b: Tensor | None) -> bool:
        """Whether it is a difference that one of two tensors is None."""
        tensor, other = a or b, 0 if a is None else 1
        if not self._crossing or tensor is None:
            return True
        name = parameter_name(tensor.name)
        if tensor.kind not in GRADIENTS[1:] or name in self._gradients[other]:
            return False
        return self._weights[other].get(name) == sorted(tensor.shape) and any(map(tensor.figures.get, ("norm", "nan", "inf")))


TensorKey = tuple[str, str, str, str]  # of all calls of an op in a layer


def tensor_key(tensor: Tensor) -> TensorKey:
    """What a tensor shares with that of the same place in another recording of the same program."""
    return tensor.kind, tensor.name, tensor.layer, tensor.tensor


class EqualWithin(NamedTuple):
    """What counts as equal, and whether the recordings are of two frameworks.

    ``more`` is added to ``atol`` for b's tensors of a key or of a kind; ``equal`` comes before both tolerances.
    """

    atol: float
    rtol: float
    crossing: bool
    more: Mapping[TensorKey | str, float] = MappingProxyType({})
    equal: Comparator | None = None

    def accepts(self, a: Tensor, b: Tensor, distance: Distance) -> bool | None:
        """What the comparator of the user's own says of two tensors whose values are known and lie alike; None without one."""
        if self.equal is None or distance.identical or distance.how != "values" or distance.layout:
            return None
        values = a.values(), b.values()
        if values[0] is None or values[1] is None:
            return None
        name = " ".join(filter(None, (b.kind, b.name, "" if b.tensor == "out" else b.tensor, b.layer)))  # "op softmax blocks.0"
        return accepts(self.equal, values[0], values[1], name)

    def absolute(self, tensor: Tensor) -> float:
        """``atol`` for a tensor of b."""
        return self.atol + self.more.get(tensor_key(tensor), 0.0) + self.more.get(tensor.kind, 0.0)


def tensor_row(rank: int, a: Tensor, b: Tensor, tolerances: EqualWithin) -> TensorRow:
    """A tensor and its partner, measured."""
    distance = apart(a, b)
    if tolerances.crossing and distance.how == "shape":
        distance = repeated(a, b) or distance
    turned = distance.how == "fingerprint" or (distance.how == "sample" and a.shape == a.shape[::-1])
    if tolerances.crossing and (is_weight(a) or a.kind == "note") and len(a.shape) > 1 and turned:
        distance = by_figures(a, b, turned=True)  # elements of a weight, or its average, may lie transposed in the other framework
    if distance.how == "figures" and not distance.identical and distance.relative <= tolerances.rtol:
        distance = replace(distance, how="nothing")
    scale = max(abs(b.figures.get(name, 0.0)) for name in ("min", "max"))
    # In one framework a result of the same shape in another arrangement is another result, even with the same values.
    turned = bool(distance.layout) and not tolerances.crossing and a.shape == b.shape and a.kind in ("op", "layer")
    accepted = tolerances.accepts(a, b, distance)
    accepted = distance.within(tolerances.absolute(b), tolerances.rtol, scale) if accepted is None else accepted
    return TensorRow(rank, a, b, distance, turned or not accepted)
