"""The calls of a Paddle program as structure: ops, attributes, and which values flow from one call to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import paddle

from ..dispatch.entry_point import EntryPoint, Unlisted
from ..dispatch.frames import Frame
from ..proof.plans import opened
from ..substitution.plan import Substituting
from ..table.reasons import StayNative


class ValueId(NamedTuple):
    """Which value it is, among those of one recording; two tensors with one number are one value."""

    number: int
    dtype: str


@dataclass(frozen=True)
class OpCall:
    """One call.

    Attributes:
        op: its name in the table of ops; Paddle's own name for what has no entry there.
        attributes: arguments that are no tensors, by name, with defaults filled in; lists as tuples, dtypes as strings.
        inputs: (parameter, value) of each tensor that it reads; the n-th of a sequence is ``"x[n]"``.
        outputs: the values that it makes. What it writes in place is a new value.
    """

    op: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[tuple[str, ValueId], ...] = ()
    outputs: tuple[ValueId, ...] = ()


class CallRecorder:
    """The calls of a run, and the number of each tensor in them. It holds every tensor that it has met."""

    def __init__(self) -> None:
        self.calls: list[OpCall] = []
        self._numbers: dict[int, tuple[Any, int]] = {}  # by the tensor's identity; the tensor too: no identity is given out twice
        self._places: dict[tuple[Any, ...], int] = {}  # by where and how a tensor lies: one behind detach() is the same value
        self._count = 0

    def value(self, tensor: Any) -> ValueId:
        """The number of a tensor's value as it is now."""
        if id(tensor) not in self._numbers:
            number = self._places.get(_place(tensor))
            if number is None:
                return self._made(tensor)
            self._numbers[id(tensor)] = tensor, number
        return ValueId(self._numbers[id(tensor)][1], _plain(tensor.dtype))

    def tensor(self, value: ValueId) -> Any:
        """The tensor that held a value first; what has been written into it since is its own."""
        return next(tensor for tensor, number in self._numbers.values() if number == value.number)

    def _made(self, tensor: Any) -> ValueId:
        self._count += 1
        written = id(tensor) in self._numbers
        self._numbers[id(tensor)] = tensor, self._count
        if written or _place(tensor) not in self._places:
            self._places[_place(tensor)] = self._count
        return ValueId(self._count, _plain(tensor.dtype))

    def note(self, op: str, arguments: Sequence[tuple[str, Any]], result: Any) -> None:
        """Write down a call. What an argument holds is looked up before :meth:`_made` numbers the results."""
        inputs: list[tuple[str, ValueId]] = []
        attributes: dict[str, Any] = {}
        for name, value in arguments:
            if isinstance(value, paddle.Tensor):
                inputs.append((name, self.value(value)))
            elif isinstance(value, (list, tuple)) and any(isinstance(item, paddle.Tensor) for item in value):
                tensors = [item for item in value if isinstance(item, paddle.Tensor)]
                inputs += [(f"{name}[{place}]", self.value(tensor)) for place, tensor in enumerate(tensors)]
                attributes[name] = _plain(value)
            else:
                attributes[name] = _plain(value)
        made = result if isinstance(result, (list, tuple)) else [result]
        outputs = [item for item in made if isinstance(item, paddle.Tensor)]
        self.calls.append(OpCall(op, attributes, tuple(inputs), tuple(map(self._made, outputs))))


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


class _Noting(Substituting):
    """Reference mode's plan that writes down every call, the outermost of those that lead to one another."""

    hurries = False  # every call has to come by

    def __init__(self, recorder: CallRecorder) -> None:
        super().__init__("torch", draws=True)
        self._recorder, self._depth = recorder, 0

    def _noted(self, op: str, arguments: Callable[[], Sequence[tuple[str, Any]]], make: Callable[[], Any]) -> Any:
        self._depth += 1
        try:
            result = make()
        finally:
            self._depth -= 1
        if not self._depth:
            self._recorder.note(op, arguments(), result)
        return result

    def call(self, door: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op of the table."""
        frame.quick.clear()
        return self._noted(
            door.op.name,
            lambda: list(zip(door.names, values)),
            lambda: super(_Noting, self).call(door, frame, values, args, kwargs),
        )

    def native(self, door: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that stays on Paddle's kernel."""
        return self._noted(
            door.op.name,
            lambda: list(zip(door.names, door.bind(args, kwargs))),
            lambda: super(_Noting, self).native(door, frame, why, args, kwargs),
        )

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One without an entry."""
        return self._noted(
            other.name, lambda: _numbered(args, kwargs), lambda: super(_Noting, self).unlisted(other, frame, args, kwargs)
        )

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values."""
        return self._noted(
            name.removeprefix("_").removesuffix("_dygraph"),
            lambda: _numbered(args, kwargs),
            lambda: super(_Noting, self).exact(name, original, args, kwargs),
        )


def _numbered(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [*((str(place), value) for place, value in enumerate(args)), *kwargs.items()]


@contextmanager
def recording() -> Iterator[CallRecorder]:
    """Within it a Paddle program runs on Torch's kernels, and its calls are written down.

    ``with recording() as recorder: model(x)``; then ``recorder.calls`` are all calls in order, and ``recorder.value(x)`` is the
    number under which ``x`` stands in them.
    """
    recorder = CallRecorder()
    with opened(_Noting(recorder)):
        yield recorder
