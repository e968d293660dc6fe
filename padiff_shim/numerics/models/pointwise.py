"""Rounding models of elementwise ops, with tensors and with Python numbers, and of their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ..judging.hypotheses import dropped, numbers, precision, setting
from ..oracle import apriori, few
from ..oracle import formulas as terms
from ..oracle.precision import KINDS, Array, represented
from ..oracle.staging import Hypothesis, Quantity
from ..oracle.sums import Term, Terms, build, sequential
from .base import Model, floating


def _labels(tensor: torch.Tensor) -> tuple[int, ...]:
    """Axes from the right, as they broadcast."""
    return tuple(range(-tensor.ndim, 0))


def _operands(**values: Any) -> tuple[dict[str, tuple[torch.Tensor, tuple[int, ...]]], dict[str, Any]]:
    """Tensors with their labels, and the numbers."""
    tensors = {name: (v, _labels(v)) for name, v in values.items() if isinstance(v, torch.Tensor)}
    return tensors, {name: v for name, v in values.items() if name not in tensors}


def pointwise(target: Sequence[int], dtype: torch.dtype, term: Term, extra: Sequence[Hypothesis] = (), **values: Any) -> Terms:
    """``term`` of these tensors and numbers, summed over the axes along which the target was broadcast."""
    operands, attrs = _operands(**{name: v for name, v in values.items() if name != "guide"})
    spelled = [name for name, v in attrs.items() if isinstance(v, float)]

    def hypotheses() -> list[Hypothesis]:
        listed = [*precision(dtype, tuple(operands)), *numbers(dtype, *spelled), *extra]
        return listed + (dropped(("grad",)) if found.sums else [])

    labels = tuple(range(-len(target), 0))
    found = build((target, labels), dtype, operands, term, attrs=attrs, named=hypotheses, guide=values.get("guide"))
    found.stored = float(sum(not represented(np.asarray(attrs[name]), KINDS[dtype].name) for name in spelled))
    if found.sums:
        found.guide = None
        found.stored += 1.0
    return found


def _beside(size: float) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """|result| + a number's size: the bound of a sum with that number."""
    return lambda reference: [reference.detach().abs() + abs(size)]


class Binary(Model):
    """An op of two operands, each a tensor or a number. ``term``: of two tensors; ``number``: beside a number."""

    term, number = terms.MULTIPLY, terms.MULTIPLY_NUMBER

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The broadcast result."""
        x, y = values[:2]
        tensors = [v for v in (x, y) if isinstance(v, torch.Tensor)]
        if not tensors or not floating(*tensors):
            return None
        term = self.term if len(tensors) == 2 else self.number
        shape = np.broadcast_shapes(*(v.shape for v in tensors))  # Torch 2.13 loads SymPy for its own
        return pointwise(shape, tensors[0].dtype, term, self.others(), x=x, y=y, **self.options(x, y))

    def options(self, x: Any, y: Any) -> dict[str, Any]:
        """More numbers of the formula."""
        return {}

    def others(self) -> list[Hypothesis]:
        """More hypotheses."""
        return []

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """The gradient of ``"x"`` or ``"y"``."""
        x, y = values[:2]
        target = {"x": x, "y": y}.get(name)
        if not isinstance(target, torch.Tensor) or not floating(x, y, grad):
            return None
        return self.derivative(name, target, x, y, grad)

    def derivative(self, name: str, target: torch.Tensor, x: Any, y: Any, grad: torch.Tensor) -> Quantity | None:
        """The formula of one gradient."""
        return pointwise(target.shape, target.dtype, terms.TIMES, grad=grad, other=y if name == "x" else x)


class Multiply(Binary):
    """x * y."""


class Add(Binary):
    """x + y."""

    term = number = terms.ADD
    sign = 1.0

    def options(self, x: Any, y: Any) -> dict[str, Any]:
        """The sign of y, and where to look for errors beside a number."""
        numbers = [v for v in (x, y) if not isinstance(v, torch.Tensor)]
        return {"sign": self.sign, **({"guide": _beside(float(numbers[0]))} if numbers else {})}

    def others(self) -> list[Hypothesis]:
        """The other sign."""
        return [setting("sign-of-y", sign=-self.sign)]

    def derivative(self, name: str, target: torch.Tensor, x: Any, y: Any, grad: torch.Tensor) -> Quantity | None:
        """The gradient itself, or its sum."""
        sign = 1.0 if name == "x" else self.sign
        found = pointwise(target.shape, target.dtype, terms.COPY, [setting("sign", sign=-sign)], x=grad, sign=sign)
        if found.sums:
            found.term, found.stored, found.orders = terms.SUM, 0.0, sequential
            found.harmless = apriori.of_magnitudes(target.shape, found.k, grad)
        return found


class Subtract(Add):
    """x - y."""

    sign = -1.0


class Divide(Binary):
    """x / y; beside a number kernels may multiply by the reciprocal."""

    term, number = terms.DIVIDE, terms.DIVIDE_NUMBER

    def derivative(self, name: str, target: torch.Tensor, x: Any, y: Any, grad: torch.Tensor) -> Quantity | None:
        """g / y and -g x / y^2."""
        if name == "x":
            return pointwise(target.shape, target.dtype, terms.NUMERATOR, grad=grad, y=y)
        return pointwise(target.shape, target.dtype, terms.DENOMINATOR, grad=grad, x=x, y=y)


class Power(Binary):
    """x ** y."""

    term = number = terms.POWER

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The broadcast result; a power of 0.5 may be taken for a square root."""
        found = super().forward(values)
        if found is not None and isinstance(values[1], float) and values[1] == 0.5:
            found.special = lambda: [setting("sqrt-for-pow", root=True)]
        return found

    def derivative(self, name: str, target: torch.Tensor, x: Any, y: Any, grad: torch.Tensor) -> Quantity | None:
        """g y x^(y-1) and g x^y log x."""
        return pointwise(target.shape, target.dtype, terms.BASE if name == "x" else terms.EXPONENT, grad=grad, x=x, y=y)


class Scale(Model):
    """x * scale + bias, or (x + bias) * scale."""

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The affine map."""
        x, scale, bias, after = values
        if not floating(x) or isinstance(scale, torch.Tensor) or isinstance(bias, torch.Tensor):
            return None
        extra = [setting("no-bias", bias=0.0), setting("bias-before-scale" if after else "bias-after-scale", after=not after)]
        numbers = {"scale": float(scale), "bias": float(bias), "after": bool(after)}
        guide = {"guide": _beside(abs(bias))} if bias else {}
        return pointwise(x.shape, x.dtype, terms.AFFINE, extra, x=x, **numbers, **guide)

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """g scale."""
        x, scale = values[:2]
        if name != "x" or not floating(x, grad) or isinstance(scale, torch.Tensor):
            return None
        return pointwise(x.shape, x.dtype, terms.TIMES, grad=grad, other=float(scale))


def _wide(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return function(x.detach().double())


class Unary(Model):
    """A function of one tensor.

    ``wrong``: other functions it may be taken for, as torch functions of a float64 tensor. ``special``: see :class:`Quantity`.
    """

    def __init__(
        self,
        term: Term,
        derivative: Term,
        wrong: dict[str, Callable[[torch.Tensor], torch.Tensor]] | None = None,
        special: Callable[[torch.dtype], list[Hypothesis]] | None = None,
    ):
        self.term, self.derivative, self.wrong, self.special = term, derivative, wrong or {}, special

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """f(x)."""
        x = values[0]
        if not floating(x):
            return None
        extra = [Hypothesis(name, False, full=partial(_wide, f, x)) for name, f in self.wrong.items()]
        found = pointwise(x.shape, x.dtype, self.term, extra, x=x)
        if self.special is not None:
            found.special = partial(self.special, x.dtype)
        return found

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """g f'(x), recomputed from x: the kernel's own result may be a little off."""
        x = values[0]
        if not floating(x, grad):
            return None
        found = pointwise(x.shape, x.dtype, self.derivative, grad=grad, x=x)
        if self.derivative is terms.TANH_GRADIENT:  # 1 - tanh^2 cancels
            found.guide = lambda reference: [grad]
        return found


def _gelu_size(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """|x| (half of it below 0) + |gelu(x)|: what the rounding of gelu is relative to."""
    return torch.nn.functional.leaky_relu(x, -0.5).add_(result.abs())


def _gelu_gradient_size(result: torch.Tensor, grad: torch.Tensor, x: torch.Tensor, form: str) -> torch.Tensor:
    """At most what the rounding of gelu's gradient is relative to (see :func:`formulas._gelu_gradient`)."""
    size = torch.sign(x).mul_(0.25).add_(0.75)  # 1, and a half below 0
    if form == "none":  # and |x| pdf(x) (1 + min(x^2, 100))
        square = x * x
        bent = torch.mul(square, -0.5).exp_().mul_(x).abs_()
        size.addcmul_(bent, square.clamp_(max=100.0).add_(1.0), value=0.3989)
    elif form == "tanh":  # and |x| times a part of the argument's slope
        size.addcmul_((x * x).mul_(0.1341).add_(1.0), x.abs(), value=0.3989)
    return size.mul_(grad).abs_()


class Gelu(Model):
    """x Phi(x), or its form with tanh."""

    @staticmethod
    def _form(approximate: Any) -> str:
        return approximate if isinstance(approximate, str) else ("tanh" if approximate else "none")

    def _others(self, form: str) -> list[Hypothesis]:
        names = {"none": "erf", "tanh": "tanh", "quick": "quick", "silu": "silu"}
        return [setting(f"gelu={name}", form=other) for other, name in names.items() if other != form]

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The error is relative to |x|: in the negative tail 1 + erf cancels."""
        x, form = values[0], self._form(values[1])
        if not floating(x):
            return None
        found = pointwise(x.shape, x.dtype, terms.GELU, self._others(form), x=x, form=form, guide=lambda reference: [x])
        found.harmless = apriori.pointwise(terms.GELU.rounds, _gelu_size, x, small=few.gelu)
        return found

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """g (gate + x gate')."""
        x, form = values[0], self._form(values[1])
        if not floating(x, grad):
            return None
        others = self._others(form)
        found = pointwise(x.shape, x.dtype, terms.GELU_GRADIENT, others, grad=grad, x=x, form=form, guide=lambda reference: [grad])
        size = partial(_gelu_gradient_size, form=form)
        small = partial(few.gelu_gradient, form)
        found.harmless = apriori.pointwise(terms.GELU_GRADIENT.rounds, size, grad, x, small=small)
        return found


def _replacing(name: str, which: Callable[[Array], Array], by: float, *, precision: bool = False) -> Hypothesis:
    """Some values of the operand x (where ``which`` holds) taken for another."""
    return Hypothesis(name, precision, lambda s: s.each(lambda a: np.where(which(a), np.asarray(by, a.dtype), a), ("x",)))


def _root(dtype: torch.dtype) -> list[Hypothesis]:
    """Square roots as x times an estimate of 1 / sqrt(x): infinity gives NaN, and denormals count as 0."""
    tiny = KINDS[dtype].tiny
    return [
        _replacing("denormals->0", lambda a: (np.abs(a) < tiny) & (a != 0), 0.0, precision=True),
        _replacing("inf->nan", np.isposinf, np.nan),
    ]


def _wrapped(dtype: torch.dtype) -> list[Hypothesis]:
    """A float16 exp whose power of two leaves the range by 64 below -77 log 2, far below the smallest number."""
    if dtype != torch.float16:
        return []
    log2 = math.log(2.0)
    return [Hypothesis("exponent+64", False, lambda s: s.each(lambda a: np.where(a < -77 * log2, a + 64 * log2, a), ("x",)))]


SQUARE = Unary(terms.SQUARE, terms.SQUARE_GRADIENT, {"cube": lambda x: x**3})
RELU = Unary(
    terms.RELU,
    terms.RELU_GRADIENT,
    {"gelu": torch.nn.functional.gelu, "relu6": torch.nn.functional.relu6},
    lambda dtype: [_replacing("nan->0", np.isnan, 0.0)],
)
TANH = Unary(terms.TANH, terms.TANH_GRADIENT, {"sigmoid": torch.sigmoid, "hardtanh": torch.nn.functional.hardtanh})
EXP = Unary(terms.EXP, terms.EXP_GRADIENT, {"exp2": torch.exp2, "expm1": torch.expm1}, _wrapped)
SQRT = Unary(terms.SQRT, terms.SQRT_GRADIENT, {"rsqrt": torch.rsqrt}, _root)
RSQRT = Unary(terms.RSQRT, terms.RSQRT_GRADIENT, {"sqrt": torch.sqrt, "reciprocal": torch.reciprocal}, _root)
