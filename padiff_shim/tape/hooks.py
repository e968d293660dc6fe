"""Hooks and retained gradients of tensors on the tape, and the sentinel nodes through which Paddle's engine reaches them."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import paddle
import torch

from ..frameworks.autocast import autocast_off
from ..frameworks.memory import to_paddle, to_torch
from ..frameworks.versions import PaddleTensor
from ..interrupts import arrives, call_in_hook
from ..language import tr
from ..torch_versions import current_node
from . import paddle_graph
from .paddle_graph import LOCAL, floats
from .twins import Taped, taped, twin, wrap_apart

# Paddle's functions for them (``Tensor._register_grad_hook``, ``_remove_grad_hook``, ``retain_grads``) lead here for such
# tensors; all others go on as ever.

_FIRST = 10**9  # Paddle's own numbers of hooks are small
_numbers = itertools.count(_FIRST)


def registering(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Tensor._register_grad_hook``."""

    @functools.wraps(original)
    def hook(tensor: PaddleTensor, function: Callable[..., Any]) -> int:
        record = taped(tensor)
        if record is None:
            return original(tensor, functools.partial(call_in_hook, function))
        give_sentinel(tensor, record)
        outside = None if record.outside is None else _ViewHook(record.outside, function)
        number = next(_numbers)
        if record.hooks is None:
            record.hooks = {}
        user_hook = _UserHook(function, record.ignores_answers, _answers(record), unused(record.hook_side))
        record.hooks[number] = record.hook_side.register_hook(functools.partial(_call_user_hook, user_hook)), outside
        return number

    return hook


class _ViewHook:
    """A hook on what was made of a view outside of all modes: that leads to the node that Paddle made for the view."""

    __slots__ = ("_function",)

    def __init__(self, view: Any, function: Callable[[Any], Any]) -> None:
        self._function: Callable[[Any], Any] | None = function
        paddle_graph.register_grad_hook(view, self)

    def __call__(self, grad: PaddleTensor) -> Any:
        return None if self._function is None else self._function(grad)

    def remove(self) -> None:
        """Paddle finds hooks by the tensor that they were put on, which nobody has."""
        self._function = None


def removing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Tensor._remove_grad_hook``."""

    @functools.wraps(original)
    def hook(tensor: PaddleTensor, number: int) -> bool:
        record = taped(tensor)
        if record is None or number < _FIRST:
            return original(tensor, number)
        handles = (record.hooks or {}).pop(number, None)
        if handles is None:
            return False
        for handle in handles:
            if handle is not None:
                handle.remove()
        return True

    return hook


def retaining(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Tensor.retain_grads``."""

    @functools.wraps(original)
    def hook(tensor: PaddleTensor) -> None:
        if taped(tensor) is None:
            original(tensor)
        else:
            retain(tensor)

    return hook


def retain(tensor: PaddleTensor) -> None:
    """Keep the gradient of a tensor on the tape as its ``grad``."""
    record = taped(tensor)
    if record is not None and not record.retained:
        reference = weakref.ref(tensor)
        give_sentinel(tensor, record)
        record.retained = True
        if record.outside is not None:
            _ViewHook(record.outside, lambda grad: _keep(reference, None, None, to_torch(grad)))
        record.hook_side.register_hook(functools.partial(_keep, reference, _answers(record), unused(record.hook_side)))


def _answers(record: Taped) -> object:
    if record.answers is None:
        record.answers = object()
    return record.answers


def after_hooks(answers: object | None, grad: torch.Tensor) -> torch.Tensor:
    """The gradient of a tensor after its hooks in this turn: in Paddle that is the tensor's own.

    Torch gives the gradient before the hooks where it goes on to other inputs. What hooks on the result of a PyLayer return is the
    tensor's own gradient, and goes no further.
    """
    answer: torch.Tensor = grad if answers is None else LOCAL.session.answers.get(answers, grad)
    return answer


def _keep(reference: weakref.ref[Any], answers: object | None, without: Unused | None, grad: torch.Tensor | None) -> None:
    tensor = reference()
    if grad is None and without is not None:
        grad = without.gradient()
    if tensor is not None and grad is not None:  # None: one of several results that nothing was made of
        retained = to_paddle(_with_turns_before(tensor, after_hooks(answers, grad).detach()))
        retained.stop_gradient = False
        give_gradient(tensor, retained)


def _with_turns_before(tensor: PaddleTensor, grad: torch.Tensor) -> torch.Tensor:
    """What has come to a tensor in this backward, in memory of its own."""
    retained = set() if LOCAL.session is None else LOCAL.session.retained
    if id(tensor) in retained and tensor.grad is not None:
        return to_torch(tensor.grad) + grad
    retained.add(id(tensor))
    return grad.clone(memory_format=torch.contiguous_format)


class _UserHook(NamedTuple):
    """A user's hook on a tensor."""

    function: Callable[..., Any]
    ignores_answers: bool  # what it returns goes no further
    answers: object  # the key of its answer in Session.answers
    without: Unused | None


def _call_user_hook(user_hook: _UserHook, grad: torch.Tensor | None) -> torch.Tensor | None:
    """Call a user's hook with Paddle's tensor of a gradient; it may return another one.

    The hook of an unused result gets zeros or None, as natively.
    """
    if grad is None and user_hook.without is not None:
        answer = _answer(user_hook, user_hook.without.gradient())
        if answer is not None:
            user_hook.without.answer(answer)
        return None
    return _answer(user_hook, grad)


def _answer(user_hook: _UserHook, grad: torch.Tensor | None) -> torch.Tensor | None:
    if grad is None:
        _call(user_hook.function, None)
        return None
    if user_hook.ignores_answers:
        grad = after_hooks(user_hook.answers, grad)
    create = grad.requires_grad and torch.is_grad_enabled()
    shown = wrap_apart(grad) if create else to_paddle(grad.detach().clone(memory_format=torch.contiguous_format))
    shown.stop_gradient = False
    answer = _call(user_hook.function, shown)
    if answer is None:
        return None
    # Raise for what a hook must not return. Natively a wrong type crashes the process, and a wrong shape ends in any error.
    if not isinstance(answer, paddle.Tensor):
        raise TypeError(tr("a hook on a tensor returned {type}; it must return a Tensor or None", type=type(answer).__name__))
    shape, wanted = list(answer.shape), list(shown.shape)
    if shape != wanted:
        raise ValueError(
            tr(
                "(InvalidArgument) a hook on a tensor returned a gradient of shape {shape}, the tensor's is {wanted}",
                shape=shape,
                wanted=wanted,
            )
        )
    if answer.dtype != shown.dtype:
        before, after = (str(tensor.dtype).rpartition(".")[2] for tensor in (shown, answer))
        raise RuntimeError(f"(PermissionDenied) The dtype of tensor before({before}) and after({after}) hook are not consistent")
    made = twin(answer) if create and not answer.stop_gradient else to_torch(answer).clone()
    LOCAL.session.answers[user_hook.answers] = made
    return None if user_hook.ignores_answers else made


def _call(function: Callable[..., Any], shown: Any) -> Any:
    """A user's hook's answer. An error in it is what it is natively, where it goes through Paddle's engine."""
    try:
        return function(shown)
    except Exception as error:
        if arrives(error):
            raise
        raise OSError(f"(External) {type(error).__name__}: {error}") from error


# ---- The node of a tensor that is on the tape, exchanged for a sentinel.


def give_sentinel(tensor: PaddleTensor, record: Taped) -> None:
    """Make a tensor's node a sentinel, where it is not: hooks see what Paddle's engine brings to one.

    What was made of a view outside of all modes leads to the node that Paddle made for the view, which ``record.outside`` has then.
    """
    if record.has_sentinel:
        return
    record.outside = paddle_graph.empty()
    record.outside.reconstruct_from_(tensor)
    memory, pair = tensor.detach(), floats(record.twin)
    with autocast_off():
        exchange_sentinel(tensor, pair[0])
    memory._share_underline_tensor_to(tensor)
    paddle_graph.register_grad_hook(tensor, record.arrive)
    record.made_of = pair[0]


def exchange_node(tensor: PaddleTensor, pair: tuple[Any, Any]) -> None:
    """A node of one float, in place of the tensor's own; its memory is that of one float, too. Autocast must be off.

    What Paddle keeps beside the node (a gradient, that it is retained) stays. Paddle has no gradient of this node's gradient.
    """
    tiny, small = pair
    paddle_graph.assign(small)._share_underline_tensor_to(tensor)
    paddle_graph.assign_into(tiny, tensor)


def exchange_sentinel(tensor: PaddleTensor, tiny: PaddleTensor) -> None:
    """The same where nothing of Paddle's hangs on the node, as on that of a sentinel or a view: ``create_graph`` passes."""
    name, persistable, grad = tensor.name, tensor.persistable, tensor.grad
    tensor.reconstruct_from_(paddle_graph.assign(tiny))
    tensor.name, tensor.persistable = name, persistable
    if grad is not None:
        give_gradient(tensor, grad)


def give_gradient(tensor: PaddleTensor, grad: PaddleTensor) -> None:
    """Make ``grad`` the tensor's gradient, also in the dtype that it had before an in-place op, which Paddle refuses."""
    if grad.dtype != tensor.dtype:
        tensor._copy_gradient_from(to_paddle(to_torch(grad).to(to_torch(tensor).dtype)))
        tensor._grad_value()._share_data_with(grad.get_tensor())
    else:
        tensor._copy_gradient_from(grad)


# ---- Unused results beside a used one: Paddle shows their hooks zeros, Torch shows None.
#
# Torch's engine refuses a hook that answers None with a gradient. So what a hook makes of the zeros is added to what the node
# hands on: its gradient is linear.

# Whose results Paddle's engine fills with zeros; of others (svd, a PyLayer's) hooks are shown None there, or the process ends.
_FILLED = frozenset({"SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0", "LinalgEighBackward0"})
_KEY = "padiff_shim_answers"  # in a node's metadata: what hooks made of zeros, by the number of the result


class Unused:
    """One of several results of a node, for when no gradient arrives there. It does not hold the tensor: that holds its hooks."""

    __slots__ = ("device", "dtype", "number", "shape")

    def __init__(self, side: torch.Tensor) -> None:
        self.shape, self.dtype, self.device, self.number = side.shape, side.dtype, side.device, side.output_nr

    def gradient(self) -> torch.Tensor:
        """What a hook is shown: zeros, or what the hook before it made of them."""
        answers = current_node().metadata.get(_KEY, {})
        return answers.get(self.number, torch.zeros(self.shape, dtype=self.dtype, device=self.device))

    def answer(self, grad: torch.Tensor) -> None:
        """A hook has returned this gradient."""
        node: Any = current_node()
        answers = node.metadata.get(_KEY)
        if answers is None:
            if not grad.any():  # with zeros in place of nothing torch may take another formula
                return
            answers = node.metadata[_KEY] = dict[Any, Any]()
            answers["hook"] = node.register_hook(_added)
        answers[self.number] = grad


def unused(side: torch.Tensor) -> Unused | None:
    """What hooks on a twin need where no gradient arrives; None where Paddle shows them None."""
    node = side.grad_fn
    return Unused(side) if node is not None and node.name() in _FILLED else None


def _added(inputs: tuple[torch.Tensor | None, ...], outputs: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    """Hook of a node: what hooks answered for its unused results is part of what it hands on, once."""
    node: Any = current_node()
    answers = node.metadata.pop(_KEY)
    answers.pop("hook").remove()
    more = node(*(answers.get(number) for number in range(len(outputs))))
    added = more if isinstance(more, tuple) else (more,)
    return tuple(grad if grad is None or other is None else grad + other for grad, other in zip(inputs, added))
