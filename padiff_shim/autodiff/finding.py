"""The first place at which two runs part, by layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..dispatch.site import Site
from .comparing import Tolerance
from .models import Model
from .pairing import Pairing, gradients, values
from .recording import Array, Recorder, Visit
from .running import Pass


@dataclass(frozen=True)
class Place:
    """A layer of one model: its route, class and the lines that called it."""

    route: str
    kind: str
    stack: tuple[Site, ...] = ()


@dataclass
class Difference:
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
    base: Place
    raw: Place
    text: str
    weights: list[tuple[str, str, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types."""
        return asdict(self)


class Finder:
    """Looks for differences between two models that stand for each other."""

    def __init__(self, models: tuple[Model, Model], pairing: Pairing, tolerance: Tolerance) -> None:
        self._models, self._pairing, self._tolerance = models, pairing, tolerance
        self.back = {other: one for one, other in pairing.layers.items()}

    def partner(self, recorder: Recorder, visit: Visit) -> Visit | None:
        """The base model's visit that a visit of the raw one stands for; the models themselves are none."""
        path = self.back.get(visit.path)
        return recorder.by_key.get((path, visit.occurrence)) if path else None

    def forward(self, base: Pass, raw: Pass, step: int, *, every_layer: bool = False) -> Difference | None:
        """What differs in the outputs (or in any layer), at the first layer that differs."""
        found = "" if every_layer else self._outputs(base, raw)
        if not found and not every_layer:
            return None
        for mine, yours in self._visits(base, raw):
            told = "" if mine.path == "" and not every_layer else self._arrays(mine.outputs, yours.outputs)
            if told:
                return Difference("forward", step, *self._places(mine, yours), told)
        found = found or self._outputs(base, raw)
        roots = base.recorder.visits[-1], raw.recorder.visits[-1]
        return Difference("forward", step, *self._places(*roots), found) if found else None

    def loss(self, base: Pass, raw: Pass, step: int) -> Difference | None:
        """Whether the losses differ."""
        told = self._tolerance.difference(base.loss, raw.loss)
        places = [Place(model.name, "loss") for model in self._models]
        return Difference("loss", step, places[0], places[1], told) if told else None

    def backward(self, base: Pass, raw: Pass, step: int, *, every_layer: bool = False) -> Difference | None:
        """What differs in the gradients of weights and inputs (or of any layer), at the last layer that differs."""
        wrong = self.differing(gradients)
        told = next((how for _, _, how in wrong), "") or self._inputs(base, raw)
        if not told and not every_layer:
            return None
        for mine, yours in reversed(self._visits(base, raw)):
            shared = sorted({*mine.gradients} & {*yours.gradients})
            here = self._arrays([mine.gradients[one] for one in shared], [yours.gradients[one] for one in shared])
            if here:
                return Difference("backward", step, *self._places(mine, yours), f"gradient of its output: {here}", wrong)
        if not told:
            return None
        places = self._weight_places(wrong) if wrong else tuple(Place(model.name, "inputs") for model in self._models)
        return Difference("backward", step, places[0], places[1], f"gradient: {told}", wrong)

    def weights(self, step: int) -> Difference | None:
        """Which weights differ now."""
        wrong = self.differing(values)
        return Difference("weights", step, *self._weight_places(wrong), wrong[0][2], wrong) if wrong else None

    def _outputs(self, base: Pass, raw: Pass) -> str:
        if len(base.outputs) != len(raw.outputs):
            return f"{len(base.outputs)} outputs and {len(raw.outputs)}"
        same = set(base.outputs) == set(raw.outputs)
        others = [raw.outputs[path] for path in base.outputs] if same else list(raw.outputs.values())
        for (path, one), other in zip(base.outputs.items(), others):
            told = self._tolerance.difference(one, other)
            if told:
                return f"output {path}: {told}" if path else told
        return ""

    def _inputs(self, base: Pass, raw: Pass) -> str:
        names = [name for name in base.input_gradients if name in raw.input_gradients]
        found = ((name, self._tolerance.difference(base.input_gradients[name], raw.input_gradients[name])) for name in names)
        return next((f"of the input {name}: {told}" for name, told in found if told), "")

    def _visits(self, base: Pass, raw: Pass) -> list[tuple[Visit, Visit]]:
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

    def _places(self, base: Visit, raw: Visit) -> tuple[Place, Place]:
        routes = [f"{model.name}.{one.path}" if one.path else model.name for model, one in zip(self._models, (base, raw))]
        return Place(routes[0], base.kind, base.stack), Place(routes[1], raw.kind, raw.stack)

    def _weight_places(self, wrong: list[tuple[str, str, str]]) -> tuple[Place, Place]:
        base, raw, _ = wrong[0]
        return Place(f"{self._models[0].name}.{base}", "weight"), Place(f"{self._models[1].name}.{raw}", "weight")

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
