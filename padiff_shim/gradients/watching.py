"""Hooks and retained gradients of tensors on the tape: they see what torch's engine computes.

Paddle's doors for them (``Tensor._register_grad_hook``, ``_remove_grad_hook``, ``retain_grads``) lead here for such tensors; all
others go on as ever.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import paddle
import torch

from ..frameworks.memory import to_paddle, to_torch
from ..postponed import arrives, as_hook
from . import clean
from .local import LOCAL
from .seats import give_gradient, seat
from .twins import Taped, taped, twin, wrap
from .unused import Unused, unused

_FIRST = 10**9  # Paddle's own numbers of hooks are small
_numbers = itertools.count(_FIRST)


def registering(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Tensor._register_grad_hook``."""

    @functools.wraps(original)
    def hook(tensor: Any, function: Callable[..., Any]) -> int:
        record = taped(tensor)
        if record is None:
            return original(tensor, as_hook(function))
        seat(tensor, record)
        outside = None if record.outside is None else _Outside(record.outside, function)
        number = next(_numbers)
        if record.hooks is None:
            record.hooks = {}
        hears = _Hears(function, record.deaf, _answers(record), unused(record.heard))
        record.hooks[number] = record.heard.register_hook(functools.partial(_shown, hears)), outside
        return number

    return hook


class _Outside:
    """A hook on what was made of a view outside of all modes: that leads to the node that Paddle made for the view."""

    __slots__ = ("_function",)

    def __init__(self, view: Any, function: Callable[[Any], Any]) -> None:
        self._function: Callable[[Any], Any] | None = function
        clean.register_grad_hook(view, self)

    def __call__(self, grad: Any) -> Any:
        return None if self._function is None else self._function(grad)

    def remove(self) -> None:
        """Paddle finds hooks by the tensor that they were put on, which nobody has."""
        self._function = None


def removing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Tensor._remove_grad_hook``."""

    @functools.wraps(original)
    def hook(tensor: Any, number: int) -> bool:
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
    def hook(tensor: Any) -> None:
        if taped(tensor) is None:
            original(tensor)
        else:
            retain(tensor)

    return hook


def retain(tensor: Any) -> None:
    """Keep the gradient of a tensor on the tape as its ``grad``."""
    record = taped(tensor)
    if record is not None and not record.retained:
        reference = weakref.ref(tensor)
        seat(tensor, record)
        record.retained = True
        if record.outside is not None:
            _Outside(record.outside, lambda grad: _keep(reference, None, None, to_torch(grad)))
        record.heard.register_hook(functools.partial(_keep, reference, _answers(record), unused(record.heard)))


def _answers(record: Taped) -> object:
    if record.answers is None:
        record.answers = object()
    return record.answers


def heard(answers: object | None, grad: torch.Tensor) -> torch.Tensor:
    """What the hooks of a tensor have made of its gradient in this turn: in Paddle that is the tensor's own.

    Torch gives the one before its hooks where it goes on to other inputs; and what hooks on the result of a PyLayer answer is the
    tensor's own, and goes no further.
    """
    found: torch.Tensor = grad if answers is None else LOCAL.session.answers.get(answers, grad)
    return found


def _keep(reference: weakref.ref[Any], answers: object | None, without: Unused | None, grad: torch.Tensor | None) -> None:
    tensor = reference()
    if grad is None and without is not None:
        grad = without.gradient()
    if tensor is not None and grad is not None:  # None: one of several results, of which nothing was made
        kept = to_paddle(_with_turns_before(tensor, heard(answers, grad).detach()))
        kept.stop_gradient = False
        give_gradient(tensor, kept)


def _with_turns_before(tensor: Any, grad: torch.Tensor) -> torch.Tensor:
    """What has come to a tensor in this backward, in memory of its own."""
    kept = set() if LOCAL.session is None else LOCAL.session.kept
    if id(tensor) in kept and tensor.grad is not None:
        return to_torch(tensor.grad) + grad
    kept.add(id(tensor))
    return grad.clone(memory_format=torch.contiguous_format)


class _Hears(NamedTuple):
    """A user's hook on a tensor."""

    function: Callable[..., Any]
    deaf: bool  # what it answers goes no further
    answers: object  # under which that is kept
    without: Unused | None


def _shown(hears: _Hears, grad: torch.Tensor | None) -> torch.Tensor | None:
    """A user's hook: gets Paddle's tensor of a gradient, may return another.

    Of one of several results that nothing was made of it gets zeros or None, as natively.
    """
    if grad is None and hears.without is not None:
        answer = _asked(hears, hears.without.gradient())
        if answer is not None:
            hears.without.answer(answer)
        return None
    return _asked(hears, grad)


def _asked(hears: _Hears, grad: torch.Tensor | None) -> torch.Tensor | None:
    if grad is None:
        _called(hears.function, None)
        return None
    if hears.deaf:
        grad = heard(hears.answers, grad)
    create = grad.requires_grad and torch.is_grad_enabled()
    shown = wrap(grad.clone()) if create else to_paddle(grad.detach().clone(memory_format=torch.contiguous_format))
    shown.stop_gradient = False
    answer = _called(hears.function, shown)
    if answer is None:
        return None
    _check(answer, shown)
    made = twin(answer).clone() if create and not answer.stop_gradient else to_torch(answer).clone()
    LOCAL.session.answers[hears.answers] = made
    return None if hears.deaf else made


def _called(function: Callable[..., Any], shown: Any) -> Any:
    """A user's hook's answer. An error in it is what it is natively, where it goes through Paddle's engine."""
    try:
        return function(shown)
    except Exception as error:
        if arrives(error):
            raise
        raise OSError(f"(External) {type(error).__name__}: {error}") from error


def _check(answer: Any, shown: Any) -> None:
    """Raise for what a hook must not return. Natively a wrong type crashes the process, and a wrong shape ends in any error."""
    if not isinstance(answer, paddle.Tensor):
        raise TypeError(f"a hook on a tensor returned {type(answer).__name__}; it must return a Tensor or None")
    found, wanted = list(answer.shape), list(shown.shape)
    if found != wanted:
        raise ValueError(f"(InvalidArgument) a hook on a tensor returned a gradient of shape {found}, the tensor's is {wanted}")
    if answer.dtype != shown.dtype:
        before, after = (str(tensor.dtype).rpartition(".")[2] for tensor in (shown, answer))
        raise RuntimeError(f"(PermissionDenied) The dtype of tensor before({before}) and after({after}) hook are not consistent")
