"""The calls of a Paddle program as structure: ops, attributes, and which values flow from one call to the next."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import paddle

from ...dispatch.entry_point import EntryPoint, Unlisted
from ...dispatch.frames import Frame, paused
from ...table.reasons import StayNative


class ValueId(NamedTuple):
    """Which value it is, among those of one recording; two tensors with one number are one value."""

    number: int
    dtype: str


@dataclass(frozen=True)
class OpCall:
    """One call.

    Attributes:
        op: its name in the table of ops; Paddle's own name for what has no entry there.
        attributes: arguments that are no tensors, by name, with defaults filled in; lists as tuples, dtypes as strings, axes
            counted from the last.
        inputs: (parameter, value) of each tensor that it reads; the n-th of a sequence is ``"x[n]"``.
        outputs: the values that it makes. What it writes in place is a new value. ``listed``: it gives them as a sequence.
    """

    op: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[tuple[str, ValueId], ...] = ()
    outputs: tuple[ValueId, ...] = ()
    listed: bool = False


class CallRecorder:
    """The calls of a run, and the number of each tensor in them. It holds every tensor that it has met."""

    def __init__(self) -> None:
        self.calls: list[OpCall] = []
        self._numbers: dict[int, tuple[Any, int]] = {}  # by the tensor's identity; the tensor too: no identity is given out twice
        self._places: dict[tuple[Any, ...], int] = {}  # by where and how a tensor lies: one behind detach() is the same value
        self._count = 0
        self._memory: dict[int, Any] = {}  # by number: held, so that none is used twice: that of a gradient goes when it is cleared

    def value(self, tensor: Any) -> ValueId:
        """The number of a tensor's value as it is now."""
        if id(tensor) not in self._numbers:
            number = self._places.get(_place(tensor))
            if number is None:
                return self._made(tensor)
            self._numbers[id(tensor)] = tensor, number
        return ValueId(self._numbers[id(tensor)][1], _plain(tensor.dtype))

    def known(self, tensor: Any) -> ValueId | None:
        """The number of a tensor's value, if it has been met as this object."""
        held = self._numbers.get(id(tensor))
        return None if held is None else ValueId(held[1], _plain(tensor.dtype))

    def alias(self, tensor: Any, number: int) -> None:
        """A tensor holds a value that has a number."""
        self._numbers[id(tensor)] = tensor, number

    def held(self) -> list[Any]:
        """All tensors that were met."""
        return [tensor for tensor, _ in self._numbers.values()]

    def tensor(self, value: ValueId) -> Any:
        """The tensor that held a value first.

        Raises:
            LookupError: other values have been written in its place.
        """
        for tensor, number in self._numbers.values():
            if number == value.number:
                return tensor
        raise LookupError(f"value {value.number} was overwritten in place")

    def memory(self, value: ValueId) -> Any:
        """Where a value lies, in the shape in which it was made, without its graph; what was written there since stands there."""
        return self._memory[value.number]

    def operands(self, operands: Mapping[str, ValueId | float]) -> dict[str, Any]:
        """Operands of a spelling by name: tensors in the place of their values."""
        return {name: self.tensor(value) if isinstance(value, ValueId) else value for name, value in operands.items()}

    def _made(self, tensor: Any) -> ValueId:
        self._count += 1
        with paused():
            self._memory[self._count] = tensor.detach()
        written = id(tensor) in self._numbers
        self._numbers[id(tensor)] = tensor, self._count
        if written or _place(tensor) not in self._places:
            self._places[_place(tensor)] = self._count
        return ValueId(self._count, _plain(tensor.dtype))

    def read(self, arguments: Sequence[tuple[str, Any]]) -> tuple[Mapping[str, Any], tuple[tuple[str, ValueId], ...]]:
        """The attributes of a call that is about to be made, and the values that it reads."""
        inputs: list[tuple[str, ValueId]] = []
        attributes: dict[str, Any] = {}
        rank = 0
        for name, value in arguments:
            if isinstance(value, paddle.Tensor):
                inputs.append((name, self.value(value)))
            elif isinstance(value, (list, tuple)) and any(isinstance(item, paddle.Tensor) for item in value):
                tensors = [item for item in value if isinstance(item, paddle.Tensor)]
                inputs += [(f"{name}[{place}]", self.value(tensor)) for place, tensor in enumerate(tensors)]
                attributes[name] = _plain(value)
            elif name in ("axis", "dim"):
                attributes[name] = _from_the_end(_plain(value), rank)
            else:
                attributes[name] = _plain(value)
            first = value[0] if isinstance(value, (list, tuple)) and value else value
            rank = rank or (first.ndim if isinstance(first, paddle.Tensor) else 0)
        return attributes, tuple(inputs)

    def note(self, op: str, attributes: Mapping[str, Any], inputs: tuple[tuple[str, ValueId], ...], result: Any) -> None:
        """Write down a call that was made."""
        listed = isinstance(result, (list, tuple))
        outputs = [item for item in (result if listed else [result]) if isinstance(item, paddle.Tensor)]
        self.calls.append(OpCall(op, attributes, inputs, tuple(map(self._made, outputs)), listed))


def _from_the_end(axis: Any, rank: int) -> Any:
    """An axis, or several, counted from the last: the same for operands of any number of axes."""
    if isinstance(axis, tuple):
        return tuple(_from_the_end(each, rank) for each in axis)
    return axis - rank if type(axis) is int and axis >= 0 else axis


def _place(tensor: Any) -> tuple[Any, ...]:
    """Where a tensor lies in memory, and how; its identity, where it has none."""
    if not tensor._is_initialized() or 0 in tensor.shape or not tensor.is_dense():
        return (id(tensor),)
    return tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.strides), tensor.dtype


def _plain(value: Any) -> Any:
    """An argument as something that can be compared."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, paddle.Tensor):
        return "a tensor"
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    if isinstance(value, paddle.dtype) or type(value).__name__ in ("dtype", "VarType", "DataType"):
        return str(value).rpartition(".")[2].lower()
    return value if isinstance(value, (bool, int, float, complex, str, type(None))) else repr(value)


class NotesCalls:
    """What a plan needs to have every call noted, the outermost of those that lead to one another.

    It stands before a plan among the bases of a class.
    """

    hurries = False  # every call has to come by
    recorder: CallRecorder
    depth = 0  # 1 within a call

    def answer(self, op: str, make: Callable[[], Any]) -> Any:
        """The result of an outermost call; ``make`` makes it."""
        return make()

    def arguments(self, *parts: Any) -> tuple[Any, ...]:
        """The arguments of an outermost call."""
        return parts

    def _noted(self, op: str, named: Callable[..., Sequence[tuple[str, Any]]], make: Callable[..., Any], *parts: Any) -> Any:
        """The result of a call; an outermost one is written down. ``named``: its arguments by name; ``make``: makes it of them."""
        if self.depth:
            return make(*parts)
        self.depth = 1
        try:
            parts = self.arguments(*parts)
            read = self.recorder.read(named(*parts))
            result = self.answer(op, lambda: make(*parts))
        finally:
            self.depth = 0
        self.recorder.note(op, *read, result)
        return result

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """An op of the table."""
        frame.quick.clear()
        make = functools.partial(self._plan().call, entry_point, frame)
        return self._noted(entry_point.op.name, lambda values, *_: list(zip(entry_point.names, values)), make, values, args, kwargs)

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that stays on Paddle's kernel."""
        make = functools.partial(self._plan().native, entry_point, frame, why)
        return self._noted(
            entry_point.op.name, lambda *parts: list(zip(entry_point.names, entry_point.bind(*parts))), make, args, kwargs
        )

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One without an entry."""
        return self._noted(other.name, _numbered, functools.partial(self._plan().unlisted, other, frame), args, kwargs)

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values."""
        op = name.removeprefix("_").removesuffix("_dygraph")
        return self._noted(op, _numbered, functools.partial(self._plan().exact, name, original), args, kwargs)

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A PyLayer of the program's: one call, whatever its forward makes. Paddle's own (recompute) run the program's calls."""
        make = functools.partial(self._plan().py_layer, name, original)
        if getattr(original, "__self__", type(self)).__module__.startswith("paddle."):
            return make(args, kwargs)
        return self._noted(name, _numbered, make, args, kwargs)

    def _plan(self) -> Any:
        """The plan that this stands before."""
        plan: Any = super()
        return plan


def _numbered(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [*((str(place), value) for place, value in enumerate(args)), *kwargs.items()]
