"""``padiff_shim.auto_diff``: PaDiff's question in PaDiff's words."""

from __future__ import annotations

import json
import linecache
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import paddle
import torch

from ..arguments import flag, one_of, path, whole
from ..dispatch.call_site import CallSite
from ..errors import ArgumentError, FileError, TransferError, described, unknown
from ..proof.proof import Proof
from ..proof.prove import prove
from ..text import SENTENCE, shown
from ..trees import as_array, leaves
from .models import LayerMap, Model, Pairing, assign, create_model, gradients, log, pair, told, values
from .running import Array, ModelRun, TrainedSide, Visit, VisitRecorder, mean_loss, trained

# ---- What a call of :func:`padiff_shim.auto_diff` may be told, under the words of all published versions of PaDiff.

MODES = ("strict", "mean", "abs_mean")
PHASES = ("both", "forward", "backward")
KERNELS = ("native", "torch")
# Words of one meaning: those of older versions, and ours.
ALIASES = {
    "auto_weights": "auto_init",
    "example_inp": "inputs",
    "inp": "inputs",
    "loss_fn": "loss_fns",
    "optimizer": "optimizers",
    "layer_mapping": "layer_map",
}
# What PaDiff's own functions leave in an options dict. They say what the arguments say, or open a debugger.
LEFT_BEHIND = ("use_loss", "use_opt", "opt_type", "debug", "cmd")
PUBLISHED_ATOL, PUBLISHED_RTOL = 0.0, 1e-7


@dataclass(frozen=True)
class AutoDiffOptions:
    """The options of a call; see :func:`padiff_shim.auto_diff`. ``notes``: what was changed because it could not be had."""

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
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        shown = [one.name for one in fields(self) if one.name not in ("tolerance_given", "notes")]
        return "{\n" + "".join(f"  {name}: `{getattr(self, name)}`\n" for name in shown) + "}"


NAMES = tuple(one.name for one in fields(AutoDiffOptions) if one.name not in ("tolerance_given", "notes"))


def collected(keywords: Mapping[str, Any], options: Any, accepted: Iterable[str]) -> dict[str, Any]:
    """Keywords and the entries of ``options=`` under their newest names.

    Raises:
        UnknownNameError: a word that no version knows.
        ArgumentError: one thing said twice, or ``options=`` is no dict.
    """
    if options is None:
        options = {}
    if not isinstance(options, Mapping):
        raise ArgumentError(f"options= is a dict, got {described(options)}")
    found: dict[str, Any] = {}
    words = [*accepted, *NAMES]
    for given in (keywords, options):
        for word, value in given.items():
            name = ALIASES.get(word, word)
            if name in LEFT_BEHIND:
                continue
            if name not in words:
                raise unknown("argument of auto_diff", word, [*words, *ALIASES])
            if name in found:
                raise ArgumentError(f"auto_diff: {word}= is given twice" + (f" ({name}=)" if name != word else ""))
            found[name] = value
    return found


def check_left_behind(given: Mapping[str, Any], *, loss: bool, optimizers: bool) -> None:
    """The words that PaDiff sets itself must say what is so.

    Raises:
        ArgumentError: they do not, or ask for a debugger.
    """
    for word, have, what in (("use_loss", loss, "loss_fn="), ("use_opt", optimizers, "optimizer=")):
        if given.get(word) and not have:
            raise ArgumentError(f"{word}=True without {what}")
    for word in ("debug", "cmd"):
        if given.get(word):
            raise ArgumentError(f"{word}=True opened a debugger; the report folder (report_dir=) holds what it showed")


def options_of(given: dict[str, Any], *, optimizers: bool, alike: bool) -> AutoDiffOptions:
    """The options of a call, checked.

    Args:
        given: by newest names.
        optimizers: whether the models are trained.
        alike: whether both models are of one framework.

    Raises:
        ArgumentError: a value of a kind that is not accepted.
    """
    tolerance = any(given.get(name) is not None for name in ("atol", "rtol"))
    kernels = given.get("kernels")
    kernels = one_of("kernels", kernels, KERNELS) if kernels is not None else "native" if tolerance or alike else "torch"
    folder = given.get("report_dir", AutoDiffOptions.report_dir)
    options = AutoDiffOptions(
        auto_init=_flag(given, "auto_init"),
        atol=_bound(given, "atol"),
        rtol=_bound(given, "rtol"),
        compare_mode=one_of("compare_mode", given.get("compare_mode", AutoDiffOptions.compare_mode), MODES),
        diff_phase=one_of("diff_phase", given.get("diff_phase", AutoDiffOptions.diff_phase), PHASES),
        single_step=_flag(given, "single_step"),
        steps=whole("steps", given.get("steps", 1), 1),
        kernels=kernels,
        explain=_flag(given, "explain"),
        report_dir=None if folder is None else str(path("report_dir", folder)),
        seed=whole("seed", given.get("seed", 0)),
        tolerance_given=tolerance,
    )
    return _possible(options, optimizers)


def _possible(options: AutoDiffOptions, optimizers: bool) -> AutoDiffOptions:
    """What PaDiff changes, too, and says."""
    notes = []
    if options.diff_phase == "backward" and not options.single_step:
        options = replace(options, diff_phase="both")
        notes.append("diff_phase `backward` needs single_step: set to `both`")
    if options.diff_phase == "forward" and optimizers:
        notes.append("diff_phase is `forward`: the optimizers are not used")
    if options.steps > 1 and (options.diff_phase == "forward" or not optimizers):
        options = replace(options, steps=1)
        notes.append("steps is set to 1: without optimizers and a backward every step is the same")
    return replace(options, notes=tuple(notes))


def _flag(given: dict[str, Any], name: str) -> bool:
    return flag(name, given.get(name, getattr(AutoDiffOptions, name)))


def _bound(given: dict[str, Any], name: str) -> float:
    value = given.get(name)
    if value is None:
        return float(getattr(AutoDiffOptions, name))
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
        raise ArgumentError(f"{name}= is a number from 0 on, got {described(value)}")
    return float(value)


# ---- Both published forms of PaDiff's call, and what they mean.
#
# 0.1 and 0.2: ``auto_diff(layer, module, example_inp, auto_weights, options, layer_map, loss_fn, optimizer, steps)``; the Paddle
# layer comes first, and the Torch module's weights are taken. 0.3: ``auto_diff(base_model, raw_model, inputs, loss_fns,
# optimizers,
# **options)``: of any framework, and the weights are the first model's. In both, inputs, losses and optimizers stand in the order
# of
# the models.

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
    """What is compared: of two, the first is the base model, whose weights are taken."""

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
    return AutoDiffCall(models, inputs, losses, optimizers if options.diff_phase != "forward" else None, layer_map, options)


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


# ---- When two arrays count as equal, by the caller's tolerance, and how they differ otherwise.


@dataclass(frozen=True)
class Tolerance:
    """``|base - raw| <= atol + rtol * |base|``, for every element (``"strict"``), or for means.

    ``mode``: ``"strict"``; ``"mean"``: of the two means alone, whatever the shapes: elements in another order are not noticed;
    ``"abs_mean"``: of the means of absolute values.
    """

    atol: float
    rtol: float
    mode: str = "strict"

    def difference(self, base: Array | None, raw: Array | None) -> str:
        """How two arrays differ, in words; "" if they are equal within the tolerance. None is what is not there."""
        if base is None or raw is None:
            return "" if base is raw else f"there is none in the {'base' if base is None else 'raw'} model"
        if self.mode == "strict" and base.shape != raw.shape:
            return f"shapes {list(base.shape)} and {list(raw.shape)}"
        ours, theirs = self._reduced(base), self._reduced(raw)
        if not ours.size or not theirs.size:
            return "" if ours.size == theirs.size else f"shapes {list(base.shape)} and {list(raw.shape)}"
        apart = _apart(ours, theirs)
        with np.errstate(invalid="ignore"):
            allowed = self.atol + self.rtol * np.abs(np.where(np.isfinite(ours), ours, 0.0))
        wrong = apart > allowed
        return self._told(ours, theirs, apart, wrong) if wrong.any() else ""

    def _reduced(self, array: Array) -> Array:
        wide = array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
        if self.mode == "strict" or not wide.size:
            return wide
        return np.asarray((np.abs(wide) if self.mode == "abs_mean" else wide).mean())

    def _told(self, ours: Array, theirs: Array, apart: Array, wrong: Array) -> str:
        place = np.unravel_index(int(apart.argmax()), apart.shape)
        at = f" at {[int(one) for one in place]}" if apart.ndim else ""
        largest = float(apart.max())
        finite = (np.abs(ours) > 0) & np.isfinite(ours)
        relative = float((apart[finite] / np.abs(ours[finite])).max()) if finite.any() else np.inf
        what = "elements" if self.mode == "strict" else "means" if self.mode == "mean" else "means of absolute values"
        return (
            f"{int(wrong.sum())} of {wrong.size} {what} ({100 * wrong.mean():.3g} %) differ by more than atol={self.atol:g} and "
            f"rtol={self.rtol:g}: largest difference {largest:.3g}{at} ({_number(ours[place])} and {_number(theirs[place])}), "
            f"largest relative one {relative:.3g}; atol={_above(largest):.1e} would let it pass"
        )


def _apart(ours: Array, theirs: Array) -> Array:
    """Absolute differences; 0 for equal infinities and for NaN on both sides, infinite where only one is finite."""
    with np.errstate(invalid="ignore"):
        between = np.abs(ours - theirs)
    equal = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    return np.asarray(np.nan_to_num(np.where(equal, 0.0, between), nan=np.inf, posinf=np.inf))


def _number(value: Any) -> str:
    return f"{value:.6g}"


def _above(value: float) -> float:
    """The next number of two digits."""
    if not np.isfinite(value) or value == 0:
        return value
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / unit) * unit)


# ---- The first place at which two runs part, by layers.


@dataclass(frozen=True)
class LayerPlace:
    """A layer of one model: its route, class and the lines that called it."""

    route: str
    kind: str
    stack: tuple[CallSite, ...] = ()


@dataclass
class StageDifference:
    """What differs first in a stage.

    Args:
        stage: ``forward``, ``loss``, ``backward`` or ``weights``.
        step: of the training.
        base, raw: the layers, or the weights, of both models.
        text: how the numbers differ.
        weights: all weights that differ in a ``backward`` (their gradients) or behind the optimizer: (base, raw, how).
    """

    stage: str
    step: int
    base: LayerPlace
    raw: LayerPlace
    text: str
    weights: list[tuple[str, str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types."""
        return asdict(self)


class LayerFinder:
    """Looks for differences between two models that stand for each other."""

    def __init__(self, models: tuple[Model, Model], pairing: Pairing, tolerance: Tolerance) -> None:
        self._models, self._pairing, self._tolerance = models, pairing, tolerance
        self.back = {other: one for one, other in pairing.layers.items()}

    def partner(self, recorder: VisitRecorder, visit: Visit) -> Visit | None:
        """The base model's visit that a visit of the raw one stands for; the models themselves are none."""
        path = self.back.get(visit.path)
        return recorder.by_key.get((path, visit.occurrence)) if path else None

    def forward(self, base: ModelRun, raw: ModelRun, step: int, *, every_layer: bool = False) -> StageDifference | None:
        """What differs in the outputs (or in any layer), at the first layer that differs."""
        found = "" if every_layer else self._outputs(base, raw)
        if not found and not every_layer:
            return None
        for mine, yours in self._visits(base, raw):
            told = "" if mine.path == "" and not every_layer else self._arrays(mine.outputs, yours.outputs)
            if told:
                return StageDifference("forward", step, *self._places(mine, yours), told)
        found = found or self._outputs(base, raw)
        roots = base.recorder.visits[-1], raw.recorder.visits[-1]
        return StageDifference("forward", step, *self._places(*roots), found) if found else None

    def loss(self, base: ModelRun, raw: ModelRun, step: int) -> StageDifference | None:
        """Whether the losses differ."""
        told = self._tolerance.difference(base.loss, raw.loss)
        places = [LayerPlace(model.name, "loss") for model in self._models]
        return StageDifference("loss", step, places[0], places[1], told) if told else None

    def backward(self, base: ModelRun, raw: ModelRun, step: int, *, every_layer: bool = False) -> StageDifference | None:
        """What differs in the gradients of weights and inputs (or of any layer), at the last layer that differs."""
        wrong = self.differing(gradients)
        told = next((how for _, _, how in wrong), "") or self._inputs(base, raw)
        if not told and not every_layer:
            return None
        for mine, yours in reversed(self._visits(base, raw)):
            shared = sorted({*mine.gradients} & {*yours.gradients})
            here = self._arrays([mine.gradients[one] for one in shared], [yours.gradients[one] for one in shared])
            if here:
                return StageDifference("backward", step, *self._places(mine, yours), f"gradient of its output: {here}", wrong)
        if not told:
            return None
        places = self._weight_places(wrong) if wrong else tuple(LayerPlace(model.name, "inputs") for model in self._models)
        return StageDifference("backward", step, places[0], places[1], f"gradient: {told}", wrong)

    def weights(self, step: int) -> StageDifference | None:
        """Which weights differ now."""
        wrong = self.differing(values)
        return StageDifference("weights", step, *self._weight_places(wrong), wrong[0][2], wrong) if wrong else None

    def _outputs(self, base: ModelRun, raw: ModelRun) -> str:
        if len(base.outputs) != len(raw.outputs):
            return f"{len(base.outputs)} outputs and {len(raw.outputs)}"
        same = set(base.outputs) == set(raw.outputs)
        others = [raw.outputs[path] for path in base.outputs] if same else list(raw.outputs.values())
        for (output_path, one), other in zip(base.outputs.items(), others):
            told = self._tolerance.difference(one, other)
            if told:
                return f"output {output_path}: {told}" if output_path else told
        return ""

    def _inputs(self, base: ModelRun, raw: ModelRun) -> str:
        names = [name for name in base.input_gradients if name in raw.input_gradients]
        found = ((name, self._tolerance.difference(base.input_gradients[name], raw.input_gradients[name])) for name in names)
        return next((f"of the input {name}: {told}" for name, told in found if told), "")

    def _visits(self, base: ModelRun, raw: ModelRun) -> list[tuple[Visit, Visit]]:
        """The visits of layers that stand for each other, in the base model's order."""
        found = []
        for visit in base.recorder.visits:
            path = self._pairing.layers.get(visit.path)
            other = raw.recorder.by_key.get((path, visit.occurrence)) if path is not None else None
            if other is not None:
                found.append((visit, other))
        return found

    def _arrays(self, ours: Iterable[Array], theirs: Iterable[Array]) -> str:
        """How the tensors of two layers differ; what one of them has more, it has for itself."""
        return next((told for one, other in zip(ours, theirs) if (told := self._tolerance.difference(one, other))), "")

    def _places(self, base: Visit, raw: Visit) -> tuple[LayerPlace, LayerPlace]:
        routes = [f"{model.name}.{one.path}" if one.path else model.name for model, one in zip(self._models, (base, raw))]
        return LayerPlace(routes[0], base.kind, base.stack), LayerPlace(routes[1], raw.kind, raw.stack)

    def _weight_places(self, wrong: list[tuple[str, str, str]]) -> tuple[LayerPlace, LayerPlace]:
        base, raw, _ = wrong[0]
        return LayerPlace(f"{self._models[0].name}.{base}", "weight"), LayerPlace(f"{self._models[1].name}.{raw}", "weight")

    def differing(self, read: Any) -> list[tuple[str, str, str]]:
        """The weights, or what ``read`` takes of them, that differ."""
        pairs = [one for one in self._pairing.weights if not one.buffer]
        ours = read(self._models[0], [one.base for one in pairs])
        theirs = read(self._models[1], [one.raw for one in pairs])
        found = []
        for one in pairs:
            mine, yours = ours.get(one.base), theirs.get(one.raw)
            laid = mine if mine is None else one.lay_base(mine), yours if yours is None else one.lay_raw(yours)
            told = self._tolerance.difference(*laid)
            if told:
                found.append((one.base, one.raw, told))
        return found


# ---- Why two models differ: what :func:`padiff_shim.prove` says of them.


@dataclass
class Explanation:
    """The proof, or why there is none."""

    proof: Proof | None
    headline: str

    @property
    def right(self) -> bool:
        """Whether the port is proven right."""
        return bool(self.proof)

    @property
    def lines(self) -> list[str]:
        """The mistakes with both lines."""
        found = []
        for number, mistake in enumerate(self.proof.mistakes if self.proof is not None else (), 1):
            found.append(f"{number}. {mistake}")
            for side, place in (("torch ", mistake.torch), ("paddle", mistake.paddle)):
                where = f"{place.file}:{place.line}: {place.source}" if place else "no counterpart"
                found.append(f"     {side} {where}")
        return found


def explained(call: AutoDiffCall, pairing: Pairing, found: StageDifference) -> Explanation:
    """A proof with the models' weights as they are now."""
    if call.alike:
        return Explanation(None, "both models are of one framework: there is nothing to prove")
    torch_first = call.models[0].framework == "torch"
    order = (1, 0) if torch_first else (0, 1)
    port, original = (call.models[place].model for place in order)
    inputs = {call.models[place].framework: call.inputs[place] for place in (0, 1)}
    losses = call.losses or (mean_loss, mean_loss)
    paddle_loss, torch_loss = (losses[place] for place in order)
    phase = "forward" if found.stage == "forward" or call.options.diff_phase == "forward" else "both"
    named: dict[str, Any] = {
        "weights": ("torch->paddle" if torch_first else "paddle->torch") if call.options.auto_init else "as-is",
        "layer_map": pairing.pins or None,
        "seed": call.options.seed,
    }
    if phase == "both" or call.losses:
        named["loss"] = (paddle_loss, torch_loss)
    try:
        proof = prove(port, original, lambda framework: inputs[framework], phase=phase, **named)
    except Exception as error:  # the verdict of the comparison stands without it
        return Explanation(None, f"no proof was possible ({type(error).__name__}: {str(error).splitlines()[0][:300]})")
    return Explanation(proof, proof.headline)


# ---- What a call prints at its end, and the folder that it leaves.

FILES = ("report.md", "report.json", "proof.html", "base_model.log", "raw_model.log", "grads_diff.log", "weights_diff.log")
_HERE = "    <---  *** HERE ***"


@dataclass
class Report:
    """The outcome of a call. ``reason``: why it ended before anything was compared."""

    call: AutoDiffCall
    agree: bool = False
    steps: int = 0
    reason: str = ""
    difference: StageDifference | None = None
    explanation: Explanation | None = None
    passes: tuple[ModelRun, ModelRun] | None = None

    @property
    def folder(self) -> Path | None:
        name = self.call.options.report_dir
        return Path(name).absolute() if name else None


def reported(report: Report) -> None:
    """Print the outcome and write the report folder.

    Raises:
        FileError: the folder cannot be written.
    """
    lines = _lines(report)
    for line in lines:
        log(line)
    folder = report.folder
    if folder is not None:
        write(report, lines, folder)
        log(f"Report: {folder / 'report.md'}")
    log("SUCCESS !!!" if report.agree else "FAILED !!!")


def _lines(report: Report) -> list[str]:
    """What is printed, paragraph by paragraph."""
    if report.reason:
        return [report.reason]
    found = report.difference
    if found is None:
        return [f"{report.steps} step(s) compared: {', '.join(_stages(report.call))} agree."]
    lines = [
        f"Diff found in {found.stage.title()} Stage, step {found.step}",
        f"    Type of layer is: {found.base.kind} vs {found.raw.kind}",
        f"    Route: {found.base.route}\n                      {found.raw.route}",
    ]
    if found.stage == "forward" and found.base.route == report.call.models[0].name:
        lines.append("    The layers inside that stand for each other agree: the difference is made between them.")
    lines += [
        f"    {shown(found.text, SENTENCE)}",
    ]
    lines += [f"{len(found.weights)} weights differ"] if len(found.weights) > 1 else []
    for model, place in zip(report.call.models, (found.base, found.raw)):
        if place.stack:
            lines.append(f"{model.framework.title()} stack:\n" + "\n".join(_frames(place)))
    explanation = report.explanation
    if explanation is not None:
        lines.append("Why: " + "\n".join([shown(explanation.headline, SENTENCE), *explanation.lines]))
    return lines


def _stages(call: AutoDiffCall) -> list[str]:
    phase = call.options.diff_phase
    found = ["forward"] if phase != "backward" else []
    found += ["loss"] if call.losses and phase != "backward" else []
    found += ["backward"] if phase != "forward" else []
    return found + (["weights"] if call.optimizers else [])


def _frames(place: LayerPlace) -> list[str]:
    found = []
    for site in place.stack:
        found.append(f"    File {site.file}: {site.line} in {site.function}")
        source = linecache.getline(site.file, site.line).strip()
        found += [f"        {shown(source)}"] if source else []
    return found


def write(report: Report, lines: list[str], folder: Path) -> None:
    """Write the folder's files; those of an earlier call are replaced, and removed where there is nothing to say.

    Raises:
        FileError: it cannot be written.
    """
    contents = {
        "report.md": _markdown(report, lines),
        "report.json": json.dumps(as_dict(report), indent=1) + "\n",
        "base_model.log": _tree(report.call.models[0], report.difference.base if report.difference else None),
        "raw_model.log": _tree(report.call.models[1], report.difference.raw if report.difference else None),
    }
    found = report.difference
    if found is not None and found.weights:
        contents["weights_diff.log" if found.stage == "weights" else "grads_diff.log"] = _weights(report.call, found)
    if report.explanation is not None and report.explanation.proof is not None:
        contents["proof.html"] = report.explanation.proof.to_html()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            target = folder / name
            if name in contents:
                partial = folder / f".{name}.{os.getpid()}"
                partial.write_text(contents[name], encoding="utf-8")
                partial.replace(target)
            else:
                target.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(
            f"report_dir= {folder} cannot be written: {error.strerror or error} (report_dir=None writes none; the models "
            f"{'agree' if report.agree else 'differ'})"
        ) from error


def as_dict(report: Report) -> dict[str, Any]:
    """The outcome in plain types."""
    proof = report.explanation.proof if report.explanation is not None else None
    return {
        "agree": report.agree,
        "steps": report.steps,
        "models": [{"name": model.name, "framework": model.framework} for model in report.call.models],
        "options": {name: value for name, value in vars(report.call.options).items() if name != "notes"},
        "notes": list(report.call.options.notes),
        "reason": report.reason,
        "difference": report.difference.as_dict() if report.difference is not None else None,
        "explanation": report.explanation.headline if report.explanation is not None else None,
        "proof": proof.as_dict() if proof is not None else None,
    }


def _markdown(report: Report, lines: list[str]) -> str:
    base, raw = report.call.models
    title = f"# {base.name} ({base.framework}) and {raw.name} ({raw.framework}): {'agree' if report.agree else 'differ'}"
    body = [f"```\n{line}\n```" for line in lines]
    proof = report.explanation.proof if report.explanation is not None else None
    return "\n\n".join([title, *body, *([proof.to_markdown()] if proof is not None else [])]) + "\n"


def _weights(call: AutoDiffCall, found: StageDifference) -> str:
    base, raw = call.models
    what = "value" if found.stage == "weights" else "gradient"
    head = f"{'=' * 25}\n{what} differs\n"
    blocks = [f"{head}    {base.name}.{one}\n    {raw.name}.{other}\n{how}\n" for one, other, how in found.weights]
    return "\n".join(blocks)


def _tree(model: Model, place: LayerPlace | None) -> str:
    """The model's layers as a tree, with the one that differs marked."""
    here = place.route.removeprefix(model.name).lstrip(".") if place is not None else None
    if place is not None and place.kind == "weight":
        here = (here or "").rpartition(".")[0]
    lines = [model.name, "=" * 40]
    for layer_path, layer in model.layers:
        depth = layer_path.count(".") + 1 if layer_path else 0
        name = f"{layer_path.rpartition('.')[2]}: " if layer_path else ""
        lines.append(f"{'    ' * depth}{name}{type(layer).__name__}{_HERE if layer_path == here else ''}")
    return "\n".join(lines) + "\n"


# ---- What PaDiff offers beside ``auto_diff``: weights taken over, and gradients, weights and data compared on their own.

_NOTHING = object()


def assign_weight(base_model: Any, raw_model: Any, layer_map: Any = None) -> bool:
    """Take all weights of one model over into the other, or none; see :func:`padiff_shim.transfer_weights`.

    Given a Paddle layer and a Torch module that no handle of ``create_model`` holds, the Torch module's weights are taken (PaDiff
    0.2); otherwise the first model's (0.3).

    Returns:
        Whether it was done; if not, why is printed.

    Raises:
        ArgumentError: an argument of a kind that is not accepted.
    """
    base, raw = _ordered_models(base_model, raw_model)
    try:
        pairing = assign(base, raw, LayerMap.of(layer_map, (base, raw)))
    except TransferError as error:
        log(f"Assign weight Failed !!! {error}")
        return False
    for note in pairing.notes:
        log(note)
    log(f"Assign weight success !!! ({base.name} -> {raw.name})")
    return True


def check_weight(layer: Any, module: Any, options: Any = None, layer_map: Any = None) -> bool:
    """Whether the weights of two models are equal now, within ``options`` (atol, rtol, compare_mode); prints those that are not."""
    return _check(layer, module, options, layer_map, values, "weight")


def check_grad(layer: Any, module: Any, options: Any = None, layer_map: Any = None) -> bool:
    """Whether the gradients of two models' weights are equal now, within ``options``; prints those that are not."""
    return _check(layer, module, options, layer_map, gradients, "grad")


def check_dataloader(first_loader: Iterable[Any], second_loader: Iterable[Any], **options: Any) -> bool:
    """Whether two loaders give equal batches, within ``options`` (atol, rtol, compare_mode); prints the first that is not.

    Batches are tensors, arrays, or tuples, lists and dicts of them. A loader that ends before the other gives other data.
    """
    tolerance = _tolerance(options)
    for number, (one, other) in enumerate(zip_longest(first_loader, second_loader, fillvalue=_NOTHING)):
        told = _batches_differ(one, other, tolerance)
        if told:
            log(f"check dataloader failed!!! batch {number}: {told}")
            return False
    return True


def _batches_differ(one: Any, other: Any, tolerance: Tolerance) -> str:
    if one is _NOTHING or other is _NOTHING:
        return f"the {'first' if one is _NOTHING else 'second'} loader has ended"
    ours, theirs = leaves(one), leaves(other)
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        return f"tensors {[path for path, _ in ours]} and {[path for path, _ in theirs]}"
    if not ours and one != other:
        return f"{described(one)} and {described(other)}"
    found = ((path, tolerance.difference(as_array(mine), as_array(yours))) for (path, mine), (_, yours) in zip(ours, theirs))
    return next((f"{path}: {told}".removeprefix(": ") for path, told in found if told), "")


def _check(layer: Any, module: Any, options: Any, layer_map: Any, read: Any, what: str) -> bool:
    base, raw = _ordered_models(layer, module)
    finder = LayerFinder((base, raw), pair(base, raw, LayerMap.of(layer_map, (base, raw))), _tolerance(options))
    wrong = finder.differing(read)
    for one, other, difference in wrong:
        log(f"{what} of {base.name}.{one} and {raw.name}.{other}: {difference}")
    if not wrong:
        log(f"{what} compared.")
    return not wrong


def _ordered_models(one: Any, other: Any) -> tuple[Model, Model]:
    marked = isinstance(one, Model) or isinstance(other, Model)
    first, second = create_model(one), create_model(other)
    turned = not marked and (first.framework, second.framework) == ("paddle", "torch")
    return (second, first) if turned else (first, second)


def _tolerance(options: Mapping[str, Any] | None) -> Tolerance:
    check_left_behind(options or {}, loss=True, optimizers=True)
    found: AutoDiffOptions = options_of(collected({}, options, ()), optimizers=True, alike=True)
    return Tolerance(found.atol, found.rtol, found.compare_mode)


# ---- ``padiff_shim.auto_diff``: PaDiff's question in PaDiff's words.

if TYPE_CHECKING:
    _Losses = tuple[Callable[[Any], Any], Callable[[Any], Any]] | list[Callable[[Any], Any]] | None
    _Inputs = tuple[Mapping[str, Any], Mapping[str, Any]] | list[Mapping[str, Any]]
    _Optimizers = tuple[Any, Any] | list[Any] | None


@overload
def auto_diff(
    layer: Any, module: Any, example_inp: _Inputs, auto_weights: bool = True, options: Mapping[str, Any] | None = None,
    layer_map: Any = None, loss_fn: _Losses = None, optimizer: _Optimizers = None, steps: int = 1,
) -> bool: ...  # fmt: skip


@overload
def auto_diff(
    base_model: Any, raw_model: Any, inputs: _Inputs, loss_fns: _Losses = None, optimizers: _Optimizers = None, **options: Any
) -> bool: ...


def auto_diff(*args: Any, **keywords: Any) -> bool:
    """Run two models side by side, and say whether they agree; print where they part first, and why.

    Takes the calls of PaDiff 0.1, 0.2 (Paddle's layer first; the Torch module's weights are taken) and 0.3 (any two models; the
    first one's weights are taken). The models are run themselves: they have equal weights and the gradients of the last step
    afterwards. Nothing else of them, and nothing of the frameworks, is changed.

    Args:
        base_model, raw_model (or layer, module): models, or handles of :func:`padiff_shim.autodiff.create_model`.
        inputs (or example_inp, inp): a pair of dicts of keyword arguments, in the order of the models.
        auto_init (or auto_weights): take the weights over first.
        loss_fns (or loss_fn): a pair of functions of the output; without, the mean of the output is gone back from.
        optimizers (or optimizer): a pair of optimizers, or of functions that update and clear gradients.
        layer_map: a :class:`padiff_shim.autodiff.LayerMap` or a dict of layers that stand for each other.
        options: a dict of what follows, which may also be given by name.
        atol, rtol: ``|base - raw| <= atol + rtol * |base|``, published as 0 and 1e-7. If neither is given, the Paddle model runs on
            Torch's kernels, and what :func:`padiff_shim.prove` shows to be rounding counts as equal.
        compare_mode: ``"strict"``, each element; ``"mean"`` or ``"abs_mean"``, the tensors' means alone.
        diff_phase: ``"both"``, ``"forward"``, or, with ``single_step``, ``"backward"``.
        single_step: each layer of the raw model goes on with the base model's values, and each is judged.
        steps: of the training, with ``optimizers``.
        kernels: whose kernels the Paddle model runs on, ``"native"`` or ``"torch"``.
        explain: whether a difference is explained by :func:`padiff_shim.prove`.
        report_dir: folder for the report, or None.
        seed: all random generators begin with it in each run, and are put back.

    Returns:
        True if the models agree.

    Raises:
        ArgumentError: an argument that is missing, unknown, or of a kind that is not accepted.
        FileError: the report cannot be written.

    Errors of the models themselves are raised unchanged.
    """
    call = read(args, keywords)
    log(f"Your options:\n{call.options}")
    for note in call.options.notes:
        log(note)
    if not call.options.tolerance_given and call.options.kernels == "torch":
        log("neither atol nor rtol is given: Paddle's model runs on Torch's kernels, and what is proven to be rounding is equal")
    report = _run(call)
    reported(report)
    return report.agree


def _run(call: AutoDiffCall) -> Report:
    base, raw = call.models
    report = Report(call)
    try:
        pairing = assign(base, raw, call.layer_map) if call.options.auto_init else pair(base, raw, call.layer_map)
    except TransferError as error:
        report.reason = f"Assign weight Failed !!! {error}"
        return report
    if call.options.auto_init:
        log(f"Assign weight success !!! ({base.name} -> {raw.name})")
    elif pairing.lonely:
        log(f"weights without partner are not compared: {', '.join(pairing.lonely[:8])}")
    for note in pairing.notes:
        log(note)
    report.difference = _trained(call, pairing, report)
    report.agree = report.difference is None
    return report


def _trained(call: AutoDiffCall, pairing: Pairing, report: Report) -> StageDifference | None:
    """All steps, until one differs."""
    losses, optimizers = call.losses or (None, None), call.optimizers or (None, None)
    sides = [
        trained(model, inputs, loss, optimizer, seed=call.options.seed, shim=call.options.kernels == "torch")
        for model, inputs, loss, optimizer in zip(call.models, call.inputs, losses, optimizers)
    ]
    options = call.options
    finder = LayerFinder(call.models, pairing, Tolerance(options.atol, options.rtol, options.compare_mode))
    check = _Check(call, pairing, finder, report)
    for step in range(options.steps):
        for phase in _phases(call):
            with sides[0].kept(buffers=phase.restored), sides[1].kept(buffers=phase.restored):
                found = check.phase(sides, phase, step)
            if found is not None:
                return found
        if call.optimizers is not None:
            for side in sides:
                side.update()
            found = finder.weights(step)
            if found is not None:
                report.explanation = None
                return found
        report.steps = step + 1
    return None


class _Phase:
    """One run of both models: what is looked at, what the raw model goes on with, and whether it leaves no trace."""

    def __init__(self, name: str, follow: str, restored: bool) -> None:
        self.name, self.follow, self.restored = name, follow, restored


def _phases(call: AutoDiffCall) -> list[_Phase]:
    phase, kept = call.options.diff_phase, call.optimizers is None
    if not call.options.single_step:
        return [_Phase(phase, "", kept)]
    forward, backward = _Phase("forward", "forward", True), _Phase("backward", "backward", kept)
    return {"both": [forward, backward], "forward": [forward], "backward": [backward]}[phase]


class _Check:
    """Runs both models for a phase, and judges what they gave."""

    def __init__(self, call: AutoDiffCall, pairing: Pairing, finder: LayerFinder, report: Report) -> None:
        self._call, self._pairing, self._finder, self._report = call, pairing, finder, report

    def phase(self, sides: list[TrainedSide], phase: _Phase, step: int) -> StageDifference | None:
        """The first difference that counts."""
        back = phase.name != "forward"
        until = TrainedSide.forward.__code__
        base = sides[0].forward(VisitRecorder(until), step, backward=back)
        follow = (lambda visit: self._finder.partner(base.recorder, visit)) if phase.follow else None
        raw = sides[1].forward(VisitRecorder(until, follow, phase.follow), step, backward=back)
        self._report.passes = (base, raw)
        for found in self._differences(base, raw, phase, step):
            if found is not None and not self._innocent(found):
                return found
        return None

    def _differences(self, base: ModelRun, raw: ModelRun, phase: _Phase, step: int) -> Any:
        """What differs in each stage, one after the other."""
        if phase.name != "backward":
            yield self._finder.forward(base, raw, step, every_layer=phase.follow == "forward")
            yield self._finder.loss(base, raw, step)
        if phase.name != "forward":
            yield self._finder.backward(base, raw, step, every_layer=phase.follow == "backward")

    def _innocent(self, found: StageDifference) -> bool:
        """Whether a difference is rounding, where no tolerance says how much of it may be."""
        self._report.explanation = explanation = self._explained(found)
        if explanation is None or self._call.options.tolerance_given or not explanation.right:
            return False
        log(f"{told(found)} That is rounding: {explanation.headline}")
        return True

    def _explained(self, found: StageDifference) -> Explanation | None:
        return explained(self._call, self._pairing, found) if self._call.options.explain else None
