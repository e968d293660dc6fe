"""The fields of a call's record that are known before any verdict: plain strings, numbers and lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..dispatch import site
from ..dispatch.door import Door
from ..dispatch.prepare import device_of
from ..frameworks import autocast
from ..frameworks.memory import dtype_of, grad_tracer
from ..numerics.oracle.together import TraceCache
from ..records.encoding import Written
from .results import name_of as name_of_result

PLACES = 4096


def strides_kind(tensor: torch.Tensor) -> str:
    """How a tensor lies in memory: contiguous, transposed (its last two axes exchanged), broadcast (a stride of 0) or strided."""
    if tensor.is_contiguous():
        return "contiguous"
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        return "broadcast"
    return "transposed" if tensor.ndim > 1 and tensor.mT.is_contiguous() else "strided"


def operand(name: str, value: Any) -> dict[str, Any] | None:
    """One operand: name, shape, dtype, strides; or the number; None if absent."""
    if isinstance(value, torch.Tensor):
        return {"name": name, "shape": list(value.shape), "dtype": dtype_of(value.dtype), "strides": strides_kind(value)}
    return None if value is None else {"name": name, "number": value}


def operands(names: Sequence[str], values: Sequence[Any], *, sequence: bool) -> list[dict[str, Any]]:
    """All operands; those of an op over a sequence of tensors are numbered."""
    labels = [f"{names[0]}[{index}]" for index in range(len(values))] if sequence else names
    return [found for name, value in zip(labels, values) if (found := operand(name, value)) is not None]


def plain(value: Any) -> Any:
    """An attribute as JSON can hold it."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def autocast_state() -> str:
    """``"off"``, or level and dtype: ``"O1:bfloat16"``. Off, too, in a guard of reference mode on a CPU."""
    tracer = grad_tracer()
    if autocast.HERE.on or not autocast.active(tracer):
        return "off"
    return f"{tracer._amp_level.name}:{tracer._amp_dtype}"


class Spot(Written):
    """A result or a gradient of a place, of one shape and dtype: what its records have in common, and what was learnt of it.

    ``learnt``: the a-priori bound that explained a difference here, None where it can explain no other call's, ``UNKNOWN`` until
    one did; ``failed``: how often in a row it did not explain one, None before the first; ``audit``: results until the next audit,
    None before the first; ``usual``: what :mod:`.screening` knows; ``alike``: the verdict on what is equal and not audited.
    """

    __slots__ = ("alike", "audit", "failed", "learnt", "usual")

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.learnt: Any = UNKNOWN
        self.failed: int | None = None
        self.audit: int | None = None
        self.usual: Any = None
        self.alike: Any = None


UNKNOWN = object()


class Place:
    """What is alike in all records of one place: a door called at one line, in one layer, with operands of one kind.

    Made once and kept, with the JSON of it: describing a call over and over takes longer than many a kernel.
    """

    __slots__ = ("_door", "_spots", "fields", "layer", "reads", "seats")

    def __init__(self, door: Door, fields: dict[str, Any]) -> None:
        self._door, self.fields = door, fields
        self.layer = str(fields["layer"])
        self.reads: dict[tuple[int, ...], frozenset[int]] = {}  # operands that want a gradient -> those that a backward reads
        self.seats: list[Any] | None = None  # of the nodes that Paddle makes here, see .seats
        self._spots: dict[tuple[Any, ...], Spot] = {}

    def gradient(self, operand: int, tensor: torch.Tensor) -> Spot:
        """Where the gradient of an operand is judged."""
        key = (operand, tensor.shape, tensor.dtype)
        found = self._spots.get(key)
        return found or self._begun(key, "backward", f"grad:{name_of(self._door, operand)}")

    def result(self, position: int, tensor: torch.Tensor) -> Spot:
        """Where a result is judged."""
        key = (~position, tensor.shape, tensor.dtype)
        found = self._spots.get(key)
        return found or self._begun(key, "forward", name_of_result(self._door.op, position))

    def written(self, operand: int, tensor: torch.Tensor) -> Spot:
        """What is said of an operand that Paddle wrote."""
        return self._begun((("written", operand), tensor.shape, tensor.dtype), "forward", name_of(self._door, operand))

    def _begun(self, key: tuple[Any, ...], phase: str, tensor: str) -> Spot:
        _, shape, dtype = key
        fields = {**self.fields, "phase": phase, "tensor": tensor, "shape": list(shape), "dtype": dtype_of(dtype)}
        found = self._spots[key] = Spot(fields)
        return found


class Places:
    """The places of one mode, by everything that tells them apart; when there are very many, a new book is begun.

    ``traces``: of formulas, which places share.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Place] = {}
        self.traces = TraceCache()

    def of(self, door: Door, sides: Sequence[Any], attributes: Sequence[Any], needs: Sequence[int]) -> Place:
        """The place of the call that is running. ``needs``: see docs/log.md."""
        line = site.caller()
        state = site.layer_path(), site.in_training(), autocast_state()
        key = (door, line, state, tuple(needs), kinds(sides), kinds(attributes) if attributes else ())
        try:
            place = self._known.get(key)
        except TypeError:  # an attribute of no hashable kind
            return Place(door, self._described(door, site.call_site(), sides, attributes, needs))
        if place is None:
            if len(self._known) >= PLACES:
                self._known.clear()
            place = self._known[key] = Place(door, self._described(door, site.call_site(), sides, attributes, needs))
        return place

    @staticmethod
    def _described(
        door: Door, found: site.Site, sides: Sequence[Any], attributes: Sequence[Any], needs: Sequence[int]
    ) -> dict[str, Any]:
        names, op = door.names, door.op
        return {
            "op": op.name,
            "entry": door.entry.target,
            "site": str(found),
            "file": found.file,
            "line": found.line,
            "layer": site.layer_path(),
            "train": site.in_training(),
            "inputs": operands(names, sides, sequence=op.operands),
            "needs": [name_of(door, index) for index in needs],
            "attributes": {name: plain(value) for name, value in zip(names[op.leading :], attributes)},
            "device": str(device_of(sides, attributes)),
            "amp": autocast_state(),
        }


def name_of(door: Door, index: int) -> str:
    """The parameter name of an operand; those of a sequence are numbered."""
    return f"{door.names[0]}[{index}]" if door.op.operands else door.names[index]


def kinds(values: Sequence[Any]) -> tuple[Any, ...]:
    """What records say of these values, as a key: 1, 1.0 and True are told apart."""
    return tuple(
        [
            (value.shape, value.dtype, value.stride(), value.device)
            if isinstance(value, torch.Tensor)
            else (type(value), kinds(value))
            if isinstance(value, (list, tuple))
            else (type(value), value)
            for value in values
        ]
    )
