"""The fields of a call's record that are known before any verdict: plain strings, numbers and lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..dispatch import site
from ..frameworks import autocast
from ..frameworks.memory import dtype_of, grad_tracer


def strides_kind(tensor: torch.Tensor) -> str:
    """How a tensor lies in memory: contiguous, transposed (its last two axes exchanged), broadcast (a stride of 0) or strided."""
    if tensor.is_contiguous():
        return "contiguous"
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        return "broadcast"
    return "transposed" if tensor.ndim > 1 and tensor.mT.is_contiguous() else "strided"


def operand(name: str, value: Any) -> dict[str, Any] | None:
    """One operand: name, shape, dtype, strides; or the number; None if absent."""
    if isinstance(value, torch.Tensor):
        return {"name": name, "shape": list(value.shape), "dtype": dtype_of(value.dtype), "strides": strides_kind(value)}
    return None if value is None else {"name": name, "number": value}


def operands(names: Sequence[str], values: Sequence[Any], *, sequence: bool) -> list[dict[str, Any]]:
    """All operands; those of an op over a sequence of tensors are numbered."""
    labels = [f"{names[0]}[{index}]" for index in range(len(values))] if sequence else names
    return [found for name, value in zip(labels, values) if (found := operand(name, value)) is not None]


def plain(value: Any) -> Any:
    """An attribute as JSON can hold it."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def autocast_state() -> str:
    """``"off"``, or level and dtype: ``"O1:bfloat16"``."""
    tracer = grad_tracer()
    return f"{tracer._amp_level.name}:{tracer._amp_dtype}" if autocast.active(tracer) else "off"


def where(step: int) -> dict[str, Any]:
    """Site, layer, step and training mode of the call that is running."""
    found = site.call_site()
    return {
        "site": str(found),
        "file": found.file,
        "line": found.line,
        "layer": site.layer_path(),
        "step": step,
        "train": site.in_training(),
    }
