"""The rounding models as an op's entry names them: ``Op(..., model=models.Linear())``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from . import formulas
from .hypotheses import dropped, epsilons, missing, numbers, precision, setting
from .precision import KINDS, Array, represented, span
from .quantity import Hypothesis, Later, Quantity, Rows, Staged, Term, Terms, build, row, sequential, shared

# ---- The interface: a quantity for the result of an op and one for each gradient.

_MODELLED = frozenset(KINDS)


class RoundingModel:
    """The rounding model of an op. ``values``: the op's arguments as ``Op.reference`` takes them, in ``Op.params`` order."""

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The result, or None where this model has no bound for these arguments."""
        return None

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """The gradient of the operand ``name`` for the incoming gradient ``grad``; None without a bound."""
        return None


def floating(*tensors: Any) -> bool:
    """Every tensor among these has a dtype with a rounding model (the others are numbers or None)."""
    return _MODELLED.issuperset([tensor.dtype for tensor in tensors if isinstance(tensor, torch.Tensor)])


def reciprocal(count: float, dtype: torch.dtype) -> Any:
    """1 / count in the oracle's precision."""
    oracle = KINDS[dtype].oracle
    return 1.0 / count if oracle is np.float64 else oracle(1) / oracle(count)


def reduced(axis: Any, ndim: int) -> tuple[int, ...]:
    """Paddle's axis (None, int, sequence, tensor; empty means all) as sorted non-negative axes."""
    if hasattr(axis, "tolist"):
        axis = axis.tolist()
    if isinstance(axis, int):
        axis = (axis,)
    return tuple(sorted(int(number) % max(ndim, 1) for number in axis)) if axis and ndim else tuple(range(ndim))


# ---- Elementwise ops, with tensors and with Python numbers, and their gradients.


def _operands(**values: Any) -> tuple[dict[str, tuple[torch.Tensor, tuple[int, ...]]], dict[str, Any]]:
    """Tensors with their labels, and the numbers."""
    # Axes from the right, as they broadcast
    tensors = {name: (v, tuple(range(-v.ndim, 0))) for name, v in values.items() if isinstance(v, torch.Tensor)}
    return tensors, {name: v for name, v in values.items() if name not in tensors}


def pointwise(
    target: Sequence[int], dtype: torch.dtype, term: Term, extra: Callable[[], list[Hypothesis]] = list, **values: Any
) -> Terms:
    """``term`` of these tensors and numbers, summed over the axes along which the target was broadcast.

    ``extra``: gives more hypotheses.
    """
    operands, attrs = _operands(**{name: v for name, v in values.items() if name != "guide"})
    spelled = [name for name, v in attrs.items() if isinstance(v, float)]

    def hypotheses() -> list[Hypothesis]:
        listed = [*precision(dtype, tuple(operands)), *numbers(dtype, *spelled), *extra()]
        return listed + (dropped(("grad",)) if quantity.sums else [])

    labels = tuple(range(-len(target), 0))
    quantity = build((target, labels), dtype, operands, term, attrs=attrs, named=hypotheses, guide=values.get("guide"))
    quantity.stored = float(sum(not represented(np.asarray(attrs[name]), KINDS[dtype].name) for name in spelled))
    if quantity.sums:
        quantity.guide = None
        quantity.stored += 1.0
    return quantity


def _beside(size: float) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """|result| + a number's size: the bound of a sum with that number."""
    return lambda reference: [reference.detach().abs() + abs(size)]


class Binary(RoundingModel):
    """An op of two operands, each a tensor or a number. ``term``: of two tensors; ``number``: beside a number."""

    term, number = formulas.MULTIPLY, formulas.MULTIPLY_NUMBER

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The broadcast result."""
        x, y = values[:2]
        tensors = [v for v in (x, y) if isinstance(v, torch.Tensor)]
        term = self.term if len(tensors) == 2 else self.number
        shape = np.broadcast_shapes(*(v.shape for v in tensors))  # Torch 2.13 loads SymPy for its own
        return pointwise(shape, tensors[0].dtype, term, self.others, x=x, y=y, **self.options(x, y))

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
        if not isinstance(target, torch.Tensor):
            return None
        return self.derivative(name, target, x, y, grad)

    def derivative(self, name: str, target: torch.Tensor, x: Any, y: Any, grad: torch.Tensor) -> Quantity | None:
        """The formula of one gradient."""
        return pointwise(target.shape, target.dtype, formulas.TIMES, grad=grad, other=y if name == "x" else x)


class Multiply(Binary):
    """x * y."""


class Add(Binary):
    """x + y."""

    term = number = formulas.ADD
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
        quantity = pointwise(target.shape, target.dtype, formulas.COPY, lambda: [setting("sign", sign=-sign)], x=grad, sign=sign)
        if quantity.sums:
            quantity.term, quantity.stored, quantity.orders = formulas.SUM, 0.0, sequential
        return quantity


class Subtract(Add):
    """x - y."""

    sign = -1.0


class Divide(Binary):
    """x / y; beside a number kernels may multiply by the reciprocal."""

    term, number = formulas.DIVIDE, formulas.DIVIDE_NUMBER

    def derivative(self, name: str, target: torch.Tensor, x: Any, y: Any, grad: torch.Tensor) -> Quantity | None:
        """g / y and -g x / y^2."""
        if name == "x":
            return pointwise(target.shape, target.dtype, formulas.NUMERATOR, grad=grad, y=y)
        return pointwise(target.shape, target.dtype, formulas.DENOMINATOR, grad=grad, x=x, y=y)


class Power(Binary):
    """x ** y."""

    term = number = formulas.POWER

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The broadcast result; a power of 0.5 may be taken for a square root."""
        quantity = super().forward(values)
        if quantity is not None and isinstance(values[1], float) and values[1] == 0.5:
            quantity.special = lambda: [setting("sqrt-for-pow", root=True)]
        return quantity

    def derivative(self, name: str, target: torch.Tensor, x: Any, y: Any, grad: torch.Tensor) -> Quantity | None:
        """g y x^(y-1) and g x^y log x."""
        return pointwise(target.shape, target.dtype, formulas.BASE if name == "x" else formulas.EXPONENT, grad=grad, x=x, y=y)


class Scale(RoundingModel):
    """x * scale + bias, or (x + bias) * scale."""

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The affine map."""
        x, scale, bias, after = values
        if isinstance(scale, torch.Tensor) or isinstance(bias, torch.Tensor):
            return None

        def extra() -> list[Hypothesis]:
            other = "bias-before-scale" if after else "bias-after-scale"
            return [setting("no-bias", bias=0.0), setting(other, after=not after)]

        numbers = {"scale": float(scale), "bias": float(bias), "after": bool(after)}
        guide = {"guide": _beside(abs(bias))} if bias else {}
        return pointwise(x.shape, x.dtype, formulas.AFFINE, extra, x=x, **numbers, **guide)

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """g scale."""
        x, scale = values[:2]
        if name != "x" or isinstance(scale, torch.Tensor):
            return None
        return pointwise(x.shape, x.dtype, formulas.TIMES, grad=grad, other=float(scale))


class Unary(RoundingModel):
    """A function of one tensor. ``special``: see :class:`Quantity`."""

    def __init__(self, term: Term, derivative: Term, special: Callable[[torch.dtype], list[Hypothesis]] | None = None):
        self.term, self.derivative, self.special = term, derivative, special

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """f(x)."""
        x = values[0]
        quantity = pointwise(x.shape, x.dtype, self.term, x=x)
        if self.special is not None:
            quantity.special = partial(self.special, x.dtype)
        return quantity

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """g f'(x), recomputed from x: the kernel's own result may be a little off."""
        x = values[0]
        quantity = pointwise(x.shape, x.dtype, self.derivative, grad=grad, x=x)
        if self.derivative is formulas.TANH_GRADIENT:  # 1 - tanh^2 cancels
            quantity.guide = lambda reference: [grad]
        return quantity


class Gelu(RoundingModel):
    """x Phi(x), or its form with tanh; of float64 there is no Phi(x) in a wider format."""

    @staticmethod
    def _form(approximate: Any) -> str:
        return approximate if isinstance(approximate, str) else ("tanh" if approximate else "none")

    def _others(self, form: str) -> list[Hypothesis]:
        names = {"none": "erf", "tanh": "tanh", "quick": "quick", "silu": "silu"}
        return [setting(f"gelu={name}", form=other) for other, name in names.items() if other != form]

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The error is relative to |x|: in the negative tail 1 + erf cancels."""
        x, form = values[0], self._form(values[1])
        if x.dtype == torch.float64:
            return None
        return pointwise(x.shape, x.dtype, formulas.GELU, partial(self._others, form), x=x, form=form, guide=lambda reference: [x])

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """g (gate + x gate')."""
        x, form = values[0], self._form(values[1])
        if x.dtype == torch.float64:
            return None
        others = partial(self._others, form)
        return pointwise(
            x.shape, x.dtype, formulas.GELU_GRADIENT, others, grad=grad, x=x, form=form, guide=lambda reference: [grad]
        )


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


SQUARE = Unary(formulas.SQUARE, formulas.SQUARE_GRADIENT)
RELU = Unary(formulas.RELU, formulas.RELU_GRADIENT, lambda dtype: [_replacing("nan->0", np.isnan, 0.0)])
TANH = Unary(formulas.TANH, formulas.TANH_GRADIENT)
EXP = Unary(formulas.EXP, formulas.EXP_GRADIENT, _wrapped)
SQRT = Unary(formulas.SQRT, formulas.SQRT_GRADIENT, _root)
RSQRT = Unary(formulas.RSQRT, formulas.RSQRT_GRADIENT, _root)


# ---- Matrix products and their gradients, which are matrix products again.

Labels = tuple[Hashable, ...]


class Labelled(NamedTuple):
    """A product of tensors by labels, as in einsum: ``alpha * sum of factors + beta * addend``."""

    factors: Mapping[str, tuple[torch.Tensor, Labels]]
    out: Labels
    addend: tuple[str, torch.Tensor, Labels] | None = None
    alpha: float = 1.0
    beta: float = 1.0


class Product(RoundingModel):
    """Base of all products: a subclass says which labels the axes have.

    ``stored``: steps that a kernel may round to 16 bits, see :class:`padiff_shim.numerics.quantity.Term`.
    """

    stored = 0.0

    def labelled(self, values: Sequence[Any]) -> Labelled | None:
        """The axes' labels, or None where they cannot be said."""
        raise NotImplementedError

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """|A||B| + |addend| with k summands."""
        product = self.labelled(values)
        if product is None:
            return None
        shape, sums = _extent(tuple([(tensor.shape, labels) for tensor, labels in product.factors.values()]), product.out)
        dtype = next(iter(product.factors.values()))[0].dtype
        named = dict(zip(("x", "y"), product.factors.values()))
        if product.addend is not None:
            named["addend"] = product.addend[1:]

        def hypotheses() -> list[Hypothesis]:
            listed = (
                _scalars(dtype, product)
                + precision(dtype, ("x", "y"), ("addend",))
                + dropped(("x",))
                + transposed((shape, product.out), dtype, named, tuple(product.factors))
            )
            if product.addend is not None:
                listed += [
                    missing("addend", f"no-{product.addend[0]}"),
                    setting(f"{product.addend[0]}-twice", beta=2 * product.beta),
                ]
            return listed

        attrs = {"alpha": product.alpha, "beta": product.beta} if product.addend is not None else {}
        term = formulas.DOT if "y" in named else formulas.SUM
        return build((shape, product.out), dtype, named, term, attrs=attrs, named=hypotheses, sums=sums, stored=self.stored)

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """The incoming gradient times the other operand, summed over what this operand lacks."""
        product = self.labelled(values)
        if product is None:
            return None
        if product.addend is not None and name == product.addend[0]:
            target, labels = product.addend[1:]
            return _sum_of_gradient(target, labels, grad, product.out, product.beta)
        if name not in product.factors:
            return None
        target, labels = product.factors[name]
        others = [pair for other, pair in product.factors.items() if other != name]
        operands = dict(zip(("x", "y"), [(grad, product.out), *others]))
        attrs = {"alpha": product.alpha} if product.alpha != 1.0 else {}
        term = formulas.DOT if others else formulas.SUM
        dtype = target.dtype

        def hypotheses() -> list[Hypothesis]:
            names = ("", next((other for other in product.factors if other != name), ""))
            turned = transposed((target.shape, labels), dtype, operands, names)
            return _scalars(dtype, product) + precision(dtype, ("x", "y")) + dropped(("x",)) + turned

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
        other = build(target, dtype, {**operands, key: (tensor.mT, labels)}, formulas.DOT)
        return lambda staged: replace(other.stage(staged.where), attrs=staged.attrs, post=staged.post)

    square = {key: tensor.ndim > 1 and tensor.shape[-1] == tensor.shape[-2] for key, (tensor, _) in operands.items()}
    return [Hypothesis(f"{name}-transposed", False, turn(key)) for key, name in zip(operands, names) if name and square[key]]


def _scalars(dtype: torch.dtype, product: Labelled) -> list[Hypothesis]:
    factors = [name for name in ("alpha", "beta") if getattr(product, name) != 1.0]
    return [*numbers(dtype, *factors), *(setting(f"{name}-ignored", **{name: 1.0}) for name in factors)]


def _sum_of_gradient(target: torch.Tensor, labels: Labels, grad: torch.Tensor, out: Labels, beta: float) -> Quantity:
    """beta times the gradient, summed over the axes along which an addend (a bias) was broadcast."""
    listed = Labelled({}, out, beta=beta)
    return build(
        (target.shape, labels),
        target.dtype,
        {"x": (grad, out)},
        formulas.SUM,
        attrs={"beta": beta},
        factor="beta",
        named=lambda: _scalars(target.dtype, listed) + precision(target.dtype, ("x",)) + dropped(("x",)),
        orders=sequential,
        sums=1,
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


# ---- Sums, means, softmax, layer normalisation and their gradients.


def _targets(shape: Sequence[int], over: tuple[int, ...], keep: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and labels (the operand's axes) of a reduced tensor."""
    if keep:
        return tuple(1 if axis in over else size for axis, size in enumerate(shape)), tuple(range(len(shape)))
    rest = tuple(axis for axis in range(len(shape)) if axis not in over)
    return tuple(shape[axis] for axis in rest), rest


def _flat(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Rows of ``count`` elements."""
    return tensor.detach().reshape(-1, count)


def _other_axes(x: torch.Tensor, over: tuple[int, ...], function: Callable[[torch.Tensor, int], torch.Tensor]) -> list[Hypothesis]:
    """The same function over another single axis."""
    if len(over) != 1:
        return []
    others = [axis for axis in range(x.ndim) if axis not in over]
    wide = x.detach().double()
    return [Hypothesis(f"axis={a}", False, full=partial(function, wide, a)) for a in others]


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


class Sum(RoundingModel):
    """Sum over axes, with Paddle's optional dtype."""

    mean = False

    def _read(self, values: Sequence[Any]) -> tuple[torch.Tensor, tuple[int, ...], bool, torch.dtype]:
        x, axis, dtype, keep = values
        return x, reduced(axis, x.ndim), bool(keep), dtype or x.dtype

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """g(f) sum |x|; the mean divides once more."""
        x, over, keep, dtype = self._read(values)
        if dtype not in KINDS:
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

        return build(_targets(x.shape, over, keep), dtype, {"x": (x, tuple(range(x.ndim)))}, formulas.SUM,
                     attrs=attrs, named=hypotheses, orders=sequential, sums=1)  # fmt: skip

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """The incoming gradient, repeated (and divided)."""
        x, over, keep, _ = self._read(values)
        count = math.prod(x.shape[axis] for axis in over)
        labels = _targets(x.shape, over, keep)[1]
        target = (x.shape, tuple(range(x.ndim)))
        if not self.mean:
            listed = [setting("mean-for-sum", sign=reciprocal(max(count, 1), x.dtype))]
            return build(target, x.dtype, {"x": (grad, labels)}, formulas.COPY, named=lambda: precision(x.dtype, ("x",)) + listed)
        listed = [setting("sum-for-mean", other=1.0), setting("divisor-n-1", other=reciprocal(max(count - 1, 1), x.dtype))]
        attrs = {"other": reciprocal(max(count, 1), x.dtype)}
        return build(target, x.dtype, {"grad": (grad, labels)}, formulas.DIVIDED, attrs=attrs,
                     named=lambda: precision(x.dtype, ("grad",)) + listed)  # fmt: skip


class Mean(Sum):
    """Mean over axes."""

    mean = True

    def _read(self, values: Sequence[Any]) -> tuple[torch.Tensor, tuple[int, ...], bool, torch.dtype]:
        x, axis, keep = values
        return x, reduced(axis, x.ndim), bool(keep), x.dtype


class Softmax(RoundingModel):
    """Softmax over one axis."""

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """Componentwise relative bound."""
        x, axis = values
        over = (axis % x.ndim,) if x.ndim else ()

        def hypotheses() -> list[Hypothesis]:
            other = _other_axes(x, over, torch.softmax)
            named = [setting("clip=-64", clip=-64.0), setting("base-2", base=2.0)]
            return precision(x.dtype, ("x",)) + dropped(("x",), -math.inf) + named + other

        operand = row(x, over)
        return Rows(tuple(x.shape), x.dtype, operand.inner[0], {"x": operand}, {}, hypotheses,
                         axes=over, formula=formulas.softmax, relatively=True, special=_swallowed)  # fmt: skip

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """y (g - sum g y)."""
        x, axis = values
        over = (axis % x.ndim,) if x.ndim else ()
        operands = {"x": row(x, over), "grad": row(grad, over)}

        def hypotheses() -> list[Hypothesis]:
            named = [setting("no-projection", projection=0.0), setting("clip=-64", clip=-64.0)]
            return precision(x.dtype, ("x", "grad")) + dropped(("x",), -math.inf) + named

        return Rows(tuple(x.shape), x.dtype, operands["x"].inner[0], operands, {}, hypotheses,
                         axes=over, formula=formulas.softmax_gradient, special=_swallowed)  # fmt: skip


class LayerNorm(RoundingModel):
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
        """See :func:`padiff_shim.numerics.formulas.layer_norm`."""
        x, scale, bias, epsilon, begin = values
        axes, count = self._rows(x, begin)
        operands = {"x": row(x, axes)}
        operands |= {name: shared(t) for name, t in (("weight", scale), ("bias", bias)) if t is not None}

        def hypotheses() -> list[Hypothesis]:
            named = [missing("weight", "no-weight"), missing("bias", "no-bias"), setting("bias-twice", beta=2.0)]
            more = Hypothesis("weight+1", False, lambda s: s.each(lambda w: w + 1, ["weight"]) if "weight" in s.arrays else None)
            return precision(x.dtype, ("x",), ("weight", "bias")) + self._variants(x.dtype, epsilon, count) + [*named, more]

        return Rows(tuple(x.shape), x.dtype, count, operands, {"epsilon": float(epsilon)}, hypotheses,
                         axes=axes, formula=formulas.layer_norm)  # fmt: skip

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """Of ``"x"`` by rows; of ``"scale"`` and ``"bias"`` as sums over all rows."""
        x, scale, bias, epsilon, begin = values
        axes, count = self._rows(x, begin)
        if name == "x":
            return self._input(x, scale, float(epsilon), grad, axes, count)
        target = scale if name == "scale" else bias
        if target is None:
            return None
        flat = _flat(grad, count)
        if name == "bias":
            return build(((count,), ("d",)), target.dtype, {"x": (flat, ("n", "d"))}, formulas.SUM,
                         named=lambda: precision(target.dtype, ("x",)) + dropped(("x",)), orders=sequential, sums=1,
                         coarse=True)  # fmt: skip
        return self._weight(_flat(x, count), target.dtype, float(epsilon), flat)

    def _input(
        self, x: torch.Tensor, scale: torch.Tensor | None, epsilon: float, grad: torch.Tensor, axes: tuple[int, ...], count: int
    ) -> Quantity:
        operands = {"x": row(x, axes), "grad": row(grad, axes)}
        if scale is not None:
            operands["weight"] = shared(scale)

        def hypotheses() -> list[Hypothesis]:
            named = [
                setting("no-mean-term", mean_term=0.0),
                setting("no-projection", projection=0.0),
                missing("weight", "no-weight"),
            ]
            return precision(x.dtype, ("x", "grad"), ("weight",)) + self._variants(x.dtype, epsilon, count) + named

        return Rows(tuple(x.shape), x.dtype, count, operands, {"epsilon": epsilon}, hypotheses,
                         axes=axes, formula=formulas.layer_norm_gradient)  # fmt: skip

    def _weight(self, x: torch.Tensor, dtype: torch.dtype, epsilon: float, grad: torch.Tensor) -> Quantity:
        labels = ("n", "d")
        quantity = build(((x.shape[1],), ("d",)), dtype, {"grad": (grad, labels), "x": (x, labels)}, formulas.NORMALISED,
                      attrs={"epsilon": epsilon, "count": x.shape[1], "largest": span(KINDS[x.dtype].unit)[1]},
                      sums=1, coarse=True)  # fmt: skip
        statistics = functools.cache(partial(_statistics, x))
        names = ("mean", "variance", "size")
        inner = (x.shape[0],) if x.shape[0] > 1 else ()  # as `build` lays out the others: a single row is no axis
        quantity.operands |= {name: Later(lambda name=name: statistics()[name], inner) for name in names}  # type: ignore[misc]
        quantity.k += x.shape[1]  # the rounding of the rows' own mean and variance comes on top
        quantity.named = lambda: (
            precision(dtype, ("grad", "x")) + dropped(("grad",)) + self._variants(x.dtype, epsilon, x.shape[1])
        )  # fmt: skip
        return quantity
