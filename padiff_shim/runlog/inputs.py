"""The operands of single calls as files (``.npz``), beside a log or a script; written, and read again with checks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, FileError, PadiffShimError
from ..text import joined, shown, tr
from .encoding import finite

_LARGEST = 2**31  # bytes of saved operands that are read
_GAP = 4  # a view that spans more than this times its own size is packed densely


def _file(folder: Path, log: str, index: Any) -> Path:
    if not isinstance(index, int) or not re.fullmatch(r"[\w-][\w.-]*", log):
        raise ArgumentError(
            "operands are saved by the name of a log and the number of a record, got {log}, {index}",
            log=repr(log),
            index=repr(index),
        )
    return folder / f"{log}-{index}.npz"


def _flat(array: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The memory that an array spans, and its strides in elements; an array with wide gaps is packed."""
    spans = 1 + sum((size - 1) * stride // array.itemsize for size, stride in zip(array.shape, array.strides))
    backward = any(stride < 0 or stride % array.itemsize for stride in array.strides)
    if not array.size or backward or spans > _GAP * array.size:
        array = array.copy(order="K")
        spans = array.size
    flat = np.lib.stride_tricks.as_strided(array, (spans,), (array.itemsize,)).copy()
    return flat, [stride // array.itemsize for stride in array.strides]


def pack(record: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a ``.npz`` file: see :func:`save_inputs`."""
    packed: dict[str, np.ndarray] = {}
    layout = {}
    for name, values in arrays.items():
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise ArgumentError("operand {name} is an array of {dtype}, not of numbers", name=repr(name), dtype=array.dtype)
        packed[name], strides = _flat(array)
        layout[name] = {"shape": list(array.shape), "strides": strides}
    packed["layout"], packed["record"] = np.array(json.dumps(layout)), np.array(json.dumps(finite(dict(record))))
    return packed


def save_inputs(folder: str | os.PathLike[str], record: Mapping[str, Any], arrays: Mapping[str, Any], log: str = "call") -> Path:
    """Save the tensors of one call as ``<log>-<index>.npz`` in ``folder``.

    Args:
        record: the call's record, with its ``index``.
        arrays: by operand name (``"x"``; ``"operands[0]"`` for an op over a sequence) the operands as the kernels got them, the
            weight of a Linear as [out, in]; ``"paddle"`` and ``"torch"``, the judged tensor of each side; ``"grad"``, the incoming
            gradient. NumPy arrays of any strides, which are saved with them; bfloat16 as raw uint16.
        log: name of the log file without its ending.

    Raises:
        OSError: the file cannot be written.
    """
    path = _file(Path(folder), log, record.get("index"))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **pack(record, arrays))  # type: ignore[arg-type]
    return path


def drop_inputs(folder: str | os.PathLike[str], record: Mapping[str, Any], log: str = "call") -> None:
    """Remove the file of :func:`save_inputs` for this record, if it is there."""
    with contextlib.suppress(OSError):
        _file(Path(folder), log, record.get("index")).unlink()


def load_inputs(
    folder: str | os.PathLike[str], record: Mapping[str, Any], log: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The record and the arrays that :func:`save_inputs` saved for this record of this log.

    Raises:
        PadiffShimError: nothing was saved for it; the message names the calls that have something.
        FileError: the file is damaged, or not that of this record.
    """
    path = _file(Path(folder), log, record.get("index"))
    if not path.is_file():
        known = kept(folder, log)
        there = tr("saved ones: {calls}", calls=joined(", ", known[:20])) if known else tr("no call of this run has any")
        raise PadiffShimError(
            "the operands of call {index} were not saved ({there}). compare(keep_inputs=N) saves those of the first N "
            "calls from mismatch_from= up",
            index=record.get("index"),
            there=there,
        )
    try:
        saved_record, arrays = _opened(path)
    except Exception as error:  # zipfile, NumPy and JSON raise anything for a damaged or hostile file
        raise FileError(
            "the saved operands {path} cannot be read: {type}: {error}",
            path=path,
            type=type(error).__name__,
            error=shown(error),
        ) from None
    for name in ("index", "op", "tensor", "phase"):
        if name in record and saved_record.get(name) != record[name]:
            difference = tr("{saved} and not {here}", saved=shown(saved_record.get(name)), here=shown(record[name]))
            raise FileError(
                "the saved operands {path} are those of another record: their {name} is {difference}",
                path=path,
                name=name,
                difference=difference,
            )
    return saved_record, arrays


def kept(folder: str | os.PathLike[str], log: str) -> list[int]:
    """Numbers of the records of a log whose operands lie in ``folder``."""
    pattern = re.compile(re.escape(log) + r"-(\d{1,18})\.npz")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)


def _opened(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Record and arrays of a file, each array in its layout."""
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > _LARGEST:
            raise ValueError(tr("more than {largest} bytes", largest=_LARGEST))
    with np.load(path, allow_pickle=False) as file:
        record, layout = (json.loads(str(file[name])) for name in ("record", "layout"))
        if not isinstance(record, dict) or not isinstance(layout, dict):
            raise ValueError(tr("record and layout are tables"))
        return record, {
            name: strided_view(file[name], placement["shape"], placement["strides"]) for name, placement in layout.items()
        }


def strided_view(flat: np.ndarray, shape: Sequence[Any], strides: Sequence[Any]) -> np.ndarray:
    """``flat`` (one-dimensional) as an array of this shape and these strides, in elements.

    Raises:
        ValueError: the view would reach beyond the array, which NumPy does not check.
    """
    lengths = [*shape, *strides]
    if flat.ndim != 1 or flat.dtype.kind not in "fiub" or len(shape) != len(strides) or len(shape) > 32:
        raise ValueError(f"no layout of numbers: {flat.dtype} {flat.shape} as {shape} with strides {strides}")
    if not all(type(length) is int and 0 <= length < 2**62 for length in lengths):
        raise ValueError(f"shape {shape} and strides {strides} are not whole numbers from 0 on")
    last = sum((size - 1) * stride for size, stride in zip(shape, strides))
    if 0 not in shape and last >= flat.size:
        raise ValueError(f"shape {shape} with strides {strides} reaches beyond the {flat.size} numbers that were saved")
    return np.lib.stride_tricks.as_strided(flat, shape, [stride * flat.itemsize for stride in strides])
