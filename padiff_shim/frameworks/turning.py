"""Which products have Torch's bits on a Linear weight as Paddle lays it out, without an [out, in] copy: tried, on this machine.

``torch.nn.Linear`` holds [out, in]. Whether BLAS adds up in the same order when it is handed [in, out] depends on the processor,
the library, the shapes and the dtype, and on no value. So a shape that has come often is tried with random numbers: the product,
its gradients and their gradients, from a weight in either layout. If a single bit differs, weights go on being copied
for that shape (:mod:`.weights`). Thin products differ often, those of batches hardly ever.

Could a trial miss a difference? Another order of additions gives the same last bit in about every second element of a short sum; a
trial looks at thousands of elements, and where a product has few, at as many draws as it takes.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.nn.functional as F

from .memory import FLOATS, grad_tracer
from .torch_engine import gradients_of

WORTH = 24  # calls of one shape before it is tried: a trial costs as much as about twenty products
_SHAPES = 4096  # that are kept account of: more come with lengths that change at each step, of which none comes often
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
    if weight.data_ptr() % _ALIGNED or not weight.is_contiguous() or not x.is_cpu or _is_cast(dtype, bias):
        return False
    if not x.ndim or x.shape[-1] != weight.shape[0]:  # no product: that is Paddle's to say
        return False
    key = x.shape, x.stride(), weight.shape, dtype, bias is None, torch.get_num_threads()
    found = _known.get(key, 0)
    if found is True or found is False:
        return found
    if found < WORTH:
        if found or len(_known) < _SHAPES:
            _known[key] = found + 1
        return False
    with _one_at_a_time, torch.inference_mode(False):
        _known[key] = tried = _tried(x.shape, x.stride(), weight.shape, dtype, bias is not None)
    return tried


def _is_cast(dtype: torch.dtype, bias: Any) -> bool:
    """Whether the product may be computed in another dtype than that of its matrices."""
    tracer = grad_tracer()
    return tracer is None or tracer._amp_dtype != "float32" or not (bias is None or FLOATS.get(bias.dtype) is dtype)


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
            _equal(self.results(turned=True, grad=grad), self.results(turned=False, grad=grad))
            for grad in ([self.grad, self.grad.t().contiguous().t()] if self.x.ndim == 2 else [self.grad])
        )

    def results(self, *, turned: bool, grad: torch.Tensor) -> list[torch.Tensor]:
        """The product without and with a graph, its gradients, and their gradients; of weights as [out, in]."""

        def laid(matrix: torch.Tensor) -> torch.Tensor:
            return matrix.t().contiguous() if turned else matrix.t()

        leaves = [one.detach().requires_grad_() for one in (self.x, laid(self.weight), grad)]
        x, weight, grad = leaves
        bias = None if self.bias is None else self.bias.detach().requires_grad_()
        with torch.no_grad():
            out = [F.linear(x, weight, bias)]
        with torch.enable_grad():
            out.append(F.linear(x, weight, bias))
            first = gradients_of(out[1:], [x, weight] + ([] if bias is None else [bias]), [grad], create_graph=True)
            second = gradients_of(first[:2], leaves, [self.of_x, laid(self.of_weight)], create_graph=False)
        return [*out, *first, *second]


def _equal(ones: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(ones, others))
