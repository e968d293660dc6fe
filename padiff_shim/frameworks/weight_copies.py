"""Copies of weights as Torch lays them out, [out, in] instead of [in, out], and how they are transposed and kept up to date."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..runlog.counts import LayoutCost
from .autocast import grad_tracer
from .memory import FLOATS
from .torch_state import gradients_of

# ``torch.nn.Linear`` holds its weight as [out, in] and hands BLAS a transposed operand; Paddle's weight is [in, out]. A
# transposed *view* gives BLAS another memory layout, and often other last bits (measured on an AMD EPYC: equal in 127 of 150
# float32 and 9 of 150 float64 cases), so bit-identity needs a copy, except for products that were tried (below). One copy per
# weight is kept and dropped with the weight.
#
# When is a copy stale? Nothing announces a write: Paddle counts in-place *ops* (``inplace_version``), but optimizers,
# ``set_value``, ``out=``, initializers and many more write without counting, and nobody sees writes through a DLPack or NumPy
# alias. So counts of writes are not trusted; the values are compared. Beside the [out, in] copy lies a snapshot of the weight as
# it was, in the weight's own order, and every use compares the two byte by byte (``memcmp``: exact, a NaN equals itself, the sign
# of a zero counts). That is 4 to 10 times cheaper than transposing anew (measured, 64 to 2048 square), and it ends at the first
# byte that differs.
#
# A changed weight is written into the copy that is there: Paddle's own graph reads a saved weight's memory when its backward
# runs, so what is written in between without being counted counts there too (what is counted raises). See :func:`renewer`.
#
# Where a Torch model holds the same values already, its weight may serve in place of a copy (:func:`lend`): as a proof does,
# which looks behind each run whether a weight was written, and then goes without.

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes, _memcmp.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_tensor_bits(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have one shape, dtype and bytes, however they lie; on the CPU without allocating where they lie whole."""
    if tensor.shape != other.shape or tensor.dtype != other.dtype:
        return False
    if tensor.is_complex():
        tensor, other = (torch.view_as_real(side.detach().resolve_conj()) for side in (tensor, other))
    if not (tensor.is_cuda or other.is_cuda) and tensor.is_contiguous() and other.is_contiguous():
        return not _memcmp(tensor.data_ptr(), other.data_ptr(), tensor.numel() * tensor.element_size())
    bits = _BITS[tensor.element_size()]
    return torch.equal(tensor.detach().contiguous().view(bits), other.detach().contiguous().view(bits))


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
        if same_tensor_bits(self.source, self.snapshot):
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


# ---- Which products have Torch's bits on a Linear weight as Paddle lays it out, without an [out, in] copy: tried, on this
# machine.
#
# ``torch.nn.Linear`` holds [out, in]. Whether BLAS adds up in the same order when it is handed [in, out] depends on the
# processor, the library, the shapes and the dtype, and on no value. So a shape that has come often is tried with random numbers:
# the product, its gradients and their gradients, from a weight in either layout. If a single bit differs, weights go on being
# copied for that shape (above). Thin products differ often, those of batches hardly ever.
#
# Could a trial miss a difference? Another order of additions gives the same last bit in about every second element of a short
# sum; a trial looks at thousands of elements, and where a product has few, at as many draws as it takes.

WORTH = 24  # calls of one shape before it is tried: a trial costs as much as about twenty products
_SHAPES_COUNTED = 4096  # that are kept account of: more come with lengths that change at each step, of which none comes often
_ELEMENTS = 4096  # that a trial looks at, at least, in the smallest of the results
_ALIGNED = 64  # bytes: as Torch's own memory is, for BLAS may begin otherwise elsewhere

_known: dict[Any, Any] = {}  # shape of a product -> how often it came, then whether the layout leaves its bits
_one_at_a_time = threading.Lock()


def needless(x: torch.Tensor, weight: torch.Tensor, bias: Any) -> bool:
    """Whether ``F.linear(x, weight.t())``, its gradients and theirs have the bits that they have with a contiguous ``weight.t()``.

    A shape that has not come often counts as one that differs.

    Args:
        x: [..., in], as the product gets it.
        weight: [in, out], contiguous.
        bias: Paddle's, or None.
    """
    if type(x) is not torch.Tensor:
        return False
    dtype = x.dtype
    if dtype is not weight.dtype or (dtype is not torch.float32 and dtype is not torch.float64):
        return False
    if weight.data_ptr() % _ALIGNED or not weight.is_contiguous() or not x.is_cpu:
        return False
    tracer = grad_tracer()
    if tracer is None or tracer._amp_dtype != "float32" or not (bias is None or FLOATS.get(bias.dtype) is dtype):
        return False  # the product may be computed in another dtype than that of its matrices
    if not x.ndim or x.shape[-1] != weight.shape[0]:  # no product: that is Paddle's to say
        return False
    key = x.shape, x.stride(), weight.shape, dtype, bias is None, torch.get_num_threads()
    state = _known.get(key, 0)
    if state is True or state is False:
        return state
    if state < WORTH:
        if state or len(_known) < _SHAPES_COUNTED:
            _known[key] = state + 1
        return False
    with _one_at_a_time, torch.inference_mode(False):
        _known[key] = tried = _tried(x.shape, x.stride(), weight.shape, dtype, bias is not None)
    return tried


def _tried(shape: torch.Size, strides: tuple[int, ...], weight: torch.Size, dtype: torch.dtype, bias: bool) -> bool:
    rows = shape[:-1].numel()
    smallest = min(rows * weight[0], rows * weight[1], weight[0] * weight[1])
    if not smallest:
        return False
    source = torch.Generator().manual_seed(rows)
    for _ in range(-(-_ELEMENTS // smallest)):
        x = torch.empty_strided(shape, strides, dtype=dtype, device="cpu")
        try:
            x.normal_(generator=source)
        except RuntimeError:  # elements that share memory
            return False
        if not _Draw(x, weight, bias, source).is_alike():
            return False
    return True


class _Draw:
    """One product of random numbers."""

    def __init__(self, x: torch.Tensor, weight: torch.Size, bias: bool, source: torch.Generator) -> None:
        def drawn(*size: int) -> torch.Tensor:
            return torch.empty(size, dtype=x.dtype, device="cpu").normal_(generator=source)

        self.x, self.weight = x, drawn(*weight)
        self.bias = drawn(weight[1]) if bias else None
        self.grad = drawn(*x.shape[:-1], weight[1])
        self.of_x, self.of_weight = drawn(*x.shape), drawn(*weight)  # incoming gradients of the gradients

    def is_alike(self) -> bool:
        """Whether nothing differs; gradients that come in may themselves lie in either order."""
        return all(
            all(map(torch.equal, self.results(turned=True, grad=grad), self.results(turned=False, grad=grad)))
            for grad in ([self.grad, self.grad.t().contiguous().t()] if self.x.ndim == 2 else [self.grad])
        )

    def results(self, *, turned: bool, grad: torch.Tensor) -> list[torch.Tensor]:
        """The product without and with a graph, its gradients, and their gradients; of weights as [out, in]."""

        def laid(matrix: torch.Tensor) -> torch.Tensor:
            return matrix.t().contiguous() if turned else matrix.t()

        leaves = [tensor.detach().requires_grad_() for tensor in (self.x, laid(self.weight), grad)]
        x, weight, grad = leaves
        bias = None if self.bias is None else self.bias.detach().requires_grad_()
        with torch.no_grad():
            out = [F.linear(x, weight, bias)]
        with torch.enable_grad():
            out.append(F.linear(x, weight, bias))
            first = gradients_of(out[1:], [x, weight] + ([] if bias is None else [bias]), [grad], create_graph=True)
            second = gradients_of(first[:2], leaves, [self.of_x, laid(self.of_weight)], create_graph=False)
        return [*out, *first, *second]
