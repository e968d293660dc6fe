"""Both published forms of PaDiff's call, and what they mean.

0.1 and 0.2: ``auto_diff(layer, module, example_inp, auto_weights, options, layer_map, loss_fn, optimizer, steps)``; the Paddle
layer comes first, and the Torch module's weights are taken. 0.3: ``auto_diff(base_model, raw_model, inputs, loss_fns, optimizers,
**options)``: of any framework, and the weights are the first model's. In both, inputs, losses and optimizers stand in the order of
the models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import paddle
import torch

from ..errors import ArgumentError, described
from ..proving.values import leaves
from .layer_map import LayerMap
from .models import Model, create_model
from .options import ALIASES, Options, check_left_behind, collected, options_of

_MODELS = ("base_model", "raw_model", "layer", "module")
_ACCEPTED = (*_MODELS, "inputs", "loss_fns", "optimizers", "layer_map", "options")
_CLASSIC = (
    "layer",
    "module",
    "example_inp",
    "auto_weights",
    "options",
    "layer_map",
    "layer_mapping",
    "loss_fn",
    "optimizer",
    "steps",
)


@dataclass
class Call:
    """What is compared: of two, the first is the base model, whose weights are taken."""

    models: tuple[Model, Model]
    inputs: tuple[dict[str, Any], dict[str, Any]]
    losses: tuple[Any, Any] | None
    optimizers: tuple[Any, Any] | None
    layer_map: LayerMap
    options: Options

    @property
    def alike(self) -> bool:
        """Whether both models are of one framework."""
        return self.models[0].framework == self.models[1].framework


def read(args: tuple[Any, ...], keywords: dict[str, Any]) -> Call:
    """The call that these arguments mean.

    Raises:
        ArgumentError: an argument that is missing, unknown, or of a kind that is not accepted.
    """
    positional, classic = _positional(args)
    keywords = {**_no_clash(positional, keywords), **keywords}
    classic = classic or all(word in _CLASSIC for word in keywords if word not in ("base_model", "raw_model", "inputs"))
    listed = keywords.get("options")
    found = collected({word: value for word, value in keywords.items() if word != "options"}, listed, _ACCEPTED)
    models, turned = _models(found, classic)
    alike = models[0].framework == models[1].framework
    inputs = _inputs(found.pop("inputs", None), models, turned)
    losses = _pair("loss_fns", found.pop("loss_fns", None), callable, "functions of the output", turned)
    optimizers = _optimizers(found.pop("optimizers", None), models, turned)
    layer_map = LayerMap.of(found.pop("layer_map", None), models)
    check_left_behind({**(listed or {}), **keywords}, loss=losses is not None, optimizers=optimizers is not None)
    options = options_of(found, optimizers=optimizers is not None, alike=alike)
    return Call(models, inputs, losses, optimizers if options.diff_phase != "forward" else None, layer_map, options)


def _positional(args: tuple[Any, ...]) -> tuple[dict[str, Any], bool]:
    """Names for what is given without; whether the form is plainly the older one."""
    names = ["base_model", "raw_model", "inputs"]
    classic = len(args) > 3 and isinstance(args[3], bool)
    if classic:
        # 0.2's code has `steps` at the end, its documentation behind auto_weights.
        early = len(args) > 4 and isinstance(args[4], int) and not isinstance(args[4], bool)
        names += ["auto_weights", *(["steps"] if early else []), "options", "layer_map", "loss_fn", "optimizer"]
        names += [] if early else ["steps"]
    else:
        names += ["loss_fns", "optimizers"]
    if len(args) > len(names):
        raise ArgumentError(f"auto_diff takes at most {len(names)} arguments by position ({', '.join(names)}), got {len(args)}")
    return dict(zip(names, args)), classic


def _no_clash(positional: dict[str, Any], keywords: dict[str, Any]) -> dict[str, Any]:
    newest = {ALIASES.get(word, word) for word in keywords}
    for name in positional:
        if ALIASES.get(name, name) in newest:
            raise ArgumentError(f"auto_diff: {name}= is given by position and by name")
    return positional


def _models(found: dict[str, Any], classic: bool) -> tuple[tuple[Model, Model], bool]:
    """(base, raw), and whether they were given the other way round."""
    if "layer" in found or "module" in found:
        pair = found.pop("layer", found.pop("base_model", None)), found.pop("module", found.pop("raw_model", None))
    else:
        pair = found.pop("base_model", None), found.pop("raw_model", None)
    for place, model in zip(("first", "second"), pair):
        if not isinstance(model, (Model, paddle.nn.Layer, torch.nn.Module)):
            raise ArgumentError(
                f"the {place} argument of auto_diff is a model (a paddle.nn.Layer, torch.nn.Module or what create_model made of "
                f"one), got {described(model)}"
            )
    first, second = (create_model(model) for model in pair)
    turned = classic and (first.framework, second.framework) == ("paddle", "torch")
    return ((second, first) if turned else (first, second)), turned


def _inputs(given: Any, models: tuple[Model, Model], turned: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    pair = _pair("inputs", given, lambda one: isinstance(one, Mapping), "dicts of keyword arguments", turned)
    if pair is None:
        raise ArgumentError("inputs= is missing: a pair of dicts of keyword arguments, one for each model in their order")
    for model, inputs in zip(models, pair):
        wrong = [name for name, tensor in leaves(inputs) if not isinstance(tensor, model.tensor)]
        wrong = [name for name in wrong if isinstance(dict(leaves(inputs))[name], (paddle.Tensor, torch.Tensor))]
        if wrong:
            raise ArgumentError(
                f"inputs= are in the order of the models: {wrong[0]!r} is no tensor of {model.framework.title()}, but is meant for "
                f"{model.name}"
            )
    return dict(pair[0]), dict(pair[1])


def _optimizers(given: Any, models: tuple[Model, Model], turned: bool) -> tuple[Any, Any] | None:
    kinds = {"paddle": paddle.optimizer.Optimizer, "torch": torch.optim.Optimizer}
    fits = lambda one: callable(one) or isinstance(one, tuple(kinds.values()))  # noqa: E731
    pair = _pair("optimizers", given, fits, "optimizers or functions without arguments", turned)
    for model, optimizer in zip(models, pair or ()):
        if isinstance(optimizer, tuple(kinds.values())) and not isinstance(optimizer, kinds[model.framework]):
            raise ArgumentError(f"optimizers= are in the order of the models: {model.name} is of {model.framework.title()}")
    return pair


def _pair(name: str, given: Any, fits: Any, what: str, turned: bool) -> tuple[Any, Any] | None:
    if given is None:
        return None
    if not isinstance(given, (list, tuple)) or len(given) != 2 or not all(map(fits, given)):
        raise ArgumentError(f"{name}= is a pair of {what}, in the order of the models, got {described(given)}")
    return (given[1], given[0]) if turned else (given[0], given[1])
