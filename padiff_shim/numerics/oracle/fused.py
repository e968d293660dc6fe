"""Fused kernels in steps, where Torch's own decomposition of them first loads its symbolic shapes: half a second and more.

That is what its checks of arguments and its promotion of dtypes begin with. Here the kernel itself has checked the arguments
before, and all tensors are float64 or complex128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_REDUCED: list[Callable[[Tensor], Tensor]] = [lambda terms: terms, torch.mean, torch.sum]  # by the number of the reduction


def _exponentials(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """x less its largest, and the exponentials of that."""
    shifted = x - x.amax(dim, keepdim=True) if x.numel() else x
    return shifted, shifted.exp()


def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Exponentials over their sum."""
    powers = _exponentials(x, dim)[1]
    return powers / powers.sum(dim, keepdim=True)


def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Its logarithm."""
    shifted, powers = _exponentials(x, dim)
    return shifted - powers.sum(dim, keepdim=True).log()


def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """Linear above 0, a power of e below."""
    above = x if scale == 1 else x * scale
    return torch.where(x > 0, above, torch.expm1(x * input_scale if input_scale != 1 else x) * (alpha * scale))


def selu(x: Tensor) -> Tensor:
    """elu with the constants of Klambauer and others."""
    return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def glu(x: Tensor, dim: int = -1) -> Tensor:
    """One half gated by the other."""
    first, second = x.tensor_split(2, dim)
    return first * second.sigmoid()


def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """Nearer to 0 by lambda."""
    return torch.where(x.abs() > lambd, x - x.sign() * lambd, x * 0)


def addcdiv(x: Tensor, first: Tensor, second: Tensor, *, value: float = 1) -> Tensor:
    """x + value first / second"""
    return x + (first if value == 1 else value * first) / second


def addcmul(x: Tensor, first: Tensor, second: Tensor, *, value: float = 1) -> Tensor:
    """x + value first second"""
    return x + (first if value == 1 else value * first) * second


def lerp(start: Tensor, end: Tensor, weight: Any) -> Tensor:
    """From the nearer end."""
    near = start + weight * (end - start)
    far = end - (end - start) * (1 - weight)
    return torch.where(weight.abs() < 0.5, near, far) if isinstance(weight, Tensor) else near if abs(weight) < 0.5 else far


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:  # Torch's name
    """The p-norm."""
    over = [dim] if isinstance(dim, int) else list(range(x.ndim)) if dim is None or not len(dim) else dim
    if ord == 0:
        return (x != 0).to(x.abs().dtype).sum(over, keepdim)
    if math.isinf(ord):
        return x.abs().amax(over, keepdim) if ord > 0 else x.abs().amin(over, keepdim)
    size = x if ord % 2 == 0 and not x.is_complex() else x.abs()
    return size.pow(ord).sum(over, keepdim).pow(1.0 / ord)


def norm(x: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The same in Torch's older spelling."""
    return vector_norm(x, 2 if p is None else p, dim, keepdim)


def huber_loss(x: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    """Squares near 0, linear beyond delta."""
    far = (x - target).abs()
    return _REDUCED[reduction](torch.where(far < delta, 0.5 * far * far, delta * (far - 0.5 * delta)))


def nll_loss(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    """The negative of what stands at each target, and the sum of the weights."""
    axis = min(x.ndim - 1, 1)
    counts = target != ignore_index
    place = torch.where(counts, target, 0).unsqueeze(axis)
    if weight is not None:
        weight = weight.view([-1 if at == axis else 1 for at in range(x.ndim)])
        x = x * weight
        shares = torch.where(counts, weight.expand(x.shape).gather(axis, place).squeeze(axis), 0)
    else:
        shares = counts.to(x.dtype)
    terms = torch.where(counts, -x.gather(axis, place).squeeze(axis), 0)
    if not reduction and x.ndim > 1:
        return terms, x.new_zeros(())
    total = shares.sum()
    return (terms.sum() / total if reduction == 1 else terms.sum() if reduction else terms), total


def _normalized(x: Tensor, over: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Less its mean, over its deviation; the mean, and the inverse of the deviation."""
    mean = x.mean(over, keepdim=True)
    count = x.numel() / max(mean.numel(), 1)
    squares = ((x - mean) * (x - mean)).sum(over, keepdim=True)
    inverse = (squares / count + eps).rsqrt()
    return (x - mean) * inverse, mean, inverse


def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    """Over the last axes."""
    normal, mean, inverse = _normalized(x, list(range(x.ndim - len(shape), x.ndim)), eps)
    return _affine(normal, weight, bias), mean, inverse


def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, size: int, groups: int, eps: float
) -> tuple[Tensor, ...]:
    """Over the channels of a group and all places."""
    normal, mean, inverse = _normalized(x.reshape(batch, groups, channels // groups * size), [2], eps)
    along = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
    weight, bias = (vector if vector is None else vector.view(along) for vector in (weight, bias))
    return _affine(normal.reshape(x.shape), weight, bias), mean.squeeze(-1), inverse.squeeze(-1)


def _affine(normal: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = normal if weight is None else normal * weight
    return scaled if bias is None else scaled + bias


Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]  # of x, weight and bias, None where the mask has no use for one


def layer_norm_backward(
    grad: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: Sequence[bool],
) -> Gradients:
    """The gradient of each row less its mean and its part along the row."""
    first = x.ndim - len(shape)
    inner, outer = list(range(first, x.ndim)), list(range(first))
    count = math.prod(shape)
    mean, inverse = (row.view([*row.shape, *[1] * (x.ndim - row.ndim)]) for row in (mean, inverse))
    normal = (x - mean) * inverse
    scaled = grad if weight is None else grad * weight
    along = normal * (scaled * normal).sum(inner, keepdim=True)
    rest = scaled * count - scaled.sum(inner, keepdim=True) - along
    return (
        inverse / count * rest if mask[0] else None,
        _over(grad * normal, outer) if mask[1] and weight is not None else None,
        _over(grad.clone(), outer) if mask[2] and bias is not None else None,
    )


def _over(terms: Tensor, axes: Sequence[int]) -> Tensor:
    return terms.sum(axes) if axes else terms


def group_norm_backward(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    mask: Sequence[bool],
) -> Gradients:
    """By the sums of each channel's gradients, and of their products with x."""
    each = [batch, groups, channels // groups]
    products, sums = ((terms.reshape(batch, channels, size)).sum(2) for terms in (grad * x, grad))
    gradients: list[Tensor | None] = [None, None, sums.sum(0) if mask[2] else None]
    if mask[0]:
        share = 1.0 / (size * (channels // groups))
        ours, theirs = ((terms if weight is None else terms * weight).reshape(each).sum(2) for terms in (products, sums))
        factor = inverse.unsqueeze(-1) if weight is None else inverse.unsqueeze(-1) * weight.reshape(1, *each[1:])
        second = (theirs * mean - ours) * inverse * inverse * inverse * share
        third = -second * mean - theirs * inverse * share
        parts = grad.reshape(*each, size) * factor.unsqueeze(-1) + x.reshape(*each, size) * second.view(batch, groups, 1, 1)
        gradients[0] = (parts + third.view(batch, groups, 1, 1)).reshape(x.shape)
    if mask[1]:
        centred = products.view(each) - sums.view(each) * mean.unsqueeze(-1)
        gradients[1] = (centred * inverse.unsqueeze(-1)).sum(0).reshape(channels)
    return gradients[0], gradients[1], gradients[2]


STEPS: dict[Any, Callable[..., Any]] = {
    aten._softmax.default: softmax,
    aten._log_softmax.default: log_softmax,
    aten.elu.default: elu,
    aten.selu.default: selu,
    aten.glu.default: glu,
    aten.softshrink.default: softshrink,
    aten.addcdiv.default: addcdiv,
    aten.addcmul.default: addcmul,
    aten.lerp.Scalar: lerp,
    aten.lerp.Tensor: lerp,
    aten.linalg_vector_norm.default: vector_norm,
    aten.norm.Scalar: norm,
    aten.norm.ScalarOpt_dim: norm,
    aten.norm.ScalarOpt_dtype: norm,
    aten.norm.ScalarOpt_dim_dtype: norm,
    aten.huber_loss.default: huber_loss,
    aten.nll_loss_forward.default: nll_loss,
    aten.native_layer_norm.default: layer_norm,
    aten.native_layer_norm_backward.default: layer_norm_backward,
    aten.native_group_norm.default: group_norm,
    aten.native_group_norm_backward.default: group_norm_backward,
}
