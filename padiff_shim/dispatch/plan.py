"""What a mode does with the calls that it sees: the one seam between the doors and the modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..table.reasons import Reason, StayNative
from .door import Door
from .frames import Frame


class Plan(Protocol):
    """A mode's plan, which its frames hold. ``args`` and ``kwargs`` are always those that Paddle's function was given."""

    on_tape: bool  # calls that want gradients are put on the tape
    tracks_layers: bool  # asks in which layer a call is made
    draws: bool  # random numbers come from Torch's generator
    lends: bool  # Torch's kernels answer calls for which Paddle has none
    autocasts: str  # whose casts automatic mixed precision makes on a CPU: "paddle", "torch", or "": it stays off there

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op of the table, bound to the op's arguments. Raises StayNative where it has to run natively."""

    def native(self, door: Door, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op of the table that stays native."""

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that computes with floats and is not in the table."""

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An optimizer's update of a parameter, of a kind that is declared."""

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A function in Python of Paddle's optimizers or clippers; ``part`` is its name, with its class."""

    def passed(self, other: Unlisted) -> None:
        """Such an op passed by while the frame stands idle."""

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that moves values and rounds nothing."""

    def moved(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """A method in Python moved values."""

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``PyLayer.apply``."""

    def packing(self, frame: Frame, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> tuple[Any, Any]:
        """``saved_tensors_hooks`` are set: the pair that is to be."""

    def layer_begins(self, frame: Frame) -> None:
        """The outermost layer of a thread is about to run."""

    def layer_ends(self, frame: Frame, layer: Any, result: Any) -> None:
        """A layer has run, and is still the running one (asked only where layers are tracked)."""

    def backward_begins(self, frame: Frame) -> None:
        """Paddle's engine is about to run."""

    def backward_ends(self, frame: Frame) -> None:
        """Paddle's engine is about to return."""


class Unlisted:
    """A function of ``paddle._C_ops`` or ``paddle._legacy_C_ops`` that computes with floats and has no entry in the table."""

    __slots__ = ("name", "original", "path", "reason", "unwritten", "updates")

    def __init__(
        self,
        name: str,
        path: str,
        reason: Reason,
        original: Callable[..., Any],
        *,
        updates: bool,
        unwritten: frozenset[int] = frozenset(),
    ) -> None:
        self.name, self.path, self.reason, self.original = name, path, reason, original
        self.updates = updates  # an optimizer's step
        self.unwritten = unwritten  # places of results that the kernel may leave unwritten
