"""What the port's lines would have to be for a difference of calls, in the port's own expressions."""

from __future__ import annotations

import ast
import contextlib
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import paddle
import torch

from ..dispatch.frames import paused
from ..frameworks.memory import TENSOR_TYPES, to_torch
from ..present.annotations import Patch
from .arguments import ApiCall, as_read, shown, value_of
from .bits.formulation import replay
from .bits.source import PortNames, aliases
from .bits.words import CallWords, Untranslatable, literal
from .causes import CallDifference
from .expressions import Rewrite, ValueSource, argument_node, both, names_in, source_of_value
from .findings import Cause
from .match import Matching, kind, same_numbers
from .plans import Defined
from .trace import Key, Model, Trace, TraceCall, TraceOperand, Value, numbers, sources

LayersOfBoth = tuple[Mapping[str, Model], Mapping[str, Model]]  # the original's and the port's, by their paths


@dataclass(frozen=True)
class Evidence:
    """What rules look at beside the differences.

    Attributes:
        original, port: the calls of both runs.
        matching: which values of both runs agree, while the search goes on; None when it is over, and the numbers are gone.
        mended: the calls of the port that go on with the original's values.
        written: the changes of the port's lines that earlier differences ask for.
        training: whether the port trains.
        weights: names of the port's that are trained, or have a partner and so hold equal values.
        tied: whether a weight is one tensor in one program and several in the other.
        defined: ops that Paddle defines differently from Torch for their operands, by name.
        layers: those of the original and of the port, by their paths.
        answering: opens what the port's calls run in, while the search goes on.
        helps: whether both programs agree in more with other lines of the port, which runs with them, or with a layer that is
            made otherwise: 1, or 2 if they then agree; True beside it asks for nothing less.
    """

    original: Trace = field(default_factory=Trace)
    port: Trace = field(default_factory=Trace)
    matching: Matching | None = None
    mended: Collection[Key] = ()
    written: Collection[Patch] = ()
    training: bool = True
    weights: Collection[str] = ()
    tied: bool = False
    defined: Mapping[str, Defined] = field(default_factory=dict)
    layers: LayersOfBoth = ({}, {})
    answering: Callable[[], contextlib.AbstractContextManager[Any]] | None = None
    helps: Callable[..., int] = lambda *_: 0


class PortWords(CallWords):
    """Writes what the original computes as a function of the port's may write it.

    Args:
        evidence: of both runs.
        place: the expression that is to be another.
        call: of Paddle's API, in which it stands.
        own: the tensor that the expression gives.
        named: the call's operands have the names of its arguments, and nothing else has one.
    """

    def __init__(self, evidence: Evidence, place: ValueSource, call: ApiCall, own: Any = None, *, named: bool = False) -> None:
        super().__init__()
        assert evidence.matching is not None
        assert evidence.answering is not None
        self._matching, self._answering, self._place, self._only = evidence.matching, evidence.answering, place, named
        read = ((tensor, name) for name, tensor in call.arguments.items() if type(tensor) in TENSOR_TYPES)
        self._read = [(value_of(tensor), tensor, name) for tensor, name in read] if named else []
        self._read += [] if named else [(value, tensor, ast.unparse(node)) for value, tensor, node in tensor_arguments(call)]
        inputs = [value.tensor for value in evidence.original.values() if value.label.startswith("input ")]
        sizes = {str(size) for tensor in inputs for size in tensor.shape}
        own_lines = inspect.getsource(call.place[0]) if call.place is not None else ""
        self._sizes = sizes - {*_COUNTED.findall(own_lines)}  # to which the port does not count itself
        self._held: dict[str, tuple[str, Any]] = {}  # names in a spelling: what the port has for it, and the tensor
        if own is not None:
            self._held["own"] = ast.unparse(place.node), own
            self._read.insert(0, (value_of(own), own, ast.unparse(place.node)))

    def texts(self, value: Value, shape: Sequence[int]) -> Iterator[str]:
        """A value of the original's as expressions of the function that give it, in a shape."""
        for text in self._spellings(value, shape):
            if {*_COUNTED.findall(text)} & self._sizes:
                continue  # right for inputs of this size alone
            tensors = {name: tensor for name, (_, tensor) in self._held.items()}
            if _DRAWN.search(text) or self._gives(text, tensors, value, shape):
                texts = {name: text for name, (text, _) in self._held.items()}
                dense = ast.parse(text.replace(".contiguous()", ""), mode="eval")
                tree = PortNames(texts, aliases(names_in(self._place.file)), set()).visit(dense)
                yield _TURNED_TWICE.sub("", ast.unparse(tree))

    def _spellings(self, value: Value, shape: Sequence[int]) -> Iterator[str]:
        call, wanted = value.node or value.maker, torch.empty(tuple(shape), device="meta")
        if (name := self._named(value)) is not None:
            yield self.shaped(name, self._side(name), wanted)
        own = self._held["own"][1] if "own" in self._held and not _is_of_inputs(value) else None
        if own is not None and own.dtype == paddle.bool:
            yield "paddle.logical_not(own)"
        for text in self._texts(call) if call is not None and value is call.result else ():
            for laid in dict.fromkeys((text, self.shaped(f"({text})", value.tensor, wanted, call))):
                yield laid
                yield f'({laid}).astype("{paddle.get_default_dtype()}")'
        if own is not None:
            yield from _of_own(own, value)
        if is_constant(value) and value.tensor.numel() == math.prod(shape):
            with contextlib.suppress(Untranslatable):
                yield literal(_narrow(value.tensor).reshape(shape))

    def _operand(self, call: TraceCall, operand: TraceOperand) -> str:
        name = self._named(operand.value)
        if name is not None:
            return self.shaped(name, self._side(name), operand.tensor, call)
        maker = operand.value.node or operand.value.maker
        if maker is None:
            if not is_constant(operand.value):
                raise Untranslatable("no name")
            return literal(_narrow(operand.tensor))
        if operand.value is not maker.result:
            raise Untranslatable("one of several results")
        return self.shaped(self._written(maker), operand.value.tensor, operand.tensor, call)

    def _side(self, name: str) -> torch.Tensor:
        return torch.empty(tuple(self._held[name][1].shape), device="meta")

    def _named(self, value: Value) -> str | None:
        """A name in spellings for a value of the original's that the port's function has; None where it has not."""
        there = next(self._there(value), None)
        if there is None:
            return None
        known = (name for name, (text, held) in self._held.items() if text == there[0] and held is there[1] and name != "own")
        name = next(known, f"x{len(self._held)}")
        self._held[name] = there
        return name

    def _texts(self, call: TraceCall) -> Iterator[str]:
        """Calls that draw numbers, too: those of a dropout, and noise in the shape of something that is at hand."""
        draws = next((maker for operand in call.operands if (maker := _draws(operand.value)) is not None), None)
        if call.name == "mul" and draws is not None:
            operand = next(operand for operand in call.operands if _draws(operand.value) is None)
            with contextlib.suppress(Untranslatable):
                text = self._operand(call, operand)
                yield f"F.dropout({text}, {shown(as_read(1 - draws.attributes['p']))}, training=self.training)"
        for name, (_, tensor) in self._held.items() if call.name in _NOISE else ():
            if tuple(tensor.shape) == tuple(call.result.tensor.shape):
                yield f"{_NOISE[call.name]}({name}.shape)"
        yield from super()._texts(call)

    def _there(self, value: Value) -> Iterator[tuple[str, Any]]:
        """The text by which the port's function has a value, and the tensor."""
        for own, tensor, text in self._read:
            if own.count == value.count and self._matching.same(value, own):
                yield text, tensor
        partner = None if self._only else self._matching.of_first.get(value)
        if partner is None:
            return
        for api in (reader.api for reader in partner.readers if reader.api is not None and not reader.backward):
            for own, tensor, node in tensor_arguments(api):
                if isinstance(node, ast.Name) and self._is_still(node, api.file) and _holds(own, partner):
                    yield node.id, tensor
        source, made = source_of_value(partner), _made(partner)
        if source and source.name and source.function is self._place.function and made is not None:
            behind = source.name.isidentifier() and (source.node.end_lineno or 0) >= self._place.node.lineno
            if source.node is made[0].expression and not behind:
                yield source.name, made[1]

    def _is_still(self, name: ast.Name, file: str) -> bool:
        """Whether a variable stands for one value in the whole function, and is there."""
        function = self._place.function
        if ValueSource(file, name, "").function is not function:
            return False
        stores = [node for node in ast.walk(function or name) if isinstance(node, ast.Name) and node.id == name.id]
        stores = [node for node in stores if isinstance(node.ctx, ast.Store)]
        parameter = function is not None and name.id in {arg.arg for arg in function.args.args}
        return len(stores) == (not parameter) and all((node.end_lineno or 0) < self._place.node.lineno for node in stores)

    def _gives(self, text: str, tensors: dict[str, Any], value: Value, shape: Sequence[int]) -> bool:
        sides = list[torch.Tensor]()
        for opened in (self._answering, paused):  # only what formulas find right runs natively: kernels do not stand any arguments
            try:
                with opened(), paddle.no_grad():
                    result = replay(text, tensors)
                with paused():
                    sides.append(to_torch(result.detach()))
            except Exception:  # any answer of Paddle's to an expression that nobody has written
                return False
            if tuple(sides[0].shape) != tuple(shape) or not same_numbers(value.tensor, sides[0]):
                return False
        return "own" not in self._held or sides[-1].is_floating_point() is paddle.is_floating_point(self._held["own"][1])


_NOISE = {
    **dict.fromkeys(("normal", "randn", "randn_like"), "paddle.randn"),
    **dict.fromkeys(("uniform", "rand", "rand_like"), "paddle.rand"),
}
_TURNED_TWICE = re.compile(r"(\.transpose\(\[(?:0, 2, 1|0, 1, 3, 2|1, 0)\]\))\1")  # the last two axes
_DRAWN = re.compile(r"F\.dropout\(|paddle\.randn?\(")  # other numbers each time
_COUNTED = re.compile(r"\barange\((\d+)\)")


def _draws(value: Value) -> TraceCall | None:
    """The call that draws which elements a dropout keeps, of the factors that it makes of them."""
    node = value.node
    while node is not None and node.name in ("div", "_to_copy", "bernoulli"):
        if node.name == "bernoulli":
            return node
        node = node.operands[0].value.node if node.operands else None
    return None


def _of_own(own: Any, value: Value) -> Iterator[str]:
    """Another value as simple arithmetic of ``own``: a table shifted, stretched, or both."""
    with paused():
        have = numbers(to_torch(own.detach()))
    wanted = numbers(value.tensor)
    if have.numel() != wanted.numel() or have.numel() < 2 or not bool(wanted.isfinite().all()):
        return
    low, high = int(have.argmin()), int(have.argmax())
    if have[low] == have[high]:
        return
    factor = as_read(float((wanted[high] - wanted[low]) / (have[high] - have[low])))
    offset = as_read(float(wanted[low] - factor * have[low]))
    if factor == 1.0 or offset == 0.0:
        yield f"own {'-' if offset < 0 else '+'} {shown(abs(offset))}" if factor == 1.0 else f"own * {shown(factor)}"
    else:
        yield f"own * {shown(factor)} {'-' if offset < 0 else '+'} {shown(abs(offset))}"


def _is_of_inputs(value: Value) -> bool:
    return any(source.label.startswith("input ") for source in sources(value, made=True))


def is_constant(value: Value) -> bool:
    """Whether it is neither an input nor a weight, nor made of inputs, and no call's result that has gradients."""
    return value.node is None and (not value.label or "(" in value.label) and not _is_of_inputs(value)


def _narrow(tensor: torch.Tensor) -> torch.Tensor:
    """A constant as a model has it whose numbers are float32."""
    return tensor.detach().float() if tensor.dtype is torch.float64 else tensor.detach()


def tensor_arguments(call: ApiCall) -> Iterator[tuple[Value, Any, ast.expr]]:
    """The tensors that a line hands to a call, with their elements and their expressions."""
    for name, held in call.arguments.items():
        node = argument_node(call, name)
        if isinstance(held, tuple) and len(held) == 1 and not isinstance(node, ast.Tuple):
            held = held[0]  # an index as Paddle hands it on
        parts = [(held, node)]
        if isinstance(held, (list, tuple)) and isinstance(node, (ast.List, ast.Tuple)) and len(held) == len(node.elts):
            parts = list(zip(held, node.elts))
        for tensor, part in parts:
            if type(tensor) in TENSOR_TYPES and part is not None:
                yield value_of(tensor), tensor, part


# ---- Which expression of the port's is to be another.


def rewrites_of(difference: CallDifference, evidence: Evidence) -> Iterator[Rewrite]:
    """The changes of the port's lines that may mend a difference."""
    of_cause = [_with_missing] if difference.cause is Cause.MISSING else []
    for way in (*of_cause, _with_arguments, _with_result, _with_reader):
        rewrite = way(difference, evidence)
        if rewrite is not None and rewrite.patch() is not None:
            yield rewrite


def _with_missing(difference: CallDifference, evidence: Evidence) -> Rewrite | None:
    """The operand of missing calls, within these: where it is made, or where the one call that lacks them reads it."""
    missing, reader, matching = difference.original, difference.port, evidence.matching
    if missing is None or matching is None:
        return None
    calls = [missing]
    while True:
        last = calls[-1]
        beside = [other for other in last.result.readers if (other.site, other.layer) == (last.site, last.layer)]
        further = [other for other in beside if not other.backward and other.result not in matching.of_first]
        if not further or (reader is not None and kind(further[0]) == kind(reader)):
            break
        calls.append(further[0])
    for operand in (operand for call in calls for operand in call.operands):
        value = matching.of_first.get(operand.value)
        if value is None:
            continue
        places = list[tuple[ValueSource, ApiCall, Any]]()
        source, made = source_of_value(value), _made(value)
        alone = all(other in calls or other.backward for other in operand.value.readers)
        if alone and source and made and source.node is made[0].expression:
            places.append((source, *made))
        if reader is not None and reader.api is not None and reader.api.layers < 2:
            read = [(tensor, node) for own, tensor, node in tensor_arguments(reader.api) if _holds(own, value)]
            places += [(ValueSource(reader.api.file, node, ""), reader.api, tensor) for tensor, node in read]
        for place, call, tensor in places:
            for text in PortWords(evidence, place, call, tensor).texts(last.result, tensor.shape):
                return place.replaced_by(text)
    return None


def _made(value: Value) -> tuple[ApiCall, Any] | None:
    """The call of Paddle's API that made a value, and what it gave; None where its shape is not known."""
    call = None if value.node is None else value.node.api
    if call is None or value.node is None:
        return None
    shape = value.tensor.shape if call.shape is None and len(value.node.results) > 1 else call.shape
    if shape is None or call.layers > 1 or math.prod(shape) != value.tensor.numel():
        return None
    with paused():
        return call, paddle.to_tensor(value.tensor.detach().numpy()).reshape(list(shape))


def _holds(own: Value, value: Value) -> bool:
    return own.count == value.count and same_numbers(own.sorted, value.sorted)


def _with_arguments(difference: CallDifference, evidence: Evidence) -> Rewrite | None:
    """What the original's call reads, in the place of what the port's call of its kind reads."""
    original, port, matching = difference.original, difference.port, evidence.matching
    if original is None or port is None or port.api is None or matching is None or port.api.layers > 1:
        return None
    if original.name != port.name and (kind(original), kind(port)) != ("written", "written"):
        return None
    names = {operand.name for operand in original.operands} & {operand.name for operand in port.operands}
    every = len(original.operands) == len(port.operands)  # else a number stands in an operand's place
    wanted, own = ([operand.value for operand in call.operands if every or operand.name in names] for call in (original, port))
    for value in list(wanted):
        equal = next((other for other in own if matching.same(value, other)), None)
        if equal is not None and difference.cause is not Cause.SWAPPED:
            wanted.remove(value)
            own.remove(equal)
    nodes = list(tensor_arguments(port.api))
    rewrites: list[Rewrite] = []
    for value, other in zip(wanted, own) if len(wanted) == len(own) else ():
        if matching.same(value, other):
            continue
        read = next(((tensor, node) for each, tensor, node in nodes if _is_read_as(each, other)), None)
        if read is None:
            return None
        place = ValueSource(port.api.file, read[1], "")
        text = next(PortWords(evidence, place, port.api, read[0]).texts(value, read[0].shape), "")
        if not text:
            return None
        rewrites.append(place.replaced_by(text))
    return rewrites[0] if len(rewrites) == 1 else both(*rewrites) if len(rewrites) == 2 else None


def _is_read_as(value: Value, operand: Value) -> bool:
    """Whether a call that is handed a value reads an operand: in another order, or as often as others have elements."""
    if value.count == operand.count:
        return _holds(value, operand)
    try:
        return same_numbers(value.tensor.expand(operand.tensor.shape), operand.tensor)
    except RuntimeError:
        return False


MENDS = 2  # the answer of :attr:`Evidence.helps` where both agree with the change
UNTRIED = 3  # the answer of :attr:`Evidence.helps` where lines cannot be exchanged


def _with_result(difference: CallDifference, evidence: Evidence) -> Rewrite | None:
    """What the original has in the place of what a call of the port's gives."""
    call, value = _mended(difference, evidence)
    if call is None or call.layers or value is None or call.shape is None or call.symbol == "[]=":
        return None
    expression = call.expression
    if expression is None:
        return None
    place = ValueSource(call.file, expression, "")
    text = next(PortWords(evidence, place, call).texts(value, call.shape), "")
    return place.replaced_by(text) if text else None


def _with_reader(difference: CallDifference, evidence: Evidence) -> Rewrite | None:
    """What the original's line makes of a result, in the place of what the port's makes of it: parts that are joined."""
    original, port = difference.original, difference.port
    if original is None or port is None or len(original.results) != 1:
        return None
    readers = [[reader for reader in call.result.readers if reader.site == call.site] for call in (original, port)]
    if not all(readers) or readers[0][0].name != readers[1][0].name or not readers[1][0].moves:
        return None
    api, value = readers[1][0].api, readers[0][0].result
    if api is None or api.layers or api.shape is None or api.expression is None:
        return None
    place = ValueSource(api.file, api.expression, "")
    text = next(PortWords(evidence, place, api).texts(value, api.shape), "")
    return place.replaced_by(text) if text else None


def _mended(difference: CallDifference, evidence: Evidence) -> tuple[ApiCall | None, Value | None]:
    """The call of Paddle's API that gives what is to be a value of the original's, and that value."""
    node, (wanted, *_) = difference.mend or (difference.port, (None,))
    call = None if node is None else node.api
    values = [value for value in evidence.original.values() if wanted is not None and is_one(value.tensor, wanted)]
    original = difference.original
    if original is not None and node is not None and "pool" in original.name and "pool" in node.name:  # of which some have indices
        values = [original.result]
    if call is None or not values or [other for other in evidence.port.nodes if other.api is call][-1] is not node:
        return None, None
    return call, values[-1]


def transposed(call: ApiCall | None) -> Rewrite | None:
    """A product's result with its last two axes exchanged."""
    node = None if call is None else call.expression
    if call is None or node is None or call.shape is None:
        return None
    axes = [*range(len(call.shape) - 2), len(call.shape) - 1, len(call.shape) - 2]
    return ValueSource(call.file, node, "").replaced_by(f"({ast.unparse(node)}).transpose({axes})")


def layer_of(difference: CallDifference, evidence: Evidence) -> str:
    """The layer of Paddle's that computes what the original does, in the place of another; "" where none is known."""
    call, value = _mended(difference, evidence)
    if call is None or not call.layers or value is None or call.expression is None or call.shape is None or call.whole is not None:
        return ""
    port, matching = difference.port, evidence.matching
    alike = [node for node in evidence.port.nodes if port and (node.name, node.layer) == (port.name, port.layer)]
    if matching is None or any(not node.backward and matching.is_matched(node.result) for node in alike):
        return ""  # the layer is right elsewhere
    place = ValueSource(call.file, call.expression, "")
    for text in PortWords(evidence, place, call, named=True).texts(value, call.shape):
        made = ast.parse(text, mode="eval").body
        function = made.func.attr if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) else ""
        layer = next((held for name, held in vars(paddle.nn).items() if name.lower() == function.replace("_", "")), None)
        if not isinstance(made, ast.Call) or layer is None or not (made.args and isinstance(made.args[0], ast.Name)):
            continue
        names = list(inspect.signature(getattr(paddle.nn.functional, function)).parameters)
        words = {name: ast.unparse(node) for name, node in zip(names[1:], made.args[1:])}
        words |= {str(keyword.arg): ast.unparse(keyword.value) for keyword in made.keywords}
        if words.keys() <= inspect.signature(layer.__init__).parameters.keys():
            return f"paddle.nn.{layer.__name__}({', '.join(f'{name}={text}' for name, text in words.items())})"
    return ""


def is_one(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are one, in one shape or another."""
    return tensor.numel() == other.numel() and tensor.data_ptr() == other.data_ptr()
