"""torch -> paddle: Paddle tensors over torch's memory, which any thread may free at any time.

Paddle 3 frees what came through DLPack under one lock for the whole process, and freeing a tensor of torch that has ever been a
Python object takes the GIL. A thread that holds the GIL and waits for that lock, because it imports or frees, too, then waits for
ever: two threads that merely exchange tensors deadlock, with this library or without, whoever computes. On the CPU nothing is
therefore imported through DLPack: NumPy's door has no such lock. A strided tensor goes through it as the span of memory that it
lies in, of which Paddle then makes the same view.

On CUDA there is only DLPack; from the moment on that a second thread was seen, results are copied there instead. What was imported
before it started remains.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import paddle
import torch
from paddle.base import core

from ..patching.functions import CFunctionPatch

_CPU = paddle.CPUPlace()
_Tensor = core.eager.Tensor
_new = _Tensor.__new__
_bare = paddle.to_tensor([0.0], place=_CPU)  # shared by what is new until it is filled: a quarter of the price of a constructor
_begin: Callable[[Any], None] = _bare._share_buffer_to
as_view: Callable[..., Any] = CFunctionPatch(paddle._C_ops.as_strided).original


def takes_numpy(tensor: torch.Tensor) -> bool:
    """Whether Paddle can take the memory as it lies through NumPy's door: that of a contiguous CPU tensor with elements."""
    return tensor.is_contiguous() and not tensor.is_cuda and tensor.numel() > 0


def put_numpy(tensor: torch.Tensor, into: Any) -> None:
    """Have a Paddle tensor lie over the memory of a contiguous CPU tensor, whose graph is left out; its own node stays."""
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.detach().view(torch.uint16)  # which is Paddle's bfloat16 in NumPy
    # ``force``: without its graph, and a conjugate or negative of other memory written out.
    into.get_tensor().set(tensor.numpy(force=True), _CPU, True)


def lend_numpy(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over the memory of a contiguous CPU tensor."""
    lent = _new(_Tensor)
    _begin(lent)
    if tensor.dtype is torch.bfloat16:
        put_numpy(tensor, lent)
    else:  # as put_numpy, written out: each result without a gradient comes here
        lent.get_tensor().set(tensor.numpy(force=True), _CPU, True)
    lent.stop_gradient = True  # as it is; but without having been told so, it could not be asked to clear its gradient
    return lent


def lend_strided(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over the memory of any CPU tensor, with its strides."""
    shape, strides = tensor.shape, tensor.stride()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    return as_view(lend_numpy(tensor.as_strided((extent,), (1,))), list(shape), list(strides), 0)


def copied(tensor: torch.Tensor) -> Any:
    """A copy in Paddle's own memory, contiguous."""
    result = paddle.empty(list(tensor.shape), dtype=str(tensor.dtype).rpartition(".")[2])
    if tensor.numel():
        torch._C._from_dlpack(result.get_tensor()._to_dlpack()).copy_(tensor.detach())
    result.stop_gradient = True  # as it is; without a word about it Paddle has no place for a gradient, and clear_grad() fails
    return result


def import_capsule(tensor: torch.Tensor) -> Any:
    """Through DLPack: zero-copy with strides on Paddle 3, a copy on 2.6."""
    return paddle.Tensor(core.from_dlpack(torch._C._to_dlpack(tensor)))


_alone = True  # whether no second thread was ever seen


def lend_cuda(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over the memory of a CUDA tensor, or a copy of it as soon as there is a second thread."""
    global _alone
    _alone = _alone and threading.active_count() == 1
    return import_capsule(tensor) if _alone else copied(tensor)


def lend(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over torch's memory, with its strides; one without elements has no memory, as Paddle's own."""
    if not tensor.numel():
        return copied(tensor)
    if tensor.is_cuda:
        return lend_cuda(tensor)
    return lend_numpy(tensor) if tensor.is_contiguous() else lend_strided(tensor)
