"""What the caller gives as a model, read into a tree."""

from __future__ import annotations

import os
from collections.abc import Mapping as Dict
from typing import Any

import paddle
import torch

from ..arguments import path as checked_path
from ..errors import ArgumentError, described
from .files import read_file
from .modules import read_module
from .states import framework_of_state, read_state
from .tree import OTHER, Side


def sides_of(src: Any, dst: Any) -> tuple[Side, Side]:
    """(Torch's side, Paddle's) of two models in any order."""
    ours, theirs = read_both(src, dst)
    return (ours, theirs) if ours.framework == "torch" else (theirs, ours)


def read_both(src: Any, dst: Any, writes: bool = False) -> tuple[Side, Side]:
    """Both models as trees.

    Args:
        src, dst: modules, layers, state dicts or paths; or trees, as which they are returned.
        writes: whether ``dst`` will be written into.

    Raises:
        ArgumentError: an argument that is none of these, or both of one framework.
    """
    hints = _known_framework(src), _known_framework(dst)
    ours = _side("src", src, hints[1])
    theirs = _side("dst", dst, ours.framework, writes)
    if ours.framework == theirs.framework:
        raise ArgumentError(
            f"src and dst are both {ours.framework.title()}'s; between models of one framework load_state_dict (Torch) and "
            "set_state_dict (Paddle) do it"
        )
    return ours, theirs


def _known_framework(model: Any) -> str | None:
    """The framework of a module, layer or tensors, if that is plain to see."""
    if isinstance(model, Side):
        return model.framework
    if isinstance(model, torch.nn.Module):
        return "torch"
    if isinstance(model, paddle.nn.Layer):
        return "paddle"
    if isinstance(model, Dict) and any(isinstance(value, (torch.Tensor, paddle.Tensor)) for value in model.values()):
        return framework_of_state(model, None)
    return None


def _side(argument: str, model: Any, other: str | None, writes: bool = False) -> Side:
    """One of the two models as a tree; ``other`` is the framework of the other one, if it is known."""
    if isinstance(model, Side):
        return model
    hint = OTHER.get(other or "")
    if isinstance(model, (torch.nn.Module, paddle.nn.Layer)):
        return read_module(model, "torch" if isinstance(model, torch.nn.Module) else "paddle")
    if isinstance(model, Dict):
        return read_state(model, hint)
    if isinstance(model, (str, os.PathLike)):
        if writes:
            raise ArgumentError("dst= is a model or state dict that is written into; save it as a file afterwards")
        state, told = read_file(checked_path(argument, model))
        side = read_state(state, told or hint)
        side.framework = told or side.framework
        side.ordered = not str(model).endswith(".safetensors")
        return side
    raise ArgumentError(
        f"{argument}= is a torch.nn.Module, a paddle.nn.Layer, a state dict or the path of one, got {described(model)}"
    )
