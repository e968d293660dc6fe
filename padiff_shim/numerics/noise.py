"""Any Torch formula in float64, with the rounding errors that a narrower kernel makes put in by chance (Monte Carlo arithmetic).

A formula that nobody analysed has no bound on paper; but it is made of steps, and Torch shows each of them to a dispatch mode, also
those of the backward. Run in float64, with every step's result (and every operand) moved by one unit roundoff up or down, the
formula's results move by what rounding at these steps would do to them: |dy/dx_i| u |x_i| summed over operands and intermediate
values, with no derivative taken, and an output that jumps (relu at 0, a tie in a maximum, floor) jumps here as well. Kernels that
fuse many steps (softmax, normalisations, losses, gates) are taken apart with Torch's own decompositions (:mod:`.steps`).

Parker, Monte Carlo Arithmetic, UCLA CSD-970002 (1997); Denis, de Oliveira Castro and Petit, Verificarlo, ARITH 2016.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from ..torch_versions import Dispatching, without_torch_function
from . import steps
from .precision import span

NARROW = (torch.float16, torch.bfloat16, torch.float32)
NARROW_COMPLEX = (torch.complex32, torch.complex64)
# Random signs, made once (numbers are drawn slower than anything else here) and read from another place at every step of every run.
# Primes: no tensor's axes have them for a period.
POOL, STRIDE = 262139, 27011
FINE = 2.0**-30  # a format with a smaller roundoff is float64


@functools.cache
def signs_on(device: torch.device) -> torch.Tensor:
    """The pool of signs on a device."""
    generator = torch.Generator(device)
    generator.manual_seed(2)
    return torch.empty(POOL, dtype=torch.float64, device=device).bernoulli_(0.5, generator=generator).mul_(2.0).sub_(1.0)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """A detached copy in float64 (complex128), in order: of some strides Torch's kernels are wrong. Integers as they are."""
    tensor = tensor.detach()
    if tensor.is_floating_point():
        return tensor.double().contiguous()
    return tensor.to(torch.complex128).contiguous() if tensor.is_complex() else tensor


class MoveSize(NamedTuple):
    """How large the moves are. ``step``: of every result and operand; ``sums``: of the accumulation of one term; relative.

    A sum of k terms moves by ``step`` + ``sums`` sqrt(k) times the sum of its terms' magnitudes. ``zeros``: what takes the place of
    an operand that is exactly 0, up or down: only what jumps there feels it. ``unit``: roundoff of the format whose range counts.
    ``beyond``: what takes the place of what has left float64's own range, one over it of what has vanished there; 0 for nothing.
    ``squares``: what has a square beyond the format's range counts for beyond it.
    """

    step: float = 0.0
    sums: float = 0.0
    zeros: float = 0.0
    unit: float = 2.0**-24
    beyond: float = 0.0
    squares: bool = False


class WideSteps(Dispatching):
    """Every step of a formula in float64, also where it asks for a narrower dtype, and to float64's last digits.

    ``alters``: there was a step that Torch alone would have made otherwise.
    """

    alters = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One step."""
        with without_torch_function():  # what a look at a tensor costs
            wide, kwargs = steps.widened(func, args, kwargs or {}, NARROW, NARROW_COMPLEX)
            self.alters |= wide is not args or func in steps.MENDED
            return self.step(func, wide, kwargs)

    def step(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The step itself."""
        return steps.MENDED.get(func, func)(*args, **kwargs)


class StepsApart(WideSteps):
    """The same, with fused kernels taken apart into their steps (``apart``)."""

    apart = True

    def step(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The step itself, or what it is made of."""
        parts = steps.parts(func, args, kwargs) if self.apart else None
        if parts is None:
            return self.simple(func, args, kwargs)
        with self:
            return parts(*args, **kwargs)

    def simple(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A step that is not taken apart."""
        return super().step(func, args, kwargs)


class RoundedSteps(StepsApart):
    """The same, moved at every step.

    After the run, ``terms`` is the most terms that one sum had; ``normwise``: there were factorisations of matrices; ``mixed``: see
    :func:`.steps.mixed`.
    """

    def __init__(self, size: MoveSize, seed: int, apart: bool = True) -> None:
        super().__init__()
        self.size, self.terms, self.apart, self.normwise, self.mixed = size, 1.0, apart, False, False
        self._drawn, self._cancelling = seed % POOL, False
        self._tiny, self._largest = (end**0.5 if size.squares else end for end in span(size.unit))

    def signs(self, like: torch.Tensor) -> torch.Tensor:
        """+1 and -1 at random, as float64; not to be written into."""
        count, pool = like.numel(), signs_on(like.device)
        self._drawn = (self._drawn + STRIDE) % POOL
        if self._drawn + count <= POOL:
            return pool[self._drawn : self._drawn + count].view(like.shape)
        return pool.roll(-self._drawn).repeat(-(-count // POOL))[:count].view(like.shape)

    def operand(self, tensor: torch.Tensor) -> torch.Tensor:
        """An operand of the formula, moved; a wide one."""
        if not _real(tensor):
            return tensor
        signs = self.signs(tensor)
        moved = tensor * signs.mul(max(self.size.step, self.size.sums)).add_(1.0)
        if self.size.zeros:
            moved = torch.where(tensor == 0, self.size.zeros * signs, moved)
        return moved

    def matrix(self, tensor: torch.Tensor) -> torch.Tensor:
        """An operand moved as its norm goes: each element by as much as its own size, or as that of the matrix's typical one."""
        if tensor.ndim < 2 or not tensor.numel():
            return self.operand(tensor)
        size = torch.linalg.vector_norm(tensor, dim=(-2, -1), keepdim=True) / math.sqrt(tensor.shape[-1] * tensor.shape[-2])
        return tensor + max(self.size.step, self.size.sums) * self.signs(tensor) * torch.maximum(tensor.abs(), size)

    def simple(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """One step, and its error."""
        return self.rounded(steps.kind(func, args, kwargs), func, args, kwargs)

    def rounded(self, kind: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The same, of a step that is known to round so."""
        if kind is steps.EXACT:
            return func(*args, **kwargs)
        terms_of = None if self._cancelling else steps.CANCELLING.get(func)
        if terms_of is not None:
            return self._in_terms(terms_of, args, kwargs)
        self.normwise |= kind is steps.NORMWISE
        self.mixed |= steps.mixed(kind, func)
        sums = terms = reach = None
        if kind in (steps.SUM, steps.COUNTED):
            sums, terms = self._sums(kind, func, args, kwargs)
            reach = steps.partial(func, sums, terms)
        elif kind in (steps.UNKNOWN, steps.NORMWISE):
            if not func._schema.is_mutable:  # what is written has to be the tensor itself
                marked, move = steps.marked(func), self.operand if kind is steps.UNKNOWN else self.matrix
                args = [
                    move(a) if isinstance(a, torch.Tensor) and _real(a) and place not in marked else a
                    for place, a in enumerate(args)
                ]
            terms = [steps.unknown_terms(func, args)] * 8
        elif kind is steps.GROWING:
            terms = [steps.ratio(args)] * 8
        # What Torch's kernels lack in float64 is far less than the moves for a narrower format.
        results = super().simple(func, args, kwargs) if self.size.unit < FINE else func(*args, **kwargs)
        if kind is steps.UNKNOWN and (sizes := steps.spectral(func, args, results)) is not None:
            sums = [sizes]
        if self.size.beyond and (left := steps.beyond(func, args, results)) is not None:
            instead = torch.full_like(results, self.size.beyond)
            results = torch.where(left, torch.copysign(torch.where(results == 0, 1 / instead, instead), results), results)
        for place, result in enumerate(results if isinstance(results, (tuple, list)) else (results,)):
            if isinstance(result, torch.Tensor) and _real(result) and place not in steps.marks(func):
                self._move(result, kind, place, *(None if parts is None else parts[place] for parts in (sums, terms, reach)))
        return results

    def note(self, place: int, terms: float) -> None:
        """The sums in the step's result at this place have so many terms."""
        self.terms = max(self.terms, terms)

    def _in_terms(self, terms_of: Callable[..., torch.Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
        """A step by larger terms; inside of them the step itself is not taken so again."""
        self._cancelling = True
        try:
            with self:
                return terms_of(*args, **kwargs)
        finally:
            self._cancelling = False

    def _sums(self, kind: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """The sum of the terms' magnitudes behind each output, and how many they are."""
        sizes = _listed(_magnitudes(func, steps.each(args, torch.abs), kwargs))
        if "bicubic" in func.overloadpacket.__name__:  # its own coefficients cancel: the step of the magnitudes says nothing
            largest = float(args[0].abs().nan_to_num(0.0, 0.0, 0.0).max())
            sizes = [torch.full_like(size, largest * max(1.0, args[0].numel() / size.numel())) for size in sizes]
        return sizes, self.counted(kind, func, args, kwargs, len(sizes))

    def counted(self, kind: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: int) -> list[Any]:
        """How many terms there are behind each output of a step."""
        if kind is steps.COUNTED:
            # Terms are counted with real ones, those of complex numbers as well.
            return _listed(func(*steps.each(args, lambda each: torch.ones_like(each, dtype=each.dtype.to_real())), **kwargs))
        count = steps.terms(func, args)
        return [count] * results if isinstance(count, (int, float)) else list(count)

    def _move(self, result: torch.Tensor, kind: Any, place: int, sums: Any = None, terms: Any = None, reach: Any = None) -> None:
        """The error of one output, put in; numbers beyond the narrower format's range become what they are there.

        ``reach``: how large a sum may be on the way.
        """
        if result.numel() == 0:
            return
        size = result.abs() if sums is None else sums.abs()
        scale = steps.roundings(kind) * self.size.step
        if terms is not None:
            self.note(place, float(terms.max()) if isinstance(terms, torch.Tensor) else float(terms))
            scale = scale + self.size.sums * (terms.clamp_min(1).sqrt() if isinstance(terms, torch.Tensor) else math.sqrt(terms))
        low, top = (bound.item() for bound in size.aminmax())  # NaN if one of them is
        top = top if reach is None else max(top, reach.max().item())
        moves = size.mul_(self.signs(result)).mul_(scale)
        if not top < math.inf:
            moves = moves.nan_to_num_(0.0, 0.0, 0.0)
        result.add_(torch.complex(moves, moves.flip(0)) if result.is_complex() and moves.ndim else moves)
        if top > self._largest and not self.size.beyond:
            shown = torch.view_as_real(result) if result.is_complex() else result
            large = shown.abs() if reach is None or result.is_complex() else reach
            shown.copy_(torch.where(large > self._largest, torch.copysign(torch.full_like(shown, math.inf), shown), shown))
        if low < self._tiny:
            self._flush(result)

    def _flush(self, result: torch.Tensor) -> None:
        """Denormal numbers of the narrower format become 0, or its smallest normal number: kernels return any between these."""
        denormal = (result.abs() < self._tiny) & (result != 0)
        flushed = torch.zeros_like(result)
        if not result.is_complex() and not self.size.squares:
            flushed = torch.where(self.signs(result) > 0, torch.copysign(flushed + self._tiny, result), flushed)
        result.copy_(torch.where(denormal, flushed, result))


def _magnitudes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The step of the terms' magnitudes, where an interpolation takes each for the largest beside it.

    It reads from places that were rounded, so that a neighbour with the weight 0 may get a part.
    """
    name = func.overloadpacket.__name__
    if "linear" not in name or not name.startswith(("upsample", "_upsample")):
        return func(*args, **kwargs)
    if name.endswith("_backward"):
        return _beside(func(*args, **kwargs))
    return func(_beside(args[0]), *args[1:], **kwargs)


def _beside(sizes: torch.Tensor) -> torch.Tensor:
    """The largest number within a place of each, along all axes behind the second; no infinity, which would hide the others."""
    sizes = sizes.nan_to_num(0.0, 0.0, 0.0)
    for axis in range(2, sizes.ndim):
        parts = sizes.narrow(axis, 0, 1), sizes, sizes.narrow(axis, sizes.shape[axis] - 1, 1)
        sizes = torch.cat(parts, axis).unfold(axis, 3, 1).amax(-1)
    return sizes


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _real(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float64, torch.complex128)


class Functions(TorchFunctionMode):
    """Functions whose backward is one fused step, taken apart before autograd sees them, so that it is steps as well."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One call of a function."""
        parts = steps.FUNCTIONS.get(func)
        result = None if parts is None else parts(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is None else result


Kernel = Callable[..., torch.Tensor]


def moved(
    kernel: Kernel, operands: Sequence[torch.Tensor], size: MoveSize, seed: int, *, apart: bool = True
) -> tuple[torch.Tensor, RoundedSteps]:
    """The formula's result with errors of this size, and what was seen of its steps. ``operands``: wide ones.

    ``apart``: fused kernels are taken apart.
    """
    mode = RoundedSteps(size, seed, apart)
    inputs = [mode.operand(t) for t in operands]
    with Functions() if apart else nullcontext(), mode:
        return kernel(*inputs).detach(), mode


def exact(kernel: Kernel, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """The formula's result in float64."""
    with WideSteps():
        return kernel(*operands).detach()
