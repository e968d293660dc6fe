"""Tensors of a batch's arrays, floats in the dtype of a model: NumPy has no bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import torch


def paddle_batch(model: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What a Paddle model is called with."""
    dtype = model.parameters()[0].dtype
    tensors = {name: paddle.to_tensor(array) for name, array in arrays.items()}
    return {
        name: tensor.astype(dtype) if dtype == paddle.bfloat16 and tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def torch_batch(model: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What a Torch model is called with."""
    dtype = next(model.parameters()).dtype
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return {
        name: tensor.to(dtype) if dtype is torch.bfloat16 and tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def array_of(tensor: Any) -> np.ndarray:
    """The values of a tensor of either framework; those of bfloat16 as float32."""
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.detach()
        return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return (tensor.astype("float32") if tensor.dtype == paddle.bfloat16 else tensor).numpy()
