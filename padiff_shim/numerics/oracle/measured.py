"""The rounding of any formula: its value in float64, and how far rounding at its steps may move it.

The bound is measured, not derived (:mod:`.noise`): the formula is run a few times with errors put in by
chance, and the largest move of an output is its unit bound. Sums enter twice: once as one rounding of the magnitude of their terms,
and, in runs of their own, as the errors that pile up over k terms, which the accumulation factor of the verdict scales.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ...signals import let_pass
from . import noise
from .precision import FORMATS, KINDS, Array, Kind, rounded
from .staging import Evaluation, Operand, Quantity, Staged
from .together import Part

HARD = 4.0  # steps of one term may be this many times less accurate than taken for, in kernels that are not wrong
WIDE_STEP, FINE_STEP = 2.0**-30, 2.0**-40  # moves for results in float64, whose own roundings would hide among float64's
SAME = 2.0**-20  # of the largest value: what two float64 runs of one formula may differ by, if it is no worse than singular
PROPORTION = 2.0**-5  # a fine move that has more than this part of a wide one's effect is a jump


@dataclass
class Formula(Quantity):
    """A result given as a function of the operands. ``kernel``: of torch tensors, in any float dtype; ``given``: its operands.

    Of float64 results the value itself is in float64, by other steps than Torch's kernel where there are such, and the bound is
    doubled. ``apart``: the formula may be taken apart into steps. ``approximated``: it has functions that Torch itself
    approximates, in float64, too.
    """

    kernel: noise.Kernel = None  # type: ignore[assignment]  # dataclass inheritance wants a default
    given: Sequence[torch.Tensor] = ()
    value: torch.Tensor = None
    seed: int = 0
    apart: bool = True
    approximated: bool = False
    _moves: dict[str, torch.Tensor] = field(default_factory=dict)
    _runs: dict[str, int] = field(default_factory=dict)
    _hosts: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: noise.Kernel, given: Sequence[torch.Tensor], dtype: torch.dtype, seed: int) -> Formula:
        """The formula of a result in ``dtype``.

        Raises:
            Exception: whatever the formula raises in float64.
        """
        if isinstance(kernel, Part):
            operands, seed = kernel.widened(given, noise.wide), kernel.seeded(seed)
        else:
            operands = [noise.wide(t) for t in given]
        value, other = noise.exact(kernel, operands), _in_steps(kernel, operands)
        apart = other is not None and _alike(value, other)
        if other is not None and apart and dtype == torch.float64:
            value = other
        return cls(tuple(value.shape), dtype, 1, {}, kernel=kernel, given=operands, value=value.double(), seed=seed, apart=apart)

    @property
    def kind(self) -> Kind:
        """As for other quantities, but float64 has no oracle above it here."""
        return KINDS[self.dtype]._replace(oracle=np.float64)

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples are single outputs."""
        return self.shape

    @property
    def averages(self) -> bool:
        """Sums of at least 8 terms."""
        return self.k >= 8

    @property
    def impartial(self) -> bool:
        """In float64 the oracle may be what Torch's kernel computes."""
        return self.dtype != torch.float64

    @property
    def per_sample(self) -> int:
        """Everything is computed already."""
        return 1

    def beyond(self, value: Array, where: Sequence[Array]) -> Array:
        """Of float64, too: what is no number there, but one of much smaller operands, is no pole."""
        found = super().beyond(value, where)
        if self.dtype == torch.float64 and not np.isfinite(value).all():
            small = noise.exact(self.kernel, [t * 2.0**-600 if t.is_floating_point() else t for t in self.given])
            found |= ~np.isfinite(value) & np.isfinite(small.numpy()[tuple(where)])
        return found

    def finite(self) -> bool:
        """Of the formula's operands."""
        return all(bool(torch.isfinite(tensor).all()) for tensor in self.given)

    def result(self, tensor: torch.Tensor) -> Operand:
        """One value a sample."""
        return Operand(tensor.detach(), tuple(range(tensor.ndim)), ())

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

    def probe(self, runs: int) -> None:
        """Measure the bound from so many runs; what was measured stays."""
        kind = self.kind
        wide = self.dtype == torch.float64
        unit = WIDE_STEP if wide else max(kind.unit, kind.output)
        down = kind.unit / unit if wide else 1.0
        self._measure("step", noise.Size(unit, 0.0, unit=kind.unit), runs, down)
        if self.k > 1:
            self._measure("sums", noise.Size(0.0, WIDE_STEP if wide else kind.unit, unit=kind.unit), max(runs // 2, 2), down)

    def jumps(self, runs: int) -> None:
        """Outputs that jump for moves of one unit roundoff, and beside operands of 0: no error of theirs can be judged."""
        kind = self.kind
        if self.dtype == torch.float64:
            self._measure("fine", noise.Size(FINE_STEP, unit=kind.unit), runs, 1.0)
            wide = self._moves["step"] * (WIDE_STEP / kind.unit)
            self._give_up(self._moves["fine"] > PROPORTION * wide)
        size = noise.Size(0.0, 0.0, zeros=2 * kind.tiny, unit=kind.unit)
        if any(bool((t == 0).any()) for t in self.given if t.is_floating_point()):
            self._measure("zeros", size, runs, 1.0)
            self._give_up(self._moves["zeros"] > 1e-3 * self.value.abs() + self._moves["step"])

    def _give_up(self, places: torch.Tensor) -> None:
        self._moves["step"] = self._moves["step"].masked_fill(places, math.inf)
        self._hosts.clear()

    def _measure(self, name: str, size: noise.Size, runs: int, down: float) -> None:
        done = self._runs.get(name, 0)
        largest = self._moves.get(name)
        for number in range(done, runs):
            seed = self.seed + 7919 * number + sum(map(ord, name))
            # The first run is of this result's own steps: how many terms its sums have is seen there.
            found, seen = noise.moved(self.kernel, self.given, size, seed, apart=self.apart, alone=not number)
            move = (found.double() - self.value).abs_().mul_(down)
            same = torch.isfinite(found) == torch.isfinite(self.value)
            move = torch.where(torch.isfinite(move), move, torch.where(same, 0.0, math.inf))
            largest = move if largest is None else torch.maximum(largest, move)
            if not number:
                self.k = max(self.k, round(seen.terms))
                self.approximated |= seen.special
        if largest is not None:
            self._moves[name] = largest
            self._runs[name] = max(runs, done)
            self._hosts.clear()

    def _moved(self, name: str) -> torch.Tensor:
        found = self._moves.get(name)
        return torch.zeros_like(self.value) if found is None else found

    @property
    def unstable(self) -> torch.Tensor:
        """Outputs of which the moves say that anything may come out."""
        return torch.isinf(self._moved("step")) | torch.isinf(self._moved("sums"))

    def stage(self, where: tuple[Array, ...]) -> Staged:
        """Nothing is gathered beforehand."""
        return Staged({}, {}, where)

    def _host(self, name: str) -> Array:
        if name not in self._hosts:
            self._hosts[name] = (self.value if name == "value" else self._moved(name)).cpu().numpy()
        return self._hosts[name]

    def evaluate(self, staged: Staged) -> Evaluation:
        """The values at the sampled places, and their bound."""
        value, step, sums = (self._host(name)[staged.where].reshape(-1) for name in ("value", "step", "sums"))
        kind, k = self.kind, self.k
        own = max(kind.unit, kind.output)
        both = 2.0 if self.dtype == torch.float64 else 1.0

        def bound(f: float, unit: float | None = None, output: float | None = None) -> Array:
            u = own if unit is None and output is None else max(unit or kind.unit, output or 0.0)
            hard = 1.0 if f <= 1.0 else HARD
            piled = sums * (f / math.sqrt(k)) if f > 1.0 and k > 1 else 0.0
            rest = own * np.abs(value) + (k + 1) * kind.tiny
            return np.asarray(both * ((hard * step + piled) * (u / own) + rest))

        return Evaluation(value, bound)

    def narrowed(self, form: str, *, truncate: bool = False) -> torch.Tensor | None:
        """The value for operands that were rounded to a narrower format; None if that does not hold most of them."""
        if not all(holds(t, form) for t in self.given if t.is_floating_point()):
            return None
        return noise.exact(self.kernel, [narrow(t, form, truncate) if t.is_floating_point() else t for t in self.given])

    def narrowed_result(self, form: str) -> torch.Tensor | None:
        """The value rounded to a narrower format; None if that does not hold most of it."""
        return narrow(self.value, form) if holds(self.value, form) else None


def _in_steps(kernel: noise.Kernel, operands: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The value with fused kernels taken apart; None where that fails."""
    try:
        return noise.exact(kernel, operands, apart=True)
    except Exception as error:  # a decomposition that does not cover these arguments
        let_pass(error)
        return None


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
