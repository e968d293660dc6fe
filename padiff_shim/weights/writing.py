"""Writing prepared values, all of them or none."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .tensors import synchronise
from .values import Write


def put(write: Write) -> None:
    """Write one value into the memory of its weight; the tensor itself, its flags and its device stay."""
    if isinstance(write.value, float):
        write.target.fill_(write.value)
    else:
        write.target.copy_(write.value)


def write_all(writes: list[Write], put: Callable[[Write], None] = put) -> None:
    """Write everything; whatever goes wrong, Ctrl-C included, every weight is as it was before.

    The old values are kept until the last one is written: a failure in the middle cannot need memory then.
    """
    synchronise()
    with torch.no_grad():
        kept = [one.target.clone() for one in writes]
        begun = []
        try:
            for one, old in zip(writes, kept):
                begun.append((one.target, old))
                put(one)
            synchronise()
        except BaseException:
            for target, old in begun:
                target.copy_(old)
            synchronise()
            raise
