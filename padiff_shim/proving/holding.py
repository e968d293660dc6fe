"""What a model holds: looked for once a run, for to go through all layers takes as long as some calls; and as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import torch

Named = dict[str, Any]


class Holding:
    """The parameters and buffers of a model, by name.

    Args:
        model: whose.
        layers: all layers of the model, by their paths.
        written: which of all that is held a forward may write.
        write: gives a tensor values.
    """

    def __init__(
        self,
        model: Any,
        layers: Callable[[Any], list[tuple[str, Any]]],
        written: Callable[[Holding], Named],
        write: Callable[[Any, Any], None],
    ) -> None:
        self._model, self._layers, self._written, self._write = model, layers, written, write
        self._begun: list[tuple[str, Any, Any]] | None = None  # what a forward may write, and its values before the first run
        self._seen: list[Any] | None = None
        self.look()

    def look(self) -> None:
        """A forward may have exchanged what the model holds."""
        if self._seen is not None and self._content() == self._seen:
            return
        self.layers = self._layers(self._model)
        self.parameters: Named = dict(self._model.named_parameters())
        self.buffers: Named = dict(self._model.named_buffers())
        self._seen = self._content() if all(map(_usual, self.layers)) else None

    def _content(self) -> list[Any]:
        """Names and identities of all that is in the layers. What was seen is held, so that no identity is given out twice."""
        found: list[Any] = []
        for _, layer in self.layers:
            held = layer.__dict__
            for place in _PLACES["_modules" in held]:
                inside = held[place]
                found += inside
                found += map(id, inside.values())
        return found

    def written(self) -> Named:
        """What a forward may write, by name."""
        return self._written(self)

    def restore(self) -> None:
        """Running statistics and the like are what they were: each run begins alike."""
        self.look()
        if self._begun is None:
            self._begun = [(name, tensor, tensor.detach().clone()) for name, tensor in self.written().items()]
            return
        exchanged = [(name, tensor) for name, tensor, _ in self._begun if self.buffers.get(name, tensor) is not tensor]
        for name, tensor in exchanged:  # as ``self.seen = self.seen + 1`` does
            path, _, own = name.rpartition(".")
            dict(self.layers)[path]._buffers[own] = tensor
        for _, tensor, value in self._begun:
            self._write(tensor, value)
        if exchanged:
            self.look()


_PLACES = {True: ("_parameters", "_buffers", "_modules"), False: ("_parameters", "_buffers", "_sub_layers")}
_QUESTIONS = ("named_parameters", "named_buffers", "named_modules", "named_sublayers")


def _usual(named: tuple[str, Any]) -> bool:
    """Whether a layer holds things where its framework's layers do, and says so as they do."""
    layer = named[1]
    base = torch.nn.Module if isinstance(layer, torch.nn.Module) else paddle.nn.Layer
    held = layer.__dict__
    return all(isinstance(held.get(place), dict) for place in _PLACES[base is torch.nn.Module]) and all(
        getattr(type(layer), question, None) is getattr(base, question, None) for question in _QUESTIONS
    )
