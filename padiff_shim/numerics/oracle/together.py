"""Several results of one formula: a run that moves one of them has moved them all.

The gradients of a recurrent layer are twenty results of one backward; measured one by one, each would run all of it a dozen
times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

LARGEST = 2**20  # elements of all results together; what is larger is run for each result alone, and not kept

Run = Callable[[Callable[..., Any]], tuple[Any, Any]]


class Together:
    """A formula of several results, its operands, and the runs that were made of it.

    ``formula``: of the operands and, by its keyword ``chosen``, of the places of the results that are wanted. ``sizes``: elements
    of all results.
    """

    def __init__(self, formula: Callable[..., Sequence[torch.Tensor]], operands: Sequence[torch.Tensor], sizes: int) -> None:
        self.formula, self.operands, self.small = formula, operands, sizes <= LARGEST
        self.wide: list[torch.Tensor] = []
        self.seed: int | None = None
        self._runs: dict[Any, tuple[list[torch.Tensor], Any]] = {}

    def once(self, key: Any, run: Run, places: Sequence[int]) -> tuple[list[torch.Tensor], Any]:
        """What a run of all results gave, made when it is first asked for."""
        if key not in self._runs:
            found, seen = run(lambda *tensors: self.formula(*tensors, chosen=places))
            self._runs[key] = [one.detach() for one in found], seen
        return self._runs[key]


class Part:
    """One of the results: a kernel of the operands. ``places``: of all of them, ``index`` among them is this one's."""

    def __init__(self, together: Together, places: Sequence[int], index: int) -> None:
        self.together, self.places, self.index = together, places, index

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        """This result alone, of any operands."""
        return self.together.formula(*tensors, chosen=[self.places[self.index]])[0]

    def widened(self, given: Sequence[torch.Tensor], widen: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        """The operands in float64: the same tensors for all results, if they are the formula's own."""
        if given is not self.together.operands or not self.together.small:
            return [widen(one) for one in given]
        if not self.together.wide:
            self.together.wide = [widen(one) for one in given]
        return self.together.wide

    def seeded(self, seed: int) -> int:
        """The seed of the result that was judged first, so that their runs are the same."""
        if self.together.seed is None:
            self.together.seed = seed
        return self.together.seed


def run_of(kernel: Any, operands: Sequence[torch.Tensor], key: Any, run: Run) -> tuple[torch.Tensor, Any]:
    """``run(kernel)``: what it gave and what was seen; with several results of the operands at once, that of all of them."""
    if key is None or not isinstance(kernel, Part) or kernel.together.wide is not operands:
        found, seen = run(kernel)
        return found.detach(), seen
    results, seen = kernel.together.once(key, run, kernel.places)
    return results[kernel.index], seen
