"""Which layers stand for each other, and which are left out, by the caller's word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any

import paddle
import torch

from ..errors import ArgumentError, described
from .models import Model
from .printing import log

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
