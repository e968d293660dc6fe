"""State dicts from files, without running anything that a file brings along."""

from __future__ import annotations

import collections
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import ArgumentError, FileError, MissingFileError, MissingFrameworkError, optional, unreadable

SUFFIXES = (".pdparams", ".pt", ".pth", ".bin", ".safetensors")
# What a state dict of Paddle is pickled with. Anything else in such a file is refused before it is called.
_PICKLED = {
    ("numpy", "ndarray"), ("numpy", "dtype"), ("collections", "OrderedDict"), ("builtins", "tuple"), ("_codecs", "encode"),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
}  # fmt: skip


def read_file(path: Path) -> tuple[dict[str, Any], str | None]:
    """The state dict in a file, and the framework that the file tells of, if it does.

    Raises:
        FileError: the file cannot be read, or is not what its name says.
        ArgumentError: the file holds no state dict; the message says what it holds.
    """
    if path.suffix not in SUFFIXES:
        raise ArgumentError(f"{path} has a name that says no format; accepted: {', '.join(SUFFIXES)}")
    try:
        if not path.is_file():
            raise MissingFileError(f"there is no file {path}")
        if path.suffix == ".safetensors":
            return _safetensors(path)
        if path.suffix == ".pdparams":
            return _checked(_pdparams(path), path), "paddle"
        return _checked(torch.load(path, map_location="cpu", weights_only=True), path), "torch"
    except (ArgumentError, FileError, MissingFrameworkError):
        raise
    except OSError as error:
        raise unreadable("state dict", path, error) from error
    except Exception as error:  # whatever a parser says to bytes that are no state dict
        reason = (str(error).splitlines() or [""])[0][:200]
        raise FileError(f"{path} is no state dict that can be read safely: {type(error).__name__} {reason}") from error


def _checked(found: Any, path: Path) -> dict[str, Any]:
    """A dict of tensors; what else a file may hold is named."""
    if not isinstance(found, dict):
        raise ArgumentError(f"{path} holds a {type(found).__name__}, not a state dict")
    nested = [str(key) for key, value in found.items() if isinstance(value, dict)]
    tensors = {key: value for key, value in found.items() if isinstance(value, (torch.Tensor, np.ndarray))}
    if nested:
        raise ArgumentError(f"{path} holds dicts ({', '.join(nested[:5])}): load it, and give the one that is the state dict")
    if not tensors:
        raise ArgumentError(f"{path} holds no tensors")
    return tensors


def _safetensors(path: Path) -> tuple[dict[str, Any], str | None]:
    """The tensors of a safetensors file; its metadata may tell the framework."""
    library = optional("safetensors", "pip install safetensors")
    try:
        with library.safe_open(path, framework="pt", device="cpu") as file:
            written = (file.metadata() or {}).get("format")
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys(), key=_natural)}
            return tensors, {"pt": "torch", "pd": "paddle"}.get(written or "")
    except library.SafetensorError as error:
        raise FileError(f"{path} is no safetensors file: {error}") from None


def _natural(name: str) -> list[tuple[int, str]]:
    """The order of names in which layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


class _Unpickler(pickle.Unpickler):
    """Arrays in dicts, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PICKLED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        return super().find_class(module, name)


def _pdparams(path: Path) -> Any:
    """What ``paddle.save`` wrote: arrays by name, a tensor outside of a layer as (its own name, array)."""
    with path.open("rb") as file:
        found = _Unpickler(file).load()
    if not isinstance(found, dict):
        return found
    found.pop("StructuredToParameterName@@", None)
    for key, parts in found.pop("UnpackBigParamInfor@@", {}).items():  # protocols 2 and 3 hold large arrays in pieces
        found[key] = np.concatenate([found.pop(part) for part in parts["slices"]]).reshape(parts["OriginShape"])
    return {key: value[1] if isinstance(value, tuple) and len(value) == 2 else value for key, value in found.items()}
