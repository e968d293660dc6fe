"""Elementwise functions: logarithms, trigonometry, rounding, choices between two tensors, special functions.

Where a function has a kink, the gradient is Torch's; Paddle 3 has the same at the limits of ``clip`` and in ``maximum``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from padiff_shim.numerics.ties import Kinks
from padiff_shim.table.op import Fault, Floats, Sample, c_op, each, function, op, operator, ranged

from ._declarations import ROUNDED, UNARY, alike, binary, unary
from ._faults import hidden_nan, over_squares, single, squares
from ._special_faults import DIGAMMA, GAMMAINC, GAMMAINCC, GAMMALN, QUANTILE, TRIGAMMA

log = unary(torch.log, within=(0.5, 2))
log2 = unary(torch.log2, within=(0.5, 2))
log10 = unary(torch.log10, within=(0.5, 2))
log1p = unary(torch.log1p, within=(-0.5, 2))
expm1 = unary(torch.expm1)
sin = unary(torch.sin)
cos = unary(torch.cos)
tan = unary(torch.tan, within=(-1, 1), copies_result=True)
asin = unary(torch.asin, within=(-0.9, 0.9))
acos = unary(torch.acos, within=(-0.9, 0.9))
atan = unary(torch.atan)
sinh = unary(torch.sinh)
cosh = unary(torch.cosh)
asinh = unary(torch.asinh)
acosh = unary(torch.acosh, within=(1.5, 3))
atanh = unary(torch.atanh, within=(-0.9, 0.9))
reciprocal = unary(torch.reciprocal, within=(0.5, 2))
erf = unary(torch.erf)
erfinv = unary(torch.erfinv, within=(-0.9, 0.9), faults=QUANTILE)
lgamma = unary(torch.lgamma, within=(0.5, 2))
gammaln = unary(torch.lgamma, name="gammaln", within=(0.5, 2), faults=GAMMALN)
digamma = unary(
    torch.digamma,
    within=(0.5, 2),
    deviations={"gradient float64": "Torch's trigamma is good to nine digits, Paddle's to all"},
    faults=DIGAMMA,
)
i0 = unary(torch.special.i0, name="i0")
i0e = unary(torch.special.i0e, name="i0e")


def _check_gradient(x: torch.Tensor) -> None:
    """Torch lacks it in 16 bits on a CPU, and a backward would be the first to say so."""
    if x.requires_grad and x.dtype in (torch.float16, torch.bfloat16):
        raise NotImplementedError("its gradient in 16 bits")


def _i1(x: torch.Tensor) -> torch.Tensor:
    _check_gradient(x)
    return torch.special.i1(x)


def _i1e(x: torch.Tensor) -> torch.Tensor:
    _check_gradient(x)
    return torch.special.i1e(x)


i1 = unary(_i1, name="i1")
i1e = unary(_i1e, name="i1e")
angle = unary(torch.angle, inplace=False)


def _sign(x: torch.Tensor) -> torch.Tensor:
    """The sign of NaN is NaN; Torch's is 0."""
    return torch.where(x.isnan(), x, torch.sign(x))


abs_ = unary(torch.abs, exact=True, ties=Kinks())
sign = unary(torch.sign, legacy=False, exact=True, steps=True, oracle=_sign, faults={"nan->0": Fault(lambda own, x: torch.sign(x))})
floor = unary(torch.floor, exact=True, steps=True)
ceil = unary(torch.ceil, exact=True, steps=True)
trunc = unary(torch.trunc, exact=True, steps=True)
rint = unary(torch.round, name="rint", exact=True, steps=True, ties=Kinks(steps=True))


@op(
    "x|input decimals=0",
    name="round",
    inplace=True,
    legacy="round: x",
    samples=UNARY,
    elementwise=True,
    steps=True,
    ties=Kinks(steps=True, reach=4),
)
def round_(x: torch.Tensor, decimals: int) -> torch.Tensor:
    """``torch.round``."""
    return torch.round(x) if decimals == 0 else torch.round(x, decimals=decimals)


_EITHER: dict[str, Any] = {"inplace": False, "exact": True, "ties": Kinks(together=True)}
_TIES = "of two equal elements y has the whole gradient up to Paddle 3.0; as in torch, 3.1 halves it"
maximum = binary(torch.maximum, legacy="elementwise_max", note=_TIES, **_EITHER)
minimum = binary(torch.minimum, legacy="elementwise_min", note=_TIES, **_EITHER)
fmax = binary(torch.fmax, legacy="elementwise_fmax", **_EITHER)
fmin = binary(torch.fmin, legacy="elementwise_fmin", **_EITHER)
copysign = binary(torch.copysign, legacy="copysign: x y", exact=True, copies_result=True, ties=Kinks())
_QUOTIENT: dict[str, Any] = {"steps": True, "ties": Kinks(steps=True, reach=4)}  # of the quotient that was rounded
remainder = binary(
    torch.remainder, legacy="elementwise_mod", within=(0.5, 2), more_entries=(operator("mod"), operator("rmod", "y x")), **_QUOTIENT
)


def _quotient(x: torch.Tensor, y: torch.Tensor, rounding: str) -> torch.Tensor:
    """``torch.div`` with a rounding mode, which Paddle has no gradient of."""
    x, y = (operand.detach() if isinstance(operand, torch.Tensor) else operand for operand in (x, y))
    return torch.div(x if isinstance(x, torch.Tensor) else torch.full_like(y, x), y, rounding_mode=rounding)


def _axes_by_number(native: Callable[..., Any], tensor: Callable[..., Any]) -> int:
    """How many axes the quotient of a tensor without any and a number has, where the entry takes numbers: 1, in Paddle 2.6 none."""
    try:
        return len(native(tensor(3.0), 2).shape)
    except (TypeError, ValueError):
        return 0


def _floor(x: torch.Tensor, y: torch.Tensor, axes_by_number: int) -> torch.Tensor:
    """``torch.floor_divide``."""
    quotient = _quotient(x, y, "floor")
    both = isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)
    return quotient if quotient.ndim or both else quotient.reshape([1] * axes_by_number)


def _trunc(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``torch.div`` towards 0."""
    return _quotient(x, y, "trunc")


floor_divide = binary(
    _floor,
    name="floor_divide",
    params="x|input y|other axes_by_number=0",
    c=False,
    more_entries=(c_op("floor_divide", "x|input y|other"),),
    probes={"axes_by_number": _axes_by_number},
    legacy="elementwise_floordiv",
    symbols=("floordiv",),
    within=(0.5, 4),
    **_QUOTIENT,
)
trunc_divide = binary(_trunc, name="trunc_divide", legacy="trunc_divide: x y", within=(0.5, 4), **_QUOTIENT)


def _upper(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``torch.special.gammaincc``: neither framework has a gradient of the first operand, and Paddle's does not broadcast."""
    if x.shape != y.shape:
        raise NotImplementedError("operands of different shapes")
    return torch.special.gammaincc(x.detach(), y)


def _lower(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``torch.special.gammainc``."""
    if x.shape != y.shape:
        raise NotImplementedError("operands of different shapes")
    return torch.special.gammainc(x.detach(), y)


_ALIKE: dict[str, Any] = {
    "params": "x y",
    "samples": (Sample((3, 4), (3, 4)), Sample((5,), (5,))),
    "within": (0.5, 2),
    "elementwise": False,
}
gammaincc = binary(_upper, name="gammaincc", legacy="gammaincc: x y", faults=GAMMAINCC, **_ALIKE)
gammainc = binary(
    _lower, name="gammainc", c=False, inplace=False, more_entries=(function("paddle.gammainc", "x y"),), faults=GAMMAINC, **_ALIKE
)
logaddexp = binary(torch.logaddexp, c=False, inplace=False, more_entries=(function("paddle.logaddexp", "x y"),))
hypot = binary(
    torch.hypot,
    c=False,
    inplace=False,
    more_entries=(function("paddle.hypot", "x y", mixed_below=True),),
    promote="alike",  # natively each operand is squared in its own dtype
    faults={"squares": Fault(squares, precision=True)},
)


@op(
    "x|input y|other",
    legacy=True,
    samples=(Sample((3, 4), (3, 4)), Sample((), ())),
    elementwise=True,
    faults={"squares": Fault(over_squares, precision=True)},
)
def atan2(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``torch.atan2``; Paddle's does not broadcast."""
    if x.shape != y.shape:
        raise NotImplementedError("operands of different shapes")
    return torch.atan2(x, y)


@op(
    "x y weight",
    inplace=True,
    legacy=True,
    samples=(
        Sample((3, 4), (3, 4), (3, 4)),
        Sample((3, 4), (4,), ()),
        Sample((3, 4), (3, 4), Floats((), 0, 1)),
        Sample((2, 3, 4), (3, 1), (4,)),
    ),
)
def lerp(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """``torch.lerp``; Paddle's has no gradient of the weight."""
    return torch.lerp(x, y, weight.detach())


def _within_rounded(own: Any, x: torch.Tensor, eps: float) -> torch.Tensor:
    """Of an x between an eps and a 1 - eps that were computed in float32."""
    return own(x.clamp(single(eps), single(1 - single(eps))) if eps else x, 0.0)


@op(
    "x|input eps=0.0",
    inplace=True,
    legacy=True,
    samples=ranged(each(UNARY, eps=(0.0, 1e-6, 0.2)), 0.05, 0.95),
    elementwise=True,
    deviations=ROUNDED,
    faults={"1-eps->float32": Fault(_within_rounded, precision=True)},
)
def logit(x: torch.Tensor, eps: float) -> torch.Tensor:
    """``torch.logit``; eps=0 is Torch's None."""
    return torch.logit(x, eps or None)


@op(
    "x|input min max",
    inplace=True,
    legacy="clip: x min=0.0 max=0.0",
    samples=each(UNARY, min=(-0.5,), max=(0.5, float("inf"))),
    elementwise=True,
    exact=True,
    ties=Kinks(),
    note="where x is a limit itself Paddle has no gradient up to 3.0; as in torch, 3.1 passes it on",
    deviations=ROUNDED,
)
def clip(x: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """``torch.clamp``."""
    return torch.clamp(x, _limit(low, x.dtype), _limit(high, x.dtype))


def _limit(value: float, dtype: torch.dtype) -> float:
    """A limit that the dtype can hold: one that is not given is the last number of float32, also in bfloat16."""
    beyond = dtype.is_floating_point and abs(value) > torch.finfo(dtype).max
    return math.copysign(math.inf, value) if beyond else value


@op(
    "x n",
    inplace=True,
    legacy=True,
    samples=ranged(each(UNARY[:3], n=(1, 3)), 0.5, 2),
    elementwise=True,
    deviations=ROUNDED,
    faults=TRIGAMMA,
)
def polygamma(x: torch.Tensor, n: int) -> torch.Tensor:
    """``torch.polygamma``."""
    if n == 0:
        raise NotImplementedError("n=0")
    return torch.polygamma(n, x)


nan_to_num = op(
    "x nan=0.0 posinf=None neginf=None",
    python="paddle.nan_to_num",
    samples=(*UNARY, Sample((3, 4), nan=1.0, posinf=2.0, neginf=-2.0)),
    elementwise=True,
    exact=True,
)(torch.nan_to_num)


@op(
    "inputs",
    amp="sum",
    operands=True,
    samples=(Sample((3, 4), (3, 4)), Sample((3, 4), (3, 4), (3, 4)), Sample((3,)), Sample((), ())),
)
def add_n(inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The first tensor plus the second, plus the third, and so on."""
    if len(inputs) == 1:
        return inputs[0].clone()
    alike(*inputs)
    return functools.reduce(torch.add, inputs)


sinc = op("x", python="paddle.sinc", samples=UNARY, elementwise=True, faults={"nan->1": Fault(hidden_nan)})(torch.sinc)

multigammaln = op(
    "x p",
    name="multigammaln",
    promote="same",
    python="paddle.multigammaln",
    samples=ranged(each((Sample((3, 4)), Sample((2, 3, 4))), p=(1, 3)), 1.5, 3),
    elementwise=True,
    deviations=ROUNDED,
)(torch.special.multigammaln)

polar = op("x|abs y|angle", tensors=2, promote="same", complex=True, python="paddle.polar")(torch.polar)
