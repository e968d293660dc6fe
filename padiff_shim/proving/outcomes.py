"""What two runs gave, bit by bit: outputs, gradients and the results of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..weights.layouts import canonical
from ..weights.mapping import Mapping
from ..weights.tree import AS_IS
from .findings import LayerRow
from .outcome import Outcome

Array = np.ndarray[Any, Any]


def outputs(original: Outcome, port: Outcome) -> list[tuple[str, Array, Array]]:
    """Outputs side by side: by path if the paths are the same, else by their order."""
    if set(original.outputs) == set(port.outputs):
        return [(path, array, port.outputs[path]) for path, array in original.outputs.items()]
    return [(path, one, other) for (path, one), other in zip(original.outputs.items(), port.outputs.values())]


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


def without_gradient(mapping: Mapping, original: Outcome, port: Outcome) -> str:
    """Parameters that get a gradient on one side alone; "" if none."""
    found = [
        f"{name} gets {'a gradient' if one is None else 'no gradient'} in the port"
        for name, one, other in gradients(mapping, original, port)
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


Row = tuple[str, Array | None, Array | None]  # a name, Torch's values and Paddle's in one layout; None where there are none


def _laid_out(slot: Any, values: Array | None) -> Array | None:
    if values is None or (slot.layout == AS_IS and slot.section is None):
        return values
    return canonical(slot, torch.from_numpy(values)).numpy()


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


def gradients_differ(mapping: Mapping, original: Outcome, port: Outcome) -> str:
    """What differs between the bits of gradients that both have; "" if nothing does."""
    return differ("gradient of ", gradients(mapping, original, port))


def statistics_differ(mapping: Mapping, original: Outcome, port: Outcome) -> str:
    """What differs between the bits of running statistics; "" if nothing does."""
    return differ("", statistics(mapping, original, port))


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
    rows = []
    for theirs, ours in mapping.layers.items():
        mine, shim = original.layers.get(theirs, []), port.layers.get(ours, [])
        own = shim if native is None else native.layers.get(ours, [])
        if not mine or not len(mine) == len(shim) == len(own) or any(a.shape != b.shape for a, b in zip(mine, shim)):
            continue
        identical = all(map(same_bits, mine, shim))
        apart = 0.0 if identical else max(map(largest, mine, shim))
        natively = None if native is None else max(map(largest, mine, own))
        rows.append(LayerRow(theirs, ours, len(mine), identical, apart, natively))
    return rows


def worst(mapping: Mapping, original: Outcome, port: Outcome) -> float:
    """The largest difference of all outputs and gradients that have one shape."""
    return widest([*outputs(original, port), *gradients(mapping, original, port)])


def widest(rows: Sequence[Row]) -> float:
    """The largest difference in rows whose values have one shape."""
    found = [largest(one, other) for _, one, other in rows if one is not None and other is not None and one.shape == other.shape]
    return max(found, default=0.0)


def same_bits(one: Array, other: Array) -> bool:
    """Whether two arrays are one: shape, dtype and bytes."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    whole = _WHOLE.get(one.dtype.itemsize) if one.size > _FEW else None
    return one.tobytes() == other.tobytes() if whole is None else bool((one.view(whole) == other.view(whole)).all())


_FEW = 4096  # elements, of which copies as bytes are compared sooner
_WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # bytes of an element -> whole numbers of the same bits


def apart(one: Array, other: Array) -> str:
    """How two arrays differ, in words."""
    if one.shape != other.shape:
        return f"shapes {list(one.shape)} and {list(other.shape)}"
    return f"largest difference {largest(one, other):.3g}"


def largest(one: Array, other: Array) -> float:
    """The largest difference of two arrays of one shape; infinite where only one is finite."""
    if not one.size or same_bits(one, other):
        return 0.0
    wide = np.complex128 if np.iscomplexobj(one) else np.float64
    mine, yours = one.reshape(-1), other.reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        pieces = (slice(at, at + _PIECE) for at in range(0, mine.size, _PIECE))
        most = [float(np.abs(np.subtract(mine[piece], yours[piece], dtype=wide)).max()) for piece in pieces]
        if math.isfinite(sum(most)):
            return max(most)
        between = np.abs(np.subtract(one, other, dtype=wide))
    between = np.where((one == other) | ((one != one) & (other != other)), 0.0, between)
    return float(np.where(between == between, between, np.inf).max())


_PIECE = 1 << 15  # elements, whose differences stay in a processor's cache
