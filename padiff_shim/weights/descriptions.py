"""Models' descriptions of their own weights: Paddle's AOA statements, and paddlenlp's name mappings.

An AOA statement says how the weights of a checkpoint become those of a Paddle model::

    layers.$LAYER_ID.q.weight^T, layers.$LAYER_ID.k.weight^T -> layers.$LAYER_ID.qk.weight, axis=1

with ``^T`` for a transposed matrix, ``fused_qkv`` and ``fused_ffn`` for interleaved weights, ``permute``, ``dtype``, and ``_`` for
a weight without counterpart. Paddle's own engine (``paddle.distributed.flex_checkpoint.aoa``, in newer releases of Paddle 3) reads
them; this module turns its answer, which part of which source goes where, into pairs of weights. Every PaddleFormers model has
``_gen_aoa_config(config)``, which gives such statements from the names of the Hugging Face checkpoint. A model of paddlenlp has
``_get_name_mappings(config)``: pairs of names with an action.
"""

from __future__ import annotations

import bisect
import copy
import functools
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import ArgumentError, PadiffShimError, described
from ..text import tr
from . import tree
from .pairing import AS_DESCRIBED, Pair
from .rules import Cast
from .tree import AS_IS, Shape, Slot, ViewStep, WeightSide, narrow, permute, select, take, unflatten

_AOA, _NAMES = "_gen_aoa_config", "_get_name_mappings"
_ATTRIBUTES = ("fused_qkv", "fused_qkv_old", "fused_ffn")
_WORD = re.compile(r"[A-Za-z_][A-Za-z._*\d$]*")  # a name that a statement can have


def speaks(model: Any) -> bool:
    """Whether a model, or a class, describes its weights."""
    return any(callable(getattr(model, method, None)) for method in (_AOA, _NAMES))


def authors(layers: Mapping[str, Any]) -> list[Any]:
    """Who describes the weights of a model: itself, else models in it, else the classes of the module that its layers come from.

    Args:
        layers: the model's, by their paths.
    """
    speaking = {path: layer for path, layer in layers.items() if speaks(layer)}
    outer = [
        layer for path, layer in speaking.items() if not any(path != other and f"{path}.".startswith(other) for other in speaking)
    ]
    modules = dict.fromkeys(type(layer).__module__ for layer in layers.values())
    beside = (vars(sys.modules[name]).items() for name in modules if name in sys.modules and ".nn." not in name)
    return outer or [
        kind for names in beside for _, kind in names if isinstance(kind, type) and kind.__module__ in modules and speaks(kind)
    ]


@dataclass
class Description:
    """A description of how weights are laid out.

    Args:
        of: its author, for messages.
        statements: AOA statements.
        reverse: whether the statements are read from right to left.
        entries: name mappings.
        strict: whether every statement has to be applied: those of a caller, not those of a model for all models of its kind.
    """

    of: str
    statements: list[str] = field(default_factory=list)
    reverse: bool = False
    entries: list[Any] = field(default_factory=list)
    strict: bool = False


def described_by(model: Any, others: Iterable[Any] = ()) -> Description:
    """The description of its weights that a model or class gives.

    Args:
        model: the model, or its class.
        others: models whose ``config`` serves for a class.

    Raises:
        ArgumentError: the model's method fails.
    """
    kind = model if isinstance(model, type) else type(model)
    configs = (getattr(owner, "config", None) for owner in (model, *others))
    config = next((config for config in configs if config is not None), None)
    method = _AOA if callable(getattr(model, _AOA, None)) else _NAMES
    try:
        if method == _NAMES:
            return Description(f"{kind.__name__}.{method}", entries=list(getattr(model, method)(_with_architecture(config, kind))))
        written = getattr(model, method)(config)
        statements, reverse = list(written["aoa_statements"]), bool(written.get("aoa_config_reverse", False))
    except Exception as error:  # a class may raise anything for a config that it does not expect
        raise ArgumentError(
            "rules=: {type}.{method}(config) fails: {error_type}: {error}",
            type=kind.__name__,
            method=method,
            error_type=type(error).__name__,
            error=error,
        ) from error
    return Description(f"{kind.__name__}.{method}", statements, reverse)


def _with_architecture(config: Any, kind: type) -> Any:
    """A config that names its architecture, which decides about a prefix of the names."""
    if getattr(config, "architectures", ()) is not None:
        return config
    named = copy.copy(config)
    named.architectures = [kind.__name__]
    return named


class Answer(NamedTuple):
    """The answer of a description for two models: pairs, names of weights without counterpart, and notes."""

    pairs: list[Pair]
    alone: list[str]
    notes: list[str]


def by_description(
    description: Description, torch_side: WeightSide, paddle_side: WeightSide, wanted: set[str] | None = None
) -> Answer:
    """The pairs of a description; their weights are taken out of the trees.

    Args:
        wanted: names of weights of either side that it is used for, beside those whose parts it arranges in a way that no tree
            shows; None: all.

    Raises:
        ArgumentError: the description cannot be read, or does not fit the models.
    """
    answer = (_of_statements if description.statements else _of_entries)(description, torch_side, paddle_side)
    if not any(answer):
        raise ArgumentError("{of} names no weights of these two models", of=description.of)
    if wanted is not None:
        arranged = {pair.paddle for pair in answer.pairs if pair.rule is not None or not all(slot.whole for slot in pair.slots)}
        pairs = [pair for pair in answer.pairs if not (arranged | wanted).isdisjoint((pair.torch, pair.paddle))]
        answer = Answer(pairs, [name for name in answer.alone if name in wanted], answer.notes)
    spoken = {*answer.alone, *(name for pair in answer.pairs for name in (pair.torch, pair.paddle))}
    for side in (torch_side, paddle_side):
        take(side, lambda slot: slot.weight is not None and slot.weight.name in spoken)
    return answer


class _Vocabulary:
    """The weights of one model by the names that a description may use: whole weights, and single experts of a stack."""

    def __init__(self, side: WeightSide) -> None:
        self.side = side
        self.slots: dict[str, Slot] = {}
        bare = []
        for node in side.root.walk():
            for slot in (*node.slots, *node.extras):
                if slot.weight is not None and slot.weight.name not in self.slots:
                    weight = slot.weight
                    self.slots[weight.name] = Slot(slot.role, weight, weight.shape, AS_IS)
                    bare += [] if slot.settled else [weight.name]
        for name in bare:
            for alias, part in _experts(name, self.slots[name], self.slots):
                self.slots.setdefault(alias, part)

    def named_as_in(self, patterns: Sequence[re.Pattern[str]]) -> None:
        """Add the names with the prefix that a description adds, or without the prefix that it omits."""
        votes: Counter[tuple[str, str]] = Counter()
        for pattern in patterns:
            if self.holds(pattern):
                votes["", ""] += 1
                continue
            votes.update(_prefixes(pattern.pattern, self.slots))
        if votes:
            (add, drop), _ = votes.most_common(1)[0]
            for name, slot in list(self.slots.items()):
                if name.startswith(drop):
                    self.slots.setdefault(add + name.removeprefix(drop), slot)

    def holds(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.fullmatch(name) for name in self.slots)


def _prefixes(pattern: str, known: Iterable[str]) -> set[tuple[str, str]]:
    """(prefix to add to a name, prefix to remove from it) so that it matches a pattern: of a model in another, or a part of one."""
    words = pattern.split(r"\.")
    for count in range(max(len(words) - 1, 1)):
        longer = re.compile(r"((?:[A-Za-z_]\w*\.){0,3})" + r"\.".join(words[count:]))
        add = "".join(f"{word}." for word in words[:count]).replace(r"\d+", "0")
        if prefixes := {(add, match[1]) for name in known if (match := longer.fullmatch(name))}:
            return prefixes
    return set()


def _experts(name: str, slot: Slot, known: dict[str, Slot]) -> Iterator[tuple[str, Slot]]:
    """The names that single experts of a stack have in a checkpoint, with their parts: gate and up of ``gate_up_proj``."""
    if len(slot.shape) != 3:
        return
    path, leaf = tree.parent(name), tree.last_name(name)
    words = [word for word in ("gate", "up") if word in tree.words_of(leaf)]
    down = known.get(tree.joined(path, leaf.replace("gate_up", "down").replace("up_gate", "down")))
    rows = slot.shape[1]
    for number in range(slot.shape[0]):
        matrix = slot.at(select(0, number))
        if len(words) < 2:
            yield tree.joined(path, str(number), leaf, "weight"), matrix
        elif down is None or (rows, slot.shape[2]) == (2 * down.shape[2], down.shape[1]):  # [2 * n, in], of which down is [in, n]
            halves = sorted(words, key=leaf.index)
            for place, word in enumerate(halves):
                part = matrix.at(narrow(0, place * (rows // 2), (place + 1) * (rows // 2)))
                yield tree.joined(path, str(number), f"{word}_proj", "weight"), part


def _of_statements(description: Description, torch_side: WeightSide, paddle_side: WeightSide) -> Answer:
    """The pairs of AOA statements."""
    lines = [" ".join(str(line).split()) for line in description.statements]
    source, target = _directed(description, lines, torch_side, paddle_side)
    lines, notes = _read(description, lines, source, target)
    pairs: list[Pair] = []
    for name, parts in _engine(lines, description, source, target).items():
        pairs += _pairs_of(target.slots[name], [(source.slots[key], part) for key, part in parts], source.side is torch_side)
    alone = []
    for line in lines:
        ends = _ends(line, description.reverse)
        for library, names_, other in ((source, ends[0], ends[1]), (target, ends[1], ends[0])):
            if other == ["_"]:
                alone += [name for pattern in map(_pattern, names_) for name in library.slots if pattern.fullmatch(name)]
    return Answer(pairs, alone, notes)


def _directed(
    description: Description, lines: Sequence[str], torch_side: WeightSide, paddle_side: WeightSide
) -> tuple[_Vocabulary, _Vocabulary]:
    """(source, target) of the statements: the source has the names on their left. Adds names with fitting prefixes."""
    ends = [_ends(line, description.reverse) for line in lines]
    spoken = [[_pattern(name) for names in side for name in names if name != "_"] for side in zip(*ends)]
    fits = []
    for sides in ((torch_side, paddle_side), (paddle_side, torch_side)):
        source, target = map(_Vocabulary, sides)
        for library, patterns in zip((source, target), spoken):
            library.named_as_in(patterns)
        count = sum(library.holds(pattern) for library, patterns in zip((source, target), spoken) for pattern in patterns)
        fits.append((count, (source, target)))
    count, directed = max(fits, key=lambda fit: fit[0])  # of two the first
    if not count:
        raise ArgumentError(
            "{of}: the statements name no weight of these two models, such as {lines}", of=description.of, lines=repr(lines[0])
        )
    return directed


def _read(description: Description, lines: list[str], source: _Vocabulary, target: _Vocabulary) -> tuple[list[str], list[str]]:
    """The statements that can be applied, and notes on the others."""
    dropped: list[str] = []

    def is_refused(count: int) -> bool:
        try:
            _engine(lines[:count], description, source, target)
        except _Refused:
            return True
        return False

    if not description.strict:
        lines = list(_applicable(lines, source, target, reverse=description.reverse))
    while True:
        try:
            _engine(lines, description, source, target)
        except _Refused as refused:
            place = bisect.bisect_left(range(1, len(lines)), True, key=is_refused)  # the first statement with which reading fails
            if description.strict or len(dropped) > 8:
                raise ArgumentError(
                    "{of}: statement {lines} cannot be applied: {refused}",
                    of=description.of,
                    lines=repr(lines[place]),
                    refused=refused,
                ) from refused
            dropped.append(lines.pop(place))
        else:
            return lines, [f"{description.of}: not applied: {line!r}" for line in dropped]


def _engine(
    lines: list[str], description: Description, source: _Vocabulary, target: _Vocabulary
) -> dict[str, list[tuple[str, _Part]]]:
    """For each weight of the target in the statements, the parts of sources that it is made of."""
    shapes = (
        tuple((name, slot.shape) for name, slot in library.slots.items() if _WORD.fullmatch(name)) for library in (source, target)
    )
    return _read_by_paddle(tuple(lines), description.reverse, *shapes)


class _Refused(PadiffShimError):
    """Paddle's engine does not accept a statement."""


class _Part(NamedTuple):
    """A part of a source and its place in the target: offsets and sizes in order of the target's axes.

    ``axes``: for each axis of the target the axis of the source; ``dtype``: the dtype to which values are rounded on the way.
    """

    source: Shape
    target: Shape
    size: Shape
    axes: Shape
    dtype: str


@functools.lru_cache(maxsize=8)
def _read_by_paddle(
    lines: tuple[str, ...], reverse: bool, sources: tuple[tuple[str, Shape], ...], targets: tuple[tuple[str, Shape], ...]
) -> dict[str, list[tuple[str, _Part]]]:
    """The answer of Paddle's engine to statements.

    Raises:
        _Refused: it does not accept them.
        ArgumentError: this Paddle has no such engine.
    """
    try:
        from paddle.distributed.flex_checkpoint.aoa.aoa_engine import AOAEngine
        from paddle.distributed.flex_checkpoint.dcp.sharded_weight import ShardedWeightDesc
    except ImportError:
        import paddle

        raise ArgumentError(
            "AOA statements are read by Paddle's own engine (paddle.distributed.flex_checkpoint.aoa), which Paddle "
            "{version} does not have; split, unstack, gate_up and the other transforms of rules= say the same",
            version=paddle.__version__,
        ) from None

    def whole(shapes: Iterable[tuple[str, Shape]]) -> dict[str, list[Any]]:
        """Whole weights of one dtype: the engine refuses different dtypes without a cast; a transfer checks dtypes itself."""
        return {
            name: [
                ShardedWeightDesc(key=name, local_shape=shape, global_shape=shape, global_offset=(0,) * len(shape), dtype="float32")
            ]
            for name, shape in shapes
        }

    nothing = [f"{name} -> _" if reverse else f"_ -> {name}" for name, _ in targets]  # unless a statement says more
    config = {"aoa_statements": [*lines, *nothing], "aoa_config_reverse": reverse, "enable_traceback": False}
    wanted = whole(targets)
    try:
        engine = AOAEngine(config, source_state_shard_info=whole(sources), destination_state_shard_info=wanted)
        made = {}
        for name, shape in targets:
            output = engine.output_vars[name]
            if output is None:
                continue
            if tuple(output.shape) != shape:
                raise _Refused(
                    tr("it makes {name} {shape}, which is {wanted}", name=name, shape=list(output.shape), wanted=list(shape))
                )
            made[name] = [_part_of(entry) for entry in engine.find_shard_sources(wanted[name][0])]
        return made
    except _Refused:
        raise
    except Exception as error:  # assertions, syntax errors, key errors
        raise _Refused((str(error).splitlines() or [type(error).__name__])[0][:300]) from error


def _part_of(entry: Any) -> tuple[str, _Part]:
    steps = entry.postprocess_list or []
    axes = tuple(range(len(entry.source_slice.local_shape)))
    for step in steps:
        if step.startswith("["):
            axes = tuple(axes[axis] for axis in map(int, re.findall(r"\d+", step)))
    dtypes = [step for step in steps if not step.startswith("[")]
    offset = tuple(entry.source_slice.global_offset[axis] for axis in axes)
    target = entry.target_slice
    return entry.source_slice.key, _Part(
        offset, tuple(target.global_offset), tuple(target.local_shape), axes, *(dtypes[-1:] or [""])
    )


def _pairs_of(target: Slot, parts: Sequence[tuple[Slot, _Part]], is_torch: bool) -> Iterator[Pair]:
    """The pairs of one weight of the target; parts that lie evenly are one pair."""
    groups: dict[Any, list[_Part]] = {}
    for slot, part in parts:
        groups.setdefault((slot, part.axes, part.dtype), []).append(part)
    for (source, axes, dtype), group in groups.items():
        for source_view, target_view in _views(source, target, axes, _joined(group)):
            ends = (source_view, target_view) if is_torch else (target_view, source_view)
            yield Pair(*ends, AS_DESCRIBED, cast=Cast(dtype) if dtype else None)


def _joined(parts: list[_Part]) -> list[_Part]:
    """The parts, joined where one continues another on both sides."""
    for axis in range(len(parts[0].size)):
        joined: list[_Part] = []
        for part in sorted(parts, key=lambda part: (*(n for i, n in enumerate(part.target) if i != axis), part.target[axis])):
            last = joined[-1] if joined else None
            if last is not None and _goes_on(last, part, axis):
                size = (*last.size[:axis], last.size[axis] + part.size[axis], *last.size[axis + 1 :])
                joined[-1] = last._replace(size=size)
            else:
                joined.append(part)
        parts = joined
    return parts


def _goes_on(part: _Part, following: _Part, axis: int) -> bool:
    rows = list(zip(part.source, part.target, part.size, following.source, following.target, following.size))
    elsewhere = all(row[:3] == row[3:] for place, row in enumerate(rows) if place != axis)
    source, target, size, *then = rows[axis]
    return elsewhere and then[:2] == [source + size, target + size]


def _views(source: Slot, target: Slot, axes: Shape, parts: list[_Part]) -> Iterator[tuple[Slot, Slot]]:
    even = _evenly(source, target, axes, parts)
    if even is not None:
        yield even
        return
    for part in parts:
        yield (
            _turned(source.at(*_narrowed(part.source, part.size, axes, source.shape)), axes),
            target.at(*_narrowed(part.target, part.size, tuple(range(len(axes))), target.shape)),
        )


def _narrowed(offset: Shape, size: Shape, axes: Shape, shape: Shape | dict[int, int]) -> list[ViewStep]:
    return [
        narrow(axis, start, start + length)
        for start, length, axis in zip(offset, size, axes)
        if (start, length) != (0, shape[axis])
    ]


def _turned(slot: Slot, axes: Shape) -> Slot:
    return slot if axes == tuple(range(len(axes))) else slot.at(permute(*axes))


def _evenly(source: Slot, target: Slot, axes: Shape, parts: list[_Part]) -> tuple[Slot, Slot] | None:
    """Both views of parts of one size at equal distances that fill their axes; None for other parts."""
    varying = [axis for axis in range(len(axes)) if len({part.target[axis] for part in parts}) > 1]
    if len(varying) != 1:
        return None
    axis = varying[0]
    own, count, length = axes[axis], len(parts), parts[0].size[axis]
    ends = []
    for starts, rows in (
        ([part.target[axis] for part in parts], target.shape[axis]),
        ([part.source[axis] for part in parts], source.shape[own]),
    ):
        step = starts[1] - starts[0]
        even = step > 0 and step * count == rows and starts == [starts[0] + place * step for place in range(count)]
        if not even or starts[0] + length > step:
            return None
        ends.append((step, starts[0]))
    rest = [
        part._replace(source=_without(part.source, axis), target=_without(part.target, axis), size=_without(part.size, axis))
        for part in parts
    ]
    whole = all(part.size == rest[0].size and not any((*part.source, *part.target)) for part in rest)
    if not whole or _without(target.shape, axis) != rest[0].size or len({part.size for part in parts}) > 1:
        return None
    (step, start), (own_step, own_start) = ends
    view = target.at(unflatten(axis, count, step), *_narrowed((start,), (length,), (axis + 1,), {axis + 1: step}))
    source_view = source.at(unflatten(own, count, own_step), *_narrowed((own_start,), (length,), (own + 1,), {own + 1: own_step}))
    order = [new for old in axes for new in ([own, own + 1] if old == own else [old + (old > own)])]
    return _turned(source_view, tuple(order)), view


def _without(numbers: Shape, place: int) -> Shape:
    return (*numbers[:place], *numbers[place + 1 :])


def _applicable(lines: Iterable[str], source: _Vocabulary, target: _Vocabulary, *, reverse: bool) -> Iterator[str]:
    """The statements whose sources exist; in PaddleFormers one list serves several kinds of a model."""
    made: list[str] = []
    for line in lines:
        ends = _ends(line, reverse)
        known = [name == "_" or name in made or source.holds(_pattern(name)) for name in ends[0]]
        wanted = any(name == "_" or target.holds(_pattern(name)) for name in ends[1])
        if all(known):
            made += ends[1]
            yield line
        elif wanted and any(known):
            yield line


def _ends(line: str, reverse: bool) -> tuple[list[str], list[str]]:
    """The names of a statement's sources, and of its targets."""
    left, right = ([word.strip() for word in side.split(",")] for side in line.partition("->")[::2])
    names = list(itertools.takewhile(lambda word: "=" not in word and word not in _ATTRIBUTES, right))
    ends = [name.removesuffix("^T") for name in left], names
    return ends[::-1] if reverse else ends


def _pattern(name: str) -> re.Pattern[str]:
    """A name of a statement as a regular expression: ``$LAYER_ID`` and ``*`` are numbers."""
    name = re.sub(r"\[\d+:\d+\]$", r"_*", name)
    return re.compile(
        "".join(r"\d+" if word[:1] in "$*" and word else re.escape(word) for word in re.split(r"(\$[A-Z_]+|\*)", name))
    )


def _of_entries(description: Description, torch_side: WeightSide, paddle_side: WeightSide) -> Answer:
    """The pairs of name mappings, each (source_name, target_name, action, index)."""
    torch_names, paddle_names = _Vocabulary(torch_side), _Vocabulary(paddle_side)
    for library, attribute in ((torch_names, "source_name"), (paddle_names, "target_name")):
        library.named_as_in([re.compile(re.escape(str(getattr(entry, attribute)))) for entry in description.entries])
    pairs, notes = [], []
    for entry in description.entries:
        source, target = torch_names.slots.get(entry.source_name), paddle_names.slots.get(entry.target_name)
        if source is None or target is None:
            continue
        pair = _of_action(source, target, entry.action, entry.index)
        if pair is None:
            ends = f"{entry.source_name} {list(source.shape)} and {entry.target_name} {list(target.shape)}"
            notes.append(f"{description.of}: {ends} do not fit, action {described(entry.action)}")
        else:
            pairs.append(pair)
    return Answer(pairs, [], notes)


def _of_action(source: Slot, target: Slot, action: Any, index: int | None) -> Pair | None:
    """The pair of one entry; None if shapes do not fit."""
    if callable(action):
        return Pair(source, target, AS_DESCRIBED, rule=lambda value: torch.as_tensor(np.array(action(value.numpy()))))
    last = len(source.shape) - 1
    if action == "transpose" and last == 1:
        source = source.at(permute(1, 0))
    elif action == "merge_last_two_dim" and last == 2 and target.shape == (source.shape[0], math.prod(source.shape[1:])):
        target = target.at(unflatten(1, *source.shape[1:]))
    elif action == "split" and index is not None and source.shape[last] % 3 == 0:
        share = source.shape[last] // 3
        source = source.at(narrow(last, index * share, (index + 1) * share))
    elif action is not None:
        return None
    return Pair(source, target, AS_DESCRIBED) if source.shape == target.shape else None
