"""Several results of one formula, and the runs by which their bounds are measured: each moves all of them at once.

The gradients of a recurrent layer are twenty results of one backward; measured one by one, each would run all of it a dozen
times. What is learnt of the formula's steps serves later calls of its kind (:mod:`.tracing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from ...signals import let_pass
from . import noise
from .tracing import FormulaTrace, Perturbed, Traits, trace

LARGEST = 2**20  # elements of all results together; what is larger is run for each result alone, and not kept
STEPS = 60_000  # of all formulas whose traces are kept at a time: about a kilobyte each
NEAR, FLOOR = 2.0**-30, 2.0**-40  # of each value, and of the largest: what steps that were traced in another call may differ by


class Traces:
    """What is known of one formula for operands of one kind: ``{taken apart: its trace}``."""

    def __init__(self, cache: TraceCache | None = None, key: Any = None) -> None:
        self._traces: dict[bool, FormulaTrace] = {}
        self._cache, self._key = cache, key

    def __getitem__(self, apart: bool) -> FormulaTrace | None:
        return self._traces.get(apart)

    def keep(self, apart: bool, steps: FormulaTrace) -> None:
        """For the calls that follow."""
        if self._cache is None or self._cache.takes(self._key, self, len(steps.steps)):
            self._traces[apart] = steps


class TraceCache:
    """The traces of all formulas, by what tells them apart; when there are very many steps, all are forgotten."""

    def __init__(self) -> None:
        self._known: dict[Any, Traces] = {}
        self._steps = 0

    def of(self, key: Any) -> Traces:
        """What is known of a formula."""
        traces = self._known.get(key)
        if traces is None:
            traces = Traces(self, key)
            self.takes(key, traces, 1)
        return traces

    def takes(self, key: Any, traces: Traces, steps: int) -> bool:
        """Room for so many steps more, made if need be; not for more than half of all."""
        if 2 * steps > STEPS:
            return False
        if self._steps + steps > STEPS:
            self._known.clear()
            self._steps = 0
        self._known[key] = traces
        self._steps += steps
        return True


class Together:
    """A formula of several results and its operands.

    ``formula``: of the operands and, by its keyword ``chosen``, of the places of the results that are wanted. ``places``: of all
    of them. ``sizes``: elements of all results. ``others``: further tensors that the formula reads. ``traces``: what earlier calls
    of the kind left.
    """

    def __init__(
        self,
        formula: Callable[..., Sequence[torch.Tensor]],
        operands: Sequence[torch.Tensor],
        places: Sequence[int],
        sizes: int,
        others: Sequence[torch.Tensor] = (),
        traces: Traces | None = None,
    ) -> None:
        self.formula, self.operands, self.places, self.others = formula, operands, places, others
        self.small, self.traces = sizes <= LARGEST, traces or Traces()
        self.seed: int | None = None
        self._wide: list[torch.Tensor] = []
        self._runs: dict[Any, Any] = {}
        self._careful: dict[FormulaTrace, bool] = {}  # whether numbers leave the range of the narrower format

    @property
    def wide(self) -> list[torch.Tensor]:
        """The operands in float64: the same tensors for all results."""
        if not self._wide:
            self._wide = [noise.wide(tensor) for tensor in self.operands]
        return self._wide

    def _whole(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        return self.formula(*tensors, chosen=self.places)

    def _once(self, key: Any, run: Callable[[], Any]) -> Any:
        """What a run gave, made when it is first asked for."""
        if key not in self._runs:
            self._runs[key] = run()
        return self._runs[key]

    def exact(self) -> list[torch.Tensor]:
        """The results in float64."""
        return self._once("exact", lambda: self._of(self.wide))

    def beside(self, unit: float, seed: int) -> list[torch.Tensor]:
        """The results of operands that are moved by ``unit``, in float64."""
        mode = noise.Rounding(noise.Size(unit), seed)
        return self._once(("beside", unit, seed), lambda: self._of(list(map(mode.operand, self.wide))))

    def _of(self, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """In float64; without a look at the steps, where all are Torch's own."""
        known = self.traces[True]
        with nullcontext() if known is not None and not known.alters else noise.Widened():
            return [result.detach() for result in self._whole(*operands)]

    def steps(self, apart: bool) -> tuple[list[torch.Tensor] | None, FormulaTrace | None]:
        """The results by steps, ``apart``: of fused kernels taken apart; and the steps. None each where there is none."""
        return self._once(apart, lambda: self._steps(apart))

    def _steps(self, apart: bool) -> tuple[list[torch.Tensor] | None, FormulaTrace | None]:
        known = self.traces[apart]
        try:
            if known is not None and all(map(near, self.exact(), results := known.run([*self.wide, *self.others]))):
                return results, known
        except Exception as error:  # other operands take other steps
            let_pass(error)
        try:
            results, traced = trace(self._whole, self.wide, self.others, apart=apart)
        except Exception as error:  # a decomposition that does not cover these arguments
            let_pass(error)
            return None, None
        if traced is not None:
            self.traces.keep(apart, traced)
        return results, traced

    def moved(self, size: noise.Size, seed: int, apart: bool) -> tuple[list[torch.Tensor], list[Traits]] | None:
        """The results with errors of this size, and what was seen of the steps of each; None where no steps are known."""
        known = self.traces[True] if apart and True not in self._runs else None
        traced = known or self.steps(apart)[1]
        if traced is None:
            return None
        if len(self.places) == 1:
            return self._moved(traced, size, seed)
        return self._once((traced, size, seed), lambda: self._moved(traced, size, seed))

    def _moved(self, traced: FormulaTrace, size: noise.Size, seed: int) -> tuple[list[torch.Tensor], list[Traits]]:
        """The first run looks whether numbers leave the range; runs that follow move them by too little to make a difference."""
        inputs, count = [*self.wide, *self.others], len(self.wide)
        careful = size.squares or self._careful.get(traced)
        if careful is not None:
            return traced.moved(inputs, count, Perturbed(size, seed, looks=False, careful=careful))
        mode = Perturbed(size, seed, looks=True, careful=False)
        results = traced.moved(inputs, count, mode)
        self._careful[traced] = careful = not mode.inside
        return traced.moved(inputs, count, Perturbed(size, seed, looks=True, careful=True)) if careful else results


class Part:
    """One of the results: a kernel of the operands.

    ``index``: which of the places of all of them is this one's; ``view``: how it is shown.
    """

    def __init__(self, together: Together, index: int, view: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        self.together, self.index, self.view = together, index, view

    @classmethod
    def alone(cls, kernel: noise.Kernel, operands: Sequence[torch.Tensor]) -> Part:
        """The only result of a formula."""
        return cls(Together(lambda *tensors, chosen: [kernel(*tensors)], operands, [0], 0), 0)

    def of(self, operands: Sequence[torch.Tensor]) -> Part:
        """This result for these operands: alone, where they are not the formula's own, or all results together are large."""
        return self if operands is self.together.operands and self.together.small else Part.alone(self, operands)

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        """This result alone, of any operands."""
        return self._shown(self.together.formula(*tensors, chosen=[self.together.places[self.index]])[0])

    def _shown(self, result: torch.Tensor) -> torch.Tensor:
        return result if self.view is None else self.view(result)

    def seeded(self, seed: int) -> int:
        """The seed of the result that was judged first, so that their runs are the same."""
        if self.together.seed is None:
            self.together.seed = seed
        return self.together.seed

    @property
    def trusted(self) -> bool:
        """Whether this call has the steps of an earlier one for certain: not where an index may lead elsewhere."""
        known = self.together.traces[True]
        return known is not None and self.index in known.trusted and not known.indexed

    def trust(self) -> None:
        """The steps give this result."""
        traced = self.together.steps(True)[1]
        if traced is not None:
            traced.trusted.add(self.index)

    @property
    def last(self) -> float:
        """Unit roundoffs that the last steps have of their own at least, as far as that is known of an earlier call; else 0."""
        known = self.together.traces[True]
        return known.last[self.index] if known is not None and self.index in known.trusted else 0.0

    def exact(self) -> torch.Tensor:
        """In float64."""
        return self._shown(self.together.exact()[self.index])

    def beside(self, unit: float, seed: int) -> torch.Tensor:
        """Of operands that are moved by ``unit``, in float64."""
        return self._shown(self.together.beside(unit, seed)[self.index])

    def in_steps(self) -> torch.Tensor | None:
        """In float64 with fused kernels taken apart; None where that fails."""
        results = self.together.steps(True)[0]
        return None if results is None else self._shown(results[self.index])

    def moved(self, size: noise.Size, seed: int, *, apart: bool) -> tuple[torch.Tensor, Traits]:
        """With errors of this size, and what was seen of its steps. ``apart``: fused kernels are taken apart."""
        runs = self.together.moved(size, seed, apart)
        if runs is not None:
            return self._shown(runs[0][self.index]), runs[1][self.index]
        result, mode = noise.moved(self, self.together.wide, size, seed, apart=apart)
        return result, Traits(mode.terms, mode.normwise, mode.mixed)


def near(value: torch.Tensor, other: torch.Tensor) -> bool:
    """Both are one formula, made by other steps."""
    top = value.abs().max().item() if value.numel() else 0.0
    floor = FLOOR * top if top < math.inf else 0.0
    return value.shape == other.shape and torch.allclose(value, other, NEAR, floor, equal_nan=True)
