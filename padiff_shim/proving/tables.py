"""Tables that programs make of numbers alone: positions, frequencies, cosines, masks.

A table that a model makes when it is built has the rounding errors of the dtype in which it was born, float32, also in the copy of
the model in float64; one that is made in the forward has none there. Both are right. So where two tables lie no further apart than
rounding in float32 explains, both programs are given the original's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from .tolerances import FLOOR, RoundingBound, nudged
from .trace import Key, Node, Trace, Value, numbers

UNIT = float(torch.finfo(torch.float32).eps)
_SLACK = 8.0  # times the effect of one rounding error of float32 at each call that a table is made of
_ENTRY = 4.0  # units roundoff of an entry, and of the position of which it is a sine
_WAVE = 2.0  # no sine or cosine is larger, scaled ones included


@dataclass
class Exchange:
    """The tables that a run of the port is given: by the number of a constant in the trace, or by the call that makes them."""

    constants: dict[int, torch.Tensor] = field(default_factory=dict)
    calls: dict[Key, list[torch.Tensor | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.constants or self.calls)


class _OfNumbers:
    """Which values neither an input nor a weight has a part in. ``is_weight``: asked for the label of a constant."""

    def __init__(self, is_weight: Callable[[str], bool]) -> None:
        self._is_weight = is_weight
        self._known: dict[Node, bool] = {}

    def __contains__(self, value: Value) -> bool:
        if value.node is None:
            return not value.label.startswith("input ") and not self._is_weight(value.label)
        return self.makes(value.node)

    def makes(self, node: Node) -> bool:
        """Whether a call is given nothing else; asked in the order of the calls."""
        if node not in self._known:
            self._known[node] = not node.backward and all(operand.value in self for operand in node.operands)
        return self._known[node]


def tables_of(trace: Trace, is_weight: Callable[[str], bool]) -> list[Value]:
    """All values of floats that are made of numbers alone."""
    of_numbers = _OfNumbers(is_weight)
    tables = [value for value in trace.values() if value in of_numbers]
    return [value for value in tables if value.tensor.is_floating_point() and value.tensor.numel() > 1]


def rounded_in_single(generator: torch.Generator, is_weight: Callable[[str], bool]) -> Callable[[Node, torch.Tensor], None]:
    """Changes what calls make of numbers alone by up to one unit roundoff of float32."""
    of_numbers = _OfNumbers(is_weight)

    def touch(node: Node, tensor: torch.Tensor) -> None:
        if of_numbers.makes(node):
            nudged(tensor, UNIT, generator)

    return touch


def exchange(original: list[Value], port: list[Value], constants: list[Value], moved: Callable[[], Iterable[Value]]) -> Exchange:
    """What the port has to be given for its tables to be the original's, where float32's rounding explains how far they are apart.

    Args:
        original, port: the tables of both.
        constants: of the port's trace, in its order.
        moved: makes the original's tables again, in a run with rounding errors of float32.
    """
    # Nothing is rounded in a table of zeros.
    others = [value for value in port if any(value.ends[:2]) and not any(_equal(table, value) for table in original)]
    if not others or not original:
        return Exchange()
    travelled = dict(zip(original, moved()))
    tables = [(table, travelled.get(table), _is_single(table)) for table in original]
    order = {constant: place for place, constant in enumerate(constants)}
    exchanged, noted = Exchange(), set[Value]()
    for value in others:
        single = _is_single(value)
        fitting = ((table, twin) for table, twin, is_single in tables if single or is_single)
        wanted = next((laid for table, twin in fitting if (laid := _as_in(table, value, twin)) is not None), None)
        if wanted is None:
            continue
        if value.node is None:
            exchanged.constants[order[value]] = wanted
        else:
            exchanged.calls[value.node.key] = [wanted if result is value else None for result in value.node.values]
        taken_from = value.node.operands if value.node is not None and value.node.moves else ()
        if not any(operand.value in noted for operand in taken_from):
            exchanged.notes.append(_note(value, wanted))
        noted.add(value)
    return exchanged


def _equal(table: Value, value: Value) -> bool:
    """Whether two tables hold the same numbers in float64, in whatever order."""
    largest = max(map(abs, table.ends[:2]))
    if table.count != value.count or not RoundingBound(FLOOR * largest).end_alike(table, value):
        return False
    expected, actual = numbers(table.tensor), numbers(value.tensor)
    if _within(expected, actual, FLOOR * expected.abs()):
        return True
    return _within(table.sorted, value.sorted, FLOOR * table.sorted.abs())


def _is_single(value: Value) -> bool:
    """Whether a table is made of what was born in float32: of numbers that it holds, but that fewer digits do not."""
    return any(
        bool((source.sorted == source.sorted.float()).all()) and not bool((source.sorted == source.sorted.bfloat16()).all())
        for source in _sources(value)
    )


def _sources(value: Value) -> Iterator[Value]:
    """The constants of which a table is made."""
    waiting, seen = [value], set()
    while waiting:
        source = waiting.pop()
        if source.node is None:
            yield source
        elif source.node not in seen:
            seen.add(source.node)
            waiting += [operand.value for operand in source.node.operands]


def _as_in(table: Value, value: Value, moved: Value | None) -> torch.Tensor | None:
    """The original's table in the places of the port's; None if they are further apart than rounding in float32 explains."""
    if table.tensor.numel() != value.tensor.numel():
        return None
    expected, actual = numbers(table.tensor), numbers(value.tensor)
    allowed = _ENTRY * UNIT * expected.abs().nan_to_num(0.0, 0.0, 0.0)
    if moved is not None and moved.tensor.shape == table.tensor.shape:
        allowed += _SLACK * float((numbers(moved.tensor) - expected).abs().nan_to_num(0.0, 0.0, 0.0).max())
    if float(expected.abs().max()) <= _WAVE:
        allowed += _ENTRY * UNIT * _positions(table.tensor)
    if _within(expected, actual, allowed):
        return expected.reshape(value.tensor.shape)
    ranks, places = expected.sort(), actual.argsort()
    if not _within(ranks.values, actual[places], allowed[ranks.indices]):
        return None
    wanted = torch.empty_like(expected)
    wanted[places] = ranks.values
    return wanted.reshape(value.tensor.shape)


def _within(expected: torch.Tensor, actual: torch.Tensor, allowed: torch.Tensor) -> bool:
    return bool(((expected == actual) | ((expected - actual).abs() <= allowed)).all())


def _positions(tensor: torch.Tensor) -> torch.Tensor:
    """For each element its largest place along an axis, counted from 1: the angle of a wave is no larger."""
    return torch.from_numpy(np.indices(tensor.shape).max(0).reshape(-1) + 1.0)


def _note(value: Value, wanted: torch.Tensor) -> str:
    """Which table the port was given."""
    reader = value.node or next(iter(value.readers), None)
    where = f" at {reader.site.file}:{reader.site.line}" if reader else ""
    apart = float((numbers(wanted) - numbers(value.tensor)).abs().max())
    name = f"the table {value.label}" if value.label else f"a table of {list(value.tensor.shape)}"
    return (
        f"{name}{where} is up to {apart:.2g} from the original's, as far as rounding in float32 explains: "
        "for the runs in float64 both have the original's"
    )
