"""The original's calls at an origin, written in Paddle's words: what to try where no formulation of the library is at hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch

from ...table.formulation import Formulation, Spelling
from ..trace import Trace, TraceCall, TraceOperand, Value
from .calls import CallRecorder, OpCall, ValueId
from .following import LinkedCapture, as_side, call_number
from .origins import GRADIENT_OF, OriginGroup, Partners, cause_of
from .patterns import Candidate
from .source import written_number

_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm"})
_DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.float16: "float16"}


class Untranslatable(Exception):
    """A call that has no words here."""


def _number(attributes: Mapping[str, Any], name: str) -> str:
    if name not in attributes:
        raise Untranslatable(name)
    value = attributes[name]
    text = written_number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
    return f"({text})" if "**" in text or text.startswith("-") else text


def _binary(sign: str) -> Callable[[list[str], Mapping[str, Any]], str]:
    def write(operands: list[str], attributes: Mapping[str, Any]) -> str:
        if attributes.get("alpha", 1) != 1 or attributes.get("rounding_mode"):
            raise Untranslatable("alpha")
        second = operands[1] if len(operands) > 1 else _number(attributes, "other")
        return f"({operands[0]} {sign} {second})"

    return write


def _function(name: str) -> Callable[[list[str], Mapping[str, Any]], str]:
    return lambda operands, _: f"{name}({', '.join(operands)})"


def _reduction(method: str) -> Callable[[list[str], Mapping[str, Any]], str]:
    def write(operands: list[str], attributes: Mapping[str, Any]) -> str:
        dims = attributes.get("dim")
        if isinstance(dims, (list, tuple)):
            axis = f"{dims[0]}" if len(dims) == 1 else f"{list(dims)}"
        else:
            axis = f"{dims}" if dims is not None else ""
        words = [axis] if axis and axis != "[]" else []
        words += ["keepdim=True"] if attributes.get("keepdim") else []
        return f"{method.format(operands[0])}({', '.join([*([operands[0]] if '{}' not in method else []), *words])})"

    return write


def _power(operands: list[str], attributes: Mapping[str, Any]) -> str:
    if "self" in attributes:
        return f"({attributes['self']!r} ** {operands[0]})"
    second = operands[1] if len(operands) > 1 else _number(attributes, "exponent")
    return f"({operands[0]} ** {second})"


def _third(operands: list[str], attributes: Mapping[str, Any], name: str) -> str:
    return operands[2] if len(operands) > 2 else _number(attributes, name)


def _norm(operands: list[str], attributes: Mapping[str, Any]) -> str:
    if attributes.get("dim") or attributes.get("keepdim"):
        raise Untranslatable("a norm of some axes")
    return f"paddle.linalg.norm({operands[0]}.flatten(), {_number(attributes, 'ord')})"


def _clamp(operands: list[str], attributes: Mapping[str, Any]) -> str:
    words = [f", {word}={_number(attributes, word)}" for word in ("min", "max") if attributes.get(word) is not None]
    return f"paddle.clip({operands[0]}{''.join(words)})"


def _gelu(operands: list[str], attributes: Mapping[str, Any]) -> str:
    return f"F.gelu({operands[0]}{', approximate=True' if attributes.get('approximate') == 'tanh' else ''})"


def _layer_norm(operands: list[str], attributes: Mapping[str, Any]) -> str:
    rest = "".join(f", {operand}" for operand in operands[1:])
    shape = f"{operands[1]}.shape" if len(operands) > 1 else repr(list(attributes["normalized_shape"]))
    return f"F.layer_norm({operands[0]}, {shape}{rest}, epsilon={attributes['eps']!r})"


def _softmax(name: str) -> Callable[[list[str], Mapping[str, Any]], str]:
    return lambda operands, attributes: f"{name}({operands[0]}, {attributes['dim']})"


_WORDS: dict[str, Callable[[list[str], Mapping[str, Any]], str]] = {
    "add": _binary("+"), "sub": _binary("-"), "mul": _binary("*"), "div": _binary("/"), "pow": _power,
    "lerp": lambda operands, attributes: f"paddle.lerp({', '.join(operands[:2])}, {_third(operands, attributes, 'weight')})",
    "addcmul": lambda operands, attributes: f"({operands[0]} + {_number(attributes, 'value')} * {operands[1]} * {operands[2]})",
    "addcdiv": lambda operands, attributes: f"({operands[0]} + {_number(attributes, 'value')} * {operands[1]} / {operands[2]})",
    "linalg_vector_norm": _norm, "clamp": _clamp,
    "cat": lambda operands, attributes: f"paddle.concat([{', '.join(operands)}], {attributes.get('dim', 0)})",
    "topk": lambda operands, attributes: f"paddle.topk({operands[0]}, {attributes['k']}, {attributes.get('dim', -1)})[0]",
    "gather": lambda operands, attributes: f"paddle.take_along_axis({', '.join(operands)}, {attributes['dim']})",
    "index_select": lambda operands, attributes: f"paddle.index_select({', '.join(operands)}, {attributes['dim']})",
    "index": lambda operands, attributes: f"{operands[0]}[{', '.join(operands[1:])}]",
    "embedding": lambda operands, attributes: f"F.embedding({', '.join(reversed(operands))})",
    "stack": lambda operands, attributes: f"paddle.stack([{', '.join(operands)}], {attributes.get('dim', 0)})",
    "rsub": lambda operands, attributes: f"({_number(attributes, 'other')} - {operands[0]})",
    **{name: _function(f"paddle.{name}") for name in (
        "sqrt", "rsqrt", "reciprocal", "exp", "log", "log1p", "expm1", "abs", "tanh", "sin", "cos", "erf", "square", "maximum",
        "minimum",
    )},
    **{name: _function(f"F.{name}") for name in ("sigmoid", "silu", "relu", "softplus", "mish", "log_sigmoid")},
    "neg": lambda operands, _: f"(-{operands[0]})",
    "sum": _reduction("{}.sum"), "mean": _reduction("{}.mean"), "logsumexp": _reduction("paddle.logsumexp"),
    "_softmax": _softmax("F.softmax"), "_log_softmax": _softmax("F.log_softmax"), "gelu": _gelu,
    "native_layer_norm": _layer_norm,
    "mm": _function("paddle.matmul"), "bmm": _function("paddle.matmul"),
}  # fmt: skip


def changing_calls(trace: Trace) -> set[TraceCall]:
    """The calls of an optimizer's last step that have other numbers in the step before: no source says these numbers."""
    steps = [list(calls) for _, calls in itertools.groupby(trace.nodes, key=lambda call: call.layer)][-2:]
    pairs = list(zip(*steps)) if len(steps) == 2 else []
    return {call for before, call in pairs if before.name == call.name and before.attributes != call.attributes}


class Translator:
    """Writes what the original computes at an origin in terms of the port's values.

    Args:
        original: the original's run, partners: of its values in the port's run, recorder: of that run.
        parameters: the port's parameters by name.
        changing: calls whose numbers belong to one step of a training, see :func:`changing_calls`.
    """

    def __init__(
        self,
        original: LinkedCapture,
        partners: Partners,
        recorder: CallRecorder,
        parameters: Mapping[str, Any],
        changing: Set[TraceCall] = frozenset(),
    ) -> None:
        self._original, self._partners, self._recorder = original, partners, recorder
        self._parameters, self._changing = parameters, changing
        self._whole: list[tuple[ValueId, torch.Tensor]] = []
        self._by_memory: dict[int, list[tuple[ValueId, torch.Tensor]]] = {}
        for tensor in recorder.held():
            if tensor._is_initialized() and tensor.is_dense() and 0 not in tensor.shape:
                side = as_side(tensor)
                value = recorder.known(tensor)
                assert value is not None
                self._whole += [(value, side)] if side.dtype in (torch.int64, torch.int32) else []
                self._by_memory.setdefault(side.untyped_storage().data_ptr(), []).append((value, side))

    def candidate(self, groups: Sequence[OriginGroup], numbers: set[int]) -> Candidate | None:
        """The original's calls at an origin as a spelling of the port's values; None if they have no words here.

        Args:
            groups: what differs, at one time.
            numbers: of the port's Paddle calls there.
        """
        last = self._last_call(groups)
        port = None if last is None else self._partners.of_original.get(last.result)
        if last is None or port is None or port.node is None:
            return None
        number = call_number(port.node)
        if number is None:
            return None
        result = self._output(number, port)
        if result is None:
            return None
        self._names: dict[str, ValueId] = {}
        try:
            text = self._written(last, first=True)
        except (Untranslatable, KeyError, IndexError, TypeError):
            return None
        if text.startswith("(") and text.endswith(")") and _is_whole(text):
            text = text[1:-1]
        value, side = result
        if tuple(side.shape) != tuple(last.result.tensor.shape) and last.name not in _PRODUCTS:
            text = self._shaped(text if text.endswith(")") else f"({text})", last.result.tensor, side, last)
        cause, name, why = cause_of(groups[0])
        spelled = Formulation(name, cause, " ".join(self._names), (Spelling("", ""), Spelling(text, "")), (), why)
        return Candidate(spelled, 0, tuple(sorted(numbers | {number})), dict(self._names), (), (value,))

    def _last_call(self, groups: Sequence[OriginGroup]) -> TraceCall | None:
        """The last of the original's forward calls that an origin's results, or gradients, are of."""
        forward = {call for group in groups for call in group.original if not call.backward}
        ends = [group.original[-1] for group in groups if group.original and not group.original[-1].backward]
        if ends:
            return max(ends, key=lambda call: call.index)
        behind = {self._original.sequence.get(call) for group in groups for call in group.original if call.backward}
        reached = {call for call, number in self._original.sequence.items() if not call.backward and number in behind}
        forward |= {call for call in reached if not call.moves} or reached
        known: list[TraceCall] = []
        waiting = [call for call in forward if call.results]
        while waiting:  # from a value that the port does not make on to the first that it does
            call = waiting.pop()
            if call.result in self._partners.of_original:
                known.append(call)
            else:
                waiting += [reader for reader in call.result.readers if not reader.backward and reader.results]
        return max(known, key=lambda call: call.index, default=None)

    def _output(self, number: int, port: Value) -> tuple[ValueId, torch.Tensor] | None:
        """The Paddle value that a call gave, whose memory is a kernel's result."""
        call: OpCall = self._recorder.calls[number]
        for value in call.outputs:
            side = as_side(self._recorder.tensor(value))
            if side.numel() == port.count and side.untyped_storage().data_ptr() == port.tensor.untyped_storage().data_ptr():
                return value, side
        return (call.outputs[0], as_side(self._recorder.tensor(call.outputs[0]))) if len(call.outputs) == 1 else None

    def _written(self, call: TraceCall, *, first: bool = False) -> str:
        """A call as an expression."""
        if call.name in ("_to_copy", "copy", "to"):
            dtype = _DTYPES.get(call.result.tensor.dtype)
            if dtype is None:
                raise Untranslatable(call.name)
            return f'{self._operand(call, call.operands[-1])}.astype("{dtype}")'
        if call.name == "addmm" and call.operands[2].value.node is None:
            bias, rows, weight = (self._operand(call, operand) for operand in call.operands)
            return f"F.linear({rows}, {weight}, {bias})"
        write = _WORDS.get(call.name)
        if write is None or call in self._changing:
            raise Untranslatable(call.name)
        operands = [self._operand(call, operand) for operand in call.operands]
        if call.name == "mm" and call.operands[1].value.label in self._parameters:
            return f"F.linear({', '.join(operands)})"
        attributes = dict(call.attributes)
        if call.name not in _PRODUCTS and isinstance(attributes.get("dim"), (int, list, tuple)):
            attributes["dim"] = _from_the_end(attributes["dim"], call.operands[0].tensor.dim())
        return write(operands, attributes)

    def _operand(self, call: TraceCall, operand: TraceOperand) -> str:
        """An operand of a call: a value of the port's, or an expression of values."""
        partner = self._partners.of_original.get(operand.value)
        if operand.value.node is None and operand.value.label.startswith("arange("):
            return self._shaped(_arange(operand.value), operand.value.tensor, operand.tensor, call)
        if not operand.tensor.is_floating_point():
            return self._index(operand.tensor)
        if partner is None:
            if operand.value.node is None or operand.value is not operand.value.node.result:
                raise Untranslatable("an operand without partner")
            text = self._written(operand.value.node)
            held = operand.value.tensor
            return self._cast(self._shaped(text, held, operand.tensor, call), held, operand.tensor)
        if partner.label in self._parameters:
            known = self._recorder.known(self._parameters[partner.label])
            if known is None:
                raise Untranslatable(partner.label)
            return self._named(known)
        sides = self._by_memory.get(partner.tensor.untyped_storage().data_ptr(), [])
        for value, side in sorted(sides, key=lambda pair: pair[1].stride() != operand.tensor.stride()):
            if side.shape == operand.tensor.shape:
                dense = ".contiguous()" if operand.tensor.is_contiguous() and not side.is_contiguous() else ""
                return self._cast(self._named(value) + dense, side, operand.tensor)
        for value, side in sides:
            if side.numel() == operand.tensor.numel():
                return self._cast(self._shaped(self._named(value), side, operand.tensor, call), side, operand.tensor)
        read = self._read(partner)
        if read is None:
            raise Untranslatable("a value that no tensor of the port holds")
        value, side = read
        self._names.setdefault(_gradient_name(partner.label, self._names), value)
        turned = side.dim() == 2 and side.shape == operand.tensor.shape and not torch.equal(partner.tensor, operand.tensor)
        text = f"{self._named(value)}.t()" if turned else self._shaped(self._named(value), side, operand.tensor, call)
        return self._cast(text, side, operand.tensor)

    def _read(self, constant: Value) -> tuple[ValueId, torch.Tensor] | None:
        """What was there before in the port's run, as a call of Paddle's reads it."""
        for node in constant.readers:
            number = call_number(node)
            values = [] if number is None else [value for _, value in self._recorder.calls[number].inputs]
            for value, operand in zip(values, node.operands):
                if operand.value is constant and len(values) == len(node.operands):
                    return value, operand.tensor
        return None

    def _index(self, tensor: torch.Tensor) -> str:
        """Whole numbers, which no kernel rounds: a tensor of the port's that holds them."""
        for value, side in self._whole:
            if side.shape == tensor.shape and torch.equal(side, tensor.to(side.dtype)):
                return self._named(value)
        raise Untranslatable("indices that no tensor of the port holds")

    def _named(self, value: ValueId) -> str:
        for name, held in self._names.items():
            if held == value:
                return name
        name = f"x{len(self._names) + 1}"
        self._names[name] = value
        return name

    @staticmethod
    def _shaped(text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall) -> str:
        """A value in the arrangement in which a call is given it."""
        if held.shape == wanted.shape:
            return text
        if call.name in _PRODUCTS and held.shape[-2:] == wanted.shape[-2:]:
            return text  # a product of stacked matrices keeps their axes
        if call.name in _PRODUCTS and held.dim() > 2 and held.shape[:-3:-1] == wanted.shape[-2:]:
            axes = [*range(held.dim() - 2), held.dim() - 1, held.dim() - 2]
            return f"{text}.transpose({axes})"
        for place in range(wanted.dim()):
            if held.dim() + 1 == wanted.dim() and wanted.shape == (*held.shape[:place], 1, *held.shape[place:]):
                return f"{text}.unsqueeze({place - wanted.dim()})"
            if held.dim() == wanted.dim() + 1 and held.shape == (*wanted.shape[:place], 1, *wanted.shape[place:]):
                return f"{text}.squeeze({place - held.dim()})"
        if held.dim() == wanted.dim() <= 5:
            for order in itertools.permutations(range(held.dim())):
                if held.permute(order).shape == wanted.shape:
                    return f"{text}.transpose({list(order)})"
        return f"{text}.reshape({list(wanted.shape)})"

    @staticmethod
    def _cast(text: str, held: torch.Tensor, wanted: torch.Tensor) -> str:
        """Casts that keep every value are no calls of a trace."""
        if held.dtype == wanted.dtype or not wanted.is_floating_point():
            return text
        return f'{text}.astype("{_DTYPES[wanted.dtype]}")'


def _gradient_name(label: str, taken: Mapping[str, ValueId]) -> str:
    """A name for what was there before: ``up_weight_grad`` of the gradient of ``up.weight``."""
    words = label.split()
    name = f"{words[2].replace('.', '_')}_grad" if label.startswith(GRADIENT_OF) and len(words) > 2 else ""
    return name if name.isidentifier() else f"x{len(taken) + 1}"


def _arange(value: Value) -> str:
    """A constant that counts, in Paddle's words."""
    words = dict(part.split("=") for part in value.label[len("arange(") : -1].split(", "))
    dtype = str(value.tensor.dtype).rpartition(".")[2]
    return f'paddle.arange({words.get("start", 0)}, {words["end"]}, {words.get("step", 1)}, dtype="{dtype}")'


def _from_the_end(dim: Any, rank: int) -> Any:
    if isinstance(dim, (list, tuple)):
        return [_from_the_end(each, rank) for each in dim]
    return dim - rank if dim >= 0 else dim


def _is_whole(text: str) -> bool:
    """Whether the first parenthesis is closed by the last."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return place == len(text) - 1
    return False
