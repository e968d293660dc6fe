"""One call that creates a tensor of random numbers, answered by Torch's generator.

There is no operand: shape, dtype and place are the call's own, and are handed to the op's formula as Torch's.
"""

from __future__ import annotations

from typing import Any

import torch

from ..dispatch.creation import readers
from ..dispatch.door import Door
from ..dispatch.frames import Frame
from ..frameworks.lend import copied
from ..frameworks.memory import grad_tracer, hand_over
from ..table import reasons
from ..table.reasons import StayNative
from ..table.signature import REFUSALS, refused


class Drawing:
    """What stands behind the door of an op that creates random numbers."""

    quick = None  # there is no shorter way

    def __init__(self, door: Door) -> None:
        self.reference = door.op.reference
        self.fills = door.entry.fills
        self.readers = readers(door.names)

    def execute(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A new Paddle tensor of numbers from Torch's generator; None if they are in a parameter now."""
        if grad_tracer() is None:
            raise StayNative(reasons.STATIC)
        try:
            with torch.no_grad():
                out = self.reference(*[read(value) for read, value in zip(self.readers, values)])
        except REFUSALS as error:
            raise refused(error) from None
        if not self.fills:
            return hand_over(out)
        copied(out)._share_underline_tensor_to(values[0])  # memory of Paddle's own: a parameter lives long
        return None
