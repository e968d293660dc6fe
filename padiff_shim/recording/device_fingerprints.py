"""Fingerprints of tensors where they live: some kernels of Torch a tensor, and one transfer to the host for all of a step."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from .fingerprints import FIGURES, PERIOD, Array, block_weight, signs, weights

Torch = Any  # a tensor of Torch
_LOW = 0xFFFFFFFF


@functools.lru_cache(maxsize=8)
def _weights(device: torch.device) -> Torch:
    return torch.from_numpy(weights().view(np.int64)).to(device)


@functools.lru_cache(maxsize=8)
def _signs(device: torch.device) -> Torch:
    return torch.from_numpy(signs()).to(device)


@functools.lru_cache(maxsize=64)
def _block_weights(blocks: int, device: torch.device) -> Torch:
    words = np.array([block_weight(block) for block in range(blocks)], np.uint64)
    return torch.from_numpy(words.view(np.int64)).to(device)


class DeviceFingerprints:
    """Computes fingerprints of Torch tensors on their device; the hash has the same bits as on the host.

    >>> device = DeviceFingerprints()
    >>> device.add(torch.tensor([3.0, -4.0]))
    >>> bits, figures = device.take()
    >>> figures[0, :3].tolist()
    [5.0, -0.5, 4.0]
    """

    def __init__(self) -> None:
        self._bits: list[Torch] = []
        self._figures: list[Torch] = []

    def add(self, tensor: Torch) -> None:
        """One tensor, of any strided layout; nothing waits for the device."""
        flat = tensor.detach().contiguous().reshape(-1)
        self._bits.append(_hash(flat))
        self._figures.append(_figures(torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat))

    def take(self) -> tuple[Array, Array]:
        """Hashes (uint64) and figures (float64, a row of :data:`FIGURES` each) of all tensors since the last call."""
        if not self._bits:
            return np.zeros(0, np.uint64), np.zeros((0, len(FIGURES)))
        both = torch.cat([torch.stack(self._bits)[:, None], torch.stack(self._figures).view(torch.int64)], 1).cpu().numpy()
        self._bits, self._figures = [], []
        return both[:, 0].copy().view(np.uint64), both[:, 1:].copy().view(np.float64)


def _hash(flat: Torch) -> Torch:
    """Of the bytes, as in :mod:`.fingerprints`; integers of Torch wrap around."""
    content = flat.view(torch.uint8) if flat.numel() else torch.zeros(0, dtype=torch.uint8, device=flat.device)
    blocks = max(1, math.ceil(content.numel() / (8 * PERIOD)))
    words = torch.zeros(
        8 * PERIOD * blocks if blocks > 1 else 8 * math.ceil(content.numel() / 8), dtype=torch.uint8, device=flat.device
    )
    words[: content.numel()] = content
    words = words.view(torch.int64).reshape(blocks, -1)
    mixed = words ^ ((words >> 32) & _LOW)
    sums = (mixed * _weights(flat.device)[: words.shape[1]]).sum(1)
    return (sums * _block_weights(blocks, flat.device)).sum()


def _figures(flat: Torch) -> Torch:
    if not flat.numel():
        return torch.zeros(len(FIGURES), dtype=torch.float64, device=flat.device)
    wide = flat.float() if flat.dtype in (torch.bfloat16, torch.float16) else flat if flat.dtype is torch.float32 else flat.double()
    period = 2 * PERIOD
    whole = wide.numel() // period * period
    signed = _signs(flat.device).to(wide.dtype)
    projected = (wide[:whole].reshape(-1, period) * signed).sum(dtype=torch.float64)
    projected = projected + (wide[whole:] * signed[: wide.numel() - whole]).sum(dtype=torch.float64)
    squares = (wide * wide).sum(dtype=torch.float64)
    return torch.stack([squares.sqrt(), wide.mean(dtype=torch.float64), wide.abs().max().double(), projected])
