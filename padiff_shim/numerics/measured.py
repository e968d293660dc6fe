"""The measured bound of any formula: its value in float64, and how far rounding at its steps moves it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ..interrupts import let_pass
from . import noise
from .precision import FORMATS, KINDS, Array, DtypeKind, equal_in_value, rounded
from .quantity import Evaluation, Quantity, Staged
from .tracing import FormulaTrace, Perturbed, Traits, trace

# ---- Several results of one formula, and the runs that measure their bounds: each run moves all of them at once.
#
# The gradients of a recurrent layer are twenty results of one backward; measured one by one, each would run all of it a dozen
# times. Later calls of the kind reuse the formula's traced steps (:mod:`.tracing`).

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


class JointFormula:
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
        # By the first run of the steps: whether numbers leave the range of the narrower format, and what was seen of the steps
        self._looks: dict[FormulaTrace, tuple[bool, list[Traits]]] = {}

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
        mode = noise.RoundedSteps(noise.MoveSize(unit), seed)
        return self._once(("beside", unit, seed), lambda: self._of(list(map(mode.operand, self.wide))))

    def _of(self, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """In float64; without a look at the steps, where all are Torch's own."""
        known = self.traces[True]
        with nullcontext() if known is not None and not known.alters else noise.WideSteps():
            return [result.detach() for result in self._whole(*operands)]

    def steps(self, apart: bool) -> tuple[list[torch.Tensor] | None, FormulaTrace | None]:
        """The results by steps (``apart``: fused kernels are taken apart), and the steps; each None where that fails."""
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

    def moved(self, size: noise.MoveSize, seed: int, apart: bool) -> tuple[list[torch.Tensor], list[Traits]] | None:
        """The results with errors of this size, and what was seen of the steps of each; None where no steps are known."""
        known = self.traces[True] if apart and True not in self._runs else None
        traced = known or self.steps(apart)[1]
        if traced is None:
            return None
        if len(self.places) == 1:
            return self._moved(traced, size, seed)
        return self._once((traced, size, seed), lambda: self._moved(traced, size, seed))

    def _moved(self, traced: FormulaTrace, size: noise.MoveSize, seed: int) -> tuple[list[torch.Tensor], list[Traits]]:
        """The first run looks whether numbers leave the range; runs that follow move them by too little to make a difference."""
        inputs, count = [*self.wide, *self.others], len(self.wide)
        if traced not in self._looks:
            mode = Perturbed(size, seed, looks=True, careful=False)
            results, traits = traced.moved(inputs, count, mode)
            if not mode.inside:
                results, traits = traced.moved(inputs, count, Perturbed(size, seed, looks=True, careful=True))
            self._looks[traced] = not mode.inside, traits
            if not size.squares:
                return results, traits
        careful, traits = self._looks[traced]
        return traced.moved(inputs, count, Perturbed(size, seed, looks=False, careful=careful or size.squares))[0], traits


class JointResult:
    """One of the results: a kernel of the operands.

    ``index``: which of the places of all of them is this one's; ``view``: how it is shown.
    """

    def __init__(self, together: JointFormula, index: int, view: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        self.together, self.index, self.view = together, index, view

    @classmethod
    def alone(cls, kernel: noise.Kernel, operands: Sequence[torch.Tensor]) -> JointResult:
        """The only result of a formula."""
        return cls(JointFormula(lambda *tensors, chosen: [kernel(*tensors)], operands, [0], 0), 0)

    def of(self, operands: Sequence[torch.Tensor]) -> JointResult:
        """This result for these operands: alone, where they are not the formula's own, or all results together are large."""
        return self if operands is self.together.operands and self.together.small else JointResult.alone(self, operands)

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

    @property
    def smooth(self) -> bool:
        """Whether it is known to jump nowhere."""
        known = self.together.traces[True]
        return known is not None and known.smooth and self.trusted

    def trust(self) -> None:
        """The steps give this result."""
        traced = self.together.steps(True)[1]
        if traced is not None:
            traced.trusted.add(self.index)

    def exact(self) -> torch.Tensor:
        """In float64."""
        return self._shown(self.together.exact()[self.index])

    def in_steps(self) -> torch.Tensor | None:
        """In float64 with fused kernels taken apart; None where that fails."""
        results = self.together.steps(True)[0]
        return None if results is None else self._shown(results[self.index])

    def moved(self, size: noise.MoveSize, seed: int, *, apart: bool) -> tuple[torch.Tensor, Traits]:
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


# ---- The bound of any formula: its value in float64, and how far rounding at its steps may move it.
#
# The bound is measured, not derived (:mod:`.noise`): the formula runs a few times with random errors, and the largest move of an
# output is its unit bound. Sums enter twice: as one rounding of the magnitude of their terms and, in runs of their own, as the
# errors that pile up over k terms; the accumulation factor of the verdict scales these.

HARD = 4.0  # steps of one term may be this many times less accurate than taken for, in kernels that are not wrong
WIDE_STEP, FINE_STEP = 2.0**-30, 2.0**-40  # moves for results in float64, whose own roundings would hide among float64's
SAME = 2.0**-20  # of the largest value: what two float64 runs of one formula may differ by, if it is no worse than singular
FIRST = 3  # runs for a bound at first
STEEPEST = 2.0**10  # a slope, and no jump: what follows a move of an operand of 0 no further does not make it unstable
SINGULAR = 0.25  # of a matrix's largest element: where rounding moves it by more, no digit is known
PROPORTION = 2.0**-5  # a fine move that has more than this part of a wide one's effect is a jump


@dataclass
class Formula(Quantity):
    """A result given as a function of the operands. ``kernel``: of torch tensors, in any float dtype; ``inputs``: its
    operands in float64.

    Of float64 results the value itself is in float64, by other steps than Torch's kernel where there are such, and the bound is
    doubled. ``normwise``: it has factorisations, so that an element of a matrix may be off by as much as its typical one.
    ``mixed``: it has these, or other steps in which infinities meet each other in orders of their own (:func:`.steps.mixed`).
    ``of_rounded_numbers``: give the value where numbers of the call (a momentum) are rounded to float32.
    """

    kernel: JointResult = None  # type: ignore[assignment]  # dataclass inheritance wants a default
    inputs: Sequence[torch.Tensor] = ()
    value: torch.Tensor = None
    seed: int = 0
    normwise: bool = False
    mixed: bool = False
    of_rounded_numbers: Sequence[Callable[[], torch.Tensor | None]] = ()
    _apart: bool | None = None  # None: nobody has looked at this call
    _numbers_move: bool = False
    _moves: dict[str, torch.Tensor] = field(default_factory=dict)
    _runs: dict[str, int] = field(default_factory=dict)
    _hosts: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: noise.Kernel, operands: Sequence[torch.Tensor], dtype: torch.dtype, seed: int) -> Formula:
        """The formula of a result in ``dtype``.

        Raises:
            Exception: whatever the formula raises in float64.
        """
        part = kernel.of(operands) if isinstance(kernel, JointResult) else JointResult.alone(kernel, operands)
        value, wide = part.exact(), part.together.wide
        formula = cls(tuple(value.shape), dtype, 1, {}, kernel=part, inputs=wide, value=value.double(), seed=part.seeded(seed))
        if dtype == torch.float64 and formula._looked_apart():
            formula.value = part.in_steps().double()  # type: ignore[union-attr]  # there are such steps
        return formula

    @property
    def apart(self) -> bool:
        """Whether the formula may be taken apart into steps: as in earlier calls of its kind, until this one speaks against it."""
        return self.kernel.trusted or self._looked_apart() if self._apart is None else self._apart

    def _looked_apart(self) -> bool:
        other = self.kernel.in_steps()
        self._apart = other is not None and _alike(self.value, other)
        if self._apart:
            self.kernel.trust()
        return self._apart

    @property
    def kind(self) -> DtypeKind:
        """As for other quantities, but float64 has no oracle above it here."""
        return KINDS[self.dtype]._replace(oracle=np.float64)

    @property
    def averages(self) -> bool:
        """Sums of at least 8 terms."""
        return self.k >= 8

    @property
    def impartial(self) -> bool:
        """Not in float64, where the oracle may be what Torch's kernel computes; nor of factorisations, with their many algorithms;
        nor where most of an error may be that of numbers which one kernel holds in float32 and the other does not.
        """
        return self.dtype != torch.float64 and not self.normwise and not self._numbers_move

    @property
    def per_sample(self) -> int:
        """Everything is computed already."""
        return 1

    def finite(self) -> bool:
        """Of the formula's operands."""
        return all(bool(torch.isfinite(tensor).all()) for tensor in self.inputs)

    @property
    def relatively(self) -> bool:
        """The unit bound says where to look."""
        return False

    def scale(self, reference: torch.Tensor) -> list[torch.Tensor] | None:
        """The unit bound itself."""
        unit = self._moved("step").nan_to_num(math.inf)
        finite = torch.where(torch.isfinite(unit), unit, 0.0)
        top = float(finite.max()) if finite.numel() else 0.0
        return [torch.where(torch.isfinite(unit), unit, 1e6 * top) + top * 1e-12] if top else None

    @property
    def _unit(self) -> tuple[float, float]:
        """By how much steps are moved, and what the effect of that is to be multiplied by."""
        kind = self.kind
        return (WIDE_STEP, kind.unit / WIDE_STEP) if self.dtype == torch.float64 else (max(kind.unit, kind.output), 1.0)

    def probe(self, runs: int) -> None:
        """Measure the bound from so many runs; what was measured stays."""
        kind, (unit, down) = self.kind, self._unit
        self._measure("step", noise.MoveSize(unit, 0.0, unit=kind.unit), runs, down)
        if self.k > 1:
            term = WIDE_STEP if self.dtype == torch.float64 else kind.unit
            self._measure("sums", noise.MoveSize(0.0, term, unit=kind.unit), max(runs // 2, min(runs, 2)), down)

    def jumps(self, runs: int) -> None:
        """Outputs that jump for moves of one unit roundoff, and beside operands of 0: no error of theirs can be judged."""
        kind = self.kind
        if self.dtype == torch.float64:
            self._measure("fine", noise.MoveSize(FINE_STEP, unit=kind.unit), runs, 1.0)
            wide = self._moved("step") * (WIDE_STEP / kind.unit)
            self._give_up(self._moves["fine"] > PROPORTION * wide)
        size = noise.MoveSize(0.0, 0.0, zeros=2 * kind.tiny, unit=kind.unit)
        if any(bool((t == 0).any()) for t in self.inputs if t.is_floating_point()):
            self._measure("zeros", size, runs, 1.0)
            self._give_up(self._moves["zeros"] > 1e-3 * self.value.abs() + self._moved("step") + STEEPEST * size.zeros)
        if self.finite():
            self._give_up(self._beyond())

    def rounds_numbers(self) -> None:
        """Kernels for float32 and 16 bits may hold the call's numbers in float32, where 1 - 0.999 has four digits."""
        for rounded_value in self.of_rounded_numbers if self.dtype != torch.float64 else ():
            value = rounded_value()
            if value is not None and value.shape == self.value.shape:
                move = (value - self.value).abs().nan_to_num(0.0, math.inf)
                self._numbers_move |= bool((move > self._moves["step"]).any())
                self._moves["step"] = torch.maximum(self._moves["step"], move)
                self._hosts.clear()

    def _beyond(self) -> torch.Tensor:
        """Outputs that depend on numbers that left the range of float64 on the way: there the oracle proves nothing."""
        lost = torch.zeros_like(self.value, dtype=torch.bool)
        for number in (1e120, 1e150):
            other, _ = self.kernel.moved(noise.MoveSize(unit=2.0**-53, beyond=number), self.seed, apart=self.apart)
            near = self.value.isfinite() & ((other - self.value).abs() <= self._moved("step") + SAME * self.value.abs())
            lost |= ~(near | equal_in_value(other, self.value))
        return lost

    def without_squares(self) -> Formula:
        """The same without a bound where an operand, or a number on the way, has a square beyond the range."""
        formula = replace(self, _moves=dict(self._moves), _hosts={})
        other, _ = self.kernel.moved(noise.MoveSize(unit=self.kind.unit, squares=True), self.seed, apart=self.apart)
        near = (other - self.value).abs() <= self._moved("step") + SAME * self.value.abs()
        formula._give_up(~(near | equal_in_value(other, self.value)))
        return formula

    def _give_up(self, places: torch.Tensor) -> None:
        self._moves["step"] = self._moves["step"].masked_fill(places, math.inf)
        self._hosts.clear()

    def _measure(self, name: str, size: noise.MoveSize, runs: int, down: float) -> None:
        done = self._runs.get(name, 0)
        for number in range(done, runs):
            result, traits = self._run(name, size, number)
            if self._apart is None:  # the first run: steps of earlier calls are trusted as long as they come near the value
                moved = (result.double() - self.value).abs_()  # what is moved no further was computed by the formula's own steps
                if not moved.numel() or moved.max().item() <= SAME * self._largest:
                    self._apart = True
                else:
                    self._looked_apart()
                    result, traits = self._run(name, size, number)
            move = (result.double() - self.value).abs_()
            if not (move.max().item() if move.numel() else 0.0) < math.inf:
                same = torch.isfinite(result) == torch.isfinite(self.value)
                move = torch.where(torch.isfinite(move), move, torch.where(same, 0.0, math.inf))
            move, largest = move.mul_(down), self._moves.get(name)
            self._moves[name] = move if largest is None else torch.maximum(largest, move)
            self._runs[name] = number + 1
            if not number:
                self.k = max(self.k, round(traits.terms))
                self.normwise |= traits.normwise
                self.mixed |= traits.mixed
        if runs > done:
            self._hosts = {"value": self.host("value")}

    def _run(self, name: str, size: noise.MoveSize, number: int) -> tuple[torch.Tensor, Traits]:
        return self.kernel.moved(size, self.seed + 7919 * number + sum(map(ord, name)), apart=self.apart)

    @functools.cached_property
    def _largest(self) -> float:
        return self.value.abs().max().item()

    def _moved(self, name: str) -> torch.Tensor:
        move = self._moves.get(name)
        if move is None:
            return torch.zeros_like(self.value)
        if not self.normwise or move.ndim < 2 or not move.numel():
            return move
        finite = move.masked_fill(~move.isfinite(), 0.0)
        return torch.maximum(move, finite.square().mean((-2, -1), keepdim=True).sqrt())

    @property
    def unstable(self) -> torch.Tensor:
        """Outputs that the moves leave undetermined, those of matrices that are singular up to rounding among them."""
        step = self._moved("step")
        lost = torch.isinf(step) | torch.isinf(self._moved("sums"))
        if self.normwise and step.numel():
            axes = tuple(range(step.ndim))[-2:]
            lost |= step.amax(axes, keepdim=True) > SINGULAR * self.value.abs().amax(axes, keepdim=True)
        return lost

    def stage(self, where: tuple[Array, ...]) -> Staged:
        """Nothing is gathered beforehand."""
        return Staged({}, {}, where)

    def host(self, name: str) -> Array:
        """The value, or what was measured by this name, for NumPy."""
        if name not in self._hosts:
            self._hosts[name] = (self.value if name == "value" else self._moved(name)).cpu().numpy()
        return self._hosts[name]

    def evaluate(self, staged: Staged) -> Evaluation:
        """The values at the sampled places, and their bound."""
        value, step, sums = (self.host(name)[staged.where].reshape(-1) for name in ("value", "step", "sums"))
        return Evaluation(value, functools.partial(self._bound, value, step, sums))

    def _bound(
        self, value: Array, step: Array, sums: Any, f: float, unit: float | None = None, output: float | None = None
    ) -> Array:
        """See :class:`Evaluation`; ``step``, ``sums``: what was measured."""
        kind, k = self.kind, self.k
        own = max(kind.unit, kind.output)
        both = 2.0 if self.dtype == torch.float64 else 1.0
        u = own if unit is None and output is None else max(unit or kind.unit, output or 0.0)
        hard = 1.0 if f <= 1.0 else HARD
        piled = sums * (f / math.sqrt(k)) if f > 1.0 and k > 1 else 0.0
        rest = own * np.abs(value) + (k + 1) * kind.tiny
        return np.asarray(both * ((hard * step + piled) * (u / own) + rest))

    def everywhere(self) -> Evaluation:
        """The values of all outputs, flattened, and their bound."""
        return self.evaluate(self.stage(tuple(np.indices(self.shape))))

    def narrowed(self, form: str, *, truncate: bool = False) -> torch.Tensor | None:
        """The value for operands that were rounded to a narrower format; None if that does not hold most of them."""
        if not all(holds(t, form) for t in self.inputs if t.is_floating_point()):
            return None
        return noise.exact(self.kernel, [narrow(t, form, truncate) if t.is_floating_point() else t for t in self.inputs])

    def narrowed_result(self, form: str) -> torch.Tensor | None:
        """The value rounded to a narrower format; None if that does not hold most of it."""
        return narrow(self.value, form) if holds(self.value, form) else None


def _alike(value: torch.Tensor, other: torch.Tensor) -> bool:
    """Both are one formula: a kernel taken apart may hand its backward other values than the fused one does."""
    if value.shape != other.shape or not torch.equal(torch.isfinite(value), torch.isfinite(other)):
        return False
    apart, size = ((t.masked_fill(~torch.isfinite(value), 0.0)).abs() for t in (value - other, value))
    return not apart.numel() or float(apart.max()) <= SAME * float(size.max())


def holds(tensor: torch.Tensor, form: str) -> bool:
    """Whether most of the numbers have their digits in the format: what overflows or underflows there is no loss of precision."""
    size = tensor.detach().abs()
    size = size[(size > 0) & torch.isfinite(size)]
    low = 2.0 ** (FORMATS[form].lowest + FORMATS[form].bits - 1)  # the smallest normal number
    inside = (size >= low) & (size <= FORMATS[form].largest)
    return not size.numel() or float(inside.double().mean()) > 0.5


def narrow(tensor: torch.Tensor, form: str, truncate: bool = False) -> torch.Tensor:
    """A float64 tensor rounded to a narrower format."""
    return torch.from_numpy(np.asarray(rounded(tensor.cpu().numpy(), form, truncate=truncate))).to(tensor.device)
