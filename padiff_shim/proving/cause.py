"""Why two programs part, in words."""

from __future__ import annotations

from enum import Enum


class Cause(str, Enum):
    """Why two programs part."""

    ATTRIBUTE = "another attribute"
    SWAPPED = "operands swapped"
    CONSTANT = "another constant"
    WEIGHT = "another weight"
    OPERAND = "another operand"
    ORDER = "another arrangement"
    OTHER_OP = "another op"
    MISSING = "an op is missing"
    EXTRA = "an op too many"
    PLACE = "an op in another place"
    UNKNOWN = "other calls"
    TIED = "weights tied otherwise"
    DTYPE = "another dtype"
    OVERFLOW = "an overflow"
    OPTIMIZER = "another optimizer"
    SETTING = "another setting of the optimizer"
    RATE = "another learning rate"
    CLIPPING = "another clipping"
    SKIPPED = "a step that the other skips"
    CLEARED = "gradients are not cleared"

    def __str__(self) -> str:
        return self.value


WRITTEN_OTHERWISE = (Cause.MISSING, Cause.EXTRA, Cause.OTHER_OP, Cause.UNKNOWN)  # of calls that are not the same
