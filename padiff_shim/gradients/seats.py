"""The node of a tensor that is on the tape, exchanged for a sentinel."""

from __future__ import annotations

from typing import Any

from ..frameworks.memory import autocast_off, to_paddle, to_torch
from . import clean
from .local import floats
from .twins import Taped


def seat(tensor: Any, record: Taped) -> None:
    """Make a tensor's node a sentinel, where it is not: hooks see what Paddle's engine brings to one.

    What was made of a view outside of all modes leads to the node that Paddle made for the view, which ``record.outside`` has then.
    """
    if record.seated:
        return
    record.outside = clean.empty()
    record.outside.reconstruct_from_(tensor)
    memory, pair = tensor.detach(), floats(record.twin)
    with autocast_off():
        exchange_sentinel(tensor, pair[0])
    memory._share_underline_tensor_to(tensor)
    clean.register_grad_hook(tensor, record.arrive)
    record.made_of = pair[0]


def exchange_node(tensor: Any, pair: tuple[Any, Any]) -> None:
    """A node of one float, in place of the tensor's own; its memory is that of one float, too. Autocast must be off.

    What Paddle keeps beside the node (a gradient, that it is retained) stays. Paddle has no gradient of this node's gradient.
    """
    tiny, small = pair
    clean.assign(small)._share_underline_tensor_to(tensor)
    clean.assign_into(tiny, tensor)


def exchange_sentinel(tensor: Any, tiny: Any) -> None:
    """The same where nothing of Paddle's hangs on the node, as on that of a sentinel or a view: ``create_graph`` passes."""
    name, persistable, grad = tensor.name, tensor.persistable, tensor.grad
    tensor.reconstruct_from_(clean.assign(tiny))
    tensor.name, tensor.persistable = name, persistable
    if grad is not None:
        give_gradient(tensor, grad)


def give_gradient(tensor: Any, grad: Any) -> None:
    """Make ``grad`` the tensor's gradient: of the dtype that it had before an in-place op, too, which Paddle's door refuses."""
    if grad.dtype != tensor.dtype:
        tensor._copy_gradient_from(to_paddle(to_torch(grad).to(to_torch(tensor).dtype)))
        tensor._grad_value()._share_data_with(grad.get_tensor())
    else:
        tensor._copy_gradient_from(grad)
