"""Activation functions, as layers of a network use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.numerics import models
from padiff_shim.numerics.ties import Kinks, Selected
from padiff_shim.table.op import Fault, KernelLimits, Op, Sample, each, function, op

from ._declarations import ROUNDED, UNARY, alike, unary, with_axes
from ._faults import CELU, ELU, LOGSIGMOID, MISH, SELU, SILU, clip, clipped, log_of_one_plus, sixth, slope

_KINK, _COMPUTED = Kinks(), Kinks(reach=4)
relu = unary(torch.relu, model=models.RELU, ties=_KINK)
tanh = unary(torch.tanh, model=models.TANH)
sigmoid = unary(torch.sigmoid)
logsigmoid = unary(F.logsigmoid, name="logsigmoid", faults=LOGSIGMOID)
silu = unary(F.silu, faults=SILU)
swish = unary(F.silu, name="swish", inplace=False, faults=SILU)
relu6 = unary(F.relu6, inplace=False, ties=_KINK)
softsign = unary(F.softsign, inplace=False)
hardswish = unary(F.hardswish, inplace=False, legacy="hard_swish: x", ties=_COMPUTED)
tanh_shrink = unary(F.tanhshrink, name="tanh_shrink", inplace=False)


_ROWS = (Sample((3, 4)), Sample((2, 3, 4), axis=1), Sample((5,), axis=0), Sample((2, 0, 4)))

softmax = op(
    "x|input axis|dim=-1",
    inplace=True,
    legacy=True,
    model=models.Softmax(),
    samples=_ROWS,
    refusals=(Sample((3, 4), axis=7),),
)(torch.softmax)


@op(
    "x mask",
    legacy=True,
    faults={"clip=-64": Fault(lambda own, x, mask: torch.softmax(clip(x + mask.detach(), -1), -1))},
)
def fused_softmax_mask(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """``torch.softmax`` of the sum; the mask has no gradient."""
    return torch.softmax(x + mask.detach(), -1)


@op("x|input approximate=False", inplace=True, legacy=True, model=models.Gelu(), samples=each(UNARY, approximate=(False, True)))
def gelu(x: torch.Tensor, approximate: bool | str) -> torch.Tensor:
    """``torch.nn.functional.gelu``, exact (erf) or by tanh."""
    form = approximate if isinstance(approximate, str) else ("tanh" if approximate else "none")
    return F.gelu(x, approximate=form)


def curve(params: str, *values: Any, legacy: Any = True, **options: Any) -> Callable[..., Op]:
    """A decorator: an activation of one tensor and numbers. ``values``: the numbers with which it is tried, in their order."""
    names = [word.partition("=")[0].partition("|")[0] for word in params.split()[1:]]
    samples = tuple(sample.also(**dict(zip(names, numbers))) for sample in UNARY for numbers in values)
    return op(params, legacy=legacy, samples=samples, elementwise=True, **options)


elu = curve("x alpha=1.0", (1.0,), (0.25,), inplace=True, deviations=ROUNDED, faults=ELU, ties=_KINK)(F.elu)
celu = curve("x alpha=1.0", (1.0,), (0.25,), deviations=ROUNDED, faults=CELU)(F.celu)


@curve(
    "x scale=1.0507009873554805 alpha=1.6732632423543772",
    (1.0507009873554805, 1.6732632423543772),
    (1.5, 0.25),
    deviations=ROUNDED,
    ties=_KINK,
    faults=SELU,
)
def selu(x: torch.Tensor, scale: float, alpha: float) -> torch.Tensor:
    """``torch.selu``, of which Torch knows only the one scale and alpha, by the kernel that it calls."""
    return torch.ops.aten.elu(x, alpha, scale)


hardshrink = curve(
    "x|input threshold|lambd=0.5",
    (0.5,),
    (0.0,),
    legacy="hard_shrink: x threshold=0.5",
    deviations=ROUNDED,
    steps=True,
    ties=Kinks(steps=True),
    note="the gradient at the threshold itself is Torch's, 0; Paddle 3's is 1",
)(F.hardshrink)

softshrink = curve(
    "x|input threshold|lambd=0.5", (0.5,), (0.0,), legacy="softshrink: x threshold|lambda=0.5", deviations=ROUNDED, ties=_KINK
)(F.softshrink)

hardtanh = curve(
    "x t_min=0.0 t_max=24.0",
    (-1.0, 1.0),
    (0.0, 0.5),
    inplace=True,
    legacy="brelu: x t_min=0.0 t_max=24.0",
    deviations=ROUNDED,
    ties=_KINK,
)(F.hardtanh)


@curve(
    "x slope=0.2 offset=0.5",
    (0.1666667, 0.5),
    (0.2, 0.4),
    legacy="hard_sigmoid: x slope=0.2 offset=0.5",
    note="Paddle spells 1/6 as 0.1666667",
    deviations=ROUNDED,
    faults={"1/6->float32": Fault(sixth, precision=True)},
    ties=_COMPUTED,
)
def hardsigmoid(x: torch.Tensor, slope: float, offset: float) -> torch.Tensor:
    """``torch.nn.functional.hardsigmoid`` for Paddle's default, which spells 1/6 as 0.1666667."""
    return F.hardsigmoid(x) if (slope, offset) == (0.1666667, 0.5) else F.hardtanh(x * slope + offset, 0.0, 1.0)


leaky_relu = curve(
    "x negative_slope=0.02",
    (0.01,),
    (0.3,),
    inplace=True,
    legacy="leaky_relu: x negative_slope|alpha=0.02",
    deviations=ROUNDED,
    ties=_KINK,
    note="the gradient at 0 is Torch's, the slope; Paddle's own is 1",
)(F.leaky_relu)

softplus = curve(
    "x|input beta=1.0 threshold=20.0",
    (1.0, 20.0),
    (2.0, 1.5),
    note="Paddle computes log(1 + exp(x)), so that small results have few digits, and none below 6e-8 in float32",
    faults={"log(1+exp(x))": Fault(log_of_one_plus, precision=True, narrow=True)},
)(F.softplus)


@curve("x threshold|lambda=20.0", (20.0,), legacy="mish: x threshold|lambda=20.0", faults=MISH)
def mish(x: torch.Tensor, threshold: float) -> torch.Tensor:
    """``torch.nn.functional.mish``; beyond Paddle's threshold both are x."""
    if not threshold >= 20:
        raise NotImplementedError("x itself from a lower threshold on")
    return F.mish(x)


thresholded_relu = curve(
    "x threshold=1.0 value=0.0",
    (1.0, 0.0),
    (0.0, 0.0),
    inplace=True,
    deviations=ROUNDED,
    steps=True,
    ties=Kinks(steps=True),
    name="thresholded_relu",
)(F.threshold)


@curve("x scale_a=0.67 scale_b=1.7159", (0.67, 1.7159), (2.0, 0.5), deviations=ROUNDED)
def stanh(x: torch.Tensor, inner: float, outer: float) -> torch.Tensor:
    """A scaled tanh, which Torch does not have as one function."""
    return outer * torch.tanh(inner * x)


@op(
    "x lower=0.125 upper=0.3333333333333333 is_test=False",
    samples=each(UNARY, is_test=(True,)),
    elementwise=True,
    random=lambda x, lower, upper, is_test: not is_test,
    deviations=ROUNDED,
    faults={"slope->float32": Fault(slope, precision=True)},
    ties=_KINK,
)
def rrelu(x: torch.Tensor, lower: float, upper: float, is_test: bool) -> torch.Tensor:
    """``torch.nn.functional.rrelu``, whose slopes are random in training."""
    return F.rrelu(x, lower, upper, not is_test)


log_softmax = op("x|input axis|dim=-1", legacy=True, samples=_ROWS, faults=clipped(lambda axis: axis))(torch.log_softmax)

glu = op(
    "x axis=-1",
    c=False,
    promote="same",
    more_entries=(function("paddle.nn.functional.glu", "x|input axis|dim=-1"),),
    samples=(Sample((3, 4)), Sample((2, 4, 3), axis=1), Sample((4,), axis=0)),
)(F.glu)


@op("x y=None", promote="same", samples=(Sample((3, 4)), Sample((2, 3, 4), (2, 3, 4)), Sample((3, 4), (3, 4))))
def swiglu(x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
    """silu(x) * y; without y the two halves of x."""
    if y is None:
        x, y = x.chunk(2, -1)
    alike(x, y)
    return F.silu(x) * y


@op(
    "x groups axis=1",
    legacy=True,
    promote="same",
    samples=(Sample((2, 4, 3, 3), groups=2), Sample((2, 3, 3, 4), groups=4, axis=3)),
    refusals=(Sample((2, 4, 3), groups=2),),
    ties=Selected(lambda x, groups, axis: _grouped(x, groups, axis).movedim(axis % x.ndim + 1, -1)),
)
def maxout(x: torch.Tensor, groups: int, axis: int) -> torch.Tensor:
    """The largest of each group of channels."""
    if x.ndim != 4:
        raise NotImplementedError("not four axes")
    return _grouped(x, groups, axis).max(axis % x.ndim + 1).values


def _grouped(x: torch.Tensor, groups: int, axis: int) -> torch.Tensor:
    """The axis in front, and each of its groups along one behind it."""
    return x.unflatten(axis, (x.shape[axis] // groups, groups))


@op(
    'x weight|alpha data_format="NCHW" mode="all"',
    legacy='prelu: x weight data_format="NCHW" mode="all"',
    limits=KernelLimits(wanting=0),
    samples=(
        Sample((2, 3, 4), (1,)),
        Sample((2, 3, 4), (3,), mode="channel"),
        Sample((2, 4, 3), (3,), data_format="NHWC", mode="channel"),
        Sample((2, 3, 4), (1, 3, 4), mode="element"),
    ),
    ties=_KINK,
)
def prelu(x: torch.Tensor, weight: torch.Tensor, data_format: str, mode: str) -> torch.Tensor:
    """``torch.nn.functional.prelu``; one slope for all, for each channel, or for each element of an example."""
    if mode != "all":
        with_axes(x)
    if mode == "element":
        return torch.where(x > 0, x, weight.reshape(1, *x.shape[1:]) * x)
    last = mode == "channel" and data_format == "NHWC"
    return F.prelu(x.movedim(-1, 1), weight).movedim(1, -1) if last else F.prelu(x, weight.reshape(-1))
