"""Rounding models of sums, means, logsumexp, softmax, layer normalisation and their gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ..judging.hypotheses import dropped, epsilons, missing, precision, setting
from ..oracle import apriori, apriori_rows, few, rows
from ..oracle import formulas as terms
from ..oracle.precision import KINDS, Array, span
from ..oracle.staging import Hypothesis, Later, Quantity
from ..oracle.sums import build, sequential
from .base import Model, floating, reciprocal, reduced


def _targets(shape: Sequence[int], over: tuple[int, ...], keep: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and labels (the operand's axes) of a reduced tensor."""
    if keep:
        return tuple(1 if axis in over else size for axis, size in enumerate(shape)), tuple(range(len(shape)))
    rest = tuple(axis for axis in range(len(shape)) if axis not in over)
    return tuple(shape[axis] for axis in rest), rest


def _magnitudes(x: torch.Tensor, over: tuple[int, ...]) -> torch.Tensor:
    """The sums of a tensor's magnitudes over some axes."""
    if over == tuple(range(len(over))):
        return apriori.summed(torch.abs, x.detach().reshape(-1, *x.shape[len(over) :]))
    return x.detach().abs().sum(over)


def _flat(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Rows of ``count`` elements."""
    return tensor.detach().reshape(-1, count)


def _other_axes(x: torch.Tensor, over: tuple[int, ...], function: Callable[[torch.Tensor, int], torch.Tensor]) -> list[Hypothesis]:
    """The same function over another single axis."""
    if len(over) != 1:
        return []
    others = [axis for axis in range(x.ndim) if axis not in over]
    return [Hypothesis(f"axis={a}", False, full=partial(_wide, function, x, a)) for a in others]


def _wide(function: Callable[[torch.Tensor, int], torch.Tensor], x: torch.Tensor, axis: int) -> torch.Tensor:
    return function(x.detach().double(), axis)


def _infinite_maximum() -> list[Hypothesis]:
    """An infinite maximum is subtracted as any other, which makes NaN of infinities."""
    return [setting("infinite-maximum", naive=True)]


def _swallowed() -> list[Hypothesis]:
    """Softmax with x - max clipped from below by a maximum that prefers the bound to NaN."""
    return [setting("clip=-64", clip=-64.0), *(setting("nan-clipped", clip=-64.0, swallow=some) for some in ("entries", "rows"))]


def _statistics(x: torch.Tensor) -> dict[str, Array]:
    """Of each row, in the oracle's precision: mean, variance and mean magnitude."""
    wide = (x.cpu().double() if x.is_cuda or x.dtype == torch.bfloat16 else x).numpy().astype(KINDS[x.dtype].oracle)
    mean = wide.mean(1)
    size = np.abs(wide).mean(1)
    wide -= mean[:, None]
    return {"mean": mean, "variance": np.square(wide, out=wide).mean(1), "size": size}


class Sum(Model):
    """Sum over axes, with Paddle's optional dtype."""

    mean = False

    def _read(self, values: Sequence[Any]) -> tuple[torch.Tensor, tuple[int, ...], bool, torch.dtype]:
        x, axis, dtype, keep = values
        return x, reduced(axis, x.ndim), bool(keep), dtype or x.dtype

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """g(f) sum |x|; the mean divides once more."""
        x, over, keep, dtype = self._read(values)
        if not floating(x) or dtype not in KINDS:
            return None
        count = math.prod(x.shape[axis] for axis in over)
        attrs = {"alpha": reciprocal(count, dtype)} if self.mean and count else {}

        def hypotheses() -> list[Hypothesis]:
            function = torch.mean if self.mean else torch.sum
            other = _other_axes(x, over, lambda wide, axis: function(wide, axis, keepdim=keep))
            scales = {"sum-for-mean": 1.0} if self.mean else {"mean-for-sum": reciprocal(max(count, 1), dtype)}
            if self.mean and count > 1:
                scales["divisor-n-1"] = reciprocal(count - 1, dtype)
            listed = [setting(name, alpha=value) for name, value in scales.items()]
            return precision(dtype, ("x",)) + dropped(("x",)) + listed + other

        return build(_targets(x.shape, over, keep), dtype, {"x": (x, tuple(range(x.ndim)))}, terms.SUM,
                     attrs=attrs, named=hypotheses, orders=sequential, sums=1,
                     harmless=apriori.of_sum(partial(_magnitudes, over=over), count, 0.0, float(attrs.get("alpha", 1.0)),
                                             tensors=(x,), small=partial(few.over_axes, over)),
                     )  # fmt: skip

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """The incoming gradient, repeated (and divided)."""
        x, over, keep, _ = self._read(values)
        if not floating(x, grad):
            return None
        count = math.prod(x.shape[axis] for axis in over)
        labels = _targets(x.shape, over, keep)[1]
        target = (x.shape, tuple(range(x.ndim)))
        if not self.mean:
            listed = [setting("mean-for-sum", sign=reciprocal(max(count, 1), x.dtype))]
            return build(target, x.dtype, {"x": (grad, labels)}, terms.COPY, named=lambda: precision(x.dtype, ("x",)) + listed)
        listed = [setting("sum-for-mean", other=1.0), setting("divisor-n-1", other=reciprocal(max(count - 1, 1), x.dtype))]
        attrs = {"other": reciprocal(max(count, 1), x.dtype)}
        return build(target, x.dtype, {"grad": (grad, labels)}, terms.DIVIDED, attrs=attrs,
                     named=lambda: precision(x.dtype, ("grad",)) + listed)  # fmt: skip


class Mean(Sum):
    """Mean over axes."""

    mean = True

    def _read(self, values: Sequence[Any]) -> tuple[torch.Tensor, tuple[int, ...], bool, torch.dtype]:
        x, axis, keep = values
        return x, reduced(axis, x.ndim), bool(keep), x.dtype


class LogSumExp(Model):
    """log sum exp over axes."""

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """One row a result."""
        x, axis, keep, every = values
        if not floating(x):
            return None
        over = reduced(None if every else axis, x.ndim)
        shape = _targets(x.shape, over, bool(keep))[0]
        operand = rows.row(x, over)
        if keep:  # the grid is the result's own, with its axes of size 1
            operand.grid = tuple(a for a in range(x.ndim) if a not in over)
        count = operand.inner[0]

        def hypotheses() -> list[Hypothesis]:
            other = _other_axes(x, over, lambda wide, axis: torch.logsumexp(wide, axis, keepdim=bool(keep)))
            named = [setting("log-mean-exp", shift=-math.log(max(count, 1))), setting("base-2", base=2.0)]
            return precision(x.dtype, ("x",)) + dropped(("x",), -math.inf) + named + other

        return rows.Rows(shape, x.dtype, count, {"x": operand}, {}, hypotheses, whole=False, formula=rows.logsumexp,
                         special=_infinite_maximum)  # fmt: skip

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """g softmax(x)."""
        x, axis, _, every = values
        if not floating(x, grad):
            return None
        over = reduced(None if every else axis, x.ndim)
        spread = grad.detach().reshape(_targets(x.shape, over, True)[0]).expand(x.shape)
        operands = {"x": rows.row(x, over), "grad": rows.row(spread, over)}
        return rows.Rows(tuple(x.shape), x.dtype, operands["x"].inner[0], operands, {},
                         lambda: precision(x.dtype, ("x", "grad")) + dropped(("x",), -math.inf),
                         axes=over, formula=rows.logsumexp_gradient, relative=True, special=_infinite_maximum)  # fmt: skip


class Softmax(Model):
    """Softmax over one axis."""

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """Componentwise relative bound."""
        x, axis = values
        if not floating(x):
            return None
        over = (axis % x.ndim,) if x.ndim else ()

        def hypotheses() -> list[Hypothesis]:
            other = _other_axes(x, over, torch.softmax)
            named = [setting("clip=-64", clip=-64.0), setting("base-2", base=2.0)]
            return precision(x.dtype, ("x",)) + dropped(("x",), -math.inf) + named + other

        operand = rows.row(x, over)
        return rows.Rows(tuple(x.shape), x.dtype, operand.inner[0], {"x": operand}, {}, hypotheses,
                         axes=over, formula=rows.softmax, relative=True, special=_swallowed,
                         harmless=apriori_rows.softmax(x, axis))  # fmt: skip

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """y (g - sum g y)."""
        x, axis = values
        if not floating(x, grad):
            return None
        over = (axis % x.ndim,) if x.ndim else ()
        operands = {"x": rows.row(x, over), "grad": rows.row(grad, over)}

        def hypotheses() -> list[Hypothesis]:
            named = [setting("no-projection", projection=0.0), setting("clip=-64", clip=-64.0)]
            return precision(x.dtype, ("x", "grad")) + dropped(("x",), -math.inf) + named

        return rows.Rows(tuple(x.shape), x.dtype, operands["x"].inner[0], operands, {}, hypotheses,
                         axes=over, formula=rows.softmax_gradient, special=_swallowed,
                         harmless=apriori_rows.softmax_gradient(x, axis, grad))  # fmt: skip


class LayerNorm(Model):
    """Normalisation over the trailing axes from ``begin_norm_axis`` on, with flat weight and bias."""

    def _rows(self, x: torch.Tensor, begin: int) -> tuple[tuple[int, ...], int]:
        axes = tuple(range(begin % max(x.ndim, 1), x.ndim))
        return axes, math.prod(x.shape[axis] for axis in axes)

    def _variants(self, dtype: torch.dtype, epsilon: float, count: int) -> list[Hypothesis]:
        named = [*epsilons(dtype, epsilon), setting("no-centering", centre=0.0)]
        if count > 1:
            named.append(setting("variance-n-1", ddof=1, stretch=count / (count - 1)))
        return named

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """See :func:`padiff_shim.numerics.oracle.rows.layer_norm`."""
        x, scale, bias, epsilon, begin = values
        if not floating(x, scale, bias):
            return None
        axes, count = self._rows(x, begin)
        operands = {"x": rows.row(x, axes)}
        operands |= {name: rows.shared(t) for name, t in (("weight", scale), ("bias", bias)) if t is not None}

        def hypotheses() -> list[Hypothesis]:
            named = [missing("weight", "no-weight"), missing("bias", "no-bias"), setting("bias-twice", beta=2.0)]
            more = Hypothesis("weight+1", False, lambda s: s.each(lambda w: w + 1, ["weight"]) if "weight" in s.arrays else None)
            return precision(x.dtype, ("x",), ("weight", "bias")) + self._variants(x.dtype, epsilon, count) + [*named, more]

        return rows.Rows(tuple(x.shape), x.dtype, count, operands, {"epsilon": float(epsilon)}, hypotheses,
                         axes=axes, formula=rows.layer_norm,
                         harmless=apriori_rows.layer_norm(x, scale, bias, float(epsilon), axes))  # fmt: skip

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """Of ``"x"`` by rows; of ``"scale"`` and ``"bias"`` as sums over all rows."""
        x, scale, bias, epsilon, begin = values
        if not floating(x, scale, bias, grad):
            return None
        axes, count = self._rows(x, begin)
        if name == "x":
            return self._input(x, scale, float(epsilon), grad, axes, count)
        target = scale if name == "scale" else bias
        if target is None:
            return None
        flat = _flat(grad, count)
        if name == "bias":
            return build(((count,), ("d",)), target.dtype, {"x": (flat, ("n", "d"))}, terms.SUM,
                         named=lambda: precision(target.dtype, ("x",)) + dropped(("x",)), orders=sequential, sums=1,
                         coarse=True, harmless=apriori_rows.sums(grad, count))  # fmt: skip
        found = self._weight(_flat(x, count), target.dtype, float(epsilon), flat)
        found.harmless = apriori_rows.normalised_sums(x, grad, count, float(epsilon), terms.NORMALISED.rounds)
        return found

    def _input(
        self, x: torch.Tensor, scale: torch.Tensor | None, epsilon: float, grad: torch.Tensor, axes: tuple[int, ...], count: int
    ) -> Quantity:
        operands = {"x": rows.row(x, axes), "grad": rows.row(grad, axes)}
        if scale is not None:
            operands["weight"] = rows.shared(scale)

        def hypotheses() -> list[Hypothesis]:
            named = [
                setting("no-mean-term", mean_term=0.0),
                setting("no-projection", projection=0.0),
                missing("weight", "no-weight"),
            ]
            return precision(x.dtype, ("x", "grad"), ("weight",)) + self._variants(x.dtype, epsilon, count) + named

        return rows.Rows(tuple(x.shape), x.dtype, count, operands, {"epsilon": epsilon}, hypotheses,
                         axes=axes, formula=rows.layer_norm_gradient,
                         harmless=apriori_rows.layer_norm_gradient(x, scale, epsilon, axes, grad))  # fmt: skip

    def _weight(self, x: torch.Tensor, dtype: torch.dtype, epsilon: float, grad: torch.Tensor) -> Quantity:
        labels = ("n", "d")
        found = build(((x.shape[1],), ("d",)), dtype, {"grad": (grad, labels), "x": (x, labels)}, terms.NORMALISED,
                      attrs={"epsilon": epsilon, "count": x.shape[1], "largest": span(KINDS[x.dtype].unit)[1]},
                      sums=1, coarse=True)  # fmt: skip
        statistics = functools.cache(partial(_statistics, x))
        names = ("mean", "variance", "size")
        inner = (x.shape[0],) if x.shape[0] > 1 else ()  # as `build` lays out the others: a single row is no axis
        found.operands |= {name: Later(lambda name=name: statistics()[name], inner) for name in names}  # type: ignore[misc]
        found.k += x.shape[1]  # the rounding of the rows' own mean and variance comes on top
        found.named = lambda: (
            precision(dtype, ("grad", "x")) + dropped(("grad",)) + self._variants(x.dtype, epsilon, x.shape[1])
        )  # fmt: skip
        return found
