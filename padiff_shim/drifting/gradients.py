"""How far gradients drift: of what layers return, of inputs and of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..proving import outcomes as paired
from ..proving.outcome import Outcome
from ..weights.mapping import Mapping as Weights
from .rows import DriftRow, row_of


def gradients(mapping: Weights, outcomes: Mapping[str, Outcome]) -> list[DriftRow]:
    """A row for each gradient that all runs have, in the order of the backward; none where no run went back."""
    if not (outcomes.get("native") or Outcome()).gradients:  # it failed in the backward, or before
        outcomes = {run: one for run, one in outcomes.items() if run != "native"}
    rows = (*_of_layers(mapping, outcomes), *_of_inputs(outcomes), *_of_parameters(mapping, outcomes))
    return [row for row in rows if row is not None]


def _of_layers(mapping: Weights, outcomes: Mapping[str, Outcome]) -> Iterator[DriftRow | None]:
    """Of every call of every pair of layers, those that end last first."""
    order = {name: place for place, name in enumerate(outcomes["torch"].layers)}
    pairs = sorted(mapping.layers.items(), key=lambda pair: -order.get(pair[0], len(order)))
    for theirs, ours in pairs:
        held: dict[str, list[Any]] = {
            name: one.of_layers.get(theirs if name.startswith("torch") else ours, []) for name, one in outcomes.items()
        }
        for number in reversed(range(min(map(len, held.values())))):
            arrays = {name: found[number] for name, found in held.items()}
            if all(array is not None for array in arrays.values()):
                yield row_of("gradient of layer", (ours, theirs), number, "", arrays)


def _of_inputs(outcomes: Mapping[str, Outcome]) -> Iterator[DriftRow | None]:
    for name in outcomes["torch"].of_inputs:
        if all(name in one.of_inputs for one in outcomes.values()):
            arrays = {run: one.of_inputs[name] for run, one in outcomes.items()}
            yield row_of("gradient of input", (name, name), 0, "", arrays)


def _of_parameters(mapping: Weights, outcomes: Mapping[str, Outcome]) -> Iterator[DriftRow | None]:
    """Each pair's in one layout."""
    columns = {
        run: (paired.own if run.startswith("torch") else paired.ported)(mapping, one.gradients, gradient=True)
        for run, one in outcomes.items()
    }
    for number, pair in enumerate(mapping):
        arrays = {run: column[number] for run, column in columns.items()}
        known = {run: array for run, array in arrays.items() if array is not None}
        if len(known) == len(arrays):
            yield row_of("gradient of parameter", (pair.paddle, pair.torch), 0, "", known)
