"""What runs of two programs gave, and whether they gave the same: bit for bit, or as far as rounding errors travel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import torch

from ..frameworks.torch_state import LooksOn
from ..text import listed
from ..weights.mapping import Mapping as WeightMapping
from .findings import LayerRow
from .trace import Capture, Onlooker, Trace, Value, is_passive, numbers, tensors_in
from .updates import StepUpdate

Array = np.ndarray[Any, Any]


@dataclass
class RunOutcome:
    """What one run (or step) gave, as arrays: outputs and loss by path; outputs of layers, gradients and statistics by name.

    ``dtypes``: of the outputs, by path, for no array is of bfloat16. ``unlike``: statistics that were not kept, for Paddle's kernel
    wrote them, which defines them otherwise. Of a step of a training also the ``weights`` behind it, and what is told of its
    ``update``; of a side that follows gradients also those of layers' outputs (None where a call's has none) and of inputs.
    """

    outputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    layers: dict[str, list[np.ndarray[Any, Any]]] = field(default_factory=dict)
    gradients: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    statistics: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    unlike: bool = False
    capture: Onlooker | None = None
    weights: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    update: StepUpdate | None = None
    of_layers: dict[str, list[np.ndarray[Any, Any] | None]] = field(default_factory=dict)
    of_inputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    @property
    def trace(self) -> Trace:
        """The calls of a run with a :class:`.trace.Capture`."""
        assert isinstance(self.capture, Capture)
        return self.capture.trace


# ---- Two arrays: the same bits, or how far they are apart.


def same_bits(array: Array, other: Array) -> bool:
    """Whether two arrays are one: shape, dtype and bytes."""
    if array.shape != other.shape or array.dtype != other.dtype:
        return False
    whole = _WHOLE.get(array.dtype.itemsize) if array.size > _FEW else None
    if whole is None:
        return array.tobytes() == other.tobytes()
    return all(bool((part == another).all()) for part, another in _parts(array.view(whole), other.view(whole)))


def _parts(array: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Both arrays piece by piece, of which each stays in a processor's cache, also where matrices lie otherwise in memory."""
    if array.ndim == 2 and array.strides != other.strides:
        for row in range(0, array.shape[0], _SIDE):
            for column in range(0, array.shape[1], _SIDE):
                tile = slice(row, row + _SIDE), slice(column, column + _SIDE)
                yield array[tile], other[tile]
        return
    turned = array.ndim == 2 and array.flags.f_contiguous and other.flags.f_contiguous
    flat, opposite = ((side.T if turned else side).reshape(-1) for side in (array, other))
    for begin in range(0, flat.size, _PIECE):
        yield flat[begin : begin + _PIECE], opposite[begin : begin + _PIECE]


_FEW = 4096  # elements, of which copies as bytes are compared sooner


_SIDE = 256  # of a tile


_PIECE = 1 << 15  # elements


_WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # bytes of an element -> whole numbers of the same bits


def apart(array: Array, other: Array) -> str:
    """How two arrays differ, in words."""
    if array.shape != other.shape:
        return f"shapes {list(array.shape)} and {list(other.shape)}"
    return f"largest difference {largest(array, other):.3g}"


def largest(array: Array, other: Array) -> float:
    """The largest difference of two arrays of one shape; infinite where only one is finite."""
    if not array.size or same_bits(array, other):
        return 0.0
    wide = np.complex128 if np.iscomplexobj(array) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        most = [float(np.abs(np.subtract(*part, dtype=wide)).max()) for part in _parts(array, other)]
        if math.isfinite(sum(most)):
            return max(most)
        between = np.abs(np.subtract(array, other, dtype=wide))
    between = np.where((array == other) | ((array != array) & (other != other)), 0.0, between)
    return float(np.where(between == between, between, np.inf).max())


def size(array: Array) -> float:
    """The largest element that is finite, without its sign."""
    if array.dtype.kind == "f" and array.size:
        most = max(float(array.max()), -float(array.min()))
        if math.isfinite(most):
            return most
    return float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))


def largests(pairs: Sequence[tuple[Array, Array]]) -> list[float | None]:
    """:func:`largest` of many pairs, each of one shape; None where the bits are the same.

    Pairs of few elements are laid end to end, for each call of NumPy's costs more than they.
    """
    differences: list[float | None] = [None] * len(pairs)
    waiting: list[int] = []
    elements = 0
    for place, (array, other) in enumerate(pairs):
        if same_bits(array, other):
            continue
        if array.dtype.kind == "f" and other.dtype.kind == "f" and 0 < array.size <= _PIECE:
            waiting.append(place)
            elements += array.size
        else:
            differences[place] = largest(array, other)
        if elements > _PIECE:
            _together(pairs, waiting, differences)
            waiting, elements = [], 0
    _together(pairs, waiting, differences)
    return differences


def _together(pairs: Sequence[tuple[Array, Array]], places: list[int], differences: list[float | None]) -> None:
    """Fill in the largest differences of these pairs."""
    if not places:
        return
    flat, opposite = (
        np.concatenate([pairs[place][side].reshape(-1) for place in places], dtype=np.float64, casting="same_kind")
        for side in (0, 1)
    )
    begins = np.cumsum([0, *(pairs[place][0].size for place in places[:-1])])
    with np.errstate(invalid="ignore", over="ignore"):
        most = np.maximum.reduceat(np.abs(np.subtract(flat, opposite, out=flat), out=flat), begins).tolist()
    for place, value in zip(places, most):
        differences[place] = value if math.isfinite(value) else largest(*pairs[place])


# ---- Two runs, bit by bit: outputs, gradients, statistics, weights and the results of layers.


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


def own_rows(mapping: WeightMapping, values: dict[str, Array], *, gradient: bool = False) -> list[Array | None]:
    """Torch's values (or gradients) for each pair of weights, in the layout of :func:`gradients`, :func:`statistics`."""
    return _of_side(mapping, "torch", values, gradient=gradient)


def ported(mapping: WeightMapping, values: dict[str, Array], *, gradient: bool = False) -> list[Array | None]:
    """Paddle's values for each pair of weights, in the same layout."""
    return _of_side(mapping, "paddle", values, gradient=gradient)


def _of_side(mapping: WeightMapping, framework: str, values: dict[str, Array], *, gradient: bool) -> list[Array | None]:
    held = ((pair, values.get(pair.name(framework))) for pair in mapping)
    return [None if array is None else pair.in_common(framework, array, gradient=gradient) for pair, array in held]


def _paired(
    mapping: WeightMapping, of_torch: dict[str, Array], of_paddle: dict[str, Array], *, gradient: bool = False
) -> list[Row]:
    """A row for each pair of weights."""
    names = (pair.paddle or pair.torch for pair in mapping)
    return list(zip(names, own_rows(mapping, of_torch, gradient=gradient), ported(mapping, of_paddle, gradient=gradient)))


def gradients(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The gradients of all pairs. Zeros in a part of a weight are none: the layer that the other side has for it was not called."""
    rows = _paired(mapping, original.gradients, port.gradients, gradient=True)
    return [_without_zeros(row) if not pair.is_exact else row for pair, row in zip(mapping, rows)]


def _without_zeros(row: Row) -> Row:
    name, expected, other = row
    alone = expected if other is None else other if expected is None else None
    return row if alone is None or alone.any() else (name, None, None)


def statistics(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The same of what a forward writes: running statistics."""
    return _paired(mapping, original.statistics, port.statistics)


def weights(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The same of the weights behind a step of a training."""
    return _paired(mapping, original.weights, port.weights)


def constants_apart(mapping: WeightMapping, original: dict[str, Array], port: dict[str, Array]) -> list[str]:
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


def layers(mapping: WeightMapping, original: RunOutcome, port: RunOutcome, native: RunOutcome | None) -> list[LayerRow]:
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

    def __init__(self, mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> None:
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


def worst(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> float:
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


# ---- How far rounding errors travel in a program: measured, never set.


SLACK = 64.0  # how many times the effect of one rounding error per call counts as rounding


FLOOR = 1e-13  # of the largest element: sums whose terms cancel keep no more digits of float64


_NARROW_FLOOR = 8.0  # the same of narrower dtypes, in their unit roundoffs


EXACT = 2.0**24  # whole numbers below are exact in float32, too


FILLED, _GAP = 1e3, 100.0  # the least size of what fills masked places, and how many times as large as all others it is


def floor_of(dtype: Any) -> float:
    """The share of the largest element that is always allowed; ``dtype``: Torch's, NumPy's, or its name. 0 of whole numbers."""
    name = str(dtype).rpartition(".")[2]
    unit = _unit(torch.empty(0, dtype=getattr(torch, name)))
    return FLOOR if name in ("float64", "complex128") else _NARROW_FLOOR * unit


class RoundingBound(NamedTuple):
    """How far elements may be apart: up to ``limit`` in size by ``usual``; larger ones, which fill masked places, by ``filled``.

    Of scores under a mask the largest element says nothing: it is the -1e9 or the smallest number of a dtype that fills them.
    """

    usual: float
    limit: float = math.inf
    filled: float = 0.0

    def holds(self, expected: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
        """Which elements are near enough, equal infinities and NaN included; ``expected``: the original's."""
        apart = (expected - actual).abs()
        near = (expected == actual) | (apart <= self.usual) | (expected.isnan() & actual.isnan())
        return near | ((expected.abs() > self.limit) & (apart <= self.filled))

    def end_alike(self, expected: Value, actual: Value) -> bool:
        """Whether by their :attr:`.trace.Value.ends` two values may be near enough; means are no nearer than what they are of."""
        mean = expected.ends[2], actual.ends[2]
        means = RoundingBound(self.usual + self.filled).least(FLOOR * mean[0])  # in another order a sum rounds otherwise
        return self.range_alike(expected, actual) and means._near(*mean)

    def range_alike(self, expected: Value, actual: Value) -> bool:
        """The same of the least and the greatest number alone."""
        return all(map(self._near, expected.ends[:2], actual.ends[:2]))

    def _near(self, expected: float, actual: float) -> bool:
        """:meth:`holds` of single numbers."""
        apart = abs(expected - actual)
        near = expected == actual or apart <= self.usual or (math.isnan(expected) and math.isnan(actual))
        return near or (abs(expected) > self.limit and apart <= self.filled)

    def least(self, usual: float) -> RoundingBound:
        """At least so much."""
        return self._replace(usual=max(self.usual, usual))


def measured(values: torch.Tensor, moved: torch.Tensor | None, unit: float = FLOOR) -> RoundingBound:
    """The tolerance of numbers of which a run with rounding errors has ``moved`` ones (None: none of that shape)."""
    if moved is not None and moved.shape != values.shape:
        moved = None
    low, high = (float(end) for end in values.aminmax()) if len(values) else (0.0, 0.0)
    if max(-low, high) < FILLED:  # nothing is as large as what fills masked places
        travelled = 0.0 if moved is None or not len(values) else float((moved - values).abs_().max())
        if math.isfinite(travelled):
            return RoundingBound(unit * max(-low, high) + SLACK * travelled)
    finite = torch.isfinite(values)
    sizes = values[finite].abs()
    limit = _limit(sizes)
    far = sizes > limit
    apart = torch.zeros_like(sizes)
    if moved is not None:
        apart = (moved[finite] - values[finite]).abs().nan_to_num(0.0, 0.0, 0.0)
    usual, filled = (unit * _most(sizes[part]) + SLACK * _most(apart[part]) for part in (~far, far))
    return RoundingBound(usual, limit, filled)


def _most(sizes: torch.Tensor) -> float:
    return float(sizes.max()) if sizes.numel() else 0.0


def _limit(sizes: torch.Tensor) -> float:
    """The largest size that is none of what fills masked places; infinite if nothing does."""
    if sizes.numel() < 2 or float(sizes.max()) < FILLED:
        return math.inf
    ordered = sizes.sort().values
    gaps = ((ordered[1:] >= FILLED) & (ordered[1:] >= _GAP * ordered[:-1])).nonzero()
    return float(ordered[gaps[0, 0]]) if len(gaps) else math.inf


class Tolerances:
    """How far a value of the original moves in a wide run if each call's result is changed by about one unit roundoff.

    Args:
        trace: of the original.
        moved: the same with these changes.
    """

    def __init__(self, trace: Trace, moved: Trace) -> None:
        self._known = {value: _bound_of_value(value, _twin(value, moved)) for value in trace.values()}

    def __call__(self, value: Value) -> RoundingBound:
        if value not in self._known:  # of memory that nothing was written into
            self._known[value] = _bound_of_value(value, None)
        return self._known[value]


def _bound_of_value(value: Value, twin: Value | None) -> RoundingBound:
    moved = None if twin is None or twin.tensor.shape != value.tensor.shape else numbers(twin.tensor)
    return measured(numbers(value.tensor), moved, floor_of(value.tensor.dtype))


def _twin(value: Value, moved: Trace) -> Value | None:
    """The same value in a run that was moved; None for what was there before, or if the rounding errors changed a decision."""
    node = value.node
    if node is None or node.index >= len(moved.nodes) or moved.nodes[node.index].name != node.name:
        return None
    return moved.nodes[node.index].values[node.values.index(value)]


def _unit(tensor: torch.Tensor) -> float:
    return float(torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0.0


def rounded(generator: torch.Generator) -> Any:
    """Changes a tensor's elements by up to one unit roundoff each."""

    return lambda tensor: nudged(tensor, _unit(tensor), generator)


def nudged(tensor: torch.Tensor, unit: float, generator: torch.Generator) -> None:
    """Changes a tensor's elements by up to so many parts of each, but for whole numbers.

    A count of tokens is exact, however it is computed: moved, and cut to an integer again, it would be another position.
    """
    large = tensor.numel() > 2 * _PIECE and tensor.is_contiguous()
    shape = (2 * _PIECE,) if large else tensor.shape
    noise = torch.rand(shape, dtype=torch.float64, generator=generator).sub_(0.5).mul_(2.0 * unit).add_(1.0).to(tensor.dtype)
    if not large:
        _move(tensor, noise)
        return
    flat = tensor.view(-1)  # piece by piece, which stay in a processor's cache, each by other numbers of the same noise
    begins = range(0, len(flat), _PIECE)
    offsets = torch.randint(_PIECE, (len(begins),), generator=generator).tolist()
    for begin, offset in zip(begins, offsets):
        piece = flat[begin : begin + _PIECE]
        _move(piece, noise[offset : offset + len(piece)])


def _move(tensor: torch.Tensor, noise: torch.Tensor) -> None:
    whole = (tensor == tensor.round()) & (tensor.abs() < EXACT)
    tensor.mul_(noise.masked_fill(whole, 1.0))


class Noise(LooksOn):
    """Within it each result of ``dtype`` of Torch's kernels is changed by up to one unit roundoff; nothing is written down."""

    def __init__(self, generator: torch.Generator, dtype: str) -> None:
        super().__init__()
        self._dtype = getattr(torch, dtype)
        self._touch = rounded(generator)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not is_passive(function):
            for tensor in tensors_in(result if result is not None else args[:1]):
                if tensor.dtype is self._dtype:  # not the counters of steps
                    self._touch(tensor)
        return result


class Nudged(LooksOn):
    """Within it results of Torch's kernels are moved by up to one unit roundoff, the same in each run."""

    def __init__(self, names: Mapping[int, str], layer: Callable[[], str], until: CodeType | None = None) -> None:
        super().__init__()
        self._nudge = rounded(torch.Generator().manual_seed(0))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        first = next(iter(tensors_in(result)), None)
        if first is not None and first.is_floating_point() and not is_passive(function):
            self._nudge(first)
        return result


# ---- Whether two programs agree in a wider dtype.


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

    def __init__(self, mapping: WeightMapping, original: RunOutcome, touched: RunOutcome, dtype: str = "float64") -> None:
        self._mapping, self._original, self._dtype = mapping, original, dtype
        self._allowed = {  # of each row, by whether the outputs alone are asked for
            forward: [_bound_of_array(expected, moved) for _, expected, moved in self._rows(touched, forward, own=True)]
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


def _bound_of_array(expected: Array | None, moved: Array | None) -> RoundingBound:
    if expected is None or not expected.size or not np.issubdtype(expected.dtype, np.inexact):
        return RoundingBound(0.0)
    same = moved is not None and moved.shape == expected.shape
    return measured(_numbers(expected), _numbers(moved) if moved is not None and same else None, floor_of(expected.dtype))


def _numbers(array: Array) -> torch.Tensor:
    return numbers(torch.from_numpy(np.ascontiguousarray(array)))
