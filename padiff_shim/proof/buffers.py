"""Buffers that code computes: positions, masks, indices. A proof copies them, and so covers what the port computes wrongly.

So three things are asked beside a proof. Did a buffer begin apart, beyond rounding, and does that move the outputs? Is the port
right with buffers of its own, which may mean something else to it? And do zeros, or weights near zero, hide what is done with them?
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import paddle
import torch

from ..dispatch.call_site import at_line
from ..frameworks.memory import TORCH_DTYPES
from ..text import joined, listed, tr
from ..trees import as_array, copied
from ..weights.mapping import Mapping
from ..weights.pairing import Pair
from ..weights.transfer import made_before
from . import agreement
from .agreement import Array, RunOutcome
from .causes import values_differ
from .findings import WITH_BUFFERS, Cause, Mistake, ProofVerdict, Stage, merged
from .held_values import fill, held_before, holding
from .locate import UNIT, with_rounding_of
from .programs import ModelSide, PaddleSide, TorchSide, attempted, tensors_of
from .proof import Proof
from .rules import place_of_buffer
from .trace import Model, TraceOperand, Value

_DRAWS = re.compile(
    r"\b(bernoulli|gaussian|kaiming|multinomial|normal|orthogonal|rand|standard_normal|trunc_normal|uniform|xavier)\w*\("
)


class ApartBuffer(NamedTuple):
    """A buffer that began apart.

    ``expected``, ``actual``: the values as both constructors made them, in one layout, alike where rounding explains a difference.
    ``own``: the target's, in its own layout. ``unit``: the unit roundoff of the coarser one.
    """

    pair: Pair
    expected: torch.Tensor
    actual: torch.Tensor
    own: Array
    unit: float


def began_apart(mapping: Mapping, module: torch.nn.Module, layer: paddle.nn.Layer, *, covered: bool = False) -> list[ApartBuffer]:
    """The buffers whose values, as both constructors made them, are further apart than tables round.

    ``covered``: those alone that a transfer of weights has given other values since.
    """
    layers, now, before = dict(module.named_modules()), tensors_of(layer), made_before(layer)
    if covered:
        before = {
            name: made for name, made in before.items() if name in now and not np.array_equal(as_array(made), as_array(now[name]))
        }
    tensors = {"torch": tensors_of(module), "paddle": before if covered else {**now, **before}}
    apart = []
    for pair in mapping:
        if not _is_computed(pair, layers) or not all(pair.name(side) in tensors[side] for side in tensors):
            continue
        made = {side: as_array(tensors[side][pair.name(side)]) for side in tensors}
        expected, actual = (pair.in_common(side, array) for side, array in made.items())
        if expected is None or actual is None or expected.shape != actual.shape:
            continue
        dtypes = [TORCH_DTYPES[slot.weight.dtype] for slot in (pair.torch_slot, pair.paddle_slot) if slot.weight]
        unit = max(torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0 for dtype in dtypes)
        unit = max(unit, UNIT) if unit else 0.0
        table = _tensor(expected)
        other = with_rounding_of(table, _tensor(actual), unit)
        if not torch.equal(table.to(other.dtype).nan_to_num(), other.nan_to_num()):
            apart.append(ApartBuffer(pair, table, other, made[mapping.dst], unit))
    return apart


def _is_computed(pair: Pair, layers: dict[str, torch.nn.Module]) -> bool:
    """Whether the code may have computed a pair's values: neither a training, nor a layer whose statistics it brings along.

    A parameter that is not trained is a table where its layer trains others; else it belongs to a model that is frozen.
    """
    weights = [slot.weight for slot in (pair.torch_slot, pair.paddle_slot)]
    owner = layers.get(pair.torch.rpartition(".")[0])
    if owner is None or any(weight is None or (weight.trainable and not weight.buffer) for weight in weights):
        return False
    if hasattr(owner, "running_mean") or type(owner).__module__.startswith("torch."):
        return False
    return any(weight is not None and weight.buffer for weight in weights) or any(
        parameter.requires_grad for parameter in owner.parameters()
    )


def judge_buffers(proof: Proof, apart: Sequence[ApartBuffer], original: TorchSide, port: PaddleSide, mapping: Mapping) -> None:
    """Add a finding for each line that registers other values, if the outputs are others with them; else a note."""
    effect = _effect(apart, port if mapping.dst == "paddle" else original)
    if effect == 0.0:
        names = listed([buffer.pair.paddle for buffer in apart])
        proof.notes.append(tr("buffers began apart, which no output shows: {names}", names=names))
        return
    mistakes = merged(_mistakes(apart, [original.layers, port.layers], effect))
    proof.stages.append(Stage("buffers", False, mistakes[0].text))
    proof.mistakes += mistakes
    if proof.verdict:
        place = mistakes[0].paddle
        where = joined("", (" at ", at_line(place.file, place.line))) if place else ""
        proof.verdict, proof.reason = ProofVerdict.BUFFER_DIFFERS, joined("", (mistakes[0].sentence(), where))
    proof.notes.append(
        tr(
            "for the proof both had the same values in {names}. If it is no code that makes them, but a checkpoint that brings "
            'them along, weights="...{suffix}" takes them for granted',
            names=listed([buffer.pair.paddle for buffer in apart]),
            suffix=WITH_BUFFERS,
        )
    )


def _effect(apart: Sequence[ApartBuffer], side: ModelSide) -> float | None:
    """How far outputs move with values of its own in the model that was given the other's; None: it does not run alike."""
    named = [(buffer.pair.name(side.framework), buffer.own, buffer.unit) for buffer in apart]

    def with_own() -> RunOutcome:
        tensors = tensors_of(side.model)
        own = {
            name: with_rounding_of(_tensor(copied(tensors[name])), _tensor(values), unit).numpy() for name, values, unit in named
        }
        with holding(side, own):
            return side.run_forward()

    before, after = attempted(side.run_forward), attempted(with_own)
    if before is None or after is None or agreement.shapes_differ(before, after):
        return None
    return agreement.largest_of_rows(agreement.outputs(before, after))


def _mistakes(
    apart: Sequence[ApartBuffer], layers: Sequence[dict[str, Model]], effect: float | None
) -> Iterator[tuple[Hashable, Mistake]]:
    """One for each buffer, with its line."""
    for pair, expected, actual, *_ in apart:
        operands = [TraceOperand(pair.paddle, Value(tensor), tensor, ()) for tensor in (expected, actual)]
        original, port = place_of_buffer(layers[0], pair.torch), place_of_buffer(layers[1], pair.paddle)
        drawn = all(place is not None and _DRAWS.search(place.source) for place in (original, port))
        text = tr("{name} is drawn at random on both sides", name=pair.paddle) if drawn else values_differ(*operands)[1]
        mistake = Mistake(Cause.BUFFER, text, original, port, (pair.paddle.rpartition(".")[0],), effect=effect)
        yield ((port.file, port.line) if port else pair.paddle), mistake


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(array.copy())


# ---- Zeros hide what is done with them: an added bias, a factor, a choice. Zeros behind zeros hide gradients, too. So do weights
# near zero, as some models begin: rounding takes what they add, and a softmax of what they give is uniform.

_NEAR_ZERO = 2.0**-12  # in float32 rounding takes what a product of two such numbers is added to 1


def without_effect(mapping: Mapping, original: TorchSide, port: PaddleSide, *, back: bool) -> list[Pair]:
    """The pairs that hold nothing but zeros on both sides and have no gradient that shows what is done with them, or are near zero.

    ``back``: weights have one; not where a gradient stops, as at a branch whose last layer begins with zeros.
    """
    tensors = {side.framework: tensors_of(side.model) for side in (original, port)}
    pairs = []
    for pair in mapping:
        weights = [tensors[side].get(pair.name(side)) for side in tensors]
        slots = [pair.torch_slot.weight, pair.paddle_slot.weight]
        trained = back and all(slot is not None and slot.trainable and not slot.buffer for slot in slots)
        if not pair.is_exact or any(weight is None for weight in weights):
            continue
        arrays = [as_array(weight) for weight in weights]
        if all(array.dtype.kind == "f" and array.size for array in arrays):
            largest = max(float(np.abs(array).max()) for array in arrays)
            if 0.0 < largest < _NEAR_ZERO or (largest == 0.0 and not trained):
                pairs.append(pair)
    return pairs


def hide_something(pairs: Sequence[Pair], mapping: Mapping, original: TorchSide, port: PaddleSide) -> bool | None:
    """Whether both give other bits with numbers in these pairs; None where the original does not run so."""

    def original_filled() -> RunOutcome:
        fill(pairs, mapping, original, port)
        return original.run_forward()

    try:
        with held_before(pairs, original, port):
            expected, actual = attempted(original_filled), attempted(port.run_forward)
    finally:
        port.forget_copies()
    if expected is None or actual is None:
        return None if expected is None else True
    return bool(agreement.shapes_differ(expected, actual) or agreement.outputs_differ(expected, actual, lambda _: True))
