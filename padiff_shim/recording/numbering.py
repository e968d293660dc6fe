"""What a rank calls its share of a list of layers: which experts, and which blocks of a pipeline, these are in the whole model."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..errors import ArgumentError, described
from .alignment import SUMS
from .tensors import Tensor, figures_together

Shapes = Mapping[str, tuple[int, ...]]  # of weights, by name
Weights = Mapping[str, Tensor]  # those with which a rank begins, by name
Numbers = dict[str, dict[int, int]]  # path of a list of layers -> number of a layer on this rank -> its number in the whole model
_ALIKE = 1e-9  # relative: sums of the same numbers in another order, in float64


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


def _ends(name: str) -> Iterator[tuple[str, ...]]:
    """A weight's name without layers around it, the longest first: at least a layer and its weight are left."""
    parts = tuple(name.split("."))
    return (parts[place:] for place in range(len(parts) - 1))


def _head(name: str, end: Sequence[str]) -> str:
    return ".".join(name.split(".")[: -len(end)])


def rooted(path: str, known: Mapping[str, str]) -> str:
    """A layer's path, or a weight's name, with the other run's name of the outermost layer.

    >>> rooted("model.up.weight", {"model": "llama"})
    'llama.up.weight'
    """
    for head, other in known.items():
        if f"{path}.".startswith(f"{head}."):
            return f"{other}.{path[len(head) :].lstrip('.')}".strip(".")
    return path


def _shortened(name: str) -> Iterable[str]:
    """A weight's name without one of the layers around it."""
    parts = name.split(".")
    return (".".join(parts[:place] + parts[place + 1 :]) for place in range(len(parts) - 1) if not parts[place].isdigit())


def renumbered(path: str, numbers: Numbers) -> str:
    """A path on a rank as it is in the whole model.

    >>> renumbered("moe.experts.0.up.weight", {"moe.experts": {0: 2, 1: 3}})
    'moe.experts.2.up.weight'
    """
    if not numbers:
        return path
    parts, local, whole = path.split("."), "", []
    for part in parts:
        known = numbers.get(local)
        whole.append(str(known.get(int(part), part)) if known is not None and part.isdigit() else part)
        local = f"{local}.{part}" if local else part
    return ".".join(whole)


def numbers_of(ranks: Mapping[int, Weights], other: Weights) -> dict[int, Numbers]:
    """Rank -> the numbers of its layers in the whole model, where every rank counts from 0 and the ``other`` run has more layers.

    Experts go to the ranks in their order. Blocks of a pipeline are known by their weights, which are those of one block of the
    other run; where these do not say it, they go to the ranks in their order, too.
    """
    numbers: dict[int, Numbers] = {rank: {} for rank in ranks}
    whole = _lists(other)
    lists = {rank: _lists(weights) for rank, weights in ranks.items()}
    for path in sorted(set().union(*lists.values()), key=lambda path: path.count(".")):
        counts = {rank: len(known[path]) for rank, known in lists.items() if path in known}
        here = next(renumbered(path, numbers[rank]) for rank in counts)
        total = len(whole.get(here, ()))
        if any(lists[rank][path] != set(range(count)) for rank, count in counts.items()) or max(counts.values()) >= total:
            continue
        if "expert" in path.lower():
            share = _experts(path, {rank: ranks[rank] for rank in counts}, total)
        else:
            share = _blocks(path, here, {rank: ranks[rank] for rank in counts}, other) or _in_order(path, ranks, counts)
        for rank, known in share.items():
            numbers[rank][path] = known
    return numbers


def numbers_by_stage(ranks: Mapping[int, Weights], stages: Mapping[int, int]) -> dict[int, Numbers]:
    """Rank -> the numbers of its blocks in the whole model, where ranks of each stage of a pipeline count theirs from 0."""
    numbers: dict[int, Numbers] = {rank: {} for rank in ranks}
    lists = {
        rank: {path: known for path, known in _lists(weights).items() if "expert" not in path} for rank, weights in ranks.items()
    }
    for path in {path for known in lists.values() for path in known if not re.search(r"\.\d", path)}:
        counts = {stages[rank]: len(known.get(path, ())) for rank, known in lists.items()}
        for rank, stage in stages.items():
            first = sum(count for other, count in counts.items() if other < stage)
            numbers[rank][path] = {number: first + number for number in lists[rank].get(path, ())}
    return numbers


def _lists(weights: Iterable[str]) -> dict[str, set[int]]:
    """Path of a list of layers -> the numbers in it."""
    lists: defaultdict[str, set[int]] = defaultdict(set)
    for name in weights:
        parts = name.split(".")
        for place, part in enumerate(parts):
            if part.isdigit() and place:
                lists[".".join(parts[:place])].add(int(part))
    return dict(lists)


def _below(path: str, weights: Weights) -> dict[str, Tensor]:
    """The weights below a path, by the rest of their names."""
    return {name[len(path) + 1 :]: weight for name, weight in weights.items() if name.startswith(f"{path}.")}


def _classes(path: str, ranks: Mapping[int, Weights]) -> dict[int, int]:
    """Rank -> which of the different sets of weights below a path it holds, in the order of the ranks."""
    known: dict[tuple[tuple[str, str], ...], int] = {}
    return {
        rank: known.setdefault(tuple((name, weight.digest) for name, weight in sorted(_below(path, weights).items())), len(known))
        for rank, weights in ranks.items()
    }


def _experts(path: str, ranks: Mapping[int, Weights], total: int) -> dict[int, dict[int, int]]:
    """Megatron's rule: expert i of the r-th rank of a group is the r * n + i-th."""
    count = len(_lists(next(iter(ranks.values())))[path])
    if total % count:
        return {}
    size, classes = total // count, _classes(path, ranks)
    if len(set(classes.values())) != size:  # experts that begin alike, or shares of data with the same experts elsewhere
        classes = {rank: place % size for place, rank in enumerate(ranks)}
    return {rank: {number: classes[rank] * count + number for number in range(count)} for rank in ranks}


def _blocks(path: str, here: str, ranks: Mapping[int, Weights], other: Weights) -> dict[int, dict[int, int]]:
    """The blocks of the other run that begin with the same weights; nothing where they do not show it.

    Ranks may hold slices of a block: then those of some ranks, side by side or at equal distances, make the weights of one there.
    """
    blocks_there = {number: _below(f"{here}.{number}", other) for number in _lists(other)[here]}
    for groups in _groups_of_equal_size(list(ranks)):
        share: dict[int, dict[int, int]] = {rank: {} for rank in ranks}
        for members in groups:
            lists = [_lists(ranks[rank])[path] for rank in members]
            for number in lists[0] if all(known == lists[0] for known in lists) else ():
                block = [_below(f"{path}.{number}", ranks[rank]) for rank in members]
                fitting = [
                    place
                    for place, whole in blocks_there.items()  # each rank holds the weights of this block, or slices of them
                    if all(part.keys() == whole.keys() for part in block)
                    and all(_alike([part[name] for part in block], weight) for name, weight in whole.items())
                ]
                if len(fitting) == 1:
                    for rank in members:
                        share[rank][number] = fitting[0]
        if all(share[rank].keys() == _lists(ranks[rank])[path] for rank in ranks):
            return share
    return {}


def _groups_of_equal_size(ranks: list[int]) -> Iterator[list[list[int]]]:
    """Ranks that may hold slices of the same weights: one each, then more, neighbours first.

    >>> list(_groups_of_equal_size([0, 1, 2, 3]))[1:3]
    [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
    """
    count = len(ranks)
    for size in range(1, count + 1):
        if count % size == 0:
            yield [ranks[first : first + size] for first in range(0, count, size)]
            if 1 < size < count:
                yield [ranks[first :: count // size] for first in range(count // size)]


def _alike(parts: Sequence[Tensor], whole: Tensor) -> bool:
    """Whether tensors hold the same numbers as another, however they lie: each all of them, or all together."""
    if all(part.digest == parts[0].digest for part in parts):
        parts = parts[:1]
    if not all(tensor.figures for tensor in (*parts, whole)):  # a part of a fused weight
        return True
    if sum(part.size for part in parts) != whole.size or (len(parts) == 1 and sorted(parts[0].shape) != sorted(whole.shape)):
        return False
    made = figures_together(parts)
    return all(math.isclose(figure, whole.figures.get(name, 0.0), rel_tol=_ALIKE) for name, figure in made.items())


def _in_order(path: str, ranks: Mapping[int, Weights], counts: Mapping[int, int]) -> dict[int, dict[int, int]]:
    """Stages in the order of their ranks; ranks with equal weights are of one stage."""
    classes = _classes(path, {rank: ranks[rank] for rank in counts})
    starts: dict[int, int] = {}
    begin = 0
    for rank, stage in classes.items():
        if stage not in starts:
            starts[stage] = begin
            begin += counts[rank]
    return {rank: {number: starts[stage] + number for number in range(counts[rank])} for rank, stage in classes.items()}
