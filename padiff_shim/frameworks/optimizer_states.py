"""What optimizers of both frameworks keep for parameters, under Paddle's names; their settings, in Torch's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..runlog.optimizer_settings import CLIP, CLIPS, PADDLES_KINDS, TORCHS_KINDS, WORDS, OptimizerKind, Settings, plain

ParameterGroup = tuple[Mapping[str, Any], list[Any]]  # options that an optimizer has for some parameters


def torchs_parameters(optimizer: Any) -> list[Any]:
    """Those that an optimizer updates, with gradients or without."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


# Torch's name of an optimizer's state -> Paddle's. Adamax's moment and the sums of Adagrad have names of their own there.
_STATES = {
    "exp_avg": "moment1",
    "exp_avg_sq": "moment2",
    "max_exp_avg_sq": "moment2_max",
    "momentum_buffer": "velocity",
    "exp_inf": "inf_norm",
    "acc_delta": "avg_squared_update",
}
_STATES_OF = {
    "Adamax": {"exp_avg": "moment"},
    "Adagrad": {"sum": "moment"},
    "RMSprop": {"square_avg": "mean_square", "grad_avg": "mean_grad", "momentum_buffer": "momentum"},
    "Adadelta": {"square_avg": "avg_squared_grad"},
}


def torchs_states(optimizer: Any) -> Iterator[tuple[Any, str, Any]]:
    """(parameter, Paddle's name, tensor) of what an optimizer keeps for each parameter; the number of the step is left out."""
    names = _STATES | _STATES_OF.get(type(optimizer).__name__, {})
    for parameter in torchs_parameters(optimizer):
        for name, value in optimizer.state.get(parameter, {}).items():
            if hasattr(value, "numel") and name != "step":
                yield parameter, names.get(name, name), value


def paddles_parameters(optimizer: Any) -> Iterator[Any]:
    """Those that an optimizer updates, with gradients or without."""
    for entry in optimizer._parameter_list or ():
        if isinstance(entry, dict):
            yield from entry["params"]
        else:
            yield entry


def paddles_states(optimizer: Any) -> Iterator[tuple[Any, str, Any]]:
    """(parameter, name, tensor) of what an optimizer keeps for each parameter; powers of beta follow from the step's number."""
    tables = [(name, table) for name, table in optimizer._accumulators.items() if not name.endswith("_pow_acc")]
    tables.append(("master_weight", getattr(optimizer, "_master_weights", {})))
    for parameter in paddles_parameters(optimizer):
        for name, table in tables:
            if parameter.name in table:
                yield parameter, name.lstrip("_"), table[parameter.name]


def torchs_groups(optimizer: Any) -> list[ParameterGroup]:
    """Parameters with one setting each."""
    return [(group, group["params"]) for group in optimizer.param_groups]


def torchs_settings(optimizer: Any, group: ParameterGroup) -> Settings:
    """Those of a group's parameters."""
    options, name = group[0], type(optimizer).__name__
    settings = {word: _number(options[word]) for word in (WORDS if name in TORCHS_KINDS else {"lr"}) & options.keys()}
    if "betas" in options and name in TORCHS_KINDS:
        settings["beta1"], settings["beta2"] = map(_number, options["betas"])
    return plain({"optimizer": name, **settings})


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def torchs_begins(optimizer: Any) -> bool:
    """Whether an optimizer has made no step yet, and keeps nothing."""
    state: Mapping[str, Any] = next(iter(optimizer.state.values()), {})
    return not state or state.get("step", 1) == 0


def paddles_groups(optimizer: Any) -> list[ParameterGroup]:
    """Parameters with one setting each."""
    chooses = getattr(optimizer, "_apply_decay_param_fun", None)
    groups: dict[Any, ParameterGroup] = {}
    for entry in optimizer._param_groups:
        options, parameters = (entry, entry["params"]) if isinstance(entry, dict) else ({}, [entry])
        for parameter in parameters:
            regularizer = id(getattr(parameter, "regularizer", None))
            key = id(entry) if options else 0, _factor(parameter), regularizer, chooses and bool(chooses(parameter.name))
            groups.setdefault(key, (options, []))[1].append(parameter)
    return list(groups.values())


def _factor(parameter: Any) -> float:
    return float((getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0))


def paddles_settings(optimizer: Any, group: ParameterGroup) -> Settings:
    """Those of a group's parameters."""
    name, (options, (parameter, *_)), rate = type(optimizer).__name__, group, optimizer.get_lr()
    kind = PADDLES_KINDS.get(name)
    settings: Settings = {"optimizer": name, "lr": rate if _factor(parameter) == 1.0 else rate * _factor(parameter)}
    if kind is None:
        return settings
    settings["optimizer"] = kind.name
    for word, paddles in kind.settings.items():
        settings[word] = _number(options.get(paddles, getattr(optimizer, f"_{paddles}", getattr(optimizer, paddles, None))))
    return plain({**settings, "weight_decay": _decay(optimizer, kind, options, parameter)})


def _decay(optimizer: Any, kind: OptimizerKind, options: Mapping[str, Any], parameter: Any) -> Any:
    """The coefficient of L2 decay; another kind in words."""
    if kind.name == "AdamW":
        chooses = optimizer._apply_decay_param_fun
        return 0 if chooses is not None and not chooses(parameter.name) else options.get("weight_decay", optimizer._weight_decay)
    own = getattr(parameter, "regularizer", None)
    regularizer = optimizer.regularization if own is None else own
    method = options.get("regularization_method", getattr(optimizer, "_regularization_method", ""))
    if regularizer is None and method == "l2_decay":
        return options.get("regularization_coeff", optimizer._regularization_coeff)
    if regularizer is None or isinstance(regularizer, float):
        return regularizer or 0
    name, coefficient = type(regularizer).__name__, regularizer._coeff
    return coefficient if name.startswith("L2Decay") else f"{name}({coefficient:g})"


def paddles_begins(optimizer: Any) -> bool:
    """Whether an optimizer has made no step yet, and keeps nothing."""
    return not (optimizer._accumulators or optimizer._accumulators_holder)


def paddles_clip(optimizer: Any) -> Settings:
    """How an optimizer itself clips gradients."""
    clip: Any = getattr(optimizer, "_grad_clip", None)
    clip = getattr(clip, "_clip", clip)  # fleet's, around the program's own
    kinds = {kind.__name__ for kind in type(clip).__mro__}
    word = next((word for word, (kind, _) in CLIPS.items() if kind in kinds), "")
    if word == "clip_value":
        return {word: clip.max if clip.min == -clip.max else f"{clip.min:g} to {clip.max:g}"}
    return {word: clip.clip_norm} if word else {} if clip is None else {CLIP: type(clip).__name__}


def clip_of_call(function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Settings:
    """How a function of either framework, which programs call before a step, clips gradients."""
    limit = _number(arguments[0] if arguments else named.get("max_norm", named.get("clip_value")))
    if function == "clip_grad_value_":
        return {"clip_value": limit}
    order = (arguments[1] if len(arguments) > 1 else named.get("norm_type", 2.0)) if function == "clip_grad_norm_" else 2.0
    return {"clip_norm": limit if float(order) == 2.0 else f"{limit:g} of order {order}"}


class OptimizerReader(NamedTuple):
    """How optimizers of a framework are read."""

    groups: Callable[[Any], list[ParameterGroup]]
    settings: Callable[[Any, ParameterGroup], Settings]
    begins: Callable[[Any], bool]
    clip: Callable[[Any], Settings]


OF_TORCH = OptimizerReader(torchs_groups, torchs_settings, torchs_begins, lambda _: {})
OF_PADDLE = OptimizerReader(paddles_groups, paddles_settings, paddles_begins, paddles_clip)
