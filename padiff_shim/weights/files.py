"""State dicts from files, without running anything that a file brings along, in time and memory bounded by its size."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import ArgumentError, FileError, MissingFileError, MissingFrameworkError, optional, unreadable
from . import pickles

SUFFIXES = (".pdparams", ".pt", ".pth", ".bin", ".safetensors")
_BEFORE_ZIP = 5  # pickles in a file of older Torchs: a magic number, two of the format, the data, the keys of its storages
MOST = 2**17  # entries: the largest models of many experts have 10^5


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
            return _checked(_of_paddle(path), path), "paddle"
        return _checked(_of_torch(path), path), "torch"
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
    if len(found) > MOST:
        raise ArgumentError(f"{path} holds {len(found):,} entries; accepted are up to {MOST:,}")
    nested = [str(key)[:100] for key, value in found.items() if isinstance(value, dict)]
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


def _of_torch(path: Path) -> Any:
    """What ``torch.save`` wrote, which compresses nothing: what unpacks to more than the file holds would take any memory."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            unpacked = sum(entry.file_size for entry in file.infolist())
            if unpacked > path.stat().st_size:
                raise FileError(f"{path} is no file of torch.save: it unpacks to {unpacked:,} bytes, more than it has")
            for name in file.namelist():
                if name.endswith("data.pkl"):
                    pickles.try_for_torch(file.read(name))
    else:
        pickles.try_for_torch(path.read_bytes(), _BEFORE_ZIP)
    return torch.load(path, map_location="cpu", weights_only=True)


def _of_paddle(path: Path) -> Any:
    """What ``paddle.save`` wrote: arrays by name, a tensor outside of a layer as (its own name, array)."""
    saved = pickles.load(path.read_bytes())
    if not isinstance(saved, dict):
        return saved
    saved.pop("StructuredToParameterName@@", None)
    parts = saved.pop("UnpackBigParamInfor@@", {})  # protocols 2 and 3 hold large arrays in pieces
    state = {name: _values(value[1] if isinstance(value, tuple) and len(value) == 2 else value) for name, value in saved.items()}
    for name, whole in parts.items():
        slices, shape = whole["slices"], whole["OriginShape"]
        if not all(type(part) is str for part in slices) or not all(type(size) is int for size in shape):
            raise ValueError("it holds an array in pieces that have no names, or no shape")
        pieces = {id(piece): piece for piece in map(state.pop, slices)}
        if len(pieces) < len(slices):  # a small file could make any size of it
            raise ValueError("it holds an array that is made of one piece several times")
        state[name] = np.concatenate(list(pieces.values())).reshape(shape)
    return state


def _values(value: Any) -> Any:
    """An array as NumPy's; anything else as it is."""
    if not isinstance(value, pickles.Array):
        return value
    if value.value is None:
        raise ValueError("it holds an array without values")
    return value.value
