"""Interception of Paddle's optimizers and clippers: functions in Python, and what the C functions of updates are redirected to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import paddle

from ..dispatch.entry_point import Unlisted
from ..dispatch.frames import top
from ..frameworks.optimizer_states import clip_of_call
from ..frameworks.torch_state import kept_grad_mode, undisturbed
from ..frameworks.versions import IS_3
from ..optimizers.update import updates
from ..patching.patcher import Patcher, Point
from ..runlog.optimizer_settings import Settings
from ..table.reasons import OPTIMIZER
from .locate import function_point

_PARTS = (
    "optimizer.Optimizer._create_optimization_pass",
    "optimizer.Optimizer.append_regularization_ops",
    "nn.ClipGradByGlobalNorm._dygraph_clip",
    "nn.ClipGradByNorm._dygraph_clip",
)
_CLIPS = ("nn.utils.clip_grad_norm_", "nn.utils.clip_grad_value_")


def _hook(part: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @undisturbed
    @kept_grad_mode
    def hook(*args: Any, **kwargs: Any) -> Any:
        frame = top()
        if frame is None or frame.idle:
            return original(*args, **kwargs)
        return frame.plan.optimizing(part, original, frame, args, kwargs)

    return hook


Clipping = Callable[[list[Any], Settings, Callable[[], Any]], Any]  # of parameters, how, by a call
onlookers: list[Clipping] = []  # see how a program clips gradients


def _clip_hook(part: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of a function with which programs clip gradients."""
    clip = _hook(part, original) if part == "utils.clip_grad_norm_" else original

    def hook(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        parameters = [parameters] if isinstance(parameters, paddle.Tensor) else list(parameters)
        call = functools.partial(clip, parameters, *args, **kwargs)
        for onlooker in onlookers:
            call = functools.partial(onlooker, parameters, clip_of_call(part.rpartition(".")[2], args, kwargs), call)
        return call()

    return hook


def _point(target: str, made: Callable[[str, Callable[..., Any]], Callable[..., Any]] = _hook) -> Point:
    """The method of a class, or a module's function, below the decorators that it may have."""
    module, kind, name = target.split(".")
    owner = getattr(getattr(paddle, module), kind)
    return function_point(owner, name, f"paddle.{target}", functools.partial(made, f"{kind}.{name}"))


def updating(name: str, path: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of an optimizer's update."""
    other = Unlisted(name, path, OPTIMIZER, original, updates=True)

    @undisturbed
    def hook(*args: Any, **kwargs: Any) -> Any:
        frame = top()
        if frame is None:
            return original(*args, **kwargs)
        if frame.idle:
            frame.plan.passed(other)
            return original(*args, **kwargs)
        return frame.plan.update(other, frame, args, kwargs)

    return hook


def has_old_form(name: str) -> bool:
    """Whether this Paddle calls an update through its old tracer, and how that is done is declared."""
    declared = updates().get(f"{name}_")
    return not IS_3 and declared is not None and bool(declared.legacy)


def updating_in_old_form(name: str, path: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of an optimizer's update that Paddle calls through its old tracer."""
    declared = updates()[f"{name}_"]
    hook = updating(declared.function, path, lambda *args: original(*declared.to_legacy(args)))

    def old(*args: Any) -> Any:
        return hook(*declared.from_legacy(args))

    return old


def points() -> list[Point]:
    """All of them but for :data:`CLIPS`."""
    return [_point(part) for part in _PARTS]


CLIPS = Patcher(lambda: [_point(part, _clip_hook) for part in _CLIPS])  # held with the others, and by fingerprints alone
