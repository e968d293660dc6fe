"""Rounding models of matrix products and their gradients, which are matrix products again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ..judging.hypotheses import dropped, missing, numbers, precision, setting
from ..oracle import apriori
from ..oracle import formulas as terms
from ..oracle.staging import Hypothesis, Quantity, Staged
from ..oracle.sums import build, sequential
from .base import Model, floating

Labels = tuple[Hashable, ...]


class Labelled(NamedTuple):
    """A product of tensors by labels, as in einsum: ``alpha * sum of factors + beta * addend``."""

    factors: Mapping[str, tuple[torch.Tensor, Labels]]
    out: Labels
    addend: tuple[str, torch.Tensor, Labels] | None = None
    alpha: float = 1.0
    beta: float = 1.0


class Product(Model):
    """Base of all products: a subclass says which labels the axes have.

    ``stored``: steps that a kernel may round to 16 bits, see :class:`padiff_shim.numerics.oracle.sums.Term`.
    """

    stored = 0.0

    def labelled(self, values: Sequence[Any]) -> Labelled | None:
        """The axes' labels, or None where they cannot be said."""
        raise NotImplementedError

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """|A||B| + |addend| with k summands."""
        found = self.labelled(values)
        if found is None or not floating(*(t for t, _ in found.factors.values())):
            return None
        shape, sums = _extent(tuple([(tensor.shape, labels) for tensor, labels in found.factors.values()]), found.out)
        dtype = next(iter(found.factors.values()))[0].dtype
        named = dict(zip(("x", "y"), found.factors.values()))
        if found.addend is not None:
            named["addend"] = found.addend[1:]

        def hypotheses() -> list[Hypothesis]:
            listed = (
                _scalars(dtype, found)
                + precision(dtype, ("x", "y"), ("addend",))
                + dropped(("x",))
                + transposed((shape, found.out), dtype, named, tuple(found.factors))
            )
            if found.addend is not None:
                listed += [missing("addend", f"no-{found.addend[0]}"), setting(f"{found.addend[0]}-twice", beta=2 * found.beta)]
            return listed

        attrs = {"alpha": found.alpha, "beta": found.beta} if found.addend is not None else {}
        term = terms.DOT if "y" in named else terms.SUM
        return build((shape, found.out), dtype, named, term, attrs=attrs, named=hypotheses, sums=sums, stored=self.stored)

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """The incoming gradient times the other operand, summed over what this operand lacks."""
        found = self.labelled(values)
        if found is None or not floating(grad, *(t for t, _ in found.factors.values())):
            return None
        if found.addend is not None and name == found.addend[0]:
            target, labels = found.addend[1:]
            return _sum_of_gradient(target, labels, grad, found.out, found.beta)
        if name not in found.factors:
            return None
        target, labels = found.factors[name]
        others = [pair for other, pair in found.factors.items() if other != name]
        operands = dict(zip(("x", "y"), [(grad, found.out), *others]))
        attrs = {"alpha": found.alpha} if found.alpha != 1.0 else {}
        term = terms.DOT if others else terms.SUM
        dtype = target.dtype

        def hypotheses() -> list[Hypothesis]:
            names = ("", next((other for other in found.factors if other != name), ""))
            turned = transposed((target.shape, labels), dtype, operands, names)
            return _scalars(dtype, found) + precision(dtype, ("x", "y")) + dropped(("x",)) + turned

        return build((target.shape, labels), dtype, operands, term, attrs=attrs, named=hypotheses, sums=1)


@functools.lru_cache(maxsize=4096)
def _extent(factors: tuple[tuple[torch.Size, Labels], ...], out: Labels) -> tuple[tuple[int, ...], int]:
    """The shape of a product, and over how many labels it sums."""
    sizes: dict[Hashable, int] = {}
    for shape, labels in factors:
        for label, size in zip(labels, shape):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return tuple([sizes[label] for label in out]), max(len(sizes) - len(out), 1)


def transposed(
    target: tuple[Sequence[int], Labels],
    dtype: torch.dtype,
    operands: Mapping[str, tuple[torch.Tensor, Labels]],
    names: Sequence[str],
) -> list[Hypothesis]:
    """A square operand taken as its transpose; ``names``: what the first operands are called, "" for one that is not tried."""

    def turn(key: str) -> Callable[[Staged], Staged]:
        tensor, labels = operands[key]
        other = build(target, dtype, {**operands, key: (tensor.mT, labels)}, terms.DOT)
        return lambda staged: replace(other.stage(staged.where), attrs=staged.attrs, post=staged.post)

    square = {key: tensor.ndim > 1 and tensor.shape[-1] == tensor.shape[-2] for key, (tensor, _) in operands.items()}
    return [Hypothesis(f"{name}-transposed", False, turn(key)) for key, name in zip(operands, names) if name and square[key]]


def _scalars(dtype: torch.dtype, found: Labelled) -> list[Hypothesis]:
    given = [name for name in ("alpha", "beta") if getattr(found, name) != 1.0]
    return [*numbers(dtype, *given), *(setting(f"{name}-ignored", **{name: 1.0}) for name in given)]


def _sum_of_gradient(target: torch.Tensor, labels: Labels, grad: torch.Tensor, out: Labels, beta: float) -> Quantity:
    """beta times the gradient, summed over the axes along which an addend (a bias) was broadcast."""
    listed = Labelled({}, out, beta=beta)
    count = grad.numel() // max(target.numel(), 1)
    return build(
        (target.shape, labels),
        target.dtype,
        {"x": (grad, out)},
        terms.SUM,
        attrs={"beta": beta},
        factor="beta",
        named=lambda: _scalars(target.dtype, listed) + precision(target.dtype, ("x",)) + dropped(("x",)),
        orders=sequential,
        sums=1,
        harmless=apriori.of_magnitudes(target.shape, count, grad, beta),
    )


def _batch(ndim: int) -> Labels:
    """Labels of leading axes that broadcast from the right."""
    return tuple(range(-ndim, 0))


class Matmul(Product):
    """``x @ y`` with Paddle's transpose flags; 1-D operands and broadcast batches as in NumPy. Also bmm and mv."""

    def labelled(self, values: Sequence[Any]) -> Labelled:
        """Batch axes, i, k, j."""
        x, y, *flags = values
        turned_x, turned_y = (*flags, False, False)[:2]
        left: Labels = ("k", "i") if turned_x and x.ndim > 1 else ("i", "k")
        right: Labels = ("j", "k") if turned_y and y.ndim > 1 else ("k", "j")
        left = _batch(x.ndim - 2) + left if x.ndim > 1 else ("k",)
        right = _batch(y.ndim - 2) + right if y.ndim > 1 else ("k",)
        batch = _batch(max(x.ndim - 2, y.ndim - 2, 0))
        out = (*batch, *(("i",) if x.ndim > 1 else ()), *(("j",) if y.ndim > 1 else ()))
        return Labelled({"x": (x, left), self.second: (y, right)}, out)

    second = "y"


class MatrixVector(Matmul):
    """``x @ vec``."""

    second = "vec"


class Dot(Product):
    """Inner product, or row by row of two matrices: there torch multiplies first and then adds up."""

    stored = 1.0

    def labelled(self, values: Sequence[Any]) -> Labelled:
        """Leading axes, k."""
        x, y = values
        labels: Labels = (*_batch(x.ndim - 1), "k")
        return Labelled({"x": (x, labels), "y": (y, labels)}, labels[:-1])


class Linear(Product):
    """``x @ weight.T + bias`` with the weight as [out, in]."""

    def labelled(self, values: Sequence[Any]) -> Labelled:
        """Leading axes, o; summed over i. Paddle takes a bias of several axes, too: it broadcasts from the right."""
        x, weight, bias = values[:3]
        batch = _batch(x.ndim - 1)
        out: Labels = (*batch, "o")
        addend = None if bias is None else ("bias", bias, ("o",) if bias.ndim < 2 else out[len(out) - bias.ndim :])
        return Labelled({"x": (x, (*batch, "i")), "weight": (weight, ("o", "i"))}, out, addend)


class Addmm(Product):
    """``beta * input + alpha * x @ y``, also batched."""

    def labelled(self, values: Sequence[Any]) -> Labelled:
        """Batch axes, i, k, j; the input broadcasts from the right."""
        added, x, y, beta, alpha = values
        batch = _batch(x.ndim - 2)
        out: Labels = (*batch, "i", "j")
        addend = ("input", added, out[len(out) - added.ndim :])
        return Labelled({"x": (x, (*batch, "i", "k")), "y": (y, (*batch, "k", "j"))}, out, addend, alpha, beta)


class Einsum(Product):
    """``torch.einsum`` of one or two operands without repeated labels in one of them and without ``...``."""

    def labelled(self, values: Sequence[Any]) -> Labelled | None:
        """The equation's own labels."""
        tensors, equation = values
        text = str(equation).replace(" ", "")
        left, arrow, right = text.partition("->")
        parts = left.split(",")
        if "." in text or len(tensors) not in (1, 2) or len(parts) != len(tensors) or any(len(set(p)) != len(p) for p in parts):
            return None
        every = "".join(parts)
        out = right if arrow else "".join(sorted(label for label in set(every) if every.count(label) == 1))
        factors = {name: (tensor, tuple(part)) for name, tensor, part in zip(("x", "y"), tensors, parts)}
        return Labelled(factors, tuple(out))

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """Of one operand: ``"operands.0"`` or ``"operands.1"`` (``"operands"`` where there is only one)."""
        place = name.rpartition(".")[2]
        if not place.isdigit():
            if len(values[0]) != 1:
                return None
            place = "0"
        return super().gradient(("x", "y")[int(place)], values, out, grad) if int(place) < 2 else None
