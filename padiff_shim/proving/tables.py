"""Tables that programs make of numbers alone: positions, frequencies, cosines, masks.

A table that a model makes when it is built has the rounding errors of the dtype in which it was born, float32, also in the copy of
the model in float64; one that is made in the forward has none there. Both are right. So where two tables lie no further apart than
rounding in float32 explains, both programs are given the original's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch

from .matching import Matching
from .tolerances import FLOOR, numbers
from .trace import Key, Node, Trace, Value

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


def tables_of(trace: Trace, is_weight: Callable[[str], bool]) -> list[Value]:
    """All values of floats in which neither an input nor a weight has a part. ``is_weight``: asked for the label of a constant."""
    made = [value for value in trace.constants if not value.label.startswith("input ") and not is_weight(value.label)]
    known = set(made)
    for node in trace.nodes:
        if not node.backward and all(operand.value in known for operand in node.operands):
            known.update(node.values)
            made += node.values
    return [value for value in made if value.tensor.is_floating_point() and value.tensor.numel() > 1]


def rounded_in_single(generator: torch.Generator, is_weight: Callable[[str], bool]) -> Callable[[Node, torch.Tensor], None]:
    """Changes what calls make of numbers alone by up to one unit roundoff of float32."""
    computed: set[Node] = set()

    def touch(node: Node, tensor: torch.Tensor) -> None:
        for operand in node.operands:
            source = operand.value
            if source.node is None and (source.label.startswith("input ") or is_weight(source.label)):
                return
            if source.node is not None and source.node not in computed and not source.node.moves:
                return
        computed.add(node)
        noise = torch.rand(tensor.shape, dtype=torch.float64, generator=generator).sub_(0.5).mul_(2.0 * UNIT).add_(1.0)
        tensor.mul_(noise.to(tensor.dtype))

    return touch


def exchange(matching: Matching, mine: list[Value], yours: list[Value], constants: list[Value], moved: Iterable[Value]) -> Exchange:
    """What the port has to be given for its tables to be the original's, where float32's rounding explains how far they are apart.

    Args:
        matching: of both traces.
        mine, yours: the tables of the original and of the port.
        constants: of the port's trace, in its order.
        moved: the original's tables again, of a run with rounding errors of float32.
    """
    travelled = {id(value): twin for value, twin in zip(mine, moved)}
    order = {id(value): place for place, value in enumerate(constants)}
    exchanged = Exchange()
    for value in yours:
        partner = matching.of_second.get(value)
        if partner is not None and _within(partner.sorted, value.sorted, FLOOR * partner.sorted.abs()):
            continue
        for original in mine:
            if original.tensor.numel() != value.tensor.numel() or not (_is_single(value) or _is_single(original)):
                continue
            wanted = _as_in(original, value, travelled.get(id(original)))
            if wanted is None:
                continue
            if value.node is None:
                exchanged.constants[order[id(value)]] = wanted
            else:
                exchanged.calls[value.node.key] = [wanted if result is value else None for result in value.node.values]
            exchanged.notes += _note(original, value, wanted)
            break
    return exchanged


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


def _as_in(original: Value, value: Value, moved: Value | None) -> torch.Tensor | None:
    """The original's table in the places of the port's; None if they are further apart than rounding in float32 explains."""
    mine, yours = numbers(original.tensor), numbers(value.tensor)
    allowed = _ENTRY * UNIT * mine.abs().nan_to_num(0.0, 0.0, 0.0)
    if moved is not None and moved.tensor.shape == original.tensor.shape:
        allowed += _SLACK * float((numbers(moved.tensor) - mine).abs().nan_to_num(0.0, 0.0, 0.0).max())
    if float(mine.abs().max()) <= _WAVE:
        allowed += _ENTRY * UNIT * _positions(original.tensor)
    if _within(mine, yours, allowed):
        return mine.reshape(value.tensor.shape)
    ranks, places = mine.sort(), yours.argsort()
    if not _within(ranks.values, yours[places], allowed[ranks.indices]):
        return None
    wanted = torch.empty_like(mine)
    wanted[places] = ranks.values
    return wanted.reshape(value.tensor.shape)


def _within(mine: torch.Tensor, yours: torch.Tensor, allowed: torch.Tensor) -> bool:
    return bool(((mine == yours) | ((mine - yours).abs() <= allowed)).all())


def _positions(tensor: torch.Tensor) -> torch.Tensor:
    """For each element its largest place along an axis, counted from 1: the angle of a wave is no larger."""
    shape = tensor.shape
    places = [
        torch.arange(1, size + 1).reshape([-1 if at == axis else 1 for at in range(len(shape))]) for axis, size in enumerate(shape)
    ]
    largest = torch.ones(shape, dtype=torch.float64)
    for along in places:
        largest = torch.maximum(largest, along.to(torch.float64))
    return largest.reshape(-1)


def _note(original: Value, value: Value, wanted: torch.Tensor) -> list[str]:
    """Which table the port was given; of what is made of others nothing."""
    if value.node is not None and value.node.moves:
        return []
    reader = value.node or next(iter(value.readers), None)
    where = f" at {reader.site.file}:{reader.site.line}" if reader else ""
    apart = float((numbers(wanted) - numbers(value.tensor)).abs().max())
    name = f"the table {value.label}" if value.label else f"a table of {list(value.tensor.shape)}"
    return [
        f"{name}{where} is up to {apart:.2g} from the original's, as far as rounding in float32 explains: "
        "for the runs in float64 both have the original's"
    ]
