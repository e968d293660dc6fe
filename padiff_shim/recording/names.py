"""Names of layers and weights in two runs: which belong together."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..errors import ArgumentError, described
from .alignment import SUMS
from .tensors import Tensor

Shapes = Mapping[str, tuple[int, ...]]  # of weights, by name
Weights = Mapping[str, Tensor]  # those with which a rank begins, by name


class NameMap:
    """What the user says of names: pattern of a path in one run -> the path in the other.

    A pattern stands for a layer or a parameter and for all below it. Each ``*`` in it, any part of a path, stands for the one
    in the other path, in their order. The first pattern that matches counts.

    Raises:
        ArgumentError: it is no such table.

    >>> NameMap({"blocks.*.up.l": "blocks.*.up"}).path("blocks.0.up.l.weight")
    'blocks.0.up.weight'
    """

    def __init__(self, names: Mapping[str, str] | None) -> None:
        if not isinstance(names, Mapping | None):
            raise ArgumentError("names= is a table of patterns of paths, got {names}", names=described(names))
        self._patterns: list[tuple[str, re.Pattern[str], str]] = []
        self.used: set[str] = set()
        for pattern, path in (names or {}).items():
            if not isinstance(pattern, str) or not pattern or not isinstance(path, str) or path.count("*") > pattern.count("*"):
                entry = f"{described(pattern)}: {described(path)}"
                raise ArgumentError("names= maps patterns to paths that have at most as many *, got {entry}", entry=entry)
            regular = "(.*?)".join(map(re.escape, pattern.split("*")))
            self._patterns.append((pattern, re.compile(rf"{regular}(?=\.|$)"), path))

    def path(self, path: str) -> str:
        """A path or name as the other run has it."""
        for pattern, regular, other in self._patterns:
            match = regular.match(path)
            if match:
                self.used.add(pattern)
                parts = iter(match.groups())
                renamed = "".join(next(parts) if sign == "*" else sign for sign in other)
                return (renamed + path[match.end() :]).removeprefix(".")
        return path

    @property
    def unused(self) -> list[str]:
        """Patterns that nothing has matched."""
        return [pattern for pattern, _, _ in self._patterns if pattern not in self.used]


def wrapped(own: Iterable[str], other: Iterable[str]) -> dict[str, str]:
    """Path of a layer in one run -> in the other, for layers whose weights' names differ by one layer around them.

    >>> wrapped(["up.l.weight", "head.weight"], ["up.weight", "head.weight"])
    {'up.l': 'up'}
    """
    mine, others = set(own), set(other)
    left = {side: {name for name in names if "." in name} for side, names in (("own", mine - others), ("other", others - mine))}
    shorter: dict[str, defaultdict[str, set[str]]] = {side: defaultdict(set) for side in left}  # name without a layer -> with it
    for side, names in left.items():
        for name in names:
            for short in _shortened(name):
                shorter[side][short].add(name)
    pairs: dict[str, str] = {}
    for name in sorted(left["own"]):
        partners = shorter["other"].get(name, set()) | {short for short in _shortened(name) if short in left["other"]}
        if len(partners) != 1:
            continue
        (partner,) = partners
        back = shorter["own"].get(partner, set()) | {short for short in _shortened(partner) if short in left["own"]}
        if back == {name}:
            pairs[name.rpartition(".")[0]] = partner.rpartition(".")[0]
    return pairs


def _shortened(name: str) -> Iterable[str]:
    """A weight's name without one of the layers around it."""
    parts = name.split(".")
    return (".".join(parts[:place] + parts[place + 1 :]) for place in range(len(parts) - 1) if not parts[place].isdigit())


def roots(own: Shapes, other: Shapes) -> dict[str, str]:
    """Path of an outermost layer in one run -> in the other, whose weights bear the same names below it.

    >>> roots({"llama.up.weight": (2, 4), "head.weight": (4, 3)}, {"model.up.weight": (4, 2), "head.weight": (3, 4)})
    {'llama': 'model'}
    """
    left = [
        {name: sorted(shape) for name, shape in side.items() if name not in others} for side, others in ((own, other), (other, own))
    ]
    ends = defaultdict[tuple[str, ...], list[str]](list)
    for name in left[1]:
        for end in _ends(name):
            ends[end].append(name)
    heads = Counter[tuple[str, str]]()
    for name, shape in left[0].items():
        end = next((end for end in _ends(name) if end in ends), ())
        partners = [partner for partner in ends[end] if left[1][partner] == shape]
        if len(partners) == 1:
            heads[_head(name, end), _head(partners[0], end)] += 1
            heads |= {} if _head(name, end) else {(end[0], ".".join((_head(partners[0], end), end[0]))): 1}
    known = {a: b for (a, b), _ in reversed(heads.most_common()) if a and not re.search(r"\d", a + b)}
    return known if len({*known.values()}) == len(known) else {}


def _ends(name: str) -> Iterator[tuple[str, ...]]:
    """A weight's name without layers around it, the longest first: at least a layer and its weight are left."""
    parts = tuple(name.split("."))
    return (parts[place:] for place in range(len(parts) - 1))


def _head(name: str, end: Sequence[str]) -> str:
    return ".".join(name.split(".")[: -len(end)])


def layers_of_values(own: Weights, other: Weights) -> dict[str, str]:
    """Path of a layer in one run -> in the other, whose weights begin with the same values under other names, as numbered layers
    of a pipeline; the longest paths first."""
    known: dict[str, str] = {}
    for _ in range(2):  # then those that many have in common, as ones, but no other that is left
        names = {rooted(name, known): name for name in own}
        left = [
            {name: own[names[name]] for name in names.keys() - other.keys()},
            {name: other[name] for name in other.keys() - names.keys()},
        ]
        ends = defaultdict[str, dict[str, str]](dict)  # path -> what lies below it -> the other's path
        for name, weight in left[0].items():
            partners = [partner for partner, entry in left[1].items() if _same_values(weight, entry)]
            if len(partners) == 1 and sum(_same_values(entry, left[1][partners[0]]) for entry in left[0].values()) == 1:
                parts, others = name.split("."), partners[0].split(".")
                alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(parts[:0:-1], others[:0:-1]))
                count = sum(1 for _ in alike)
                squares = weight.size * weight.figures.get("mean", 0.0) ** 2, weight.figures["norm"] ** 2
                if count < 1 + math.isclose(*squares, rel_tol=SUMS):  # ones say little
                    continue
                ends[".".join(parts[:-count])][parts[-count]] = ".".join(others[:-count])
        for path, below in ends.items():
            if len({*below.values()}) == 1:
                known[path] = next(iter(below.values()))
            else:
                known |= {f"{path}.{end}": f"{there}.{end}" for end, there in below.items()}
    return dict(sorted(known.items(), key=lambda pair: -len(pair[0])))


def _same_values(a: Tensor, b: Tensor) -> bool:
    norms = a.figures.get("norm", 0.0), b.figures.get("norm", 0.0)
    return abs(norms[0] - norms[1]) <= SUMS * norms[0] > 0 and sorted(a.shape) == sorted(b.shape)


def rooted(path: str, known: Mapping[str, str]) -> str:
    """A layer's path, or a weight's name, with the other run's name of the outermost layer.

    >>> rooted("model.up.weight", {"model": "llama"})
    'llama.up.weight'
    """
    for head, other in known.items():
        if f"{path}.".startswith(f"{head}."):
            return f"{other}.{path[len(head) :].lstrip('.')}".strip(".")
    return path
