"""Tensors and arrays of either framework in tuples, lists and dicts; neither framework is imported for it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Tree = Any  # tensors or arrays in tuples, lists and dicts


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor of a framework that is imported."""
    for name in ("torch", "paddle"):
        kind = getattr(sys.modules.get(name), "Tensor", None)
        if kind is not None and isinstance(value, kind):
            return True
    return False


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) or is_tensor(value)


def mapped(tree: Tree, change: Callable[[Any], Any]) -> Tree:
    """``tree`` with each tensor and array changed; other values stand as they are."""
    if _is_leaf(tree):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        changed = [mapped(value, change) for value in tree]
        return type(tree)(*changed) if hasattr(tree, "_fields") else type(tree)(changed)
    return tree


def leaves(tree: Tree, path: str = "") -> list[tuple[str, Any]]:
    """(path, tensor or array) of everything in ``tree``, in its order; a model's own output class by its items or fields."""
    if _is_leaf(tree):
        return [(path, tree)]
    if isinstance(tree, Mapping) or hasattr(tree, "items"):
        items = [(f"{path}.{key}" if path else str(key), value) for key, value in tree.items()]
    elif hasattr(tree, "_fields"):  # a named tuple
        items = [(f"{path}.{name}" if path else name, getattr(tree, name)) for name in tree._fields]
    elif isinstance(tree, (list, tuple)):
        items = [(f"{path}[{place}]", value) for place, value in enumerate(tree)]
    elif hasattr(tree, "__dataclass_fields__"):
        items = [(f"{path}.{name}" if path else name, getattr(tree, name)) for name in tree.__dataclass_fields__]
    else:
        return []
    return [leaf for where, value in items for leaf in leaves(value, where)]


def as_array(tensor: Any) -> np.ndarray[Any, Any]:
    """The values of a tensor of either framework; bfloat16 as float32, exactly."""
    if not is_tensor(tensor):
        return np.asarray(tensor)
    tensor = tensor.detach().cpu()
    if _is_bfloat16(tensor.dtype):
        return (tensor.float() if hasattr(tensor, "float") else tensor.astype("float32")).numpy()
    if hasattr(tensor, "resolve_conj"):  # Torch notes these two and computes them later
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.numpy()


def copied(tensor: Any) -> np.ndarray[Any, Any]:
    """The same in memory of its own. Some Paddles' ``numpy()`` has made a copy already."""
    array = as_array(tensor)
    shared = not is_tensor(tensor) or array.__array_interface__["data"][0] == tensor.data_ptr()
    return array.copy() if shared else array


@functools.cache
def _is_bfloat16(dtype: Any) -> bool:
    return str(dtype).endswith("bfloat16")
