"""``padiff_shim.prove``: whether a port is right, and if not, where."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle
import torch

from ..arguments import one_of
from ..errors import ArgumentError, described
from ..weights.mapping import Mapping as Weights
from ..weights.transfer import match, transfer_weights
from . import outcomes
from .findings import ProofVerdict, Stage, merged
from .locate import Located, locate
from .paddle_side import PaddleSide
from .proof import Proof
from .sides import NotInDouble, duplicate
from .stages import Differing
from .stages import stages as staged
from .torch_side import TorchSide
from .values import Inputs, as_array, leaves

WEIGHTS = ("torch->paddle", "paddle->torch", "as-is", "random")
PHASES = ("forward", "both")


def prove(
    paddle_layer: Any,
    torch_module: Any,
    inputs: Any,
    *,
    weights: str = "torch->paddle",
    phase: str = "both",
    loss: Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None,
    layer_map: Mapping[Any, Any] | None = None,
    seed: int = 0,
) -> Proof:
    """Say whether a Paddle layer computes what a Torch module computes, and if not, where and why.

    Both run with equal weights, the Paddle layer on Torch's own kernels (:func:`padiff_shim.reference`). What is left of a
    difference then cannot come from a kernel: equal bits prove the code, without a tolerance. Where the bits differ, both run once
    more in float64: what is rounding shrinks with the unit roundoff, what is a mistake stays. Mistakes are found one after the
    other: behind each the port goes on with the original's values. The caller's models are not changed.

    Args:
        paddle_layer: the port, a :class:`paddle.nn.Layer`.
        torch_module: the original, a :class:`torch.nn.Module`.
        inputs: an array or tensor of either framework, a tuple or list of positional or a dict of keyword arguments, or a function
            of ``"paddle"`` or ``"torch"`` that returns one of these. Arrays of floats get the model's dtype, tensors keep theirs.
        weights: whose are used for both: ``"torch->paddle"``, ``"paddle->torch"``, ``"random"`` (the Torch module's shapes filled
            with seeded normal numbers of its own spread), or ``"as-is"``: each model keeps its own, and they must agree.
        phase: ``"forward"``, or ``"both"``: outputs and the gradients of all parameters.
        loss: a function of the model's output that returns a scalar, or two of them (Paddle's, Torch's). Without it a backward
            begins with the same fixed random numbers on both sides.
        layer_map: names of Torch layers -> names of Paddle layers, where :func:`padiff_shim.transfer_weights` should be overruled.
        seed: all random generators begin with it in each run, and are put back.

    Returns:
        A :class:`Proof`, true if the code is right.

    Raises:
        ArgumentError: an argument of a kind that is not accepted.
        TransferError: the weights cannot be transferred.

    Errors of the models themselves are raised unchanged.
    """
    start = time.perf_counter()
    _check(paddle_layer, torch_module)
    one_of("weights", weights, WEIGHTS)
    one_of("phase", phase, PHASES)
    losses = _losses(loss)
    given = Inputs(inputs)
    port, original = duplicate(paddle_layer), duplicate(torch_module)
    if weights == "random":
        _fill(original, seed)
    mapping = match(original, port, layer_map=layer_map)
    theirs = TorchSide(original, given, losses[1], seed, backward=phase == "both")
    ours = PaddleSide(port, given, losses[0], seed, backward=phase == "both")
    stages: list[Stage] = []
    proof = _preconditions(theirs, ours, given, mapping, weights, layer_map, stages)
    if proof is None:
        proof = _compared(theirs, ours, mapping, stages)
    proof.stages = stages
    proof.seconds = time.perf_counter() - start
    return proof


def _check(paddle_layer: Any, torch_module: Any) -> None:
    if isinstance(paddle_layer, torch.nn.Module) and isinstance(torch_module, paddle.nn.Layer):
        raise ArgumentError("prove(paddle_layer, torch_module, inputs): the Paddle layer comes first")
    if not isinstance(paddle_layer, paddle.nn.Layer):
        raise ArgumentError(f"paddle_layer= is a paddle.nn.Layer, got {described(paddle_layer)}")
    if not isinstance(torch_module, torch.nn.Module):
        raise ArgumentError(f"torch_module= is a torch.nn.Module, got {described(torch_module)}")


def _losses(loss: Any) -> tuple[Any, Any]:
    if isinstance(loss, tuple) and len(loss) == 2 and all(map(callable, loss)):
        return loss
    if loss is not None and not callable(loss):
        raise ArgumentError(f"loss= is a function of the output, or a pair of them (Paddle's, Torch's), got {described(loss)}")
    return loss, loss


def _fill(module: torch.nn.Module, seed: int) -> None:
    """Normal numbers around each parameter's mean with its spread, where it has one: no two weights may be alike."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel():
                spread = float(parameter.std()) if parameter.numel() > 1 else 0.0
                noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
                parameter.copy_(parameter.mean() + noise * (spread or 0.02))


def _preconditions(
    theirs: TorchSide, ours: PaddleSide, given: Inputs, mapping: Weights, weights: str, layer_map: Any, stages: list[Stage]
) -> Proof | None:
    """What must hold before outputs say anything; a proof if it does not."""
    if theirs.model.training != ours.model.training:
        words = {True: "training", False: "evaluation"}
        reason = (
            f"the Torch module is in {words[theirs.model.training]} mode, the Paddle layer in {words[ours.model.training]} mode"
        )
        stages.append(Stage("mode", False, reason))
        return Proof(ProofVerdict.NOT_COMPARABLE, reason)
    different = _inputs_differ(theirs, ours, given)
    stages.append(Stage("inputs", not different, different or "equal on both sides"))
    if different:
        return Proof(ProofVerdict.INPUTS_DIFFER, different)
    return _weights(theirs, ours, mapping, weights, layer_map, stages)


def _inputs_differ(theirs: TorchSide, ours: PaddleSide, given: Inputs) -> str:
    """What is not equal between both sides' inputs; "" if all is."""
    found = [leaves(given.of(side.framework, side._dtype(), double=False)) for side in (theirs, ours)]
    if len(found[0]) != len(found[1]):
        return f"{len(found[0])} tensors for Torch, {len(found[1])} for Paddle"
    for (path, mine), (_, yours) in zip(*found):
        one, other = as_array(mine), as_array(yours)
        if one.shape != other.shape or not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            return f"input {path or '0'}: {outcomes.apart(one, other)}"
    return ""


def _weights(
    theirs: TorchSide, ours: PaddleSide, mapping: Weights, weights: str, layer_map: Any, stages: list[Stage]
) -> Proof | None:
    left = [
        f"{side} {name}" for side, names in (("torch", mapping.unmatched_src), ("paddle", mapping.unmatched_dst)) for name in names
    ]
    if left:
        reason = f"weights without partner: {', '.join(left[:6])}" + (f" and {len(left) - 6} more" if len(left) > 6 else "")
        stages.append(Stage("weights", False, reason))
        return Proof(ProofVerdict.NOT_COMPARABLE, reason, notes=["layer_map= tells which layers belong together"])
    if weights == "paddle->torch":
        transfer_weights(ours.model, theirs.model, layer_map=_reversed(layer_map))
    elif weights != "as-is":
        transfer_weights(theirs.model, ours.model, layer_map=layer_map)
    else:
        unequal = mapping.check(theirs.model, ours.model).differences
        if unequal:
            reason = "; ".join(map(str, unequal[:3])) + (f"; and {len(unequal) - 3} more" if len(unequal) > 3 else "")
            stages.append(Stage("weights", False, reason))
            return Proof(ProofVerdict.WEIGHTS_DIFFER, reason)
    stages.append(Stage("weights", True, f"{len(mapping)} pairs hold equal values ({weights})"))
    return None


def _reversed(layer_map: Any) -> Any:
    return None if layer_map is None else {value: key for key, value in layer_map.items()}


def _compared(theirs: TorchSide, ours: PaddleSide, mapping: Weights, stages: list[Stage]) -> Proof:
    """Run all, compare all bits; if they differ, find out why."""
    original, port = theirs.run(), ours.run()
    ours.shim = False
    native = ours.run()
    ours.shim = True
    layers = outcomes.layers(mapping, original, port, native)
    differences: dict[str, float | None] = {
        "native": outcomes.worst(mapping, original, native),
        "shim": outcomes.worst(mapping, original, port),
        "float64": None,
    }
    differing = Differing.between(mapping, original, port)
    if not differing:
        stages += staged(differing, original, port)
        reason = f"bit for bit on Torch's kernels (natively {differences['native']:.3g} apart)"
        return Proof(ProofVerdict.CODE_CORRECT, reason, layers=layers, differences=differences)
    try:
        located = locate(theirs, ours, mapping) if differing.first else Located([], True, 0.0)
    except NotInDouble as error:
        reason = f"{differing.first}; whether that is rounding cannot be told, for the models do not run in float64 ({error})"
        return Proof(ProofVerdict.NOT_COMPARABLE, reason, layers=layers, differences=differences)
    differences["float64"] = located.apart
    proof = Proof(ProofVerdict.CODE_DIFFERS, "", layers=layers, differences=differences, complete=located.over)
    proof.notes += ours.remarks
    proof.mistakes = merged(located.differences)
    plain = differing.shapes or differing.missing or located.unexplained
    stages += staged(differing, original, port, located, plain)
    if not proof.mistakes and located.over and not plain:
        proof.verdict = ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
        proof.reason = (
            f"both agree in float64 to {located.apart:.2g}, which is as far as rounding errors travel; at the models' dtype they "
            f"round in another order ({differing.first})"
        )
        return proof
    _explained(proof, located, plain, differing.first)
    return proof


def _explained(proof: Proof, located: Located, plain: str, differing: str) -> None:
    """The reason of a port that is not right; ``plain``: what is wrong without any call being found."""
    proof.reason = plain or differing
    if plain and proof.mistakes:
        proof.notes.append(plain)
    if not located.over:
        proof.notes.append("what differs behind the last mistake could not be told apart: mend these, and prove again")
