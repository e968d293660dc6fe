"""What a rank calls its share of a list of layers: which experts, and which blocks of a pipeline, these are in the whole model."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .names import Weights
from .tensors import Tensor, figures_together

Numbers = dict[str, dict[int, int]]  # path of a list of layers -> number of a layer on this rank -> its number in the whole model
_ALIKE = 1e-9  # relative: sums of the same numbers in another order, in float64


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


def numbers_of(ranks: Mapping[int, Weights], other: Weights, stages: Mapping[int, int] | None = None) -> dict[int, Numbers]:
    """Rank -> the numbers of its layers in the whole model, where every rank counts from 0 and the ``other`` run has more layers.

    Experts go to the ranks in their order. Blocks of a pipeline are known by their weights, which are those of one block of the
    other run; where these do not say it, they go to the ranks in their order, too. ``stages`` are those of the ranks where the
    other run counts from 0 on each rank as well, so that they alone say it.
    """
    numbers: dict[int, Numbers] = {rank: {} for rank in ranks}
    whole = _lists(other)
    lists = {rank: _lists(weights) for rank, weights in ranks.items()}
    for path in sorted(set().union(*lists.values()), key=lambda path: path.count(".")):
        counts = {rank: len(known[path]) for rank, known in lists.items() if path in known}
        holders = {rank: ranks[rank] for rank in counts}
        if stages is not None:
            divided = "expert" not in path and not re.search(r"\.\d", path)
            share = _in_order(counts, stages) if divided else {}
        else:
            here = next(renumbered(path, numbers[rank]) for rank in counts)
            total = len(whole.get(here, ()))
            if any(lists[rank][path] != set(range(count)) for rank, count in counts.items()) or max(counts.values()) >= total:
                continue
            if "expert" in path.lower():
                share = _experts(path, holders, total)
            else:  # ranks that begin with equal weights are of one stage
                share = _blocks(path, here, holders, other) or _in_order(counts, _classes(path, holders))
        for rank, known in share.items():
            numbers[rank][path] = known
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


def _in_order(counts: Mapping[int, int], stages: Mapping[int, int]) -> dict[int, dict[int, int]]:
    """Rank -> the numbers of its so many layers, where those of each stage follow those of the stage before."""
    lengths = {stages[rank]: count for rank, count in counts.items()}
    starts = {stage: sum(length for other, length in lengths.items() if other < stage) for stage in lengths}
    return {rank: {number: starts[stages[rank]] + number for number in range(count)} for rank, count in counts.items()}
