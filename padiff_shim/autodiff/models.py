"""What a caller hands over as a model, with the layers that he marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import paddle
import torch

from ..arguments import one_of
from ..errors import ArgumentError, described

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
