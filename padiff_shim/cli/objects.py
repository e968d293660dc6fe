"""``file.py:name`` and ``package.module:name``: what a command line calls a Python object."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import ArgumentError, MissingFileError, unknown


def load(word: str, argument: str) -> Any:
    """The object that ``word`` names.

    Two files in different folders may have modules of one name beside them: each gets its own when it is imported.

    Raises:
        ArgumentError: ``word`` is of another form, or there is no such name (the nearest are named).
        FileError: there is no such file.

    What the file itself raises is raised unchanged.
    """
    place, _, name = word.rpartition(":")
    if not place or not name.replace(".", "").isidentifier():
        raise ArgumentError(f"{argument} is file.py:name or package.module:name, got {word!r}")
    found: Any = _file(Path(place), argument) if place.endswith(".py") else _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            names = [one for one in dir(found) if not one.startswith("_")]
            raise ArgumentError(f"{argument}: {unknown(f'name in {place}', part, names)}")
        found = getattr(found, part)
    return found


def _module(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _file(path: Path, argument: str) -> ModuleType:
    if not path.is_file():
        raise MissingFileError(f"{argument}: the file {path} does not exist")
    path = path.resolve()
    folder, before = str(path.parent), set(sys.modules)
    name = path.stem if path.stem not in sys.modules else f"{path.parent.name}_{path.stem}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    sys.path.append(folder)  # what is imported later, inside of functions
    for beside in [one for one in set(sys.modules) - before - {name} if _lies_in(sys.modules[one], path.parent)]:
        del sys.modules[beside]
    return module


def _lies_in(module: ModuleType, folder: Path) -> bool:
    """Whether it was found beside the file, not in an environment below it."""
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder) and "site-packages" not in Path(file).parts
