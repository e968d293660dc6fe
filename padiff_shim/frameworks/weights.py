"""Contiguous [out, in] copies of Linear weights.

``torch.nn.Linear`` holds its weight as [out, in] and hands BLAS a transposed operand; Paddle's weight is [in, out]. A transposed
*view* gives BLAS another memory layout, and often other last bits (measured on an AMD EPYC: equal in 127 of 150 float32 and 9 of
150 float64 cases), so bit-identity needs a copy, except for products that were tried (:mod:`.turning`). One copy per weight is kept
and dropped with the weight.

When is a copy stale? Nothing announces a write: Paddle counts in-place *ops* (``inplace_version``), but optimizers, ``set_value``,
``out=``, initializers and many more write without counting, and a DLPack or NumPy alias is nobody's to watch. So doors are not
trusted; the values are compared. Beside the [out, in] copy lies a snapshot of the weight as it was, in the weight's own order, and
every use compares the two byte by byte (``memcmp``: exact, a NaN equals itself, the sign of a zero counts). That is 4 to 10 times
cheaper than transposing anew (measured, 64 to 2048 square), and it ends at the first byte that differs.

A changed weight is written into the copy that is there: Paddle's own graph reads a saved weight's memory when its backward runs,
so what is written in between without being counted counts there too (what is counted raises). See :func:`renewer`.

Where a Torch model holds the same values already, its weight may serve in place of a copy (:func:`lend`): as a proof does, which
looks behind each run whether a weight was written, and then goes without.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..records.tally import LayoutCost

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes, _memcmp.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bytes; on the CPU without allocating."""
    if not one.is_cuda and one.is_contiguous() and other.is_contiguous():
        return not _memcmp(one.data_ptr(), other.data_ptr(), one.numel() * one.element_size())
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    bits = _BITS[one.element_size()]
    return torch.equal(one.view(bits), other.view(bits))


class Copy:
    """A weight's memory, its [out, in] copy, and the values that the copy was made of."""

    __slots__ = ("cost", "snapshot", "source", "transposed")

    def __init__(self, source: torch.Tensor, cost: LayoutCost) -> None:
        self.source, self.cost = source, cost
        start = time.perf_counter()
        # The copy first: another thread that finds the snapshot equal must find a complete copy.
        self.transposed = source.t().contiguous()
        self.snapshot = source.clone()
        self._count(start)

    def over(self, source: torch.Tensor) -> bool:
        """Whether ``source`` is the memory that this is a copy of (which is alive, since :attr:`source` holds it)."""
        mine = self.source
        return (
            mine.data_ptr() == source.data_ptr()
            and mine.shape == source.shape
            and mine.dtype is source.dtype
            and mine.stride() == source.stride()
        )

    def renew(self) -> bool:
        """Take over the weight's present values; False if they are those already held."""
        start = time.perf_counter()
        if same_bits(self.source, self.snapshot):
            self.cost.seconds += time.perf_counter() - start
            return False
        # ``.data``: graphs that saved the copy shall read the new values, as Paddle's graph does, and not refuse them.
        self.transposed.data.copy_(self.source.t())
        self.snapshot.copy_(self.source)
        self._count(start)
        return True

    def _count(self, start: float) -> None:
        self.cost.copies += 1
        self.cost.bytes += self.transposed.numel() * self.transposed.element_size()
        self.cost.seconds += time.perf_counter() - start


class Lent:
    """Another tensor that holds a weight's values as [out, in], in place of a copy; who lends it finds out about writes."""

    __slots__ = ("address", "cost", "transposed")

    def __init__(self, transposed: torch.Tensor, address: int) -> None:
        self.transposed, self.address, self.cost = transposed, address, LayoutCost()

    def over(self, source: torch.Tensor) -> bool:
        """Whether ``source`` is the weight's memory."""
        return self.address == source.data_ptr() and source.shape == self.transposed.shape[::-1]

    def renew(self) -> bool:
        """There is nothing to take over."""
        return False


_copies: dict[int, tuple[weakref.ref[Any], Copy | Lent]] = {}


def transposed_copy(weight: Any, source: torch.Tensor, cost: LayoutCost) -> torch.Tensor:
    """A contiguous torch tensor [out, in] with the present values of ``weight``.

    Args:
        weight: a Paddle matrix [in, out], any dtype. If its memory is laid out as [out, in], that memory is the answer.
        source: the same on Torch's side, over its memory.
        cost: where copies and reuse are counted.
    """
    turned = source.t()
    if turned.is_contiguous():
        cost.views += 1
        # The stride of an axis of size 1 says nothing, but BLAS may be asked with it.
        return turned.as_strided(turned.shape, (source.shape[0], 1))
    known = _copies.get(id(weight))
    if known is not None and known[0]() is weight and known[1].over(source):
        copy = known[1]
        copy.cost = cost
        if not copy.renew():
            cost.reused += 1
        return copy.transposed
    copy = Copy(source, cost)
    _hold(weight, copy)
    return copy.transposed


def _hold(weight: Any, copy: Copy | Lent) -> None:
    key = id(weight)
    _copies[key] = (weakref.ref(weight, lambda _: _copies.pop(key, None)), copy)


def lend(weight: Any, transposed: torch.Tensor) -> None:
    """Let ``transposed`` [out, in], which holds the values of ``weight`` [in, out], be its copy, until :func:`forget`.

    Nothing is compared from then on: who lends sees to it.
    """
    _hold(weight, Lent(transposed, weight.data_ptr()))


def transposed_of(weight: Any) -> torch.Tensor | None:
    """The transposed copy of a weight, if there is one now."""
    known = _copies.get(id(weight))
    return known[1].transposed if known is not None and known[0]() is weight else None


def forget(weight: Any) -> None:
    """Give back the memory of a weight's copy."""
    _copies.pop(id(weight), None)


def renewer(weight: Any, transposed: torch.Tensor) -> Callable[[], Any] | None:
    """What brings ``transposed``, which a call read, up to date with ``weight`` for a backward; None if it is no copy that is kept.

    Natively a weight that was written between forward and backward without being counted (``set_value``, an optimizer) gives the
    backward its new values. A copy that is none (autocast's cast of one, memory in the right order) is left alone, as natively.
    """
    known = _copies.get(id(weight))
    if known is None or known[1].transposed.data_ptr() != transposed.data_ptr():
        return None
    return known[1].renew
