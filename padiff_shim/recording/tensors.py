"""What a recording says of a tensor: a digest of its bits, figures that do not depend on its layout, a sample, and its values."""

from __future__ import annotations

import functools
import hashlib
import io
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import FileError
from ..runlog.encoding import finite
from ..runlog.events import CLIPPED, IN_STEP, LOSS, NAMED, STATE
from ..runlog.reader import LogError, open_log
from ..text import code_line, joined, marked, short_line, shown, tr
from ..trees import numbers

Array = np.ndarray[Any, Any]
SAMPLE = 64  # elements, evenly spaced in memory order
ROWS = 1024  # of a batch whose samples have digests of their own
INPUT = "input"
GRADIENTS = (CLIPPED, IN_STEP, "gradient")  # the first of them that was recorded is what an update uses


class RowKind(NamedTuple):
    """What is said of a kind of tensors.

    Attributes:
        word: before the name of a tensor; "" where it goes by its name alone.
        column: the head of its column in a table of steps; "": it has none.
        place: of a first difference there, of which nothing else tells the reason.
        brief: the same in few words, where it is long.
    """

    word: str = ""
    column: str = ""
    place: str = ""
    brief: str = ""


ROW_KINDS = {
    "op": RowKind(
        "",
        tr("calls equal"),
        marked("all before agrees: this call has other arguments, or reads something else beside"),
        marked("all before agrees"),
    ),
    "layer": RowKind(
        marked("layer"),
        tr("layers equal"),
        marked("all before agrees: this layer computes something else, or draws other random numbers"),
        marked("all before agrees"),
    ),
    LOSS: RowKind(place=marked("what the layers return agrees, the loss does not")),
    "gradient": RowKind(marked("gradient"), tr("gradients equal"), marked("the forward agrees, the backward does not")),
    IN_STEP: RowKind(
        marked("step gradient"),
        tr("step gradients equal"),
        marked("a sum over ranks, accumulation or unscaling: gradients behind the backward agree"),
        marked("gradients behind the backward agree"),
    ),
    CLIPPED: RowKind(marked("clipped gradient"), place=marked("gradients agree before clipping, and not behind it")),
    STATE: RowKind(marked("optimizer state"), tr("optimizer states equal")),
    "parameter": RowKind(marked("parameter"), tr("parameters equal")),
    "note": RowKind(marked("note"), place=marked("all before agrees, this value does not")),
    INPUT: RowKind(marked("input")),
}
WEIGHT = "weight"  # the ``tensor`` of an input that is a parameter or buffer as the run begins
NORM = "gradient norm"  # the note of what gradients were clipped by
_FIGURES = ("min", "max", "mean", "mean_abs", "norm", "nan", "inf", "max_abs", "projection")
_HEADER = 10_000  # bytes of an array's header in NumPy's format


def digest(array: Array) -> str:
    """128 bits of all bytes in C order, as hexadecimal digits: equal for equal bits."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return hashlib.blake2b(flat.view(np.uint8).data, digest_size=16).hexdigest()


def md5(array: Array) -> str:
    """Of the bytes of an array in C order, as people post it."""
    return hashlib.md5(np.ascontiguousarray(array).tobytes(), usedforsecurity=False).hexdigest()


def rows(array: Array) -> list[str]:
    """Short digests of the slices along the first axis, the samples of a batch; none beyond :data:`ROWS`."""
    if not array.ndim or not 0 < len(array) <= ROWS:
        return []
    return [digest(row)[:16] for row in array]


def figures(array: Array) -> dict[str, Any]:
    """Least, greatest and mean element, mean absolute one and Euclidean norm of the finite elements; how many are not finite."""
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


_TOGETHER: dict[str, Callable[[list[float]], float]] = {
    "min": min, "max": max, "max_abs": max, "norm": lambda norms: math.hypot(*norms), "nan": sum, "inf": sum,
}  # fmt: skip


def figures_together(parts: Sequence[Tensor]) -> dict[str, float]:
    """Those of the tensor that parts make, as far as those of the parts determine them."""
    common = set.intersection(*(set(part.figures) for part in parts))
    figures = {name: [part.figures[name] for part in parts] for name in common}
    together = {name: way(figures[name]) for name, way in _TOGETHER.items() if name in common}
    if "mean_abs" in common:
        together["mean_abs"] = float(np.average(figures["mean_abs"], weights=[part.size for part in parts]))
    return together


def places(size: int) -> Array:
    """The places of a sample's elements in a flat array of this size."""
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
    """The upper halves of float32 numbers that bfloat16 holds, as uint16."""
    words = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return words.reshape(array.shape)  # that of a single number has become [1]


@dataclass(frozen=True)
class RecordedOperand:
    """A tensor that a call has read.

    Attributes:
        name: of the parameter.
        dtype: its name. ``shape``: in elements.
        digest: of the bits in C order; "" where they are not known.
        strides: in elements, as a text; "" where it lies in C order.
        graph: a gradient goes back to it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    strides: str
    graph: bool


@dataclass(frozen=True)
class CallReads:
    """What a call has read.

    Attributes:
        operands: the tensors.
        arguments: the other arguments, as texts.
        family: that of the op in docs/ops.md; "" where the table lacks it.
        draws: it has drawn random numbers.
        kernels: "torch" where a mode has it answered by Torch's kernels, else "".
    """

    operands: tuple[RecordedOperand, ...]
    arguments: Mapping[str, str]
    family: str
    draws: bool
    kernels: str


@dataclass(eq=False)
class Tensor:
    """One tensor of a recording.

    Attributes:
        index: number of the record.
        kind: ``op``, ``layer``, ``parameter``, ``gradient``, ``step gradient``, ``note``, ``input``, or ``loss``.
        names: of an op those under which the table knows it, else the one name.
        tensor: ``out``, or which one of several results it is.
        layer: dotted path of the innermost running layer.
        site, file, line: the user's line.
        function: of an op, the entry point.
        step: from 0.
        shape, dtype: of the tensor.
        digest: of the bits; two of different lengths cannot be compared.
        figures: by name, see docs/record.md.
        left_out: why there are no values, or "".
        sample: some elements; "nan", "inf" and "-inf" as texts.
        rows: of an input, digests of its samples.
        call: number of the call, layer or backward, shared by its tensors.
        reads: of an op, what the call has read; None where that was not recorded.
        weight: of an op outside of layers, the parameter that it is computed of, as an average of weights is; "" of others.
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
    sample: tuple[Any, ...]
    _folder: Path
    _at: tuple[str, int] | None
    rows: tuple[str, ...] = ()
    call: int = field(default=0)
    reads: CallReads | None = field(default=None, repr=False)
    weight: str = ""

    @property
    def name(self) -> str:
        """Of the op, the layer's class, the parameter or the note."""
        return self.names[0]

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def parts_known(self) -> Sequence[Tensor]:
        """It alone; of several ranks, what each of them has of it."""
        return (self,)

    def values(self) -> Array | None:
        """The array as it was computed, bfloat16 and float8 as float32; None if it was left out.

        Raises:
            FileError: the file of values is missing or damaged.
        """
        if self._at is None:
            return None
        path = self._folder / self._at[0]
        stored = _array(path, self._at[1])
        array = numbers(stored, self.dtype)
        if array.shape != self.shape or (array is stored and array.dtype.name != self.dtype):
            raise FileError(
                tr(
                    "{path}: at byte {at} lies an array {dtype} {shape}, where record {index} says "
                    "{recorded_dtype} {recorded_shape}",
                    path=path,
                    at=self._at[1],
                    dtype=array.dtype,
                    shape=list(array.shape),
                    index=self.index,
                    recorded_dtype=self.dtype,
                    recorded_shape=list(self.shape),
                )
            )
        return array

    def sentence(self, *, brief: bool = False) -> str:
        """What it is, where, in the language of who reads it; ``brief``: without layer, folder and function."""
        name = shown(self.name if self.tensor in ("", "out") else f"{self.name} {self.tensor}")
        what: str = tr("loss") if self.kind == LOSS else name
        if kind := ROW_KINDS[self.kind].word:
            what = tr("{kind} {name}", kind=tr(kind), name=what)
        if brief:
            return tr("{what}, {site}", what=what, site=short_line(self.site)) if self.site else what
        if self.layer:
            what = joined("", (what, tr(" in layer {layer}", layer=shown(self.layer))))
        return tr("{what}, {site}", what=what, site=code_line(self.site)) if self.site else what

    def __str__(self) -> str:
        return str(self.sentence())


def tensor_of(record: Mapping[str, Any], folder: Path) -> Tensor:
    """A tensor from its record, which was checked against the schema."""
    at, stated = record.get("at"), record.get("figures") or {}
    return Tensor(
        _whole(record, "index"), record["kind"], tuple(record.get("names") or [record.get("name") or ""]), _text(record, "tensor"),
        _text(record, "layer"), _text(record, "site"), _text(record, "file"), _whole(record, "line"), _text(record, "function"),
        _whole(record, "step"), tuple(record["shape"]), _text(record, "dtype"), _text(record, "digest"),
        {name: float(stated[name]) for name in _FIGURES if stated.get(name) is not None}, _text(record, "left_out"),
        tuple(record.get("sample") or ()), folder, None if at is None else (at[0], at[1]),
        tuple(record.get("rows") or ()), _whole(record, "call"), _reads(record),
    )  # fmt: skip


def _reads(record: Mapping[str, Any]) -> CallReads | None:
    entries = record.get("operands")
    if entries is None:
        return None
    operands = [
        RecordedOperand(
            **{name: _text(entry, name) for name in ("name", "dtype", "digest", "strides")},
            shape=tuple(entry.get("shape") or ()),
            graph=bool(entry.get("graph")),
        )
        for entry in entries
    ]
    arguments = dict(record.get("arguments") or {})
    return CallReads(tuple(operands), arguments, _text(record, "family"), bool(record.get("draws")), _text(record, "kernels"))


def _text(record: Mapping[str, Any], name: str) -> str:
    return record.get(name) or ""


def _whole(record: Mapping[str, Any], name: str) -> int:
    return record.get(name) or 0


@functools.lru_cache(4096)
def _header(line: bytes) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, whether columns come first, and dtype: NumPy parses each header as Python, and those of a run repeat."""
    file = io.BytesIO(line)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file, max_header_size=_HEADER)


def _array(path: Path, at: int) -> Array:
    """The array that begins at a byte of a file of values."""
    try:
        with open_log(path) as file:
            file.seek(at)
            shape, by_columns, dtype = _header(file.readline(_HEADER))
            count = math.prod(shape)
            if dtype.hasobject or count * dtype.itemsize > os.fstat(file.fileno()).st_size - file.tell():
                raise ValueError(tr("its values are not all there"))
            return np.fromfile(file, dtype, count).reshape(shape, order="F" if by_columns else "C")
    except LogError as error:
        raise FileError(tr("the values of a recording are missing: {error}", error=error)) from None
    except Exception as error:  # NumPy raises anything for a damaged or hostile file
        raise FileError(
            tr(
                "{path}: no array at byte {at} ({type}: {error})",
                path=path,
                at=at,
                type=type(error).__name__,
                error=str(error)[:200],
            )
        ) from None


# Names of running statistics in Paddle -> in Torch.
_STATISTICS = {"_mean": "running_mean", "_variance": "running_var"}
STATISTICS = tuple(_STATISTICS.values())
VARIANCES = ("_variance", "running_var")
STATISTICS_OF_BOTH = (*_STATISTICS, *STATISTICS)


def is_weight(tensor: Tensor) -> bool:
    """Whether it goes by the name of a parameter or buffer."""
    return tensor.kind in NAMED or (tensor.kind == INPUT and tensor.tensor == WEIGHT)


def numbered(tensors: Iterable[Tensor], key: Callable[[Tensor], Any]) -> Iterator[tuple[Any, Tensor]]:
    """Each with its key and the number of earlier ones with that key."""
    count: Counter[Any] = Counter()
    for tensor in tensors:
        name = key(tensor)
        yield (name, count[name]), tensor
        count[name] += 1


def parameter_name(name: str) -> str:
    """The name of a parameter or buffer, running statistics as Torch calls them."""
    above, dot, last = name.rpartition(".")
    return above + dot + _STATISTICS.get(last, last)


_SCALING = frozenset({"multiply", "divide", "scale", "mul", "div"})


def is_loss(tensor: Tensor) -> bool:
    """Whether a backward starts from it, or a program notes it as its loss."""
    return tensor.kind == LOSS or (tensor.kind == "note" and tensor.size == 1 and "loss" in tensor.name.lower())


def may_be_loss(tensor: Tensor) -> bool:
    """Whether it is a single number that the program makes outside of its model, or that a layer returns."""
    outside = tensor.kind == "layer" or (tensor.kind == "op" and not tensor.layer)
    return outside and tensor.size == 1 and "float" in tensor.dtype


def scales_loss(tensor: Tensor) -> bool:
    """Whether a call's result may be a scaled loss."""
    return tensor.size == 1 and tensor.kind == "op" and bool(_SCALING.intersection(tensor.names))


# ---- Arithmetic on tensors


def multiple(values: Array, of: Array, within: float) -> float | None:
    """By which ``values`` are ``of``; None where they are no multiple of it within this, relative."""
    square = float(np.vdot(of, of))
    factor = float(np.vdot(values, of)) / square if square else 0.0
    return factor if factor and np.linalg.norm(values - factor * of) <= within * np.linalg.norm(values) else None


def wide(tensor: Tensor | None) -> Array | None:
    """Values in float64; None where they are not known, or not all finite numbers."""
    values = None if tensor is None or tensor.kind == LOSS else tensor.values()
    known = None if values is None or np.iscomplexobj(values) else values.astype(np.float64)
    return None if known is None or not np.isfinite(known).all() else known


def linear(tensor: Tensor | None) -> Array | None:
    """Values in float64, or figures of a fingerprint that add up as the values do: mean and projection."""
    values = wide(tensor)
    if values is None and tensor is not None and tensor.size == 1 and "mean" in tensor.figures:
        values = np.array([tensor.figures["mean"]])
    elif values is None and tensor is not None and {"mean", "projection"} <= tensor.figures.keys():
        values = np.array([tensor.figures["mean"] * tensor.size, tensor.figures["projection"]])
    return values
