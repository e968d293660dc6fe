"""Sums of terms: matrix products, reductions, elementwise functions, and all of their gradients.

An output is ``alpha * sum over inner axes of term(operands) + beta * addend``. One term is an elementwise function with its own
rounding error; elementwise ops are the sums of a single term.

Bound (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 3.5; the probabilistic factor: see
:func:`.precision.confidence`): with M the sum of the terms' magnitudes, c roundings in a term, accumulation factor f,
``g(f + c) M + u_o |y| + (k + 1) eta``. For any order of summation, with or without FMA, f = k is enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from . import bounds
from .bounds import Seat
from .precision import KINDS, Array, DtypeKind, gamma, span
from .quantity import Evaluation, Hypothesis, Operand, Quantity, Staged

CONSTANT = 4.0  # a formula's own factors, before or behind
INNER = 64  # how much of a long row is read to rank it by


class Term(NamedTuple):
    """An elementwise function with its rounding error.

    ``function(arrays, attrs)`` gives the values and their magnitude (None: |value|): the error of one evaluation is at most
    ``rounds`` u magnitude in a good kernel, and ``hard`` u magnitude in any kernel that is not wrong. ``stored``: how many steps
    before the last one a kernel may round to a 16-bit result's dtype; each counts once the magnitude. ``product``: kernels
    that take denormal numbers for 0 lose the products of such operands.
    """

    function: Callable[[Mapping[str, Array], Mapping[str, Any]], tuple[Array, Array | None]]
    rounds: float
    hard: float
    stored: float = 0.0
    product: bool = False


@dataclass
class Terms(Quantity):
    """``alpha * sum term(operands) + beta * addend``; the operand named ``addend`` has no inner axes.

    ``factor``: what the call calls ``alpha``. ``stored``: as in :class:`Term`, for what this call rounds besides (its numbers, the
    terms of a sum). ``coarse``: the sum itself may be kept in a 16-bit result's dtype.
    """

    term: Term = None  # type: ignore[assignment]  # dataclass inheritance wants a default
    sums: int = 0
    factor: str = "alpha"
    stored: float = 0.0
    coarse: bool = False
    guide: Callable[[torch.Tensor], list[Any]] | None = None

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples are single outputs."""
        return self.shape

    @property
    def averages(self) -> bool:
        """Sums of at least 8 terms."""
        return self.sums > 0 and self.k >= 8

    @property
    def relatively(self) -> bool:
        """Functions of single elements whose bound follows the result."""
        return self.guide is None and not self.sums

    @property
    def plain(self) -> bool:
        """Of at least 64 terms in a wide format, without a factor that could have been rounded."""
        factors = (self.attrs.get(self.factor, 1.0), self.attrs.get("beta", 1.0))
        wide = self.dtype in (torch.float32, torch.float64)
        return wide and self.sums > 0 and self.k >= 64 and all(factor in (0.0, 1.0) for factor in factors)

    def result(self, tensor: torch.Tensor) -> Operand:
        """One value a sample."""
        return Operand(tensor.detach(), tuple(range(tensor.ndim)), ())

    def beyond(self, value: Array, where: Sequence[Array]) -> Array:
        """Also where a partial sum, or the product of some of the factors, may be: which there are is the kernel's choice."""
        arrays = self.stage(tuple(where)).arrays
        factors = [np.maximum(np.abs(array), 1.0) for name, array in arrays.items() if name != "addend"]
        reach = functools.reduce(np.multiply, factors)
        reach = reach.sum(tuple(range(1, reach.ndim)))
        if "addend" in arrays:
            reach = reach + np.abs(arrays["addend"].reshape(-1))
        return super().beyond(value, where) | (np.broadcast_to(reach, value.shape) > self.kind.format.largest / CONSTANT)

    def scale(self, reference: torch.Tensor) -> list[Any] | None:
        """For sums the product of the operands' norms over the inner axes (||a_i|| ||b_j|| for a matrix product)."""
        if self.guide is not None:
            return self.guide(reference)
        if not self.sums:
            return None
        found = [_norms(operand, len(self.shape)) for name, operand in self.operands.items() if name != "addend"]
        return [norm for norm in found if norm is not None]

    def evaluate(self, staged: Staged) -> Evaluation:
        """See the module. What only the bound needs is found when somebody asks for that: of most hypotheses nobody does."""
        arrays, attrs = staged.arrays, staged.attrs
        each, size = self.term.function(arrays, attrs)
        value = each
        if self.sums:
            inner = tuple(range(1, each.ndim))
            value = np.add.reduce(each, inner) if "order" not in attrs else _one_by_one(each, attrs["order"], self.kind)
            alpha = attrs.get(self.factor, 1.0)
            if alpha != 1.0:
                value = value * alpha
            if "addend" in arrays:
                value = value + attrs.get("beta", 1.0) * arrays["addend"].reshape(-1)
        count = len(staged.where[0]) if staged.where else 1
        if len(value) != count:  # no operand varies over the outputs: the gradient of a sum over everything
            value = np.broadcast_to(value, count)
        return Evaluation(value, self._bound(value, partial(self._spread, staged, each, size, count), attrs))

    def _spread(self, staged: Staged, each: Array, size: Array | None, count: int) -> tuple[Array, Array | None, Any]:
        """The sums of magnitudes, the part of them with denormal operands (None: there is none), how many terms are added up."""
        arrays, attrs = staged.arrays, staged.attrs
        size = np.abs(each) if size is None else size
        lost = flushed = None
        terms: Any = math.inf
        if self.sums:
            inner = tuple(range(1, each.ndim))
            flushed = self._denormal(arrays, size) if self.term.product else None
            size = size if size.shape == each.shape else np.broadcast_to(size, each.shape)
            if self.k > 1:
                terms = self.k + 2.0 - (0 if _least(size) > 0 else np.count_nonzero(size == 0, inner))  # adding 0 is exact
            size = np.add.reduce(size, inner)
            alpha = attrs.get(self.factor, 1.0)
            if alpha != 1.0:
                size = size * abs(alpha)
            if "addend" in arrays:
                lost = np.abs(attrs.get("beta", 1.0) * arrays["addend"].reshape(-1))
        spread = size if lost is None else size + lost
        return spread if len(spread) == count else np.broadcast_to(spread, count), flushed, terms

    def _denormal(self, arrays: Mapping[str, Array], size: Array) -> Array | None:
        """The magnitude of the products with a denormal operand, summed; None where there is none."""
        tiny = span(self.kind.unit)[0]  # float16 is widened exactly
        if all(_least(np.abs(array)) >= tiny for name, array in arrays.items() if name != "addend"):
            return None
        few = [(np.abs(array) < tiny) & (array != 0) for name, array in arrays.items() if name != "addend"]
        if not any(mask.any() for mask in few):
            return None
        return np.where(np.logical_or.reduce(np.broadcast_arrays(*few)), size, 0.0).sum(tuple(range(1, size.ndim)))

    def _bound(
        self, value: Array, spread: Callable[[], tuple[Array, Array | None, Any]], attrs: Mapping[str, Any]
    ) -> Callable[..., Array]:
        found: list[Any] = []

        def parts() -> tuple[Any, ...]:
            term, kind, (size, flushed, terms) = self.term, self.kind, spread()
            extra = (attrs.get("alpha", 1.0) != 1.0) + (attrs.get("beta", 1.0) != 1.0)
            factor = abs(attrs.get(self.factor, 1.0))
            # Kernels may take denormal numbers for 0: the result, and in products the operands, each product and the sum.
            floor = kind.tiny + (self.k + 1) * (max(factor, 1.0) * kind.tiny if term.product else kind.eta)
            if flushed is not None:
                floor = floor + flushed * factor
            # Frameworks write 16-bit formulas with simple ops, and each of them rounds its result.
            return size, terms, extra, floor, kind.output * (term.stored + self.stored + 2.0 * extra)

        def bound(f: float, unit: float | None = None, output: float | None = None) -> Array:
            if not found:
                found.extend(parts())
            (size, terms, extra, floor, stored), term, kind = found, self.term, self.kind
            u = kind.unit if unit is None else unit
            last = kind.output if output is None else output
            rounds = (np.minimum(f, terms) + term.rounds + extra) if self.sums else (term.rounds if f <= 1.0 else term.hard)
            wide = (gamma(rounds, max(u, kind.output) if self.coarse else u) + stored) * size + floor
            return wide + last * np.abs(value) if last else wide

        return bound


def _least(sizes: Array) -> float:
    """The smallest one; NaN if there is one."""
    flat = sizes.reshape(-1)
    return float(flat[flat.argmin()]) if flat.size else math.inf


def sequential() -> list[Hypothesis]:
    """One term after the other; over several axes the first (Paddle) or the last one fastest."""
    return [Hypothesis("sequential-sum", True, partial(Staged.change, order=order)) for order in ("F", "C")]


def _one_by_one(values: Array, order: str, kind: DtypeKind) -> Array:
    """Sums over all axes but the first, one term after the other in the accumulation's dtype; "F": the first axis runs fastest."""
    inner = values.transpose(0, *range(values.ndim - 1, 0, -1)) if order == "F" else values
    working = np.float64 if kind.unit < KINDS[torch.float32].unit else np.float32
    total = np.add.accumulate(inner.reshape(len(values), -1).astype(working), 1)[:, -1]
    return total.astype(values.dtype)


def _norms(operand: Operand, ndim: int) -> Any:
    """Euclidean norms of an operand over (the first part of) its inner dims, broadcastable to the output (None: one number)."""
    lead, view = len(operand.grid), operand.view
    if not lead:
        return None
    long = view.ndim > lead and view.shape[-1] > INNER
    inner, found = tuple(range(lead, view.ndim)), view
    if not inner:
        pass
    elif view.is_cuda or view.dtype in (torch.bfloat16, torch.float16):
        view = view[..., :INNER] if long else view
        found = torch.linalg.vector_norm(view, 2, dim=inner, dtype=torch.float32 if view.dtype != torch.float64 else None)
    else:  # NumPy's einsum reads any strides without a copy; torch's norm over a leading axis is many times slower
        array, labels = operand.array[..., :INNER] if long else operand.array, list(range(view.ndim))
        found = np.sqrt(np.einsum(array, labels, array, labels, labels[:lead]))
    shape = [1] * ndim
    for axis, size in zip(operand.grid, found.shape):
        shape[axis] = size
    return found.reshape(shape) if list(operand.grid) == sorted(operand.grid) else None


Labels = Sequence[Hashable]


def build(
    target: tuple[Sequence[int], Labels],
    dtype: torch.dtype,
    operands: Mapping[str, tuple[torch.Tensor, Labels]],
    term: Term,
    **options: Any,
) -> Terms:
    """A :class:`Terms` by labels, as in einsum: labels of the operands that the target lacks are summed over.

    ``target``: shape and labels of the judged tensor. ``operands``: (tensor, labels); a dim of size 1 broadcasts against its
    label's other sizes, so a target that was broadcast in the forward call gets its gradient summed over those axes.
    """
    shape, names = target
    kinds = tuple([(name, tensor.shape, tuple(labels)) for name, (tensor, labels) in operands.items()])
    k, summed, seats = _seats(tuple(shape), tuple(names), kinds)
    found = {seat.name: _operand(seat, operands[seat.name][0]) for seat in seats}
    sums = options.pop("sums", summed)
    if not sums:
        options.setdefault("harmless", bounds.relative(term.rounds))
    elif term.product:
        factor = options.get("attrs", {}).get("alpha", 1.0)
        seat = {one.name: one for one in seats}
        pair = (operands["x"][0], operands["y"][0])
        options.setdefault("harmless", bounds.of_product((seat["x"], seat["y"]), pair, k, term.rounds, factor))
    return Terms(tuple(shape), dtype, k, found, term=term, sums=sums, **options)


def _operand(seat: Seat, tensor: torch.Tensor) -> Operand:
    """A tensor in its seat."""
    view = tensor.detach()
    if seat.order is not None:
        view = view.permute(seat.order)
    return Operand(view if seat.kept is None else view.reshape(seat.kept), seat.grid, seat.inner)


@functools.lru_cache(maxsize=4096)
def _seats(
    shape: tuple[int, ...], names: tuple[Hashable, ...], kinds: tuple[tuple[str, torch.Size, tuple[Hashable, ...]], ...]
) -> tuple[int, int, tuple[Seat, ...]]:
    """How many terms a sum has, how many labels are summed over, and the operands: a program asks for the same again and again."""
    sizes: dict[Hashable, int] = {}
    for _, dims, labels in kinds:
        for label, size in zip(labels, dims):
            if size != 1 or label not in sizes:
                sizes[label] = size
    place = {label: axis for axis, (label, size) in enumerate(zip(names, shape)) if size == sizes.get(label, 1)}
    summed = [label for label, size in sizes.items() if label not in place and size != 1]
    seats = tuple([_seat(name, dims, labels, place, summed) for name, dims, labels in kinds])
    return math.prod(sizes[label] for label in summed), len(summed), seats


def _seat(name: str, shape: torch.Size, labels: Labels, place: Mapping[Hashable, int], summed: Sequence[Hashable]) -> Seat:
    """An operand with its grid dims first, then those summed over, in the order of ``summed``."""
    lead: list[tuple[int, int]] = []
    dims = {}
    alone = []
    for dim, (label, size) in enumerate(zip(labels, shape)):
        if size == 1:
            alone.append(dim)
        elif label in place:
            lead.append((place[label], dim))
        else:
            dims[label] = dim
    order = [dim for _, dim in lead] + [dims[label] for label in summed if label in dims]
    whole = (*order, *alone)
    inner = tuple([shape[dims[label]] if label in dims else 1 for label in summed])
    return Seat(
        name,
        whole if whole != tuple(range(len(shape))) else None,
        tuple([shape[dim] for dim in order]) if alone else None,
        tuple([axis for axis, _ in lead]),
        inner,
    )
