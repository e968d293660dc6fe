"""The files of a recording: records as JSON Lines beside arrays in NumPy's format; written, and read back with care."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileError, MissingFileError
from ..runlog import log
from ..runlog.encoding import finite, numeric
from ..runlog.log import LogWriter, tell_of_forks

# ---- What is written of a tensor beside its values: a digest, a few figures that do not depend on its layout, and a sample.

Array = np.ndarray[Any, Any]
SAMPLE = 64  # elements, evenly spaced in memory order
ROWS = 1024  # of a batch whose samples are told apart


def digest(array: Array) -> str:
    """128 bits of all bytes in C order: equal for equal bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return hashlib.blake2b(flat.view(np.uint8).data, digest_size=16).hexdigest()


def rows(array: Array) -> list[str]:
    """Short digests of the slices along the first axis, the samples of a batch: equal for equal bits. None beyond some thousand."""
    if not array.ndim or not 0 < len(array) <= ROWS:
        return []
    return [digest(row)[:16] for row in array]


def figures(array: Array) -> dict[str, Any]:
    """Least, greatest and mean element, mean absolute one, and the Euclidean norm, of what is finite; how much is not."""
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat
    wide = flat.astype(np.float64)
    good = wide[np.isfinite(wide)]
    result: dict[str, Any] = {"nan": int(np.isnan(wide).sum())}
    result["inf"] = int(wide.size - good.size - result["nan"])
    if good.size:
        size = np.abs(good)
        result |= {"min": float(good.min()), "max": float(good.max()), "mean": float(good.mean())}
        top = float(size.max())
        norm = top * float(np.sqrt(np.square(size / top).sum())) if top else 0.0  # the squares alone could overflow
        result |= {"mean_abs": float(size.mean()), "norm": norm}
    return result


def places(size: int) -> Array:
    """Which elements the sample of so many has."""
    return np.arange(size) if size <= SAMPLE else np.linspace(0, size - 1, SAMPLE).astype(np.int64)


def sample(array: Array) -> list[Any]:
    """Some of the elements as JSON holds them, exactly."""
    flat = np.ascontiguousarray(array).reshape(-1)
    chosen = flat[places(flat.size)]
    if np.iscomplexobj(chosen):
        chosen = chosen.view(chosen.real.dtype)
    wide = chosen.astype(np.float64) if chosen.dtype.kind == "f" else chosen
    return list(finite(wide.tolist()))


def as_bfloat16(array: Array) -> Array:
    """The upper halves of float32 numbers that bfloat16 holds."""
    return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat16(words: Array) -> Array:
    """The inverse of :func:`as_bfloat16`."""
    return (words.astype(np.uint32) << 16).view(np.float32)


# ---- The files of a recording: records as JSON Lines, and beside them all values, one array in NumPy's format after the other.
#
# docs/record.md is the schema. Values are written before the record that names them, each with one ``write`` to the operating
# system,
# so that what a record says is there, however the process ends.

SCHEMA = 1
RECORDS = re.compile(r"records-rank(\d{1,9})-pid(\d{1,12})(?:-(\d{1,9}))?\.jsonl")
VALUES = re.compile(r"values-rank(\d{1,9})-pid(\d{1,12})(?:-(\d{1,9}))?\.npy")


def present(folder: Path, rank: int | None = None) -> list[Path]:
    """The files of recordings in a folder, of one rank or of all; none where there is no folder.

    Raises:
        FileError: the folder cannot be read.
    """
    try:
        names = sorted(os.listdir(folder)) if folder.exists() else []
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be read: {error.strerror or error}") from None
    matches = [(RECORDS.fullmatch(name) or VALUES.fullmatch(name), name) for name in names]
    return [folder / name for match, name in matches if match and rank in (None, int(match[1]))]


class ValueFile:
    """Arrays, appended to a file of this process."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._file: io.RawIOBase | None = None
        self._name = ""
        self._size = 0
        self._known: dict[tuple[str, str, tuple[int, ...]], tuple[str, int]] = {}
        tell_of_forks(self)

    def add(self, array: Array, digest: str) -> tuple[tuple[str, int], int]:
        """Where an array lies, and how many bytes were written for it: none for one that is there already.

        Raises:
            OSError: it cannot be written.
        """
        key = digest, array.dtype.str, array.shape
        known = self._known.get(key)
        if known is not None:
            return known, 0
        if self._file is None:
            self._begin()
        assert self._file is not None
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
        rest = buffer.getbuffer()
        place, length = (self._name, self._size), len(rest)
        while len(rest):
            written = self._file.write(rest) or 0
            self._size += written
            rest = rest[written:]
        self._known[key] = place
        return place, length

    def _begin(self) -> None:
        number = 1
        while self._file is None:
            name = f"values-rank{self._rank}-pid{os.getpid()}" + (f"-{number}" if number > 1 else "") + ".npy"
            number += 1
            try:
                self._file = open(self._folder / name, "xb", buffering=0)  # noqa: SIM115 (it stays open)
                self._name, self._size = name, 0
            except FileExistsError:
                continue

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def forked(self) -> None:
        """The child of a fork begins a file of its own; it may refer to what the parent wrote."""
        self.close()


class RecordFile:
    """Writes records and values; safe for threads and forks.

    Args:
        folder: made if it does not exist.
        header: what the first line says beside schema, time and process.
        budget: bytes of values that are written; what is beyond is left out, and its record says so.

    Raises:
        FileError: the folder or the file cannot be made.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], budget: int) -> None:
        rank = int(header.get("rank", 0))
        first = {"type": "recording", "schema": SCHEMA, **header}
        self._log = LogWriter(folder, first, on_error="warn", tell=self._tell, stem="records")
        if self._log.failed:
            raise FileError(self._log.failed)
        self._values = ValueFile(folder, rank)
        self._left = budget
        self._lost = ""  # why no more values are written
        self.lock = threading.RLock()
        self.records = 0
        tell_of_forks(self)

    def _tell(self, message: str) -> None:
        if getattr(self, "_log", None) is not None:  # else the constructor raises it
            warnings.warn(message.replace("; verdicts are still counted, but", ":"), RuntimeWarning, stacklevel=2)

    def tensor(self, record: dict[str, Any], array: Array | None = None, sample: Callable[[], list[Any]] = list) -> None:
        """Write a record, with its values before it: ``None`` for what is left out. Without them a record has a sample."""
        with self.lock:
            place = {} if array is None else self._kept(array, record["digest"])
            more = {} if "at" in place else {"sample": sample()}
            self._log.write({"type": "tensor", "index": self.records, **record, **place, **more})
            self.records += 1

    def _kept(self, array: Array, digest: str) -> dict[str, Any]:
        """Where the values lie now, or why they are left out."""
        if self._lost or array.nbytes > self._left:
            return {"left_out": self._lost or "beyond budget="}
        try:
            place, written = self._values.add(array, digest)
        except OSError as error:
            self._lost = f"the values cannot be written: {error.strerror or error}"
            warnings.warn(f"{self._lost}; the recording goes on without them", RuntimeWarning, stacklevel=2)
            return {"left_out": self._lost}
        self._left -= written
        return {"at": list(place)}

    def event(self, kind: str, text: str) -> None:
        """Something that happened between two records."""
        with self.lock:
            self._log.write({"type": "event", "kind": kind, "text": text})

    def close(self, how: str, seconds: float) -> None:
        """The last line; ``how`` the recording ended."""
        with self.lock:
            self._log.write({"type": "end", "how": how, "records": self.records, "seconds": round(seconds, 3)})
            self._log.close()
            self._values.close()

    def forked(self) -> None:
        """In the child of a fork nobody will release a lock that another thread held."""
        self.lock = threading.RLock()
        self.records = 0


# ---- Recordings read back: everything that a folder says is checked before it is used, and nothing is unpickled.

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
        array = from_bfloat16(array) if self.dtype == "bfloat16" and array.dtype == np.uint16 else array
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
        with log.open_log(path) as file:
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
    by_rank: dict[int, Recorded] = {}
    for one in sorted(map(_read, paths), key=lambda one: ("parent" in one.header, one.path.name)):
        first = by_rank.setdefault(one.rank, one)
        if first is not one:
            reason = "a forked child" if "parent" in one.header else "another process of the same rank"
            first.remarks.append(f"{one.path.name}, of {reason}, was not compared ({len(one.tensors):,} records)")
    return dict(sorted(by_rank.items()))


def _read(path: Path) -> Recorded:
    """One file of records."""
    entries = _entries(path)
    header = next(entries, None)
    wrong = "it is empty" if header is None else _not_header(header)
    if wrong or header is None:
        raise FileError(f"{path} is no recording: {wrong}")
    recorded, damaged = Recorded(path, header), 0
    for entry in entries:
        kind = entry.get("type")
        if kind == "tensor":
            tensor = _tensor(entry, path.parent)
            if tensor is None:
                damaged += 1
            else:
                (recorded.inputs if tensor.kind == INPUT else recorded.tensors).append(tensor)
        elif kind == "end":
            recorded.ended = str(entry.get("how", ""))
        elif kind == "event":
            recorded.remarks.append(str(entry.get("text", ""))[:2000])
        elif kind != "recording":
            damaged += 1
    if damaged:
        recorded.remarks.append(f"{damaged:,} lines of {path.name} are no records and left out: the file is damaged")
    if not recorded.ended:
        recorded.remarks.append(f"{path.name} has no last line: the process was killed; it is complete up to its last call")
    elif recorded.ended != "closed":
        recorded.remarks.append(f"{path.name} ended with {recorded.ended}")
    return recorded


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines; what is no JSON object is an empty one."""
    try:
        for _, line in log.log_lines(path):
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
    stated, taken, rows = entry.get("figures", {}), entry.get("sample", []), entry.get("rows", [])
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
        and isinstance(stated, dict)
        and isinstance(taken, list)
        and len(taken) <= 2 * SAMPLE
        and (at is None or _is_place(at))
    )
    if not plain or shape is None:
        return None
    stated, sample = numeric(stated), numeric(taken)
    if not all(type(stated.get(name, 0)) in (int, float) for name in _FIGURES) or not all(
        type(element) in (int, float, bool) for element in sample
    ):
        return None
    tensor, layer, site, file, function, digest, left_out, dtype = texts
    index, line, step = numbers
    return Tensor(
        index, entry["kind"], tuple(names), tensor, layer, site, file, line, function, step, tuple(shape), dtype, digest,
        {name: float(stated[name]) for name in _FIGURES if name in stated}, left_out, tuple(map(float, sample)), folder,
        None if at is None else (at[0], at[1]), tuple(rows),
    )  # fmt: skip


def _are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(type(element) is kind for element in values)


def _is_place(at: Any) -> bool:
    """Whether a record points into a file of values beside it, and nowhere else."""
    named = isinstance(at, list) and len(at) == 2 and type(at[0]) is str and type(at[1]) is int
    return named and bool(VALUES.fullmatch(at[0])) and 0 <= at[1] < 2**62
