"""What a model holds: looked for once a run, for to go through all layers takes as long as some calls; and as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
        self.look()

    def look(self) -> None:
        """A forward may have exchanged what the model holds."""
        self.parameters: Named = dict(self._model.named_parameters())
        self.buffers: Named = dict(self._model.named_buffers())

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
            dict(self._layers(self._model))[path]._buffers[own] = tensor
        for _, tensor, value in self._begun:
            self._write(tensor, value)
        if exchanged:
            self.look()
