"""Copies of models, which a proof may change."""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from typing import Any

import paddle
import torch

from ..errors import PadiffShimError

Memo = dict[int, Any]  # what was copied already, as `copy.deepcopy` keeps it: by the original's id


def duplicate(model: Any) -> Any:
    """A deep copy of a model, so that the caller's own stays as it is."""
    try:
        return _copied(model, {})
    except Exception as error:
        raise PadiffShimError(
            f"{type(model).__name__} cannot be copied (copy.deepcopy: {type(error).__name__}: {error})"
        ) from error


_ATOMS = frozenset({type(None), bool, int, float, str, bytes, type})
_CONTAINERS = (list, set)
_DICTS = (dict, OrderedDict)


def _copied(value: Any, memo: Memo) -> Any:
    """What `copy.deepcopy` gives, without its general way for what a layer is made of.

    A layer has a dozen dicts for hooks, most of them empty, and a dozen settings; asking each how it wants to be copied is most of
    the time of the whole.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    known = memo.get(id(value))
    if known is not None:
        return known
    if kind in _DICTS and not getattr(value, "__dict__", None):
        made = memo[id(value)] = kind()
        for key, held in value.items():
            made[_copied(key, memo)] = _copied(held, memo)
        return made
    if kind in _CONTAINERS and not value:
        return memo.setdefault(id(value), kind())
    if isinstance(value, (torch.nn.Module, paddle.nn.Layer)) and _usual(kind):
        made = memo[id(value)] = kind.__new__(kind)  # type: ignore[call-overload]
        made.__setstate__({name: _copied(held, memo) for name, held in value.__getstate__().items()})
        return made
    return copy.deepcopy(value, memo)


_OWN_WAYS = ("__deepcopy__", "__getnewargs_ex__", "__getnewargs__")
_WAYS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getattr__", "__getattribute__")


def _usual(kind: type) -> bool:
    """Whether layers of a class are copied attribute by attribute: it says nothing of copying beyond what its framework does."""
    base = torch.nn.Module if issubclass(kind, torch.nn.Module) else paddle.nn.Layer
    return (
        all(getattr(kind, way) is getattr(base, way) for way in _WAYS)
        and not any(hasattr(kind, way) for way in _OWN_WAYS)
        and kind not in copyreg.dispatch_table
    )
