"""What runs of two programs gave, and whether they gave the same: bit for bit, or as far as rounding errors travel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import numpy as np
import torch

from ..dispatch.dtypes import HALF_NAMES
from ..frameworks.memory import TORCH_DTYPES
from ..frameworks.torch_state import LooksOn
from ..measure.bits import PIECE, largest, largest_element, largests, same_bits
from ..measure.difference import Comparator, accepts
from ..text import joined, listed, many, tr
from ..trees import PLAIN
from ..weights.mapping import Mapping as WeightMapping
from .findings import LayerRow
from .trace import Capture, Onlooker, Trace, Value, is_passive, numbers, tensors_in
from .updates import States, StepUpdate

Array = np.ndarray[Any, Any]


@dataclass
class RunOutcome:
    """What one run (or step) gave, as arrays.

    Attributes:
        outputs: outputs and loss, by path.
        dtypes: of the outputs, by path: no array is of bfloat16; of a number or a text its class.
        by_name: outputs whose place in an order says nothing: numbers, texts and attributes of objects.
        opaque: outputs that cannot be compared, in words.
        layers: the results of each layer's calls, by name.
        gradients: of parameters, by name.
        statistics: what the forward wrote, running statistics, by name.
        unlike: the statistics are missing, for Paddle's kernel wrote them, which defines them differently.
        capture: what looked on.
        weights: behind a step of a training, by name.
        update: what that step showed.
        states: what optimizers keep behind the last step: name of the state -> by the parameters' names.
        of_layers: gradients of the layers' results, where the side follows them; None where a call has none.
        of_inputs: gradients of inputs, where the side follows them.
    """

    outputs: dict[str, Array] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    by_name: set[str] = field(default_factory=set)
    opaque: list[str] = field(default_factory=list)
    layers: dict[str, list[Array]] = field(default_factory=dict)
    gradients: dict[str, Array] = field(default_factory=dict)
    statistics: dict[str, Array] = field(default_factory=dict)
    unlike: bool = False
    capture: Onlooker | None = None
    weights: dict[str, Array] = field(default_factory=dict)
    update: StepUpdate | None = None
    states: States = field(default_factory=dict)
    of_layers: dict[str, list[Array | None]] = field(default_factory=dict)
    of_inputs: dict[str, Array] = field(default_factory=dict)

    @property
    def trace(self) -> Trace:
        """The calls of a run with a :class:`.trace.Capture`."""
        assert isinstance(self.capture, Capture)
        return self.capture.trace


def difference_text(array: Array, other: Array) -> str:
    """How two arrays differ, in words."""
    if array.shape != other.shape:
        return tr("shapes {shape} and {other}", shape=list(array.shape), other=list(other.shape))
    return tr("largest difference {largest:.3g}", largest=largest(array, other))


# ---- Two runs, bit by bit: outputs, gradients, statistics, weights and the results of layers.


Row = tuple[str, Array | None, Array | None]  # a name, Torch's values and Paddle's in one layout, or None


def complete(rows: Iterable[Row]) -> Iterator[tuple[str, Array, Array]]:
    """The rows with values of both."""
    return ((name, expected, other) for name, expected, other in rows if expected is not None and other is not None)


def not_compared(original: RunOutcome, port: RunOutcome) -> str:
    """Which outputs cannot be compared; "" if all can."""
    opaque = [*original.opaque, *port.opaque]
    if not opaque and output_pairs(original, port):
        return ""
    remedy = tr("return tensors, numbers or text")
    if not opaque:
        return tr("no output can be compared ({remedy})", remedy=remedy)
    return tr("{outputs} cannot be compared ({remedy})", outputs=listed(list(dict.fromkeys(opaque))), remedy=remedy)


def says_nothing(original: RunOutcome) -> str:
    """Why no output of the original can be compared; "" if one can: NaN equals NaN, whatever was computed."""
    plain = [kind.__name__ for kind in PLAIN]
    tensors = [output for path, output in original.outputs.items() if original.dtypes.get(path) not in plain]
    outputs = [output for output in tensors if output.dtype.kind in "fc" or not output.size]
    if len(outputs) < len(tensors) or not outputs:
        return ""
    if not any(output.size for output in outputs):
        return str(tr("the original's outputs have no elements: nothing can be compared"))
    if all(np.isnan(output).all() for output in outputs):
        return str(tr("the original's outputs are NaN in all elements: nothing can be compared"))
    return ""


def output_pairs(original: RunOutcome, port: RunOutcome) -> list[tuple[str, str]]:
    """The paths of outputs that belong together, Torch's and Paddle's: those of one name, then the others in order.

    If one side has more others than the other, those of one shape in one order; but what has a place by its name alone.
    """
    by_name = original.by_name | port.by_name
    ordered = [[path for path in run.outputs if path not in by_name] for run in (original, port)]
    alike = set(ordered[0]) == set(ordered[1])  # else a number is no name
    common = [path for path in original.outputs if path in port.outputs and (alike or path in by_name or path[:1] not in ("", "["))]
    original_paths, port_paths = ([path for path in paths if path not in common] for paths in ordered)
    if len(original_paths) == len(port_paths):
        left = list(zip(original_paths, port_paths))
    else:
        shapes = [[run.outputs[path].shape for path in paths] for run, paths in ((original, original_paths), (port, port_paths))]
        blocks = SequenceMatcher(None, shapes[0], shapes[1], autojunk=False).get_matching_blocks()
        left = [(original_paths[block.a + at], port_paths[block.b + at]) for block in blocks for at in range(block.size)]
    partners = {**{path: path for path in common}, **dict(left)}
    return [(path, partners[path]) for path in original.outputs if path in partners]


def outputs(original: RunOutcome, port: RunOutcome) -> list[tuple[str, Array, Array]]:
    """Outputs that belong together, side by side, under Torch's paths."""
    return [(path, original.outputs[path], port.outputs[partner]) for path, partner in output_pairs(original, port)]


def unpaired_outputs(original: RunOutcome, port: RunOutcome) -> str:
    """Which outputs one side alone gives, and nobody compares; "" if none."""
    pairs = output_pairs(original, port)
    left = [
        tr("{side} alone gives {paths}", side=side, paths=listed([path or "0" for path in paths], 8))
        for side, run, at in ((tr("the original"), original, 0), (tr("the port"), port, 1))
        if (paths := [path for path in run.outputs if path not in {pair[at] for pair in pairs}])
    ]
    return tr("outputs that were not compared: {left}", left=joined("; ", left)) if left else ""


def renamed_outputs(original: RunOutcome, port: RunOutcome) -> str:
    """Which outputs the port calls by other names; "" if none."""
    renamed = [pair for pair in output_pairs(original, port) if pair[0] != pair[1]]
    pairs = joined(", ", [tr("{path} is {partner}", path=path or "0", partner=partner or "0") for path, partner in renamed])
    return tr("the port's outputs have other names, and were compared in order: {pairs}", pairs=pairs) if renamed else ""


def shapes_differ(original: RunOutcome, port: RunOutcome) -> str:
    """What differs between the shapes and dtypes of outputs; "" if nothing does."""
    if original.outputs and not output_pairs(original, port) and not original.by_name | port.by_name:
        return tr(
            "none of {outputs} has the shape of one of the original's {number}",
            outputs=many(len(port.outputs), "output"),
            number=len(original.outputs),
        )
    for path, expected, other in outputs(original, port):
        if original.dtypes.get(path) in ("str", "bytes") and not same_bits(expected, other):
            texts = [bytes(array.astype(np.uint8)).decode() for array in (other, expected)]
            return tr("output {path} is {actual!r} against {expected!r}", path=path, actual=texts[0], expected=texts[1])
        if expected.shape != other.shape:
            return tr(
                "output {path} has shape {shape} against {expected}",
                path=path or "0",
                shape=list(other.shape),
                expected=list(expected.shape),
            )
        if expected.dtype != other.dtype and not HALF_NAMES & {original.dtypes.get(path), port.dtypes.get(path)}:
            return tr(
                "output {path} has dtype {actual} against {expected}", path=path or "0", actual=other.dtype, expected=expected.dtype
            )
    return ""


def dtypes_differ(original: RunOutcome, port: RunOutcome) -> str:
    """What differs between the dtypes of output tensors, whose arrays have no bfloat16; "" if nothing does."""
    for path, partner in output_pairs(original, port):
        expected, actual = original.dtypes.get(path), port.dtypes.get(partner)
        if expected != actual:
            return tr("output {path} has dtype {actual} against {expected}", path=path or "0", actual=actual, expected=expected)
    return ""


def without_gradient(rows: Sequence[Row]) -> str:
    """Parameters that get a gradient on one side alone, in the rows of all pairs; "" if none."""
    lines = [
        tr("{name} gets a gradient in the port" if expected is None else "{name} gets no gradient in the port", name=named(name))
        for name, expected, other in rows
        if (expected is None) is not (other is None)
    ]
    return listed(lines)


def outputs_differ(original: RunOutcome, port: RunOutcome, wanted: Callable[[str], bool]) -> str:
    """What differs between the bits of the wanted outputs; "" if nothing does."""
    wrong = _differing(row for row in outputs(original, port) if wanted(row[0]))
    return tr("output {path}: {how}", path=wrong[0][0] or "0", how=difference_text(*wrong[0][1:])) if wrong else ""


def whole_outputs_differ(original: RunOutcome, port: RunOutcome) -> str:
    """What differs between outputs of whole numbers; "" if nothing does."""
    return outputs_differ(original, port, lambda path: original.outputs[path].dtype.kind not in "fc")


_ROUNDS = 0.01  # of the largest share of its numbers by which a row is wrong: what is wrong by less may only round


def _differing(rows: Iterable[Row]) -> list[tuple[str, Array, Array]]:
    """The rows whose bits differ; one that is nearly as wrong as any comes first, for others may only round beside it."""
    wrong = [row for row in complete(rows) if not same_bits(*row[1:])]
    sizes = [largest_element(expected) for _, expected, _ in wrong]

    def share(expected: Array, actual: Array) -> float:
        """By which share of its largest number, and at most by the whole; a gradient may be 0 but for rounding."""
        if expected.shape != actual.shape:
            return 1.0
        size = max(largest_element(expected), floor_of(expected.dtype) * max(sizes))
        return min(largest(expected, actual) / size, 1.0) if size else 1.0

    shares = [share(*row[1:]) for row in wrong] if len(wrong) > 1 else []
    first = next((at for at, by in enumerate(shares) if by >= _ROUNDS * max(shares)), 0)
    return wrong[first:] + wrong[:first]


def laid(framework: str, mapping: WeightMapping, values: dict[str, Array], *, gradient: bool = False) -> list[Array | None]:
    """A framework's values (or gradients) for each pair of weights, in one layout of both."""
    arrays = ((pair, values.get(pair.name(framework))) for pair in mapping)
    return [None if array is None else pair.in_common(framework, array, gradient=gradient) for pair, array in arrays]


def _rows_of_pairs(
    mapping: WeightMapping, of_torch: dict[str, Array], of_paddle: dict[str, Array], *, gradient: bool = False
) -> list[Row]:
    """A row for each pair of weights."""
    names = (pair.paddle or pair.torch for pair in mapping)
    sides = (("torch", of_torch), ("paddle", of_paddle))
    return list(zip(names, *(laid(side, mapping, values, gradient=gradient) for side, values in sides)))


def gradients(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The gradients of all pairs, and of inputs that runs followed.

    Zeros in a part of a weight are none: the other side did not call its layer for that part.
    """
    rows = _rows_of_pairs(mapping, original.gradients, port.gradients, gradient=True)
    of_inputs = [
        (name, original.of_inputs.get(name), port.of_inputs.get(name)) for name in {**original.of_inputs, **port.of_inputs}
    ]
    return [
        *(_without_zeros(row) if not pair.is_exact else row for pair, row in zip(mapping, rows)),
        *map(_without_zeros, of_inputs),
    ]


def _without_zeros(row: Row) -> Row:
    name, expected, other = row
    alone = expected if other is None else other if expected is None else None
    return row if alone is None or alone.any() else (name, None, None)


def statistics(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The running statistics of all pairs."""
    return _rows_of_pairs(mapping, original.statistics, port.statistics)


def weights(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> list[Row]:
    """The weights of all pairs behind a step of a training."""
    return _rows_of_pairs(mapping, original.weights, port.weights)


def named(name: str) -> str:
    """A tensor's name as the reader's language has it: that of an input is a number or a keyword behind a word."""
    path = name.removeprefix("input ")
    return name if path == name else tr("input {name}", name=path)


def first_difference(rows: Sequence[Row], *, of_gradients: bool = False) -> str:
    """The first row that differs nearly as much as any, in words; "" if no bits differ."""
    wrong = _differing(rows)
    if not wrong:
        return ""
    name, expected, actual = wrong[0]
    of = tr("gradient of {name}", name=named(name)) if of_gradients else named(name)
    text = joined("", (of, tr(": "), difference_text(expected, actual)))
    return tr("{text} (and {more} more)", text=text, more=len(wrong) - 1) if len(wrong) > 1 else text


def refused(equal: Comparator | None, mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> str | None:
    """What a comparator of the user's own refuses of all that differs; "" if it accepts all; None if it leaves something open."""
    if equal is None:
        return None
    kinds = ((OF_GRADIENT, gradients), ("", statistics))
    rows: list[Row] = [(path or "output", expected, actual) for path, expected, actual in outputs(original, port)]
    rows += [(what + name, expected, actual) for what, of in kinds for name, expected, actual in of(mapping, original, port)]
    answers = {
        name: accepts(equal, actual, expected, name)
        for name, expected, actual in complete(rows)
        if expected.shape == actual.shape and not same_bits(expected, actual)
    }
    first = next((name for name, answer in answers.items() if answer is False), "")
    return first or (None if None in answers.values() else "")


def layers(mapping: WeightMapping, original: RunOutcome, port: RunOutcome, native: RunOutcome | None) -> list[LayerRow]:
    """The results of each pair of layers, where they have one shape; ``native``: None where the port does not run natively."""
    rows: list[tuple[str, str, list[Array], list[Array], list[Array]]] = []
    for original_name, port_name in mapping.layers.items():
        expected, shim = original.layers.get(original_name, []), port.layers.get(port_name, [])
        own = shim if native is None else native.layers.get(port_name, [])
        alike = all(a.shape == b.shape == c.shape for a, b, c in zip(expected, shim, own))
        if expected and len(expected) == len(shim) == len(own) and alike:
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


def how_far(mapping: WeightMapping, original: RunOutcome, port: RunOutcome, share: float) -> tuple[float, bool]:
    """The largest difference of outputs and gradients; and whether one is far (:func:`far_apart`), be it of statistics."""
    distances = _distances([*outputs(original, port), *gradients(mapping, original, port)])
    further = [*distances, *_distances(statistics(mapping, original, port))]
    return max((apart for _, apart in distances), default=0.0), any(_is_far(expected, apart, share) for expected, apart in further)


def _distances(rows: Iterable[Row]) -> list[tuple[Array, float]]:
    """Torch's values and the largest difference, of rows whose values have one shape."""
    pairs = [(expected, other) for _, expected, other in complete(rows) if expected.shape == other.shape]
    return [(expected, apart or 0.0) for (expected, _), apart in zip(pairs, largests(pairs))]


def worst(mapping: WeightMapping, original: RunOutcome, port: RunOutcome) -> float:
    """The largest difference of all outputs and gradients that have one shape."""
    return largest_of_rows([*outputs(original, port), *gradients(mapping, original, port)])


def far_apart(rows: Iterable[Row], share: float) -> bool:
    """Whether somewhere an infinity or NaN stands against a number, or a difference is beyond a share of the largest number."""
    return any(
        _is_far(expected, largest(expected, actual), share)
        for _, expected, actual in sorted(complete(rows), key=lambda row: row[1].size)  # the cheapest first
        if expected.shape == actual.shape
    )


def _is_far(expected: Array, apart: float, share: float) -> bool:
    return apart > 0.0 and np.issubdtype(expected.dtype, np.inexact) and apart > share * largest_element(expected)


def largest_of_rows(rows: Sequence[Row]) -> float:
    """The largest difference in rows whose values have one shape."""
    return max((apart for _, apart in _distances(rows)), default=0.0)


# ---- How far rounding errors travel in a program: measured, never set.


SLACK = 64.0  # so many times the effect of one rounding error per call counts as rounding


_TRAVELLED = 4.0  # times the effect of a few other roundings of numbers that were rounded once
FLOOR = 1e-13  # of the largest element: sums whose terms cancel keep no more digits in float64


_NARROW_FLOOR = 8.0  # the same in narrower dtypes, in their unit roundoffs


EXACT = 2.0**24  # whole numbers below it are exact in float32, too


FILLED, _GAP = 1e3, 100.0  # what fills masked places: its least size, and so many times as large as all others it is


def floor_of(dtype: Any) -> float:
    """The share of the largest element that is always allowed, 0 for whole numbers; ``dtype``: Torch's, NumPy's, or its name."""
    name = str(dtype).rpartition(".")[2]
    unit = _unit(torch.empty(0, dtype=TORCH_DTYPES[name]))
    return FLOOR if name in ("float64", "complex128") else _NARROW_FLOOR * unit


class RoundingBound(NamedTuple):
    """How far elements may be apart: ``usual`` up to ``limit`` in size, ``filled`` for larger elements, which fill masked places.

    The largest of masked scores says nothing: it is -1e9, or the smallest number of a dtype, and fills masked places.
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
        """Whether two values may be near enough, by their least, greatest and mean element (:attr:`.trace.Value.ends`)."""
        ends, others = expected.ends, actual.ends
        means = RoundingBound(self.usual + self.filled).least(FLOOR * ends[2])  # a sum rounds differently in another order
        return all(map(self._near, ends[:2], others[:2])) and means._near(ends[2], others[2])

    def _near(self, expected: float, actual: float) -> bool:
        """:meth:`holds` of single numbers."""
        apart = abs(expected - actual)
        near = expected == actual or apart <= self.usual or (math.isnan(expected) and math.isnan(actual))
        return near or (abs(expected) > self.limit and apart <= self.filled)

    def least(self, usual: float) -> RoundingBound:
        """A bound of at least that much."""
        return self._replace(usual=max(self.usual, usual))


def bound_from(values: torch.Tensor, moved: torch.Tensor | None, unit: float = FLOOR) -> RoundingBound:
    """How far numbers may be apart that a run with rounding errors ``moved``; None: no numbers of that shape."""
    if moved is not None and moved.shape != values.shape:
        moved = None
    low, high = (float(end) for end in values.aminmax()) if len(values) else (0.0, 0.0)
    if max(-low, high) < FILLED:  # nothing fills masked places
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
    """The largest size of an element that fills no masked place; infinite if none does."""
    if sizes.numel() < 2 or float(sizes.max()) < FILLED:
        return math.inf
    ordered = sizes.sort().values
    gaps = ((ordered[1:] >= FILLED) & (ordered[1:] >= _GAP * ordered[:-1])).nonzero()
    return float(ordered[gaps[0, 0]]) if len(gaps) else math.inf


class Tolerances:
    """How far a value of the original moves in a wide run if each call's result moves by about one unit roundoff.

    Args:
        trace: of the original.
        moved: of a run with these errors.
    """

    def __init__(self, trace: Trace, moved: Trace) -> None:
        self._known = {value: _bound_of_value(value, _twin(value, moved)) for value in trace.values()}

    def __call__(self, value: Value) -> RoundingBound:
        if value not in self._known:  # memory without values
            self._known[value] = _bound_of_value(value, None)
        return self._known[value]


def _bound_of_value(value: Value, twin: Value | None) -> RoundingBound:
    moved = None if twin is None or twin.tensor.shape != value.tensor.shape else numbers(twin.tensor)
    return bound_from(numbers(value.tensor), moved, floor_of(value.tensor.dtype))


def _twin(value: Value, moved: Trace) -> Value | None:
    """The same value in a run with rounding errors; None for what was there before, or if the errors changed a decision.

    Behind such a decision there are other calls, or calls with another number of results: an ``unbind`` of chosen rows.
    """
    node = value.node
    if node is None or node.index >= len(moved.nodes):
        return None
    twin = moved.nodes[node.index]
    return twin.values[node.values.index(value)] if twin.name == node.name and len(twin.values) == len(node.values) else None


def _unit(tensor: torch.Tensor) -> float:
    return float(torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() or tensor.is_complex() else 0.0


def rounding_noise(generator: torch.Generator) -> Any:
    """Moves a tensor's elements by up to one unit roundoff each."""

    return lambda tensor: add_noise(tensor, _unit(tensor), generator)


def add_noise(tensor: torch.Tensor, unit: float, generator: torch.Generator) -> None:
    """Moves a tensor's elements by up to ``unit`` of each, but whole numbers, and what fills masked places.

    A count of tokens is exact, however it is computed: moved, and cut to an integer again, it would be another position. And -1e30
    stays -1e30, whatever score is added: moved by 1e14, a row that is wholly masked would have other weights.
    """
    if tensor.is_conj() or tensor.is_neg():
        return  # the memory of another
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    large = tensor.numel() > 2 * PIECE and tensor.is_contiguous()
    shape = (2 * PIECE,) if large else tensor.shape
    noise = torch.rand(shape, dtype=torch.float64, generator=generator).sub_(0.5).mul_(2.0 * unit).add_(1.0).to(tensor.dtype)
    if not large:
        _move(tensor, noise, unit)
        return
    flat = tensor.view(-1)  # piece by piece, within a processor's cache, each by other numbers of the same noise
    begins = range(0, len(flat), PIECE)
    offsets = torch.randint(PIECE, (len(begins),), generator=generator).tolist()
    for begin, offset in zip(begins, offsets):
        piece = flat[begin : begin + PIECE]
        _move(piece, noise[offset : offset + len(piece)], unit)


def _move(tensor: torch.Tensor, noise: torch.Tensor, unit: float) -> None:
    whole = (tensor == tensor.round()) & (tensor.abs() < EXACT)
    filled = tensor * unit < -1.0
    tensor.mul_(noise.masked_fill(whole | filled, 1.0))


class Noise(LooksOn):
    """Within it each result of ``dtype`` of Torch's kernels moves by up to one unit roundoff, the same in each run.

    ``first``: of several results of a call the first alone.
    """

    def __init__(self, dtype: str, *, first: bool = False) -> None:
        super().__init__()
        self._unit, self._most = torch.finfo(TORCH_DTYPES[dtype]).eps, 1 if first else None
        self._touch = rounding_noise(torch.Generator().manual_seed(0))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not is_passive(function):
            for tensor in tensors_in(result if result is not None else args[:1])[: self._most]:
                if _unit(tensor) == self._unit:  # not the counters of steps
                    self._touch(tensor)
        return result


STEEP = 20 / 52  # of a dtype's digits: an error travels so far only past a tie, a step or a singular point


OF_GRADIENT = "gradient of "  # begins the name of a gradient


class Agreement:
    """Compares runs in a wider dtype with one of the original.

    Args:
        mapping: which weights belong together.
        original: the original's run.
        touched: the same with one rounding error more at every call, see :func:`rounding_noise`.
        dtype: of these runs.
    """

    def __init__(self, mapping: WeightMapping, original: RunOutcome, touched: RunOutcome, dtype: str = "float64") -> None:
        self._mapping, self._original, self._dtype = mapping, original, dtype
        self._allowed = {  # of each row; True: of outputs and statistics alone
            forward: [_bound_of_array(expected, moved) for _, expected, moved in self._rows(touched, forward, own=True)]
            for forward in (True, False)
        }

    def breach(self, port: RunOutcome, *, forward: bool = False, statistics: bool = True) -> str:
        """What is further apart than rounding errors travel, or differs where nothing rounds; "" if nothing is.

        ``forward``: outputs and running statistics alone; without ``statistics`` outputs alone.
        """
        rows = self._rows(port, forward) if statistics else self._outputs(port)
        for (name, expected, actual), allowed in zip(rows, self._allowed[forward]):
            if expected is not None and actual is not None and not _near(expected, actual, allowed):
                how = tr(
                    "{how}, of which rounding explains {usual:.2g}", how=difference_text(expected, actual), usual=allowed.usual
                )
                return tr("{name} differs in {dtype} ({how})", name=name or "output", dtype=self._dtype, how=how)
        return ""

    def alike(self, port: RunOutcome, other: RunOutcome, *, forward: bool = False) -> bool:
        """Whether two runs of the port are the same up to rounding."""
        rows = zip(self._rows(port, forward), self._rows(other, forward), self._allowed[forward])
        return all(
            _shape(before) == _shape(after) and _near(before, after, allowed) for (_, _, before), (_, _, after), allowed in rows
        )

    def travelled(
        self, port: RunOutcome, moved: Callable[[], Sequence[Sequence[RunOutcome]]], most: float, *, forward: bool = False
    ) -> float:
        """How far both are apart at most, if the same runs with other roundings are as far from them everywhere; infinite if not.

        ``moved``: makes such runs of the original, and of the port. ``most``: of the largest element, however far those are; of
        gradients that of all of them, for one may be 0 but for rounding.
        """
        rows = list(self._rows(port, forward))
        of_gradients = max(
            (largest_element(row[1]) for row in rows if row[0].startswith(OF_GRADIENT) and row[1] is not None), default=0.0
        )
        apart = list[tuple[int, Array, Array, float]]()
        for place, ((name, expected, actual), allowed) in enumerate(zip(rows, self._allowed[forward])):
            if expected is None or actual is None or _near(expected, actual, allowed):
                continue
            apart.append((place, expected, actual, largest(expected, actual)))
            if apart[-1][-1] > most * (of_gradients if name.startswith(OF_GRADIENT) else largest_element(expected)):
                return math.inf
        others = [[list(self._rows(run, forward, own=own)) for run in runs] for own, runs in zip((True, False), moved())]
        for place, *sides, distance in apart:
            explained = 0.0
            for start, runs in zip(sides, others):
                ends = [end for other in runs if (end := other[place][2]) is not None and end.shape == start.shape]
                explained += max((largest(start, end) for end in ends), default=0.0)
            if distance > _TRAVELLED * explained:
                return math.inf
        return max((distance for *_, distance in apart), default=0.0)

    def unsettled(self, port: RunOutcome) -> str:
        """What is far apart, and moves as far by single rounding errors: at a tie, a step or a singular point; "" if nothing is.

        A gradient that is 0 but for rounding (of a key's bias behind a softmax) is small beside the others, and does not count.
        """
        rows = list(zip(self._rows(port, False), self._allowed[False]))
        least = max(
            (largest_element(expected) for (_, expected, _), _ in rows if expected is not None and expected.dtype.kind in "fc"),
            default=0.0,
        )
        for (name, expected, actual), allowed in rows:
            if expected is None or actual is None or expected.shape != actual.shape or expected.dtype.kind not in "fc":
                continue
            far = max(np.finfo(expected.dtype).eps ** STEEP * largest_element(expected), floor_of(expected.dtype) * least)
            if allowed.usual > far and bool(((_numbers(expected) - _numbers(actual)).abs() > far).any()):
                return name or "output"
        return ""

    def _outputs(self, outcome: RunOutcome) -> Iterator[Row]:
        """All outputs of the original beside another run's, or None."""
        partners = {path: actual for path, _, actual in outputs(self._original, outcome)}
        yield from ((path, expected, partners.get(path)) for path, expected in self._original.outputs.items())

    def _rows(self, outcome: RunOutcome, forward: bool, *, own: bool = False) -> Iterator[Row]:
        """All that the original gives beside what another run gives; ``own``: another run of the original."""
        original, mapping = self._original, self._mapping
        yield from self._outputs(outcome)
        kinds = [("", original.statistics, outcome.statistics)]
        if not forward:
            kinds += [(OF_GRADIENT, original.gradients, outcome.gradients), ("", original.weights, outcome.weights)]
        for what, expected, actual in kinds:
            gradient = what == OF_GRADIENT
            sides = (("torch", expected), ("torch" if own else "paddle", actual))
            for pair, *row in zip(mapping, *(laid(side, mapping, values, gradient=gradient) for side, values in sides)):
                yield f"{what}{pair.paddle or pair.torch}", row[0], row[1]


def _shape(array: Array | None) -> tuple[int, ...] | None:
    return None if array is None else array.shape


def _near(expected: Array | None, actual: Array | None, allowed: RoundingBound) -> bool:
    """Whether two arrays agree. Shapes, and arrays of one side alone, are not judged here."""
    if expected is None or actual is None or expected.shape != actual.shape or not expected.size:
        return True
    if math.isinf(allowed.limit) and largest(expected, actual) <= allowed.usual:
        return True
    return bool(allowed.holds(_numbers(expected), _numbers(actual)).all())


def _bound_of_array(expected: Array | None, moved: Array | None) -> RoundingBound:
    if expected is None or not expected.size or not np.issubdtype(expected.dtype, np.inexact):
        return RoundingBound(0.0)
    same = moved is not None and moved.shape == expected.shape
    return bound_from(_numbers(expected), _numbers(moved) if moved is not None and same else None, floor_of(expected.dtype))


def _numbers(array: Array) -> torch.Tensor:
    return numbers(torch.from_numpy(np.ascontiguousarray(array)))
