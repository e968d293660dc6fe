"""Paddle's autocast (``paddle.amp.auto_cast``) applied to a substituted call.

Natively the casts happen in C++ before the kernel (``paddle/fluid/imperative/amp_utils.h``, ``GetAmpDestDtype``). The algorithm is
restated here; the casts themselves run inside the reference's torch graph, so gradients return in the original dtypes.
On CPU tensors autocast always yields float32, as in C++.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddle.base import core

from . import versions

_CASTABLE = frozenset({"float16", "bfloat16", "float32"})
_KEEPS_WEIGHTS = frozenset({"layer_norm", "batch_norm", "sync_batch_norm"})
_FOLLOWS_FIRST_INPUT = _KEEPS_WEIGHTS | {"moving_average_abs_max_scale"}


def active(tracer: Any) -> bool:
    """Whether autocast is on in this thread."""
    # The dtype first: reading it costs a third of comparing the level.
    return tracer._amp_dtype != "float32" and tracer._amp_level != core.AmpLevel.O0


def _unsupported(name: str, dtype: str) -> bool:
    """Whether the op has no GPU kernel in ``dtype`` (``core.op_supported_infos``)."""
    _, _, names = core.op_supported_infos("GPU", getattr(core.VarDesc.VarType, {"float16": "FP16", "bfloat16": "BF16"}[dtype]))
    return name in names


def destination(tracer: Any, name: str, dtypes: Sequence[str], *, on_accelerator: bool) -> str:
    """The dtype to which C++ autocast would cast the float inputs of op ``name``.

    Args:
        tracer: Paddle's dygraph tracer (level, dtype, lists, promotion flag).
        name: the op's name in the autocast lists (``matmul_v2``, ``elementwise_add``...).
        dtypes: dtype names of the tensor inputs, in order.
        on_accelerator: whether any input is on a GPU.
    """
    target: str = tracer._amp_dtype
    white, black = tracer._get_amp_op_list()
    low = _CASTABLE - {"float32"} if versions.IS_3 else {"float16"}
    if tracer._amp_level == core.AmpLevel.O2 and not getattr(tracer, "_use_promote", True):
        chosen = "float32" if name in black else target
    elif name in white:
        chosen = target
    elif name in black or tracer._amp_level == core.AmpLevel.OD:
        chosen = "float32"
    elif name in _FOLLOWS_FIRST_INPUT and target in low:
        chosen = "float32" if dtypes[0] == "float32" else target
    else:
        chosen = "float32" if "float32" in dtypes else target
    if chosen == target and target != "float32" and _has_lists() and _unsupported(name, target):
        chosen = "float32"
    return chosen if on_accelerator else "float32"


def _has_lists() -> bool:
    """A CPU wheel has no GPU kernels to list: every op would count as unsupported."""
    return bool(core.is_compiled_with_cuda())


def casts(name: str, destination_dtype: str, dtypes: Sequence[str]) -> list[str | None]:
    """Per input the dtype it is cast to, or None if it is left alone."""
    return [
        destination_dtype if dtype in _CASTABLE and dtype != destination_dtype and not (index and name in _KEEPS_WEIGHTS) else None
        for index, dtype in enumerate(dtypes)
    ]
