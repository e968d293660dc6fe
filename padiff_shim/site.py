"""Where in the user's model a call happens: the dotted path of the layer that is running."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from .errors import PadiffShimError


class _Stack(threading.local):
    """Layers being called in this thread, outermost first, with their paths."""

    def __init__(self) -> None:
        self.layers: list[tuple[Any, str]] = []


_stack = _Stack()
_names: weakref.WeakKeyDictionary[Any, dict[int, str]] = weakref.WeakKeyDictionary()


def layer_path() -> str:
    """Dotted path of the running layer below the outermost one (``""`` in that one or outside of any layer)."""
    layers = _stack.layers
    return layers[-1][1] if layers else ""


def _name_in(parent: Any, layer: Any) -> str:
    """Name of ``layer`` below ``parent``, or its class name if it is not registered there."""
    known = _names.setdefault(parent, {})
    name = known.get(id(layer))
    if name is None:
        known.clear()
        known.update({id(sub): path for path, sub in parent.named_sublayers()})
        name = known.setdefault(id(layer), type(layer).__name__)
    return name


def tracking(call: Callable[..., Any]) -> Callable[..., Any]:
    """``paddle.nn.Layer.__call__`` with the stack of running layers kept."""

    def hook(layer: Any, *args: Any, **kwargs: Any) -> Any:
        layers = _stack.layers
        if layers:
            parent, above = layers[-1]
            name = _name_in(parent, layer)
            path = f"{above}.{name}" if above else name
        else:
            path = ""
        layers.append((layer, path))
        try:
            return call(layer, *args, **kwargs)
        finally:
            layers.pop()

    return hook


class LayerFilter:
    """Glob patterns over layer paths: ``encoder.layers.*.linear1``. A match covers the layer and everything below it.

    ``*`` stands for one component (or a part of one), ``**`` for any number.
    """

    def __init__(self, patterns: str | Iterable[str]) -> None:
        given = [patterns] if isinstance(patterns, str) else list(patterns) if isinstance(patterns, Iterable) else []
        if not given or not all(isinstance(pattern, str) and pattern for pattern in given):
            raise PadiffShimError(f"layers= takes glob patterns over layer paths such as 'encoder.layers.*', got {patterns!r}")
        self.patterns = {pattern: tuple(pattern.split(".")) for pattern in given}
        self.unmatched = set(given)
        self._known: dict[str, bool] = {}

    def accepts(self, path: str) -> bool:
        """Whether a layer of that path, or one above it, matches a pattern."""
        found = self._known.get(path)
        if found is None:
            parts = tuple(path.split(".")) if path else ()
            hits = {
                pattern
                for pattern, wanted in self.patterns.items()
                if any(_match(parts[:end], wanted) for end in range(1, len(parts) + 1))
            }
            self.unmatched -= hits
            found = self._known[path] = bool(hits)
        return found


def _match(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_match(parts[skip:], wanted[1:]) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _match(parts[1:], wanted[1:])
