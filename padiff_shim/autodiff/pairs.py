"""Which weights and layers of two models belong together, and copying the weights.

Between the frameworks :func:`padiff_shim.weights.match` answers that. Two models of one framework need no layout and no search:
PaDiff pairs their weights by name if the names are the same, and by position otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import TransferError
from ..proof.preconditions import is_neutral, without_effect
from ..text import joined, tr
from ..trees import as_array
from ..weights.mapping import Mapping, Pair
from ..weights.pairing import undecided
from ..weights.reading import read_both
from ..weights.transfer import match, transfer
from ..weights.tree import WeightSide, parent
from .models import LayerMap, Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class WeightPair:
    """A weight of the base model and its partner, by name, and the functions that bring arrays of both into one layout."""

    base: str
    raw: str
    lay_base: Callable[[Array], Array]
    lay_raw: Callable[[Array], Array]
    buffer: bool = False


@dataclass
class Pairing:
    """The paired weights and layers of two models.

    Args:
        weights: the pairs of weights.
        layers: paths of the base model's layers -> those of the raw model's.
        lonely: weights without partner, each behind its model's name.
        pins: layers that the caller mapped, Torch's paths -> Paddle's; empty between models of one framework.
        notes: what the caller has to do, or to know.
        mapping, sides: between the frameworks, the match and the two models that it was made for.
    """

    weights: list[WeightPair]
    layers: dict[str, str]
    lonely: list[str] = field(default_factory=list)
    pins: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mapping: Mapping | None = None
    sides: tuple[WeightSide, ...] = ()

    def leave_out(self, names: Iterable[str]) -> None:
        """Do not copy these weights, which may lack a partner."""
        if self.mapping is not None:
            out = set(names)
            self.mapping.pairs = [pair for pair in self.mapping.pairs if out.isdisjoint((pair.torch, pair.paddle))]
            for weights in self.mapping.left:
                weights[:] = [weight for weight in weights if weight.name not in out]


def pair(base: Model, raw: Model, layer_map: LayerMap) -> Pairing:
    """Pair the weights and layers of two models, except those that the caller ignores, or copies with a function of his own."""
    ignored = [layer_map.ignored(model) for model in (base, raw)]
    paths = layer_map.paths(base, raw)
    special = [both[:2] for both in layer_map.special(base, raw)]
    out = [
        {
            name
            for name in model.model.state_dict()  # tied weights under each of their names
            if parent(name) in ignored[side] or name.startswith(tuple(f"{both[side]}." for both in special))
        }
        for side, model in enumerate((base, raw))
    ]
    pairing = _alike(base, raw, out) if base.framework == raw.framework else _across(base, raw, paths, out[0] | out[1])
    below = [tuple(f"{both[side]}." for both in paths) for side in (0, 1)]
    pairing.layers = {
        path: partner
        for path, partner in pairing.layers.items()
        if path not in ignored[0]
        and partner not in ignored[1]
        and not path.startswith(below[0])
        and not partner.startswith(below[1])
    }
    pairing.layers.update(paths if all("*" not in path for both in paths for path in both) else ())
    for model, inside in zip((base, raw), below):
        prefixes = tuple(f"{model.name} {path}" for path in inside)
        by_hand = [name for name in pairing.lonely if prefixes and name.startswith(prefixes)]
        if by_hand:
            pairing.notes.append(
                tr("set these weights of mapped layers yourself, or see add_special_init: {by_hand}", by_hand=", ".join(by_hand))
            )
            pairing.lonely = [name for name in pairing.lonely if name not in by_hand]
            pairing.leave_out(name.partition(" ")[2] for name in by_hand)
    return pairing


def _across(base: Model, raw: Model, paths: list[tuple[str, str]], out: set[str]) -> Pairing:
    """A Torch model and a Paddle model: :func:`padiff_shim.weights.match`."""
    torch_first = base.framework == "torch"
    sides = read_both(base.model, raw.model)
    rules = [(name, None) for side in sides for name in side.weights if name in out]
    pins = dict(paths if torch_first else (both[::-1] for both in paths))
    pins = {path: partner for path, partner in pins.items() if not _is_left_out(rules, path, partner)}
    mapping = match(*sides, layer_map=pins or None, rules=rules or None)
    weights = []
    for both in mapping:
        if both.torch and both.paddle:
            buffer = any(slot.weight is not None and slot.weight.buffer for slot in (both.torch_slot, both.paddle_slot))
            lay_base, lay_raw = (functools.partial(_laid_out, both, model.framework) for model in (base, raw))
            weights.append(WeightPair(both.name(base.framework), both.name(raw.framework), lay_base, lay_raw, buffer))
    layers = mapping.layers if torch_first else {partner: path for path, partner in mapping.layers.items()}
    notes = [undecided(mapping.undecided)] if mapping.undecided else []
    pairing = Pairing(weights, dict(layers), pins=pins, notes=notes, mapping=mapping, sides=sides)
    for model, names in ((base, mapping.unmatched_src), (raw, mapping.unmatched_dst)):
        neutral = [name for name in names if model.framework == "paddle" and _is_neutral(model, name)]
        notes += (
            [
                tr(
                    "{name} {neutral}: without partner, and {without_effect}",
                    name=model.name,
                    neutral=", ".join(neutral),
                    without_effect=without_effect(neutral),
                )
            ]
            if neutral
            else []
        )
        pairing.lonely += [f"{model.name} {name}" for name in names if name not in neutral]
        pairing.leave_out(neutral)
    return pairing


def _is_neutral(model: Model, name: str) -> bool:
    """Whether a weight of a Paddle model changes nothing with its present values."""
    layer = dict(model.layers).get(parent(name))
    return is_neutral(name, layer, as_array(dict(model.model.named_parameters())[name]))


def _laid_out(pair: Pair, framework: str, array: Array) -> Array:
    values = pair.in_common(framework, array)
    assert values is not None
    return values


def _is_left_out(rules: list[tuple[str, None]], *paths: str) -> bool:
    """Whether a rule leaves out one of these weights, or a weight of one of these layers."""
    return any(f"{name}.".startswith(f"{path}.") for name, _ in rules for path in paths)


def _alike(base: Model, raw: Model, out: list[set[str]]) -> Pairing:
    """Two models of one framework: by names if they are the same, else in order of construction, if the shapes are equal."""
    base_tensors, raw_tensors = (
        {name: tensor for name, tensor in _tensors(model).items() if name not in names} for model, names in zip((base, raw), out)
    )
    names = (
        [(name, name) for name in base_tensors] if set(base_tensors) == set(raw_tensors) else list(zip(base_tensors, raw_tensors))
    )
    pairs = [both for both in names if list(base_tensors[both[0]].shape) == list(raw_tensors[both[1]].shape)]
    weights = [WeightPair(*both, np.asarray, np.asarray, _is_buffer(base_tensors[both[0]])) for both in pairs]
    lonely = [
        f"{model.name} {name}"
        for side, (model, tensors) in enumerate(((base, base_tensors), (raw, raw_tensors)))
        for name in tensors
        if all(name != both[side] for both in pairs)
    ]
    base_paths, raw_paths = ([path for path, _ in model.layers] for model in (base, raw))
    if set(base_paths) == set(raw_paths):
        return Pairing(weights, dict(zip(base_paths, base_paths)), lonely)
    return Pairing(weights, {"": "", **{parent(name): parent(partner) for name, partner in pairs}}, lonely)


def _is_buffer(tensor: Any) -> bool:
    """Whether a tensor of a model is no trained parameter."""
    return bool(tensor.stop_gradient) if isinstance(tensor, paddle.Tensor) else not isinstance(tensor, torch.nn.Parameter)


def _tensors(model: Model) -> dict[str, Any]:
    """Parameters and buffers by name, each tensor once."""
    tensors: dict[int, tuple[str, Any]] = {}
    for name, tensor in [*model.model.named_parameters(), *model.model.named_buffers()]:
        tensors.setdefault(id(tensor), (name, tensor))
    return dict(tensors.values())


def assign(base: Model, raw: Model, layer_map: LayerMap) -> Pairing:
    """Copy the base model's weights into the raw model: all of them, or none.

    Raises:
        TransferError: a weight has no partner.
    """
    pairing = pair(base, raw, layer_map)
    if pairing.mapping is not None:
        transfer(pairing.mapping, *pairing.sides)
    elif pairing.lonely:
        raise TransferError(tr("weights without partner; nothing was written: {lonely}", lonely=joined(", ", pairing.lonely[:8])))
    else:
        _copy(_tensors(base), _tensors(raw), pairing.weights)
    for _, _, copy in layer_map.special(base, raw):
        copy()
    return pairing


def _copy(base_tensors: dict[str, Any], raw_tensors: dict[str, Any], pairs: list[WeightPair]) -> None:
    for pair in pairs:
        target, source = raw_tensors[pair.raw], base_tensors[pair.base]
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
    """Copies of the gradients of a model's weights as arrays; None for a weight without gradient."""
    parameters = _parameters(model)
    tensors = {name: getattr(parameters.get(name), "grad", None) for name in names}
    return {name: None if tensor is None else as_array(tensor).copy() for name, tensor in tensors.items()}


def _parameters(model: Model) -> dict[str, Any]:
    """Parameters by all their names, also those of tied ones."""
    if model.framework == "torch":
        return dict(model.model.named_parameters(remove_duplicate=False))
    known = {id(parameter) for parameter in model.parameters()}
    named = {name: tensor for name, tensor in model.model.state_dict().items() if id(tensor) in known}
    return named | dict(model.model.named_parameters())
