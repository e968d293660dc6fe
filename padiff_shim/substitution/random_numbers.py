"""One call that creates a tensor of random numbers, answered by Torch's generator.

There is no operand: shape, dtype and place are the call's own, and are handed to the op's formula as Torch's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..dispatch.dtypes import is_listed_without
from ..dispatch.entry_point import EntryPoint
from ..dispatch.frames import Frame
from ..dispatch.prepare import readers
from ..frameworks.autocast import grad_tracer
from ..frameworks.memory import copied, dtype_of, hand_over, torch_dtype
from ..table import reasons
from ..table.reasons import StayNative
from ..table.signature import REFUSALS, refused
from .execute import overwritten


class Drawing:
    """The answer to the calls of an op that creates random numbers."""

    quick = None  # there is no shorter way

    def __init__(self, door: EntryPoint) -> None:
        self.name, self.reference = door.op.name, door.op.reference
        self.fills = door.entry.fills
        self.redirects = door.names[-1] == "out"  # the formula does not get that one
        self.names = door.names[: len(door.names) - self.redirects]
        self.readers = readers(self.names)

    def execute(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A new Paddle tensor of numbers from Torch's generator; None if they are in a parameter now."""
        if grad_tracer() is None:
            raise StayNative(reasons.STATIC)
        arguments = [read(value) for read, value in zip(self.readers, values)]
        target = values[-1] if self.redirects else None
        if target is not None:
            _fitting(target, dict(zip(self.names, arguments)))
        dtype = dtype_of(next((value for value in arguments if isinstance(value, torch.dtype)), torch.float32))
        lacks = is_listed_without(self.name, dtype)
        if lacks and not frame.plan.lends:
            raise StayNative(reasons.NO_KERNEL, dtype=dtype)
        try:
            with torch.no_grad():
                out = self.reference(*arguments)
        except REFUSALS as error:
            raise refused(error) from None
        if lacks:
            frame.tally.lacking[self.name, dtype] += 1
        if target is not None:
            return overwritten(target, out).detach()  # another tensor over its memory, as natively
        if not self.fills:
            return hand_over(out)
        copied(out)._share_underline_tensor_to(values[0])  # memory of Paddle's own: a parameter lives long
        return None


def _fitting(target: Any, arguments: Mapping[str, Any]) -> None:
    """StayNative, before anything is drawn, where the tensor of ``out=`` would be given other memory."""
    shape = arguments.get("shape", (arguments.get("n"),))
    same = list(target.shape) == list(shape) and torch_dtype(target.dtype) == arguments["dtype"]
    if not (same and target._is_initialized() and target.is_contiguous()):
        raise StayNative(reasons.REDIRECTED, name="out")
