"""``padiff_shim.auto_diff``: PaDiff's calls, answered by :func:`padiff_shim.prove`."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, overload

import numpy as np
import paddle
import torch

from ..arguments import flag, model, one_of, whole
from ..errors import ArgumentError, described, unknown
from ..measure.difference import Comparator
from ..proof.prove import prove
from ..text import tr
from ..trees import leaves

Pair = dict[str, Any]  # what belongs to "paddle", and what to "torch"
# What PaDiff 0.1 and 0.2 take by position, and 0.3; older names -> those of 0.3.
_OLDER = ("layer", "module", "example_inp", "auto_weights", "options", "layer_map", "loss_fn", "optimizer", "steps")
_NEWER = ("base_model", "raw_model", "inputs", "loss_fns", "optimizers")
_NAMES = {
    "layer": "base_model", "module": "raw_model", "example_inp": "inputs", "inp": "inputs", "auto_weights": "auto_init",
    "loss_fn": "loss_fns", "optimizer": "optimizers", "layer_mapping": "layer_map",
}  # fmt: skip
_OPTIONS = ("auto_init", "layer_map", "steps", "atol", "rtol", "compare_mode", "diff_phase", "single_step")
_OPTIMIZERS = {"paddle": paddle.optimizer.Optimizer, "torch": torch.optim.Optimizer}


@overload
def auto_diff(
    layer: Any, module: Any, example_inp: Any, auto_weights: bool = True, options: Mapping[str, Any] | None = None,
    layer_map: Any = None, loss_fn: Any = None, optimizer: Any = None, steps: int = 1,
) -> bool: ...  # fmt: skip


@overload
def auto_diff(
    base_model: Any, raw_model: Any, inputs: Any, loss_fns: Any = None, optimizers: Any = None, **options: Any
) -> bool: ...


def auto_diff(*args: Any, **keywords: Any) -> bool:
    """Say whether a Paddle layer computes what a Torch module computes, in a call of PaDiff 0.1, 0.2 or 0.3; print the proof.

    The models are not changed, nor are weights copied into them: :func:`padiff_shim.transfer_weights` does that.

    Args:
        base_model, raw_model (or layer, module): the Paddle layer and the Torch module, in either order.
        inputs (or example_inp, inp): a pair of dicts of keyword arguments, in the order of the models; or what ``prove`` takes.
        auto_init (or auto_weights): both have the weights of the Torch module; in a call of 0.3 of the first model. Otherwise
            each keeps its own.
        loss_fns (or loss_fn): a pair of functions of the output, in the order of the models.
        optimizers (or optimizer): a pair of new optimizers of the models, in their order; copies of these train copies of the
            models. Without ``loss_fns`` the loss is the output's mean.
        steps: how many steps are trained.
        layer_map: a dict of layers that belong together, either way round, or of their names (Torch's -> Paddle's).
        options: a dict of the following, which are also accepted as keywords.
        atol, rtol: outputs and gradients count as equal within ``atol + rtol * |Torch's|`` (0 and 1e-7 where one is missing). If
            both are missing, a difference counts as equal only if it is rounding. Not with ``optimizers``.
        diff_phase: ``"both"`` or ``"forward"``.
        compare_mode: ``"strict"``: each element counts.
        single_step: True or False: behind each mistake the port goes on with the original's values in any case.

    Returns:
        True if the port is right.

    Raises:
        ArgumentError: an argument is missing, unknown or not accepted; the message says what to use.

    Example:
        >>> import paddle, torch, padiff_shim
        >>> inputs = {"input": paddle.ones([2, 3])}, {"input": torch.ones(2, 3)}
        >>> padiff_shim.auto_diff(paddle.nn.Linear(3, 4), torch.nn.Linear(3, 4), inputs)  # doctest: +ELLIPSIS
        [AutoDiff] CODE_CORRECT: ...
        [AutoDiff] SUCCESS !!!
        True
    """
    arguments, first_gives = _named(args, keywords)
    order, models = _models(arguments.pop("base_model", None), arguments.pop("raw_model", None))
    inputs = arguments.pop("inputs", None)
    if isinstance(inputs, (list, tuple)) and len(inputs) == 2 and all(isinstance(each, Mapping) for each in inputs):
        inputs = dict(zip(order, inputs)).__getitem__
    source = order[0] if first_gives else "torch"
    weights = {"torch": "torch->paddle", "paddle": "paddle->torch"}[source] if _flag(arguments, "auto_init", True) else "as-is"
    proof = prove(models["paddle"], models["torch"], inputs, weights=weights, **_question(arguments, order, models))
    print(f"[AutoDiff] {proof}\n[AutoDiff] {'SUCCESS' if proof else 'FAILED'} !!!")
    return bool(proof)


def _named(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The arguments by their names of 0.3, and whether the weights are those of the first model."""
    older = len(args) <= 3 or isinstance(args[3], bool)
    positional = dict(zip(_OLDER if older else _NEWER, args))
    if len(args) > len(_OLDER if older else _NEWER):
        raise ArgumentError("auto_diff takes no {count} arguments by position: name the later ones", count=len(args))
    options = {**positional, **keywords}.get("options") or {}
    if not isinstance(options, Mapping):
        raise ArgumentError("options= is a dict, got {options}", options=described(options))
    arguments: dict[str, Any] = {}
    for word, value in [*positional.items(), *keywords.items(), *options.items()]:
        name = _NAMES.get(word, word)
        if name not in (*_NEWER, *_OPTIONS, "options"):
            raise unknown(tr("argument of auto_diff"), word, [*_OLDER, *_NEWER, *_OPTIONS])
        if name in arguments:
            raise ArgumentError("auto_diff: {word}= is given twice", word=word)
        arguments[name] = value
    arguments.pop("options", None)
    return arguments, not {*positional, *keywords} <= {*_OLDER, "inp", "layer_mapping"}


def _models(first: Any, second: Any) -> tuple[list[str], Pair]:
    """The frameworks in the order of the models, and the models."""
    order = [model(tr("the first model of auto_diff"), first), model(tr("the second model of auto_diff"), second)]
    if order[0] == order[1]:
        raise ArgumentError(
            "auto_diff takes a Paddle layer and a Torch module; record and diff compare two models of one framework"
        )
    return order, dict(zip(order, (first, second)))


def _question(arguments: dict[str, Any], order: list[str], models: Pair) -> dict[str, Any]:
    """The further arguments of ``prove``."""
    losses = _pair("loss_fns", arguments.pop("loss_fns", None), order)
    optimizers = _pair("optimizers", arguments.pop("optimizers", None), order)
    phase = one_of("diff_phase", arguments.pop("diff_phase", "both"), ("both", "forward"))
    if (mode := arguments.pop("compare_mode", "strict")) != "strict":
        raise ArgumentError(
            "compare_mode={mode}: equal means hide mistakes; equal= of prove takes a comparator of your own", mode=repr(mode)
        )
    _flag(arguments, "single_step", False)
    steps = whole("steps", arguments.pop("steps", 1), least=1)
    # Torch's names -> Paddle's; ``prove`` runs copies, which hold none of the caller's layers
    layer_map = arguments.pop("layer_map", None)
    if not isinstance(layer_map, (Mapping, type(None))):
        raise ArgumentError("layer_map= is a dict of layers or of their names, got {layer_map}", layer_map=described(layer_map))
    layers = [*models["torch"].named_modules(), *models["paddle"].named_sublayers(include_self=True)]
    names = {id(layer): name for name, layer in layers}
    pairs = ((pair[::-1] if isinstance(pair[0], paddle.nn.Layer) else pair) for pair in (layer_map or {}).items())
    question: dict[str, Any] = {
        "layer_map": {names.get(id(original), original): names.get(id(port), port) for original, port in pairs} or None,
        "equal": _within(**arguments),
        "phase": phase,
    }
    if optimizers is not None:
        question.update(phase="train", steps=steps, optimizer=_optimizers(optimizers, models))
        if question["equal"] is not None:
            raise ArgumentError("atol= and rtol= judge no training: leave them out, and only rounding counts as equal")
        losses = losses or {"paddle": _mean, "torch": _mean}
    return {**question, "loss": None if losses is None else (losses["paddle"], losses["torch"])}


def _pair(name: str, value: Any, order: list[str]) -> Pair | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ArgumentError("{name}= is a pair in the order of the models, got {value}", name=name, value=described(value))
    return dict(zip(order, value))


def _flag(arguments: dict[str, Any], name: str, default: bool) -> bool:
    return flag(name, arguments.pop(name, default))


def _within(atol: Any = None, rtol: Any = None) -> Comparator | None:
    """The comparator of PaDiff's tolerance, with its defaults; None without one."""
    if atol is None and rtol is None:
        return None
    bounds = {"atol": 0.0 if atol is None else atol, "rtol": 1e-7 if rtol is None else rtol}
    for name, value in bounds.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
            raise ArgumentError("{name}= is a number from 0 on, got {value}", name=name, value=described(value))
    return lambda port, original, name: bool(np.allclose(port, original, **bounds, equal_nan=True))


def _optimizers(optimizers: Pair, models: Pair) -> Callable[[str, Any], Any]:
    """What makes the optimizer of a copy of a model: a copy of the caller's."""
    for framework, optimizer in optimizers.items():
        if not isinstance(optimizer, _OPTIMIZERS[framework]):
            raise ArgumentError(
                "optimizers= are optimizers of the models, in their order, got {optimizer}; a function goes to "
                "prove(..., phase='train', optimizer=function of 'paddle' or 'torch' and the model)",
                optimizer=described(optimizer),
            )

    def remade(framework: str, copied: Any) -> Any:
        parameters = zip(models[framework].parameters(), copied.parameters())
        try:
            return copy.deepcopy(optimizers[framework], {id(parameter): other for parameter, other in parameters})
        except TypeError as error:  # Paddle's hold a program since their first step
            raise ArgumentError(
                "the optimizer of {framework} cannot be copied: pass a new one ({error})",
                framework=framework.title(),
                error=error,
            ) from error

    return remade


def _mean(output: Any) -> Any:
    """PaDiff's own loss."""
    floats = [tensor for _, tensor in leaves(output) if "float" in str(tensor.dtype)]
    return sum(tensor.mean() for tensor in floats) / len(floats)
