"""How far a port's tensors are from its original's: layers' results, outputs and gradients, in each pair of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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


KINDS = (
    *(marked("layer"), marked("call"), marked("output")),
    *(marked("gradient of layer"), marked("gradient of input"), marked("gradient of parameter"), marked("optimizer state")),
)


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


def row_of(kind: str, names: tuple[str, str], number: int, site: str, arrays: Mapping[str, Array]) -> DriftRow | None:
    """The distances of one tensor in all runs; None where the runs have no common shape."""
    native, shim = (_distance(arrays[name], arrays["torch"]) if name in arrays else None for name in ("native", "substituted"))
    if shim is None or (native is None and "native" in arrays):
        return None
    double: Distance | None = None
    if "native64" in arrays:
        double = _distance(arrays["native64"], arrays["torch64"])
    return DriftRow(kind, names[0], names[1], number, site, native, shim, double)


def _distance(actual: Array, expected: Array) -> Distance | None:
    """None for different shapes and without numbers."""
    return distance(actual, expected) if actual.shape == expected.shape and actual.size else None


# ---- Runs.


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


# ---- Rows of layers' results and of outputs.


def layer_rows(mapping: Weights, outcomes: Mapping[str, RunOutcome]) -> list[DriftRow]:
    """Each call of each pair of layers, in the order in which the original's layers end."""
    order = {name: place for place, name in enumerate(outcomes["torch"].layers)}
    rows: list[DriftRow | None] = []
    for original, port in sorted(mapping.layers.items(), key=lambda pair: order.get(pair[0], len(order))):
        by_run = {
            name: outcome.layers.get(original if name.startswith("torch") else port, []) for name, outcome in outcomes.items()
        }
        for number in range(min(map(len, by_run.values()))):
            rows.append(row_of("layer", (port, original), number, "", {name: arrays[number] for name, arrays in by_run.items()}))
    return [row for row in rows if row is not None]


def output_rows(outcomes: Mapping[str, RunOutcome]) -> list[DriftRow]:
    """The outputs that belong together, in the original's order."""
    rows: list[DriftRow | None] = []
    for original, port in agreement.output_pairs(outcomes["torch"], outcomes["substituted"]):
        paths = {run: original if run.startswith("torch") else port for run in outcomes}
        if all(path in outcomes[run].outputs for run, path in paths.items()):
            arrays = {run: outcomes[run].outputs[path] for run, path in paths.items()}
            rows.append(row_of("output", (port, original), 0, "", arrays))
    return [row for row in rows if row is not None]


def state_rows(mapping: Weights, original: States, port: States, native: States) -> list[DriftRow]:
    """What optimizers keep behind the last step of a training, by its name in Paddle; ``native``: nothing where it fails."""
    rows: list[DriftRow | None] = []
    for state, values in original.items():
        columns = {"torch": agreement.original_rows(mapping, values, gradient=True)}
        for run, states in (("substituted", port), ("native", native)):
            if state in states:
                columns[run] = agreement.port_rows(mapping, states[state], gradient=True)
        for number, pair in enumerate(mapping):
            arrays = {run: column[number] for run, column in columns.items()}
            known = {run: array for run, array in arrays.items() if array is not None}
            if "substituted" in known and len(known) == len(arrays):
                rows.append(row_of("optimizer state", (f"{pair.paddle} {state}", f"{pair.torch} {state}"), 0, "", known))
    return [row for row in rows if row is not None]


# ---- Rows of gradients: of layers' results, of inputs and of parameters.


def gradient_rows(mapping: Weights, outcomes: Mapping[str, RunOutcome]) -> list[DriftRow]:
    """A row for each gradient that all runs have, in the order of the backward; none where no run went back."""
    if not (outcomes.get("native") or RunOutcome()).gradients:  # it failed, in the backward or before
        outcomes = {run: outcome for run, outcome in outcomes.items() if run != "native"}
    rows = (*_of_layers(mapping, outcomes), *_of_inputs(outcomes), *_of_parameters(mapping, outcomes))
    return [row for row in rows if row is not None]


def _of_layers(mapping: Weights, outcomes: Mapping[str, RunOutcome]) -> Iterator[DriftRow | None]:
    """Each call of each pair of layers, those that end last first."""
    order = {name: place for place, name in enumerate(outcomes["torch"].layers)}
    pairs = sorted(mapping.layers.items(), key=lambda pair: -order.get(pair[0], len(order)))
    for original, port in pairs:
        by_run: dict[str, list[Any]] = {
            name: outcome.of_layers.get(original if name.startswith("torch") else port, []) for name, outcome in outcomes.items()
        }
        for number in reversed(range(min(map(len, by_run.values())))):
            arrays = {name: gradients[number] for name, gradients in by_run.items()}
            if all(array is not None for array in arrays.values()):
                yield row_of("gradient of layer", (port, original), number, "", arrays)


def _of_inputs(outcomes: Mapping[str, RunOutcome]) -> Iterator[DriftRow | None]:
    for name in outcomes["torch"].of_inputs:
        if all(name in outcome.of_inputs for outcome in outcomes.values()):
            arrays = {run: outcome.of_inputs[name] for run, outcome in outcomes.items()}
            yield row_of("gradient of input", (name, name), 0, "", arrays)


def _of_parameters(mapping: Weights, outcomes: Mapping[str, RunOutcome]) -> Iterator[DriftRow | None]:
    """Each pair of parameters, in one layout."""
    columns = {}
    for run, outcome in outcomes.items():
        rows = agreement.original_rows if run.startswith("torch") else agreement.port_rows
        columns[run] = rows(mapping, outcome.gradients, gradient=True)
    for number, pair in enumerate(mapping):
        arrays = {run: column[number] for run, column in columns.items()}
        known = {run: array for run, array in arrays.items() if array is not None}
        if len(known) == len(arrays):
            yield row_of("gradient of parameter", (pair.paddle, pair.torch), 0, "", known)
