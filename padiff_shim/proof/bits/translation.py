"""The original's calls at an origin, written in Paddle's words: what to try where no formulation of the library is at hand."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch

from ...table.formulation import Formulation, Spelling
from ..trace import FUSED_ATTENTION, Trace, TraceCall, TraceOperand, Value
from .calls import CallRecorder, OpCall, ValueId
from .following import LinkedCapture, as_side, call_number
from .origins import GRADIENT_OF, OriginGroup, Partners, cause_of
from .patterns import Candidate
from .source import written_number
from .vocabulary import Match, phrases

_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm"})
_MOST_NUMBERS = 64  # of a constant that is written as numbers
_DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.float16: "float16"}


class Untranslatable(Exception):
    """A call that has no words here."""


_UNTRANSLATED = Untranslatable, KeyError, IndexError, TypeError


def _binary(sign: str) -> Callable[[list[str], Mapping[str, Any]], str]:
    def write(operands: list[str], attributes: Mapping[str, Any]) -> str:
        if attributes.get("alpha", 1) != 1 or attributes.get("rounding_mode"):
            raise Untranslatable("alpha")
        number = next((_number(attributes[name]) for name in ("self", "other", "exponent") if name in attributes), "")
        parts = [number, operands[0]] if "self" in attributes else [*operands, number]
        return f"({parts[0]} {sign} {parts[1]})"

    return write


def _number(value: Any) -> str:
    text = written_number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
    return f"({text})" if "**" in text or text.startswith("-") else text


def _norm(operands: list[str], attributes: Mapping[str, Any]) -> str:
    order, axes = _number(attributes.get("ord", 2)), attributes.get("dim")
    if not axes:
        return f"paddle.linalg.norm({operands[0]}.flatten(), {order})"
    axis, keepdim = axes[0] if len(axes) == 1 else axes, ", keepdim=True" if attributes.get("keepdim") else ""
    return f"paddle.linalg.norm({operands[0]}, {order}, {axis}{keepdim})"


def _attention(operands: list[str], attributes: Mapping[str, Any]) -> str:
    words = [f"{text}.transpose([0, 2, 1, 3])" for text in operands[:3]]
    words += [f"attn_mask={text}" for text in operands[3:]] + ["is_causal=True"] * bool(attributes.get("is_causal"))
    words += [f"scale={_number(scale)}"] if (scale := attributes.get("scale")) is not None else []
    return f"F.scaled_dot_product_attention({', '.join(words)}).transpose([0, 2, 1, 3])"


_SIGNS: dict[str, Callable[[list[str], Mapping[str, Any]], str]] = {
    "add": _binary("+"), "sub": _binary("-"), "mul": _binary("*"), "div": _binary("/"), "pow": _binary("**"),
    "eq": _binary("=="), "gt": _binary(">"), "lt": _binary("<"), "ge": _binary(">="), "le": _binary("<="), "ne": _binary("!="),
    "rsub": lambda operands, attributes: f"({_number(attributes['other'])} - {operands[0]})",
    "linalg_vector_norm": _norm,  # Paddle's functions choose its axes themselves
    "polar": lambda operands, _: f"paddle.polar({', '.join(operands)})",
    "complex": lambda operands, _: f"paddle.complex({', '.join(operands)})",
    "neg": lambda operands, _: f"(-{operands[0]})",
    "index": lambda operands, _: f"{operands[0]}[{', '.join(operands[1:])}]",
    "addcmul": lambda operands, attributes: f"({operands[0]} + {_number(attributes['value'])} * {operands[1]} * {operands[2]})",
    "addcdiv": lambda operands, attributes: f"({operands[0]} + {_number(attributes['value'])} * {operands[1]} / {operands[2]})",
    **dict.fromkeys(("mm", "bmm"), lambda operands, _: f"paddle.matmul({', '.join(operands)})"),
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
                self._by_memory.setdefault(side.data_ptr(), []).append((value, side))

    def candidate(self, groups: Sequence[OriginGroup], numbers: set[int]) -> Candidate | None:
        """The original's calls at an origin as a spelling of the port's values; None if they have no words here.

        Args:
            groups: what differs, at one time.
            numbers: of the port's Paddle calls there.
        """
        last = self._last_call(groups)
        port = self._partners.of_original.get(last.result) if last is not None else _made_value(groups[0])
        number = None if port is None or port.node is None else call_number(port.node)
        result = None if port is None or number is None else self._output(number, port)
        if port is None or number is None or result is None:
            return None
        self._names: dict[str, ValueId] = {}
        self._texts_of: dict[TraceCall, str] = {}
        value, side = result
        texts: list[str] = []
        if last is None:  # a constant that the original has, and the port makes
            constant = self._partners.of_port[port].tensor
            with contextlib.suppress(Untranslatable):
                texts = [self._shaped(_literal(constant), constant, side, groups[0].port[-1])]
        for text in self._texts(last) if last is not None else ():
            if text.startswith("(") and text.endswith(")") and _is_whole(text):
                text = text[1:-1]
            assert last is not None
            made = last.result.tensor
            if side.shape != made.shape or side.is_complex() is not made.is_complex():
                whole = text if text.endswith(")") else f"({text})"
                # Norms see their operands in another shape, and products of rows keep the axes of theirs.
                texts += [text] if last.name.startswith("native_") or last.name in _PRODUCTS else []
                text = self._paired(whole, made, side, last)
            texts.append(text)
        if not texts:
            return None
        if side.dtype in (torch.bfloat16, torch.float16):  # kernels compute in float32, and round once
            widened = [re.sub(r"\bx\d+\b", r'\g<0>.astype("float32")', text) for text in texts]
            texts += [f'({text}).astype("{_DTYPES[side.dtype]}")' for text in widened]
        cause, name, why = cause_of(groups[0])
        spellings = (Spelling("", ""), *(Spelling(text, "") for text in dict.fromkeys(texts)))
        spelled = Formulation(name, cause, " ".join(self._names), spellings, (), why)
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
            side = as_side(self._recorder.memory(value))
            if side.numel() == port.count and side.untyped_storage().data_ptr() == port.tensor.untyped_storage().data_ptr():
                return value, side
        return (call.outputs[0], as_side(self._recorder.memory(call.outputs[0]))) if len(call.outputs) == 1 else None

    def _texts(self, call: TraceCall) -> Iterator[str]:
        """A call as an expression, in each way in which the table of ops has words for it and those before it."""
        for phrase in phrases(call):
            match = None if call in self._changing else phrase.matched(call)
            with contextlib.suppress(*_UNTRANSLATED):
                if match is not None and len(phrase.kernels) > 1:
                    yield self._phrased(match)
        with contextlib.suppress(*_UNTRANSLATED):
            yield self._signed(call)
        for phrase in phrases(call):
            match = None if call in self._changing else phrase.matched(call)
            with contextlib.suppress(*_UNTRANSLATED):
                if match is not None and len(phrase.kernels) == 1:
                    yield self._phrased(match)

    def _written(self, call: TraceCall) -> str:
        """The first of these."""
        if call not in self._texts_of:
            self._texts_of[call] = next(self._texts(call), "")
        if not self._texts_of[call]:
            raise Untranslatable(call.name)
        return self._texts_of[call]

    def _phrased(self, match: Match) -> str:
        """A call of Paddle's API."""
        defaults, words = match.phrase.defaults, dict[str, str]()
        for name, operands in match.operands.items():
            texts = [self._operand(*operand) for operand in operands]
            words[name] = f"[{', '.join(texts)}]" if match.phrase.whole else texts[0]
        for name, value in match.settings():
            if name not in defaults or defaults[name] != value:
                words[name] = repr(value) if not isinstance(value, float) else written_number(value)
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
            dtype = _DTYPES.get(call.result.tensor.dtype)
            if dtype is None:
                raise Untranslatable(call.name)
            return f'{self._operand(call, call.operands[-1])}.astype("{dtype}")'
        if call.name == "addmm" and call.operands[2].value.node is None:
            bias, rows, weight = (self._operand(call, operand) for operand in call.operands)
            return f"F.linear({rows}, {weight}, {bias})"
        write = _attention if FUSED_ATTENTION in call.name else _SIGNS.get(call.name)
        if write is None or call in self._changing:
            raise Untranslatable(call.name)
        operands = [self._operand(call, operand) for operand in call.operands]
        if call.name == "mm" and call.operands[1].value.label in self._parameters:
            return f"F.linear({', '.join(operands)})"
        return write(operands, call.attributes)

    def _operand(self, call: TraceCall, operand: TraceOperand) -> str:
        """An operand of a call: a value of the port's, or an expression of values."""
        partner = self._partners.of_original.get(operand.value)
        if operand.value.node is None and operand.value.label.startswith("arange("):
            return self._shaped(_arange(operand.value), operand.value.tensor, operand.tensor, call)
        if not operand.tensor.is_floating_point() and not operand.tensor.is_complex():
            return self._index(operand)
        if partner is None:
            return self._made(call, operand)
        if partner.label in self._parameters:
            known = self._recorder.known(self._parameters[partner.label])
            if known is None:
                raise Untranslatable(partner.label)
            return self._named(known)
        sides = self._by_memory.get(partner.tensor.data_ptr(), [])  # a part of a tensor begins elsewhere
        for value, side in sorted(sides, key=lambda pair: pair[1].stride() != operand.tensor.stride()):
            if side.shape == operand.tensor.shape and side.is_complex() is operand.tensor.is_complex():
                laid = operand.tensor.is_contiguous() and not side.is_contiguous() and not call.name.startswith("native_")
                dense = ".contiguous()" if laid else ""  # norms lay their operand out themselves
                return self._cast(self._named(value) + dense, side, operand.tensor)
        for value, side in sides:
            if side.numel() * (1 + side.is_complex()) == operand.value.count:
                return self._cast(self._paired(self._named(value), side, operand.tensor, call), side, operand.tensor)
        read = self._read(partner)
        if read is None:
            return self._made(call, operand)
        value, side = read
        self._names.setdefault(_gradient_name(partner.label, self._names), value)
        turned = side.dim() == 2 and side.shape == operand.tensor.shape and not torch.equal(partner.tensor, operand.tensor)
        text = f"{self._named(value)}.t()" if turned else self._shaped(self._named(value), side, operand.tensor, call)
        return self._cast(text, side, operand.tensor)

    def _made(self, call: TraceCall, operand: TraceOperand) -> str:
        """An operand that no tensor of the port holds, as the original makes it."""
        maker, held = operand.value.node, operand.value.tensor
        if maker is None:
            return self._cast(_literal(operand.tensor), operand.tensor, operand.tensor)
        if operand.value is not maker.result:
            raise Untranslatable("one of several results")
        return self._cast(self._paired(self._written(maker), held, operand.tensor, call), held, operand.tensor)

    def _read(self, constant: Value) -> tuple[ValueId, torch.Tensor] | None:
        """What was there before in the port's run, as a call of Paddle's reads it."""
        flat = constant.tensor.reshape(-1)
        for node in constant.readers:
            number = call_number(node)
            values = [] if number is None else [value for _, value in self._recorder.calls[number].inputs]
            for value in values:
                tensor = self._recorder.memory(value)
                if not tensor._is_initialized() or not tensor.is_dense():
                    continue
                side = as_side(tensor)
                sides = [side, side.t()] if side.dim() == 2 else [side]
                if side.numel() == constant.count and any(torch.equal(each.reshape(-1), flat) for each in sides):
                    return value, side
            for value, operand in zip(values, node.operands):  # what was written since
                if operand.value is constant and len(values) == len(node.operands):
                    return value, operand.tensor
        for value, side in itertools.chain(*self._by_memory.values()):
            if side.dtype is flat.dtype and side.numel() == flat.numel() and torch.equal(side.reshape(-1), flat):
                return value, side
        return None

    def _index(self, operand: TraceOperand) -> str:
        """Whole numbers, which no kernel rounds: a tensor of the port's that holds them, or how the original makes them."""
        tensor = operand.tensor
        for value, side in self._whole:
            if side.shape == tensor.shape and torch.equal(side, tensor.to(side.dtype)):
                return self._named(value)
        if operand.value.node is None:
            return _literal(tensor)
        return self._shaped(self._written(operand.value.node), operand.value.tensor, tensor, operand.value.node)

    def _named(self, value: ValueId) -> str:
        for name, held in self._names.items():
            if held == value:
                return name
        name = f"x{len(self._names) + 1}"
        self._names[name] = value
        return name

    def _paired(self, text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall) -> str:
        """A value in the arrangement in which a call is given it, and as complex numbers, or pairs, as it is given them."""
        if held.is_complex() is wanted.is_complex():
            return self._shaped(text, held, wanted, call)
        pair = torch.empty((*(wanted if wanted.is_complex() else held).shape, 2))
        if wanted.is_complex():
            return f"paddle.as_complex({self._shaped(text, held, pair, call)})"
        return self._shaped(f"paddle.as_real({text})", pair, wanted, call)

    @staticmethod
    def _shaped(text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall) -> str:
        """A value in the arrangement in which a call is given it."""
        if held.shape == wanted.shape:
            return text
        if call.name in _PRODUCTS and held.shape[-2:] == wanted.shape[-2:]:
            return text  # a product of stacked matrices keeps their axes
        if call.name in ("mm", "addmm") and wanted.dim() == 2 and held.shape[-1:] == wanted.shape[-1:]:
            return text  # and so does one of rows
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
        if held.dtype == wanted.dtype or not wanted.is_floating_point() or held.is_complex():
            return text
        return f'{text}.astype("{_DTYPES[wanted.dtype]}")'


def _made_value(group: OriginGroup) -> Value:
    """The port's value that differs."""
    return group.port[-1].values[group.result[1]]


def _gradient_name(label: str, taken: Mapping[str, ValueId]) -> str:
    """A name for what was there before: ``up_weight_grad`` of the gradient of ``up.weight``."""
    words = label.split()
    name = f"{words[2].replace('.', '_')}_grad" if label.startswith(GRADIENT_OF) and len(words) > 2 else ""
    return name if name.isidentifier() else f"x{len(taken) + 1}"


def _literal(tensor: torch.Tensor) -> str:
    """A constant that no call has made, as numbers."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    if tensor.numel() and bool((tensor == tensor.reshape(-1)[0]).all()):
        return f'paddle.full({list(tensor.shape)}, {tensor.reshape(-1)[0].item()!r}, "{dtype}")'
    if tensor.numel() > _MOST_NUMBERS or tensor.is_complex():
        raise Untranslatable("a constant of many numbers")
    shown = np.vectorize(float)(tensor.numpy().astype(str)).tolist() if tensor.dtype is torch.float32 else tensor.tolist()
    return f'paddle.to_tensor({shown}, "{dtype}")'


def _arange(value: Value) -> str:
    """A constant that counts, in Paddle's words."""
    words = dict(part.split("=") for part in value.label[len("arange(") : -1].split(", "))
    dtype = str(value.tensor.dtype).rpartition(".")[2]
    return f'paddle.arange({words.get("start", 0)}, {words["end"]}, {words.get("step", 1)}, dtype="{dtype}")'


def _is_whole(text: str) -> bool:
    """Whether the first parenthesis is closed by the last."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return place == len(text) - 1
    return False
