"""What one judged tensor is made of: operands gathered where outputs are sampled, a formula in high precision, and its bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from .bounds import Harmless, unknown
from .precision import KINDS, Array, DtypeKind


class GridPlaces(tuple[Array, ...]):
    """Index arrays over a grid that has axes; ``flat``: the positions, for what one index reads; ``whole``: all of them in turn."""

    flat: Array
    whole: bool
    axes: tuple[int, ...]

    @classmethod
    def of(cls, flat: Array, grid: tuple[int, ...], *, whole: bool = False) -> GridPlaces:
        """At these flat positions."""
        found = cls(np.unravel_index(flat, grid))
        found.flat, found.whole, found.axes = flat, whole, tuple(range(len(grid)))
        return found


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
    found = [item if isinstance(item, np.ndarray) else item.to(torch.float64) for item in taken]
    remote = [item for item in found if isinstance(item, torch.Tensor)]
    if remote:
        flat = torch.cat([item.reshape(-1) for item in remote]).cpu().numpy()
        parts = iter(np.split(flat, np.cumsum([item.numel() for item in remote])[:-1]))
        found = [next(parts).reshape(item.shape) if isinstance(item, torch.Tensor) else item for item in found]
    return found


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
        """The same as if the operand had not been given."""
        return replace(self, arrays={key: value for key, value in self.arrays.items() if key != name})


@dataclass
class Evaluation:
    """The oracle's values and their rounding bound; both of the shape that :meth:`Quantity.pick` gives.

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
    (:mod:`.judging.hypotheses`). ``orders``: orders of summation, which explain a low accuracy and no other class.
    ``harmless``: gives differences that need no oracle, or None; see :mod:`.apriori`.
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
    harmless: Harmless = unknown

    @property
    def kind(self) -> DtypeKind:
        """Roundoffs and oracle of the dtype."""
        return KINDS[self.dtype]

    @property
    @abstractmethod
    def grid(self) -> tuple[int, ...]:
        """The shape over which samples are drawn: the output's, or that of its rows."""

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
        return all(bool(np.isfinite(one).all() if isinstance(one, np.ndarray) else torch.isfinite(one).all()) for one in views)

    @abstractmethod
    def result(self, tensor: torch.Tensor) -> Operand:
        """A tensor of the judged shape, seen over the grid."""

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
        found = self.evaluate(staged)
        return found if staged.post is None else Evaluation(staged.post(found.value), found.bound)
