"""Recordings read back: everything that a folder says is checked before it is used, and nothing is unpickled."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileError, MissingFileError
from ..records import log
from ..records.encoding import numeric
from . import figures
from .folder import RECORDS, SCHEMA, VALUES, present

Array = np.ndarray[Any, Any]
KINDS = ("op", "layer", "parameter", "gradient", "note", "input")
INPUT = "input"
WEIGHT = "weight"  # the ``tensor`` of an input that is a parameter or buffer as the run begins
_FIGURES = ("min", "max", "mean", "mean_abs", "norm", "nan", "inf")
_DIMENSIONS = 32
_HEADER = 10_000  # bytes of an array's header in NumPy's format


@dataclass(eq=False)
class Tensor:
    """One tensor of a recording.

    ``names``: of an op those under which the table knows it, else the one name. ``rows``: digests of an input's samples.
    :meth:`values`: the array, or None if it was left out.
    """

    index: int
    kind: str
    names: tuple[str, ...]
    tensor: str
    layer: str
    site: str
    file: str
    line: int
    function: str
    step: int
    shape: tuple[int, ...]
    dtype: str
    digest: str
    figures: dict[str, float]
    left_out: str
    sample: tuple[float, ...]
    _folder: Path
    _at: tuple[str, int] | None
    rows: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the op, the layer's class, the parameter or the note."""
        return self.names[0]

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    def values(self) -> Array | None:
        """The array as it was computed, bfloat16 as float32; None if it was left out.

        Raises:
            FileError: the file of values is missing or damaged.
        """
        if self._at is None:
            return None
        path = self._folder / self._at[0]
        array = _array(path, self._at[1])
        array = figures.from_bfloat16(array) if self.dtype == "bfloat16" and array.dtype == np.uint16 else array
        if array.shape != self.shape or (self.dtype != "bfloat16" and array.dtype.name != self.dtype):
            raise FileError(
                f"{path}: at byte {self._at[1]} lies an array {array.dtype} {list(array.shape)}, where record {self.index} says "
                f"{self.dtype} {list(self.shape)}"
            )
        return array

    def __str__(self) -> str:
        what = self.name if self.tensor in ("", "out") else f"{self.name} {self.tensor}"
        kind = "" if self.kind == "op" else f"{self.kind} "
        place = f" in layer {self.layer}" if self.layer else ""
        return f"{kind}{what}{place}" + (f", {self.site}" if self.site else "")


def _array(path: Path, at: int) -> Array:
    """The array that begins at a byte of a file of values."""
    try:
        with log.opened(path) as file:
            file.seek(at)
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file, max_header_size=_HEADER)
            if dtype.hasobject or math.prod(shape) * dtype.itemsize > path.stat().st_size - file.tell():
                raise ValueError("its values are not all there")
            file.seek(at)
            return np.lib.format.read_array(file, allow_pickle=False, max_header_size=_HEADER)
    except log.LogError as error:
        raise FileError(f"the values of a recording are missing: {error}") from None
    except Exception as error:  # whatever NumPy makes of a file that was damaged, or made to do harm
        raise FileError(f"{path}: no array at byte {at} ({type(error).__name__}: {str(error)[:200]})") from None


@dataclass(eq=False)
class Recorded:
    """What one process wrote down. ``inputs``: what it was given, weights and data, apart from ``tensors``, which it computed.

    ``ended``: how; "" if the process was killed. ``remarks``: what a reader should know.
    """

    path: Path
    header: dict[str, Any]
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    ended: str = ""
    remarks: list[str] = field(default_factory=list)

    @property
    def rank(self) -> int:
        """Of the process."""
        return int(self.header["rank"])

    @property
    def framework(self) -> str:
        """Whose program it was."""
        return str(self.header["framework"])


def read(folder: Path) -> dict[int, Recorded]:
    """Rank -> what its process wrote. Of forked children there is a remark.

    Raises:
        MissingFileError: there is no such folder.
        FileError: it holds no recording, or one that cannot be read.
    """
    if not folder.exists():
        raise MissingFileError(f"the folder {folder} does not exist")
    if not folder.is_dir():
        raise FileError(f"{folder} is a file: a recording is a folder")
    paths = [path for path in present(folder) if RECORDS.fullmatch(path.name)]
    if not paths:
        other = ": it holds the log of a compare run, which padiff_shim.load reads" if any(folder.glob("calls-*.jsonl")) else ""
        raise FileError(f"{folder} holds no recording (records-rank*-pid*.jsonl){other}")
    found: dict[int, Recorded] = {}
    for one in sorted(map(_read, paths), key=lambda one: ("parent" in one.header, one.path.name)):
        first = found.setdefault(one.rank, one)
        if first is not one:
            reason = "a forked child" if "parent" in one.header else "another process of the same rank"
            first.remarks.append(f"{one.path.name}, of {reason}, was not compared ({len(one.tensors):,} records)")
    return dict(sorted(found.items()))


def _read(path: Path) -> Recorded:
    """One file of records."""
    entries = _entries(path)
    header = next(entries, None)
    wrong = "it is empty" if header is None else _not_header(header)
    if wrong or header is None:
        raise FileError(f"{path} is no recording: {wrong}")
    found, damaged = Recorded(path, header), 0
    for entry in entries:
        kind = entry.get("type")
        if kind == "tensor":
            tensor = _tensor(entry, path.parent)
            if tensor is None:
                damaged += 1
            else:
                (found.inputs if tensor.kind == INPUT else found.tensors).append(tensor)
        elif kind == "end":
            found.ended = str(entry.get("how", ""))
        elif kind == "event":
            found.remarks.append(str(entry.get("text", ""))[:2000])
        elif kind != "recording":
            damaged += 1
    if damaged:
        found.remarks.append(f"{damaged:,} lines of {path.name} are no records and left out: the file is damaged")
    if not found.ended:
        found.remarks.append(f"{path.name} has no last line: the process was killed; it is complete up to its last call")
    elif found.ended != "closed":
        found.remarks.append(f"{path.name} ended with {found.ended}")
    return found


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines; what is no JSON object is an empty one."""
    try:
        for _, line in log.lines(path):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = None
            yield entry if isinstance(entry, dict) else {}
    except log.LogError as error:
        raise FileError(str(error)) from None


def _not_header(header: dict[str, Any]) -> str:
    """What is wrong with a first line; "" if nothing is."""
    if header.get("type") != "recording":
        return "its first line is not that of a recording"
    schema = header.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        return f"schema {schema!r} is not known here (up to {SCHEMA}); a newer version wrote it"
    if not isinstance(header.get("rank"), int) or header.get("framework") not in ("paddle", "torch"):
        return "its first line does not say rank and framework"
    tables = ("environment", "flags", "options")
    return "" if all(isinstance(header.get(name, {}), dict) for name in tables) else "its first line is damaged"


def _tensor(entry: dict[str, Any], folder: Path) -> Tensor | None:
    """A record of the types that docs/record.md gives its fields; None for one that is not."""
    shape, names, at = entry.get("shape"), entry.get("names", [entry.get("name")]), entry.get("at")
    told, taken, rows = entry.get("figures", {}), entry.get("sample", []), entry.get("rows", [])
    texts = [entry.get(name, "") for name in ("tensor", "layer", "site", "file", "function", "digest", "left_out", "dtype")]
    numbers = [entry.get(name, 0) for name in ("index", "line", "step")]
    plain = (
        entry.get("kind") in KINDS
        and shape is not None
        and _are(shape, int)
        and len(shape) <= _DIMENSIONS
        and all(0 <= size < 2**48 for size in shape)
        and bool(names)
        and _are(names, str)
        and _are(texts, str)
        and _are(numbers, int)
        and _are(rows, str)
        and isinstance(told, dict)
        and isinstance(taken, list)
        and len(taken) <= 2 * figures.SAMPLE
        and (at is None or _is_place(at))
    )
    if not plain or shape is None:
        return None
    told, sample = numeric(told), numeric(taken)
    if not all(type(told.get(name, 0)) in (int, float) for name in _FIGURES) or not all(
        type(one) in (int, float, bool) for one in sample
    ):
        return None
    tensor, layer, site, file, function, digest, left_out, dtype = texts
    index, line, step = numbers
    return Tensor(
        index, entry["kind"], tuple(names), tensor, layer, site, file, line, function, step, tuple(shape), dtype, digest,
        {name: float(told[name]) for name in _FIGURES if name in told}, left_out, tuple(map(float, sample)), folder,
        None if at is None else (at[0], at[1]), tuple(rows),
    )  # fmt: skip


def _are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(one) is kind for one in values)


def _is_place(at: Any) -> bool:
    """Whether a record points into a file of values beside it, and nowhere else."""
    named = isinstance(at, list) and len(at) == 2 and type(at[0]) is str and type(at[1]) is int
    return named and bool(VALUES.fullmatch(at[0])) and 0 <= at[1] < 2**62
