"""How far a port's tensors are from its original's: layers' results, outputs and gradients, in each pair of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..measure.distance import Distance, distance
from ..text import marked, tr
from ..weights.mapping import Mapping as Weights
from . import agreement
from .agreement import RunOutcome, named
from .programs import ModelSide, NotWider, PaddleSide, Runner, TorchSide, in_wider, natively
from .updates import States

Array = np.ndarray[Any, Any]
SIDES = ("native", "substituted", "float64")


@dataclass(frozen=True)
class DriftRow:
    """A tensor, and how far the port's is from the original's in each pair of runs.

    Attributes:
        kind: ``"layer"`` (its result), ``"call"`` (of an op), ``"output"``, or a gradient: ``"gradient of layer"`` (of its result),
            ``"gradient of parameter"``, ``"gradient of input"``.
        paddle, torch: the names in both models.
        number: the layer's call, from 0.
        site: of a call its line in the port.
        native: with the port on Paddle's kernels; None where it fails there.
        substituted: with the port on Torch's kernels.
        float64: both in float64; None where they did not run so.
    """

    kind: str
    paddle: str
    torch: str
    number: int
    site: str
    native: Distance | None
    substituted: Distance
    float64: Distance | None

    @property
    def of_gradient(self) -> bool:
        """Whether the tensor is a gradient."""
        return self.kind.startswith("gradient")

    @property
    def name(self) -> str:
        """The name in the port, with the number of the call."""
        shown = named(self.paddle) or self._whole
        return tr("{shown}, call {number}", shown=shown, number=self.number + 1) if self.number else shown

    @property
    def original(self) -> str:
        """The name in the original."""
        return named(self.torch) or ("" if self.paddle else self._whole)

    @property
    def _whole(self) -> str:
        return tr("(the model)") if self.kind.endswith("layer") else tr("(output)")

    @property
    def label(self) -> str:
        """The same where no kind stands beside it."""
        return tr("gradient of {name}", name=self.name) if self.of_gradient else self.name


Measured = tuple[str, tuple[str, str], int, Mapping[str, "Array | None"]]  # kind, names, call, and the array of each run


def _rows(tensors: Iterable[Measured]) -> list[DriftRow]:
    """The distances of each tensor that all runs have, in one shape."""
    rows = (_row(*tensor) for tensor in tensors if all(array is not None for array in tensor[3].values()))
    return [row for row in rows if row is not None]


def _row(kind: str, names: tuple[str, str], number: int, arrays: Mapping[str, Any]) -> DriftRow | None:
    native, shim = (_distance(arrays[name], arrays["torch"]) if name in arrays else None for name in ("native", "substituted"))
    if shim is None or (native is None and "native" in arrays):
        return None
    double = _distance(arrays["native64"], arrays["torch64"]) if "native64" in arrays else None
    return DriftRow(kind, *names, number, "", native, shim, double)


def _distance(actual: Array, expected: Array) -> Distance | None:
    """None for different shapes and without numbers."""
    return distance(actual, expected) if actual.shape == expected.shape and actual.size else None


def outcomes_of(
    original: TorchSide,
    port: PaddleSide,
    run: Callable[[ModelSide, Runner, str], RunOutcome] = lambda side, runner, name: runner(side),
) -> tuple[dict[str, RunOutcome], list[str], str]:
    """A run of the original, and of the port on Torch's kernels and natively; then both in float64.

    Args:
        original, port: the models with equal weights.
        run: makes a run of a side, which gets a name.

    Returns:
        The outcomes by the names of their runs, notes, and why the port's backward fails natively ("" if it does not).
    """
    outcomes = {"torch": run(original, ModelSide.run, "torch"), "substituted": run(port, ModelSide.run, "substituted")}
    native, failure = natively(port, lambda runner: run(port, runner, "native"))
    notes = [failure] if failure else []
    if native is not None:
        outcomes["native"] = native
    if original.dtype() == "float64":
        return outcomes, notes, failure if native is not None else ""
    sides = {"torch64": original, "native64": port}
    try:  # as a proof tells rounding from mistakes: every narrower dtype in the programs is widened
        wide = in_wider(original, port, lambda: [run(side, ModelSide.run_wide, name) for name, side in sides.items()])
        outcomes |= zip(sides, wide)
        if original.wider != "float64":
            notes.append(tr("the column float64 is of runs in {wider}", wider=original.wider))
    except NotWider as error:
        notes.append(tr("no float64 pair: {error}", error=error))
    return outcomes, notes, failure if native is not None else ""


# ---- Rows of layers' results, of outputs, and of gradients: of layers' results, of inputs and of parameters.


def layer_rows(mapping: Weights, outcomes: Mapping[str, RunOutcome]) -> list[DriftRow]:
    """Each call of each pair of layers, in the order in which the original's layers end."""
    return _rows(
        _of_layers(marked("layer"), mapping, outcomes["torch"], {run: outcome.layers for run, outcome in outcomes.items()})
    )


def output_rows(outcomes: Mapping[str, RunOutcome]) -> list[DriftRow]:
    """The outputs that belong together, in the original's order."""
    tensors = list[Measured]()
    for original, port in agreement.output_pairs(outcomes["torch"], outcomes["substituted"]):
        arrays = {run: outcome.outputs.get(original if run.startswith("torch") else port) for run, outcome in outcomes.items()}
        tensors.append((marked("output"), (port, original), 0, arrays))
    return _rows(tensors)


def state_rows(mapping: Weights, original: States, port: States, native: States) -> list[DriftRow]:
    """What optimizers keep behind the last step of a training, by its name in Paddle; ``native``: nothing where it fails."""
    runs = {"torch": original, "substituted": port, "native": native}
    tables = {state: {run: states[state] for run, states in runs.items() if state in states} for state in original}
    return _rows(
        row for state, table in tables.items() for row in _of_weights(marked("optimizer state"), mapping, table, f" {state}")
    )


def gradient_rows(mapping: Weights, outcomes: Mapping[str, RunOutcome]) -> list[DriftRow]:
    """A row for each gradient that all runs have, in the order of the backward; none where no run went back."""
    if not (outcomes.get("native") or RunOutcome()).gradients:  # it failed, in the backward or before
        outcomes = {run: outcome for run, outcome in outcomes.items() if run != "native"}
    of_layers = {run: outcome.of_layers for run, outcome in outcomes.items()}
    of_inputs = (
        (marked("gradient of input"), (name, name), 0, {run: outcome.of_inputs.get(name) for run, outcome in outcomes.items()})
        for name in outcomes["torch"].of_inputs
    )
    of_weights = _of_weights(
        marked("gradient of parameter"), mapping, {run: outcome.gradients for run, outcome in outcomes.items()}
    )
    layers = [*_of_layers(marked("gradient of layer"), mapping, outcomes["torch"], of_layers)]
    return _rows((*reversed(layers), *of_inputs, *of_weights))


def _of_layers(
    kind: str, mapping: Weights, original: RunOutcome, results: Mapping[str, Mapping[str, Sequence[Array | None]]]
) -> Iterator[Measured]:
    """Each call of each pair of layers, those that end first in the original first."""
    order = {name: place for place, name in enumerate(original.layers)}
    for layer, partner in sorted(mapping.layers.items(), key=lambda pair: order.get(pair[0], len(order))):
        by_run = {run: held.get(layer if run.startswith("torch") else partner, ()) for run, held in results.items()}
        for number in range(min(map(len, by_run.values()))):
            yield kind, (partner, layer), number, {run: calls[number] for run, calls in by_run.items()}


def _of_weights(kind: str, mapping: Weights, values: Mapping[str, dict[str, Array]], what: str = "") -> Iterator[Measured]:
    """Each pair of weights, in one layout; ``what``: behind both names."""
    columns = {
        run: agreement.laid("torch" if run.startswith("torch") else "paddle", mapping, held, gradient=True)
        for run, held in values.items()
    }
    for number, pair in enumerate(mapping):
        yield kind, (pair.paddle + what, pair.torch + what), 0, {run: column[number] for run, column in columns.items()}
