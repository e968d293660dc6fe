"""The original's calls at an origin, written in Paddle's words: what to try there."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ..trace import TraceCall, TraceOperand, Value
from .calls import CallRecorder, OpCall, ValueId
from .changes import Candidate
from .followed_runs import LinkedCapture, as_side, call_number
from .formulation import Formulation
from .origins import GRADIENT_OF, OriginGroup, Partners, cause_of
from .words import DTYPES, PRODUCTS, CallWords, Untranslatable, literal

_DECIMAL = r"(?<![\w.])\d+ \*\* -0\.5|(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?|(?<![\w.])\d+e[-+]?\d+"
_ALIKE = 1 / 16  # of the largest element: what two runs in 16 bits have apart
_CAST = r'\bx\d+\.astype\("\w+"\)'  # of an operand


class Translator(CallWords):
    """Writes what the original computes at an origin in terms of the port's values.

    Args:
        original: the original's run, partners: of its values in the port's run, recorder: of that run.
        parameters: the port's parameters by name.
    """

    def __init__(
        self,
        original: LinkedCapture,
        partners: Partners,
        recorder: CallRecorder,
        parameters: Mapping[str, Any],
    ) -> None:
        super().__init__(parameters.keys())
        self._original, self._partners, self._recorder, self._parameters = original, partners, recorder, parameters
        self._as_made = False  # products have the axes that Paddle's have
        self._parts: set[str] = set()  # of a call's text: those of the calls before it
        self._late: set[ValueId] = set()  # what is made where the text stands, and later
        self._read_there: set[ValueId] = set()  # by the port's calls whose place it takes
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
        last = self._at_an_end(self._last_call(groups))
        port = groups[0].port[-1].values[groups[0].result[1]] if last is None else self._partners.of_original.get(last.result)
        number = None if port is None or port.node is None else call_number(port.node)
        result = None if port is None or number is None else self._output(number, port)
        if port is None or number is None or result is None:
            return None
        if last is not None:  # without the mask of zeros that it adds, if it does
            idle = (operand.value.node for operand in last.operands if torch.equal(operand.tensor, last.result.tensor))
            last = next((call for call in idle if call in groups[0].original), last)
        self._names, self._numbers, self.untold = dict[str, ValueId](), dict[float, str](), ""
        self._late = {value for call in self._recorder.calls[number:] for value in call.outputs}
        self._read_there = {held for each in (*numbers, number) for _, held in self._recorder.calls[each].inputs}
        value, side = result
        texts: list[str] = []
        if last is None:  # a constant that the original has, and the port makes
            constant = self._partners.of_port[port].tensor
            with contextlib.suppress(Untranslatable):
                texts = [self.shaped(literal(constant), constant, side, groups[0].port[-1])]
        for text in self._in_each_way(last) if last is not None else ():
            assert last is not None
            tree, made = ast.parse(text, mode="eval").body, last.result.tensor
            text = ast.get_source_segment(text, tree) or text  # without the parentheses of all
            if side.shape != made.shape or side.is_complex() is not made.is_complex():
                whole = f"({text})" if isinstance(tree, (ast.BinOp, ast.UnaryOp)) else text
                texts.append(text)  # norms see their operands in another shape, and products of rows keep the axes of theirs
                if last.name in PRODUCTS and side.dim() > 2 and side.shape[-2:] == made.mT.shape[-2:]:
                    texts.append(f"{whole}.transpose({[*range(side.dim() - 2), side.dim() - 1, side.dim() - 2]})")
                way = next((way for way in last.result.ways if way and way[-1].shape == side.shape), ())
                text = self._paired(whole, made, side, last, way).removesuffix(".contiguous()")  # it lies as the original's does
            texts += [text.replace(".t()", ""), text]  # of elements alone, for weights of any axes
        if not texts:
            return None
        texts = [text if "to_tensor(" in text else re.sub(_DECIMAL, self._numbered, text) for text in texts]
        if side.dtype in (torch.bfloat16, torch.float16):  # kernels compute in float32, and round once
            widened = [re.sub(r"\bx\d+\b", r'\g<0>.astype("float32")', text) for text in texts]
            texts += [f'({text}).astype("{DTYPES[side.dtype]}")' for text in widened]
        spelled = Formulation(*cause_of(groups[0]), tuple(map(self._once, dict.fromkeys(texts))))
        named = {name: number for number, name in self._numbers.items()}
        return Candidate(spelled, tuple(sorted(numbers | {number})), {**self._names, **named}, (value,))

    def _in_each_way(self, call: TraceCall) -> Iterator[str]:
        """A call as an expression: products have the axes that Paddle's have, and then the shapes that the original gives them."""
        self._parts = set[str]()
        for self._as_made in (True, False):
            self._texts_of = {}
            yield from self._texts(call)
            self._parts.update(filter(None, self._texts_of.values()))

    def _once(self, text: str) -> str:
        """A spelling in which each call that is read several times is made once, as the original does: its gradients are added."""
        for part in sorted({*self._parts, *re.findall(_CAST, text)}, key=len, reverse=True):
            if text.count(part) > 1 and not part.isidentifier():
                name = f"y{text.count(chr(10)) + 1}"
                text = f"{name} = {part}\n{text.replace(part, name)}"
        return text

    def _numbered(self, number: re.Match[str]) -> str:
        """The name of a number, which is an operand, too: the port may name it, and may have another one for each layer or step."""
        base, _, power = number[0].partition(" ** ")
        return self._numbers.setdefault(float(base) ** float(power or 1), f"n{len(self._numbers) + 1}")

    def constant(self, call: TraceCall) -> str:
        """A call that depends on no value of the port's, as an expression; "" where it has no words."""
        self._names, self._texts_of, self._as_made = {}, {}, False
        with contextlib.suppress(Untranslatable):
            text = self._written(call)
            return "" if self._names else text
        return ""

    def _last_call(self, groups: Sequence[OriginGroup]) -> TraceCall | None:
        """The last of the original's forward calls that an origin's results, or gradients, are of."""
        forward = {call for group in groups for call in group.original if not call.backward}
        ends = [group.original[-1] for group in groups if group.original and not group.original[-1].backward]
        if ends:
            return max(ends, key=lambda call: call.index)
        reached = self._reached(groups)
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

    def _at_an_end(self, last: TraceCall | None) -> TraceCall | None:
        """What the original calls where the Paddle call ends that makes a call's result, for that alone is the port's."""
        port = None if last is None else self._partners.of_original.get(last.result)
        number = None if port is None or port.node is None else call_number(port.node)
        kernels = [] if number is None else [node for node in self._partners.trace.nodes if call_number(node) == number]
        ends = [self._partners.of_port.get(node.result) for node in kernels if node.results and not node.backward]
        end = ends[-1].node if ends and ends[-1] is not None else None
        return last if end is None or last is None or end.index < last.index else end

    def _reached(self, groups: Sequence[OriginGroup]) -> set[TraceCall]:
        """The forward calls whose backward an origin's calls are."""
        behind = {self._original.sequence.get(call) for group in groups for call in group.original if call.backward}
        return {call for call, number in self._original.sequence.items() if not call.backward and number in behind}

    def _output(self, number: int, port: Value) -> tuple[ValueId, torch.Tensor] | None:
        """The Paddle value that a call gave, whose memory is a kernel's result."""
        call: OpCall = self._recorder.calls[number]
        for value in call.outputs:
            side = as_side(self._recorder.memory(value))
            if side.numel() == port.count and side.untyped_storage().data_ptr() == port.tensor.untyped_storage().data_ptr():
                return value, side
        return (call.outputs[0], as_side(self._recorder.memory(call.outputs[0]))) if len(call.outputs) == 1 else None

    def _operand(self, call: TraceCall, operand: TraceOperand) -> str:
        """An operand of a call: a value of the port's, or an expression of values."""
        partner = self._partners.of_original.get(operand.value)
        if operand.value.maker is not None and operand.value.maker.name == "arange":
            return self.shaped(self._written(operand.value.maker), operand.value.tensor, operand.tensor, call)
        if not operand.tensor.is_floating_point() and not operand.tensor.is_complex():
            return self._index(operand)
        if partner is None:
            return self._made(call, operand)
        if partner.label in self._parameters:
            known = self._recorder.known(self._parameters[partner.label])
            if known is None:
                raise Untranslatable(partner.label)
            return self._weight(self._named(known), as_side(self._parameters[partner.label]), operand.tensor)
        sides, size = self._sides(partner.tensor.data_ptr()), operand.value.count  # a part of a tensor begins elsewhere
        copies = (pair for pair in self._sides(*self._by_memory) if pair[0] in self._read_there)  # of what is equal: a dropout
        flat = partner.tensor.reshape(-1)
        sides[:0] = [pair for pair in copies if pair[1].numel() == len(flat) and torch.equal(pair[1].reshape(-1), flat)]
        if operand.tensor.numel() > size and (repeated := list(self._alike(operand.tensor))):
            sides, size = repeated, operand.tensor.numel()
        more_rows = partner.count > operand.value.count  # a table for each row of a batch, which the original has once
        for value, side in sorted(sides, key=lambda pair: pair[1].stride() != operand.tensor.stride()):
            if side.shape[more_rows:] == operand.tensor.shape[more_rows:] and side.is_complex() is operand.tensor.is_complex():
                return self._cast(self._named(value) + _dense(side, partner, call, operand), side, operand.tensor)
        matrix = operand.tensor.shape[-2:]
        lengths, passed = sorted(operand.tensor.shape), [step.shape for step in reversed(operand.way)]

        def unlike(pair: tuple[ValueId, torch.Tensor]) -> tuple[int, ...]:
            shape = pair[1].shape
            steps = next((count for count, other in enumerate(passed) if other == shape), len(passed))
            return shape[-2:] != matrix, shape[-2:] != matrix[::-1], sorted(shape) != lengths, steps

        for value, side in sorted(sides, key=unlike):
            if side.numel() * (1 + side.is_complex()) == size:
                name = self._named(value)
                laid = self._repeated(name, side, operand.tensor, call) or self._paired(
                    name, side, operand.tensor, call, operand.way
                )
                return self._cast(laid, side, operand.tensor)
        text, side = self._before(partner, operand) or self._part_of(partner) or ("", operand.tensor)
        if not text:
            return self._made(call, operand)
        return self._cast(
            self.shaped(text, side, operand.tensor, call) + _dense(side, partner, call, operand), side, operand.tensor
        )

    def _before(self, partner: Value, operand: TraceOperand) -> tuple[str, torch.Tensor] | None:
        """A value that was there before the port's run, as an operand has it."""
        read = self._read(partner)
        if read is None:
            return None
        value, side = read
        self._names.setdefault(_gradient_name(partner.label, self._names), value)
        turned = side.dim() == 2 and side.shape == operand.tensor.shape and not torch.equal(partner.tensor, operand.tensor)
        return self._named(value) + ".t()" * turned, side

    def _is_parameter(self, value: Value) -> bool:
        partner = self._partners.of_original.get(value)
        return partner is not None and partner.label in self._parameters

    def _sides(self, *places: int) -> list[tuple[ValueId, torch.Tensor]]:
        """The port's values at some places in memory that are there before what a text makes, the nearest first."""
        return [pair for place in places for pair in reversed(self._by_memory.get(place, ())) if pair[0] not in self._late]

    @staticmethod
    def _weight(name: str, held: torch.Tensor, wanted: torch.Tensor) -> str:
        """A parameter, as a matrix where the port's layer holds kernels, and the other way round."""
        text, matrix = (name, held) if held.dim() < 3 else (f"{name}.flatten(1)", held.flatten(1))
        for turned, side in (("", matrix), (".t()", matrix.t())) if held.dim() > 1 and held.shape != wanted.shape else ():
            if side.numel() == wanted.numel() and torch.equal(side.reshape(wanted.shape), wanted):
                return text + turned + f".reshape({list(wanted.shape)})" * (side.shape != wanted.shape)
        return name

    def _alike(self, tensor: torch.Tensor) -> Iterator[tuple[ValueId, torch.Tensor]]:
        """The port's values whose matrices are those of a tensor that is repeated on its way to a call, or these transposed."""
        held = tensor.detach()
        ways = [held, held.mT] if held.dim() > 1 else [held]
        for way, (value, side) in itertools.product(ways, self._sides(*self._by_memory)):
            alike = side.shape[-2:] == way.shape[-2:] and side.numel() == way.numel() and side.is_floating_point()
            if alike and float((side.reshape(-1) - way.reshape(-1)).abs().max()) < _ALIKE * float(way.abs().max()):
                yield value, side

    def _made(self, call: TraceCall, operand: TraceOperand) -> str:
        """An operand that no tensor of the port holds, as the original makes it."""
        maker, held = operand.value.node, operand.value.tensor
        if maker is None:
            equal = self._equal(operand.tensor) if len(operand.tensor.unique()) > 1 else None
            return literal(operand.tensor) if equal is None else self.shaped(self._named(equal[0]), equal[1], operand.tensor, call)
        if self._as_made and maker.name in PRODUCTS and held.shape[-2:] == operand.tensor.shape[-2:]:
            return self._cast(self._result(operand.value), held, operand.tensor)
        text = self._result(operand.value)
        laid = self._repeated(text, held, operand.tensor, call) or self._paired(text, held, operand.tensor, call, operand.way)
        return self._cast(laid, held, operand.tensor)

    def _repeated(self, text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall) -> str | None:
        """A value whose elements are repeated along an axis on their way to a call; None of another.

        Of stacked matrices, whose first axes a product has as one, it is the last of these.
        """
        times, rest = divmod(wanted.numel(), max(held.numel(), 1))
        unlike = (axis for axis, (own, size) in enumerate(zip(held.shape, wanted.shape)) if own != size)
        axis = next(unlike, -1) if held.dim() == wanted.dim() else held.dim() - 3 if call.name in PRODUCTS else -1
        for place in (axis + 1, axis) if axis >= 0 and not rest and times > 1 else ():
            shape = [*held.shape[:place], times, *held.shape[place:]]
            repeated = held.unsqueeze(place).expand(shape).flatten(axis, axis + 1)
            sides = [wanted] if held.dim() == wanted.dim() else [wanted, wanted.mT]
            if any(torch.allclose(repeated.reshape(-1).double(), side.reshape(-1).double(), 1e-2, 1e-3) for side in sides):
                made = f"{text}.unsqueeze({place}).expand({shape}).reshape({list(repeated.shape)})"
                self._parts.add(made)
                return self._paired(made, repeated, wanted, call)
        return None

    def _read(self, constant: Value) -> tuple[ValueId, torch.Tensor] | None:
        """What was there before in the port's run, as a call of Paddle's reads it."""
        flat = constant.tensor.reshape(-1)
        for node in constant.readers:
            number = call_number(node)
            values = [] if number is None else [value for _, value in self._recorder.calls[number].inputs]
            written = constant.node is None and len(values) == len(node.operands)  # since
            for value, operand in zip(values, node.operands if written else ()):
                if operand.value is constant:
                    return value, operand.tensor
        return self._equal(flat)

    def _part_of(self, partner: Value) -> tuple[str, torch.Tensor] | None:
        """One of several equal parts of a value of the port's, of which a Paddle call reads each itself."""
        tensor = partner.tensor
        for value, side in self._sides(tensor.untyped_storage().data_ptr()):
            unlike = [axis for axis, sizes in enumerate(zip(side.shape, tensor.shape)) if sizes[0] != sizes[1]]
            if side.stride() != tensor.stride() or len(unlike) != 1 or side.shape[unlike[0]] % tensor.shape[unlike[0]]:
                continue
            parts = side.split(tensor.shape[unlike[0]], unlike[0])
            place = next((place for place, part in enumerate(parts) if part.data_ptr() == tensor.data_ptr()), None)
            if place is not None:
                text = f"paddle.split({self._named(value)}, {len(parts)}, {unlike[0] - side.dim()})"
                self._parts.add(text)
                return f"{text}[{place}]", tensor
        return None

    def _equal(self, tensor: torch.Tensor) -> tuple[ValueId, torch.Tensor] | None:
        """A value of the port's that holds the same numbers."""
        flat = tensor.reshape(-1)
        for value, side in self._sides(*self._by_memory):
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
            return literal(tensor)
        return self.shaped(self._result(operand.value), operand.value.tensor, tensor, operand.value.node)

    def _named(self, value: ValueId) -> str:
        for name, held in self._names.items():
            if held == value:
                return name
        name = f"x{len(self._names) + 1}"
        self._names[name] = value
        return name


def _dense(side: torch.Tensor, partner: Value, call: TraceCall, operand: TraceOperand) -> str:
    """What makes an operand as dense as the original's is: Paddle's memory may be, and Torch's not, which the port's calls read."""
    read = (other.tensor for reader in partner.readers for other in reader.operands if other.value is partner)
    lies = next((tensor for tensor in read if tensor.shape == side.shape == operand.tensor.shape), side)
    laid = operand.tensor.is_contiguous() and not lies.is_contiguous()
    return ".contiguous()" if laid and not call.name.startswith("native_") else ""  # norms lay their operand out themselves


def _gradient_name(label: str, taken: Mapping[str, ValueId]) -> str:
    """A name for what was there before: ``up_weight_grad`` of the gradient of ``up.weight``."""
    words = label.split()
    name = f"{words[2].replace('.', '_')}_grad" if label.startswith(GRADIENT_OF) and len(words) > 2 else ""
    return name if name.isidentifier() else f"x{len(taken) + 1}"
