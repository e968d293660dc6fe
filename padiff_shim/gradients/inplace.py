"""An in-place op on the tape: computed out of place in torch's graph, then written into the memory of the tensor.

The tensor gets a sentinel of its own for the new value: whoever used the old one still leads to the old twin.
"""

from __future__ import annotations

from typing import Any

import torch

from ..frameworks.memory import as_operand, autocast_off, to_torch
from .calls import Call
from .local import floats
from .seats import exchange_node, exchange_sentinel
from .twins import attach, only_sentinel, twin


class _Into(torch.autograd.Function):
    """``memory`` takes the values and the history of ``side``."""

    @staticmethod
    def forward(ctx: Any, memory: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)  # zeros in place of nothing would go on to what Paddle does not walk
        memory.copy_(side)
        ctx.mark_dirty(memory)
        return memory

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, grad


def refused(tensor: Any) -> bool:
    """Whether Paddle refuses in-place ops on it: a leaf that wants a gradient."""
    return bool(tensor.is_leaf and not tensor.stop_gradient)


def before(tensor: Any) -> torch.Tensor:
    """The twin of a tensor that is about to be written with what wants a gradient, as Paddle goes on from it.

    Natively what it was made of gets its gradient also where ``stop_gradient`` was set since; and the ``grad`` of a leaf that
    wanted none becomes the gradient of the value that it has now.
    """
    if not tensor.stop_gradient:
        return twin(tensor)
    if not tensor._is_initialized():
        return as_operand(tensor)
    tensor.stop_gradient = False
    try:
        return twin(tensor)
    finally:
        tensor.stop_gradient = True


def write(call: Call, tensor: Any, side: torch.Tensor, *, reads_result: bool) -> Any:
    """``tensor`` takes the values of ``side`` in its own memory, and its history."""
    call.behind(side)
    memory = tensor.detach()
    with torch.enable_grad():
        written = _Into.apply(to_torch(memory), side)
    memory._bump_inplace_version()
    if reads_result:
        call.saved = [*call.saved, (memory, memory.inplace_version)]
    return take(tensor, memory, written)


def take(tensor: Any, memory: Any, written: torch.Tensor) -> Any:
    """``tensor`` takes another history, that of ``written``; ``memory``: another Paddle tensor over its memory, as it is now."""
    pair = floats(written)
    with autocast_off():
        if only_sentinel(tensor):
            exchange_sentinel(tensor, pair[0])
        else:
            exchange_node(tensor, pair)
    memory._share_underline_tensor_to(tensor)
    attach(tensor, written, pair[0])
    return tensor
