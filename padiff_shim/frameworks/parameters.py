"""Copies of single parameters and buffers as ``copy.deepcopy`` makes them, in a third of the time, and with their attributes.

Most of that time a constructor goes through the ways in which a tensor can be asked for. Where a Paddle makes other parameters than
this module thinks, which a first one tells, its own way is taken. What a program notes on a parameter (``p.no_decay = True``) is in
neither framework's own copies, though an optimizer's groups may be made of it; here it is, if it can be copied.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import torch
from paddle.base.framework import EagerParamBase, unique_name

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
    held = made.__dict__
    for name, value in parameter.__dict__.items():
        try:
            held[name] = copying(value, memo)
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
    theirs, ours = copy.deepcopy(sample), _quick(sample, {}, copy.deepcopy)
    return (
        vars(theirs) == vars(ours)
        and all(str(getattr(theirs, name, None)) == str(getattr(ours, name, None)) for name in _NAMES)
        and bool((theirs.numpy() == ours.numpy()).all())
        and ours.name.startswith(sample.name)
        and ours.data_ptr() != sample.data_ptr()
    )


def torchs_tensor(tensor: torch.Tensor, memo: Memo, copying: Copying = copy.deepcopy) -> torch.Tensor:
    """A copy of a tensor or parameter of Torch's own classes; what else lies in a tensor's memory will lie in the copy's."""
    if type(tensor) is torch.nn.Parameter:
        data = tensor.data.clone(memory_format=torch.preserve_format)
        made: torch.Tensor = torch.nn.Parameter(data, tensor.requires_grad)
        memo[id(tensor)] = made
        _note(made, tensor, memo, copying)
    elif _plain(tensor) and tensor.untyped_storage()._cdata not in (held := memo.setdefault("torch", {})):  # type: ignore[call-overload]
        made = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        held[tensor.untyped_storage()._cdata] = made.untyped_storage()
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
