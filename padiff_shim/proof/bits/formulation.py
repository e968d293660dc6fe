"""Equal mathematics whose bits differ: the causes, and what may be written instead. Pure data: no framework is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from ...text import marked

LAYOUT, GROUPING, ROUNDING, FUSED, BACKWARD, NUMBERS, TRAINING = (
    marked("layout"), marked("grouping"), marked("rounding"), marked("fused"), marked("backward"), marked("numbers"),
    marked("training"),
)  # fmt: skip

FORWARD, GRADIENT, BOTH = "forward", "gradient", "both"


@dataclass(frozen=True, eq=False)
class Formulation:
    """What some calls of a port compute, and what may be written in their place.

    Args:
        cause: one of the causes above.
        name: what is computed, in a few words.
        why: one sentence.
        spellings: Paddle's source, one or more: lines that end with an expression, which is the result (a tensor, or a tuple of
            tensors). The operands are names in it, and ``paddle``, ``F`` (its functional module) and ``math``.
    """

    cause: str
    name: str
    why: str
    spellings: tuple[str, ...]
