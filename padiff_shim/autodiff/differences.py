"""Where two runs first differ by more than the tolerance: which layers, which weights, by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..dispatch.call_site import CallSite
from ..text import tr
from .models import Model
from .pairs import Pairing, gradients, values
from .running import Array, ModelRun, Visit, VisitRecorder

WeightDifference = tuple[str, str, str]  # a weight's name in the base model, in the raw model, and how they differ


@dataclass(frozen=True)
class Tolerance:
    """When two arrays count as equal: ``|base - raw| <= atol + rtol * |base|``.

    ``mode``: ``"strict"``: for every element; ``"mean"``: for the two means alone, whatever the shapes, so that elements in another
    order are not noticed; ``"abs_mean"``: for the means of absolute values.
    """

    atol: float
    rtol: float
    mode: str = "strict"

    def difference(self, base: Array | None, raw: Array | None) -> str:
        """How two arrays differ, in words; "" if they are equal within the tolerance. None stands for a missing array."""
        if base is None or raw is None:
            return "" if base is raw else tr("there is none in the {model} model", model="base" if base is None else "raw")
        if self.mode == "strict" and base.shape != raw.shape:
            return tr("shapes {shape} and {other}", shape=list(base.shape), other=list(raw.shape))
        base_values, raw_values = self._reduced(base), self._reduced(raw)
        if not base_values.size or not raw_values.size:
            return (
                ""
                if base_values.size == raw_values.size
                else tr("shapes {shape} and {other}", shape=list(base.shape), other=list(raw.shape))
            )
        apart = _apart(base_values, raw_values)
        with np.errstate(invalid="ignore"):
            allowed = self.atol + self.rtol * np.abs(np.where(np.isfinite(base_values), base_values, 0.0))
        wrong = apart > allowed
        return self._in_words(base_values, raw_values, apart, wrong) if wrong.any() else ""

    def _reduced(self, array: Array) -> Array:
        wide = array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
        if self.mode == "strict" or not wide.size:
            return wide
        return np.asarray((np.abs(wide) if self.mode == "abs_mean" else wide).mean())

    def _in_words(self, base: Array, raw: Array, apart: Array, wrong: Array) -> str:
        place = np.unravel_index(int(apart.argmax()), apart.shape)
        at = f" at {[int(index) for index in place]}" if apart.ndim else ""
        largest = float(apart.max())
        finite = (np.abs(base) > 0) & np.isfinite(base)
        relative = float((apart[finite] / np.abs(base[finite])).max()) if finite.any() else np.inf
        what = "elements" if self.mode == "strict" else "means" if self.mode == "mean" else "means of absolute values"
        return tr(
            "{number} of {size} {what} ({mean:.3g} %) differ by more than atol={atol:g} and rtol={rtol:g}: "
            "largest difference {largest:.3g}{at} ({base:.6g} and {raw:.6g}), largest relative one "
            "{relative:.3g}; atol={above:.1e} would let it pass",
            number=int(wrong.sum()),
            size=wrong.size,
            what=what,
            mean=100 * wrong.mean(),
            atol=self.atol,
            rtol=self.rtol,
            largest=largest,
            at=at,
            base=base[place],
            raw=raw[place],
            relative=relative,
            above=_above(largest),
        )


def _apart(base: Array, raw: Array) -> Array:
    """Absolute differences; 0 for equal infinities and for NaN on both sides, infinite where only one is finite."""
    with np.errstate(invalid="ignore"):
        between = np.abs(base - raw)
    equal = (base == raw) | ((base != base) & (raw != raw))
    return np.asarray(np.nan_to_num(np.where(equal, 0.0, between), nan=np.inf, posinf=np.inf))


def _above(value: float) -> float:
    """The value, rounded up to two digits."""
    if not np.isfinite(value) or value == 0:
        return value
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / unit) * unit)


@dataclass(frozen=True)
class LayerPlace:
    """A layer of one model: its route, class and the lines that called it."""

    route: str
    kind: str
    stack: tuple[CallSite, ...] = ()


@dataclass
class StageDifference:
    """The first difference of a stage.

    Args:
        stage: ``forward``, ``loss``, ``backward`` or ``weights``.
        step: the step of the training.
        base, raw: the layers, or the weights, of both models.
        text: how the numbers differ.
        weights: all weights whose gradients differ in a ``backward``, or that differ after the optimizer's step.
    """

    stage: str
    step: int
    base: LayerPlace
    raw: LayerPlace
    text: str
    weights: list[WeightDifference] = field(default_factory=list)

    def __str__(self) -> str:
        routes = f"{self.base.route} vs {self.raw.route}"
        return str(
            tr(
                "Diff found in {title} Stage, step {step}, at {routes}: {text}.",
                title=self.stage.title(),
                step=self.step,
                routes=routes,
                text=self.text,
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain data."""
        return asdict(self)


class LayerFinder:
    """Compares the runs of two paired models, stage by stage."""

    def __init__(self, models: tuple[Model, Model], pairing: Pairing, tolerance: Tolerance) -> None:
        self._models, self._pairing, self._tolerance = models, pairing, tolerance
        self._base_paths = {partner: path for path, partner in pairing.layers.items()}

    def partner(self, recorder: VisitRecorder, visit: Visit) -> Visit | None:
        """The base model's visit of the layer that is paired with a visit's layer; None for the models themselves."""
        path = self._base_paths.get(visit.path)
        return recorder.by_key.get((path, visit.occurrence)) if path else None

    def forward(self, base: ModelRun, raw: ModelRun, step: int, *, every_layer: bool = False) -> StageDifference | None:
        """The first layer whose outputs differ, if the models' outputs do; with ``every_layer``, whether they do or not."""
        difference = "" if every_layer else self._outputs(base, raw)
        if not difference and not every_layer:
            return None
        for base_visit, raw_visit in self._visits(base, raw):
            whole = base_visit.path == "" and not every_layer
            in_layer = "" if whole else self._first_difference(base_visit.outputs, raw_visit.outputs)
            if in_layer:
                return StageDifference("forward", step, *self._places(base_visit, raw_visit), in_layer)
        difference = difference or self._outputs(base, raw)
        roots = base.recorder.visits[-1], raw.recorder.visits[-1]
        return StageDifference("forward", step, *self._places(*roots), difference) if difference else None

    def loss(self, base: ModelRun, raw: ModelRun, step: int) -> StageDifference | None:
        """The difference of the losses."""
        difference = self._tolerance.difference(base.loss, raw.loss)
        places = [LayerPlace(model.name, "loss") for model in self._models]
        return StageDifference("loss", step, places[0], places[1], difference) if difference else None

    def backward(self, base: ModelRun, raw: ModelRun, step: int, *, every_layer: bool = False) -> StageDifference | None:
        """The last layer whose gradients differ, if those of weights or inputs do; with ``every_layer``, whether they do or not."""
        wrong = self.differing(gradients)
        difference = next((how for _, _, how in wrong), "") or self._inputs(base, raw)
        if not difference and not every_layer:
            return None
        for base_visit, raw_visit in reversed(self._visits(base, raw)):
            shared = sorted({*base_visit.gradients} & {*raw_visit.gradients})
            arrays = ([visit.gradients[place] for place in shared] for visit in (base_visit, raw_visit))
            in_layer = self._first_difference(*arrays)
            if in_layer:
                places = self._places(base_visit, raw_visit)
                return StageDifference(
                    "backward", step, *places, tr("gradient of its output: {in_layer}", in_layer=in_layer), wrong
                )
        if not difference:
            return None
        inputs = [LayerPlace(model.name, "inputs") for model in self._models]
        base_place, raw_place = self._weight_places(wrong) if wrong else inputs
        return StageDifference("backward", step, base_place, raw_place, tr("gradient: {difference}", difference=difference), wrong)

    def weights(self, step: int) -> StageDifference | None:
        """The weights that differ now."""
        wrong = self.differing(values)
        return StageDifference("weights", step, *self._weight_places(wrong), wrong[0][2], wrong) if wrong else None

    def _outputs(self, base: ModelRun, raw: ModelRun) -> str:
        if len(base.outputs) != len(raw.outputs):
            return tr("{outputs} outputs and {others}", outputs=len(base.outputs), others=len(raw.outputs))
        same = set(base.outputs) == set(raw.outputs)
        others = [raw.outputs[path] for path in base.outputs] if same else list(raw.outputs.values())
        for (output_path, array), partner in zip(base.outputs.items(), others):
            difference = self._tolerance.difference(array, partner)
            if difference:
                return (
                    tr("output {output_path}: {difference}", output_path=output_path, difference=difference)
                    if output_path
                    else difference
                )
        return ""

    def _inputs(self, base: ModelRun, raw: ModelRun) -> str:
        names = [name for name in base.input_gradients if name in raw.input_gradients]
        differences = ((name, self._tolerance.difference(base.input_gradients[name], raw.input_gradients[name])) for name in names)
        return next(
            (
                tr("of the input {name}: {difference}", name=name, difference=difference)
                for name, difference in differences
                if difference
            ),
            "",
        )

    def _visits(self, base: ModelRun, raw: ModelRun) -> list[tuple[Visit, Visit]]:
        """The visits of paired layers, in the base model's order."""
        pairs = []
        for visit in base.recorder.visits:
            path = self._pairing.layers.get(visit.path)
            other = raw.recorder.by_key.get((path, visit.occurrence)) if path is not None else None
            if other is not None:
                pairs.append((visit, other))
        return pairs

    def _first_difference(self, base: Iterable[Array], raw: Iterable[Array]) -> str:
        """How the first differing tensors of two layers differ; a tensor without partner is not compared."""
        return next(filter(None, map(self._tolerance.difference, base, raw)), "")

    def _places(self, base: Visit, raw: Visit) -> tuple[LayerPlace, LayerPlace]:
        routes = [f"{model.name}.{visit.path}" if visit.path else model.name for model, visit in zip(self._models, (base, raw))]
        return LayerPlace(routes[0], base.kind, base.stack), LayerPlace(routes[1], raw.kind, raw.stack)

    def _weight_places(self, wrong: list[WeightDifference]) -> tuple[LayerPlace, LayerPlace]:
        base, raw, _ = wrong[0]
        return LayerPlace(f"{self._models[0].name}.{base}", "weight"), LayerPlace(f"{self._models[1].name}.{raw}", "weight")

    def differing(self, read: Callable[[Model, list[str]], Mapping[str, Array | None]]) -> list[WeightDifference]:
        """The weights whose arrays, as ``read`` gives them by name, differ."""
        pairs = [pair for pair in self._pairing.weights if not pair.buffer]
        base_arrays = read(self._models[0], [pair.base for pair in pairs])
        raw_arrays = read(self._models[1], [pair.raw for pair in pairs])
        differences = []
        for pair in pairs:
            base, raw = base_arrays.get(pair.base), raw_arrays.get(pair.raw)
            laid = base if base is None else pair.lay_base(base), raw if raw is None else pair.lay_raw(raw)
            difference = self._tolerance.difference(*laid)
            if difference:
                differences.append((pair.base, pair.raw, difference))
        return differences
