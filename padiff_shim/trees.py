"""Tensors and arrays of either framework in tuples, lists and dicts; neither framework is imported for it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from types import ModuleType
from typing import Any

import numpy as np

from .language import tr

Tree = Any  # tensors or arrays in tuples, lists and dicts


PLAIN = (bool, int, float, complex, str, bytes, type(None))
_known: dict[type, str] = {}  # classes of tensors -> their framework


def _framework(value: Any) -> str | None:
    """``"torch"`` or ``"paddle"``, if ``value`` is a tensor of it; neither has to be imported."""
    known = _known.get(type(value))
    if known is not None:
        return known
    for name in ("torch", "paddle"):
        kind = getattr(sys.modules.get(name), "Tensor", None)
        if kind is not None and isinstance(value, kind):
            _known[type(value)] = name
            return name
    return None


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor of a framework that is imported."""
    return _framework(value) is not None


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) or is_tensor(value)


def mapped(tree: Tree, change: Callable[[Any], Any]) -> Tree:
    """``tree`` with each tensor and array replaced by ``change`` of it; other values stay.

    Example:
        >>> import numpy as np
        >>> from padiff_shim.trees import leaves, mapped
        >>> tree = mapped({"x": np.ones(2), "mask": None}, lambda array: array * 3)
        >>> [(path, leaf.tolist()) for path, leaf in leaves(tree)], tree["mask"]
        ([('x', [3.0, 3.0])], None)
    """
    return changed(tree, lambda _, leaf: change(leaf))


def changed(tree: Tree, change: Callable[[str, Any], Any], path: str = "") -> Tree:
    """The same, where ``change`` also gets the path of each leaf, as in :func:`leaves`."""
    if _is_leaf(tree):
        return change(path, tree)
    if isinstance(tree, Mapping):
        return {key: changed(value, change, where) for key, (where, value) in zip(tree, _within(tree, path) or ())}
    if isinstance(tree, (list, tuple)):
        items = [changed(value, change, where) for where, value in _within(tree, path) or ()]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree


def leaves(tree: Tree, path: str = "") -> list[tuple[str, Any]]:
    """(path, tensor or array) of everything in ``tree``, in its order; a model's own output class by its items or fields."""
    return [(where, value) for where, value in values(tree, path) if _is_leaf(value)]


def values(tree: Tree, path: str = "", *, objects: bool = False, around: tuple[int, ...] = ()) -> list[tuple[str, Any]]:
    """The same with all that is no container: numbers, text, None and objects, too.

    ``objects``: these are opened as well, as are all sequences and sets of one order, but for those they lie in (``around``).
    """
    inside = None if _is_leaf(tree) else _within(tree, path)
    if objects and inside is None and not _is_leaf(tree) and id(tree) not in around:
        inside, around = _inside_object(tree, path), (*around, id(tree))
    if inside is None:
        return [(path, tree)]
    return [leaf for where, value in inside for leaf in values(value, where, objects=objects, around=around)]


def drained(tree: Tree) -> Tree:
    """``tree`` with lists in place of iterators, which can be read but once."""
    if isinstance(tree, Iterator):
        tree = list(tree)
    if type(tree) in (list, tuple):
        return type(tree)(map(drained, tree))
    return {key: drained(value) for key, value in tree.items()} if type(tree) is dict else tree


def _within(tree: Tree, path: str) -> list[tuple[str, Any]] | None:
    """(path, value) of what a container holds; None of what is none."""
    if isinstance(tree, Mapping) or hasattr(tree, "items"):
        return [(f"{path}.{key}" if path else str(key), value) for key, value in tree.items()]
    if hasattr(tree, "_fields"):  # a named tuple
        return [(f"{path}.{name}" if path else name, getattr(tree, name)) for name in tree._fields]
    if isinstance(tree, (list, tuple)):
        return [(f"{path}[{place}]", value) for place, value in enumerate(tree)]
    if hasattr(tree, "__dataclass_fields__"):
        return [(f"{path}.{name}" if path else name, getattr(tree, name)) for name in tree.__dataclass_fields__]
    return None


def _inside_object(tree: Any, path: str) -> list[tuple[str, Any]] | None:
    """(path, value) of what any other object holds; None of what shows nothing: functions, layers, sets of tensors."""
    if isinstance(tree, (Sequence, Set, ValuesView)) and not isinstance(tree, (str, bytes)):
        if isinstance(tree, Set) and len(tree) > 1:
            return None if any(map(_is_leaf, tree)) else _within(sorted(tree, key=repr), path)
        return _within(list(tree), path)
    if callable(tree) or isinstance(tree, ModuleType):
        return None
    slots = [vars(kind).get("__slots__", ()) for kind in type(tree).__mro__]
    names = [name for slot in slots for name in ([slot] if isinstance(slot, str) else slot) if hasattr(tree, name)]
    held = {**{name: getattr(tree, name) for name in names}, **getattr(tree, "__dict__", {})}
    held.pop("__weakref__", None)
    return _within(held, path) if held or hasattr(tree, "__dict__") else None


# The parts of a sparse tensor: Paddle's names -> Torch's.
_COORDINATES = {"indices": "indices", "values": "values"}
_ROWS = {"crows": "crow_indices", "cols": "col_indices", "values": "values"}


def parts(tensor: Any) -> list[tuple[str, Any]]:
    """(name, dense tensor or array) of the parts of a tensor: a dense one is its only part, with the name "".

    The parts of a sparse tensor are indices and values, those of selected rows their numbers and values; a tensor without memory
    has none.
    """
    framework = _framework(tensor)
    if framework == "paddle":
        if not tensor._is_initialized():
            return []
        if tensor.is_selected_rows():
            return [("rows", np.asarray(tensor.rows())), ("values", tensor)]
        names = _COORDINATES if tensor.is_sparse_coo() else _ROWS if tensor.is_sparse_csr() else {}
        return [(name, getattr(tensor, name)()) for name in names] or [("", tensor)]
    if framework == "torch" and (tensor.is_sparse or tensor.is_sparse_csr):
        sparse, names = (tensor.detach().coalesce(), _COORDINATES) if tensor.is_sparse else (tensor.detach(), _ROWS)
        return [(name, getattr(sparse, method)()) for name, method in names.items()]
    return [("", tensor)]


def elements(tensor: Any) -> tuple[np.ndarray[Any, Any], str]:
    """The elements of a dense tensor of either framework, and the name of their dtype; of bfloat16 and float8 the bits, unsigned.

    Raises:
        TypeError: it is sparse; Paddle's own ``numpy()`` of such a tensor ends the process.
    """
    framework = _framework(tensor)
    if framework == "paddle" and tensor.is_sparse():
        raise TypeError(tr("a sparse tensor has no array of its values"))
    if framework is None:
        tensor = np.asarray(tensor)
    dtype = _dtype_name(tensor.dtype)
    words = "uint16" if dtype == "bfloat16" else "uint8" if dtype.startswith("float8") else None  # of bits that NumPy has not
    if framework == "torch":  # from any device; Torch notes conjugates and negatives, and computes them here
        torch = sys.modules["torch"]
        tensor = (tensor if words is None else tensor.detach().view(torch.int16 if words == "uint16" else torch.uint8)).numpy(
            force=True
        )
    elif framework == "paddle":  # whose numpy() gives the bits
        tensor = tensor.numpy()
    return (tensor if words is None else tensor.view(words)), dtype


@functools.cache
def _dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def numbers(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """The numbers of :func:`elements`, exactly: of bfloat16 and float8 as float32."""
    if dtype == "bfloat16" and array.dtype == np.uint16:
        return np.asarray(np.left_shift(array, 16, dtype=np.uint32).view(np.float32))
    return np.asarray(_float8(dtype)[array]) if dtype.startswith("float8") and array.dtype == np.uint8 else array


# Floats of eight bits: bits of the exponent, and its bias.
_FLOAT8 = {"float8_e4m3fn": (4, 7), "float8_e4m3fnuz": (4, 8), "float8_e5m2": (5, 15), "float8_e5m2fnuz": (5, 16)}


@functools.cache
def _float8(dtype: str) -> np.ndarray[Any, Any]:
    """The number of each of the 256 words."""
    words = np.arange(256)
    if dtype == "float8_e8m0fnu":  # a power of two
        return np.asarray(np.where(words == 255, np.nan, np.exp2(words - 127.0)), np.float32)
    bits, bias = _FLOAT8[dtype]
    exponents, digits = words >> (7 - bits) & (1 << bits) - 1, (words & (1 << 7 - bits) - 1) / (1 << 7 - bits)
    sizes = (digits + (exponents > 0)) * np.exp2(np.maximum(exponents, 1) - float(bias))
    if dtype == "float8_e5m2":
        sizes = np.where(exponents == 31, np.where(digits, np.nan, np.inf), sizes)
    else:
        sizes[words == 128 if dtype.endswith("uz") else words & 127 == 127] = np.nan
    return np.asarray(np.where(words > 127, -sizes, sizes), np.float32)


def as_array(tensor: Any) -> np.ndarray[Any, Any]:
    """The values of a dense tensor of either framework; bfloat16 and float8 as float32, exactly.

    Raises:
        TypeError: it is sparse.
    """
    return numbers(*elements(tensor))


def copied(tensor: Any) -> np.ndarray[Any, Any]:
    """The values in memory of their own, as :func:`as_array` gives them."""
    array = as_array(tensor)
    return array if _framework(tensor) == "paddle" and _numpy_copies() else array.copy()


@functools.cache
def _numpy_copies() -> bool:
    """Whether this Paddle's ``numpy()`` has made a copy already."""
    tensor = sys.modules["paddle"].to_tensor  # no op: no mode sees it
    samples = [tensor(np.ones(shape, "float32")) for shape in ((), (3,), (64, 64))]
    return all(sample.numpy().__array_interface__["data"][0] != sample.data_ptr() for sample in samples)
