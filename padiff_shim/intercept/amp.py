"""Interception of Paddle's automatic mixed precision, which switches itself off on a CPU.

``auto_cast``, ``decorate`` and ``GradScaler`` ask the tracer for its place first. They look the tracer up by a name of their module
at each call, so that name is exchanged: in a mode that computes with Torch the tracer says that it is on an accelerator. Levels,
lists, errors and what is restored are Paddle's own code.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..dispatch.frames import Frame, below
from ..frameworks import autocast
from ..frameworks.autocast import grad_tracer, unscale_
from ..frameworks.memory import PADDLE_DTYPES
from ..frameworks.torch_state import undisturbed
from ..frameworks.versions import PaddleTracer
from ..language import logged
from ..patching.functions import AttributePatch
from ..patching.patcher import Point
from .locate import calling, function_point, point, present

# ``paddle.amp.auto_cast`` is the function: the module is found by its name alone.
_GUARDS, _SCALERS = (sys.modules[f"paddle.amp.{name}"] for name in ("auto_cast", "grad_scaler"))
# Without capabilities to ask for: these functions ask CUDA, which a CPU wheel does not have.
_HALVES = frozenset({PADDLE_DTYPES["float16"], PADDLE_DTYPES["bfloat16"]})
_CAPABLE = ("_is_gpu_float16_supported", "_is_gpu_bfloat16_supported")
_LEVELS = frozenset({"OD", "O1", "O2"})  # which cast
_UNSCALE = "paddle._legacy_C_ops.check_finite_and_unscale"
_STAYS_OFF = logged(
    "automatic mixed precision stays off: on a CPU Paddle's auto_cast, decorate and GradScaler do "
    'nothing, and a comparison runs Paddle\'s own kernels. reference("torch") makes them act '
    "(docs/run.md)"
)
_ENTERED_BEFORE = logged(
    "automatic mixed precision stays off: auto_cast was entered before this mode, and Paddle "
    "switched it off on this CPU; enter it inside the mode (docs/run.md)"
)
_DISABLED = logged(
    "a GradScaler does not scale: it was made with enable=False, or outside of reference mode, where "
    "Paddle disables it on a CPU; make it inside the mode (docs/run.md)"
)


def points() -> list[Point]:
    """One for each name that is exchanged."""
    # The tracer's level as Paddle's Python code reads it (recompute, say), beside the one that C++ reads
    patch = AttributePatch(autocast.LEVEL_OWNER, "_amp_level", "paddle.base.core.Tracer._amp_level")
    patch.rests = False
    patch.hooked = property(autocast.level, autocast.set_level, doc=autocast.NATIVE_LEVEL.__doc__)
    return [
        *map(_tracer, (_GUARDS, _SCALERS)),
        *(
            function_point(_GUARDS, name, f"{_GUARDS.__name__}.{name}", lambda original: lambda: _acts() or original())
            for name in _CAPABLE
            if hasattr(_GUARDS, name)
        ),
        patch,
        *present(
            point("paddle.amp.AmpScaler.scale", calling(_scale)),
            point("paddle.amp.AmpScaler._update", calling(_update)),
            point(_UNSCALE, calling(_unscale)),
        ),
    ]


def entered_before(frame: Frame) -> list[str]:
    """What the run of a mode that is about to open has to say of a guard that was entered outside of it."""
    options, tracer = _GUARDS.amp_state() or {}, grad_tracer()
    if tracer is None or not options.get("enable") or autocast.active(tracer):
        return []
    level, dtype = str(options["level"]).upper(), str(options["dtype"]).rpartition(".")[2].lower()
    if level not in _LEVELS or dtype not in autocast.LOW:  # Paddle keeps the state of a guard that it refuses to enter as well
        return []
    if not tracer._expected_place.is_cpu_place() or frame.observes or autocast.HERE.depth:
        return []
    return [_ENTERED_BEFORE if frame.plan.autocasts else _STAYS_OFF]


def _tracer(module: Any) -> Point:
    """The name by which a module looks up the tracer. The function behind it is everybody's, and stays as it is."""
    patch = AttributePatch(module, "_dygraph_tracer", f"{module.__name__}._dygraph_tracer")
    patch.rests = False
    hook = _guarded(patch.original)
    hook.__annotations__ = {}  # as the native one
    patch.set_hook(hook)
    return patch


def _guarded(original: Callable[[], Any]) -> Callable[[], Any]:
    def _dygraph_tracer() -> Any:
        tracer, frame = original(), below()
        if tracer is None or frame is None or frame.idle or frame.aside or not tracer._expected_place.is_cpu_place():
            return tracer
        if frame.plan.autocasts:
            return autocast.Guarded(tracer, lambda: _ON_GPU)
        return autocast.Guarded(tracer, lambda: _said(frame, tracer))

    return _dygraph_tracer


def _said(frame: Frame, tracer: PaddleTracer) -> Any:
    """The tracer's own place, which only a guard asks for that is to be enabled."""
    frame.run.warn(_STAYS_OFF)
    return tracer._expected_place


_ON_GPU = SimpleNamespace(
    is_gpu_place=lambda: True, is_xpu_place=lambda: False, is_custom_place=lambda: False, is_cpu_place=lambda: False
)


def _acts() -> bool:
    """Whether mixed precision acts on a CPU here."""
    frame = below()
    return frame is not None and frame.plan.autocasts and grad_tracer()._expected_place.is_cpu_place()


_scaled: weakref.WeakSet[Any] = weakref.WeakSet()  # scalers that were enabled: Paddle disables those that get no float16


def _scale(original: Callable[..., Any], scaler: Any, var: Any) -> Any:
    frame = below()
    if scaler._enable:
        _scaled.add(scaler)
    elif frame is not None and scaler not in _scaled and _acts():
        frame.run.warn(_DISABLED)
    return original(scaler, var)


def _update(original: Callable[..., Any], scaler: Any) -> Any:
    """Paddle prints the scale, of shape [1], as a float where it lowers it. NumPy refuses that from 2.4 on, but not of shape []."""
    if below() is None or not scaler._enable:
        return original(scaler)
    shape = scaler._scale.shape
    scaler._scale = scaler._scale.reshape([])
    try:
        return original(scaler)
    finally:
        scaler._scale = scaler._scale.reshape(shape)


@undisturbed
def _unscale(original: Callable[..., Any], *args: Any) -> Any:
    gradients, scale, _, has_infinity = args[:4]
    if _acts() and gradients and gradients[0].dtype in _HALVES:
        return unscale_(gradients, scale, has_infinity)
    return original(*args)
