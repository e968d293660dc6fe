"""What answers a port's calls in the runs of a proof: Torch's kernels, or Paddle's but for random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..dispatch.door import Door
from ..dispatch.frames import Frame, paused
from ..dispatch.plan import Unlisted
from ..frameworks.memory import FLOATS, TENSOR_TYPES, to_torch
from ..modes.mode import Mode
from ..modes.options import ReferenceOptions
from ..modes.selection import selection
from ..runs.run import Run
from ..substitution.moves import followed
from ..substitution.plan import Substituting
from ..table.reasons import NOT_DRAWN, StayNative
from ..trees import leaves, mapped
from .capture import Capture
from .widening import paddles

TORCHS = ("batch_norm",)  # ops that a proof takes by Torch's definition


class OnTorch(Substituting):
    """Reference mode's plan, with Torch's random numbers and optimizers; it remembers which ops :class:`Natively` is for."""

    def __init__(self) -> None:
        # Statistics by Torch's definition can be compared. What else is defined otherwise, the port computes as it will.
        super().__init__("torch", draws=True, torchs=frozenset(TORCHS))
        self.drawn: set[str] = set()
        self.capture: Capture | None = None  # which writes down what is computed

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values; where Paddle does so by itself, the capture is told."""
        result = super().exact(name, original, args, kwargs)
        if self.capture is not None and not kwargs:
            with paused():
                for side, like in followed(name, args, result):
                    self.capture.moved(side, like)
        return result

    def native(self, door: Door, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that runs on Paddle's kernel; the capture is told where it gives back what an operand holds (joined to nothing)."""
        result = super().native(door, frame, why, args, kwargs)
        if self.capture is not None and door.op.exact and type(result) in TENSOR_TYPES and result.dtype in FLOATS:
            with paused():
                side, operands = to_torch(result), [leaf for _, leaf in leaves((args, kwargs)) if type(leaf) in TENSOR_TYPES]
                for like in (to_torch(operand) for operand in operands if operand.shape == result.shape):
                    if like.data_ptr() != side.data_ptr() and torch.equal(like, side):
                        self.capture.moved(side, like)
        return result

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call."""
        if _draws(door, values) or door.op.wanting is not None:
            self.drawn.add(door.op.name)
        return super().call(door, frame, values, args, kwargs)


class InDouble(OnTorch):
    """The same in a float64 run, in which whatever says float32 says float64."""

    hurries = False  # each call has to come by

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call."""
        return super().call(door, frame, *(paddles(door.entry.target, given) for given in (values, args, kwargs)))

    def native(self, door: Door, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that runs on Paddle's kernel."""
        return super().native(door, frame, why, *(paddles(door.entry.target, given) for given in (args, kwargs)))

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of an op without reference."""
        return super().unlisted(other, frame, *(paddles(other.name, given) for given in (args, kwargs)))

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values, or makes some."""
        return super().exact(name, original, *(paddles(name, given) for given in (args, kwargs)))


class Natively(Substituting):
    """Paddle's kernels; calls that draw random numbers draw Torch's all the same, or nothing were comparable.

    What would end the process is asked for one gradient more.
    """

    def __init__(self) -> None:
        super().__init__("paddle", draws=True)

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of an op that may draw, or end the process."""
        if door.op.wanting is not None:
            args, kwargs = survivable(door, values, args, kwargs)
            return door.native(*args, **kwargs)
        if not _draws(door, values):
            raise StayNative(NOT_DRAWN)
        return super().call(door, frame, values, args, kwargs)


def _draws(door: Door, values: tuple[Any, ...]) -> bool:
    return door.op.random is not None and bool(door.op.random(*values))


def survivable(door: Door, values: tuple[Any, ...], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a native call, of which an operand wants a gradient if Paddle's backward ends the process without it."""
    operand: Any = None if door.op.wanting is None else values[door.op.wanting]
    backward = any(type(one) in TENSOR_TYPES and not one.stop_gradient for one in values)
    if type(operand) not in TENSOR_TYPES or not operand.stop_gradient or not backward:
        return args, kwargs
    with paused():
        alias = operand.detach()
    alias.stop_gradient = False
    return mapped((args, kwargs), lambda one: alias if one is operand else one)


_PLAIN = ReferenceOptions()


def opened(plan: Substituting, *, ops: Iterable[str] | None = None, layout: str = "contiguous") -> Mode:
    """A mode in which that plan answers all ops, or these; ``layout``: of Linear weights."""
    enabled, _ = selection(_PLAIN if ops is None else ReferenceOptions(ops=ops), door="reference")
    return Mode(Run("torch", layout), enabled, None, plan, strict=False, all_threads=False)
