"""Inputs as arrays, and arrays as tensors of either framework."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import ArgumentError, described
from ..frameworks.memory import FLOATS, to_torch
from ..trees import as_array, copied, leaves, mapped
from .arrays import Array


def in_place(tensor: Any) -> Array:
    """A dense tensor's values where they lie, if an array can show them there: for as long as nobody writes them."""
    lies = isinstance(tensor, paddle.Tensor) and tensor.place.is_cpu_place() and tensor.is_dense() and tensor.dtype in FLOATS
    if not lies or tensor.dtype is paddle.bfloat16:
        return as_array(tensor)
    return as_array(to_torch(tensor.detach()))


class Inputs:
    """What a model is called with: positional and keyword arguments, made anew for each run.

    Args:
        given: an array or tensor; a tuple or list of arguments; a dict of keyword arguments; or a function of ``"paddle"`` or
            ``"torch"``, and of the number of the step if it takes two, that returns one of these. Plain arrays of floats get the
            models' dtype, tensors keep theirs.
        dtype: of all floats, tensors' too; "" as above.
    """

    def __init__(self, given: Any, dtype: str = "") -> None:
        if not callable(given) and not leaves(given):
            raise ArgumentError(
                "inputs= is an array or tensor, a tuple or dict of them, or a function of 'paddle' or 'torch' that returns one; "
                f"got {described(given)}"
            )
        self._given, self._dtype = given, dtype
        self._dtypes: dict[int, str] = {}  # by the identity of a kept array: that of the tensor it was
        self._alike = not callable(given)
        if self._alike:  # as it is now, whatever becomes of it
            self._given = mapped(given, self._kept)
        self.changing = callable(given) and _takes_two(given)  # another batch for each step of a training

    def _kept(self, value: Any) -> np.ndarray[Any, Any]:
        array = copied(value)
        self._dtypes[id(array)] = _dtype_of(value)
        self._alike = self._alike and array.dtype.name in _IN_BOTH
        return array

    def equal_in(self, one: str, other: str) -> bool:
        """Whether models of these dtypes are given the same, without having to look: both are made of the same arrays."""
        return one == other and self._alike

    def of(
        self, framework: str, dtype: str, *, wide: str = "", step: int = 0, device: str = "cpu"
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments for one call; ``dtype`` of the model, ``wide``: of all floats, "" as they are. ``device``: where Torch's lie.

        Paddle's lie on the device that ``paddle.set_device`` has chosen.
        """

        def change(value: Any) -> Any:
            array = as_array(value)
            if array.dtype.kind != "f":
                return _tensor(framework, array, "", device)
            name = self._dtype or (self._dtypes[id(value)] if id(value) in self._dtypes else _dtype_of(value))
            return _tensor(framework, array, wide or name or dtype, device)

        asked = (framework, step) if self.changing else (framework,)
        given = self._given(*asked) if callable(self._given) else self._given
        changed = mapped(given, change)
        if isinstance(changed, Mapping):
            return (), dict(changed)
        return (tuple(changed) if isinstance(changed, (list, tuple)) else (changed,)), {}


# Arrays that both frameworks take for what they are; uint16 is Paddle's bfloat16.
_IN_BOTH = frozenset({
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128",
})  # fmt: skip


def _dtype_of(value: Any) -> str:
    """The dtype that a tensor keeps; "" for an array, which gets the model's."""
    return "" if isinstance(value, (np.ndarray, np.generic)) else str(value.dtype).rpartition(".")[2]


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function has to be called with two arguments, or may."""
    try:
        inspect.signature(function).bind("torch", 0)
    except TypeError:
        return False
    except ValueError:  # a built-in function without signature
        return False
    return True


def _tensor(framework: str, array: np.ndarray[Any, Any], dtype: str, device: str) -> Any:
    """A tensor of an array's values; ``dtype``: rounded to it, "" as they are."""
    held = array.astype("float32" if dtype == "bfloat16" else dtype) if dtype else array
    made = torch.from_numpy(np.array(held)).to(device) if framework == "torch" else paddle.to_tensor(held)
    if dtype != "bfloat16":
        return made
    return made.to(torch.bfloat16) if framework == "torch" else made.astype("bfloat16")
