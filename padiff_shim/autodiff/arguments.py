"""The arguments of ``auto_diff``, under the names of all published versions of PaDiff."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import paddle
import torch

from ..arguments import flag, one_of, path, whole
from ..arguments import model as checked_model
from ..arguments import seed as checked_seed
from ..errors import ArgumentError, described, unknown
from ..text import joined, tr
from ..trees import leaves
from .models import LayerMap, Model, create_model

MODES = ("strict", "mean", "abs_mean")
PHASES = ("both", "forward", "backward")
KERNELS = ("native", "torch")
# Names of older versions of PaDiff -> the newest ones.
ALIASES = {
    "auto_weights": "auto_init",
    "example_inp": "inputs",
    "inp": "inputs",
    "loss_fn": "loss_fns",
    "optimizer": "optimizers",
    "layer_mapping": "layer_map",
}
# Keys that PaDiff's own functions leave in an options dict: they repeat what the arguments say, or open a debugger.
LEFT_BEHIND = ("use_loss", "use_opt", "opt_type", "debug", "cmd")
PUBLISHED_ATOL, PUBLISHED_RTOL = 0.0, 1e-7


@dataclass(frozen=True)
class AutoDiffOptions:
    """The checked options of a call; see :func:`padiff_shim.auto_diff`. ``notes``: which options were changed, and why."""

    auto_init: bool = True
    atol: float = PUBLISHED_ATOL
    rtol: float = PUBLISHED_RTOL
    compare_mode: str = "strict"
    diff_phase: str = "both"
    single_step: bool = False
    steps: int = 1
    kernels: str = "native"
    explain: bool = True
    report_dir: str | None = "padiff_log"
    seed: int = 0
    tolerance_given: bool = False
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [option.name for option in fields(self) if option.name not in ("tolerance_given", "notes")]
        return "{\n" + "".join(f"  {name}: `{getattr(self, name)}`\n" for name in shown) + "}"


NAMES = tuple(option.name for option in fields(AutoDiffOptions) if option.name not in ("tolerance_given", "notes"))


def collected(keywords: Mapping[str, Any], options: Any, accepted: Iterable[str]) -> dict[str, Any]:
    """Keywords and the entries of ``options=`` under their newest names.

    Raises:
        UnknownNameError: no version of PaDiff has an argument of that name.
        ArgumentError: an argument is passed twice, or ``options=`` is no dict.
    """
    if options is None:
        options = {}
    if not isinstance(options, Mapping):
        raise ArgumentError(tr("options= is a dict, got {options}", options=described(options)))
    arguments: dict[str, Any] = {}
    words = [*accepted, *NAMES]
    for source in (keywords, options):
        for word, value in source.items():
            name = ALIASES.get(word, word)
            if name in LEFT_BEHIND:
                continue
            if name not in words:
                raise unknown(tr("argument of auto_diff"), word, [*words, *ALIASES])
            if name in arguments:
                also = f" ({name}=)" if name != word else ""
                raise ArgumentError(tr("auto_diff: {word}= is given twice{also}", word=word, also=also))
            arguments[name] = value
    return arguments


def check_left_behind(words: Mapping[str, Any], *, loss: bool, optimizers: bool) -> None:
    """Check the keys that PaDiff sets itself against the arguments.

    Raises:
        ArgumentError: a key contradicts the arguments, or asks for a debugger.
    """
    for word, have, what in (("use_loss", loss, "loss_fn="), ("use_opt", optimizers, "optimizer=")):
        if words.get(word) and not have:
            raise ArgumentError(tr("{word}=True without {what}", word=word, what=what))
    for word in ("debug", "cmd"):
        if words.get(word):
            raise ArgumentError(
                tr("{word}=True opened a debugger; the report folder (report_dir=) holds what it showed", word=word)
            )


def options_of(values: dict[str, Any], *, optimizers: bool, alike: bool) -> AutoDiffOptions:
    """The options of a call, checked.

    Args:
        values: the options, by their newest names.
        optimizers: whether the call has optimizers.
        alike: whether both models are of one framework.

    Raises:
        ArgumentError: an option has a value that is not accepted.
    """
    tolerance = any(values.get(name) is not None for name in ("atol", "rtol"))
    kernels = values.get("kernels")
    kernels = one_of("kernels", kernels, KERNELS) if kernels is not None else "native" if tolerance or alike else "torch"
    folder = values.get("report_dir", AutoDiffOptions.report_dir)
    options = AutoDiffOptions(
        auto_init=_flag(values, "auto_init"),
        atol=_bound(values, "atol"),
        rtol=_bound(values, "rtol"),
        compare_mode=one_of("compare_mode", values.get("compare_mode", AutoDiffOptions.compare_mode), MODES),
        diff_phase=one_of("diff_phase", values.get("diff_phase", AutoDiffOptions.diff_phase), PHASES),
        single_step=_flag(values, "single_step"),
        steps=whole("steps", values.get("steps", 1), 1),
        kernels=kernels,
        explain=_flag(values, "explain"),
        report_dir=None if folder is None else str(path("report_dir", folder)),
        seed=checked_seed(values.get("seed", 0)),
        tolerance_given=tolerance,
    )
    return _possible(options, optimizers)


def _possible(options: AutoDiffOptions, optimizers: bool) -> AutoDiffOptions:
    """The options without combinations that PaDiff does not run either; a note names each change."""
    notes = []
    if options.diff_phase == "backward" and not options.single_step:
        options = replace(options, diff_phase="both")
        notes.append(tr("diff_phase `backward` needs single_step: set to `both`"))
    if options.diff_phase == "forward" and optimizers:
        notes.append(tr("diff_phase is `forward`: the optimizers are not used"))
    if options.steps > 1 and (options.diff_phase == "forward" or not optimizers):
        options = replace(options, steps=1)
        notes.append(tr("steps is set to 1: without optimizers and a backward every step is the same"))
    return replace(options, notes=tuple(notes))


def _flag(values: dict[str, Any], name: str) -> bool:
    return flag(name, values.get(name, getattr(AutoDiffOptions, name)))


def _bound(values: dict[str, Any], name: str) -> float:
    value = values.get(name)
    if value is None:
        return float(getattr(AutoDiffOptions, name))
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise ArgumentError(tr("{name}= is a number from 0 on, got {value}", name=name, value=described(value)))
    return float(value)


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
class AutoDiffCall:
    """A call of ``auto_diff``. The first of each pair belongs to the base model, from which weights are copied."""

    models: tuple[Model, Model]
    inputs: tuple[dict[str, Any], dict[str, Any]]
    losses: tuple[Any, Any] | None
    optimizers: tuple[Any, Any] | None
    layer_map: LayerMap
    options: AutoDiffOptions

    @property
    def alike(self) -> bool:
        """Whether both models are of one framework."""
        return self.models[0].framework == self.models[1].framework


def read(args: tuple[Any, ...], keywords: dict[str, Any]) -> AutoDiffCall:
    """The call that these arguments mean, in either published form.

    PaDiff 0.1 and 0.2: ``auto_diff(layer, module, example_inp, auto_weights, options, layer_map, loss_fn, optimizer, steps)``; the
    Paddle layer comes first, and weights are copied from the Torch module. 0.3: ``auto_diff(base_model, raw_model, inputs,
    loss_fns, optimizers, **options)``: models of any framework, and weights are copied from the first one. In both, inputs, losses
    and optimizers stand in the order of the models.

    Raises:
        ArgumentError: an argument is missing, unknown or not accepted.
    """
    positional, classic = _positional(args)
    newest = {ALIASES.get(word, word) for word in keywords}
    for name in positional:
        if ALIASES.get(name, name) in newest:
            raise ArgumentError(tr("auto_diff: {name}= is given by position and by name", name=name))
    keywords = {**positional, **keywords}
    classic = classic or all(word in _CLASSIC for word in keywords if word not in ("base_model", "raw_model", "inputs"))
    listed = keywords.get("options")
    arguments = collected({word: value for word, value in keywords.items() if word != "options"}, listed, _ACCEPTED)
    models, turned = _models(arguments, classic)
    alike = models[0].framework == models[1].framework
    inputs = _inputs(arguments.pop("inputs", None), models, turned)
    losses = _pair("loss_fns", arguments.pop("loss_fns", None), callable, tr("functions of the output"), turned)
    optimizers = _optimizers(arguments.pop("optimizers", None), models, turned)
    layer_map = LayerMap.of(arguments.pop("layer_map", None), models)
    check_left_behind({**(listed or {}), **keywords}, loss=losses is not None, optimizers=optimizers is not None)
    options = options_of(arguments, optimizers=optimizers is not None, alike=alike)
    return AutoDiffCall(models, inputs, losses, optimizers if options.diff_phase != "forward" else None, layer_map, options)


def _positional(args: tuple[Any, ...]) -> tuple[dict[str, Any], bool]:
    """(arguments by name, whether the call is certainly of the older form) of positional arguments."""
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
        raise ArgumentError(
            tr(
                "auto_diff takes at most {most} arguments by position ({names}), got {count}",
                most=len(names),
                names=joined(", ", names),
                count=len(args),
            )
        )
    return dict(zip(names, args)), classic


def _models(arguments: dict[str, Any], classic: bool) -> tuple[tuple[Model, Model], bool]:
    """((base, raw), whether the call has them in the other order)."""
    if "layer" in arguments or "module" in arguments:
        pair = arguments.pop("layer", arguments.pop("base_model", None)), arguments.pop("module", arguments.pop("raw_model", None))
    else:
        pair = arguments.pop("base_model", None), arguments.pop("raw_model", None)
    for place, model in zip(("first", "second"), pair):
        if not isinstance(model, Model):
            checked_model(tr("the {place} argument of auto_diff", place=place), model)
    first, second = (create_model(model) for model in pair)
    turned = classic and (first.framework, second.framework) == ("paddle", "torch")
    return ((second, first) if turned else (first, second)), turned


def _inputs(value: Any, models: tuple[Model, Model], turned: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    pair = _pair("inputs", value, lambda inputs: isinstance(inputs, Mapping), tr("dicts of keyword arguments"), turned)
    if pair is None:
        raise ArgumentError(tr("inputs= is missing: a pair of dicts of keyword arguments, one for each model in their order"))
    tensors = paddle.Tensor, torch.Tensor
    for model, inputs in zip(models, pair):
        wrong = [name for name, leaf in leaves(inputs) if isinstance(leaf, tensors) and not isinstance(leaf, model.tensor)]
        if wrong:
            raise ArgumentError(
                tr(
                    "inputs= are in the order of the models: {value} is no tensor of {framework}, but is meant for {name}",
                    value=repr(wrong[0]),
                    framework=model.framework.title(),
                    name=model.name,
                )
            )
    return dict(pair[0]), dict(pair[1])


def _optimizers(value: Any, models: tuple[Model, Model], turned: bool) -> tuple[Any, Any] | None:
    kinds = {"paddle": paddle.optimizer.Optimizer, "torch": torch.optim.Optimizer}
    fits = lambda optimizer: callable(optimizer) or isinstance(optimizer, tuple(kinds.values()))  # noqa: E731
    pair = _pair("optimizers", value, fits, tr("optimizers or functions without arguments"), turned)
    for model, optimizer in zip(models, pair or ()):
        if isinstance(optimizer, tuple(kinds.values())) and not isinstance(optimizer, kinds[model.framework]):
            raise ArgumentError(
                tr(
                    "optimizers= are in the order of the models: {name} is of {framework}",
                    name=model.name,
                    framework=model.framework.title(),
                )
            )
    return pair


def _pair(name: str, value: Any, fits: Callable[[Any], bool], what: str, turned: bool) -> tuple[Any, Any] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(map(fits, value)):
        raise ArgumentError(
            tr("{name}= is a pair of {what}, in the order of the models, got {value}", name=name, what=what, value=described(value))
        )
    return (value[1], value[0]) if turned else (value[0], value[1])
