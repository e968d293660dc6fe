"""Calls of Torch's kernels as expressions of Paddle's.

What Torch's kernels are called in Paddle's words is derived from the table of ops: no list says it. The formula of each op is run
on its samples. The kernels that it calls, and the values between them, are a phrase; the op's public function is how Paddle says
it. An argument is known by the attribute of a kernel that is equal to it in all samples.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
import torch

from ...catalogue.registry import ops
from ...table.op import Op
from ...table.samples import Sample
from ...table.signature import REQUIRED, parse
from ..arguments import TO_THE_END, shown, shown_item
from ..trace import FUSED_ATTENTION, Capture, Step, TraceCall, TraceOperand, Value

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


# ---- A call as an expression

PRODUCTS = frozenset({"mm", "bmm", "addmm"})  # of stacked matrices, too, in Paddle
_SPLITTING = frozenset({"split", "split_with_sizes"})
_LISTING = _SPLITTING | {"unbind", "topk"}  # what gives several results in Paddle, too
_MOST_NUMBERS = 64  # of a constant that is written as numbers
DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.float16: "float16"}


class Untranslatable(Exception):
    """A call that has no words here."""


def _binary(sign: str) -> Callable[[list[str], Mapping[str, Any]], str]:
    def write(operands: list[str], attributes: Mapping[str, Any]) -> str:
        if attributes.get("alpha", 1) != 1 or attributes.get("rounding_mode"):
            raise Untranslatable("alpha")
        number = next((_number(attributes[name]) for name in ("self", "other", "exponent") if name in attributes), "")
        parts = [number, operands[0]] if "self" in attributes else [*operands, number]
        return f"({parts[0]} {sign} {parts[1]})"

    return write


def _number(value: Any) -> str:
    text = shown(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
    return f"({text})" if "**" in text or text.startswith("-") else text


def _norm(operands: list[str], attributes: Mapping[str, Any]) -> str:
    order, axes = _number(attributes.get("ord", 2)), attributes.get("dim")
    if not axes:
        return f"paddle.linalg.norm({operands[0]}.flatten(), {order})"
    axis, keepdim = axes[0] if len(axes) == 1 else axes, ", keepdim=True" if attributes.get("keepdim") else ""
    return f"paddle.linalg.norm({operands[0]}, {order}, {axis}{keepdim})"


def _first_of(name: str, operands: list[str], attributes: Mapping[str, Any]) -> str:
    """``paddle.argmax`` and ``paddle.argmin``."""
    return f"paddle.{name}({operands[0]}, {attributes.get('dim')}{', keepdim=True' * bool(attributes.get('keepdim'))})"


def _max_pool(operands: list[str], attributes: Mapping[str, Any]) -> str:
    if set(attributes.get("dilation", [1])) != {1}:
        raise Untranslatable("dilation")
    words = [f"{attributes[name]}" for name in ("kernel_size", "stride", "padding")]
    return f"F.max_pool2d({', '.join([*operands, *words])}{', ceil_mode=True' * bool(attributes.get('ceil_mode'))})"


def _at_axis(axis: int, item: str) -> str:
    """An index with something at one axis."""
    return ", ".join([":"] * axis + [item] if axis >= 0 else ["...", item] + [":"] * (-1 - axis))


def _slice(words: Mapping[str, Any]) -> str:
    start, end, step = words.get("start"), words.get("end"), words.get("step", 1)
    return shown_item(slice(start or None, None if end == TO_THE_END else end, None if step == 1 else step))


def _bounds(words: Mapping[str, Any]) -> list[str]:
    """Where a count begins, ends, and its steps, without what is so by default."""
    start, end, step = words.get("start", 0), words["end"], words.get("step", 1)
    return [str(start)] * (start != 0 or step != 1) + [str(end)] + [str(step)] * (step != 1)


def _filled(name: str, _: list[str], attributes: Mapping[str, Any]) -> str:
    return f"paddle.{name}({attributes['size']})"


def _attention(operands: list[str], attributes: Mapping[str, Any]) -> str:
    words = [f"{text}.transpose([0, 2, 1, 3])" for text in operands[:3]]
    words += [f"attn_mask={text}" for text in operands[3:]] + ["is_causal=True"] * bool(attributes.get("is_causal"))
    words += [f"scale={_number(scale)}"] if (scale := attributes.get("scale")) is not None else []
    return f"F.scaled_dot_product_attention({', '.join(words)}).transpose([0, 2, 1, 3])"


_LONGEST = 600  # letters of an expression: a loop's would double with each round in which a value is read twice
_RESIZED = (("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))


def _resized(mode: str, operands: list[str], attributes: Mapping[str, Any]) -> str:
    corners = ", align_corners=True" * bool(attributes.get("align_corners"))
    return f"F.interpolate({operands[0]}, {attributes['output_size']}, mode='{mode}'{corners})"


def _batch_norm(operands: list[str], attributes: Mapping[str, Any]) -> str:
    """In evaluation: ``x``, weights or none, and running statistics."""
    if attributes["training"]:
        raise Untranslatable("statistics of the batch")
    words = [operands[0], *operands[-2:], *operands[1:-2]]
    return f"F.batch_norm({', '.join(words)}, epsilon={_number(attributes['eps'])})"


_SIGNS: dict[str, Callable[[list[str], Mapping[str, Any]], str]] = {
    "add": _binary("+"), "sub": _binary("-"), "mul": _binary("*"), "div": _binary("/"), "pow": _binary("**"),
    "eq": _binary("=="), "gt": _binary(">"), "lt": _binary("<"), "ge": _binary(">="), "le": _binary("<="), "ne": _binary("!="),
    "rsub": lambda operands, attributes: f"({_number(attributes['other'])} - {operands[0]})",
    "linalg_vector_norm": _norm,  # Paddle's functions choose its axes themselves
    "polar": lambda operands, _: f"paddle.polar({', '.join(operands)})",
    "complex": lambda operands, _: f"paddle.complex({', '.join(operands)})",
    "select": lambda operands, words: f"{operands[0]}[{_at_axis(words['dim'], str(words['index']))}]",
    "slice": lambda operands, words: f"{operands[0]}[{_at_axis(words['dim'], _slice(words))}]",
    "max_pool2d_with_indices": _max_pool,
    "native_batch_norm": _batch_norm,
    "clone": lambda operands, _: operands[0],
    **{name: functools.partial(_first_of, name) for name in ("argmax", "argmin")},
    "_conj": lambda operands, _: f"paddle.conj({operands[0]})",
    "neg": lambda operands, _: f"(-{operands[0]})",
    "bitwise_not": lambda operands, _: f"paddle.logical_not({operands[0]})",
    "arange": lambda _, words: f"paddle.arange({', '.join(_bounds(words))})",
    "linspace": lambda _, words: f"paddle.linspace({words['start']}, {words['end']}, {words['steps']})",
    "eye": lambda _, words: f"paddle.eye({words['n']})",
    "full": lambda _, words: f"paddle.full({words['size']}, {_number(words['fill_value'])})",
    **{name: functools.partial(_filled, name) for name in ("ones", "zeros")},
    "index": lambda operands, _: f"{operands[0]}[{', '.join(operands[1:])}]",
    "addcmul": lambda operands, attributes: f"({operands[0]} + {_number(attributes['value'])} * {operands[1]} * {operands[2]})",
    "addcdiv": lambda operands, attributes: f"({operands[0]} + {_number(attributes['value'])} * {operands[1]} / {operands[2]})",
    **dict.fromkeys(("mm", "bmm"), lambda operands, _: f"paddle.matmul({', '.join(operands)})"),
    **{f"upsample_{mode}{axes}d": functools.partial(_resized, mode) for mode, axes in _RESIZED},
}  # fmt: skip


class CallWords:
    """Writes calls in Paddle's words; who inherits it says what an operand is called.

    Args:
        labels: of what the port has as parameters.
    """

    def __init__(self, labels: Set[str] = frozenset()) -> None:
        self._labels = labels
        self._texts_of: dict[TraceCall, str] = {}
        self.untold = ""  # the first of what has no words here

    def _operand(self, call: TraceCall, operand: TraceOperand) -> str:
        """An operand of a call: a value of the port's, or an expression of values."""
        raise NotImplementedError

    def _texts(self, call: TraceCall) -> Iterator[str]:
        """A call as an expression, in each way in which the table of ops has words for it and those before it."""
        matches = [match for phrase in phrases(call) if (match := phrase.matched(call)) is not None]
        several = [functools.partial(self._phrased, match) for match in matches if len(match.phrase.kernels) > 1]
        single = [functools.partial(self._phrased, match) for match in matches if len(match.phrase.kernels) == 1]
        for write in (*several, functools.partial(self._signed, call), *single):
            try:
                yield write()
            except Untranslatable as error:
                self.untold = self.untold or str(error)
            except (KeyError, IndexError, TypeError):  # of arguments that its words do not foresee
                self.untold = self.untold or call.name

    def _written(self, call: TraceCall) -> str:
        """The first of these."""
        if call not in self._texts_of:
            self._texts_of[call] = next(self._texts(call), "")
        if not 0 < len(self._texts_of[call]) < _LONGEST:
            raise Untranslatable(call.name)
        return self._texts_of[call]

    def _result(self, value: Value) -> str:
        """What a call has made, which may be one of several results."""
        assert value.node is not None
        text, place = self._written(value.node), value.node.values.index(value)
        if value.node.name in _LISTING:
            return f"{text}[{place}]"
        if place:
            raise Untranslatable("one of several results")
        return text

    def _phrased(self, match: Match) -> str:
        """A call of Paddle's API."""
        defaults, words = match.phrase.defaults, dict[str, str]()
        for name, operands in match.operands.items():
            texts = [self._operand(*operand) for operand in operands]
            words[name] = f"[{', '.join(texts)}]" if match.phrase.whole else texts[0]
        for name, value in match.settings():
            if name not in defaults or defaults[name] != value:
                words[name] = repr(value) if not isinstance(value, float) else shown(value)
        if words.get("correction") in ("0", "1"):  # older versions have the word unbiased alone
            words["unbiased"] = str(words.pop("correction") == "1")
        if match.phrase.function == "F.layer_norm":
            shape = repr(list(match.calls[0].attributes["normalized_shape"]))
            words["normalized_shape"] = f"{words['weight']}.shape" if words.get("weight", "(").isidentifier() else shape
        names, text = list(defaults), list[str]()
        for place, name in enumerate(names):
            if name in words:
                bare = place == len(text) and (name in match.operands or place < 3)
                text.append(words[name] if bare else f"{name}={words[name]}")
        return f"{match.phrase.function}({', '.join(text)})"

    def _signed(self, call: TraceCall) -> str:
        """A call by operators, casts and products, which people write without a name."""
        if call.name in ("_to_copy", "copy", "to"):
            dtype = DTYPES.get(call.result.tensor.dtype)
            if dtype is None:
                raise Untranslatable(call.name)
            return f'{self._operand(call, call.operands[-1])}.astype("{dtype}")'
        if call.name == "addmm" and call.operands[2].value.node is None:
            bias, rows, weight = (self._operand(call, operand) for operand in call.operands)
            return f"F.linear({rows}, {weight}, {bias})"
        if call.name in _SPLITTING:
            axis = call.attributes["dim"]
            lengths = [value.tensor.shape[axis] for value in call.results]
            parts = len(lengths) if len(set(lengths)) == 1 else lengths
            return f"paddle.split({self._operand(call, call.operands[0])}, {parts}, {axis})"
        write = _attention if FUSED_ATTENTION in call.name else _SIGNS.get(call.name)
        if write is None:
            raise Untranslatable(call.name)
        operands = [self._operand(call, operand) for operand in call.operands]
        if call.name == "mm" and call.operands[1].value.label in self._labels:
            return f"F.linear({', '.join(operands)})"
        return write(operands, call.attributes)

    def _paired(self, text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall, way: Sequence[Step] = ()) -> str:
        """A value in the arrangement in which a call is given it, and as complex numbers, or pairs, as it is given them.

        ``way``: the steps to it of the program that makes the call, from the first arrangement.
        """
        if held.is_complex() is wanted.is_complex():
            turned = any(step.order for step in way) and call.name not in ("mm", "addmm")
            steps = _steps_between(held, wanted, way, call) if turned else None
            return self.shaped(text, held, wanted, call) if steps is None else text + steps
        pair = torch.empty((*(wanted if wanted.is_complex() else held).shape, 2))
        if wanted.is_complex():
            return f"paddle.as_complex({self.shaped(text, held, pair, call)})"
        return self.shaped(f"paddle.as_real({text})", pair, wanted, call)

    @staticmethod
    def shaped(text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall | None = None) -> str:
        """A value in the arrangement in which a call is given it."""
        if held.shape == wanted.shape:
            return text
        name = "" if call is None else call.name
        if name in PRODUCTS and held.shape[-2:] == wanted.shape[-2:]:
            return text  # a product of stacked matrices keeps their axes
        if name in ("mm", "addmm") and wanted.dim() == 2 and held.shape[-1:] == wanted.shape[-1:]:
            return text  # and so does one of rows
        if name in PRODUCTS and held.dim() > 2 and held.shape[:-3:-1] == wanted.shape[-2:]:
            axes = [*range(held.dim() - 2), held.dim() - 1, held.dim() - 2]
            dense = ".contiguous()" * (wanted.is_contiguous() and not held.permute(axes).is_contiguous())
            return f"{text}.transpose({axes}){dense}"
        for place in range(wanted.dim()):
            if held.dim() + 1 == wanted.dim() and wanted.shape == (*held.shape[:place], 1, *held.shape[place:]):
                return f"{text}.unsqueeze({place - wanted.dim()})"
            if held.dim() == wanted.dim() + 1 and held.shape == (*wanted.shape[:place], 1, *wanted.shape[place:]):
                return f"{text}.squeeze({place - held.dim()})"
        if held.dim() == wanted.dim() <= 5:
            for order in itertools.permutations(range(held.dim())):
                if held.permute(order).shape == wanted.shape:
                    return f"{text}.t()" if order == (1, 0) else f"{text}.transpose({list(order)})"
        return f"{text}.reshape({list(wanted.shape)})"

    @staticmethod
    def _cast(text: str, held: torch.Tensor, wanted: torch.Tensor) -> str:
        """Casts that keep every value are no calls of a trace."""
        if held.dtype == wanted.dtype or not wanted.is_floating_point() or held.is_complex():
            return text
        return f'{text}.astype("{DTYPES[wanted.dtype]}")'


def _steps_between(held: torch.Tensor, wanted: torch.Tensor, way: Sequence[Step], call: TraceCall) -> str | None:
    """Of some steps the last ones, which lay a value out as it is wanted; a product of stacked matrices keeps their axes."""
    for begin in reversed(range(len(way) + 1)):
        shapes, laid = [held.shape], held
        with contextlib.suppress(RuntimeError):  # these elements have other axes
            for step in way[begin:]:
                laid = step.applied(laid)
                shapes.append(laid.shape)
            if laid.numel() == wanted.numel() and laid.squeeze().shape == wanted.squeeze().shape:
                same = torch.allclose(laid.reshape(wanted.shape).double(), wanted.double(), 1e-2, 1e-3)
                stacked = call.name == "bmm" and len(shapes) > 1 and shapes[-2][-2:] == wanted.shape[-2:]
                axes = f".reshape({list(wanted.shape)})" * (laid.shape != wanted.shape)
                dense = ".contiguous()" * (wanted.is_contiguous() and not laid.is_contiguous())
                if same:
                    return "".join(f".{step}" for step in way[begin : len(way) - stacked]) + axes + dense
    return None


def literal(tensor: torch.Tensor) -> str:
    """A constant that no call has made, as numbers."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    if tensor.numel() and bool((tensor == tensor.reshape(-1)[0]).all()):
        return f'paddle.full({list(tensor.shape)}, {tensor.reshape(-1)[0].item()!r}, "{dtype}")'
    if tensor.numel() > _MOST_NUMBERS or tensor.is_complex():
        raise Untranslatable("a constant of many numbers")
    shown = np.vectorize(float)(tensor.numpy().astype(str)).tolist() if tensor.dtype is torch.float32 else tensor.tolist()
    return f'paddle.to_tensor({shown}, "{dtype}")'
