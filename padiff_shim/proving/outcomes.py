"""What two runs gave, bit by bit: outputs, gradients and the results of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..weights.mapping import Mapping
from ..weights.tree import AS_IS, FLAT, TRANSPOSED
from .arrays import Array, apart, largests, same_bits
from .findings import LayerRow
from .outcome import Outcome

Row = tuple[str, Array | None, Array | None]  # a name, Torch's values and Paddle's in one layout; None where there are none


def outputs(original: Outcome, port: Outcome) -> list[tuple[str, Array, Array]]:
    """Outputs side by side: by path if the paths are the same, else by their order."""
    if set(original.outputs) == set(port.outputs):
        return [(path, array, port.outputs[path]) for path, array in original.outputs.items()]
    return [(path, one, other) for (path, one), other in zip(original.outputs.items(), port.outputs.values())]


def renamed(original: Outcome, port: Outcome) -> str:
    """Which outputs are called otherwise by the port; "" if none is, or there are more of them on one side."""
    if len(original.outputs) != len(port.outputs) or set(original.outputs) == set(port.outputs):
        return ""
    pairs = [f"{theirs or '0'} is {ours or '0'}" for theirs, ours in zip(original.outputs, port.outputs) if theirs != ours]
    return f"outputs are called otherwise by the port, and were compared in order: {', '.join(pairs)}"


def shapes_differ(original: Outcome, port: Outcome) -> str:
    """What differs between the outputs' number, shapes and dtypes; "" if nothing does."""
    if len(original.outputs) != len(port.outputs):
        return f"{len(port.outputs)} outputs against {len(original.outputs)}"
    for path, one, other in outputs(original, port):
        if one.shape != other.shape:
            return f"output {path or '0'} has shape {list(other.shape)} against {list(one.shape)}"
        if one.dtype != other.dtype:
            return f"output {path or '0'} has dtype {other.dtype} against {one.dtype}"
    return ""


def without_gradient(rows: Sequence[Row]) -> str:
    """Of the gradients of all pairs: parameters that get one on one side alone; "" if none."""
    found = [
        f"{name} gets {'a gradient' if one is None else 'no gradient'} in the port"
        for name, one, other in rows
        if (one is None) is not (other is None)
    ]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def outputs_differ(original: Outcome, port: Outcome, wanted: Callable[[str], bool]) -> str:
    """What differs between the bits of the outputs whose paths are wanted; "" if nothing does."""
    if len(original.outputs) != len(port.outputs):
        return shapes_differ(original, port)
    for path, one, other in outputs(original, port):
        if wanted(path) and not same_bits(one, other):
            return f"output {path or '0'}: {apart(one, other)}"
    return ""


def _laid_out(slot: Any, values: Array | None) -> Array | None:
    """A slot's values in canonical layout: a view."""
    if values is None or (slot.layout == AS_IS and slot.section is None):
        return values
    values = values.T if slot.layout == TRANSPOSED else values.reshape(-1) if slot.layout == FLAT else values
    return values if slot.section is None else values[(slice(None),) * slot.section[0] + (slice(*slot.section[1:]),)]


def own(mapping: Mapping, values: dict[str, Array]) -> list[Array | None]:
    """Torch's values for each pair of weights, in the layout of :func:`gradients` and :func:`statistics`."""
    return [_laid_out(pair.torch_slot, values.get(pair.torch)) for pair in mapping]


def ported(mapping: Mapping, values: dict[str, Array]) -> list[Array | None]:
    """Paddle's values for each pair of weights, in the same layout."""
    return [_laid_out(pair.paddle_slot, values.get(pair.paddle)) for pair in mapping]


def _paired(mapping: Mapping, mine: dict[str, Array], yours: dict[str, Array]) -> list[Row]:
    """A row for each pair of weights."""
    names = (pair.paddle or pair.torch for pair in mapping)
    return list(zip(names, own(mapping, mine), ported(mapping, yours)))


def gradients(mapping: Mapping, original: Outcome, port: Outcome) -> list[Row]:
    """The gradients of all pairs."""
    return _paired(mapping, original.gradients, port.gradients)


def statistics(mapping: Mapping, original: Outcome, port: Outcome) -> list[Row]:
    """The same of what a forward writes: running statistics."""
    return _paired(mapping, original.statistics, port.statistics)


def weights(mapping: Mapping, original: Outcome, port: Outcome) -> list[Row]:
    """The same of the weights behind a step of a training."""
    return _paired(mapping, original.weights, port.weights)


def constants_apart(mapping: Mapping, mine: dict[str, Array], yours: dict[str, Array]) -> list[str]:
    """Which buffers do not hold the same numbers on both sides, whatever their dtypes, each with its difference."""
    rows = [(name, one, other) for name, one, other in _paired(mapping, mine, yours) if one is not None and other is not None]
    return [
        f"{name} ({apart(one, other)})"
        for name, one, other in rows
        if one.shape != other.shape or not np.allclose(one, other, 1e-6, 0.0, equal_nan=True)
    ]


def differ(what: str, rows: Sequence[Row]) -> str:
    """The first of the rows whose bits differ, in words; "" if none does. ``what``: said before its name."""
    wrong = [
        f"{what}{name}: {apart(one, other)}"
        for name, one, other in rows
        if one is not None and other is not None and not same_bits(one, other)
    ]
    return wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "") if wrong else ""


def layers(mapping: Mapping, original: Outcome, port: Outcome, native: Outcome | None) -> list[LayerRow]:
    """The results of each pair of layers, where they have one shape; ``native``: None where the port does not run natively."""
    rows: list[tuple[str, str, list[Array], list[Array], list[Array]]] = []
    for theirs, ours in mapping.layers.items():
        mine, shim = original.layers.get(theirs, []), port.layers.get(ours, [])
        own = shim if native is None else native.layers.get(ours, [])
        if mine and len(mine) == len(shim) == len(own) and all(a.shape == b.shape == c.shape for a, b, c in zip(mine, shim, own)):
            rows.append((theirs, ours, mine, shim, own))
    apart = iter(largests([pair for _, _, mine, shim, _ in rows for pair in zip(mine, shim)]))
    natively = iter(largests([] if native is None else [pair for _, _, mine, _, own in rows for pair in zip(mine, own)]))
    found = []
    for theirs, ours, mine, _, _ in rows:
        shimmed = [next(apart) for _ in mine]
        most = None if native is None else max([next(natively) or 0.0 for _ in mine])
        identical = all(one is None for one in shimmed)
        found.append(LayerRow(theirs, ours, len(mine), identical, max([one or 0.0 for one in shimmed]), most))
    return found


def worst(mapping: Mapping, original: Outcome, port: Outcome) -> float:
    """The largest difference of all outputs and gradients that have one shape."""
    return widest([*outputs(original, port), *gradients(mapping, original, port)])


def widest(rows: Sequence[Row]) -> float:
    """The largest difference in rows whose values have one shape."""
    pairs = [(one, other) for _, one, other in rows if one is not None and other is not None and one.shape == other.shape]
    return max((one or 0.0 for one in largests(pairs)), default=0.0)
