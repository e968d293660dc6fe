"""``padiff_shim.diff``: two recordings, compared offline, and what it answers."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import path, whole
from ..errors import ArgumentError, described
from ..files import write
from ..present.document import Document
from ..present.result import Presented
from ..progress import Waiting
from ..text import many
from . import pages
from .alignment import Pair, TensorDistance, align, apart
from .folder import WEIGHT, Recorded, Tensor, read

# ---- What :func:`padiff_shim.diff` answers.


@dataclass(frozen=True)
class TensorRow:
    """A tensor of one recording and what belongs to it in the other; one is None where nothing does.

    ``apart``: how far they are apart, None without partner. ``differs``: whether that counts as a difference.
    """

    rank: int
    a: Tensor | None
    b: Tensor | None
    apart: TensorDistance | None
    differs: bool

    @property
    def any(self) -> Tensor:
        """The one, or the other."""
        found = self.a or self.b
        assert found is not None
        return found

    def as_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        one = self.any
        places = {side: None if tensor is None else f"{tensor}" for side, tensor in (("a", self.a), ("b", self.b))}
        told = None if self.apart is None else {name: _plain(value) for name, value in asdict(self.apart).items()}
        return {
            "rank": self.rank,
            "kind": one.kind,
            "name": one.name,
            "tensor": one.tensor,
            "layer": one.layer,
            "step": one.step,
            **places,
            "indices": [None if tensor is None else tensor.index for tensor in (self.a, self.b)],
            "apart": told,
            "differs": self.differs,
        }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@dataclass
class Difference(Presented):
    """How two recordings differ. True in a condition if nothing differs.

    That is: something was compared, every pair is equal (or within ``atol`` and ``rtol``), and nothing is without a partner.
    Between recordings of two frameworks calls without a partner are no difference, for each divides its work into calls of its own;
    there the last results must be among the pairs.

    Args:
        a, b: folders.
        rows: everything that was computed, in the order of the runs.
        surroundings: (name, value in a, value in b) of versions, devices and switches that differ.
        notes: what a reader should know.
        frameworks: those of both.
        met: whether the last results of both were compared with each other.
        inputs: what both runs were given, weights at the start and data: the pairs.
    """

    a: str
    b: str
    rows: list[TensorRow] = field(default_factory=list)
    surroundings: list[tuple[str, Any, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frameworks: tuple[str, str] = ("paddle", "paddle")
    met: bool = True
    inputs: list[TensorRow] = field(default_factory=list)

    @property
    def compared(self) -> list[TensorRow]:
        """The rows with both sides."""
        return [row for row in self.rows if row.apart is not None]

    @property
    def differing(self) -> list[TensorRow]:
        """The rows that differ, in order."""
        return [row for row in self.rows if row.differs]

    @property
    def first(self) -> TensorRow | None:
        """The first row that differs."""
        return next(iter(self.differing), None)

    @property
    def origin(self) -> TensorRow | None:
        """The first input that differs, where nothing differs before it: what the runs were given is what sets them apart."""
        return next((row for row in self.inputs if row.differs and self._precedes(row)), None)

    def _precedes(self, data: TensorRow) -> bool:
        """Whether no result differs before this input, in the order of the run that it is an input of."""
        assert data.a is not None
        others = (row for row in self.differing if row.rank == data.rank)
        return all(row.a is None or row.a.index > data.a.index for row in others)

    def __bool__(self) -> bool:
        return bool(self.compared) and self.met and self.first is None

    @property
    def headline(self) -> str:
        """The answer in one line."""
        return pages.headline(self)

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types (JSON)."""
        return {
            "same": bool(self),
            "headline": self.headline,
            "a": self.a,
            "b": self.b,
            "frameworks": list(self.frameworks),
            "compared": len(self.compared),
            "differing": len(self.differing),
            "first": None if self.first is None else self.first.as_dict(),
            "origin": None if self.origin is None else self.origin.as_dict(),
            "inputs": [row.as_dict() for row in self.inputs],
            "surroundings": [list(one) for one in self.surroundings],
            "notes": list(self.notes),
            "rows": [row.as_dict() for row in self.rows],
        }

    def document(self) -> Document:
        """Where both runs part, by how much, and what differs around them."""
        return pages.difference_document(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write it as one self-contained page; returns its path. Raises FileError."""
        return write(path, self.page(), "the page ")


# ---- ``padiff_shim.diff``: two recordings, compared offline.

# Names of running statistics in Paddle -> in Torch.
_STATISTICS = {"_mean": "running_mean", "_variance": "running_var"}
_SEQUENCES = ("op", "layer", "note")  # kinds that are aligned in their order; the others go by name


@Waiting("comparing both recordings")
def diff(
    a: str | Path,
    b: str | Path,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    ranks: int | tuple[int, int] | None = None,
) -> Difference:
    """Say how two recordings of :func:`padiff_shim.record` differ, and where first.

    Neither framework is needed. Calls and layers are aligned by dynamic programming over ops, layer paths, shapes and values, so
    that recordings of other lengths can be compared; the ops of a Torch recording by the names that the op table has for them.
    Parameters and gradients go by name; weights that lie transposed in the other framework are turned.

    Args:
        a, b: folders.
        atol, rtol: a pair is equal if no element differs by more than ``atol`` plus ``rtol`` times the largest element; by default
            every bit counts.
        ranks: which processes of distributed runs are compared: one rank of both, or a pair (rank of a, rank of b). By default all
            ranks that both have.

    Returns:
        A :class:`Difference`, true if nothing differs.

    Raises:
        ArgumentError: an argument that is not accepted, or a rank that a recording does not have.
        FileError: a folder that holds no recording, or values that are damaged.
    """
    for name, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ArgumentError(f"{name}= is a number from 0 on, got {described(value)}")
    folders = path("a", a).absolute(), path("b", b).absolute()
    both = read(folders[0]), read(folders[1])
    chosen = _ranks(ranks, both)
    first = both[0][chosen[0][0]], both[1][chosen[0][1]]
    found = Difference(str(folders[0]), str(folders[1]), frameworks=(first[0].framework, first[1].framework))
    found.surroundings = _surroundings(*first)
    found.notes = _notes(both, chosen)
    for mine, yours in chosen:
        _compare(both[0][mine], both[1][yours], found, atol, rtol)
    return found


def _ranks(given: Any, both: tuple[dict[int, Recorded], dict[int, Recorded]]) -> list[tuple[int, int]]:
    """Which ranks are compared with which."""
    if given is None:
        common = [rank for rank in both[0] if rank in both[1]]
        return [(rank, rank) for rank in common] or [(min(both[0]), min(both[1]))]
    pair = given if isinstance(given, tuple) and len(given) == 2 else (given, given)
    for name, rank, known in zip("ab", pair, both):
        whole("ranks", rank)
        if rank not in known:
            raise ArgumentError(f"ranks={given!r}: {name} has no rank {rank}; it has {', '.join(map(str, known))}")
    return [pair]


def _notes(both: tuple[dict[int, Recorded], dict[int, Recorded]], chosen: list[tuple[int, int]]) -> list[str]:
    notes = []
    for place, (name, known) in enumerate(zip("ab", both)):
        taken = {pair[place] for pair in chosen}
        notes += [f"{name}: {remark}" for rank in sorted(taken) for remark in known[rank].remarks]
        left = [str(rank) for rank in known if rank not in taken]
        if left:
            notes.append(f"{name}: ranks {', '.join(left)} were not compared")
    return notes + [f"rank {mine} of a is compared with rank {yours} of b" for mine, yours in chosen if mine != yours]


def _surroundings(one: Recorded, other: Recorded) -> list[tuple[str, Any, Any]]:
    """Versions, devices, switches and options that differ; what one of two frameworks does not have says nothing."""
    found = []
    for table in ("environment", "flags", "options"):
        mine, yours = one.header.get(table, {}), other.header.get(table, {})
        for name in dict.fromkeys([*mine, *yours]):
            known = name in mine and name in yours
            if mine.get(name) != yours.get(name) and (one.framework == other.framework or (known and name != "cuda")):
                found.append((name, mine.get(name, "-"), yours.get(name, "-")))
    return found


def _compare(one: Recorded, other: Recorded, found: Difference, atol: float, rtol: float) -> None:
    """All pairs of two processes, measured, in the order of the runs."""
    crossing = one.framework != other.framework
    pairs: list[Pair] = []
    for kind in _SEQUENCES:
        mine, yours = (_of(side, kind) for side in (one, other))
        if mine and yours:
            pairs += _by_steps(mine, yours)
        elif mine or yours:
            found.notes.append(f"only {'a' if mine else 'b'} has records of kind {kind!r}: they were not compared")
    for kind in ("parameter", "gradient"):
        mine, yours = (_of(side, kind) for side in (one, other))
        pairs += _by_name(mine, yours, found)
    rows = [_row(one.rank, mine, yours, crossing, atol, rtol) for mine, yours in _ordered(pairs)]
    unknown = [row for row in rows if row.apart is not None and row.apart.how == "nothing"]
    if unknown:
        number = many(len(unknown), "tensor")
        found.notes.append(f"not compared, because a recording has no values of them: {number}, the first {unknown[0].any}")
        rows = [row for row in rows if row.apart is None or row.apart.how != "nothing"]
    found.rows += rows
    found.inputs += [_row(one.rank, mine, yours, crossing, atol, rtol) for mine, yours in _inputs(one, other)]
    if crossing:
        ends = [next((tensor for tensor in reversed(side.tensors) if tensor.kind in _SEQUENCES), None) for side in (one, other)]
        met = {tensor for row in rows if row.a is not None and row.b is not None for tensor in (row.a, row.b)}
        found.met = found.met and all(end is None or end in met for end in ends)


def _inputs(first: Recorded, second: Recorded) -> list[Pair]:
    """What both runs were given, side by side: of one framework by name, place and step, of two in the order of the runs."""
    if first.framework == second.framework:
        waiting = dict(_placed(second.inputs))
        pairs: list[Pair] = [(tensor, waiting.get(key)) for key, tensor in _placed(first.inputs)]
    else:  # a weight may lie in another way there, and nobody knows that it is the same one
        mine, yours = ([tensor for tensor in side.inputs if tensor.tensor != WEIGHT] for side in (first, second))
        pairs = _by_steps(mine, yours) if mine and yours else []
    return [pair for pair in pairs if pair[0] is not None and pair[1] is not None]


def _placed(tensors: Sequence[Tensor]) -> list[tuple[Any, Tensor]]:
    """Each input with what takes it, its step, and the how-maniest of these it is."""
    return _numbered(tensors, lambda tensor: (tensor.name, tensor.tensor, tensor.layer, tensor.step))


def _of(side: Recorded, kind: str) -> list[Tensor]:
    return [tensor for tensor in side.tensors if tensor.kind == kind]


def _row(rank: int, mine: Tensor | None, yours: Tensor | None, crossing: bool, atol: float, rtol: float) -> TensorRow:
    if mine is None or yours is None:
        return TensorRow(rank, mine, yours, None, not crossing)
    distance = apart(mine, yours)
    scale = max(abs(yours.figures.get(name, 0.0)) for name in ("min", "max"))
    # In one framework a result of one shape that is arranged otherwise is another result, be its values the same ones.
    turned = bool(distance.layout) and not crossing and mine.shape == yours.shape and mine.kind in ("op", "layer")
    return TensorRow(rank, mine, yours, distance, turned or not distance.within(atol, rtol, scale))


def _by_steps(mine: Sequence[Tensor], yours: Sequence[Tensor]) -> list[Pair]:
    """Aligned step by step, if both have several."""
    steps: tuple[dict[int, list[Tensor]], ...] = (defaultdict(list), defaultdict(list))
    for known, tensors in zip(steps, (mine, yours)):
        for tensor in tensors:
            known[tensor.step].append(tensor)
    if min(map(len, steps)) < 2:
        return align(mine, yours)
    return [pair for step in sorted({*steps[0], *steps[1]}) for pair in align(steps[0].get(step, []), steps[1].get(step, []))]


def _by_name(mine: Sequence[Tensor], yours: Sequence[Tensor], found: Difference) -> list[Pair]:
    """Parameters or gradients by name and step; those without a namesake by shape and values."""
    if not mine or not yours:
        if mine or yours:
            one = (mine or yours)[0]
            found.notes.append(f"only {'a' if mine else 'b'} has records of kind {one.kind!r}: they were not compared")
        return []
    waiting = dict(_keyed(yours))
    pairs: list[Pair] = [(tensor, waiting.pop(key, None)) for key, tensor in _keyed(mine)]
    left = [one for one, other in pairs if one is not None and other is None]
    return [pair for pair in pairs if pair[1] is not None] + align(left, list(waiting.values()))


def _keyed(tensors: Sequence[Tensor]) -> list[tuple[Any, Tensor]]:
    """Each with its name, its step, and the how-maniest of these it is."""

    def named(tensor: Tensor) -> Any:
        above, dot, last = tensor.name.rpartition(".")
        return above + dot + _STATISTICS.get(last, last), tensor.tensor, tensor.step

    return _numbered(tensors, named)


def _numbered(tensors: Sequence[Tensor], key: Callable[[Tensor], Any]) -> list[tuple[Any, Tensor]]:
    """Each with its key, and the how-maniest with that it is."""
    count: Counter[Any] = Counter()
    numbered = []
    for tensor in tensors:
        name = key(tensor)
        numbered.append(((name, count[name]), tensor))
        count[name] += 1
    return numbered


def _ordered(pairs: list[Pair]) -> list[Pair]:
    """In the order of the first run; what only the second has comes behind its neighbour there."""
    partners = {yours.index: mine.index for mine, yours in pairs if mine is not None and yours is not None}
    place, before = {}, -1
    for index in sorted(yours.index for _, yours in pairs if yours is not None):
        before = place[index] = partners.get(index, before)
    keyed: list[tuple[tuple[int, int, int], Pair]] = []
    for mine, yours in pairs:
        if mine is not None:
            keyed.append(((mine.index, 0, 0), (mine, yours)))
        elif yours is not None:
            keyed.append(((place[yours.index], 1, yours.index), (mine, yours)))
    return [pair for _, pair in sorted(keyed, key=lambda item: item[0])]
