"""Fused layers of one run (query, key and value; gate and up) against separate ones of the other: taken apart as they are read."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import tensors as contents
from .names import Shapes
from .tensors import WEIGHT, Array, Tensor, is_weight

if TYPE_CHECKING:
    from .reading import Recorded, RecordedStep

# The parts of a fused layer in their order: the words that the name of each may have. Weights of Llama's own code are w1 and w3.
_PARTS = (
    (("q", "query", "wq"), ("k", "key", "wk"), ("v", "value", "wv")),
    (("q", "query", "wq"), ("kv",)),
    (("k", "key", "wk"), ("v", "value", "wv")),
    (("gate", "w1", "wg"), ("up", "w3", "wu")),
)
_ROWS = 8  # of a layer's result that are compared to learn how its parts lie
_ALIKE = 1e-3  # relative: the same but for rounding


@dataclass(frozen=True)
class Fusion:
    """A layer that holds several of the other run.

    Attributes:
        whole: its own name, the last word of its path.
        parts: their own names, in the order of their rows.
        sizes: of the parts, as proportions.
        laid: number of the whole's rows -> which of them are each part's; of other numbers the parts lie behind each other.
        called: the parts' names in the order of the other run's calls, where that is known.
    """

    whole: str
    parts: tuple[str, ...]
    sizes: tuple[int, ...]
    called: tuple[str, ...] = ()
    laid: Mapping[int, list[Array]] = field(default_factory=dict, compare=False)

    def paths(self, path: str) -> list[str]:
        """Of the parts of the layer with this path; none of another layer."""
        above, dot, own = path.rpartition(".")
        return [f"{above}{dot}{part}" for part in self.parts] if own == self.whole else []

    def names(self, name: str) -> list[str]:
        """Of the parts' weights."""
        path, dot, role = name.rpartition(".")
        return [f"{part}{dot}{role}" for part in self.paths(path)]

    def turn(self, part: str) -> int:
        """When the other run calls a part."""
        return (self.called or self.parts).index(part)

    def places(self, size: int) -> list[Array]:
        """Which of so many rows are each part's; none where they cannot be divided so."""
        if size in self.laid or size % sum(self.sizes):
            return self.laid.get(size, [])
        return np.split(np.arange(size), np.cumsum(self.sizes)[:-1] * (size // sum(self.sizes)))


@dataclass(eq=False)
class PartTensor(Tensor):
    """A part of a fused tensor; its bits and figures are those of its values, and not known without them.

    Attributes:
        whole: the fused tensor.
        axis: along which the parts lie.
        rows: the part's own.
    """

    whole: Tensor | None = None
    axis: int = -1
    chosen: Array = field(default_factory=lambda: np.empty(0, np.int64), repr=False)

    def values(self) -> Array | None:
        """Those of the whole at the part's rows."""
        values = None if self.whole is None else self.whole.values()
        return None if values is None else np.ascontiguousarray(np.take(values, self.chosen, self.axis))


def taken_apart(tensor: Tensor, fusions: Sequence[Fusion], framework: str) -> Iterator[Tensor]:
    """A tensor, or those of the separate layers that it holds."""
    weight = is_weight(tensor)
    for fusion in fusions if tensor.shape and (weight or tensor.kind in ("op", "layer")) else ():
        paths = fusion.names(tensor.name) if weight else fusion.paths(tensor.layer)
        axis = _axis(framework, len(tensor.shape)) if weight else len(tensor.shape) - 1
        places = fusion.places(tensor.shape[axis]) if paths else []
        if places and (weight or tensor.shape[-1] >= len(paths)):
            parts = zip(map(fusion.turn, fusion.parts), paths, places)
            yield from (_part(tensor, path, axis, rows, weight=weight) for _, path, rows in sorted(parts, key=lambda part: part[0]))
            return
    yield tensor


def gathered(tensors: Sequence[Tensor], fusions: Sequence[Fusion], framework: str) -> list[Tensor]:
    """What a step computed, the results and weights of separate layers as those of the fused one, by their figures alone."""
    whole = list[Tensor]()
    waiting: defaultdict[object, dict[str, Tensor]] = defaultdict(dict)
    count = Counter[object]()
    for tensor in tensors:
        weight = is_weight(tensor)
        path, _, role = tensor.name.rpartition(".") if weight else (tensor.layer, "", "" if tensor.kind == "layer" else tensor.name)
        above, dot, own = path.rpartition(".")
        fusion = next((fusion for fusion in fusions if own in fusion.parts), None)
        if fusion is None or not tensor.shape or not (weight or tensor.kind in ("op", "layer")):
            whole.append(tensor)
            continue
        key = tensor.kind, tensor.tensor, path, role
        parts = waiting[fusion, tensor.kind, tensor.tensor, above, role, count[key]]
        count[key] += 1
        parts[own] = tensor
        if len(parts) == len(fusion.parts):
            axis = _axis(framework, len(tensor.shape)) if weight else len(tensor.shape) - 1
            size = sum(part.shape[axis] for part in parts.values())
            shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
            named: dict[str, Any] = {"layer": f"{above}{dot}{fusion.whole}"}
            named = {"names": (f"{above}{dot}{fusion.whole}.{role}",)} if weight else named
            figures = contents.figures_together(list(parts.values()))
            gathered_tensor = dataclasses.replace(tensor, shape=shape, digest="", figures=figures, sample=(), reads=None, **named)
            gathered_tensor._at = None
            whole.append(gathered_tensor)
            parts.clear()
    return sorted([*whole, *(part for parts in waiting.values() for part in parts.values())], key=lambda tensor: tensor.index)


def renamed(table: Mapping[str, Any], fusions: Sequence[Fusion], gathers: Sequence[Fusion]) -> dict[str, Any]:
    """A table by names of weights as :func:`taken_apart` and :func:`gathered` name them."""
    more = dict(table)
    for name, value in table.items():
        above, _, own = name.rpartition(".")[0].rpartition(".")
        names = [part for fusion in fusions for part in fusion.names(name)]
        names += [".".join(filter(None, (above, f.whole, name.rpartition(".")[2]))) for f in gathers if own in f.parts]
        if names:
            del more[name]
            more |= dict.fromkeys(names, value)
    return more


def _axis(framework: str, dimensions: int) -> int:
    """Along which the outputs of a linear layer's weight lie."""
    return dimensions - 1 if framework == "paddle" else 0


def _part(tensor: Tensor, path: str, axis: int, rows: Array, *, weight: bool) -> Tensor:
    known = {entry.name: getattr(tensor, entry.name) for entry in dataclasses.fields(Tensor)}
    known |= {"shape": (*tensor.shape[:axis], len(rows), *tensor.shape[axis + 1 :]), "digest": "", "figures": {}, "sample": ()}
    known |= {"names": (path,)} if weight else {"layer": path}
    part = PartTensor(**known, whole=tensor, axis=axis, chosen=rows)
    array = part.values()
    if array is not None:
        part.digest = contents.digest(contents.as_bfloat16(array) if tensor.dtype == "bfloat16" else array)
        part.figures = contents.figures(array)
    return part


def fusions_of(wholes: Shapes, parts: Shapes, frameworks: tuple[str, str]) -> list[Fusion]:
    """The layers of the first run, or of its ranks, that hold several of the second: by the names of these, and by shapes."""
    fused, separate = _layers(wholes, frameworks[0]), _layers(parts, frameworks[1])
    beside, siblings = (defaultdict[str, list[str]](list) for _ in range(2))
    for paths, names in ((fused, beside), (separate, siblings)):
        for path in paths:
            names[path.rpartition(".")[0]].append(path.rpartition(".")[2])
    fusions: dict[str, Fusion | None] = {}
    for path, shape in fused.items():
        above, _, name = path.rpartition(".")
        if any(name in others for others in siblings.values()):
            continue
        own = set().union(*(_words(other) for other in beside[above] if other != name))
        fitting = {
            Fusion(name, tuple(names), tuple(size // math.gcd(*sizes) for size in sizes)): None
            for parent, others in siblings.items()
            if _alike(parent, above)
            for roles, names in _role_sets(others)
            if own.isdisjoint(itertools.chain(*roles))
            and (sizes := _sizes(shape, [separate[f"{parent}.{part}".lstrip(".")] for part in names]))
        }
        known = next(iter(fitting), None)
        fusions[name] = known if fusions.get(name, known) == known else None
    return [fusion for fusion in fusions.values() if fusion is not None]


def _layers(shapes: Shapes, framework: str) -> dict[str, tuple[int, int]]:
    """Path of a linear layer -> how many outputs and inputs it has."""
    turn = 1 if framework == "paddle" else -1
    return {
        name.removesuffix(".weight"): (shape[::-turn][0], shape[::-turn][1])
        for name, shape in shapes.items()
        if name.endswith(".weight") and len(shape) == 2
    }


def _alike(path: str, other: str) -> bool:
    """Whether two paths are the same but for numbers, which each rank may count for itself, and for layers around the model."""
    plain = [re.sub(r"\d+", "#", text).split(".") for text in (path, other)]
    shorter = min(map(len, plain))
    return shorter == 0 or plain[0][-shorter:] == plain[1][-shorter:]


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+\d*", name.lower().replace("_", " ")))


def _role_sets(names: Sequence[str]) -> Iterator[tuple[tuple[tuple[str, ...], ...], list[str]]]:
    """Sibling layers, one for each part of a fused one, behind the words of these parts."""
    words = {name: _words(name) for name in names}
    for roles in _PARTS:
        called = [[name for name in names if words[name].intersection(role)] for role in roles]
        if all(len(alone) == 1 for alone in called) and len({alone[0] for alone in called}) == len(roles):
            yield roles, [alone[0] for alone in called]


def _sizes(whole: tuple[int, int], parts: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Outputs of the parts, if they are together those of the whole, or of the slices of it that some ranks hold.

    Ranks that share a key and a value hold a slice of the query alone.
    """
    outputs = tuple(size for size, _ in parts)
    if not whole[0] or any(inputs != whole[1] for _, inputs in parts):
        return ()
    query = whole[0] - sum(outputs[1:])
    if len(outputs) == len(_PARTS[0]) and 0 < query < outputs[0] and not outputs[0] % query:
        return (query, *outputs[1:])
    return () if sum(outputs) % whole[0] else outputs


def take_apart(runs: Sequence[Recorded], others: Sequence[Recorded]) -> None:
    """Have the processes of two runs read as if each layer were separate that is separate in one of them.

    A part of a fused tensor is known by its values alone; without them the other run's parts are put together.
    """
    for own, other in ((runs, others), (others, runs)):
        _take_apart(own, other)


def _take_apart(runs: Sequence[Recorded], others: Sequence[Recorded]) -> None:
    """The fused layers of the first run."""
    steps = [[step for run in side if (step := next(run.steps(), None)) is not None] for side in (runs, others)]
    if not all(steps):
        return
    frameworks = runs[0].framework, others[0].framework
    fusions = fusions_of(shapes_of_weights(steps[0]), shapes_of_weights(steps[1]), frameworks)
    if not all(run.has_values for run in runs):
        for run in others:
            run.gathers += [fusion for fusion in fusions if fusion not in run.gathers]
        return
    wholes, parts = steps[0][0], steps[1]
    ways = [arranged(fusion, wholes, parts, frameworks) for fusion in fusions] + list(reordered(wholes, parts))
    for run in runs:
        run.fusions += [way for way in ways if way not in run.fusions]


def shapes_of_weights(steps: Iterable[RecordedStep]) -> Shapes:
    """Of those with which processes begin, by name."""
    return {weight.name: weight.shape for step in steps for weight in step.inputs if weight.tensor == WEIGHT}


def arranged(fusion: Fusion, wholes: RecordedStep, parts: Sequence[RecordedStep], frameworks: tuple[str, str]) -> Fusion:
    """How the parts lie in a fused layer: by its weight, or what it returns, and those of the other run, with values in both."""
    tensors = [tensor for step in parts for tensor in step.tensors]
    own = [tensor.layer.rpartition(".")[2] for tensor in tensors if tensor.kind == "layer"]
    called = tuple(dict.fromkeys(name for name in own if name in fusion.parts))
    laid: dict[int, list[Array]] = {}
    for whole in wholes.tensors:
        paths = fusion.paths(_path(whole))
        rows = _rows(whole, frameworks[0]) if paths else None
        if rows is None or rows.shape[1] in laid:
            continue
        peers = [[tensor for tensor in tensors if tensor.kind == whole.kind and _of_part(tensor, path)] for path in paths]
        others = [[known for tensor in side if (known := _rows(tensor, frameworks[1])) is not None] for side in peers]
        ways = [known for blocks in zip(*others) for known in _matched(rows, blocks, fusion.sizes)]
        if ways:
            _, laid[rows.shape[1]] = min(ways, key=lambda way: way[0])
    return dataclasses.replace(fusion, called=called if len(called) == len(fusion.parts) else (), laid=laid)


def reordered(wholes: RecordedStep, parts: Sequence[RecordedStep]) -> Iterator[Fusion]:
    """Layers of both runs whose outputs lie in another order, as fused ones may, where the layer around them returns the same."""
    returned = {(tensor.layer, tensor.shape): tensor for step in parts for tensor in step.tensors[::-1] if tensor.kind == "layer"}
    inside = defaultdict[str, list[Fusion]](list)
    for tensor in wholes.tensors:
        other = returned.get((tensor.layer, tensor.shape)) if tensor.kind == "layer" else None
        rows, others = None if other is None else _rows(tensor, ""), None if other is None else _rows(other, "")
        if rows is None or others is None:
            continue
        if np.linalg.norm(rows - others) <= _ALIKE * np.linalg.norm(others):
            yield from inside.pop(tensor.layer, [])
        elif np.linalg.norm(np.sort(rows[0]) - np.sort(others[0])) <= _ALIKE * np.linalg.norm(others[0]):
            above, _, name = tensor.layer.rpartition(".")
            ways = [laid for apart, laid in _matched(rows, [others], (1,)) if apart <= _ALIKE]
            inside[above] += [Fusion(name, (name,), (1,), laid={rows.shape[1]: laid}) for laid in ways]


def _matched(rows: Array, parts: Sequence[Array], sizes: Sequence[int]) -> Iterator[tuple[float, list[Array]]]:
    """How far outputs of a whole are from the nearest ones of the parts, relative, and which of them are each part's.

    A rank may hold a slice of each part, and some of the rows. One part may be unlike: what is left is its.
    """
    share, count = rows.shape[1] // sum(sizes), min(len(rows), _ROWS)
    owners = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    for first in range(0, len(parts[0]) - count + 1, len(rows)):
        outputs = np.concatenate([part[first : first + count] for part in parts], 1)
        apart = [np.abs(outputs - own[:, None]).sum(0) for own in rows[:count].T]
        nearest = np.array([distances.argmin() for distances in apart])
        laid = [np.flatnonzero(owners[nearest] == part) for part in range(len(parts))]
        laid = [places[np.argsort(nearest[places])] for places in laid]
        like = [len(places) == len({*nearest[places]}) == size * share for places, size in zip(laid, sizes)]
        if like.count(False) == 1 < len(parts):
            others = np.concatenate([places for places, known in zip(laid, like) if known])
            laid[like.index(False)] = np.setdiff1d(np.arange(rows.shape[1]), others)
        if all(like) or like.count(False) == 1 < len(parts):
            yield float(sum(map(np.min, apart)) / (np.abs(rows[:count]).sum() or 1.0)), laid


def _path(tensor: Tensor) -> str:
    """That of the layer that has returned a tensor, or whose weight it is; "" of others."""
    if tensor.kind == "parameter":
        return tensor.name.removesuffix(".weight") if len(tensor.shape) == 2 else ""
    return tensor.layer if tensor.kind == "layer" else ""


def _of_part(tensor: Tensor, path: str) -> bool:
    """Whether a tensor is one of a part's, in any block, where ranks count their own."""
    own = _path(tensor)
    return own.rpartition(".")[2] == path.rpartition(".")[2] and _alike(own, path)


def _rows(tensor: Tensor, framework: str) -> Array | None:
    """Its values, outputs along the last axis."""
    values = tensor.values() if tensor.shape else None
    if values is None or values.dtype.kind != "f":
        return None
    values = values.T if tensor.kind == "parameter" and framework == "torch" else values
    return values.reshape(-1, values.shape[-1]).astype(np.float64)
