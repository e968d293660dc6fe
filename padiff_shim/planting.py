"""Planted faults: a kernel made wrong on purpose, to see that a comparison finds it (and to try one's own alarms)::

with padiff_shim.testing.planted("linear", lambda out, *values: out * 1.001, layer="encoder.layers.1.*"):
    with padiff_shim.compare("torch") as run:
        model(x)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .arguments import flag, function, one_of
from .catalogue.registry import ops
from .patterns import LayerFilter
from .verdicts import Side


@dataclass(frozen=True)
class Fault:
    """A change of one side's result of one op, in layers of some paths only."""

    op: str
    side: Side
    change: Callable[..., Any]
    layers: LayerFilter | None
    gradients: bool


_planted: list[Fault] = []


def faults(op: str, side: Side, layer: str, *, backward: bool) -> list[Fault]:
    """The faults planted for this call, in the order of planting."""
    return [
        fault
        for fault in _planted
        if fault.op == op
        and fault.side is side
        and fault.gradients == backward
        and (fault.layers is None or fault.layers.accepts(layer))
    ]


@contextlib.contextmanager
def planted(
    op: str, change: Callable[..., Any], *, side: str = "paddle", layer: str | None = None, gradients: bool = False
) -> Iterator[Fault]:
    """Make one side's kernel of ``op`` wrong in compare mode while the context is open.

    Args:
        op: an op of the table. Of several results the first one is changed.
        change: ``(result, *arguments) -> result``, torch tensors of the same shape and dtype; with ``gradients`` it is called as
            ``(gradient, name, *arguments)`` for each gradient of the op, where ``name`` is the operand's.
        side: ``"paddle"`` or ``"torch"``. What Paddle's kernel is made to return is what the program goes on with.
        layer: a glob over layer paths, as ``layers=`` takes it.
        gradients: change the gradients instead of the result. (Paddle's are changed for the verdict only, not for the program.)

    Raises:
        PadiffShimError: for an unknown op or side, or a ``change`` that is not callable.
    """
    one_of("op", op, ops())
    one_of("side", side, ("paddle", "torch"))
    function("change", change, "the result and the arguments")
    flag("gradients", gradients)
    fault = Fault(op, Side(side), change, LayerFilter(layer, "layer") if layer is not None else None, gradients)
    _planted.append(fault)
    try:
        yield fault
    finally:
        _planted.remove(fault)


def any_planted() -> bool:
    """Whether there is any fault at all."""
    return bool(_planted)


def spoil(found: Any, door: Any, side: Side, layer: str, values: Any, *, name: str | None = None) -> Any:
    """``found`` (a torch tensor) with the faults planted for it applied; itself where there are none."""
    for fault in faults(door.op.name, side, layer, backward=name is not None):
        named = () if name is None else (name,)
        found = fault.change(found, *named, *values).to(found.dtype).reshape(found.shape)
    return found
