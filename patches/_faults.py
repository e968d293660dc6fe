"""Known faults of kernels: formulas for ``op(faults=...)``, each of the op's own formula and its parameters."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from padiff_shim.table.op import Fault

from ._declarations import axes, reduced

LOWEST = -64.0  # Paddle's CPU softmax: exp(max(x - max, -64))


def single(number: float) -> float:
    """A number as float32 holds it."""
    return float(np.float32(number))


class _Lifted(torch.autograd.Function):
    """The larger one of a tensor and its lower bounds; the gradient passes as if it were the tensor itself, also at -inf."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
        return torch.where(x < low, low, x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None


def clip(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Logits as Paddle's softmax sees them. The gradient passes as if they were as they are."""
    lifted: torch.Tensor = _Lifted.apply(x, x.detach().amax(axis, keepdim=True) + LOWEST)
    return lifted


def clipped(axis: Callable[..., int]) -> dict[str, Fault]:
    """The first operand clipped along the axis that ``axis`` reads from the other arguments."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> Any:
        return own(clip(x, axis(*rest)), *rest)

    return {"clip=-64": Fault(formula)}


class _Severed(torch.autograd.Function):
    """A tensor whose gradient is taken for a constant: it has no second derivative."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.detach()


def severed(place: int) -> dict[str, Fault]:
    """The gradient of the operand at ``place`` does not depend on what it is the gradient of."""

    def formula(own: Callable[..., Any], *arguments: Any) -> Any:
        return own(*arguments[:place], _Severed.apply(arguments[place]), *arguments[place + 1 :])

    return {"no-second-derivative": Fault(formula)}


def smoothed(share: Callable[..., Any]) -> dict[str, Fault]:
    """Labels smoothed by shares that were computed in float32; ``share`` puts them into the op's arguments."""
    return {"1-epsilon->float32": Fault(share, precision=True)}


def _labels(own: Callable[..., Any], label: torch.Tensor, prior: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    epsilon = single(epsilon)
    scaled = single(1.0 - epsilon) * label
    return scaled + (single(epsilon / label.shape[-1]) if prior is None else epsilon * prior.detach())


def _shares(own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, weight: Any, ignored: int, *rest: Any) -> torch.Tensor:
    """``cross_entropy`` with smoothed labels, as shares of the classes that Paddle makes beforehand, in float32."""
    reduction, soft, axis, use_softmax, smoothing, counts_all = rest
    if soft or not smoothing:
        raise NotImplementedError("labels that are smoothed")
    at = label.squeeze(axis) if label.ndim == x.ndim else label
    chosen = F.one_hot(at, x.shape[axis]).movedim(-1, axis).bool()
    own_share, other_share = single(1.0 - single(smoothing)), single(smoothing / x.shape[axis])
    shares = torch.where(chosen, torch.full_like(x, single(own_share + other_share)), torch.full_like(x, other_share)).detach()
    arguments = (shares, weight, ignored, reduction, True, axis, use_softmax, 0.0, counts_all)
    value = own(x, *arguments)
    if weight is not None or not use_softmax:
        return value
    taken = shares_of_one(own, x, *arguments)  # rounded shares do not sum to one, and Paddle's gradient takes it that they do
    return value.detach() + (taken - taken.detach())


SMOOTHED, SMOOTHED_LABELS = smoothed(_labels), smoothed(_shares)


def slope(own: Callable[..., Any], x: torch.Tensor, lower: float, upper: float, is_test: bool) -> torch.Tensor:
    """``rrelu`` in evaluation, with its mean slope in float32."""
    return F.leaky_relu(x, single((single(lower) + single(upper)) / 2))


def shares_of_one(own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, *rest: Any) -> torch.Tensor:
    """``cross_entropy`` of shares whose gradient is softmax(x) - label, whatever they sum to."""
    weight, _, reduction, soft, axis, use_softmax, smoothing, _ = rest
    if not soft or smoothing or weight is not None or not use_softmax:
        raise NotImplementedError("shares alone")
    values = x.logsumexp(axis) - (label * x).sum(axis)
    return reduced(values.unsqueeze(axis), reduction)


def sloped(value: torch.Tensor, slope: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A value with a gradient of its own."""
    return value.detach() + (slope.detach() * (x - x.detach()) if x.requires_grad else 0.0)


def singles(numbers: torch.Tensor) -> torch.Tensor:
    """Each of them as float32 holds it."""
    values = numbers.detach().cpu().numpy().astype(np.float32)
    return torch.from_numpy(values.astype(np.float64)).to(numbers)


def _elu(own: Callable[..., Any], x: torch.Tensor, alpha: float) -> torch.Tensor:
    """``elu`` without expm1, whose gradient is the result plus alpha: small numbers lose their digits, and small slopes."""
    branch = alpha * (torch.exp(x.detach()) - 1)
    return sloped(torch.where(x < 0, branch, x), torch.where(x > 0, torch.ones_like(x), branch + alpha), x)


def _celu(own: Callable[..., Any], x: torch.Tensor, alpha: float) -> torch.Tensor:
    """The same of ``celu``, whose gradient times its exponential is multiplied by 0 where it is not the branch that is taken."""
    lies = x.detach()
    power = torch.exp(lies / alpha)
    value = torch.where(lies < 0, alpha * (power - 1), lies)
    above, below = ((x - lies) * branch.to(x.dtype) for branch in (lies > 0, lies <= 0))
    return value + above + power * below if x.requires_grad else value


def _selu(own: Callable[..., Any], x: torch.Tensor, scale: float, alpha: float) -> torch.Tensor:
    """The same of ``selu``."""
    branch, both = scale * (alpha * torch.exp(x.detach()) - alpha), scale * alpha
    if single(scale) == scale and single(alpha) == alpha:  # the kernel holds them in float32, and their product
        both = single(both)
    return sloped(torch.where(x <= 0, branch, scale * x), torch.where(x <= 0, branch + both, torch.full_like(x, scale)), x)


def _logsigmoid(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """``logsigmoid`` without log1p."""
    largest = (-x).clamp_min(0.0)
    return -largest - torch.log(torch.exp(-largest) + torch.exp(-x - largest))


def _mish(own: Callable[..., Any], x: torch.Tensor, threshold: float) -> torch.Tensor:
    """``mish`` without log1p and expm1."""
    lies = x.detach()
    plus = torch.where(lies > threshold, lies, torch.log(1 + torch.exp(lies.clamp_max(threshold))))
    gate = torch.tanh(plus)
    return sloped(lies * gate, lies * (1 - gate * gate) * (1 - torch.exp(-plus)) + gate, x)


def _silu(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """``silu`` with the gradient (1 + x e / (1 + e)) / (1 + e), of which e = exp(-x) overflows."""
    power = torch.exp(-x.detach())
    return sloped(own(x), 1 / (1 + power) * (1 + x.detach() * power / (1 + power)), x)


def log_of_one_plus(own: Callable[..., Any], x: torch.Tensor, beta: float, threshold: float) -> torch.Tensor:
    """``softplus`` without log1p, which loses the digits of small results."""
    return torch.where(x * beta > threshold, x, (1 + (x * beta).exp()).log() / beta)


def held_mean(
    own: Callable[..., Any],
    x: torch.Tensor,
    scale: Any,
    bias: Any,
    epsilon: float,
    groups: int,
    data_format: str,
    *,
    once: bool = False,
) -> torch.Tensor:
    """``group_norm`` without a weight, of whose mean the gradient takes no notice; ``once``: with the rounding of one pass."""
    if scale is not None or (data_format[-1] == "C" and x.ndim > 2):
        raise NotImplementedError("without a weight, channels first")
    parts = x.reshape(x.shape[0], groups, -1)
    centred = parts - parts.detach().mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    if once:
        variance = variance + (_in_one_pass(parts) - variance).detach()
    normed = (centred * (variance + epsilon).rsqrt()).reshape(x.shape)
    return normed if bias is None else normed + bias.view(-1, *[1] * (x.ndim - 2))


def elementwise(own: Callable[..., Any], weight: torch.Tensor, u: Any, v: Any, dim: int, *rest: Any) -> torch.Tensor:
    """``spectral_norm`` whose gradient takes the sum of the weight for that of its product with the incoming gradient."""
    lies = weight.detach()
    rows = lies.movedim(dim, 0)
    left, right = factors(rows.flatten(1), u.detach(), v.detach(), *rest)
    sigma = torch.dot(left, torch.mv(rows.flatten(1), right))
    share = torch.outer(left, right).reshape(rows.shape).movedim(0, dim) * lies.sum() / sigma
    return sloped(own(lies, u, v, dim, *rest), (1 - share) / sigma, weight)


def factors(matrix: torch.Tensor, u: torch.Tensor, v: torch.Tensor, steps: int, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two singular vectors after so many steps of the power method from ``u`` and ``v``."""
    for _ in range(steps):
        v = torch.mv(matrix.t(), u)
        v = v / (v.norm() + eps)
        u = torch.mv(matrix, v)
        u = u / (u.norm() + eps)
    return u, v


def quotients(own: Callable[..., Any], x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``prod`` whose gradient divides the product by each element: NaN where that is 0."""
    lies, over = x.detach(), axes(None if reduce_all else axis, x.ndim)
    shares = own(lies, axis, True, reduce_all) / lies * (x - lies)
    return own(lies, axis, keepdim, reduce_all) + (shares.sum(over, keepdim) if over else shares)


def unguarded(own: Callable[..., Any], x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``logsumexp`` that subtracts an infinite maximum as any other, which makes NaN."""
    top = x.detach().amax(axes(None if reduce_all else axis, x.ndim), keepdim=True)
    return own(x + 0.0 * top, axis, keepdim, reduce_all)


def _in_one_pass(parts: torch.Tensor) -> torch.Tensor:
    """The variance along the last axis: the mean of the squares less the square of the mean."""
    return (parts * parts).mean(-1, keepdim=True) - parts.mean(-1, keepdim=True).square()


def one_pass(
    own: Callable[..., Any], x: torch.Tensor, scale: Any, bias: Any, epsilon: float, groups: int, form: str
) -> torch.Tensor:
    """``group_norm`` with the variance as the mean of the squares less the square of the mean."""
    last = form[-1] == "C" and x.ndim > 2
    first = x.movedim(-1, 1) if last else x
    parts = first.reshape(first.shape[0], groups, -1)
    normed = ((parts - parts.mean(-1, keepdim=True)) * (_in_one_pass(parts) + epsilon).rsqrt()).reshape(first.shape)
    sides = [-1, *[1] * (first.ndim - 2)]
    normed = normed if scale is None else normed * scale.view(sides)
    normed = normed if bias is None else normed + bias.view(sides)
    return normed.movedim(1, -1) if last else normed


def logits_at_zero(positives: int) -> dict[str, Fault]:
    """Binary cross entropies of logits, whose slope at a logit of 0 is too small by 1. ``positives``: where their weights are."""

    def formula(own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, *rest: Any) -> torch.Tensor:
        if rest[positives] is not None:
            raise NotImplementedError("without weights of positives")
        at = torch.where(x == 0, x, x.detach())
        change = own(at, label + 1, *rest) - own(at, label, *rest)  # -x for each logit, weighed as its loss is
        return own(x, label, *rest) + (change - change.detach())

    return {"slope-at-0": Fault(formula)}


def logarithm_of_difference(own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, *rest: Any) -> torch.Tensor:
    """Binary cross entropies by log(1 - x), without log1p."""
    label = label.detach()
    values = -(label * torch.log(x).clamp_min(-100.0) + (1 - label) * torch.log(1 - x).clamp_min(-100.0))
    weight, reduction = rest or (None, "none")
    values = values if weight is None else values * weight
    return reduced(values, reduction)


def logarithm_of_sum(own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, reduction: str) -> torch.Tensor:
    """``soft_margin_loss`` by log(1 + exp(-x y)), without log1p, whose exponential overflows."""
    values = torch.log(1 + torch.exp(-label.to(x.dtype) * x))
    return reduced(values, reduction)


def label_taken_off(
    own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, weight: Any, p: int, margin: float, reduction: str
) -> torch.Tensor:
    """``multi_margin_loss`` as the mean over all classes, less the label's own part: of small losses the digits are lost."""
    label = label.reshape(-1, 1)
    share = torch.ones_like(x[:, :1]) if weight is None else weight.detach()[label]
    part = single(margin**p / x.shape[1])  # of a tensor with the number of classes
    values = (share * (margin - x.gather(1, label) + x).clamp_min(0.0) ** p).mean(1) - (share * part).squeeze(1)
    return reduced(values, reduction)


def bounded_together(own: Callable[..., Any], x: torch.Tensor, y: torch.Tensor, axis: int, eps: float) -> torch.Tensor:
    """``cosine_similarity`` over the root of the product of both sums of squares, between the square of eps and float32's range."""
    product, both = (x * y).sum(axis), (x * x).sum(axis) * (y * y).sum(axis)
    return product / both.clamp(eps * eps, torch.finfo(torch.float32).max).sqrt()


def half_centred(own: Callable[..., Any], x: torch.Tensor, rowvar: bool, ddof: bool = True, *weights: Any) -> torch.Tensor:
    """``cov`` as the product of the centred rows with the rows as they are."""
    if any(weight is not None for weight in weights):
        raise NotImplementedError("without weights")
    rows = x.reshape(1, -1) if x.ndim < 2 else x if rowvar or x.shape[0] == 1 else x.mT
    count = rows.shape[1]
    centred = rows - (rows.sum(1) / count).unsqueeze(1)
    return (centred @ rows.mT / max(count - int(ddof), 0)).squeeze()


def correlation(own: Callable[..., Any], x: torch.Tensor, rowvar: bool) -> torch.Tensor:
    """``corrcoef`` of that."""
    covariance = half_centred(own, x, rowvar)
    if not covariance.ndim:
        return covariance / covariance
    deviations = covariance.diagonal().sqrt()
    return (covariance / deviations[:, None] / deviations[None, :]).clamp(-1, 1)


def squares(own: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``hypot`` by unscaled squares."""
    return (x * x + y * y).sqrt()


def over_squares(own: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``atan2`` whose gradients divide by the sum of unscaled squares."""
    length = x.detach() ** 2 + y.detach() ** 2
    return own(x.detach(), y.detach()) + y.detach() / length * (x - x.detach()) - x.detach() / length * (y - y.detach())


def hidden_nan(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """``sinc`` by a quotient that stands for 1 where it is NaN."""
    at = torch.where(x != 0, x, 1e-20) * math.pi
    quotient = torch.sin(at) / at
    return torch.where(quotient.isnan(), torch.ones_like(quotient), quotient)


def sixth(own: Callable[..., Any], x: torch.Tensor, slope: float, offset: float) -> torch.Tensor:
    """``hardsigmoid`` whose gradient is 1/6 in float32."""
    if (slope, offset) != (0.1666667, 0.5):
        raise NotImplementedError("Torch's own slope")
    lies = x.detach()
    return sloped(own(lies, slope, offset), single(1 / 6) * (lies.abs() < 3), x)


def whole_to_each(axis: Callable[..., Any]) -> dict[str, Fault]:
    """Extrema whose gradient goes to each of equal elements whole. ``axis``: reads the axes from the op's arguments."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> torch.Tensor:
        over = axes(axis(x, *rest), x.ndim)
        lies = x.detach()
        value = own(lies, *rest)
        largest = value.reshape([1 if place in over else size for place, size in enumerate(x.shape)])
        return value + ((lies == largest) * (x - lies)).sum(over).reshape(value.shape)

    return {"whole-to-each": Fault(formula)}


ELU, CELU, SELU = ({"exp(x)-1": Fault(formula, precision=True, narrow=True)} for formula in (_elu, _celu, _selu))
GROUP_NORM = {
    "mean-held": Fault(held_mean),
    "one-pass-variance": Fault(one_pass, precision=True),
    "mean-held+one-pass-variance": Fault(functools.partial(held_mean, once=True)),
}
MISH = {"log(1+exp(x))": Fault(_mish, precision=True)}
LOGSIGMOID, SILU = {"log(exp+exp)": Fault(_logsigmoid, precision=True)}, {"exp(-x)": Fault(_silu, precision=True)}
