"""The arguments of a call that creates a tensor from numbers alone, as Torch's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import paddle
import torch

from ..frameworks.memory import torch_dtype
from ..table import reasons
from ..table.reasons import StayNative


def _number(value: Any) -> Any:
    """A number, which Paddle also takes as a tensor of one element."""
    return value.item() if isinstance(value, paddle.Tensor) else value


def _shape(shape: Any) -> tuple[int, ...]:
    """A shape: a tensor, or a sequence of numbers and tensors of one element."""
    sizes = shape.tolist() if isinstance(shape, paddle.Tensor) else shape
    return tuple([int(_number(size)) for size in (sizes if isinstance(sizes, (list, tuple)) else [sizes])])


def _dtype(dtype: Any) -> torch.dtype:
    """A dtype; Paddle's default where the call names none."""
    found = torch_dtype(paddle.get_default_dtype() if dtype is None else dtype)
    if found is None:
        raise StayNative(reasons.NO_TWIN, dtype=dtype)
    return found


def _device(place: Any) -> torch.device:
    """Torch's device of a place."""
    place = paddle.base.framework._current_expected_place() if place is None else place
    found = _PLACE.fullmatch(str(place))
    if found is None:
        raise StayNative(reasons.PLACE, place=place)
    kind, index = found.groups()
    return torch.device("cpu") if kind == "cpu" else torch.device("cuda", int(index or 0))


_PLACE = re.compile(r"Place\((cpu|gpu)(?::(\d+))?\)")


def _parameter(var: Any) -> torch.Tensor:
    """Somewhere to draw a parameter's values, which has no memory yet."""
    if getattr(var, "is_dist", bool)():
        raise StayNative(reasons.DISTRIBUTED)
    return torch.empty(_shape(var.shape), dtype=_dtype(var.dtype), device=_device(None))


# By the names of parameters.
_READERS: dict[str, Callable[[Any], Any]] = {"shape": _shape, "dtype": _dtype, "place": _device, "var": _parameter}


def readers(names: Sequence[str]) -> list[Callable[[Any], Any]]:
    """For each parameter of an op without operands what makes Torch's argument of Paddle's."""
    return [_READERS.get(name, _number) for name in names]
