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

    def of(self, framework: str, dtype: str, *, double: bool, step: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments for one call; ``dtype`` of the model, ``double``: all floats as float64."""

        def change(value: Any) -> Any:
            plain = isinstance(value, (np.ndarray, np.generic))
            array = as_array(value)
            name = dtype if plain else str(value.dtype).rpartition(".")[2]
            if not np.issubdtype(array.dtype, np.floating):
                return _tensor(framework, array, "")
            return _tensor(framework, array, "float64" if double else name)

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


def _tensor(framework: str, array: np.ndarray[Any, Any], dtype: str) -> Any:
    """A tensor of an array's values; ``dtype``: rounded to it, "" as they are."""
    held = array.astype("float32" if dtype == "bfloat16" else dtype) if dtype else array
    made = torch.from_numpy(np.array(held)) if framework == "torch" else paddle.to_tensor(held)
    if dtype != "bfloat16":
        return made
    return made.to(torch.bfloat16) if framework == "torch" else made.astype("bfloat16")
