"""Whether two results are equal: most are, so this is asked of all of them."""

from __future__ import annotations

import ctypes

import torch

from ..oracle.elements import equal_in_value

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes, _memcmp.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int
_SIZES = {torch.float32: 4, torch.float64: 8}
_FEW = 4096  # elements that one call of Torch's compares faster than two that know more
_SOME = 32  # machine epsilons
_PIECE = 65536  # elements: what was compared is looked at again while it is in a core's own cache


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """:func:`torch.equal` of two tensors of one shape and dtype, up to ten times faster where their bytes are equal."""
    count = one.numel()
    if count <= _FEW:
        return torch.equal(one, other)
    size = _SIZES.get(one.dtype)
    if one.ndim == 2 and one.is_cpu and other.is_contiguous() and not one.is_contiguous() and one.mT.is_contiguous():
        if not torch.equal(one[:1], other[:1]):
            return False
        one = one.detach().contiguous()  # a gradient of a Linear's weight: turned once it is read several times faster
    if size is None or not (one.is_cpu and other.is_cpu and one.is_contiguous() and other.is_contiguous()):
        return torch.equal(one, other)
    flat = one.detach().view(-1)
    mine, theirs = one.data_ptr(), other.data_ptr()
    for low in range(0, count, _PIECE):
        high = min(low + _PIECE, count)
        if _memcmp(mine + low * size, theirs + low * size, (high - low) * size):
            return torch.equal(one, other)  # which ends soon, or finds zeros of both signs
        piece = flat if high - low == count else flat[low:high]
        squares = torch.dot(piece, piece).item()
        if squares != squares:  # a NaN equals nothing
            return False
    return True


def alike(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of which :func:`same` says that they are not are equal but for NaN, at the same places."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.sum().isfinite():
        return False
    return bool(equal_in_value(tensor, other).all())


def far_apart(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether an element differs by more than some roundoffs of it: not every difference is worth a look for ties."""
    if not tensor.is_floating_point():
        return True
    apart, size = (tensor - other).abs(), torch.maximum(tensor.abs(), other.abs())
    return not bool((apart <= _SOME * torch.finfo(tensor.dtype).eps * size).all())
