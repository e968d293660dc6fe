"""Which weights and layers of the two models belong together, whatever their frameworks, and taking the weights over."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import TransferError
from ..proving.unmatched import WITHOUT_EFFECT, is_neutral
from ..proving.values import as_array
from ..weights.choices import undecided
from ..weights.mapping import Mapping, Pair
from ..weights.transfer import match, transfer_weights
from .layer_map import LayerMap
from .models import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class WeightPair:
    """A weight of either model, by name, and how arrays of their values are laid out alike."""

    base: str
    raw: str
    lay_base: Callable[[Array], Array]
    lay_raw: Callable[[Array], Array]
    buffer: bool = False


@dataclass
class Pairing:
    """What belongs together.

    Args:
        weights: pairs of weights that are looked at.
        layers: paths of the base model's layers -> the raw model's, those that are looked at.
        lonely: weights without partner, each with its model's name.
        pins: layers that the caller mapped, Torch's names -> Paddle's; empty between models of one framework.
        rules: names of weights that are left out, for :func:`padiff_shim.transfer_weights`.
        notes: what was left to the caller.
    """

    weights: list[WeightPair]
    layers: dict[str, str]
    lonely: list[str] = field(default_factory=list)
    pins: dict[str, str] = field(default_factory=dict)
    rules: list[tuple[str, None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def pair(base: Model, raw: Model, layer_map: LayerMap) -> Pairing:
    """What belongs together in two models, without what the caller leaves out, or whose weights he copies himself."""
    ignored = [layer_map.ignored(model) for model in (base, raw)]
    paths = layer_map.paths(base, raw)
    special = [pair_[:2] for pair_ in layer_map.special(base, raw)]
    by_hand = [tuple(f"{both[side]}." for both in special) for side in (0, 1)]
    out = [
        {name for name in _names(model) if name.rpartition(".")[0] in gone or name.startswith(hand)}
        for model, gone, hand in zip((base, raw), ignored, by_hand)
    ]
    found = _alike(base, raw, out) if base.framework == raw.framework else _across(base, raw, paths, out[0] | out[1])
    below = [tuple(f"{both[side]}." for both in paths) for side in (0, 1)]
    found.layers = {
        one: other
        for one, other in found.layers.items()
        if one not in ignored[0] and other not in ignored[1] and not one.startswith(below[0]) and not other.startswith(below[1])
    }
    found.layers.update(paths if all("*" not in path for both in paths for path in both) else ())
    for model, inside in zip((base, raw), below):
        yours = [name for name in found.lonely if name.startswith(tuple(f"{model.name} {path}" for path in inside) or ("\0",))]
        if yours:
            found.notes.append(f"set these weights of mapped layers yourself, or see add_special_init: {', '.join(yours)}")
            found.lonely = [name for name in found.lonely if name not in yours]
            found.rules += [(name.partition(" ")[2], None) for name in yours]
    return found


def _names(model: Model) -> list[str]:
    """Names of all weights, tied ones under each of their names."""
    return list(model.model.state_dict())


def _across(base: Model, raw: Model, paths: list[tuple[str, str]], out: set[str]) -> Pairing:
    """A Torch model and a Paddle model: :func:`padiff_shim.weights.match`."""
    torch_first = base.framework == "torch"
    pins = {one if torch_first else other: other if torch_first else one for one, other in paths}
    mapping = match(base.model, raw.model, layer_map=pins or None)
    rules: list[tuple[str, None]] = [(name, None) for name in _known(mapping) if name in out]
    if rules:
        kept = {mine: yours for mine, yours in pins.items() if not _within(rules, mine, yours)}
        mapping = match(base.model, raw.model, layer_map=kept or None, rules=rules)
        pins = kept
    weights = []
    for both in mapping:
        if both.torch and both.paddle:
            buffer = any(slot.weight is not None and slot.weight.buffer for slot in (both.torch_slot, both.paddle_slot))
            ends = [both.name(model.framework) for model in (base, raw)]
            ways = [functools.partial(_laid_out, both, model.framework) for model in (base, raw)]
            weights.append(WeightPair(ends[0], ends[1], ways[0], ways[1], buffer))
    layers = mapping.layers if torch_first else {other: one for one, other in mapping.layers.items()}
    notes = [undecided(mapping.undecided)] if mapping.undecided else []
    lonely = []
    for model, names in ((base, mapping.unmatched_src), (raw, mapping.unmatched_dst)):
        neutral = [name for name in names if model.framework == "paddle" and _is_neutral(model, name)]
        notes += [f"{model.name} {', '.join(neutral)}: without partner, and {WITHOUT_EFFECT}"] if neutral else []
        rules += [(name, None) for name in neutral]
        lonely += [f"{model.name} {name}" for name in names if name not in neutral]
    return Pairing(weights, dict(layers), lonely, pins, rules, notes)


def _is_neutral(model: Model, name: str) -> bool:
    """Whether a weight of a Paddle model changes nothing as it is."""
    layer = dict(model.layers).get(name.rpartition(".")[0])
    return is_neutral(name, layer, as_array(dict(model.model.named_parameters())[name]))


def _laid_out(pair: Pair, framework: str, array: Array) -> Array:
    values = pair.in_common(framework, array)
    assert values is not None
    return values


def _known(mapping: Mapping) -> list[str]:
    names = [*(pair.torch for pair in mapping), *(pair.paddle for pair in mapping), *mapping.unmatched_src, *mapping.unmatched_dst]
    return list(dict.fromkeys(filter(None, names)))


def _within(rules: list[tuple[str, None]], *paths: str) -> bool:
    """Whether all that is left to map of a layer is left out."""
    return any(name.startswith(f"{path}.") for name, _ in rules for path in paths)


def _alike(base: Model, raw: Model, out: list[set[str]]) -> Pairing:
    """Two models of one framework: by names if they are the same, else by shapes in order of construction."""
    ours, theirs = (
        {name: one for name, one in _weights(model).items() if name not in gone} for model, gone in zip((base, raw), out)
    )
    names = [(name, name) for name in ours] if set(ours) == set(theirs) else list(zip(ours, theirs))
    fit = [(one, other) for one, other in names if list(ours[one].shape) == list(theirs[other].shape)]
    weights = [WeightPair(one, other, np.asarray, np.asarray, _is_buffer(ours[one])) for one, other in fit]
    paired = {one for one, _ in fit}, {other for _, other in fit}
    lonely = [f"{base.name} {name}" for name in ours if name not in paired[0]]
    lonely += [f"{raw.name} {name}" for name in theirs if name not in paired[1]]
    layers = [[path for path, _ in model.layers] for model in (base, raw)]
    if set(layers[0]) == set(layers[1]):
        return Pairing(weights, dict(zip(layers[0], layers[0])), lonely)
    owners = {one.rpartition(".")[0]: other.rpartition(".")[0] for one, other in fit}
    return Pairing(weights, {"": "", **owners}, lonely)


def _is_buffer(tensor: Any) -> bool:
    """Whether a tensor of a model is no parameter that is trained."""
    return tensor.stop_gradient if isinstance(tensor, paddle.Tensor) else not isinstance(tensor, torch.nn.Parameter)


def _weights(model: Model) -> dict[str, Any]:
    """Parameters and buffers by name, each once."""
    found: dict[int, tuple[str, Any]] = {}
    for name, tensor in [*model.model.named_parameters(), *model.model.named_buffers()]:
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def assign(base: Model, raw: Model, layer_map: LayerMap) -> Pairing:
    """Take the base model's weights over into the raw model: all of them, or none.

    Raises:
        TransferError: a weight has no partner.
    """
    pairing = pair(base, raw, layer_map)
    if base.framework != raw.framework:
        transfer_weights(base.model, raw.model, layer_map=pairing.pins or None, rules=pairing.rules or None)
    elif pairing.lonely:
        raise TransferError(f"weights without partner; nothing was written: {', '.join(pairing.lonely[:8])}")
    else:
        _copy(_weights(base), _weights(raw), pairing.weights)
    for _, _, copy in layer_map.special(base, raw):
        copy()
    return pairing


def _copy(ours: dict[str, Any], theirs: dict[str, Any], pairs: list[WeightPair]) -> None:
    for one in pairs:
        target, source = theirs[one.raw], ours[one.base]
        if isinstance(target, torch.Tensor):
            with torch.no_grad():
                target.copy_(source)
        else:
            target.set_value(source.detach())


def values(model: Model, names: Iterable[str]) -> dict[str, Array]:
    """Copies of a model's weights as arrays, by names of its state dict or of its parameters."""
    tensors = {**model.model.state_dict(), **dict(model.model.named_buffers()), **dict(model.model.named_parameters())}
    return {name: as_array(tensors[name]).copy() for name in names if name in tensors}


def gradients(model: Model, names: Iterable[str]) -> dict[str, Array | None]:
    """Copies of the gradients of a model's weights as arrays; None where there is none."""
    parameters = _parameters(model)
    found = {name: getattr(parameters.get(name), "grad", None) for name in names}
    return {name: None if one is None else as_array(one).copy() for name, one in found.items()}


def _parameters(model: Model) -> dict[str, Any]:
    """Parameters by all their names, those of tied ones included."""
    known = {id(one): one for one in model.parameters()}
    if model.framework == "torch":
        return dict(model.model.named_parameters(remove_duplicate=False))
    return {name: one for name, one in model.model.state_dict().items() if id(one) in known} | dict(model.model.named_parameters())
