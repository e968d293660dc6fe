"""The port that Paddle's own proxy makes of Torch's source: ``padiff-shim prove --proxy net.py:Net``.

``paddle.compat`` answers ``import torch`` with Paddle. The modules that the original came from are imported a second time so, as
copies that nobody else sees; what they name of Torch and Paddle lacks is listed with its line.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import ArgumentError
from ..text import joined, many, tr
from .models import Builders
from .program import forgetting, home


class Lacking(NamedTuple):
    """Something of Torch's that Paddle's proxy has not: ``torch.nn.BatchNorm2d``, ``torch.nn.ReLU(inplace=)``."""

    name: str
    place: str


def both(word: str, builders: Builders) -> tuple[Any, Any, list[Lacking]]:
    """(the port, the original, what Paddle's proxy lacks in their files) of Torch's source.

    Args:
        word: the original, as ``prove`` takes it.
        builders: what makes a model of a word.

    Raises:
        ArgumentError: this Paddle has no proxy; or no model can be made under it, with what is lacking and where.
    """
    try:
        from paddle.compat.proxy import use_torch_proxy_guard
    except ImportError:
        raise ArgumentError("--proxy: this Paddle has no proxy of Torch; 3.3 has one") from None
    place = word.partition("?")[0].rpartition(":")[0]
    path = Path(place).resolve()
    folder, name = home(path)
    if place.endswith(".py") and folder != path.parent:  # as a module of its package, whose __init__ does not run for the port
        sys.path.insert(0, str(folder))
        word = name + word.removeprefix(place)
    original = builders.made(word, "TORCH")
    scope = _Scope(word)
    with forgetting() as neighbours, scope.apart(), use_torch_proxy_guard(enable=True, silent=True):
        try:
            port = builders.made(word, "PADDLE")
        except Exception as raised:  # whatever Torch's source raises, of which Torch made the original
            error: BaseException = raised
            while isinstance(error, _NotImported) and error.__cause__ is not None:
                error = error.__cause__
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if scope.has(frame.filename)]
            if not frames:
                raise
            beside = [module.__file__ for folder in neighbours.values() for module in folder.values()]
            lacking = scope.lacking([*(frame.filename for frame in reversed(frames)), *beside])
            lines = joined("", [tr("\n  Paddle's proxy lacks {name}: {place}", name=name, place=place) for name, place in lacking])
            place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
            raise ArgumentError(
                "--proxy: Paddle makes no port of {word}: {type} at {place}: {error}{lines}",
                word=word,
                type=type(error).__name__,
                place=place,
                error=error,
                lines=lines,
            ) from None
        layers = port.sublayers(include_self=True) if hasattr(port, "sublayers") else []  # prove says what else it may be
        forwards = [inspect.unwrap(type(layer).forward) for layer in layers]
        lacking = scope.lacking(forward.__code__.co_filename for forward in forwards)
    return port, original, lacking


def listed(lacking: list[Lacking]) -> str:
    """What the model that was made does not come by, in a line."""
    names = ", ".join(f"{name} ({place})" for name, place in lacking)
    return str(
        tr("Paddle's proxy lacks {count} that the model's files have: {names}", count=many(len(lacking), "name"), names=names)
    )


class _Scope:
    """The modules that are imported a second time: those of a word's file and its neighbours, or of its top-level package."""

    def __init__(self, word: str) -> None:
        place = word.partition("?")[0].rpartition(":")[0]
        module = None if place.endswith(".py") else sys.modules[place.partition(".")[0]]
        folders = list(getattr(module, "__path__", ()))
        self.file = str(Path(place).resolve()) if module is None else str(module.__file__)
        self.packaged, self.folder = bool(folders), Path(folders[0]) if folders else Path(self.file).parent
        loaded = list(sys.modules.items())
        self.originals = {name: module for name, module in loaded if self.has(getattr(module, "__file__", None))}

    def has(self, file: str | None) -> bool:
        """Whether a file is one of its modules': an environment beside a file is none of its neighbours."""
        if file is None or self.folder not in Path(file).parents:
            return False
        return self.packaged or file == self.file or "site-packages" not in Path(file).parts

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Its modules are imported anew meanwhile; packages only as far as their modules are named."""
        for name in self.originals:
            del sys.modules[name]
        for name, module in self.originals.items():
            if self.packaged and hasattr(module, "__path__"):
                sys.modules[name] = _Package(name, module, self.originals)
        try:
            yield
        finally:
            for name, module in list(sys.modules.items()):
                if self.has(getattr(module, "__file__", None)):
                    del sys.modules[name]
            sys.modules.update(self.originals)

    def lacking(self, files: Iterable[str | None]) -> list[Lacking]:
        """What files of its own name of Torch and Paddle lacks, by file and line."""
        first: dict[str, Lacking] = {}
        for path in [Path(file) for file in dict.fromkeys(files) if file and self.has(file)]:
            for name, line in sorted(_named(ast.parse(path.read_text(encoding="utf-8"))), key=itemgetter(1)):
                if name := _missing(name):
                    first.setdefault(name, Lacking(name, f"{path.name}:{line}"))
        return list(first.values())


class _NotImported(Exception):
    """Around an error of an import: an AttributeError itself would mean that the package has no such name."""


class _Package(ModuleType):
    """A package whose ``__init__`` does not run: it has what the original's has, from copies of the modules where that is made."""

    def __init__(self, name: str, original: ModuleType, originals: dict[str, ModuleType]) -> None:
        super().__init__(name)
        self.__path__ = list(original.__path__)
        self.__file__ = original.__file__
        self._original, self._originals = original, originals

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._original, name)
        module = isinstance(value, ModuleType)
        home = value.__name__ if module else getattr(value, "__module__", None)
        if home not in self._originals or home == self.__name__:
            return value
        try:
            copy = importlib.import_module(home)
        except Exception as error:
            raise _NotImported from error
        vars(self)[name] = copy if module else getattr(copy, value.__name__)  # where the import put a module of this name
        return vars(self)[name]


def _named(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of what a file names of Torch, and of arguments that it passes to it: ``torch.nn.ReLU(inplace=)``."""
    homes: dict[str, str] = {}
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    homes[alias.asname or "torch"] = alias.name if alias.asname else "torch"
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "torch":
            for alias in node.names:
                homes[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}", node.lineno
    for node in nodes:
        if isinstance(node, ast.Attribute) and (name := _dotted(node, homes)):
            yield name, node.lineno
        elif isinstance(node, ast.Call) and (name := _dotted(node.func, homes)):
            yield from ((f"{name}({keyword.arg}=)", node.lineno) for keyword in node.keywords if keyword.arg)


def _dotted(node: ast.expr, homes: dict[str, str]) -> str:
    """The name of Torch's that an expression is; "" if it is none."""
    if isinstance(node, ast.Name):
        return homes.get(node.id, "")
    above = _dotted(node.value, homes) if isinstance(node, ast.Attribute) else ""
    return f"{above}.{node.attr}" if above and isinstance(node, ast.Attribute) else ""


def _missing(name: str) -> str:
    """What of a name, or of an argument, the proxy has not, which answers for ``torch`` now; "" if it has it."""
    target, _, keyword = name.removesuffix("=)").partition("(")
    walked = "torch"
    value: Any = importlib.import_module("torch")
    for part in target.split(".")[1:]:
        walked = f"{walked}.{part}"
        try:
            value = getattr(value, part)
        except Exception:  # torch.classes answers with errors of Paddle's C++
            try:
                value = importlib.import_module(walked)
            except ImportError:
                return walked
    code = getattr(value, "__code__", None)
    if not keyword or (code is not None and code.co_flags & inspect.CO_VARKEYWORDS):  # Paddle's decorators take other names, too
        return ""
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):  # of C
        return ""
    takes = keyword in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return "" if takes else name
