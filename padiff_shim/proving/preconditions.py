"""What must hold before the outputs of two models say anything: equal modes, inputs and weights."""

from __future__ import annotations

import numpy as np
import paddle
import torch

from ..weights.mapping import Mapping as Weights
from ..weights.transfer import carry
from ..weights.tree import Side as Tree
from . import outcomes
from .arrays import apart
from .findings import ProofVerdict, Stage
from .paddle_side import PaddleSide
from .proof import Proof
from .torch_side import TorchSide
from .values import Inputs, as_array, leaves

Trees = tuple[Tree, Tree]


def preconditions(
    theirs: TorchSide, ours: PaddleSide, given: Inputs, mapping: Weights, trees: Trees, weights: str, stages: list[Stage]
) -> Proof | None:
    """What must hold before outputs say anything; a proof if it does not. ``trees``: Torch's and Paddle's, of the mapping."""
    if theirs.model.training != ours.model.training:
        words = {True: "training", False: "evaluation"}
        reason = (
            f"the Torch module is in {words[theirs.model.training]} mode, the Paddle layer in {words[ours.model.training]} mode"
        )
        stages.append(Stage("mode", False, reason))
        return Proof(ProofVerdict.NOT_COMPARABLE, reason, stages=stages)
    different = _inputs_differ(theirs, ours, given)
    stages.append(Stage("inputs", not different, different or "equal on both sides"))
    if different:
        return Proof(ProofVerdict.INPUTS_DIFFER, different, stages=stages)
    return _weights(theirs, ours, mapping, trees, weights, stages)


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
    names = ", ".join(apart[:4]) + (f" and {len(apart) - 4} more" if len(apart) > 4 else "")
    return [f"buffers began apart, and were given the same values for the proof: {names}. If the port computes them, look there"]


def _inputs_differ(theirs: TorchSide, ours: PaddleSide, given: Inputs) -> str:
    """What is not equal between both sides' inputs; "" if all is."""
    if given.equal_in(theirs._dtype(), ours._dtype()):
        return ""
    found = [leaves(given.of(side.framework, side._dtype(), double=False)) for side in (theirs, ours)]
    if len(found[0]) != len(found[1]):
        return f"{len(found[0])} tensors for Torch, {len(found[1])} for Paddle"
    for (path, mine), (_, yours) in zip(*found):
        one, other = as_array(mine), as_array(yours)
        if one.shape != other.shape or not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            return f"input {path or '0'}: {apart(one, other)}"
    return ""


def _weights(
    theirs: TorchSide, ours: PaddleSide, mapping: Weights, trees: Trees, weights: str, stages: list[Stage]
) -> Proof | None:
    left = [
        f"{side} {name}" for side, names in (("torch", mapping.unmatched_src), ("paddle", mapping.unmatched_dst)) for name in names
    ]
    if left:
        reason = f"weights without partner: {', '.join(left[:6])}" + (f" and {len(left) - 6} more" if len(left) > 6 else "")
        stages.append(Stage("weights", False, reason))
        return Proof(ProofVerdict.NOT_COMPARABLE, reason, stages=stages, notes=["layer_map= tells which layers belong together"])
    if weights == "paddle->torch":
        carry(mapping, trees[1], trees[0])
    elif weights != "as-is":
        carry(mapping, *trees)
    else:
        unequal = mapping.check(theirs.model, ours.model).differences
        if unequal:
            reason = "; ".join(map(str, unequal[:3])) + (f"; and {len(unequal) - 3} more" if len(unequal) > 3 else "")
            stages.append(Stage("weights", False, reason))
            return Proof(ProofVerdict.WEIGHTS_DIFFER, reason, stages=stages)
    stages.append(Stage("weights", True, f"{len(mapping)} pairs hold equal values ({weights})"))
    return None
