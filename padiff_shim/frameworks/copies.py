"""Copies of models, which may be changed while the caller's own stay as they are."""

from __future__ import annotations

import copy
from typing import Any

import torch
from paddle.base.framework import EagerParamBase, unique_name
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from ..errors import PadiffShimError

Memo = dict[int, Any]


def duplicate(model: Any, known: Memo | None = None) -> Any:
    """A deep copy of a model, so that the caller's own stays as it is; ``known``: what takes the place of parts, by their ids.

    What a program notes on a parameter (``p.no_decay = True``) is in neither framework's own copies, though an optimizer's groups
    may be made of it; here it is, if it can be copied. So parameters are copied first, and then what is noted on them.
    """
    memo = {**(_recomputed(model) if isinstance(model, torch.nn.Module) else {}), **(known or {})}
    parameters = [parameter for parameter in model.parameters() if id(parameter) not in memo]
    try:
        for parameter in parameters:
            if type(parameter) is EagerParamBase and parameter._is_initialized():
                memo[id(parameter)] = _of_paddle(parameter)
            else:
                copy.deepcopy(parameter, memo)
        copied = copy.deepcopy(model, memo)
    except Exception as error:
        raise PadiffShimError(
            "{type} cannot be copied (copy.deepcopy: {error_type}: {error})",
            type=type(model).__name__,
            error_type=type(error).__name__,
            error=error,
        ) from error
    for parameter in parameters:
        attributes = memo[id(parameter)].__dict__
        for name, value in parameter.__dict__.items():
            try:
                attributes[name] = copy.deepcopy(value, memo)
            except Exception:  # a lock: left out, as by both frameworks
                continue
    return copied


def _of_paddle(parameter: Any) -> Any:
    """As Paddle's own copy, but for what is noted: with that it would copy a model that is noted, or refuse a lock."""
    made = EagerParamBase.__new__(EagerParamBase)
    made.copy_(parameter, True)  # into what holds nothing yet: whether it wants gradients, too
    made.name = parameter.name + unique_name.generate("_deepcopy")
    made.persistable = True
    made.retain_grads()
    return made


def _recomputed(model: torch.nn.Module) -> Memo:
    """Copies of what hooks compute anew before each forward: it hangs on the tape, from where Torch copies nothing."""
    copies: Memo = {}
    for layer in model.modules():
        for hook in layer._forward_pre_hooks.values():
            weight = layer.__dict__.get(hook.name) if isinstance(hook, (WeightNorm, SpectralNorm)) else None
            if isinstance(weight, torch.Tensor) and not weight.is_leaf:
                copies[id(weight)] = weight.detach().clone()
    return copies
