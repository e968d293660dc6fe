"""Whether two programs give the same: bit by bit, and as far as rounding errors travel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
import torch

from ..text import listed
from ..weights.mapping import Mapping
from .findings import LayerRow
from .programs import RunOutcome
from .tolerances import RoundingBound, floor_of, measured
from .trace import numbers
from .values import Array, apart, largest, largests, same_bits, size

# ---- What two runs gave, bit by bit: outputs, gradients and the results of layers.

Row = tuple[str, Array | None, Array | None]  # a name, Torch's values and Paddle's in one layout; None where there are none


def paired(original: RunOutcome, port: RunOutcome) -> list[tuple[str, str]]:
    """The paths of outputs that belong together, Torch's and Paddle's: those of one name, then of what is left those of one place.

    Where more are left on one side than on the other, those of one shape in one order.
    """
    common = [path for path in original.outputs if path in port.outputs and (_has_name(path) or _all_alike(original, port))]
    original_paths, port_paths = ([path for path in run.outputs if path not in common] for run in (original, port))
    if len(original_paths) == len(port_paths):
        left = list(zip(original_paths, port_paths))
    else:
        shapes = [[run.outputs[path].shape for path in paths] for run, paths in ((original, original_paths), (port, port_paths))]
        blocks = SequenceMatcher(None, shapes[0], shapes[1], autojunk=False).get_matching_blocks()
        left = [(original_paths[block.a + at], port_paths[block.b + at]) for block in blocks for at in range(block.size)]
    partners = {**{path: path for path in common}, **dict(left)}
    return [(path, partners[path]) for path in original.outputs if path in partners]


def _has_name(path: str) -> bool:
    """Whether an output is called something, and is not the how-maniest alone."""
    return path[:1] not in ("", "[")


def _all_alike(original: RunOutcome, port: RunOutcome) -> bool:
    return original.outputs.keys() == port.outputs.keys()


def outputs(original: RunOutcome, port: RunOutcome) -> list[tuple[str, Array, Array]]:
    """Outputs that belong together, side by side, under Torch's paths."""
    return [(path, original.outputs[path], port.outputs[partner]) for path, partner in paired(original, port)]


def one_sided(original: RunOutcome, port: RunOutcome) -> str:
    """Which outputs one side alone gives, and are not compared; "" if none."""
    pairs = paired(original, port)
    left = [
        f"{side} alone gives {', '.join(path or '0' for path in paths)}"
        for side, run, at in (("the original", original, 0), ("the port", port, 1))
        if (paths := [path for path in run.outputs if path not in {pair[at] for pair in pairs}])
    ]
    return f"outputs that were not compared: {'; '.join(left)}" if left else ""


def renamed(original: RunOutcome, port: RunOutcome) -> str:
    """Which outputs are called otherwise by the port; "" if none is."""
    pairs = [f"{path or '0'} is {partner or '0'}" for path, partner in paired(original, port) if path != partner]
    return f"outputs are called otherwise by the port, and were compared in order: {', '.join(pairs)}" if pairs else ""


def shapes_differ(original: RunOutcome, port: RunOutcome) -> str:
    """What differs between the shapes and dtypes of outputs; "" if nothing does."""
    if original.outputs and not paired(original, port):
        return f"none of {len(port.outputs)} outputs has the shape of one of the original's {len(original.outputs)}"
    for path, expected, other in outputs(original, port):
        if expected.shape != other.shape:
            return f"output {path or '0'} has shape {list(other.shape)} against {list(expected.shape)}"
        if expected.dtype != other.dtype:
            return f"output {path or '0'} has dtype {other.dtype} against {expected.dtype}"
    return ""


def dtypes_differ(original: RunOutcome, port: RunOutcome) -> str:
    """What differs between the dtypes of output tensors, of which arrays have no bfloat16; "" if nothing does."""
    for path, partner in paired(original, port):
        expected, actual = original.dtypes.get(path), port.dtypes.get(partner)
        if expected != actual:
            return f"output {path or '0'} has dtype {actual} against {expected}"
    return ""


def without_gradient(rows: Sequence[Row]) -> str:
    """Of the gradients of all pairs: parameters that get one on one side alone; "" if none."""
    lines = [
        f"{name} gets {'a gradient' if expected is None else 'no gradient'} in the port"
        for name, expected, other in rows
        if (expected is None) is not (other is None)
    ]
    return listed(lines)


def outputs_differ(original: RunOutcome, port: RunOutcome, wanted: Callable[[str], bool]) -> str:
    """What differs between the bits of the outputs whose paths are wanted; "" if nothing does."""
    for path, expected, other in outputs(original, port):
        if wanted(path) and not same_bits(expected, other):
            return f"output {path or '0'}: {apart(expected, other)}"
    return ""


def own_rows(mapping: Mapping, values: dict[str, Array], *, gradient: bool = False) -> list[Array | None]:
    """Torch's values (or gradients) for each pair of weights, in the layout of :func:`gradients`, :func:`statistics`."""
    return _of_side(mapping, "torch", values, gradient=gradient)


def ported(mapping: Mapping, values: dict[str, Array], *, gradient: bool = False) -> list[Array | None]:
    """Paddle's values for each pair of weights, in the same layout."""
    return _of_side(mapping, "paddle", values, gradient=gradient)


def _of_side(mapping: Mapping, framework: str, values: dict[str, Array], *, gradient: bool) -> list[Array | None]:
    held = ((pair, values.get(pair.name(framework))) for pair in mapping)
    return [None if array is None else pair.in_common(framework, array, gradient=gradient) for pair, array in held]


def _paired(mapping: Mapping, of_torch: dict[str, Array], of_paddle: dict[str, Array], *, gradient: bool = False) -> list[Row]:
    """A row for each pair of weights."""
    names = (pair.paddle or pair.torch for pair in mapping)
    return list(zip(names, own_rows(mapping, of_torch, gradient=gradient), ported(mapping, of_paddle, gradient=gradient)))


def gradients(mapping: Mapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The gradients of all pairs. Zeros in a part of a weight are none: the layer that the other side has for it was not called."""
    rows = _paired(mapping, original.gradients, port.gradients, gradient=True)
    return [_without_zeros(row) if not pair.is_exact else row for pair, row in zip(mapping, rows)]


def _without_zeros(row: Row) -> Row:
    name, expected, other = row
    alone = expected if other is None else other if expected is None else None
    return row if alone is None or alone.any() else (name, None, None)


def statistics(mapping: Mapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The same of what a forward writes: running statistics."""
    return _paired(mapping, original.statistics, port.statistics)


def weights(mapping: Mapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The same of the weights behind a step of a training."""
    return _paired(mapping, original.weights, port.weights)


def constants_apart(mapping: Mapping, original: dict[str, Array], port: dict[str, Array]) -> list[str]:
    """Which buffers do not hold the same numbers on both sides, whatever their dtypes, each with its difference."""
    rows = [
        (name, expected, actual)
        for name, expected, actual in _paired(mapping, original, port)
        if expected is not None and actual is not None
    ]
    return [
        f"{name} ({apart(expected, actual)})"
        for name, expected, actual in rows
        if expected.shape != actual.shape or not np.allclose(expected, actual, 1e-6, 0.0, equal_nan=True)
    ]


def differ(what: str, rows: Sequence[Row]) -> str:
    """The first of the rows whose bits differ, in words; "" if none does. ``what``: said before its name."""
    wrong = [row for row in rows if row[1] is not None and row[2] is not None and not same_bits(row[1], row[2])]
    if not wrong:
        return ""
    name, expected, actual = wrong[0]
    assert expected is not None and actual is not None  # noqa: PT018
    return f"{what}{name}: {apart(expected, actual)}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")


def layers(mapping: Mapping, original: RunOutcome, port: RunOutcome, native: RunOutcome | None) -> list[LayerRow]:
    """The results of each pair of layers, where they have one shape; ``native``: None where the port does not run natively."""
    rows: list[tuple[str, str, list[Array], list[Array], list[Array]]] = []
    for original_name, port_name in mapping.layers.items():
        expected, shim = original.layers.get(original_name, []), port.layers.get(port_name, [])
        own = shim if native is None else native.layers.get(port_name, [])
        if (
            expected
            and len(expected) == len(shim) == len(own)
            and all(a.shape == b.shape == c.shape for a, b, c in zip(expected, shim, own))
        ):
            rows.append((original_name, port_name, expected, shim, own))
    apart = iter(largests([pair for _, _, expected, shim, _ in rows for pair in zip(expected, shim)]))
    natively = iter(largests([] if native is None else [pair for _, _, expected, _, own in rows for pair in zip(expected, own)]))
    table = []
    for original_name, port_name, expected, _, _ in rows:
        shimmed = [next(apart) for _ in expected]
        most = None if native is None else max([next(natively) or 0.0 for _ in expected])
        identical = all(difference is None for difference in shimmed)
        table.append(
            LayerRow(original_name, port_name, len(expected), identical, max([difference or 0.0 for difference in shimmed]), most)
        )
    return table


class Distances:
    """How far two runs are apart in all that has one shape, measured once."""

    def __init__(self, mapping: Mapping, original: RunOutcome, port: RunOutcome) -> None:
        self._all = [_distances([*outputs(original, port), *gradients(mapping, original, port)])]
        self._all.append(_distances(statistics(mapping, original, port)))

    @property
    def worst(self) -> float:
        """The largest difference of all outputs and gradients."""
        return max((apart for _, apart in self._all[0]), default=0.0)

    def beyond(self, share: float) -> bool:
        """As :func:`far_apart`, running statistics included."""
        return any(_is_far(expected, apart, share) for distances in self._all for expected, apart in distances)


def _distances(rows: Iterable[Row]) -> list[tuple[Array, float]]:
    """Of rows whose values have one shape: Torch's, and the largest difference."""
    pairs = [
        (expected, other)
        for _, expected, other in rows
        if expected is not None and other is not None and expected.shape == other.shape
    ]
    return [(expected, apart or 0.0) for (expected, _), apart in zip(pairs, largests(pairs))]


def worst(mapping: Mapping, original: RunOutcome, port: RunOutcome) -> float:
    """The largest difference of all outputs and gradients that have one shape."""
    return widest([*outputs(original, port), *gradients(mapping, original, port)])


def far_apart(rows: Iterable[Row], share: float) -> bool:
    """Whether somewhere an infinity or NaN stands against a number, or a difference is beyond a share of the largest number."""
    pairs = [(expected, actual) for _, expected, actual in rows if expected is not None and actual is not None]
    return any(
        _is_far(expected, largest(expected, actual), share)
        for expected, actual in sorted(pairs, key=lambda pair: pair[0].size)  # the cheapest that is far apart tells
        if expected.shape == actual.shape
    )


def _is_far(expected: Array, apart: float, share: float) -> bool:
    return apart > 0.0 and np.issubdtype(expected.dtype, np.inexact) and apart > share * size(expected)


def widest(rows: Sequence[Row]) -> float:
    """The largest difference in rows whose values have one shape."""
    return max((apart for _, apart in _distances(rows)), default=0.0)


# ---- The first question to two programs: whether they give the same, as far as rounding errors travel. Their calls are the
# second.

STEEP = 20 / 52  # of a dtype's digits: no error travels so far but past a tie, a step or a singular point
OF_GRADIENT = "gradient of "  # how a gradient that differs is named


class Agreement:
    """Runs in a wider dtype held against one of the original.

    Args:
        mapping: which weights belong together.
        original: the original's run.
        touched: the same with one rounding error more at every call, see :func:`.tolerances.rounded`.
        dtype: in which they ran.
    """

    def __init__(self, mapping: Mapping, original: RunOutcome, touched: RunOutcome, dtype: str = "float64") -> None:
        self._mapping, self._original, self._dtype = mapping, original, dtype
        self._allowed = {  # of each row, by whether the outputs alone are asked for
            forward: [_tolerance(expected, moved) for _, expected, moved in self._rows(touched, forward, own=True)]
            for forward in (True, False)
        }

    def breach(self, port: RunOutcome, *, forward: bool = False, statistics: bool = True) -> str:
        """What is further apart than rounding errors travel, or not the same where nothing rounds; "" if nothing is.

        ``forward``: of the outputs and running statistics alone; without ``statistics`` of the outputs.
        """
        rows = self._rows(port, forward) if statistics else self._outputs(port)
        for (name, expected, actual), allowed in zip(rows, self._allowed[forward]):
            if expected is not None and actual is not None and not _near(expected, actual, allowed):
                how = f"{apart(expected, actual)}, of which rounding explains {allowed.usual:.2g}"
                return f"{name or 'output'} differs in {self._dtype} ({how})"
        return ""

    def alike(self, port: RunOutcome, other: RunOutcome, *, forward: bool = False) -> bool:
        """Whether two runs of the port are one up to rounding."""
        rows = zip(self._rows(port, forward), self._rows(other, forward), self._allowed[forward])
        return all(_near(before, after, allowed) for (_, _, before), (_, _, after), allowed in rows)

    def unsettled(self, port: RunOutcome, *, forward: bool = False) -> str:
        """What is far apart, and moved as far by single rounding errors: at a tie, a step or a singular point; "" if nothing is.

        A gradient that is 0 but for rounding (of a key's bias behind a softmax) is small beside the others, and none of these.
        """
        rows = list(zip(self._rows(port, forward), self._allowed[forward]))
        least = max(
            (size(expected) for (_, expected, _), _ in rows if expected is not None and expected.dtype.kind in "fc"), default=0.0
        )
        for (name, expected, actual), allowed in rows:
            if expected is None or actual is None or expected.shape != actual.shape or expected.dtype.kind not in "fc":
                continue
            far = max(np.finfo(expected.dtype).eps ** STEEP * size(expected), floor_of(expected.dtype) * least)
            if allowed.usual > far and bool(((_numbers(expected) - _numbers(actual)).abs() > far).any()):
                return name or "output"
        return ""

    def _outputs(self, outcome: RunOutcome) -> Iterator[Row]:
        """All outputs of the original beside another run's, None where that has none."""
        partners = {path: actual for path, _, actual in outputs(self._original, outcome)}
        yield from ((path, expected, partners.get(path)) for path, expected in self._original.outputs.items())

    def _rows(self, outcome: RunOutcome, forward: bool, *, own: bool = False) -> Iterator[Row]:
        """All that the original gives beside what another run does; ``own``: one of the original's, too."""
        original, mapping = self._original, self._mapping
        laid = own_rows if own else ported
        yield from self._outputs(outcome)
        kinds = [("", original.statistics, outcome.statistics)]
        if not forward:
            kinds += [(OF_GRADIENT, original.gradients, outcome.gradients), ("", original.weights, outcome.weights)]
        for what, expected, actual in kinds:
            gradient = what == OF_GRADIENT
            arrays = own_rows(mapping, expected, gradient=gradient), laid(mapping, actual, gradient=gradient)
            for pair, *row in zip(mapping, *arrays):
                yield f"{what}{pair.paddle or pair.torch}", row[0], row[1]


def _near(expected: Array | None, actual: Array | None, allowed: RoundingBound) -> bool:
    """Whether two arrays agree; what one side alone has, and shapes, are asked elsewhere."""
    if expected is None or actual is None or expected.shape != actual.shape or not expected.size:
        return True
    if math.isinf(allowed.limit) and largest(expected, actual) <= allowed.usual:
        return True
    return bool(allowed.holds(_numbers(expected), _numbers(actual)).all())


def _tolerance(expected: Array | None, moved: Array | None) -> RoundingBound:
    if expected is None or not expected.size or not np.issubdtype(expected.dtype, np.inexact):
        return RoundingBound(0.0)
    same = moved is not None and moved.shape == expected.shape
    return measured(_numbers(expected), _numbers(moved) if moved is not None and same else None, floor_of(expected.dtype))


def _numbers(array: Array) -> torch.Tensor:
    return numbers(torch.from_numpy(np.ascontiguousarray(array)))
