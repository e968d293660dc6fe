"""An optimizer's settings for each parameter, in Torch's words, whichever framework's it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import paddle
import torch

Settings = dict[str, Any]  # "optimizer", "lr", "weight_decay" and what the kind has; empty where the kind is not known


class _Kind(NamedTuple):
    """An optimizer of Paddle's: the name of Torch's, and Torch's word for each setting -> Paddle's."""

    name: str
    settings: dict[str, str]


_BETAS = {"beta1": "beta1", "beta2": "beta2", "eps": "epsilon"}
_PADDLE = {
    "SGD": _Kind("SGD", {}),
    "Momentum": _Kind("SGD", {"momentum": "momentum", "nesterov": "use_nesterov"}),
    "Adam": _Kind("Adam", {**_BETAS, "amsgrad": "amsgrad"}),
    "AdamW": _Kind("AdamW", {**_BETAS, "amsgrad": "amsgrad"}),
    "Adamax": _Kind("Adamax", _BETAS),
    "NAdam": _Kind("NAdam", {**_BETAS, "momentum_decay": "momentum_decay"}),
    "RAdam": _Kind("RAdam", _BETAS),
    "Adagrad": _Kind("Adagrad", {"eps": "epsilon", "initial_accumulator_value": "initial_accumulator_value"}),
    "Adadelta": _Kind("Adadelta", {"eps": "epsilon", "rho": "rho"}),
    "RMSProp": _Kind("RMSprop", {"alpha": "rho", "eps": "epsilon", "momentum": "momentum", "centered": "centered"}),
}
# What has no effect: such a setting counts as absent.
USUAL = {
    "dampening": 0, "maximize": False, "lr_decay": 0, "momentum": 0, "nesterov": False, "decoupled_weight_decay": False,
    "amsgrad": False, "centered": False, "initial_accumulator_value": 0,
}  # fmt: skip
_WORDS = {"lr", "weight_decay", *USUAL, *(word for kind in _PADDLE.values() for word in kind.settings)}


def of_torch(optimizer: Any, names: Mapping[int, str]) -> dict[str, Settings]:
    """Settings by the parameters' names; ``names`` by their identities."""
    found = {}
    name = type(optimizer).__name__
    for group in optimizer.param_groups:
        given = {word: _number(value) for word, value in group.items() if word in _WORDS}
        if "betas" in group:
            given["beta1"], given["beta2"] = group["betas"]
        for parameter in group["params"]:
            if id(parameter) in names:
                found[names[id(parameter)]] = _plain({"optimizer": name, **given}) if name in _TORCHS else {}
    return found


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


_TORCHS = {kind.name for kind in _PADDLE.values()}


def of_paddle(optimizer: Any, names: Mapping[int, str]) -> dict[str, Settings]:
    """The same of a Paddle optimizer."""
    kind = _PADDLE.get(type(optimizer).__name__)
    found: dict[str, Settings] = {}
    for group, parameter in _grouped(optimizer):
        if id(parameter) in names:
            found[names[id(parameter)]] = {} if kind is None else _plain(_settings(optimizer, kind, group, parameter))
    return found


def _grouped(optimizer: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """(options of its group, parameter)."""
    for one in optimizer._param_groups:
        if isinstance(one, dict):
            yield from ((one, parameter) for parameter in one["params"])
        else:
            yield {}, one


def _settings(optimizer: Any, kind: _Kind, group: Mapping[str, Any], parameter: Any) -> Settings:
    factor = (getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0)
    rate = optimizer.get_lr()
    found: Settings = {"optimizer": kind.name, "lr": rate if factor == 1.0 else rate * factor}
    for word, name in kind.settings.items():
        value = group.get(name, getattr(optimizer, f"_{name}", getattr(optimizer, name, None)))
        if value is not None:
            found[word] = value
    found["weight_decay"] = _decay(optimizer, group, parameter)
    return found


def _decay(optimizer: Any, group: Mapping[str, Any], parameter: Any) -> Any:
    """The coefficient of L2 decay; another kind in words."""
    if isinstance(optimizer, paddle.optimizer.AdamW):
        chooses = optimizer._apply_decay_param_fun
        return 0 if chooses is not None and not chooses(parameter.name) else group.get("weight_decay", optimizer._weight_decay)
    own = getattr(parameter, "regularizer", None)
    given = optimizer.regularization if own is None else own
    method = group.get("regularization_method", getattr(optimizer, "_regularization_method", ""))
    if given is None and method == "l2_decay":
        return group.get("regularization_coeff", optimizer._regularization_coeff)
    if given is None or isinstance(given, float):
        return given or 0
    return given._coeff if isinstance(given, paddle.regularizer.L2Decay) else f"{type(given).__name__}({given._coeff:g})"


def _plain(given: Settings) -> Settings:
    """What has no effect left out, so that equal updates have equal settings."""
    found = {word: value for word, value in given.items() if value is not None and USUAL.get(word, ...) != value}
    if not found.get("weight_decay"):
        found["weight_decay"] = 0
    if not found.get("momentum"):
        found.pop("nesterov", None)
        found.pop("dampening", None)
    decoupled = bool(found.pop("decoupled_weight_decay", False)) or found["optimizer"] == "AdamW"
    if found["optimizer"] == "AdamW":
        found["optimizer"] = "Adam"
    if found["weight_decay"] and decoupled:
        found["decoupled"] = True
    return found


def paddles_masters(optimizer: Any, parameters: Iterable[Any]) -> bool | None:
    """Whether a Paddle optimizer updates copies in float32 of parameters of 16 bits; None if there are none of these."""
    halves = any(parameter.dtype in (paddle.float16, paddle.bfloat16) for parameter in parameters)
    return bool(getattr(optimizer, "_multi_precision", False)) if halves else None


def torchs_masters(optimizer: Any, parameters: Iterable[Any]) -> bool | None:
    """The same of a Torch program, which makes such copies by itself."""
    if not any(parameter.dtype in (torch.float16, torch.bfloat16) for parameter in parameters):
        return None
    return all(weight.dtype is torch.float32 for group in optimizer.param_groups for weight in group["params"])
