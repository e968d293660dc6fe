"""The initial weights of Paddle's layers by Torch's definition, for layers without an initializer of their own.

Paddle's Linear begins with Xavier's numbers and a bias of zeros, Torch's with others. A layer's own constructor asks for each
parameter by ``Layer.create_parameter``; there Torch's default takes the place of Paddle's, in a mode that wants it. What the
program chose, an initializer or a global one, stands.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import paddle
from paddle.nn import initializer

from ..catalogue.registry import INITIAL_WEIGHTS
from ..dispatch.frames import Frame, top
from ..language import logged
from ..patches.initializer import LAYERS, first_bound, other_bound
from ..patching.patcher import Point
from .locate import point, present

_DEPTH = 5  # frames up to the constructor: our own, and Paddle's decorators
_TOGETHER = logged(
    "initial weights of MultiHeadAttention are Paddle's: Torch has those of queries, keys and values "
    "in one weight, and draws them together; transfer_weights carries a twin's across"
)


def points() -> list[Point]:
    """One."""
    return present(point("paddle.nn.Layer.create_parameter", lambda patch: _creating(patch.original)))


def _creating(original: Callable[..., Any]) -> Callable[..., Any]:
    names = original.__code__.co_varnames[: original.__code__.co_argcount]
    default, bias = names.index("default_initializer"), names.index("is_bias")

    def hook(*args: Any) -> Any:
        frame = top()
        if frame is None or frame.idle or INITIAL_WEIGHTS not in getattr(frame.plan, "torchs", ()):
            return original(*args)
        kind = _constructing(frame)
        if kind is None or not paddle.in_dynamic_mode():
            return original(*args)
        chosen = _torchs(kind, args[0], args[1], bias=args[bias])
        return original(*args[:default], chosen, *args[default + 1 :])

    return hook


@functools.cache
def _constructors() -> dict[CodeType, str]:
    """The code of Paddle's own constructors -> how Torch fills the layer's parameters."""
    kinds = {}
    for name, kind in LAYERS.items():
        layer = getattr(paddle.nn, name)
        bases = layer.__mro__[: -len(paddle.nn.Layer.__mro__)]
        constructing = next(base for base in reversed(bases) if "__init__" in vars(base))  # of convolutions one for all
        kinds[_constructor(constructing)] = kind
    return kinds


def _constructor(layer: type) -> CodeType:
    function = vars(layer)["__init__"]
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function.__code__


def _constructing(frame: Frame) -> str | None:
    """The kind of the layer whose constructor asks, None where a program's own layer does."""
    codes = list(_callers())
    kind = next((_constructors()[code] for code in codes[:_DEPTH] if code in _constructors()), None)
    if kind is not None and _constructor(paddle.nn.MultiHeadAttention) in codes:
        frame.run.warn(_TOGETHER)
        return None
    return kind


def _callers() -> Iterator[CodeType]:
    """The code of the functions that led to the hook, the innermost first."""
    place = sys._getframe(3)
    for _ in range(2 * _DEPTH):
        if place is None:
            return
        yield place.f_code
        place = place.f_back  # type: ignore[assignment]


def _torchs(kind: str, layer: Any, shape: Any, *, bias: bool) -> Any:
    """Torch's own initializer of a parameter of this shape."""
    if kind == "normal":
        return initializer.Normal(0.0, 1.0)
    weight = list(layer.weight.shape if bias else shape)
    incoming = weight[0] if kind == "transposed" else weight[1] if kind == "first" else math.prod(weight[1:])
    if not incoming:
        return initializer.Constant(0.0)
    bound = other_bound(incoming) if bias or kind == "first" else first_bound(incoming)
    return Transposed(bound) if kind == "transposed" and not bias else initializer.Uniform(-bound, bound)


class Transposed(initializer.Initializer):
    """Numbers from [-bound, bound) for the weight of a Linear, drawn in the order in which Torch's weight [out, in] lies."""

    def __init__(self, bound: float) -> None:
        super().__init__()
        self._bound = bound

    def forward(self, var: Any, block: Any = None) -> None:
        """Fill a parameter [in, out]."""
        drawn = paddle.uniform(list(var.shape)[::-1], dtype=var.dtype, min=-self._bound, max=self._bound)
        paddle.assign(drawn.t())._share_underline_tensor_to(var)
