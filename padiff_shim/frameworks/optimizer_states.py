"""What optimizers of both frameworks keep for parameters, under Paddle's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


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
