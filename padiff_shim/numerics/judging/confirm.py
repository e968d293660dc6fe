"""The second look at an explained error: everywhere, and not only where the two kernels differ most.

The guided sample holds the largest differences. Where a named cause moves every output, they are all its own, and a smaller fault
beside it is not among them. Before a difference is taken for a known one, its formula is therefore held against the whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ..oracle.precision import Array
from ..oracle.staging import Quantity
from . import trial
from .classes import explained_whole, sound
from .hypotheses import Explained, gathered
from .special import ordered
from .trial import Trial

LIMIT, PIECE = 1 << 22, 1 << 17  # operand values read in all, of larger tensors as many at random; at a time


@dataclass
class Confirmation:
    """Whether the named causes leave nothing but rounding on the whole of both results. ``causes``: side -> what explains it."""

    quantity: Quantity
    paddle: torch.Tensor
    torch: torch.Tensor
    causes: Mapping[str, Explained]
    rng: np.random.Generator

    def __call__(self) -> bool:
        """Reads up to :data:`LIMIT` operand values (a quarter for float64, whose oracle is slow)."""
        with np.errstate(all="ignore"):
            return all(self._holds(found) for found in self._pieces())

    def _pieces(self) -> Iterator[Trial]:
        quantity = self.quantity
        limit = LIMIT // 4 if quantity.kind.oracle is np.longdouble else LIMIT
        size, each = math.prod(quantity.grid), quantity.per_sample
        most = max(limit // each, 1)
        flat = np.arange(size) if size <= most else self.rng.integers(0, size, most)
        step = max(PIECE // each, 16)
        for low in range(0, len(flat), step):
            where: tuple[Array, ...] = np.unravel_index(flat[low : low + step], quantity.grid) if quantity.grid else ()
            yield trial.run(quantity, where, 0, self.paddle, self.torch)

    def _holds(self, found: Trial) -> bool:
        for name, other in (("paddle", "torch"), ("torch", "paddle")):
            own, beside, cause = found.side(name), found.side(other), self.causes.get(name)
            if cause is None:
                if not sound(found, own):
                    return False
                continue
            if cause.full is not None:
                whole = gathered(found, cause.full)
                if whole is None or not explained_whole(found, own, beside, whole, None):
                    return False
                continue
            changed = cause.change(found.staged) if cause.change else None
            if changed is None:
                continue  # it concerns what stands out in any sample
            there = self.quantity.solve(changed)
            value = there.value.reshape(-1)
            if not (ordered(found, own, value) if cause.exact else explained_whole(found, own, beside, value, there)):
                return False
        return True
