"""Whether two results are equal: most are, so this is asked of all of them."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import torch

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes, _memcmp.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int
_READ = (torch.float32, torch.float64)  # by NumPy, quickly


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """:func:`torch.equal` of two tensors of one shape and dtype, up to ten times faster where their bytes are equal."""
    host = one.device.type == other.device.type == "cpu" and one.dtype in _READ
    if not (host and one.is_contiguous() and other.is_contiguous() and one.numel()):
        return torch.equal(one, other)
    if _memcmp(one.data_ptr(), other.data_ptr(), one.numel() * one.element_size()):
        return torch.equal(one, other)  # which ends soon, or finds zeros of both signs
    flat = one.detach().numpy().reshape(-1)
    with np.errstate(all="ignore"):
        return not math.isnan(float(np.dot(flat, flat)))  # a NaN equals nothing
