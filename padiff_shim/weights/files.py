"""State dicts from files, read without running code of the file, in time and memory bounded by the file's size."""

from __future__ import annotations

import functools
import io
import math
import pickletools
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, ClassVar

import numpy as np
import paddle
import torch

from ..errors import ArgumentError, FileError, MissingFileError, MissingFrameworkError, optional, unreadable
from ..text import joined, shown, tr

# A pickle is read without building anything that the file names. Python's unpickler calls what a file names, and a list of allowed
# names does not help: ``numpy.dtype`` trusts the state in the file, and with a wrong state the file's bytes become the address of
# an object. So nothing is called here. The few names that arrays are pickled with have a meaning of this module's own, a dtype is
# one of a list, and everything else is numbers, texts, bytes, tuples, lists and dicts. The size of a file bounds the cost of
# reading it: arrays are views of the bytes that were read.

STEPS = 10_000_000  # instructions; an array takes some 40
AXES = 64  # NumPy's limit
_VIEWED = 4096  # bytes from which on a value is a view of the file
_KINDS = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
_DTYPES = {name: np.dtype(name) for name in _KINDS}


def load(data: bytes) -> Any:
    """The content of a pickle of any protocol: plain Python data, in which each array is an :class:`Array`.

    Raises:
        UnpicklingError: it holds anything but arrays of numbers and plain data; the message names it.
        IndexError, ValueError, TypeError: its instructions do not fit each other.
    """
    return _Machine(data).run()


class Array:
    """An array. ``value``: read-only, over the bytes of the file; None if the file gives no values."""

    def __init__(self, value: np.ndarray | None = None) -> None:
        self.value = value


class _Dtype:
    """A dtype by its name. Its state in the file may give the byte order, and nothing else."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype


class _Name(str):
    """Something outside of the file, by its full name."""


class _Bytes(io.BytesIO):
    """The file as ``pickletools`` reads it: a large value is a view of the bytes, not a copy."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._view = memoryview(data)

    def read(self, size: int | None = -1, /) -> Any:
        if size is None or size < _VIEWED:
            return super().read(size)
        begin = self.tell()
        self.seek(begin + size)
        return self._view[begin : begin + size]


class _Machine:
    """The stack and the memo of values that the instructions of a pickle work on."""

    steps: ClassVar[Mapping[str, tuple[Any, ...]]]  # instruction -> its method, and arguments before the instruction's own

    def __init__(self, data: bytes) -> None:
        self._file, self._size_of_file = _Bytes(data), len(data)
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._spent = {"arrays": 0, "texts": 0}  # bytes made of parts of the file, which may name them again and again

    def run(self) -> Any:
        """The value on top of the stack at the end of the pickle."""
        steps = {code: functools.partial(getattr(self, name), *arguments) for code, (name, *arguments) in self.steps.items()}
        for number, (opcode, argument, _) in enumerate(pickletools.genops(self._file)):
            if number >= STEPS:
                raise UnpicklingError(tr("it has more than {steps:,} instructions", steps=STEPS))
            if opcode.name == "STOP":
                return self._stack.pop()
            if opcode.name not in steps:
                raise UnpicklingError(tr("it has an instruction, {name}, that no state dict needs", name=opcode.name))
            steps[opcode.name](*(() if opcode.arg is None else (argument,)))
        raise UnpicklingError(tr("it has no end"))

    # -- instructions

    def nothing(self, argument: Any) -> None:
        """The protocol, or the size of a frame."""

    def push(self, value: Any) -> None:
        """A value in the file itself."""
        self._stack.append(memoryview(value) if type(value) is bytearray else value)

    def plain(self, made: Callable[[], Any]) -> None:
        """A constant, or an empty container."""
        self._stack.append(made())

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def marked(self, made: Callable[[list[Any]], Any]) -> None:
        """A container of all values since the last mark."""
        self._stack.append(made(self._since_mark()))

    def packed(self, count: int) -> None:
        """A tuple of the last values."""
        self._stack.append(tuple(self._last(count)))

    def append(self) -> None:
        self.extend(self._last(1))

    def appends(self) -> None:
        self.extend(self._since_mark())

    def extend(self, values: list[Any]) -> None:
        """Values for the list on top."""
        self._top(list).extend(values)

    def set_item(self) -> None:
        self.update(self._last(2))

    def set_items(self) -> None:
        self.update(self._since_mark())

    def update(self, pairs: list[Any]) -> None:
        """Names and values for the dict on top."""
        self._top(dict).update(_dict(pairs))

    def keep(self, number: int) -> None:
        """Note the last value under a number."""
        self._memo[number] = self._stack[-1]

    def memoize(self) -> None:
        self.keep(len(self._memo))

    def again(self, number: int) -> None:
        """A value from the memo."""
        if number not in self._memo:
            raise UnpicklingError(tr("it repeats what it does not hold"))
        self._stack.append(self._memo[number])

    def name(self, both: str) -> None:
        self._named(*both.split(" ", 1))

    def stacked_name(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._named(module, name)

    def call(self) -> None:
        """The meaning of a known name with its arguments."""
        arguments, name = self._stack.pop(), self._stack.pop()
        if type(name) is not _Name or name not in _MEANINGS or type(arguments) is not tuple:
            raise UnpicklingError(tr("it calls what no state dict is made with"))
        self._stack.append(_MEANINGS[name](self, *arguments))

    def build(self) -> None:
        """The state of an array, or of a dtype."""
        state, value = self._stack.pop(), self._stack[-1]
        if type(value) is _Dtype:
            _check_order(state)
        elif type(value) is Array and type(state) is tuple and len(state) == 5 and value.value is None:
            _, shape, dtype, by_columns, data = state  # as numpy.ndarray.__reduce__ gives them
            value.value = self.array(data, dtype, shape, "F" if by_columns else "C")
        else:
            raise UnpicklingError(tr("it gives a state to {type} that it cannot have", type=type(value).__name__))

    def _last(self, count: int) -> list[Any]:
        values = self._stack[-count:]
        if len(values) < count:
            raise UnpicklingError(tr("it takes more than it holds"))
        del self._stack[-count:]
        return values

    def _since_mark(self) -> list[Any]:
        place = self._marks.pop()
        values = self._stack[place:]
        del self._stack[place:]
        return values

    def _top(self, kind: type) -> Any:
        """The last value, which has to be of this kind."""
        if type(self._stack[-1]) is not kind:
            raise UnpicklingError(
                tr("it has a {type} in the place of a {wanted}", type=type(self._stack[-1]).__name__, wanted=kind.__name__)
            )
        return self._stack[-1]

    def _named(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:  # of a list of lists the text may be of any length
            raise UnpicklingError(tr("it names something by what is no text"))
        known = f"{module}.{name}"
        if known not in _MEANINGS and known != _NDARRAY:
            raise UnpicklingError(tr("it asks for {known}", known=known[:100]))
        self._stack.append(_Name(known))

    def array(self, data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
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

    def encoded(self, text: str) -> bytes:
        """Bytes that are written as text."""
        self._spend("texts", len(text))
        return text.encode("latin1")

    def _spend(self, what: str, size: int) -> None:
        self._spent[what] += size
        if self._spent[what] > self._size_of_file:
            raise UnpicklingError(
                tr("its arrays are larger than the file") if what == "arrays" else tr("its texts are larger than the file")
            )


def _dict(pairs: Sequence[Any]) -> dict[Any, Any]:
    """The dict of names and values by turns."""
    names = pairs[::2]
    if any(type(name) not in (str, int) for name in names):  # to hash a tuple of tuples of tuples may take for ever
        raise UnpicklingError(tr("it holds a dict whose names are no texts"))
    return dict(zip(names, pairs[1::2], strict=True))


def _check_order(state: Any) -> None:
    """The state of a dtype is that of a plain number, which its name has said."""
    if type(state) is not tuple or state[1:2] not in (("<",), ("|",)) or any(part not in (None, -1, 0) for part in state[2:]):
        raise UnpicklingError(tr("it holds an array of a dtype that is no plain number in little-endian order"))


# The meanings of the names that arrays and state dicts are pickled with

_NDARRAY = "numpy.ndarray"


def _reconstruct(machine: _Machine, kind: Any, shape: Any, code: Any) -> Array:
    """An array whose state comes next."""
    if type(kind) is not _Name or kind != _NDARRAY:
        raise UnpicklingError(tr("it holds an array of a class of its own"))
    return Array()


def _from_buffer(machine: _Machine, data: Any, dtype: Any, shape: Any, order: Any) -> Array:
    """An array in one piece (protocol 5)."""
    return Array(machine.array(data, dtype, shape, order))


def _scalar(machine: _Machine, dtype: Any, data: Any = None) -> None:
    """A single number of NumPy's: no weight."""


def _dtype(machine: _Machine, name: Any, align: Any = False, copy: Any = True) -> _Dtype:
    if type(name) is not str or name not in _DTYPES:
        shown = repr(name[:20]) if type(name) is str else "that has no name"
        raise UnpicklingError(
            tr("it holds an array of the dtype {shown}; accepted: {dtypes}", shown=shown, dtypes=joined(", ", _DTYPES))
        )
    return _Dtype(_DTYPES[name])


def _ordered(machine: _Machine) -> dict[Any, Any]:
    return {}


def _tuple(machine: _Machine, values: Any) -> tuple[Any, ...]:
    """A tensor outside of a layer: its own name, and its values."""
    if type(values) is not tuple:
        raise UnpicklingError(tr("it holds a tuple of what is none"))
    return values


def _no_bytes(machine: _Machine) -> bytes:
    """Those of an array without elements (protocols 0 to 2)."""
    return b""


def _encode(machine: _Machine, text: Any, encoding: Any) -> bytes:
    """Bytes (protocols 0 to 2)."""
    if type(text) is not str or encoding != "latin1":
        raise UnpicklingError(tr("it holds bytes in another encoding than they are written in"))
    return machine.encoded(text)


_MEANINGS: dict[str, Callable[..., Any]] = {
    "numpy.dtype": _dtype,
    "collections.OrderedDict": _ordered,
    **{f"{module}.tuple": _tuple for module in ("builtins", "__builtin__")},
    **{f"{module}.bytes": _no_bytes for module in ("builtins", "__builtin__")},
    "_codecs.encode": _encode,
    **{f"numpy.{core}.multiarray._reconstruct": _reconstruct for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray.scalar": _scalar for core in ("core", "_core")},
    **{f"numpy.{core}.numeric._frombuffer": _from_buffer for core in ("core", "_core")},
}


_PUSHED = (
    "BININT BININT1 BININT2 BINFLOAT LONG1 LONG4 INT LONG FLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8 UNICODE SHORT_BINBYTES "
    "BINBYTES BINBYTES8 BYTEARRAY8"
)
_Machine.steps = {
    "PROTO": ("nothing",),
    "FRAME": ("nothing",),
    **dict.fromkeys(_PUSHED.split(), ("push",)),
    "NONE": ("plain", lambda: None),
    "NEWTRUE": ("plain", lambda: True),
    "NEWFALSE": ("plain", lambda: False),
    "EMPTY_DICT": ("plain", dict),
    "EMPTY_LIST": ("plain", list),
    "EMPTY_TUPLE": ("plain", tuple),
    "MARK": ("mark",),
    "DICT": ("marked", _dict),
    "LIST": ("marked", list),
    "TUPLE": ("marked", tuple),
    "TUPLE1": ("packed", 1),
    "TUPLE2": ("packed", 2),
    "TUPLE3": ("packed", 3),
    "APPEND": ("append",),
    "APPENDS": ("appends",),
    "SETITEM": ("set_item",),
    "SETITEMS": ("set_items",),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), ("keep",)),
    "MEMOIZE": ("memoize",),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), ("again",)),
    "GLOBAL": ("name",),
    "STACK_GLOBAL": ("stacked_name",),
    "REDUCE": ("call",),
    "BUILD": ("build",),
}


class _Opaque:
    """A value that Torch's own unpickler makes."""


class _Rehearsal(_Machine):
    """Estimates the work of Torch's unpickler before it runs.

    Torch calls functions from a list of its own, which may take any time: a tuple of two tuples of two tuples and so on takes few
    bytes, for a file may repeat its values, and is hashed leaf by leaf. So the size of a value includes all its repetitions.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._sizes: dict[int, tuple[Any, int]] = {}  # by identity: the value, which has to live, and how many parts it has
        self._left = STEPS + len(data)

    def _size(self, value: Any) -> int:
        if isinstance(value, (str, bytes, memoryview)):
            return 1 + len(value)
        return self._sizes.get(id(value), (value, 1))[1]

    def _grow(self, values: Sequence[Any]) -> None:
        """Add the sizes of more parts to that of the value on top."""
        value = self._stack[-1]
        size = self._size(value) + sum(map(self._size, values))
        self._sizes[id(value)] = value, min(size, 2**62)  # a list may hold itself

    def _do(self, values: Sequence[Any]) -> None:
        """Count the work on each part of these values."""
        self._left -= sum(map(self._size, values))
        if self._left < 0:
            raise UnpicklingError(tr("what it holds repeats itself too often"))

    def packed(self, count: int) -> None:
        values = self._last(count)
        self._stack.append(tuple(values))
        self._grow(values)

    def marked(self, made: Callable[[list[Any]], Any]) -> None:
        values = self._since_mark()
        self._stack.append(tuple(values))
        self._grow(values)

    def extend(self, values: list[Any]) -> None:
        self._grow(values)

    def update(self, pairs: list[Any]) -> None:
        self._do(pairs[::2])
        self._grow(pairs)

    def persistent(self) -> None:
        """A part of the file outside of the pickle."""
        self._do(self._last(1))
        self._stack.append(_Opaque())

    def _named(self, module: Any, name: Any) -> None:
        self._stack.append(_Opaque())

    def call(self) -> None:
        called = self._last(2)
        self._do(called)
        self._stack.append(_Opaque())
        self._grow(called)

    def build(self) -> None:
        state = self._last(1)
        self._do(state)
        self._grow(state)


_Rehearsal.steps = {
    **_Machine.steps,
    "BINPERSID": ("persistent",),
    "NEWOBJ": ("call",),
    "EMPTY_SET": ("plain", _Opaque),
    "ADDITEMS": ("appends",),
    "SHORT_BINSTRING": ("push",),
}


def try_for_torch(data: bytes, count: int = 1) -> None:
    """Check that the work of Torch's unpickler on ``count`` pickles, one behind the other, is in proportion to their size.

    Raises:
        UnpicklingError: it is not, or Torch does not know an instruction.
        IndexError, ValueError, TypeError: as :func:`load`.
    """
    rehearsal = _Rehearsal(data)
    for _ in range(count):
        rehearsal.run()


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
            tr("{path} has a name that says no format; accepted: {suffixes}", path=path, suffixes=joined(", ", SUFFIXES))
        )
    try:
        if not path.is_file():
            raise MissingFileError(tr("there is no file {path}", path=path))
        if path.suffix == ".safetensors":
            return _safetensors(path)
        if path.suffix == ".pdparams":
            return _checked(_of_paddle(path), path), "paddle"
        return _checked(_of_torch(path), path), "torch"
    except (ArgumentError, FileError, MissingFrameworkError):
        raise
    except OSError as error:
        raise unreadable(tr("state dict"), path, error) from error
    except Exception as error:  # whatever a parser says to bytes that are no state dict
        reason = (str(error).splitlines() or [""])[0][:200]
        raise FileError(
            tr(
                "{path} is no state dict that can be read safely: {type} {reason}",
                path=path,
                type=type(error).__name__,
                reason=reason,
            )
        ) from error


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
            tr("{target} cannot be written: {error}", target=target, error=getattr(error, "strerror", None) or error)
        ) from error
    return target


def _checked(content: Any, path: Path) -> dict[str, Any]:
    """A dict of tensors; what else a file may hold is named."""
    if not isinstance(content, dict):
        raise ArgumentError(tr("{path} holds a {type}, not a state dict", path=path, type=type(content).__name__))
    if len(content) > MOST:
        raise ArgumentError(
            tr("{path} holds {count:,} entries; accepted are up to {most:,}", path=path, count=len(content), most=MOST)
        )
    nested = [str(key)[:100] for key, value in content.items() if isinstance(value, dict)]
    tensors = {key: value for key, value in content.items() if isinstance(value, (torch.Tensor, np.ndarray))}
    if nested:
        raise ArgumentError(
            tr(
                "{path} holds dicts ({nested}): load it, and give the one that is the state dict",
                path=path,
                nested=joined(", ", nested[:5]),
            )
        )
    if not tensors:
        raise ArgumentError(tr("{path} holds no tensors", path=path))
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
        raise FileError(tr("{path} is no safetensors file: {error}", path=path, error=error)) from None


def _natural(name: str) -> list[tuple[int, str]]:
    """The order of names in which layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _of_torch(path: Path) -> Any:
    """What ``torch.save`` wrote, which compresses nothing: what unpacks to more than the file holds would take any memory."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            unpacked = sum(entry.file_size for entry in file.infolist())
            if unpacked > path.stat().st_size:
                raise FileError(
                    tr(
                        "{path} is no file of torch.save: it unpacks to {unpacked:,} bytes, more than it has",
                        path=path,
                        unpacked=unpacked,
                    )
                )
            for name in file.namelist():
                if name.endswith("data.pkl"):
                    try_for_torch(file.read(name))
    else:
        try_for_torch(path.read_bytes(), _BEFORE_ZIP)
    return torch.load(path, map_location="cpu", weights_only=True)


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
