"""What a caller hands over as a model: marked layers, layers that stand for each other, weights."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
import paddle
import torch

from ..arguments import one_of
from ..errors import ArgumentError, TransferError, described
from ..proof.preconditions import WITHOUT_EFFECT, is_neutral
from ..trees import as_array
from ..weights.mapping import Mapping as WeightMapping
from ..weights.mapping import Pair
from ..weights.pairing import undecided
from ..weights.transfer import match, transfer_weights

# ---- The lines that a call prints, with PaDiff's mark.


def log(text: str) -> None:
    """Print lines, the first of them marked."""
    print(f"[AutoDiff] {text}")


def told(found: Any) -> str:
    """A difference in one sentence."""
    return (
        f"Diff found in {found.stage.title()} Stage, step {found.step}, at {found.base.route} vs {found.raw.route}: {found.text}."
    )


# ---- What a caller hands over as a model, with the layers that he marked.

PLACES = ("self", "sublayers", "all")


class Model:
    """A model with a name and marks, as ``create_model`` makes it. :attr:`model` is the caller's own object.

    Marks are objects of the model's layers. A layer in the black list is not looked at; if there is a white list, no others are.
    ``mode``: the layers themselves (``"self"``), what is below them (``"sublayers"``), or ``"all"`` of it.
    """

    def __init__(self, model: Any, name: str | None = None) -> None:
        if not isinstance(model, (paddle.nn.Layer, torch.nn.Module)):
            raise ArgumentError(f"a model is a paddle.nn.Layer or a torch.nn.Module, got {described(model)}")
        self.model = model
        self.name = name or type(model).__name__
        self.framework = "torch" if isinstance(model, torch.nn.Module) else "paddle"
        self.mapped: list[Any] = []
        self.wants_auto_map = False
        self._black: set[int] = set()
        self._white: set[int] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Model({self.framework}::{self.name})"

    @property
    def tensor(self) -> type:
        """The framework's class of tensors."""
        return torch.Tensor if self.framework == "torch" else paddle.Tensor

    @property
    def layers(self) -> list[tuple[str, Any]]:
        """(dotted path, layer) of the model ("") and everything below it."""
        if self.framework == "torch":
            return list(self.model.named_modules())
        return [("", self.model), *self.model.named_sublayers()]

    def backward(self, loss: Any) -> None:
        """``loss.backward()``."""
        loss.backward()

    def parameters(self, recursively: bool = True) -> list[Any]:
        """The framework's own parameters, of the layers below as well."""
        if self.framework == "torch":
            return list(self.model.parameters(recurse=recursively))
        return list(self.model.parameters(include_sublayers=recursively))

    def set_layer_map(self, layers: Iterable[Any]) -> None:
        """Layers that stand for those of the other model's list, place by place; what is below them is not compared.

        Raises:
            ArgumentError: something else than layers of this model.
        """
        self.mapped = self._own(layers)

    def auto_layer_map(self, place: str) -> None:
        """Find the layers that both frameworks build otherwise (attention, recurrent ones, normalization) and map them.

        Args:
            place: ``"base"`` or ``"raw"``, as PaDiff asks; the place in the call decides.
        """
        one_of("place", place, ("base", "raw"))
        self.wants_auto_map = True

    def update_black_list(self, layers: Iterable[Any], mode: str = "all") -> None:
        """Leave these layers out."""
        self._black |= self._reached(self._own(layers), mode)

    def update_white_list(self, layers: Iterable[Any], mode: str = "self") -> None:
        """Look at these layers only."""
        self._white |= self._reached(self._own(layers), mode)

    def update_black_list_with_class(self, layer_class: type, mode: str = "self") -> None:
        """Leave the layers of a class out."""
        self.update_black_list([layer for _, layer in self.layers if isinstance(layer, layer_class)], mode)

    def update_white_list_with_class(self, layer_class: type, mode: str = "self") -> None:
        """Look at the layers of a class only."""
        self.update_white_list([layer for _, layer in self.layers if isinstance(layer, layer_class)], mode)

    def left_out(self) -> set[str]:
        """Paths of the layers that the lists leave out; a white list overrules a black one."""
        if self._white:
            return {path for path, layer in self.layers if path and id(layer) not in self._white}
        return {path for path, layer in self.layers if path and id(layer) in self._black}

    def _own(self, layers: Iterable[Any]) -> list[Any]:
        listed = list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
        known = {id(layer) for _, layer in self.layers}
        for layer in listed:
            if id(layer) not in known:
                raise ArgumentError(f"{self.name} has no such layer: {described(layer)} (layers are given as objects)")
        return listed

    def _reached(self, layers: list[Any], mode: str) -> set[int]:
        one_of("mode", mode, PLACES)
        found: set[int] = set()
        for layer in layers:
            below = {id(one) for _, one in Model(layer).layers} - {id(layer)}
            found |= below if mode != "self" else set()
            found |= {id(layer)} if mode != "sublayers" else set()
        return found


def create_model(model: Any, name: str | None = None) -> Model:
    """A handle that holds a model and the marks on its layers; one that is such a handle already is given back.

    Raises:
        ArgumentError: no model of Paddle's or Torch's.
    """
    return model if isinstance(model, Model) else Model(model, name)


# ---- Which layers stand for each other, and which are left out, by the caller's word.

Key = tuple[str, str, str, str]  # framework and class of the layer that is copied from, and of the one that is written
_written: dict[Key, Callable[[Any, Any], Any]] = {}  # how a caller copies the weights of two classes
# Layers that both frameworks build otherwise; their weights are known to transfer_weights.
_BUILT_OTHERWISE = (
    ("LSTM", "LSTM"), ("GRU", "GRU"), ("SimpleRNN", "RNN"),
    ("MultiHeadAttention", "MultiheadAttention"), ("BatchNorm2D", "BatchNorm2d"),
)  # fmt: skip


def add_special_init(*words: Any) -> None:
    """Say how the weights of two mapped layers are copied; for this process, under their classes' names.

    Both published forms: ``(paddle_class, torch_class, function)`` with ``function(layer, module)``, and ``(base_framework,
    base_class, raw_framework, raw_class, function)`` with ``function(base_layer, raw_layer)``.

    Raises:
        ArgumentError: other words.
    """
    *names, function = words or (None,)
    if len(names) not in (2, 4) or not all(isinstance(name, str) for name in names) or not callable(function):
        raise ArgumentError(
            "add_special_init(paddle_class, torch_class, function) or (base_framework, base_class, raw_framework, raw_class, "
            f"function); got {described(words)}"
        )
    if len(names) == 2:
        names = ["paddle", names[0], "torch", names[1]]
    if names[0] not in ("paddle", "torch") or names[2] not in ("paddle", "torch"):
        raise ArgumentError(f"add_special_init: frameworks are 'paddle' and 'torch', got {names[0]!r} and {names[2]!r}")
    _written[(names[0], names[1], names[2], names[3])] = function


def special_init(base: Any, raw: Any) -> Callable[[], Any] | None:
    """The caller's way of copying one layer's weights into another's, ready to be called; None if none was said."""
    for one, other in ((base, raw), (raw, base)):
        function = _written.get((*_kind(one), *_kind(other)))
        if function is not None:
            return lambda: function(one, other)
    return None


def _kind(layer: Any) -> tuple[str, str]:
    return ("torch" if isinstance(layer, torch.nn.Module) else "paddle"), type(layer).__name__


class LayerMap:
    """Layers that stand for each other, and layers that are left out.

    :attr:`map` is set to ``{layer of one model: layer of the other}``, in either direction; what is below mapped layers is not
    compared. Layers are objects.
    """

    def __init__(self) -> None:
        self._pairs: dict[Any, Any] = {}
        self._left_out: set[int] = set()
        self._names: dict[str, str] = {}

    @property
    def map(self) -> dict[Any, Any]:
        """The mapped layers."""
        return self._pairs

    @map.setter
    def map(self, pairs: Mapping[Any, Any]) -> None:
        if not isinstance(pairs, Mapping):
            raise ArgumentError(f"LayerMap.map is a dict of layers, got {described(pairs)}")
        self._pairs = {**self._pairs, **pairs}

    def ignore(self, layers: Any) -> None:
        """Leave these layers out, but not what is below them."""
        self._left_out |= {id(layer) for layer in _listed(layers)}

    def ignore_recursively(self, layers: Any) -> None:
        """Leave these layers and all below them out."""
        for layer in _listed(layers):
            self._left_out |= {id(one) for _, one in Model(layer).layers}

    ignore_recursivly = ignore_recursively  # the name in PaDiff's documentation

    def ignore_class(self, layer: Any, ign_cls: Any = (paddle.nn.Sequential, torch.nn.Sequential)) -> None:
        """Leave all layers of a class, or of several, within ``layer`` out."""
        self._left_out |= {id(one) for path, one in Model(layer).layers if path and isinstance(one, ign_cls)}

    def auto(self, layer: Any, module: Any) -> None:
        """Map the layers that both frameworks build otherwise (attention, recurrent ones, normalization), in order of construction.

        If those of one model do not stand for those of the other one by one, nothing is mapped, and this is printed.
        """
        self._map_automatically(Model(layer), Model(module))

    def ignored(self, model: Model) -> set[str]:
        """Paths of the layers of a model that the caller leaves out."""
        return {path for path, layer in model.layers if path and id(layer) in self._left_out} | model.left_out()

    def special(self, base: Model, raw: Model) -> list[tuple[str, str, Callable[[], Any]]]:
        """(path, path, how) of the mapped layers whose weights the caller copies himself."""
        layers = dict(base.layers), dict(raw.layers)
        pairs = [(one, other) for one, other in self.paths(base, raw) if one in layers[0] and other in layers[1]]
        found = [(one, other, special_init(layers[0][one], layers[1][other])) for one, other in pairs]
        return [(one, other, copy) for one, other, copy in found if copy is not None]

    def paths(self, base: Model, raw: Model) -> list[tuple[str, str]]:
        """(path in the base model, path in the raw one) of everything mapped.

        Raises:
            ArgumentError: a layer that is in neither model.
        """
        known = [{id(layer): path for path, layer in reversed(model.layers)} for model in (base, raw)]
        found = []
        for one, other in self._pairs.items():
            if id(one) in known[1] and id(other) in known[0]:
                one, other = other, one
            if id(one) not in known[0] or id(other) not in known[1]:
                lost = one if id(one) not in known[0] else other
                raise ArgumentError(f"layer_map: {described(lost)} is no layer of {base.name} or {raw.name}")
            found.append((known[0][id(one)], known[1][id(other)]))
        turned = base.framework == "paddle"
        return found + [(ours, theirs) if turned else (theirs, ours) for theirs, ours in self._names.items()]

    @classmethod
    def of(cls, given: Any, models: tuple[Model, Model]) -> LayerMap:
        """The map of a call: ``layer_map=``, and what was marked at the models.

        Raises:
            ArgumentError: something else than a LayerMap or a dict of layers, or of names (Torch's to Paddle's).
        """
        made = cls()
        if isinstance(given, cls):
            made._pairs, made._left_out = dict(given._pairs), set(given._left_out)
        elif isinstance(given, Mapping):
            made._names = {mine: yours for mine, yours in given.items() if isinstance(mine, str) and isinstance(yours, str)}
            made.map = {mine: yours for mine, yours in given.items() if mine not in made._names}
        elif given is not None:
            raise ArgumentError(f"layer_map= is a LayerMap or a dict of layers, got {described(given)}")
        if len(models[0].mapped) != len(models[1].mapped):
            raise ArgumentError(
                f"set_layer_map: {len(models[0].mapped)} layers of {models[0].name}, {len(models[1].mapped)} of {models[1].name}"
            )
        made.map = dict(zip(models[0].mapped, models[1].mapped))
        if any(model.wants_auto_map for model in models):
            made._map_automatically(*models)
        made.paths(*models)
        return made

    def _map_automatically(self, one: Model, other: Model) -> None:
        kinds = [_special_classes(model) for model in (one, other)]
        found = [_special_layers(model, names) for model, names in zip((one, other), kinds)]
        if {one.framework, other.framework} != {"paddle", "torch"}:
            raise ArgumentError("LayerMap.auto is given a model of Paddle's and one of Torch's")
        pairs = {}
        for mine, yours in zip_longest(*found):
            if mine is None or yours is None or not _stand_for_each_other(mine[1], yours[1]):
                log("LayerMap.auto: nothing mapped, for these do not stand for each other:")
                for model, told in ((one, mine), (other, yours)):
                    log(f"    {model.framework}: " + (f"{type(told[1]).__name__} at {told[0]}" if told else "no more"))
                return
            log(f"LayerMap.auto: {one.name}.{mine[0]} <==> {other.name}.{yours[0]}")
            pairs[mine[1]] = yours[1]
        self.map = pairs


def _stand_for_each_other(one: Any, other: Any) -> bool:
    ours, theirs = (one, other) if isinstance(one, paddle.nn.Layer) else (other, one)
    names = type(ours).__name__, type(theirs).__name__
    return names in _BUILT_OTHERWISE or special_init(ours, theirs) is not None


def _special_classes(model: Model) -> set[str]:
    """Names of the classes that are mapped automatically."""
    registered = {name for key in _written for framework, name in (key[:2], key[2:]) if framework == model.framework}
    return registered | {pair[0] if model.framework == "paddle" else pair[1] for pair in _BUILT_OTHERWISE}


def _special_layers(model: Model, classes: set[str]) -> list[tuple[str, Any]]:
    """Those layers in order of construction; not what is below one of them."""
    found: list[tuple[str, Any]] = []
    for path, layer in model.layers:
        inside = any(path.startswith(f"{above}.") for above, _ in found)
        if path and type(layer).__name__ in classes and not inside:
            found.append((path, layer))
    return found


def _listed(layers: Any) -> Iterable[Any]:
    listed = list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    for layer in listed:
        if not isinstance(layer, (paddle.nn.Layer, torch.nn.Module)):
            raise ArgumentError(f"LayerMap takes layers (objects), got {described(layer)}")
    return listed


# ---- Which weights and layers of the two models belong together, whatever their frameworks, and taking the weights over.

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


def _known(mapping: WeightMapping) -> list[str]:
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
