"""State dicts from files, read without running code of the file, in time and memory bounded by the file's size."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import ArgumentError, FileError, MissingFileError, MissingFrameworkError, optional, unreadable
from ..text import Sentence, joined, shown, tr

# A pickle calls what it names, and a list of allowed names does not help: ``numpy.dtype`` trusts the state in the file, and with a
# wrong state the file's bytes become the address of an object. So no name means what it says: the few that arrays are pickled with
# stand for functions of this module, a dtype is one of a list, and the rest is numbers, texts, bytes, tuples, lists and dicts. It
# is Python's unpickler in Python: the one in C makes room for the largest place that a file names. Tuples are hashed part by part,
# so a file may neither nest them deeply nor repeat large ones.

STEPS = 10_000_000  # instructions; an array takes some 40
AXES = 64  # NumPy's limit
_VIEWED = 4096  # bytes from which on a value is a view of the file
# Tuples in one another, and the parts of one that stands in several places: they are hashed part by part
_NESTED, _REPEATED = 8, 64
_DTYPES = {name: np.dtype(name) for name in ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]}
_Unpickler: Any = pickle._Unpickler
_NAMES = {ord(code.code): code.name for code in pickletools.opcodes}


def load(data: bytes) -> Any:
    """The content of a pickle of any protocol: plain Python data, in which each array is an :class:`Array`.

    Raises:
        UnpicklingError: it holds anything but arrays of numbers and plain data; the message names it.
        IndexError, ValueError, TypeError, ...: its instructions do not fit each other.
    """
    return _PlainUnpickler(_Bytes(data)).load()


class _Bytes(io.BytesIO):
    """A file of which a large value is a view of the bytes, not a copy."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._view = memoryview(data)

    def read(self, size: int | None = -1, /) -> Any:
        if size is None or size < _VIEWED:
            return super().read(size)
        begin = self.tell()
        self.seek(min(begin + size, len(self._view)))
        return self._view[begin : begin + size]


class Array:
    """An array. ``value``: read-only, over the bytes of the file; None if the file gives no values."""

    def __init__(self, value: np.ndarray | None = None) -> None:
        self.value = value


class _Dtype:
    """A dtype by its name. Its state in the file may give the byte order, and nothing else."""

    def __init__(self, name: Any, align: Any = False, copy: Any = True) -> None:
        if type(name) is not str or name not in _DTYPES:
            shown = repr(name[:20]) if type(name) is str else "that has no name"
            raise UnpicklingError(
                tr("it holds an array of the dtype {shown}; accepted: {dtypes}", shown=shown, dtypes=joined(", ", _DTYPES))
            )
        self.dtype = _DTYPES[name]


_NDARRAY = object()
_INSTRUCTIONS = """
PROTO FRAME MARK STOP PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BUILD
NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 INT LONG BINFLOAT FLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8 UNICODE
SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8 EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT
SETITEM SETITEMS
"""


class _PlainUnpickler(_Unpickler):
    """Reads a pickle of arrays and plain data."""

    instructions = frozenset(_INSTRUCTIONS.split())

    def __init__(self, file: _Bytes) -> None:
        super().__init__(file, encoding="latin1")
        size = len(file.getbuffer())
        # Bytes made of parts of the file, which may name them again and again.
        self._left = {"arrays": size, "texts": size}

    def load(self) -> Any:
        """The value on top of the stack at the end of the pickle."""
        unframer = pickle._Unframer(self._file_read, self._file_readline)  # type: ignore[attr-defined]
        self.read, self.readline, self.readinto = unframer.read, unframer.readline, unframer.readinto
        self._unframer, self.proto = unframer, 0
        self.metastack: list[Any] = []
        self.stack: list[Any] = []
        self.append = self.stack.append
        for _ in range(STEPS):
            code = self.read(1)
            if not code:
                raise UnpicklingError(tr("it has no end"))
            name = _NAMES.get(code[0], repr(code))
            if name not in self.instructions:
                raise UnpicklingError(tr("it has an instruction, {name}, that no state dict needs", name=name))
            if name == "STOP":
                return self.stack.pop()
            self._step(name, code[0])
        raise UnpicklingError(tr("it has more than {steps:,} instructions", steps=STEPS))

    def _step(self, name: str, code: int) -> None:
        """Carry out one instruction."""
        if name == "BUILD":
            self.build(self.stack.pop(), self.stack[-1])
        elif name == "BYTEARRAY8":  # which Python makes before it looks how many there are
            self.append(bytes(self.read(min(int.from_bytes(self.read(8), "little"), sys.maxsize))))
        else:
            self.dispatch[code](self)
        if name.startswith("TUPLE") and _depth(self.stack[-1]) > _NESTED:
            raise UnpicklingError(tr("what it holds repeats itself too often"))
        if name.endswith("GET") and type(value := self.stack[-1]) is tuple and (len(value) > _REPEATED or _depth(value) > 1):
            raise UnpicklingError(tr("what it holds repeats itself too often"))

    def build(self, state: Any, value: Any) -> None:
        """The state of an array, or of a dtype."""
        if type(value) is _Dtype:
            if (
                type(state) is not tuple
                or state[1:2] not in (("<",), ("|",))
                or any(part not in (None, -1, 0) for part in state[2:])
            ):
                raise UnpicklingError(tr("it holds an array of a dtype that is no plain number in little-endian order"))
        elif type(value) is Array and type(state) is tuple and len(state) == 5 and value.value is None:
            _, shape, dtype, by_columns, data = state  # as numpy.ndarray.__reduce__ gives them
            value.value = self._array(data, dtype, shape, "F" if by_columns else "C")
        else:
            raise UnpicklingError(tr("it gives a state to {type} that it cannot have", type=type(value).__name__))

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name: with a meaning of its own, and without a state that a file could write into."""
        module = module.replace("__builtin__", "builtins").replace("numpy._core.", "numpy.core.")
        meanings = {
            "numpy.ndarray": _NDARRAY,
            "numpy.dtype": _Dtype,
            "collections.OrderedDict": dict,
            "builtins.tuple": self._tuple,
            "builtins.bytes": lambda: b"",  # those of an array without elements (protocols 0 to 2)
            "_codecs.encode": self._encoded,
            "numpy.core.multiarray._reconstruct": self._reconstructed,
            "numpy.core.multiarray.scalar": lambda dtype, data=None: None,  # a single number of NumPy's: no weight
            "numpy.core.numeric._frombuffer": lambda *parts: Array(self._array(*parts)),  # protocol 5
        }
        if f"{module}.{name}" not in meanings:
            raise UnpicklingError(tr("it asks for {known}", known=f"{module}.{name}"[:100]))
        return meanings[f"{module}.{name}"]

    def _reconstructed(self, kind: Any, shape: Any, code: Any) -> Array:
        """An array whose state comes next."""
        if kind is not _NDARRAY:
            raise UnpicklingError(tr("it holds an array of a class of its own"))
        return Array()

    def _tuple(self, values: Any) -> tuple[Any, ...]:
        """A tensor outside of a layer: its own name, and its values."""
        if type(values) is not tuple:
            raise UnpicklingError(tr("it holds a tuple of what is none"))
        return values

    def _encoded(self, text: Any, encoding: Any) -> bytes:
        """Bytes (protocols 0 to 2)."""
        if type(text) is not str or encoding != "latin1":
            raise UnpicklingError(tr("it holds bytes in another encoding than they are written in"))
        self._spend("texts", len(text))
        return text.encode("latin1")

    def _array(self, data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
        """An array over bytes of the file."""
        whole = type(shape) is tuple and len(shape) <= AXES and all(type(size) is int and 0 <= size < 2**63 for size in shape)
        if not whole or type(dtype) is not _Dtype or type(data) not in (bytes, memoryview) or order not in ("C", "F"):
            raise UnpicklingError(tr("it holds an array that is none of numbers"))
        if math.prod(shape) * dtype.dtype.itemsize != len(data):
            raise UnpicklingError(
                tr(
                    "it holds an array whose shape, {shape}, is not that of its {count:,} bytes",
                    shape=shown(list(shape), 100),
                    count=len(data),
                )
            )
        self._spend("arrays", len(data))
        return np.frombuffer(data, dtype.dtype).reshape(shape, order=order)

    def _spend(self, what: str, size: int) -> None:
        self._left[what] -= size
        if self._left[what] < 0:
            raise UnpicklingError(
                tr("its arrays are larger than the file") if what == "arrays" else tr("its texts are larger than the file")
            )


def _depth(value: Any) -> int:
    """How many tuples lie in one another."""
    return 1 + max((_depth(part) for part in value if type(part) is tuple), default=0)


class _Opaque:
    """A value that Torch's own unpickler makes."""

    def __call__(self, *arguments: Any) -> _Opaque:
        return _Opaque()

    append = extend = add = __setitem__ = __call__


class _Rehearsal(_PlainUnpickler):
    """Carries a pickle out with values that do nothing, and counts the work that functions of Torch's list would do."""

    instructions = _PlainUnpickler.instructions | {"BINPERSID", "NEWOBJ", "EMPTY_SET", "ADDITEMS", "SHORT_BINSTRING"}

    def __init__(self, file: _Bytes) -> None:
        super().__init__(file)
        self._work = STEPS + len(file.getbuffer())

    def _step(self, name: str, code: int) -> None:
        if name in ("REDUCE", "NEWOBJ", "BUILD"):
            values = self.stack.pop()
            parts = values if isinstance(values, (tuple, list, dict)) else ()
            self._work -= len(parts) + sum(len(part) for part in parts if hasattr(part, "__len__"))
            if self._work < 0:
                raise UnpicklingError(tr("what it holds repeats itself too often"))
            self.stack[-1] = _Opaque() if name != "BUILD" else self.stack[-1]
        elif name in ("BINPERSID", "EMPTY_SET"):
            self.stack[len(self.stack) - (name == "BINPERSID") :] = [_Opaque()]
        else:
            super()._step(name, code)

    def find_class(self, module: str, name: str) -> Any:
        """Torch has a list of its own."""
        return _Opaque()


def try_for_torch(data: bytes, count: int = 1) -> None:
    """Check that the work of Torch's unpickler on ``count`` pickles, one behind the other, is in proportion to their size.

    Raises:
        UnpicklingError: it is not, or Torch does not know an instruction.
        IndexError, ValueError, TypeError, ...: as :func:`load`.
    """
    file = _Bytes(data)
    for _ in range(count):
        _Rehearsal(file).load()


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
        raise ArgumentError(
            "{path} has a name that says no format; accepted: {suffixes}", path=path, suffixes=joined(", ", SUFFIXES)
        )
    try:
        if not path.is_file():
            raise MissingFileError("there is no file {path}", path=path)
        if path.suffix == ".safetensors":
            return _safetensors(path)
        if path.suffix == ".pdparams":
            return _checked(_of_paddle(path), path), "paddle"
        # What ``torch.save`` wrote, which compresses nothing: what unpacks to more than the file holds would take any memory.
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file:
                unpacked = sum(entry.file_size for entry in file.infolist())
                if unpacked > path.stat().st_size:
                    raise FileError(
                        "{path} is no file of torch.save: it unpacks to {unpacked:,} bytes, more than it has",
                        path=path,
                        unpacked=unpacked,
                    )
                for name in file.namelist():
                    if name.endswith("data.pkl"):
                        try_for_torch(file.read(name))
        else:
            try_for_torch(path.read_bytes(), _BEFORE_ZIP)
        return _checked(torch.load(path, map_location="cpu", weights_only=True), path), "torch"
    except (ArgumentError, FileError, MissingFrameworkError):
        raise
    except OSError as error:
        raise unreadable(tr("state dict"), path, error) from error
    except Exception as error:  # whatever a parser says to bytes that are no state dict
        words = error.args[0] if error.args else ""
        reason = words if isinstance(words, Sentence) else f"{type(error).__name__} {(str(error).splitlines() or [''])[0][:200]}"
        raise FileError("{path} is no state dict that can be read safely: {reason}", path=path, reason=reason) from error


def write_file(model: Any, path: str | Path) -> Path:
    """Write the state dict of a ``torch.nn.Module`` or a ``paddle.nn.Layer`` as its framework saves it, and return the path.

    Raises:
        FileError: the file cannot be written.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        (torch if isinstance(model, torch.nn.Module) else paddle).save(model.state_dict(), str(target))
    except (OSError, RuntimeError) as error:  # Torch's writer raises RuntimeError
        raise FileError(
            "{target} cannot be written: {error}", target=target, error=getattr(error, "strerror", None) or error
        ) from error
    return target


def _checked(content: Any, path: Path) -> dict[str, Any]:
    """A dict of tensors; what else a file may hold is named."""
    if not isinstance(content, dict):
        raise ArgumentError("{path} holds a {type}, not a state dict", path=path, type=type(content).__name__)
    if len(content) > MOST:
        raise ArgumentError("{path} holds {count:,} entries; accepted are up to {most:,}", path=path, count=len(content), most=MOST)
    refuse_dicts_within(content, str(path))
    tensors = {key: value for key, value in content.items() if isinstance(value, (torch.Tensor, np.ndarray))}
    if not tensors:
        raise ArgumentError("{path} holds no tensors", path=path)
    return tensors


def refuse_dicts_within(content: Mapping[str, Any], holder: str) -> None:
    """Nothing, for a dict without dicts.

    Raises:
        ArgumentError: it holds some, and where the weights lie.
    """
    dicts = [key for key, value in content.items() if isinstance(value, Mapping)]
    if dicts:
        _, where = max(_counted(content, ""), key=lambda counted: counted[0])
        names = joined(", ", [str(key)[:100] for key in dicts[:5]])
        if where:
            raise ArgumentError("the weights of {holder} lie under {where}: give that part of it", holder=holder, where=where)
        raise ArgumentError("{holder} holds dicts beside its tensors ({names}): leave them out", holder=holder, names=names)


def _counted(content: Mapping[str, Any], where: str) -> Iterator[tuple[int, str]]:
    """How many tensors a dict holds, and each dict within it, with the keys that lead there."""
    yield sum(not isinstance(value, Mapping) and hasattr(value, "shape") for value in content.values()), where
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _counted(value, f"{where}[{str(key)[:100]!r}]")


def _safetensors(path: Path) -> tuple[dict[str, Any], str | None]:
    """The tensors of a safetensors file; its metadata may tell the framework."""
    library = optional("safetensors", "pip install safetensors")
    try:
        with library.safe_open(path, framework="pt", device="cpu") as file:
            written = (file.metadata() or {}).get("format")
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys(), key=_natural)}
            return tensors, {"pt": "torch", "pd": "paddle"}.get(written or "")
    except library.SafetensorError as error:
        raise FileError("{path} is no safetensors file: {error}", path=path, error=error) from None


def _natural(name: str) -> list[tuple[int, str]]:
    """The order of names in which layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _of_paddle(path: Path) -> Any:
    """What ``paddle.save`` wrote: arrays by name, a tensor outside of a layer as (its own name, array)."""
    saved = load(path.read_bytes())
    if not isinstance(saved, dict):
        return saved
    saved.pop("StructuredToParameterName@@", None)
    parts = saved.pop("UnpackBigParamInfor@@", {})  # protocols 2 and 3 hold large arrays in pieces
    state = {name: _values(value[1] if isinstance(value, tuple) and len(value) == 2 else value) for name, value in saved.items()}
    for name, whole in parts.items():
        slices, shape = whole["slices"], whole["OriginShape"]
        if not all(type(part) is str for part in slices) or not all(type(size) is int for size in shape):
            raise ValueError(tr("it holds an array in pieces that have no names, or no shape"))
        pieces = {id(piece): piece for piece in map(state.pop, slices)}
        if len(pieces) < len(slices):  # a small file could make any size of it
            raise ValueError(tr("it holds an array that is made of one piece several times"))
        state[name] = np.concatenate(list(pieces.values())).reshape(shape)
    return state


def _values(value: Any) -> Any:
    """An array as NumPy's; anything else as it is."""
    if not isinstance(value, Array):
        return value
    if value.value is None:
        raise ValueError(tr("it holds an array without values"))
    return value.value
