"""Copies of models and of single parameters, which may change while the caller's own stay as they are."""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import paddle
import torch
from paddle.base.framework import EagerParamBase, unique_name
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from ..errors import PadiffShimError
from ..language import tr

# ---- Copies of single parameters and buffers as ``copy.deepcopy`` makes them, in a third of the time, and with their attributes.
#
# Most of that time a constructor goes through the ways in which a tensor can be asked for. Where a Paddle makes other parameters
# than this module thinks, which a first one tells, its own way is taken. What a program notes on a parameter (``p.no_decay =
# True``) is in neither framework's own copies, though an optimizer's groups may be made of it; here it is, if it can be copied.

Memo = dict[int, Any]
Copying = Callable[[Any, Memo], Any]  # how a value that a parameter holds is copied

_new = EagerParamBase.__new__
_NAMES = ("stop_gradient", "persistable", "is_leaf", "dtype", "shape", "place", "type", "inplace_version")


def paddles_parameter(parameter: Any, memo: Memo, copying: Copying = copy.deepcopy) -> Any:
    """A copy of an :class:`EagerParamBase`, whose attributes are copied by ``copying``."""
    if type(parameter) is not EagerParamBase or not parameter._is_initialized() or not _as_thought():
        return copy.deepcopy(parameter, memo)
    return _quick(parameter, memo, copying)


def _quick(parameter: Any, memo: Memo, copying: Copying) -> Any:
    made = _new(EagerParamBase)
    made.copy_(parameter, True)  # into what holds nothing yet: whether it wants gradients, too
    made.name = parameter.name + unique_name.generate("_deepcopy")
    made.persistable = True
    made.retain_grads()
    memo[id(parameter)] = made
    _note(made, parameter, memo, copying)
    return made


def _note(made: Any, parameter: Any, memo: Memo, copying: Copying) -> None:
    attributes = made.__dict__
    for name, value in parameter.__dict__.items():
        try:
            attributes[name] = copying(value, memo)
        except Exception:  # a lock: left out, as by both frameworks
            continue


_thought: bool | None = None  # whether this Paddle's parameters are copied as above; None: not asked yet


def _as_thought() -> bool:
    global _thought
    if _thought is None:
        try:
            _thought = all(_alike(stopped) for stopped in (False, True))
        except Exception:  # whatever another Paddle lacks
            _thought = False
    return _thought


def _alike(stopped: bool) -> bool:
    """Whether a parameter that wants a gradient, or none, is copied to the same as by Paddle."""
    values = paddle.nn.initializer.Assign(np.arange(6.0, dtype="float32").reshape(2, 3))  # which draws no random numbers
    sample = paddle.nn.Linear(2, 3, weight_attr=values, bias_attr=False).weight
    sample.stop_gradient = stopped
    deep, quick = copy.deepcopy(sample), _quick(sample, {}, copy.deepcopy)
    return (
        vars(deep) == vars(quick)
        and all(str(getattr(deep, name, None)) == str(getattr(quick, name, None)) for name in _NAMES)
        and bool((deep.numpy() == quick.numpy()).all())
        and quick.name.startswith(sample.name)
        and quick.data_ptr() != sample.data_ptr()
    )


def torchs_tensor(tensor: torch.Tensor, memo: Memo, copying: Copying = copy.deepcopy) -> torch.Tensor:
    """A copy of a tensor or parameter of Torch's own classes; what else lies in a tensor's memory will lie in the copy's."""
    if type(tensor) is torch.nn.Parameter:
        data = tensor.data.clone(memory_format=torch.preserve_format)
        made: torch.Tensor = torch.nn.Parameter(data, tensor.requires_grad)
        memo[id(tensor)] = made
        _note(made, tensor, memo, copying)
    elif _plain(tensor) and tensor.untyped_storage()._cdata not in (storages := memo.setdefault("torch", {})):  # type: ignore[call-overload]
        made = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        storages[tensor.untyped_storage()._cdata] = made.untyped_storage()
        memo[id(tensor)] = made
    else:
        return copy.deepcopy(tensor, memo)
    return made


def _plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is nothing but the elements of its memory, all of them, in order."""
    return (
        type(tensor) is torch.Tensor
        and not tensor.__dict__
        and tensor.layout is torch.strided
        and tensor.is_cpu
        and tensor.is_leaf
        and tensor.grad is None
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_inference())
        and tensor.is_contiguous()
        and tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    )


# ---- Copies of models, which may be changed while the caller's own stay as they are.

Way = Callable[[Any, Memo], Any]


def duplicate(model: Any, known: Memo | None = None) -> Any:
    """A deep copy of a model, so that the caller's own stays as it is; ``known``: what takes the place of parts, by their ids."""
    try:
        return _Copying()(model, {**(_recomputed(model) if isinstance(model, torch.nn.Module) else {}), **(known or {})})
    except Exception as error:
        raise PadiffShimError(
            tr(
                "{type} cannot be copied (copy.deepcopy: {error_type}: {error})",
                type=type(model).__name__,
                error_type=type(error).__name__,
                error=error,
            )
        ) from error


_ATOMS = (type(None), bool, int, float, complex, str, bytes, type, FunctionType, BuiltinFunctionType, torch.dtype)


class _Copying:
    """What `copy.deepcopy` gives, without its general way for what a layer is made of.

    A layer has a dozen dicts for hooks, most of them empty, and a dozen settings; asking each how it wants to be copied is most of
    the time of the whole. So each class is looked up once.
    """

    def __init__(self) -> None:
        self._ways: dict[type, Way | None] = dict.fromkeys(_ATOMS)  # None: the value itself
        self._ways.update({dict: self._mapping, OrderedDict: self._mapping, list: self._list, set: self._set})
        self._ways.update({EagerParamBase: self._paddles, torch.nn.Parameter: self._torchs, torch.Tensor: self._torchs})

    def __call__(self, value: Any, memo: Memo) -> Any:
        try:
            way = self._ways[type(value)]
        except KeyError:
            way = self._ways[type(value)] = self._way(type(value))
        if way is None:
            return value
        known = memo.get(id(value))
        return way(value, memo) if known is None else known

    def _way(self, kind: type) -> Way:
        if issubclass(kind, (torch.nn.Module, paddle.nn.Layer)):
            return self._layer if _usual(kind) else copy.deepcopy
        return self._plain if _is_plain(kind) else copy.deepcopy

    def _values(self, attributes: dict[Any, Any], memo: Memo) -> dict[str, Any]:
        """The attributes of an object, copied; what has none of its own written out, for there are some thousand of these."""
        ways, values = self._ways, {}
        for name, value in attributes.items():
            kind = type(value)
            if kind in ways and ways[kind] is None:
                values[name] = value
            elif (kind is OrderedDict or kind is dict) and not value and not getattr(value, "__dict__", None):
                known = memo.get(id(value))
                if known is None:
                    known = memo[id(value)] = kind()
                values[name] = known
            else:
                values[name] = self(value, memo)
        return values

    def _layer(self, layer: Any, memo: Memo) -> Any:
        made = memo[id(layer)] = _new_object(type(layer))
        made.__setstate__(self._values(layer.__getstate__(), memo))
        return made

    def _plain(self, value: Any, memo: Memo) -> Any:
        made = memo[id(value)] = _new_object(type(value))
        made.__dict__.update(self._values(value.__dict__, memo))
        return made

    def _mapping(self, mapping: dict[Any, Any], memo: Memo) -> Any:
        if getattr(mapping, "__dict__", None):
            return copy.deepcopy(mapping, memo)
        made = memo[id(mapping)] = type(mapping)()
        for key, value in mapping.items():
            made[key if type(key) is str else self(key, memo)] = self(value, memo)
        return made

    def _list(self, values: list[Any], memo: Memo) -> Any:
        made: list[Any] = []
        memo[id(values)] = made
        if values:
            made.extend(self(value, memo) for value in values)
        return made

    def _set(self, values: set[Any], memo: Memo) -> Any:
        return copy.deepcopy(values, memo) if values else memo.setdefault(id(values), set())

    def _paddles(self, parameter: Any, memo: Memo) -> Any:
        return paddles_parameter(parameter, memo, self)

    def _torchs(self, tensor: torch.Tensor, memo: Memo) -> Any:
        return torchs_tensor(tensor, memo, self)


def _recomputed(model: torch.nn.Module) -> Memo:
    """Copies of what hooks compute anew before each forward: it hangs on the tape, from where Torch copies nothing."""
    copies: Memo = {}
    for layer in model.modules():
        for hook in layer._forward_pre_hooks.values():
            weight = layer.__dict__.get(hook.name) if isinstance(hook, (WeightNorm, SpectralNorm)) else None
            if isinstance(weight, torch.Tensor) and not weight.is_leaf:
                copies[id(weight)] = weight.detach().clone()
    return copies


def _new_object(kind: Any) -> Any:
    return kind.__new__(kind)


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


def _is_plain(kind: type) -> bool:
    """Whether objects of a class are their attributes, and nothing is said of how they are copied."""
    return (
        all(base is object or (base.__flags__ & _HEAP and "__slots__" not in vars(base)) for base in kind.__mro__)
        and type(kind) is type
        and all(getattr(kind, way, None) is getattr(object, way, None) for way in _WAYS)
        and not any(hasattr(kind, way) for way in _OWN_WAYS)
        and kind not in copyreg.dispatch_table
        and kind not in copy._deepcopy_dispatch  # type: ignore[attr-defined]
    )


_HEAP = 1 << 9  # of the flags of a class: it was made by a program, not in C
