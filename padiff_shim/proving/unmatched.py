"""Weights that have no partner: which of them a proof can do without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..text import listed
from ..weights.mapping import Mapping
from ..weights.tree import Weight
from . import outcomes
from .arrays import Array, same_bits
from .outcome import Outcome
from .sides import Side
from .values import as_array


def unmatched(theirs: Side, ours: Side, mapping: Mapping, *, trains: bool) -> tuple[list[str], list[Weight]]:
    """What is to be said of the weights without partner that a proof can do without, and those that it cannot.

    It can do without what nobody trains (buffers, masks, tables: each side keeps its own, and if they have an effect the outputs
    tell), and without what no output depends on that is compared: layers that are not called, a pooler that the other side lacks.
    Where nothing is trained (``trains``), also without what the port has too much, and what has no effect as it is: a norm's
    scale of ones, a layer's bias of zeros.
    """
    notes, needed = [], []
    sides = {side.framework: side for side in (theirs, ours)}
    for framework, weights in zip((mapping.src, mapping.dst), mapping.left):
        constants = [weight for weight in weights if weight.buffer or not weight.trainable]
        trained = [weight for weight in weights if weight not in constants]
        used = _used(sides[framework], sides["paddle" if framework == "torch" else "torch"], trained)
        unused = [weight for weight in trained if weight not in used]
        surplus = used if framework == "paddle" and not trains else []  # what the port lacks, or trains, is a mistake
        neutral = [weight for weight in surplus if _has_no_effect(weight, sides[framework])]
        needed += [weight for weight in used if weight not in neutral]
        if constants:
            notes.append(f"{_listed(framework, constants)}: without partner, and not trained; each side keeps its own")
        if neutral:
            notes.append(f"{_listed(framework, neutral)}: without partner, and {WITHOUT_EFFECT}")
        if unused:
            notes.append(f"{_listed(framework, unused)}: without partner, and nothing that is compared depends on it")
    return notes, needed


WITHOUT_EFFECT = "without effect as ones and zeros; a training changes them: write weight_attr=False, bias_attr=False"


def _has_no_effect(weight: Weight, side: Side) -> bool:
    return is_neutral(weight.name, side.layers.get(weight.name.rpartition(".")[0]), as_array(side.parameters()[weight.name]))


def is_neutral(name: str, layer: Any, values: Array) -> bool:
    """Whether a weight of a layer of Paddle's own is a bias of zeros, or a norm's scale of ones: what it computes without it.

    Args:
        name: the weight's, with or without the path of its layer.
        layer: that holds it.
        values: its own.
    """
    if not type(layer).__module__.startswith("paddle.nn."):
        return False
    role, kind = name.rpartition(".")[2], type(layer).__name__.lower().rstrip("123d")
    if role == "bias":
        return not values.any()
    return role in ("weight", "scale") and kind.endswith("norm") and bool((values == 1).all())


def _listed(framework: str, weights: Sequence[Weight]) -> str:
    return f"{framework} {listed([f'{weight.name} {list(weight.shape)}' for weight in weights])}"


def _used(side: Side, other: Side, weights: Sequence[Weight]) -> list[Weight]:
    """Those on which an output depends that both sides have."""
    if not weights:
        return []
    before, beside = side.run_forward(), other.run_forward()
    pair = (before, beside) if side.framework == "torch" else (beside, before)
    common = {id(array) for row in outcomes.outputs(*pair) for array in row[1:]}
    compared = [path for path, array in before.outputs.items() if id(array) in common]
    if not _changes(side, weights, before, compared):
        return []
    return [weight for weight in weights if _changes(side, [weight], before, compared)]


def _changes(side: Side, weights: Sequence[Weight], before: Outcome, compared: Sequence[str]) -> bool:
    """Whether outputs are other ones when these weights are."""
    parameters = side.parameters()
    generator = np.random.default_rng(0)
    held: list[tuple[object, Array]] = []
    try:
        for weight in weights:
            parameter = parameters.get(weight.name)
            if parameter is None:
                return True  # nothing is known of it
            values = as_array(parameter).copy()
            if values.dtype.kind != "f":
                return True
            held.append((parameter, values))
            noise = generator.standard_normal(values.shape).astype(values.dtype)
            side.fill(parameter, values + noise)
        after = side.run_forward()
    except Exception:  # a model that does not run with other weights needs these
        return True
    finally:
        for parameter, values in held:
            side.fill(parameter, values)
    return any(path not in after.outputs or not same_bits(before.outputs[path], after.outputs[path]) for path in compared)
