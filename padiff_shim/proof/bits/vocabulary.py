"""What Torch's kernels are called in Paddle's words, derived from the table of ops: no list says it.

The formula of each op is run on its samples. The kernels that it calls, and the values between them, are a phrase; the op's public
function is how Paddle says it. An argument is known by the attribute of a kernel that is equal to it in all samples.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
import torch

from ...catalogue.registry import ops
from ...table.op import Op
from ...table.samples import Sample
from ...table.signature import REQUIRED, parse
from ..trace import Capture, TraceCall, TraceOperand, Value

Place = tuple[int, str]  # of a phrase's kernel, and the name of its attribute
_OTHER_NAMES = {
    "scale": "weight", "groups": "num_groups", "epsilon": "eps", "sections": "num_or_sections", "paddings": "pad",
    "pad_value": "value", "add_value": "value",
}  # in public functions  # fmt: skip
_WORDS = {"none": 0, "mean": 1, "sum": 2, "tanh": True}  # that kernels have for what Paddle says otherwise, or the other way round
_KERNELS_NAMES = {"axis": "dim", "p": "ord"}
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum"})
_MOST_SAMPLES = 6
_NOT_WRITTEN = "paddle._", "paddle.Tensor.", "paddle.incubate.", "paddle.einsum"


@dataclass(eq=False)
class Phrase:
    """A call of Paddle's API, as the kernels that answer it.

    Attributes:
        function: its name in a program, with ``F`` for ``paddle.nn.functional``.
        defaults: its parameters, in order.
        kernels: in order; the last makes the result.
        tensors: which values are which parameters. ``whole``: the parameter that holds all operands as a sequence.
        settings: the other parameters of this call. ``plain``: those that are what the op has by default.
        attribute_of: for each of them that a kernel tells: by which attribute.
        free: the other attributes that are not the same in all samples: they follow from shapes, or from what is said otherwise.
    """

    function: str
    defaults: Mapping[str, Any]
    kernels: list[TraceCall]
    tensors: dict[Value, str]
    whole: str
    settings: dict[str, Any]
    plain: frozenset[str] = frozenset()
    attribute_of: Mapping[str, Place] = field(default_factory=dict)
    free: frozenset[Place] = frozenset()

    @property
    def places(self) -> Iterator[tuple[Place, Any]]:
        """All attributes of its kernels."""
        for number, kernel in enumerate(self.kernels):
            rank = kernel.operands[0].tensor.dim() if kernel.operands else 0
            yield from (((number, name), _placed(name, value, rank)) for name, value in kernel.attributes.items())

    @property
    def rank(self) -> int:
        """How many axes its first operand has."""
        return self.kernels[0].operands[0].tensor.dim() if self.kernels[0].operands else 0

    @property
    def kind(self) -> tuple[Any, ...]:
        """What it has in common with those that say the same of other numbers."""
        settings = sorted((name, repr(value)) for name, value in self.settings.items() if name not in self.attribute_of)
        return (
            self.function,
            *(kernel.name for kernel in self.kernels),
            *sorted(self.tensors.values()),
            *sorted(self.attribute_of),
            *settings,
        )

    def matched(self, call: TraceCall) -> Match | None:
        """Another program's calls, up to this one, as this phrase; None if they are not."""
        match = Match(self, {}, {}, {})
        if not self._matches(self.kernels[-1], call, match):
            return None
        known_places = set(self.attribute_of.values())
        sizes = [{1}.union(*map(_sizes, calls)) for calls in (self.kernels, match.calls.values())]
        for place, value in self.places:
            other = match.attribute(place)
            of_shape = all(
                isinstance(each, (int, list)) and set(each if isinstance(each, list) else [each]) <= known
                for each, known in zip((value, other), sizes)
            )
            if not (place in known_places or place in self.free or of_shape or _alike(value, other)):
                return None
        return match

    def _matches(self, kernel: TraceCall, call: TraceCall, match: Match) -> bool:
        number = self.kernels.index(kernel)
        if kernel.name != call.name or match.calls.setdefault(number, call) is not call:
            return False
        if self.whole and len(self.kernels) == 1:
            match.operands[self.whole] = [(call, operand) for operand in call.operands]
            return True
        numbers = {
            operand.name: self.tensors[operand.value]
            for operand in kernel.operands
            if operand.name in call.attributes and operand.value in self.tensors  # a number in a tensor's place
        }
        match.numbers.update((name, call.attributes[word]) for word, name in numbers.items())
        operands = [operand for operand in kernel.operands if operand.name not in numbers]
        if len(operands) != len(call.operands) or call.attributes.keys() - kernel.attributes.keys() - numbers.keys():
            return False
        orders = [call.operands, call.operands[::-1]] if call.name in _COMMUTATIVE else [call.operands]
        for order in orders:
            before = dict(match.calls), dict(match.operands)
            if all(self._reads(operand, call, other, match) for operand, other in zip(operands, order)):
                return True
            match.calls, match.operands = before
        return False

    def _reads(self, operand: TraceOperand, call: TraceCall, other: TraceOperand, match: Match) -> bool:
        name = self.tensors.get(operand.value)
        if name is not None:
            shapes = [other.value.tensor.shape, *(step.shape for step in other.way)]
            shape = shapes[max(len(shapes) - 1 - len(operand.way), 0)]  # as it came, before the formula's own steps
            whole = operand.way and other.value.tensor.numel() == math.prod(shape)  # not one that is repeated
            shaped = other._replace(tensor=other.value.tensor.reshape(shape)) if whole else other
            return match.operands.setdefault(name, [(call, shaped)])[0][1].value is other.value
        maker, its = operand.value.node, other.value.node
        if maker is None or its is None:
            return maker is its and torch.equal(operand.value.tensor.double(), other.value.tensor.double())
        results = [values.values.index(value) for values, value in ((maker, operand.value), (its, other.value))]
        return results[0] == results[1] and self._matches(maker, its, match)


@dataclass
class Match:
    """Calls of another program as a phrase.

    Attributes:
        calls: by the number of its kernel. ``operands``: of these calls, by parameter; ``numbers``: those that are numbers.
    """

    phrase: Phrase
    calls: dict[int, TraceCall]
    operands: dict[str, list[tuple[TraceCall, TraceOperand]]]
    numbers: dict[str, Any]

    def attribute(self, place: Place) -> Any:
        """An attribute of these calls."""
        call = self.calls[place[0]]
        rank = call.operands[0].tensor.dim() if call.operands else 0
        return _placed(place[1], call.attributes.get(place[1]), rank)

    def settings(self) -> Iterator[tuple[str, Any]]:
        """The arguments that are no tensors."""
        yield from self.numbers.items()
        for name, value in self.phrase.settings.items():
            place = self.phrase.attribute_of.get(name)
            if place is None:
                if name not in self.phrase.plain:
                    yield name, value
                continue
            other = self.attribute(place)
            if isinstance(value, str) and not isinstance(other, str):
                other = next((word for word, number in _WORDS.items() if number == other), other)
            elif isinstance(value, bool):
                other = bool(_WORDS.get(str(other), other))
            if isinstance(other, (list, tuple)):
                other = other[0] if not isinstance(value, (list, tuple)) and len(set(other)) == 1 else list(other)
            if other not in (None, []):
                yield name, other


def _placed(name: str, value: Any, rank: int) -> Any:
    """An attribute; axes counted from the last, which is the same where a program has the first ones in another shape."""
    if name != "dim" or isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_placed(name, each, rank) for each in value]
    return value - rank if value >= 0 else value


def phrases(call: TraceCall) -> Sequence[Phrase]:
    """Those that end with a call's kernel: of operands of as many axes first, then the longest, then what bears its name."""
    ranks = [operand.tensor.dim() for operand in call.operands]
    known = _all().get(call.name, ())  # those of other ranks last
    return sorted(known, key=lambda each: [operand.tensor.dim() for operand in each.kernels[-1].operands] != ranks)


@functools.cache
def _all() -> Mapping[str, Sequence[Phrase]]:
    by_kernel: dict[str, list[Phrase]] = defaultdict(list)
    for op in ops().values():
        public = _function(op)
        if public is None or op.random is not None:
            continue
        kinds: dict[tuple[Any, ...], list[Phrase]] = defaultdict(list)
        for sample in [sample for sample in op.samples if not sample.empty][:_MOST_SAMPLES]:
            phrase = _phrase(op, sample, *public)
            if phrase is not None:
                kinds[tuple((kernel.name, *kernel.attributes) for kernel in phrase.kernels)].append(phrase)
        for alike in kinds.values():
            _tell(alike)
            for phrase in {phrase.kind: phrase for phrase in reversed(alike)}.values():
                by_kernel[phrase.kernels[-1].name].append(phrase)

    def rank(phrase: Phrase) -> tuple[int, bool, int, int]:
        kernel = phrase.kernels[-1].name.removeprefix("native_").strip("_")
        return (
            -len(phrase.kernels),
            phrase.function.rpartition(".")[2] != kernel,
            len(phrase.settings.keys() - phrase.plain - phrase.attribute_of.keys()),
            -len(phrase.attribute_of),
        )

    return {kernel: sorted(each, key=rank) for kernel, each in by_kernel.items()}


def _function(op: Op) -> tuple[str, dict[str, Any]] | None:
    """What a program calls to have an op, and its parameters with their defaults; None if only Paddle's own functions call it."""
    targets = [entry.target for entry in op.entries]
    for path in (*targets, f"paddle.nn.functional.{op.name}", f"paddle.{op.name}", f"paddle.linalg.{op.name}"):
        if path.startswith(_NOT_WRITTEN):
            continue
        held: Any = paddle
        for part in path.split(".")[1:]:
            held = getattr(held, part, None) if isinstance(held, types.ModuleType) else None
        if not inspect.isroutine(held):
            continue
        try:
            defaults = {name: parameter.default for name, parameter in inspect.signature(held).parameters.items()}
        except ValueError:  # a function in C
            defaults = {aliases[0]: default for aliases, default in parse(op.params)}
        return path.replace("paddle.nn.functional.", "F."), defaults
    return None


def _phrase(op: Op, sample: Sample, function: str, defaults: Mapping[str, Any]) -> Phrase | None:
    """One call of an op's formula; None if it raises, or has no words."""
    parameters = parse(op.params)
    others = [[_OTHER_NAMES[name] for name in aliases if name in _OTHER_NAMES] for aliases, _ in parameters]
    names = [next((name for name in (*aliases, *more) if name in defaults), "") for (aliases, _), more in zip(parameters, others)]
    drawn = [
        torch.from_numpy(np.asarray(value)) if isinstance(value, np.ndarray) else value
        for value in sample.arrays(np.random.default_rng(0))
    ]
    arguments: list[Any] = [drawn] if op.operands else list(drawn)
    for aliases, default in parameters[len(arguments) :]:
        arguments.append(next((sample.attrs[name] for name in aliases if name in sample.attrs), default))
    labels, settings, plain = dict[int, str](), dict[str, Any](), set[str]()
    for name, (_, default), value in zip(names, parameters, arguments):
        tensors = value if op.operands and value is drawn else [value]
        if any(isinstance(tensor, torch.Tensor) for tensor in tensors):
            labels.update((tensor.data_ptr(), name) for tensor in tensors)
        elif name and value is not None and value is not REQUIRED:
            settings[name] = value
            plain |= {name} if _alike(value, default) else set()
        elif not name and not _alike(value, default):
            return None
    if (len(set(labels.values())) < len(labels) and not op.operands) or "" in labels.values():
        return None
    try:
        with torch.no_grad(), Capture(labels, str) as capture:
            op.reference(*arguments)
    except Exception:  # any answer of Torch's to a sample of Paddle's
        return None
    kernels, known = capture.trace.nodes, set(labels.values())
    held = {value: value.label for value in capture.trace.constants if value.label in known}
    if not kernels or set(held.values()) != known:
        return None
    return Phrase(function, defaults, kernels, held, next(iter(known)) if op.operands else "", settings, frozenset(plain))


def _tell(alike: Sequence[Phrase]) -> None:
    """Find which attributes tell which arguments in calls of one kind."""
    places = [dict(phrase.places) for phrase in alike]
    common = [place for place in places[0] if all(place in each for each in places)]
    attribute_of: dict[str, Place] = {}
    for name in dict.fromkeys(name for phrase in alike for name in phrase.settings):
        pairs = [(phrase.settings.get(name), phrase.rank, each) for phrase, each in zip(alike, places)]
        pairs = [pair for pair in pairs if pair[0] not in (None, [])]
        values = [value for value, _, _ in pairs]
        fitting = [
            place for place in common if all(_alike(_placed(place[1], value, rank), each[place]) for value, rank, each in pairs)
        ]
        if len({repr(value) for value in values}) == 1:  # then only names tell
            fitting = [place for place in fitting if place[1][:3] == _KERNELS_NAMES.get(name, name)[:3]]
        if fitting and values:
            attribute_of[name] = min(fitting, key=lambda place: place[1] != name)
    free = frozenset(place for place in common if any(not _alike(each[place], places[0][place]) for each in places))
    for phrase in alike:
        arguments = {name for name, value in phrase.settings.items() if value not in (None, [])}
        phrase.attribute_of, phrase.free = (
            {name: attribute_of[name] for name in arguments & attribute_of.keys()},
            free - set(attribute_of.values()),
        )


def _alike(value: Any, other: Any) -> bool:
    """Whether an argument of Paddle's and an attribute of a kernel, or two attributes, say the same."""
    if value is None or other is None:
        return (other if value is None else value) in (None, [], ())
    value, other = (_WORDS.get(each, each) if isinstance(each, str) else each for each in (value, other))
    if isinstance(value, (list, tuple)) or isinstance(other, (list, tuple)):
        pair = [list(each) if isinstance(each, (list, tuple)) else [each] for each in (value, other)]
        length = max(map(len, pair))
        pair = [each * length if len(each) == 1 else each for each in pair]
        return len(pair[0]) == len(pair[1]) and all(map(_alike, *pair))
    if isinstance(value, float) and isinstance(other, (int, float)):
        return bool(value == other or abs(value - other) <= 1e-7 * abs(value))
    return bool(value == other)


def _sizes(call: TraceCall) -> set[int]:
    return {size for operand in call.operands for tensor in (operand.tensor, operand.value.tensor) for size in tensor.shape}
