"""Where in the user's program a call happens: the dotted path of the layer that is running, and the line."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .. import notebook
from ..text import tr


class _Stack(threading.local):
    """Layers being called in this thread, outermost first, and their paths as far as somebody asked."""

    def __init__(self) -> None:
        self.layers: list[Any] = []
        self.paths: list[str] = []
        self.calls = 0  # of layers


_stack = _Stack()
_names: weakref.WeakKeyDictionary[Any, dict[int, str]] = weakref.WeakKeyDictionary()


def layer_path(model: Any = None) -> str:
    """Dotted path of the running layer below the outermost one, or below a ``model`` that holds this one; ``""`` outside."""
    layers, paths = _stack.layers, _stack.paths
    for index in range(len(paths), len(layers)):
        if index == 0:
            paths.append("")
            continue
        name, above = _name_in(layers[index - 1], layers[index]) or type(layers[index]).__name__, paths[index - 1]
        paths.append(f"{above}.{name}" if above else name)
    above = _name_in(model, layers[0]) if layers and model is not None and layers[0] is not model else ""
    return ".".join(filter(None, (above, *paths[-1:])))


def in_outermost_layer() -> bool:
    """Whether the running layer is in no other."""
    return len(_stack.layers) == 1


def layer_calls() -> int:
    """How many calls of layers began in this thread so far."""
    return _stack.calls


def in_training() -> bool | None:
    """Whether the running layer is in training mode; None outside of any layer."""
    layers = _stack.layers
    return bool(layers[-1].training) if layers else None


class CallSite(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    @property
    def name(self) -> str:
        """The file, or what the cell of a notebook is called."""
        return notebook.cell(self.file) or self.file

    def __str__(self) -> str:
        return f"{at_line(self.file, self.line)} in {self.function}"


_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_MODELS = os.path.join("vision", "models") + os.sep  # of the folder of Paddle: its models are compared as other packages' are


def short(file: str) -> str:
    """A file as people name it: from its installed package on, or from the working directory."""
    for packages in _PACKAGES:
        if packages in file:
            return file.rpartition(packages)[2]
    return os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file


def at_line(file: str, line: int) -> str:
    """A line as people name it: ``"model.py:12"``, or ``"Cell In[2], line 5"``."""
    if name := notebook.cell(file):
        return tr("{cell}, line {line}", cell=name, line=line)
    return f"{short(file)}:{line}"


class _Library(dict[str, bool]):
    """Files -> whether they belong to a framework, to Python or to us; found out once for each.

    Not by code objects: to Python those of a file and of a copy of it are equal, and a user may copy a framework's.
    """

    def __missing__(self, file: str) -> bool:
        self[file] = is_library = _is_library(file)
        return is_library


_library = _Library()


def _folders() -> tuple[str, ...]:
    """Where library code lies; other installed packages count as the user's, for their models are what is compared."""
    roots = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sysconfig.get_path("stdlib")]
    alone = []  # a module that is no folder; Paddle 2.6 wraps its methods with the package decorator
    for name in ("paddle", "torch", "wrapt", "padiff_shim.patches", "decorator"):
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None):
            file = os.path.abspath(str(module.__file__))
            (roots.append(os.path.dirname(file)) if hasattr(module, "__path__") else alone.append(file))
    return (*(root + os.sep for root in roots), *alone)


def _is_library(name: str) -> bool:
    if name.startswith(
        ("<frozen ", "<shortcut ", "<decorator-gen-")
    ):  # of Python, substitution/execute.py, Paddle 2.6's decorators
        return True
    path = os.path.abspath(name)
    inside = [folder for folder in _folders() if path.startswith(folder)]
    if any(path.startswith(folder + _MODELS) for folder in inside):
        return False
    # The standard library's folder holds site-packages as well.
    stdlib = sysconfig.get_path("stdlib") + os.sep
    return any(folder != stdlib or not any(part in path for part in _PACKAGES) for folder in inside)


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_library(file: str) -> bool:
    """Whether a file belongs to a framework, to Python or to this package."""
    return _library[file]


def call_site(until: CodeType | None = None) -> CallSite:
    """The innermost line that belongs neither to a framework nor to the standard library nor to this package.

    With ``until``, the code of a function that calls a model: the innermost line within that call. Where a model is made of a
    framework's layers alone there is none of the user's, and the innermost line of a layer's ``forward`` stands for it.
    """
    frame = outermost = sys._getframe(1)
    forward = None
    while frame is not None and frame.f_code is not until:
        code = frame.f_code
        if not _library[code.co_filename]:
            return _at(frame)
        if forward is None and until is not None and code.co_name == "forward" and not code.co_filename.startswith(_OURS):
            forward = frame
        outermost, frame = frame, frame.f_back  # type: ignore[assignment]
    return _at(forward or outermost)


def caller() -> tuple[str, int, str]:
    """The fields of what :func:`call_site` gives, which costs more."""
    frame = outermost = sys._getframe(1)
    known = _library
    while frame is not None:
        code = frame.f_code
        if not known[code.co_filename]:
            return code.co_filename, frame.f_lineno, code.co_name
        outermost, frame = frame, frame.f_back  # type: ignore[assignment]
    return _at(outermost)


def _at(frame: FrameType) -> CallSite:
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def raised_at(error: BaseException) -> CallSite | None:
    """The innermost line of the user's program that an error came through on its way; None if it came through none."""
    innermost, trace = None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not _library[code.co_filename]:
            innermost = CallSite(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return innermost


def _name_in(parent: Any, layer: Any) -> str:
    """Name of ``layer`` below ``parent``; ``""`` if it is not registered there."""
    known = _names.setdefault(parent, {})
    name = known.get(id(layer))
    if name is None or not _lies_at(parent, name, layer):
        known.clear()
        known.update({id(sub): path for path, sub in parent.named_sublayers()})
        name = known.setdefault(id(layer), "")
    return name


def _lies_at(parent: Any, path: str, layer: Any) -> bool:
    """Whether a name still is the layer's: layers are exchanged, and one that is gone leaves its identity to another.

    ``path``: "" says that it is not registered; only the children are searched then.
    """
    if not path:
        return not any(sub is layer for sub in parent._sub_layers.values())
    for name in path.split("."):
        parent = parent._sub_layers.get(name)
        if parent is None:
            return False
    return parent is layer


def tracking(call: Callable[..., Any], outermost: Callable[[], None], ended: Callable[[Any, Any], None]) -> Callable[..., Any]:
    """``paddle.nn.Layer.__call__`` with its stack of running layers.

    ``outermost`` is called before a layer that is in no other, ``ended`` with each layer and what it returned.
    """

    def hook(layer: Any, *args: Any, **kwargs: Any) -> Any:
        layers, paths = _stack.layers, _stack.paths
        _stack.calls += 1
        if not layers:
            outermost()
        depth = len(layers)
        try:
            layers.append(layer)
            result = call(layer, *args, **kwargs)
            ended(layer, result)
            return result
        finally:  # no call: a Ctrl-C between two would leave the layer running for ever
            del layers[depth:], paths[depth:]

    return hook
