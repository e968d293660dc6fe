"""Torch's own switches as the program has set them around Paddle code: autocast, inference mode, a default device, modes.

They are meant for the program's Torch code. What a Paddle call computes is for Paddle's switches to decide, so a call is made with
Torch's put aside; left standing they would round to bfloat16 unasked, or have tensors without numbers. Whether gradients are
recorded is not among them: it is said to Torch at each call. Nor is what a Torch program's bits depend on as much as the shim's
(threads, precisions, determinism).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack

# What tells that a switch is set, each some 50 ns: they are asked at every call.
function_modes: Callable[[], int] = torch._C._len_torch_function_stack  # a default device is one
_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
inference: Callable[[], bool] = torch.is_inference_mode_enabled
autocasting: Callable[[], bool] = torch._C._is_any_autocast_enabled

_DEVICES = ("cpu", "cuda")
_FLAGS = [name for name in vars(_python_dispatch) if name.startswith("_is_in_")]  # what Torch keeps beside its stack of modes
_Hook = TypeVar("_Hook", bound=Callable[..., Any])


class Dispatching(TorchDispatchMode):
    """A dispatch mode whose calls do not pass through Torch's compiler, which Torch would import for it: 0.8 s, once."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: nothing is compiled here, and Torch would load its compiler to say so, with the first call's frames held."""
        return False


class LooksOn(Dispatching):
    """What a dispatch mode of ours is that writes down or changes on purpose what a Paddle call computes; it is never put aside."""


def _looking_on() -> list[Any]:
    return [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, LooksOn)]


def dispatch_modes() -> int:
    """How many dispatch modes of the program are open."""
    found = _dispatch_modes()
    return found and found - len(_looking_on())


def disturbed() -> bool:
    """Whether a switch is set that would change what Torch computes here."""
    return bool(function_modes() or dispatch_modes() or inference() or autocasting())


@contextlib.contextmanager
def put_aside() -> Iterator[None]:
    """Torch as it is when nothing is set; afterwards as it was."""
    if not disturbed():
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        ours = _looking_on()
        stack.enter_context(_disable_current_modes())
        for mode in ours:
            stack.enter_context(mode)
        for device in _DEVICES:
            if torch.is_autocast_enabled(device):
                torch.set_autocast_enabled(device, False)
                stack.callback(torch.set_autocast_enabled, device, True)
        for _ in range(function_modes()):
            stack.callback(torch._C._push_on_torch_function_stack, torch._C._pop_torch_function_stack())
        yield


def open_modes() -> tuple[int, int, list[Any]]:
    """Torch's modes that are open: what :func:`close_modes` leaves."""
    return function_modes(), _dispatch_modes(), [getattr(_python_dispatch, name) for name in _FLAGS]


def close_modes(before: tuple[int, int, list[Any]]) -> None:
    """Close the modes that were opened since and stayed open: a Ctrl-C or a timeout fell into Torch's code that opens one."""
    functions, dispatches, flags = before
    if function_modes() == functions and _dispatch_modes() == dispatches:
        return
    while function_modes() > functions:
        torch._C._pop_torch_function_stack()
    while _dispatch_modes() > dispatches:
        torch._C._pop_torch_dispatch_stack(None)
    for name, value in zip(_FLAGS, flags):
        setattr(_python_dispatch, name, value)


def kept_grad_mode(hook: _Hook) -> _Hook:
    """``hook``, behind which Torch records gradients as before, also where a Ctrl-C fell into the end of a ``torch.no_grad()``."""

    @functools.wraps(hook)
    def called(*args: Any, **kwargs: Any) -> Any:
        recorded = torch.is_grad_enabled()
        try:
            return hook(*args, **kwargs)
        finally:
            torch._C._set_grad_enabled(recorded)

    return called  # type: ignore[return-value]


def undisturbed(hook: _Hook) -> _Hook:
    """``hook``, called with Torch's switches put aside."""

    @functools.wraps(hook)
    def called(*args: Any, **kwargs: Any) -> Any:
        if function_modes() or dispatch_modes() or inference() or autocasting():  # disturbed(), without its call
            with put_aside():
                return hook(*args, **kwargs)
        return hook(*args, **kwargs)

    return called  # type: ignore[return-value]
