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
    return changed(tree, lambda _, leaf: change(leaf))


def changed(tree: Tree, change: Callable[[str, Any], Any], path: str = "") -> Tree:
    """The same, told the path of each, which is that of :func:`leaves`."""
    if _is_leaf(tree):
        return change(path, tree)
    if isinstance(tree, Mapping):
        return {key: changed(value, change, where) for key, (where, value) in zip(tree, _within(tree, path))}
    if isinstance(tree, (list, tuple)):
        held = [changed(value, change, where) for where, value in _within(tree, path)]
        return type(tree)(*held) if hasattr(tree, "_fields") else type(tree)(held)
    return tree


def leaves(tree: Tree, path: str = "") -> list[tuple[str, Any]]:
    """(path, tensor or array) of everything in ``tree``, in its order; a model's own output class by its items or fields."""
    if _is_leaf(tree):
        return [(path, tree)]
    return [leaf for where, value in _within(tree, path) for leaf in leaves(value, where)]


def _within(tree: Tree, path: str) -> list[tuple[str, Any]]:
    """(path, value) of what a container holds."""
    if isinstance(tree, Mapping) or hasattr(tree, "items"):
        return [(f"{path}.{key}" if path else str(key), value) for key, value in tree.items()]
    if hasattr(tree, "_fields"):  # a named tuple
        return [(f"{path}.{name}" if path else name, getattr(tree, name)) for name in tree._fields]
    if isinstance(tree, (list, tuple)):
        return [(f"{path}[{place}]", value) for place, value in enumerate(tree)]
    if hasattr(tree, "__dataclass_fields__"):
        return [(f"{path}.{name}" if path else name, getattr(tree, name)) for name in tree.__dataclass_fields__]
    return []


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
