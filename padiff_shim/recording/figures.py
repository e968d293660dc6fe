"""What is written of a tensor beside its values: a digest, a few figures that do not depend on its layout, and a sample."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ..records.encoding import finite

Array = np.ndarray[Any, Any]
SAMPLE = 64  # elements, evenly spaced in memory order
ROWS = 1024  # of a batch whose samples are told apart


def digest(array: Array) -> str:
    """128 bits of all bytes in C order: equal for equal bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return hashlib.blake2b(flat.view(np.uint8).data, digest_size=16).hexdigest()


def rows(array: Array) -> list[str]:
    """Short digests of the slices along the first axis, the samples of a batch: equal for equal bits. None beyond some thousand."""
    if not array.ndim or not 0 < len(array) <= ROWS:
        return []
    return [digest(row)[:16] for row in array]


def figures(array: Array) -> dict[str, Any]:
    """Least, greatest and mean element, mean absolute one, and the Euclidean norm, of what is finite; how much is not."""
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat
    wide = flat.astype(np.float64)
    good = wide[np.isfinite(wide)]
    found: dict[str, Any] = {"nan": int(np.isnan(wide).sum())}
    found["inf"] = int(wide.size - good.size - found["nan"])
    if good.size:
        size = np.abs(good)
        found |= {"min": float(good.min()), "max": float(good.max()), "mean": float(good.mean())}
        top = float(size.max())
        norm = top * float(np.sqrt(np.square(size / top).sum())) if top else 0.0  # the squares alone could overflow
        found |= {"mean_abs": float(size.mean()), "norm": norm}
    return found


def places(size: int) -> Array:
    """Which elements the sample of so many has."""
    return np.arange(size) if size <= SAMPLE else np.linspace(0, size - 1, SAMPLE).astype(np.int64)


def sample(array: Array) -> list[Any]:
    """Some of the elements as JSON holds them, exactly."""
    flat = np.ascontiguousarray(array).reshape(-1)
    chosen = flat[places(flat.size)]
    if np.iscomplexobj(chosen):
        chosen = chosen.view(chosen.real.dtype)
    wide = chosen.astype(np.float64) if chosen.dtype.kind == "f" else chosen
    return list(finite(wide.tolist()))


def as_bfloat16(array: Array) -> Array:
    """The upper halves of float32 numbers that bfloat16 holds."""
    return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat16(words: Array) -> Array:
    """The inverse of :func:`as_bfloat16`."""
    return (words.astype(np.uint32) << 16).view(np.float32)
