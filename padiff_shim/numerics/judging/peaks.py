"""Where a tensor is largest: one candidate of each of its blocks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..oracle.precision import Array


class Peaks(NamedTuple):
    """Candidates for the largest elements: one of each block of the tensor, its flat position and its size."""

    places: Array
    sizes: Array

    @classmethod
    def of(cls, flat: Array, length: int, low: int = 0) -> Peaks:
        """Of blocks of this length. ``low``: the position of the first element."""
        if length == 1:
            places, sizes = _every(flat.size), flat.copy()
        else:
            places = block_peaks(flat, length)
            sizes = flat[places]
        return cls(places + low if low else places, sizes)

    @classmethod
    def together(cls, parts: Sequence[Peaks]) -> Peaks:
        """Those of all parts of a tensor."""
        return parts[0] if len(parts) == 1 else cls(*(np.concatenate(column) for column in zip(*parts)))

    def largest_first(self) -> Array:
        """The positions, by size."""
        return self.places[self.sizes.argsort()[::-1]]


@functools.lru_cache(maxsize=256)
def _every(count: int) -> Array:
    """All positions; not to be written into."""
    found = np.arange(count)
    found.flags.writeable = False
    return found


def block_length(count: int) -> int:
    """Length of the blocks of which each gives one candidate: about 256 blocks; small tensors are looked at one by one."""
    return 1 if count <= 1024 else min(max(count // 256, 64), 2048)


def block_peaks(flat: Array, length: int) -> Array:
    """Position of the largest element of each block."""
    count = flat.size // length
    places = flat[: count * length].reshape(count, length).argmax(axis=1)
    places += np.arange(0, count * length, length)
    if count * length < flat.size:
        places = np.append(places, count * length + flat[count * length :].argmax())
    return places
