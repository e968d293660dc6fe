"""What must hold before the outputs of two models say anything: equal modes, inputs and weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import paddle
import torch

from ..text import listed
from ..weights import choices, explain
from ..weights.mapping import Mapping as Weights
from ..weights.mapping import Pair
from ..weights.transfer import carry
from ..weights.tree import Side as Tree
from . import outcomes
from .adjustments import of_recurrences
from .arrays import apart
from .findings import ProofVerdict, Stage
from .paddle_side import PaddleSide
from .proof import Proof
from .torch_side import TorchSide
from .unmatched import unmatched
from .values import Inputs, as_array, leaves

Trees = tuple[Tree, Tree]


def preconditions(
    original: TorchSide,
    port: PaddleSide,
    inputs: Inputs,
    mapping: Weights,
    trees: Trees,
    weights: str,
    stages: list[Stage],
    *,
    trains: bool = False,
) -> tuple[Proof | None, list[str]]:
    """What must hold before outputs say anything: a proof if it does not, and notes.

    ``trees``: Torch's and Paddle's. ``trains``: whether both are going to be trained.
    """
    if original.model.training != port.model.training:
        words = {True: "training", False: "evaluation"}
        reason = (
            f"the Torch module is in {words[original.model.training]} mode, the Paddle layer in {words[port.model.training]} mode"
        )
        stages.append(Stage("mode", False, reason))
        return Proof(ProofVerdict.NOT_COMPARABLE, reason, stages=stages), []
    different = _inputs_differ(original, port, inputs)
    if different and original.dtype() != port.dtype():
        advice = f'prove(..., dtype="{port.dtype()}") proves both in one'
        different += f"; the port's weights are {port.dtype()}, the original's {original.dtype()}: {advice}"
    stages.append(Stage("inputs", not different, different or "equal on both sides"))
    if different:
        return Proof(ProofVerdict.INPUTS_DIFFER, different, stages=stages), []
    return _weights(original, port, mapping, trees, weights, stages, trains=trains)


def constants(original: torch.nn.Module, port: paddle.nn.Layer, mapping: Weights) -> list[str]:
    """A note on buffers that begin otherwise in the port: what it computes wrongly is covered by values that it is given.

    Masks, indices, frequencies; not the running statistics of norms, which nobody computes before a training.
    """
    written = {
        f"{path}.{name}" if path else name
        for path, layer in original.named_modules()
        if isinstance(layer, torch.nn.modules.batchnorm._NormBase)
        for name, _ in layer.named_buffers(recurse=False)
    }
    mine = {name: as_array(one) for name, one in original.named_buffers() if name not in written}
    yours = {name: as_array(one) for name, one in port.named_buffers() if one._is_initialized()} if mine else {}
    apart = outcomes.constants_apart(mapping, mine, yours)
    if not apart:
        return []
    return [
        f"buffers began apart, and were given the same values for the proof: {listed(apart)}. If the port computes them, look there"
    ]


def _inputs_differ(original: TorchSide, port: PaddleSide, inputs: Inputs) -> str:
    """What is not equal between both sides' inputs; "" if all is."""
    if inputs.equal_in(original.dtype(), port.dtype()):
        return ""
    tensors = [leaves(inputs.of(side.framework, side.dtype(), wide="", device=side._device())) for side in (original, port)]
    if len(tensors[0]) != len(tensors[1]):
        return f"{len(tensors[0])} tensors for Torch, {len(tensors[1])} for Paddle"
    for (path, mine), (_, yours) in zip(*tensors):
        one, other = as_array(mine), as_array(yours)
        if one.shape != other.shape or not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            return f"input {path or '0'}: {apart(one, other)}"
    return ""


def _weights(
    original: TorchSide, port: PaddleSide, mapping: Weights, trees: Trees, weights: str, stages: list[Stage], *, trains: bool
) -> tuple[Proof | None, list[str]]:
    """Equal weights on both sides: a proof if there are none, and what is to be said of them."""
    sides = trees if mapping.src == "torch" else trees[::-1]
    if weights == "as-is":
        notes, refused = _as_they_are(mapping, sides), ""
    else:
        notes, refused = _incomplete(original, port, mapping, sides, trains=trains)
    for side in (original, port):
        side.rewind()
    verdict = ProofVerdict.NOT_COMPARABLE
    if not refused and weights == "as-is":
        unequal = mapping.check(original.model, port.model).differences
        constants = [difference for difference in unequal if _is_constant(difference.pair)]
        notes += [f"constants that are not the same on both sides, and stay so: {listed(constants, 3, '; ')}"] if constants else []
        refused = listed([difference for difference in unequal if difference not in constants], 3, "; ")
        verdict = ProofVerdict.WEIGHTS_DIFFER
    if refused:
        stages.append(Stage("weights", False, refused))
        return Proof(verdict, refused, stages=stages), notes
    if weights != "as-is":
        carry(mapping, *sides)
        _carry_wide(original, port, mapping)
    stages.append(Stage("weights", True, f"{len(mapping)} pairs hold equal values ({weights})"))
    return None, notes


def _carry_wide(original: TorchSide, port: PaddleSide, mapping: Weights) -> None:
    """In float64 a rule that computes is to be followed in float64, too: its rounding is neither model's."""
    ruled = replace(mapping, pairs=[pair for pair in mapping if pair.rule is not None and not pair.is_exact])
    if ruled.pairs:
        source, target = (original, port) if mapping.src == "torch" else (port, original)
        target.when_widened = lambda copy: carry(ruled, source.wide_model(), copy)


def _incomplete(original: TorchSide, port: PaddleSide, mapping: Weights, sides: Trees, *, trains: bool) -> tuple[list[str], str]:
    """What is to be said of weights without partner, and why nothing can be compared; "" if it can."""
    notes, needed = unmatched(original, port, mapping, trains=trains) if not mapping else ([], [])
    if needed:
        lines = explain.without_partner(mapping, *sides, [weight.name for weight in needed])
        return [*notes, *of_recurrences(original, port), explain.REMEDY], f"weights without partner: {explain.in_one_line(lines)}"
    return notes, choices.undecided(mapping.undecided)


def _as_they_are(mapping: Weights, sides: Trees) -> list[str]:
    """What is to be said of weights that are not held against each other."""
    lines = [explain.in_one_line(explain.without_partner(mapping, *sides))] if not mapping else []
    return [f"not compared, for they have no partner: {line}" for line in lines]


def _is_constant(pair: Pair) -> bool:
    """Whether a pair holds what the code makes, not a training: masks, tables, frequencies."""
    slots = [slot for slot in (pair.torch_slot, pair.paddle_slot) if slot.weight is not None]
    return all(slot.weight.buffer and not slot.role.startswith("running_") for slot in slots if slot.weight)
