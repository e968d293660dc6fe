"""Paddle's autocast (``paddle.amp.auto_cast``) applied to a substituted call, on a CPU as on a GPU.

Natively the casts happen in C++ before the kernel (``paddle/fluid/imperative/amp_utils.h``, ``GetAmpDestDtype``). The algorithm is
restated here; the lists are read from Paddle's tracer. The casts themselves run inside the reference's torch graph, so gradients
return in the original dtypes.

On CPU tensors the C++ yields float32 whatever the lists say, even for a view. So a guard that acts on a CPU leaves the level of
Paddle's tracer at O0, where C++ casts nothing, and its own level is kept here, for each thread (:class:`Guarded`). Dtype and lists
are the tracer's own in both cases.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import paddle
import torch
from paddle.amp.auto_cast import _update_list
from paddle.base import core

from ..torch_versions import unscale_with
from . import versions
from .memory import to_torch
from .versions import PaddleTracer

# Paddle's dygraph tracer, or None: grad mode and autocast state (thread-local inside).
grad_tracer: Callable[[], Any] = paddle.base.framework._dygraph_tracer
OFF = core.AmpLevel.O0
_CASTABLE = frozenset({"float16", "bfloat16", "float32"})
LOW = _CASTABLE - {"float32"}
_KEEPS_WEIGHTS = frozenset({"layer_norm", "batch_norm", "sync_batch_norm"})
_FOLLOWS_FIRST_INPUT = _KEEPS_WEIGHTS | {"moving_average_abs_max_scale"}

# Paddle's own property of the tracer: what C++ reads.
LEVEL_OWNER: type = next(kind for kind in core.Tracer.__mro__ if "_amp_level" in vars(kind))
NATIVE_LEVEL: Any = vars(LEVEL_OWNER)["_amp_level"]


class _GuardState(threading.local):
    """The guards of this thread that act on a CPU."""

    level: Any = None  # the innermost one's level; None where there is none
    on = False  # whether that is another than O0
    depth = 0  # how many there are


HERE = _GuardState()


def level(tracer: PaddleTracer) -> Any:
    """The level that the program has set in this thread."""
    return NATIVE_LEVEL.fget(tracer) if HERE.level is None else HERE.level


def set_level(tracer: PaddleTracer, value: Any) -> None:
    """Set the level of the innermost guard, whichever kind that is."""
    if HERE.level is None:
        NATIVE_LEVEL.fset(tracer, value)
    else:
        _act(value)


def _act(value: Any) -> None:
    HERE.level, HERE.on = value, value is not None and value != OFF


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """Paddle's autocast casts nothing inside."""
    tracer = grad_tracer()
    level_before = tracer._amp_level
    tracer._amp_level = OFF
    try:
        yield
    finally:
        tracer._amp_level = level_before


@contextlib.contextmanager
def torch_autocast(dtype: torch.dtype) -> Iterator[None]:
    """Torch's own autocast for CPU tensors, whose cache of cast weights stays for the calls to come."""
    before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    try:
        torch.set_autocast_dtype("cpu", dtype)
        torch.set_autocast_enabled("cpu", True)
        yield
    finally:
        torch.set_autocast_enabled("cpu", before[0])
        torch.set_autocast_dtype("cpu", before[1])


class Guarded:
    """Paddle's tracer as one of its guards gets it that acts on a CPU: it says that it is on an accelerator.

    A guard sets the level when it is entered, and once more when it is left, with this very object, whether or not the mode is open
    by then. So the state is the thread's, and is as before when the guard has been left.
    """

    __slots__ = ("_before", "_place", "_tracer")

    def __init__(self, tracer: PaddleTracer, place: Any) -> None:
        for name, value in (("_tracer", tracer), ("_place", place), ("_before", None)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "_expected_place":
            return self._place()
        return level(self._tracer) if name == "_amp_level" else getattr(self._tracer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_amp_level":
            setattr(self._tracer, name, value)
        elif self._before is None:
            object.__setattr__(self, "_before", (HERE.level,))
            HERE.depth += 1
            _act(value)
        else:
            _act(*self._before)
            object.__setattr__(self, "_before", None)
            HERE.depth -= 1
            if not HERE.depth:
                torch.clear_autocast_cache()  # as Torch does at the end of its outermost autocast


def active(tracer: PaddleTracer) -> bool:
    """Whether autocast is on in this thread."""
    # The dtype first: reading it costs a third of comparing the level.
    return tracer._amp_dtype != "float32" and level(tracer) != OFF


def _unsupported(name: str, dtype: str) -> bool:
    """Whether the op has no GPU kernel in ``dtype`` (``core.op_supported_infos``); a CPU wheel has none to list."""
    _, _, names = core.op_supported_infos("GPU", getattr(core.VarDesc.VarType, {"float16": "FP16", "bfloat16": "BF16"}[dtype]))
    return name in names


def destination(tracer: PaddleTracer, name: str, dtypes: Sequence[str], *, on_accelerator: bool) -> str:
    """The dtype to which C++ autocast would cast the float inputs of op ``name``.

    Args:
        tracer: Paddle's dygraph tracer (level, dtype, lists, promotion flag).
        name: the op's name in the autocast lists (``matmul_v2``, ``elementwise_add``...).
        dtypes: dtype names of the tensor inputs, in order.
        on_accelerator: whether any input is on a GPU, or the guard acts on a CPU.
    """
    target: str = tracer._amp_dtype
    white, black = tracer._get_amp_op_list()
    low = LOW if versions.IS_3 else {"float16"}
    chosen_level = level(tracer)
    if chosen_level == core.AmpLevel.O2 and not getattr(tracer, "_use_promote", True):
        chosen = "float32" if name in black else target
    elif name in white:
        chosen = target
    elif name in black or chosen_level == core.AmpLevel.OD:
        chosen = "float32"
    elif name in _FOLLOWS_FIRST_INPUT and target in low:
        chosen = "float32" if dtypes[0] == "float32" else target
    else:
        chosen = "float32" if "float32" in dtypes else target
    if chosen == target and target != "float32" and core.is_compiled_with_cuda() and _unsupported(name, target):
        chosen = "float32"
    return chosen if on_accelerator else "float32"


ATTENTION = "flash_attn"  # the kernel of a fused attention, as the lists call it


@functools.cache
def fuses_bias() -> bool:
    """Whether Paddle adds the bias of a Linear on a GPU within the product: it lists such a kernel."""
    return "linear_v2" in _update_list(None, None, "O1", "float16")[0]


def listed_by_program(tracer: PaddleTracer) -> set[str]:
    """What the guard's own lists say otherwise than Paddle's."""
    usual_lists = _update_list(None, None, level(tracer).name, tracer._amp_dtype)
    return set().union(*(now ^ usual for now, usual in zip(tracer._get_amp_op_list(), usual_lists)))


def keeps_low(tracer: PaddleTracer) -> bool:
    """Whether hardly an op is cast back to float32: at O2 the black list has but a few."""
    return bool(level(tracer) == core.AmpLevel.O2)


def spreads(tracer: PaddleTracer) -> bool:
    """Whether ops in neither list are cast, whatever their operands are."""
    now = level(tracer)
    return bool(now == core.AmpLevel.OD or (now == core.AmpLevel.O2 and not getattr(tracer, "_use_promote", True)))


def casts(name: str, destination_dtype: str, dtypes: Sequence[str]) -> list[str | None]:
    """Per input the dtype it is cast to, or None if it is left alone: the weights of some ops go to float32, and never below."""
    keeps = name in _KEEPS_WEIGHTS and destination_dtype in LOW
    return [
        destination_dtype if dtype in _CASTABLE and dtype != destination_dtype and not (index and keeps) else None
        for index, dtype in enumerate(dtypes)
    ]


def unscale_(gradients: Sequence[Any], scale: Any, has_infinity: Any) -> None:
    """Divide Paddle gradients by the scale, in place, as Torch's GradScaler does: Paddle has no such kernel for the CPU.

    Args:
        gradients: tensors of float16 or bfloat16 on the CPU.
        scale: the scale, a tensor of one float32.
        has_infinity: a tensor of one bool, which becomes whether a gradient has an infinity or NaN.
    """
    flag = torch.zeros(1)
    inverse = to_torch(scale).double().reciprocal().float()  # as torch.amp.GradScaler.unscale_
    for dtype in (torch.float16, torch.bfloat16):
        sides = [side for side in map(to_torch, gradients) if side.dtype is dtype]
        if sides:
            unscale_with(sides, flag, inverse)
    has_infinity.set_value(np.array([bool(flag.item())]))
