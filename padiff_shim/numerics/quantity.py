"""What one judged tensor is made of: operands gathered where outputs are sampled, a formula in high precision, and its bound.

Two kinds of them are here. :class:`Terms`: ``alpha * sum over inner axes of term(operands) + beta * addend``; an elementwise op is
the sum of a single term. :class:`Rows`: functions of whole rows. The formulas of both are in :mod:`.formulas`.

Bound of a sum (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 3.5; the probabilistic factor: see
:func:`.precision.confidence`): with M the sum of the terms' magnitudes, c roundings in a term, accumulation factor f,
``g(f + c) M + u_o |y| + (k + 1) eta``. For any order of summation, with or without FMA, f = k is enough.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from .precision import KINDS, Array, DtypeKind, gamma, span


class GridPlaces(tuple[Array, ...]):
    """Index arrays over a grid that has axes; ``flat``: the positions, for what one index reads; ``whole``: all of them in turn."""

    flat: Array
    whole: bool
    axes: tuple[int, ...]

    @classmethod
    def of(cls, flat: Array, grid: tuple[int, ...], *, whole: bool = False) -> GridPlaces:
        """At these flat positions."""
        places = cls(np.unravel_index(flat, grid))
        places.flat, places.whole, places.axes = flat, whole, tuple(range(len(grid)))
        return places


class Operand:
    """A tensor seen from the sampled outputs: leading dims run over axes of the output grid, the others are read whole.

    ``view``: the tensor, permuted. ``grid``: which grid axes its leading dims are. ``inner``: the shape, in the terms of the
    formula, of what is read for one output; size 1 where the operand does not vary.
    A NumPy array (in long double, which torch lacks) is the same for every output.
    """

    __slots__ = ("_array", "grid", "inner", "view")

    def __init__(self, view: Any, grid: tuple[int, ...], inner: tuple[int, ...]):
        self.view, self.grid, self.inner = view, grid, inner
        self._array: Array | None = None

    @property
    def array(self) -> Array:
        """The view of a tensor on the host, for NumPy."""
        if self._array is None:
            self._array = self.view.numpy()
        return self._array

    def gather(self, where: Sequence[Array]) -> Any:
        """The values at these places (one index array for each grid axis): a NumPy array, or a tensor where NumPy cannot read."""
        view = self.view
        if isinstance(view, np.ndarray):
            return view.reshape(1, *self.inner)
        if not view.is_cuda and view.dtype is not torch.bfloat16:
            array, grid = self.array, self.grid
            if type(where) is GridPlaces and grid == where.axes and array.flags.c_contiguous:  # the same by one index, or by none
                taken = array.reshape(-1, *array.shape[len(grid) :])
                taken = taken if where.whole else taken.take(where.flat, 0)
            else:
                taken = array[tuple([where[a] for a in grid])] if grid else array[None]
            return taken.reshape(taken.shape[0], *self.inner)
        if not self.grid:
            return view.reshape(1, *self.inner)
        # Copies: of the places of a whole grid, which nobody may write to, Torch would warn.
        index = tuple(torch.from_numpy(where[a].copy()).to(view.device, non_blocking=True) for a in self.grid)
        taken = view[index]
        return taken.reshape(taken.shape[0], *self.inner)


class Later(Operand):
    """The same values for every output (see :class:`Operand`), computed when they are first read."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Array], inner: tuple[int, ...]):
        self.grid, self.inner, self._make, self._array = (), inner, make, None
        self._made: Array | None = None

    @property
    def view(self) -> Any:
        """What was made."""
        if self._made is None:
            self._made = self._make()
        return self._made


def to_host(taken: Iterable[Any]) -> list[Array]:
    """Gathered values as NumPy arrays; what lies on a device comes in one copy."""
    arrays = [item if isinstance(item, np.ndarray) else item.to(torch.float64) for item in taken]
    remote = [item for item in arrays if isinstance(item, torch.Tensor)]
    if remote:
        flat = torch.cat([item.reshape(-1) for item in remote]).cpu().numpy()
        parts = iter(np.split(flat, np.cumsum([item.numel() for item in remote])[:-1]))
        arrays = [next(parts).reshape(item.shape) if isinstance(item, torch.Tensor) else item for item in arrays]
    return arrays


@dataclass
class Staged:
    """The sampled operands in high precision, and the numbers of the call: what a hypothesis changes.

    ``arrays``: by operand name, each of shape (samples, *inner). ``attrs``: numbers of the formula, as Python floats.
    ``post``: applied to the value, for hypotheses about the result. ``where``: index arrays of the samples over the grid.
    """

    arrays: dict[str, Array]
    attrs: dict[str, Any]
    where: tuple[Array, ...]
    post: Callable[[Array], Array] | None = None

    def change(self, **attrs: Any) -> Staged:
        """The same with other numbers."""
        return replace(self, attrs={**self.attrs, **attrs})

    def each(self, function: Callable[[Array], Array], names: Iterable[str] | None = None) -> Staged:
        """The same with ``function`` applied to these operands (default: all)."""
        chosen = self.arrays if names is None else names
        return replace(self, arrays={**self.arrays, **{name: function(self.arrays[name]) for name in chosen}})

    def without(self, name: str) -> Staged:
        """The same without this operand."""
        return replace(self, arrays={key: value for key, value in self.arrays.items() if key != name})


@dataclass
class Evaluation:
    """The oracle's values and their rounding bound; both of the shape that :meth:`Quantity.result` gives.

    ``bound(f)``: for the accumulation factor f (1: unit, lambda sqrt(k): probabilistic, k + 2: any order of summation); the unit
    roundoffs of accumulation and of the result's dtype can be put in (None: those of the quantity).
    """

    value: Array
    bound: Callable[..., Array]


@dataclass(frozen=True)
class Hypothesis:
    """A named way in which a kernel may differ from the formula.

    ``precision``: it is a loss of precision (``PRECISION_MODE``), not another formula (``SEMANTICS``). ``change`` transforms the
    staged operands, or answers None where it does not apply. ``full`` instead recomputes the whole tensor (torch, float64), for
    hypotheses that need other data than what was staged.
    """

    name: str
    precision: bool
    change: Callable[[Staged], Staged | None] | None = None
    full: Callable[[], torch.Tensor | None] | None = None


def in_turn(first: Hypothesis, second: Hypothesis) -> Callable[[Staged], Staged | None]:
    """What two hypotheses together change."""

    def change(staged: Staged) -> Staged | None:
        once = first.change(staged) if first.change else None
        return None if once is None or second.change is None else second.change(once)

    return change


@dataclass
class Quantity(ABC):
    """One judged tensor: the result of a call, or the gradient of one operand.

    ``shape``, ``dtype``: of the judged tensor. ``k``: summands behind one output. ``operands``, ``attrs``: see :class:`Staged`.
    ``axes``: those of the judged tensor that one sample takes whole (rows). ``named``: gives the hypotheses; asked only when an
    error needs explaining. ``special``: ways to treat NaN, infinities and denormals, which concern single outputs
    (:mod:`.hypotheses`). ``orders``: orders of summation, which explain a low accuracy and no other class.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    k: int
    operands: dict[str, Operand]
    attrs: dict[str, Any] = field(default_factory=dict)
    named: Callable[[], list[Hypothesis]] = list
    axes: tuple[int, ...] = ()
    special: Callable[[], list[Hypothesis]] = list
    orders: Callable[[], list[Hypothesis]] = list

    @property
    def kind(self) -> DtypeKind:
        """Roundoffs and oracle of the dtype."""
        return KINDS[self.dtype]

    @property
    def grid(self) -> tuple[int, ...]:
        """The shape over which samples are drawn: the output's, or that of its rows."""
        return self.shape

    @property
    def averages(self) -> bool:
        """Many rounding errors add up in one output, so that outputs differ in luck (see the gate of the verdict)."""
        return False

    @property
    def plain(self) -> bool:
        """A sum of many terms, nothing else: each named cause moves it by far more than its probabilistic bound."""
        return False

    @property
    def relatively(self) -> bool:
        """Whether errors relative to the result are looked at first (:meth:`scale` gives None)."""
        return True

    @property
    def impartial(self) -> bool:
        """The oracle is as far from the one kernel as from the other; if not, their errors' sizes are no measure for each other."""
        return True

    @property
    def per_sample(self) -> int:
        """How many operand values one sample costs."""
        return max(self.k, 1)

    def beyond(self, value: Array, where: Sequence[Array]) -> Array:
        """Which of the oracle's values at these samples are numbers, but too large for the dtype, or may be met only beyond it."""
        return np.isfinite(value) & (np.abs(value) > self.kind.format.largest)

    def finite(self) -> bool:
        """Whether all operands are."""
        views = (operand.view for operand in self.operands.values())
        return all(bool(np.isfinite(view).all() if isinstance(view, np.ndarray) else torch.isfinite(view).all()) for view in views)

    def result(self, tensor: torch.Tensor) -> Operand:
        """A tensor of the judged shape, seen over the grid: one value a sample, if that is no row."""
        return Operand(tensor.detach(), tuple(range(tensor.ndim)), ())

    @abstractmethod
    def evaluate(self, staged: Staged) -> Evaluation:
        """The formula on staged operands."""

    def scale(self, reference: torch.Tensor) -> list[Any] | None:
        """Tensors or arrays, broadcastable to the shape, whose product follows the bound: where to look first for errors.

        ``reference``: one kernel's result. None (the default): the bound follows the result, so relative errors are looked at.
        """
        return None

    def stage(self, where: tuple[Array, ...]) -> Staged:
        """The operands at these samples."""
        arrays, oracle = to_host([operand.gather(where) for operand in self.operands.values()]), self.kind.oracle
        return Staged({name: array.astype(oracle) for name, array in zip(self.operands, arrays)}, dict(self.attrs), where)

    def solve(self, staged: Staged) -> Evaluation:
        """:meth:`evaluate` with what the hypothesis says of the result."""
        evaluation = self.evaluate(staged)
        return evaluation if staged.post is None else Evaluation(staged.post(evaluation.value), evaluation.bound)


# ---- Sums of terms.

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
        norms = [_norms(operand, len(self.shape)) for name, operand in self.operands.items() if name != "addend"]
        return [norm for norm in norms if norm is not None]

    def evaluate(self, staged: Staged) -> Evaluation:
        """See the module. What only the bound needs is computed when the bound is read: for most hypotheses it never is."""
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

    def _spread(self, staged: Staged, each: Array, size: Array | None, count: int) -> tuple[Array, Array | float, Any]:
        """The sums of magnitudes, what is lost with denormal numbers, how many terms are added up."""
        arrays, attrs = staged.arrays, staged.attrs
        size = np.abs(each) if size is None else size
        lost, flushed = None, self._flushed(arrays, each)
        terms: Any = math.inf
        if self.sums:
            inner = tuple(range(1, each.ndim))
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

    def _flushed(self, arrays: Mapping[str, Array], each: Array) -> Array | float:
        """What is lost where a denormal number counts for 0, as a factor of a product or a step before a gradient's last one."""
        if self.term.stored and "grad" in arrays:
            tiny, others = self.kind.tiny, [arrays["grad"]]
        else:
            tiny, others = span(self.kind.unit)[0], [array for name, array in arrays.items() if name != "addend"]
            if not (self.sums and self.term.product):  # float16 is widened exactly
                return 0.0
        return tiny * self.k * sum(np.abs(other).max(tuple(range(1, each.ndim))) for other in others)

    def _bound(
        self, value: Array, spread: Callable[[], tuple[Array, Array | float, Any]], attrs: Mapping[str, Any]
    ) -> Callable[..., Array]:
        known: list[Any] = []

        def parts() -> tuple[Any, ...]:
            term, kind, (size, flushed, terms) = self.term, self.kind, spread()
            extra = (attrs.get("alpha", 1.0) != 1.0) + (attrs.get("beta", 1.0) != 1.0)
            factor = abs(attrs.get(self.factor, 1.0))
            # Kernels may take denormal numbers for 0: the result, and in products the operands, each product and the sum.
            floor = kind.tiny + (self.k + 1) * (max(factor, 1.0) * kind.tiny if term.product else kind.eta)
            floor = floor + flushed * factor
            # Frameworks write 16-bit formulas with simple ops, and each of them rounds its result.
            return size, terms, extra, floor, kind.output * (term.stored + self.stored + 2.0 * extra)

        def bound(f: float, unit: float | None = None, output: float | None = None) -> Array:
            if not known:
                known.extend(parts())
            (size, terms, extra, floor, stored), term, kind = known, self.term, self.kind
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
    inner, norms = tuple(range(lead, view.ndim)), view
    if not inner:
        pass
    elif view.is_cuda or view.dtype in (torch.bfloat16, torch.float16):
        view = view[..., :INNER] if long else view
        norms = torch.linalg.vector_norm(view, 2, dim=inner, dtype=torch.float32 if view.dtype != torch.float64 else None)
    else:  # NumPy's einsum reads any strides without a copy; torch's norm over a leading axis is many times slower
        array, labels = operand.array[..., :INNER] if long else operand.array, list(range(view.ndim))
        norms = np.sqrt(np.einsum(array, labels, array, labels, labels[:lead]))
    shape = [1] * ndim
    for axis, size in zip(operand.grid, norms.shape):
        shape[axis] = size
    return norms.reshape(shape) if list(operand.grid) == sorted(operand.grid) else None


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
    seen = {seat.name: _operand(seat, operands[seat.name][0]) for seat in seats}
    sums = options.pop("sums", summed)
    return Terms(tuple(shape), dtype, k, seen, term=term, sums=sums, **options)


class Seat(NamedTuple):
    """How an operand of a shape is seen from the outputs: its dims in this order, those of size 1 last, which are dropped."""

    name: str
    order: tuple[int, ...] | None  # None: as they are
    squeezed: tuple[int, ...] | None  # the shape without those that are dropped; None: all stay
    grid: tuple[int, ...]
    inner: tuple[int, ...]


def _operand(seat: Seat, tensor: torch.Tensor) -> Operand:
    """A tensor in its seat."""
    view = tensor.detach()
    if seat.order is not None:
        view = view.permute(seat.order)
    return Operand(view if seat.squeezed is None else view.reshape(seat.squeezed), seat.grid, seat.inner)


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


# ---- Functions of whole rows.

# (arrays, attrs) -> (value, bound(f, u, u_o)); arrays of shape (samples, row).
RowFormula = Callable[[Mapping[str, Array], Mapping[str, Any]], tuple[Array, Callable[[float, float, float], Array]]]


@dataclass
class Rows(Quantity):
    """A function of rows, whose result has the row's axes too, which are ``axes``."""

    formula: RowFormula = None  # type: ignore[assignment]  # dataclass inheritance wants a default
    relatively: bool = False

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples are rows."""
        return tuple(n for axis, n in enumerate(self.shape) if axis not in self.axes)

    def result(self, tensor: torch.Tensor) -> Operand:
        """One row a sample."""
        return row(tensor, self.axes)

    def scale(self, reference: torch.Tensor) -> list[torch.Tensor] | None:
        """Relative errors for softmax; for the others each row in units of its largest value."""
        if self.relatively:
            return None
        return [reference.detach().abs().amax(self.axes, keepdim=True)] if self.axes else []

    def evaluate(self, staged: Staged) -> Evaluation:
        """The formula, plus the smallest normal number (kernels may flush to zero), also where gradients multiply it."""
        value, inexact = self.formula(staged.arrays, staged.attrs)
        kind = self.kind
        floor = kind.tiny * np.maximum(np.abs(staged.arrays.get("grad", np.ones((1, 1)))).max(-1, keepdims=True), 1.0)

        def bound(f: float, unit: float | None = None, output: float | None = None) -> Array:
            last = kind.output if output is None else output
            return inexact(f, kind.unit if unit is None else unit, last) + last * np.abs(value) + floor

        return Evaluation(value, bound)


def row(tensor: torch.Tensor, axes: tuple[int, ...]) -> Operand:
    """A tensor of the call's full shape as an operand of rows over ``axes``."""
    view = tensor.detach()
    rest = [axis for axis in range(view.ndim) if axis not in axes]
    order = [*rest, *axes]
    view = view if order == list(range(view.ndim)) else view.permute(order)
    return Operand(view, tuple(range(len(rest))), (math.prod(tensor.shape[axis] for axis in axes),))


def shared(tensor: torch.Tensor) -> Operand:
    """A weight of one row's size, the same for every row."""
    return Operand(tensor.detach().reshape(-1), (), (tensor.numel(),))
