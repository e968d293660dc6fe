"""Copies of models, which a proof may change."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import torch

from ..errors import PadiffShimError


def duplicate(model: Any) -> Any:
    """A deep copy of a model, so that the caller's own stays as it is."""
    try:
        return copy.deepcopy(model, _empties(model))
    except Exception as error:
        raise PadiffShimError(
            f"{type(model).__name__} cannot be copied (copy.deepcopy: {type(error).__name__}: {error})"
        ) from error


_CONTAINERS = (OrderedDict, dict, list, set)


def _empties(model: Any) -> dict[int, Any]:
    """What `copy.deepcopy` is to take for copies of a model's empty containers.

    A layer has a dozen of them, for hooks that it does not have; copying each in the general way is half of the time of the whole.
    """
    layers = model.modules() if isinstance(model, torch.nn.Module) else model.sublayers(include_self=True)
    values = (value for layer in layers for value in vars(layer).values() if type(value) in _CONTAINERS)
    return {id(value): type(value)() for value in values if not value}
