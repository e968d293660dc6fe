"""Kernels of other machines, for `padiff_shim.testing.planted`: each gets what the op was called with, and gives its result."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def tf32(x: Tensor) -> Tensor:
    """Float32 rounded to 11 significant bits, to nearest even, as TF32 tensor cores read it."""
    bits = x.contiguous().view(torch.int32)
    return (bits + (0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)


def tf32_linear(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, *_: Any) -> Tensor:
    return F.linear(tf32(x), tf32(weight), bias)


def tf32_matmul(out: Tensor, x: Tensor, y: Tensor, *_: Any) -> Tensor:
    return tf32(x) @ tf32(y)


def backwards_linear(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, *_: Any) -> Tensor:
    """The sums from their other ends: as right as any order."""
    return F.linear(x.flip(-1), weight.flip(-1), bias)


def backwards_conv2d(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *_: Any) -> Tensor:
    """The sum over half of the channels added to that over the other half."""
    half = (x.shape[1] + 1) // 2
    halves = [(x[:, half:], weight[:, half:]), (x[:, :half], weight[:, :half])]
    parts = [F.conv2d(mine, taps, None, stride, padding) for mine, taps in halves if taps.numel()]
    total = sum(parts[1:], parts[0])
    return total if bias is None else total + bias.reshape(1, -1, 1, 1)


def one_pass_layer_norm(out: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float, first: int) -> Tensor:
    """The variance as E[x^2] - E[x]^2, in float32."""
    over = tuple(range(first, x.dim()))
    mean = x.mean(over, keepdim=True)
    variance = (x * x).mean(over, keepdim=True) - mean * mean
    normal = (x - mean) * torch.rsqrt(variance + epsilon)
    return normal * (1.0 if weight is None else weight.reshape(x.shape[first:])) + (
        0.0 if bias is None else bias.reshape(x.shape[first:])
    )


def backwards_softmax(out: Tensor, x: Tensor, *_: Any) -> Tensor:
    """The sum of the exponentials from its other end, term by term."""
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    total = powers[..., -1:].clone()
    for place in range(powers.shape[-1] - 2, -1, -1):
        total = total + powers[..., place : place + 1]
    return powers / total
