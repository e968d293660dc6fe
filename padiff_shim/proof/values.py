"""Inputs as arrays, arrays as tensors of either framework, and whether two arrays are equal or how far apart."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import ArgumentError, described
from ..frameworks.memory import FLOATS, to_torch
from ..trees import as_array, copied, leaves, mapped

# ---- Two arrays of values: whether they are one bit for bit, and how far they are apart.

Array = np.ndarray[Any, Any]


def same_bits(array: Array, other: Array) -> bool:
    """Whether two arrays are one: shape, dtype and bytes."""
    if array.shape != other.shape or array.dtype != other.dtype:
        return False
    whole = _WHOLE.get(array.dtype.itemsize) if array.size > _FEW else None
    if whole is None:
        return array.tobytes() == other.tobytes()
    return all(bool((part == another).all()) for part, another in _parts(array.view(whole), other.view(whole)))


def _parts(array: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Both arrays piece by piece, of which each stays in a processor's cache, also where matrices lie otherwise in memory."""
    if array.ndim == 2 and array.strides != other.strides:
        for row in range(0, array.shape[0], _SIDE):
            for column in range(0, array.shape[1], _SIDE):
                tile = slice(row, row + _SIDE), slice(column, column + _SIDE)
                yield array[tile], other[tile]
        return
    turned = array.ndim == 2 and array.flags.f_contiguous and other.flags.f_contiguous
    flat, opposite = ((side.T if turned else side).reshape(-1) for side in (array, other))
    for begin in range(0, flat.size, _PIECE):
        yield flat[begin : begin + _PIECE], opposite[begin : begin + _PIECE]


_FEW = 4096  # elements, of which copies as bytes are compared sooner
_SIDE = 256  # of a tile
_PIECE = 1 << 15  # elements
_WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # bytes of an element -> whole numbers of the same bits


def apart(array: Array, other: Array) -> str:
    """How two arrays differ, in words."""
    if array.shape != other.shape:
        return f"shapes {list(array.shape)} and {list(other.shape)}"
    return f"largest difference {largest(array, other):.3g}"


def largest(array: Array, other: Array) -> float:
    """The largest difference of two arrays of one shape; infinite where only one is finite."""
    if not array.size or same_bits(array, other):
        return 0.0
    wide = np.complex128 if np.iscomplexobj(array) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        most = [float(np.abs(np.subtract(*part, dtype=wide)).max()) for part in _parts(array, other)]
        if math.isfinite(sum(most)):
            return max(most)
        between = np.abs(np.subtract(array, other, dtype=wide))
    between = np.where((array == other) | ((array != array) & (other != other)), 0.0, between)
    return float(np.where(between == between, between, np.inf).max())


def size(array: Array) -> float:
    """The largest element that is finite, without its sign."""
    if array.dtype.kind == "f" and array.size:
        most = max(float(array.max()), -float(array.min()))
        if math.isfinite(most):
            return most
    return float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))


def largests(pairs: Sequence[tuple[Array, Array]]) -> list[float | None]:
    """:func:`largest` of many pairs, each of one shape; None where the bits are the same.

    Pairs of few elements are laid end to end, for each call of NumPy's costs more than they.
    """
    differences: list[float | None] = [None] * len(pairs)
    waiting: list[int] = []
    elements = 0
    for place, (array, other) in enumerate(pairs):
        if same_bits(array, other):
            continue
        if array.dtype.kind == "f" and other.dtype.kind == "f" and 0 < array.size <= _PIECE:
            waiting.append(place)
            elements += array.size
        else:
            differences[place] = largest(array, other)
        if elements > _PIECE:
            _together(pairs, waiting, differences)
            waiting, elements = [], 0
    _together(pairs, waiting, differences)
    return differences


def _together(pairs: Sequence[tuple[Array, Array]], places: list[int], differences: list[float | None]) -> None:
    """Fill in the largest differences of these pairs."""
    if not places:
        return
    flat, opposite = (
        np.concatenate([pairs[place][side].reshape(-1) for place in places], dtype=np.float64, casting="same_kind")
        for side in (0, 1)
    )
    begins = np.cumsum([0, *(pairs[place][0].size for place in places[:-1])])
    with np.errstate(invalid="ignore", over="ignore"):
        most = np.maximum.reduceat(np.abs(np.subtract(flat, opposite, out=flat), out=flat), begins).tolist()
    for place, value in zip(places, most):
        differences[place] = value if math.isfinite(value) else largest(*pairs[place])


# ---- Inputs as arrays, and arrays as tensors of either framework.


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

    def __init__(self, source: Any, dtype: str = "") -> None:
        if not callable(source) and not leaves(source):
            raise ArgumentError(
                "inputs= is an array or tensor, a tuple or dict of them, or a function of 'paddle' or 'torch' that returns one; "
                f"got {described(source)}"
            )
        self._given, self._dtype = source, dtype
        self._dtypes: dict[int, str] = {}  # by the identity of a kept array: that of the tensor it was
        self._alike = not callable(source)
        if self._alike:  # as it is now, whatever becomes of it
            self._given = mapped(source, self._kept)
        self.changing = callable(source) and _takes_two(source)  # another batch for each step of a training

    def _kept(self, value: Any) -> np.ndarray[Any, Any]:
        array = copied(value)
        self._dtypes[id(array)] = _dtype_of(value)
        self._alike = self._alike and array.dtype.name in _IN_BOTH
        return array

    def equal_in(self, dtype: str, other: str) -> bool:
        """Whether models of these dtypes are given the same, without having to look: both are made of the same arrays."""
        return dtype == other and self._alike

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

        arguments = (framework, step) if self.changing else (framework,)
        values = self._given(*arguments) if callable(self._given) else self._given
        changed = mapped(values, change)
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
