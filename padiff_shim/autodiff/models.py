"""The caller's models: a handle with marks on their layers, and the map of layers that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any

import paddle
import torch

from ..arguments import model as checked_model
from ..arguments import one_of
from ..errors import ArgumentError, UnknownNameError, described, unknown
from ..text import tr
from ..weights.rules import captured, filled

PLACES = ("self", "sublayers", "all")


def log(text: str) -> None:
    """Print lines; the first one has PaDiff's mark."""
    print(f"[AutoDiff] {text}")


class Model:
    """A model with a name and marks on its layers, as ``create_model`` makes it. :attr:`model` is the caller's own object.

    Marks are objects of the model's layers. Layers in the black list are not compared; with a white list, only its layers are.
    ``mode``: marks the layers themselves (``"self"``), the layers below them (``"sublayers"``), or both (``"all"``).
    """

    def __init__(self, model: Any, name: str | None = None) -> None:
        self.framework = checked_model(tr("a model"), model)
        self.model = model
        self.name = name or type(model).__name__
        self.mapped: list[Any] = []
        self.wants_auto_map = False
        self._black: set[int] = set()
        self._white: set[int] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Model({self.framework}::{self.name})"

    @property
    def tensor(self) -> type[Any]:
        """The framework's class of tensors."""
        kinds: dict[str, type[Any]] = {"torch": torch.Tensor, "paddle": paddle.Tensor}
        return kinds[self.framework]

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
        """Map these layers to those of the other model's list, in order; layers below them are not compared.

        Raises:
            ArgumentError: an object that is no layer of this model.
        """
        self.mapped = self._own(layers)

    def auto_layer_map(self, place: str) -> None:
        """Map the layers that the frameworks build differently (attention, recurrent layers, normalization).

        Args:
            place: ``"base"`` or ``"raw"``, as PaDiff requires; only the model's place in the call counts.
        """
        one_of("place", place, ("base", "raw"))
        self.wants_auto_map = True

    def update_black_list(self, layers: Iterable[Any], mode: str = "all") -> None:
        """Leave these layers out."""
        self._black |= self._reached(self._own(layers), mode)

    def update_white_list(self, layers: Iterable[Any], mode: str = "self") -> None:
        """Compare these layers only."""
        self._white |= self._reached(self._own(layers), mode)

    def update_black_list_with_class(self, layer_class: type, mode: str = "self") -> None:
        """Leave the layers of a class out."""
        self.update_black_list([layer for _, layer in self.layers if isinstance(layer, layer_class)], mode)

    def update_white_list_with_class(self, layer_class: type, mode: str = "self") -> None:
        """Compare the layers of a class only."""
        self.update_white_list([layer for _, layer in self.layers if isinstance(layer, layer_class)], mode)

    def left_out(self) -> set[str]:
        """Paths of the layers that the lists leave out; a white list overrides a black list."""
        if self._white:
            return {path for path, layer in self.layers if path and id(layer) not in self._white}
        return {path for path, layer in self.layers if path and id(layer) in self._black}

    def _own(self, layers: Iterable[Any]) -> list[Any]:
        listed = list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
        known = {id(layer) for _, layer in self.layers}
        for layer in listed:
            if id(layer) not in known:
                raise ArgumentError(
                    tr("{name} has no such layer: {layer} (layers are given as objects)", name=self.name, layer=described(layer))
                )
        return listed

    def _reached(self, layers: list[Any], mode: str) -> set[int]:
        one_of("mode", mode, PLACES)
        marked: set[int] = set()
        for layer in layers:
            below = {id(child) for _, child in Model(layer).layers} - {id(layer)}
            marked |= below if mode != "self" else set()
            marked |= {id(layer)} if mode != "sublayers" else set()
        return marked


def create_model(model: Any, name: str | None = None) -> Model:
    """A handle that holds a model and the marks on its layers; a handle is returned unchanged.

    Raises:
        ArgumentError: ``model`` is no model of Paddle or Torch.
    """
    return model if isinstance(model, Model) else Model(model, name)


Key = tuple[str, str, str, str]  # framework and class of the layer that is copied from, and of the one that is written
_written: dict[Key, Callable[[Any, Any], Any]] = {}  # the caller's functions that copy the weights of two classes
# (Paddle's class, Torch's) of layers that the frameworks build differently; transfer_weights knows their weights.
_BUILT_OTHERWISE = (
    ("LSTM", "LSTM"), ("GRU", "GRU"), ("SimpleRNN", "RNN"),
    ("MultiHeadAttention", "MultiheadAttention"), ("BatchNorm2D", "BatchNorm2d"),
)  # fmt: skip


def add_special_init(*words: Any) -> None:
    """Register a function that copies the weights of two mapped layers, by the names of their classes, for this process.

    Both published forms: ``(paddle_class, torch_class, function)`` with ``function(layer, module)``, and ``(base_framework,
    base_class, raw_framework, raw_class, function)`` with ``function(base_layer, raw_layer)``.

    Raises:
        ArgumentError: arguments of another form.
    """
    *names, function = words or (None,)
    if len(names) not in (2, 4) or not all(isinstance(name, str) for name in names) or not callable(function):
        raise ArgumentError(
            tr(
                "add_special_init(paddle_class, torch_class, function) or (base_framework, base_class, raw_framework, "
                "raw_class, function); got {words}",
                words=described(words),
            )
        )
    if len(names) == 2:
        names = ["paddle", names[0], "torch", names[1]]
    if names[0] not in ("paddle", "torch") or names[2] not in ("paddle", "torch"):
        raise ArgumentError(
            tr(
                "add_special_init: frameworks are 'paddle' and 'torch', got {first} and {second}",
                first=repr(names[0]),
                second=repr(names[2]),
            )
        )
    _written[(names[0], names[1], names[2], names[3])] = function


def special_init(base: Any, raw: Any) -> Callable[[], Any] | None:
    """The registered function that copies the weights of one layer into the other, ready to be called; None if there is none."""
    for source, target in ((base, raw), (raw, base)):
        function = _written.get((*_kind(source), *_kind(target)))
        if function is not None:
            return lambda: function(source, target)
    return None


def _kind(layer: Any) -> tuple[str, str]:
    return ("torch" if isinstance(layer, torch.nn.Module) else "paddle"), type(layer).__name__


class LayerMap:
    """Layers that belong together, and layers that are not compared.

    Set :attr:`map` to ``{layer of one model: layer of the other}``, in either direction; layers below mapped layers are not
    compared. Layers are objects.

    Example:
        >>> import paddle, torch
        >>> from padiff_shim.autodiff import LayerMap
        >>> port, original = paddle.nn.Sequential(paddle.nn.GRU(2, 3)), torch.nn.Sequential(torch.nn.GRU(2, 3))
        >>> layer_map = LayerMap()
        >>> layer_map.map = {port[0]: original[0]}
        >>> len(layer_map.map)
        1
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
            raise ArgumentError(tr("LayerMap.map is a dict of layers, got {pairs}", pairs=described(pairs)))
        self._pairs = {**self._pairs, **pairs}

    def ignore(self, layers: Any) -> None:
        """Do not compare these layers; the layers below them are compared."""
        self._left_out |= {id(layer) for layer in _listed(layers)}

    def ignore_recursively(self, layers: Any) -> None:
        """Do not compare these layers, nor any layer below them."""
        for layer in _listed(layers):
            self._left_out |= {id(child) for _, child in Model(layer).layers}

    ignore_recursivly = ignore_recursively  # the name in PaDiff's documentation

    def ignore_class(self, layer: Any, ign_cls: Any = (paddle.nn.Sequential, torch.nn.Sequential)) -> None:
        """Do not compare the layers of a class, or of several classes, within ``layer``."""
        self._left_out |= {id(child) for path, child in Model(layer).layers if path and isinstance(child, ign_cls)}

    def auto(self, layer: Any, module: Any) -> None:
        """Map the layers that the frameworks build differently (attention, recurrent, normalization), in order of construction.

        If the layers of both models do not correspond one to one, nothing is mapped, and a message says so.
        """
        self._map_automatically(Model(layer), Model(module))

    def ignored(self, model: Model) -> set[str]:
        """Paths of the layers of a model that are not compared."""
        return {path for path, layer in model.layers if path and id(layer) in self._left_out} | model.left_out()

    def special(self, base: Model, raw: Model) -> list[tuple[str, str, Callable[[], Any]]]:
        """(base path, raw path, function) of the mapped layers whose weights a registered function copies."""
        base_layers, raw_layers = dict(base.layers), dict(raw.layers)
        return [
            (path, partner, copy)
            for path, partner in self.paths(base, raw)
            if path in base_layers and partner in raw_layers and (copy := special_init(base_layers[path], raw_layers[partner]))
        ]

    def paths(self, base: Model, raw: Model) -> list[tuple[str, str]]:
        """(path in the base model, path in the raw one) of all mapped layers.

        Raises:
            ArgumentError: a mapped layer is in neither model.
        """
        known = [{id(layer): path for path, layer in reversed(model.layers)} for model in (base, raw)]
        pairs = []
        for base_layer, raw_layer in self._pairs.items():
            if id(base_layer) in known[1] and id(raw_layer) in known[0]:
                base_layer, raw_layer = raw_layer, base_layer
            if id(base_layer) not in known[0] or id(raw_layer) not in known[1]:
                lost = base_layer if id(base_layer) not in known[0] else raw_layer
                raise ArgumentError(
                    tr(
                        "layer_map: {lost} is no layer of {first} or {second}",
                        lost=described(lost),
                        first=base.name,
                        second=raw.name,
                    )
                )
            pairs.append((known[0][id(base_layer)], known[1][id(raw_layer)]))
        names = self._names.items()  # Torch's -> Paddle's
        return pairs + [(partner, name) if base.framework == "paddle" else (name, partner) for name, partner in names]

    @classmethod
    def of(cls, layer_map: Any, models: tuple[Model, Model]) -> LayerMap:
        """The map of a call: ``layer_map=``, and the marks on the models.

        Raises:
            ArgumentError: ``layer_map`` is neither a LayerMap nor a dict of layers, or of names (Torch's -> Paddle's).
            UnknownNameError: a model has no layer and no weight of such a name.
        """
        made = cls()
        if isinstance(layer_map, cls):
            made._pairs, made._left_out = dict(layer_map._pairs), set(layer_map._left_out)
        elif isinstance(layer_map, Mapping):
            pairs = layer_map.items()
            made._names = {name: partner for name, partner in pairs if isinstance(name, str) and isinstance(partner, str)}
            made.map = {layer: partner for layer, partner in pairs if layer not in made._names}
        elif layer_map is not None:
            raise ArgumentError(tr("layer_map= is a LayerMap or a dict of layers, got {layer_map}", layer_map=described(layer_map)))
        if len(models[0].mapped) != len(models[1].mapped):
            raise ArgumentError(
                tr(
                    "set_layer_map: {count} layers of {name}, {other_count} of {other}",
                    count=len(models[0].mapped),
                    name=models[0].name,
                    other_count=len(models[1].mapped),
                    other=models[1].name,
                )
            )
        made.map = dict(zip(models[0].mapped, models[1].mapped))
        if any(model.wants_auto_map for model in models):
            made._map_automatically(*models)
        made.paths(*models)
        made._check_names(*models)
        return made

    def _check_names(self, base: Model, raw: Model) -> None:
        """Refuse names that no layer has. The search for pairs does not: it never sees a name whose partner is left out."""
        models = (raw, base) if base.framework == "paddle" else (base, raw)
        names, partners = map(_names_in, models)
        for pattern, partner in self._names.items():
            matches = [values for name in names if (values := captured(pattern, name)) is not None]
            if not matches:
                raise _unknown_layer(pattern, models[0], names)
            for name in (filled(partner, values, "layer_map") for values in matches):
                if name not in partners:
                    raise _unknown_layer(name, models[1], partners)

    def _map_automatically(self, first: Model, second: Model) -> None:
        kinds = [_special_classes(model) for model in (first, second)]
        layers = [_special_layers(model, names) for model, names in zip((first, second), kinds)]
        if {first.framework, second.framework} != {"paddle", "torch"}:
            raise ArgumentError(tr("LayerMap.auto takes a Paddle model and a Torch model"))
        pairs = {}
        for layer_entry, partner in zip_longest(*layers):
            if layer_entry is None or partner is None or not _belong_together(layer_entry[1], partner[1]):
                log("LayerMap.auto: nothing mapped, for these layers do not belong together:")
                for model, entry in ((first, layer_entry), (second, partner)):
                    log(f"    {model.framework}: " + (f"{type(entry[1]).__name__} at {entry[0]}" if entry else "no more"))
                return
            log(f"LayerMap.auto: {first.name}.{layer_entry[0]} <==> {second.name}.{partner[0]}")
            pairs[layer_entry[1]] = partner[1]
        self.map = pairs


def _names_in(model: Model) -> set[str]:
    """All names of a model's layers and weights, also the further names of shared ones."""
    weights = [name.split(".") for name in model.model.state_dict()]
    return {path for path, _ in model.layers} | {".".join(parts[:end]) for parts in weights for end in range(1, len(parts) + 1)}


def _unknown_layer(name: str, model: Model, names: set[str]) -> UnknownNameError:
    return unknown(
        tr("layer of {framework}'s {model} in layer_map", framework=model.framework.title(), model=model.name), name, names - {""}
    )


def _belong_together(first: Any, second: Any) -> bool:
    paddle_layer, torch_layer = (first, second) if isinstance(first, paddle.nn.Layer) else (second, first)
    names = type(paddle_layer).__name__, type(torch_layer).__name__
    return names in _BUILT_OTHERWISE or special_init(paddle_layer, torch_layer) is not None


def _special_classes(model: Model) -> set[str]:
    """Names of the classes whose layers are mapped automatically."""
    registered = {name for key in _written for framework, name in (key[:2], key[2:]) if framework == model.framework}
    return registered | {pair[0] if model.framework == "paddle" else pair[1] for pair in _BUILT_OTHERWISE}


def _special_layers(model: Model, classes: set[str]) -> list[tuple[str, Any]]:
    """(path, layer) of the outermost layers of these classes, in order of construction."""
    outermost: list[tuple[str, Any]] = []
    for path, layer in model.layers:
        inside = any(path.startswith(f"{above}.") for above, _ in outermost)
        if path and type(layer).__name__ in classes and not inside:
            outermost.append((path, layer))
    return outermost


def _listed(layers: Any) -> Iterable[Any]:
    listed = list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    for layer in listed:
        if not isinstance(layer, (paddle.nn.Layer, torch.nn.Module)):
            raise ArgumentError(tr("LayerMap takes layers (objects), got {layer}", layer=described(layer)))
    return listed
