"""The doors of Paddle's optimizers and clippers that are functions in Python.

The updates themselves are C functions: see :mod:`.doors`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle

from ..dispatch.frames import top
from ..patching.patcher import Point
from ..patching.pyfunction import PyFunctionPatch
from .locate import awaiting, python_function

_PARTS = (
    "optimizer.Optimizer._create_optimization_pass",
    "optimizer.Optimizer.append_regularization_ops",
    "nn.ClipGradByGlobalNorm._dygraph_clip",
    "nn.ClipGradByNorm._dygraph_clip",
)


def _hook(part: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def hook(*args: Any, **kwargs: Any) -> Any:
        frame = top()
        if frame is None or frame.idle:
            return original(*args, **kwargs)
        return frame.plan.optimizing(part, original, frame, args, kwargs)

    return hook


def _point(target: str) -> Point:
    """The method of a class, below the decorators that it may have."""
    module, kind, name = target.split(".")
    owner = getattr(getattr(paddle, module), kind)
    path = f"paddle.{target}"

    def look() -> PyFunctionPatch | None:
        function = python_function(owner, name)
        if function is None:
            return None
        patch = PyFunctionPatch(function, path)
        patch.set_hook(_hook(f"{kind}.{name}", patch.original))
        return patch

    return awaiting(path, look, owner, name)


def points() -> list[Point]:
    """All of them."""
    return [_point(part) for part in _PARTS]
