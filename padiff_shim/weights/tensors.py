"""The values of weights: tensors of either framework and arrays, seen as Torch tensors over the same memory."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import ArgumentError
from ..frameworks.memory import to_torch
from .tree import Weight


def framework_of(tensor: Any) -> str | None:
    """``"torch"``, ``"paddle"`` or ``"numpy"``; None for anything else."""
    if isinstance(tensor, torch.Tensor):
        return "torch"
    if isinstance(tensor, paddle.Tensor):
        return "paddle"
    return "numpy" if isinstance(tensor, np.ndarray) else None


def weight_of(name: str, tensor: Any, framework: str, buffer: bool = False) -> Weight:
    """The description of a parameter, buffer or entry of a state dict."""
    _refuse(name, tensor)
    trainable = tensor.requires_grad if isinstance(tensor, torch.Tensor) else not _stopped(tensor)
    return Weight(name, tuple(map(int, tensor.shape)), dtype_name(tensor), buffer, bool(trainable), _memory(tensor))


def _stopped(tensor: Any) -> bool:
    return bool(getattr(tensor, "stop_gradient", True))


def dtype_name(tensor: Any) -> str:
    """The dtype in words of both frameworks. NumPy has no bfloat16; its uint16 stands for it, as in Paddle."""
    name = _name_of(tensor.dtype)
    return "bfloat16" if name == "uint16" and isinstance(tensor, np.ndarray) else name


@functools.cache
def _name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


_PLAIN = (torch.nn.Parameter, torch.Tensor)


def _refuse(name: str, tensor: Any) -> None:
    """Raise for what holds no plain values of its own."""
    why = None
    if isinstance(tensor, torch.Tensor):
        if tensor.is_meta:
            why = "lies on the meta device: it has no values"
        elif isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            why = "is not initialised yet: run the lazy module once"
        elif tensor.is_quantized or tensor.layout is not torch.strided:
            why = "is quantized or sparse"
        elif type(tensor) not in _PLAIN and hasattr(tensor, "device_mesh"):
            why = "is distributed"
    elif isinstance(tensor, paddle.Tensor):
        if getattr(tensor, "is_dist", bool)():
            why = "is distributed"
        elif tensor.is_sparse() or tensor.is_selected_rows():
            why = "is sparse"
        elif not tensor._is_initialized() and math.prod(tensor.shape):
            why = "is not initialised yet"
        elif not (tensor.place.is_cpu_place() or tensor.place.is_gpu_place()):
            why = f"lies on {tensor.place}, which Torch does not reach: move the layer to the CPU"
    elif not isinstance(tensor, np.ndarray):
        why = f"is a {type(tensor).__name__}, not a tensor"
    if why:
        raise ArgumentError(f"weight {name!r} {why}")


def _memory(tensor: Any) -> Any:
    """What is equal for two names of one tensor: where and how it lies in memory."""
    if not math.prod(tensor.shape):
        return id(tensor)
    if isinstance(tensor, np.ndarray):
        return tensor.__array_interface__["data"][0], tensor.shape, tensor.strides
    strides = tensor.stride() if isinstance(tensor, torch.Tensor) else tuple(tensor.strides)
    return tensor.data_ptr(), tuple(tensor.shape), tuple(strides)


def view(tensor: Any) -> torch.Tensor:
    """The memory of a tensor or array as a Torch tensor without a graph."""
    if isinstance(tensor, torch.Tensor):
        return tensor.detach()
    if isinstance(tensor, np.ndarray):
        held = torch.from_numpy(tensor) if tensor.flags.writeable else torch.from_numpy(tensor.copy())
        return held.view(torch.bfloat16) if tensor.dtype == np.uint16 else held
    return to_torch(tensor)


def synchronise() -> None:
    """Wait for both frameworks' devices, so that either may read what the other wrote."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    if paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count():
        paddle.device.cuda.synchronize()
