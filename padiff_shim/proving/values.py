"""Inputs as arrays, and arrays as tensors of either framework."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import ArgumentError, described
from ..trees import as_array, leaves, mapped


class Inputs:
    """What a model is called with: positional and keyword arguments, made anew for each run.

    Args:
        given: an array or tensor; a tuple or list of arguments; a dict of keyword arguments; or a function of ``"paddle"`` or
            ``"torch"``, and of the number of the step if it takes two, that returns one of these. Plain arrays of floats get the
            models' dtype, tensors keep theirs.
    """

    def __init__(self, given: Any) -> None:
        if not callable(given) and not leaves(given):
            raise ArgumentError(
                "inputs= is an array or tensor, a tuple or dict of them, or a function of 'paddle' or 'torch' that returns one; "
                f"got {described(given)}"
            )
        self._given = given
        self.changing = callable(given) and _takes_two(given)  # another batch for each step of a training

    def of(self, framework: str, dtype: np.dtype[Any], *, double: bool, step: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments for one call; ``dtype`` of the model, ``double``: all floats as float64."""

        def change(value: Any) -> Any:
            plain = isinstance(value, (np.ndarray, np.generic))
            array = as_array(value)
            if np.issubdtype(array.dtype, np.floating) and (plain or double):
                array = array.astype(np.float64 if double else dtype)
            if framework == "torch":
                tensor = torch.from_numpy(np.array(array))
                return tensor.to(value.dtype) if isinstance(value, torch.Tensor) and not double else tensor
            bfloat = not plain and not double and str(value.dtype).endswith("bfloat16")
            tensor = paddle.to_tensor(array)
            return tensor.astype("bfloat16") if bfloat else tensor

        asked = (framework, step) if self.changing else (framework,)
        given = self._given(*asked) if callable(self._given) else self._given
        changed = mapped(given, change)
        if isinstance(changed, Mapping):
            return (), dict(changed)
        return (tuple(changed) if isinstance(changed, (list, tuple)) else (changed,)), {}


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function has to be called with two arguments, or may."""
    try:
        inspect.signature(function).bind("torch", 0)
    except TypeError:
        return False
    except ValueError:  # a built-in function without signature
        return False
    return True
