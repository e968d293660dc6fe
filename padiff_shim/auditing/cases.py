"""The calls of an audit: every sample of an op under every stress that means something for it, run with its backward."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import paddle

from ..catalogue.registry import ops
from ..dispatch.entry_point import called, present_entry, takes
from ..dispatch.frames import paused
from ..table.op import Entry, Op
from ..table.samples import Floats, Ints, Sample
from .report import ELEMENTS, LONGEST

# A stress changes NumPy operands, or a sample's shapes: long sums, other scales, infinities, NaN, denormal numbers, masks, strides,
# empty tensors. Operands that a sample limits to a range stay in what the range stands for (positive numbers, shares between 0 and
# 1). A stress says nothing of results: the verdict does.

LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")
Array = Any


@dataclass(frozen=True)
class Domain:
    """The values that one operand may have, as far as its sample says."""

    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def of(cls, sample: Sample, operand: Any) -> Domain:
        """The domain of one operand of a sample."""
        limits = (operand.low, operand.high) if isinstance(operand, Floats) else sample.within
        if limits is None:
            return cls()
        low, high = limits
        # A sample's range is where it is drawn from: [0.5, 2) stands for all positive numbers, [1.5, 3) for all above, [-0.9, 0.9)
        # for itself.
        if low > 1:
            return cls(low, math.inf)
        return cls(0.0, math.inf) if low >= 0 and high > 1 else cls(min(low, 0.0), max(high, 0.0))

    @property
    def unlimited(self) -> bool:
        """Every number."""
        return self.low == -math.inf

    def holds(self, factor: float) -> bool:
        """Its values may be multiplied by this."""
        return self.high == math.inf if factor > 1 else self.low <= 0


@dataclass(frozen=True)
class Stress:
    """One way to make a call hard.

    ``change``: ``(array, domain, generator) -> array``, or None where it means nothing for the operand. ``first``: of the first
    float operand alone. ``dtypes``: in which it is tried. ``layout``: how float operands lie in memory. ``says``: for people.
    """

    name: str
    says: str
    change: Callable[[Array, Domain, np.random.Generator], Array | None] | None = None
    first: bool = False
    dtypes: tuple[str, ...] = ("float32", "float64")
    layout: str = "contiguous"


def _times(exponents: dict[str, int]) -> Callable[[Array, Domain, np.random.Generator], Array | None]:
    def change(array: Array, domain: Domain, _: np.random.Generator) -> Array | None:
        factor = 2.0 ** exponents[str(array.dtype)]
        return np.asarray(array * array.dtype.type(factor)) if domain.holds(factor) else None

    return change


def _placed(value: float, count: int = 1) -> Callable[[Array, Domain, np.random.Generator], Array | None]:
    def change(array: Array, domain: Domain, rng: np.random.Generator) -> Array | None:
        if not array.size or (value == -math.inf and not domain.unlimited) or (value == math.inf and not domain.holds(2.0)):
            return None
        changed = array.copy()
        changed.reshape(-1)[rng.integers(0, array.size, count)] = value
        return changed

    return change


def _filled(value: float) -> Callable[[Array, Domain, np.random.Generator], Array | None]:
    def change(array: Array, domain: Domain, _: np.random.Generator) -> Array | None:
        return np.full_like(array, value) if domain.low <= value < domain.high or domain.unlimited else None

    return change


def _masked(array: Array, domain: Domain, rng: np.random.Generator) -> Array | None:
    """A third of the entries taken out, as attention masks do."""
    if not domain.unlimited or array.ndim < 1 or array.shape[-1] < 3:
        return None
    return np.where(rng.random(array.shape) < 1 / 3, array.dtype.type(-1e9), array)


def _denormal(array: Array, domain: Domain, rng: np.random.Generator) -> Array | None:
    """Half of the elements are denormal numbers."""
    if domain.low > 0:
        return None
    tiny = np.finfo(array.dtype).tiny
    small = array * array.dtype.type(tiny / 4)
    return np.where(rng.random(array.shape) < 0.5, small, array) if array.size > 1 else None


def laid_out(array: Array, layout: str) -> tuple[Array, list[int] | None, int]:
    """An array for the memory, and strides (in elements) and offset (in bytes) of its view that has these values."""
    held, strides, offset = array, None, 0
    if layout == "transposed" and array.ndim > 1:
        held = np.ascontiguousarray(np.swapaxes(array, -1, -2))
        strides = np.swapaxes(held, -1, -2).strides
    elif layout == "sliced" and array.ndim and array.size:
        held = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
        held[..., 2:-1] = array
        strides, offset = held.strides, 2 * array.itemsize
    elif layout == "expanded" and array.ndim and array.size:
        held = np.ascontiguousarray(array[:1])
        strides = (0, *held.strides[1:])
    return held, None if strides is None else [stride // array.itemsize for stride in strides], offset


STRESSES: tuple[Stress, ...] = (
    Stress("plain", "as the op's sample has it", dtypes=("float32", "float64", "float16", "bfloat16")),
    *(Stress(layout, f"{layout} operands", dtypes=("float32",), layout=layout) for layout in LAYOUTS[1:]),
    Stress("large", "operands near 1e4", _times({"float32": 13, "float64": 13})),
    Stress("huge", "operands whose squares overflow", _times({"float32": 70, "float64": 550})),
    Stress("small", "operands near 1e-4", _times({"float32": -13, "float64": -13})),
    Stress("tiny", "operands whose squares underflow", _times({"float32": -70, "float64": -550})),
    Stress("denormal", "denormal numbers among the operands", _denormal, first=True),
    Stress("nan", "a NaN among the operands", _placed(math.nan), first=True),
    Stress("inf", "an infinity among the operands", _placed(math.inf), first=True),
    Stress("-inf", "a negative infinity among the operands", _placed(-math.inf), first=True),
    Stress("mask", "a third of the operand is -1e9", _masked, first=True),
    Stress("zeros", "operands of zeros", _filled(0.0), first=True, dtypes=("float32",)),
    Stress("ties", "operands of ones", _filled(1.0), first=True, dtypes=("float32",)),
)
LONG, EMPTY, WIDE = "long", "empty", "wide"
WIDTH = 40  # elements of the longest axis that vectorised kernels take as vectors, with a rest
# Words in the names of ops that get masked entries.
MASKED = ("softmax", "attention", "entropy", "logsumexp", "max", "min", "top", "sort", "relu", "sigmoid", "argm", "where")
IN_VECTORS = ("denormal", "nan", "inf", "-inf", "mask")  # vector loops may treat these otherwise than scalar loops


def changed(stress: Stress, sample: Sample, arrays: Sequence[Any], rng: np.random.Generator) -> list[Any] | None:
    """The operands under a stress; None where it means nothing for this sample."""
    if stress.change is None:
        return list(arrays)
    operands, done = [], False
    for operand, array in zip(sample.operands, arrays):
        new = None
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not (stress.first and done):
            with np.errstate(all="ignore"):
                new = stress.change(array, Domain.of(sample, operand), rng)
        operands.append(array if new is None else new)
        done |= new is not None
    return operands if done else None


def resized(sample: Sample, most_long: int = ELEMENTS) -> Iterator[tuple[str, Sample]]:
    """The sample with each of its sizes in turn made long, and made 0: ``("long 3", ...)``, ``("empty 3", ...)``.

    ``most_long``: the largest long size.

    All axes of one size, in all operands, change together; where that means nothing, both frameworks refuse the call. A size that
    limits integers (indices) is not made 0 while there are such integers.
    """
    shapes = [shape for shape in sample.shapes if shape]
    sizes = sorted({size for shape in shapes[:1] for size in shape if size > 1})
    for size in sizes:
        most = max(shape.count(size) for shape in shapes)
        rest = max(math.prod(other for other in shape if other != size) for shape in shapes)
        long = min(int((ELEMENTS / max(rest, 1)) ** (1 / max(most, 1))), most_long)
        if long >= 4 * size:
            yield f"{LONG} {size}", _with(sample, size, long - long % 2 + 1)
        empty = _with(sample, size, 0)
        if not any(isinstance(operand, Ints) and operand.high == size and 0 not in operand.shape for operand in empty.operands):
            yield f"{EMPTY} {size}", empty


def wide(sample: Sample) -> Sample | None:
    """The sample with the first operand's last axis as long as vectorised kernels want it; None where that makes large operands."""
    shape = next((shape for shape in sample.shapes if shape), ())
    if not shape or not 1 < shape[-1] < WIDTH:
        return None
    wider = _with(sample, shape[-1], WIDTH)
    return wider if all(math.prod(axes) <= ELEMENTS for axes in wider.shapes if axes) else None


def _with(sample: Sample, size: int, other: int) -> Sample:
    def changed_shape(operand: Any) -> Any:
        if isinstance(operand, tuple):
            return tuple(other if axis == size else axis for axis in operand)
        shape = getattr(operand, "shape", None)
        return operand if shape is None else replace(operand, shape=changed_shape(shape))

    return Sample(*map(changed_shape, sample.operands), within=sample.within, **sample.attrs)


def one_sign(sample: Sample, arrays: Sequence[Any]) -> list[Any]:
    """Operands of any sign as positive numbers near 1: the rounding of a long sum shows best where nothing cancels."""
    return [
        np.asarray(abs(array) * array.dtype.type(0.25) + array.dtype.type(0.5))
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and Domain.of(sample, operand).unlimited
        else array
        for operand, array in zip(sample.operands, arrays)
    ]


# Calls of ops whose operands no sample can draw (matrices of a kind, spectra, states): expressions over ``x``, ``y`` and ``z``.


class Program(NamedTuple):
    """An expression in which the op is reached, and the operands that it is of (``x``, ``y``, ``z`` in order)."""

    source: str
    sample: Sample


# The stresses under which a decomposition exists and is the only one: no equal rows, no zeros, full rank.
UNIQUE = frozenset(("transposed", "sliced", "large", "small", "huge", "tiny"))
_FACTORISED = """cholesky qr svd eigh eigvalsh lu lu_unpack eig eigvals lstsq cholesky_inverse ormqr householder_product inverse
slogdet_v2 lu_solve matrix_power matrix_exp multi_dot householder_product cov corrcoef
solve triangular_solve cholesky_solve det slogdet matrix_rank matrix_rank_tol matrix_rank_atol_rtol svdvals pinv corrcoef cond
spectral_norm"""
DECOMPOSITIONS = frozenset(_FACTORISED.split())

_SQUARE = Sample((4, 4))
_DEFINITE = "x @ x.transpose([1, 0]) + 4 * paddle.eye(4, dtype=x.dtype)"
_SIGNAL = Sample((2, 64))

PROGRAMS: dict[str, tuple[Program, ...]] = {
    "cross_entropy_with_softmax": (
        Program("F.softmax_with_cross_entropy(x, y)", Sample((4, 7), Ints((4, 1), 0, 7))),
        Program("F.softmax_with_cross_entropy(x, F.softmax(y), soft_label=True)", Sample((4, 7), (4, 7))),
    ),
    "cholesky": (Program(f"paddle.linalg.cholesky({_DEFINITE})", _SQUARE),),
    "qr": (Program("paddle.linalg.qr(x)", Sample((5, 3))), Program("paddle.linalg.qr(x)", _SQUARE)),
    "svd": (Program("paddle.linalg.svd(x)[1]", Sample((5, 3))),),
    "eigh": (Program("paddle.linalg.eigh(x + x.transpose([1, 0]))[0]", _SQUARE),),
    "eigvalsh": (Program("paddle.linalg.eigvalsh(x + x.transpose([1, 0]))", _SQUARE),),
    "lu": (Program("paddle.linalg.lu(x)[0]", _SQUARE),),
    "lu_unpack": (Program("paddle.linalg.lu_unpack(*paddle.linalg.lu(x))", _SQUARE),),
    "eig": (Program("paddle.linalg.eig(x.detach())", _SQUARE),),
    "eigvals": (Program("paddle.linalg.eigvals(x.detach())", _SQUARE),),
    "lstsq": (Program("paddle.linalg.lstsq(x, y)[0]", Sample((6, 3), (6, 2))),),
    "cholesky_inverse": (Program(f"paddle.linalg.cholesky_inverse(paddle.linalg.cholesky({_DEFINITE}).detach())", _SQUARE),),
    "householder_product": (Program("paddle.linalg.householder_product(x, y)", Sample((5, 3), Floats((3,), 0.5, 1.0))),),
    "ormqr": (Program("paddle.linalg.ormqr(x, y, z)", Sample((5, 3), Floats((3,), 0.5, 1.0), (5, 2))),),
    "fft_r2c": (Program("paddle.fft.rfft(x)", _SIGNAL), Program("paddle.fft.rfft2(x)", Sample((3, 8, 6)))),
    "fft_c2c": (Program("paddle.fft.fft(paddle.complex(x, y))", Sample((2, 64), (2, 64))),),
    "fft_c2r": (Program("paddle.fft.irfft(paddle.complex(x, y))", Sample((2, 33), (2, 33))),),
    "segment_pool": tuple(
        Program(f"paddle.geometric.segment_{pool}(x, y)", Sample((6, 3), Ints((6,), 0, 1)))
        for pool in ("sum", "mean", "max", "min")
    ),
    "index_put": (Program("paddle.index_put(x, (y,), z, accumulate=True)", Sample((5, 3), Ints((4,), 0, 5), (4, 3))),),
    "polar": (Program("paddle.polar(x, y)", Sample(Floats((3, 4), 0.5, 2.0), (3, 4))),),
    "cast": (Program("x.astype('float16')", Sample((3, 4))), Program("x.astype('bfloat16')", Sample((3, 4)))),
    "batch_norm": (
        Program("F.batch_norm(x, y.detach(), z.detach(), training=True)", Sample((4, 3, 5), (3,), Floats((3,), 0.5, 2.0))),
        Program("F.batch_norm(x, y.detach(), z.detach(), training=False)", Sample((4, 3, 5), (3,), Floats((3,), 0.5, 2.0))),
    ),
    "norm_except_dim": (Program("paddle.nn.utils.weight_norm_hook.norm_except_dim(x, 0)", Sample((4, 5))),),
    "rnn": tuple(Program(f"_layer(paddle.nn.{kind}, x.dtype)(x)[0]", Sample((2, 6, 4))) for kind in ("SimpleRNN", "LSTM", "GRU")),
    "stft": (Program("paddle.signal.stft(x, 16)", _SIGNAL),),
    "istft": (Program("paddle.signal.istft(paddle.signal.stft(x, 16), 16)", _SIGNAL),),
    "pdist": (Program("paddle.pdist(x)", Sample((5, 3))),),
}

# The names that an expression may use beside its operands; a reproducer begins with this text.
PRELUDE = """\
import paddle
import paddle.nn.functional as F


def _layer(kind, dtype):
    paddle.seed(0)
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    layer = kind(4, 3)
    paddle.set_default_dtype(before)
    return layer
"""


SAMPLES = 4  # of an op under every stress, the first of them in every dtype; further ones are tried plainly
PLAIN = STRESSES[0]
NAMES = ("x", "y", "z")  # of a program's operands


@dataclass(frozen=True)
class AuditCase:
    """One call. ``name`` is unique: ``"softmax: sample 2, tiny, float32"``."""

    op: str
    number: int
    stress: str
    dtype: str

    @property
    def name(self) -> str:
        """For people, and to find it again."""
        return f"{self.op}: sample {self.number}, {self.stress}, {self.dtype}"

    @property
    def empty(self) -> bool:
        """Operands without elements."""
        return self.stress.startswith(EMPTY)


class Made(NamedTuple):
    """A call: an entry of the op with its own sample, or a program that reaches the op."""

    sample: Sample
    entry: Entry | None
    program: Program | None


def made(op: Op) -> list[Made]:
    """The calls that the op is tried with: none for ops that do nothing but draw."""
    calls = [Made(sample, entry_of(op, sample), None) for sample in op.samples]
    return calls + [Made(program.sample, None, program) for program in PROGRAMS.get(op.name, ())]


def entry_of(op: Op, sample: Sample) -> Entry | None:
    """The op's first entry_point, in this Paddle, that takes the sample and leaves its operands as they are."""
    here = (present_entry(entry) for entry in op.entries if not entry.inplace)
    return next((entry for entry in here if entry is not None and takes(op, entry, sample)), None)


def cases(name: str) -> Iterator[AuditCase]:
    """All calls of an op, the plain ones first."""
    op = ops()[name]
    numbered = [(number, attempt) for number, attempt in enumerate(made(op)) if attempt.entry or attempt.program]
    for number, _ in numbered:
        yield from (AuditCase(name, number, PLAIN.name, dtype) for dtype in PLAIN.dtypes[: 4 if number == numbered[0][0] else 2])
    for place, (number, attempt) in enumerate(numbered[:SAMPLES]):
        for stress in _stresses(name):
            yield from (AuditCase(name, number, stress.name, dtype) for dtype in stress.dtypes[: 1 if place else None])
        if not place and name not in DECOMPOSITIONS and wide(attempt.sample) is not None:
            usual = {stress.name for stress in _stresses(name)}
            in_vectors = [word for word in IN_VECTORS if word in usual]
            yield from (AuditCase(name, number, f"{stress} {WIDE}", dtype) for stress in in_vectors for dtype in PLAIN.dtypes[:2])
        for label, _ in resized(attempt.sample, LONGEST.get(name, ELEMENTS)):
            if name not in DECOMPOSITIONS or label.startswith(EMPTY):
                yield AuditCase(name, number, label, "float32")


def _stresses(name: str) -> list[Stress]:
    """The stresses that mean something for an op."""
    if name in DECOMPOSITIONS:
        return [stress for stress in STRESSES if stress.name in UNIQUE]
    masked = any(word in name for word in MASKED)
    return [stress for stress in STRESSES[1:] if masked or stress.name != "mask"]


def find(name: str) -> AuditCase:
    """The case of that name."""
    op = name.partition(":")[0]
    return next(case for case in cases(op) if case.name == name)


class AuditCall:
    """A case, ready to be run. Raises ``ValueError`` where its stress means nothing for its sample."""

    def __init__(self, case: AuditCase) -> None:
        self.case, self.op = case, ops()[case.op]
        sample, self.entry, self.program = made(self.op)[case.number]
        self.rng = np.random.default_rng(zlib.crc32(case.name.encode()))
        stress, self.sample = _stressed(case, sample)
        arrays = self.sample.arrays(self.rng, "float32" if case.dtype == "bfloat16" else case.dtype)
        if case.stress.startswith(LONG):
            arrays = one_sign(self.sample, arrays)
        operands = changed(stress, self.sample, arrays, self.rng)
        if operands is None:
            raise ValueError(f"{case.stress} means nothing for {sample}")
        self.arrays, self.layout = operands, stress.layout

    def tensors(self, *, grad: bool) -> list[Any]:
        """The operands as Paddle has them; ``grad``: float ones want a gradient."""
        return [
            tensor(array, self.layout, self.case.dtype, grad) if isinstance(array, np.ndarray) else array for array in self.arrays
        ]

    def run(self, tensors: list[Any]) -> list[Any]:
        """The results that are tensors."""
        if self.program is not None:
            return _flat(eval(self.program.source, {**_prelude(), **dict(zip(NAMES, tensors))}))
        assert self.entry is not None
        return _flat(called(self.op, self.entry, self.sample, tensors))

    def backward(self, results: list[Any]) -> None:
        """Paddle's backward, from every result that has one, for normal incoming gradients."""
        distinct = {id(result): result for result in results}.values()
        ends = [result for result in distinct if not result.stop_gradient and result.is_floating_point()]
        with paused():  # a cast is an op, too
            drawn = [paddle.to_tensor(np.asarray(self.rng.standard_normal(end.shape), "float32")).astype(end.dtype) for end in ends]
        if ends:
            paddle.autograd.backward(ends, drawn)


@functools.cache
def _prelude() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(PRELUDE, names)
    return names


def _stressed(case: AuditCase, sample: Sample) -> tuple[Stress, Sample]:
    name, _, size = case.stress.partition(" ")
    for stress in STRESSES:
        if stress.name == name:
            return stress, (wide(sample) if size == WIDE else None) or sample
    return PLAIN, dict(resized(sample, LONGEST.get(case.op, ELEMENTS)))[case.stress]


def tensor(array: Any, layout: str, dtype: str, grad: bool) -> Any:
    """A leaf of these values, with other strides on request."""
    floating = array.dtype.kind == "f"
    held, strides, offset = laid_out(array, layout if floating else "contiguous")
    leaf = paddle.to_tensor(held)
    if strides is not None:
        leaf = paddle.as_strided(leaf, list(array.shape), strides, offset)
    leaf = leaf.detach().astype(dtype) if floating and dtype == "bfloat16" else leaf.detach()
    leaf.stop_gradient = not (grad and floating)
    return leaf


def _flat(result: Any) -> list[Any]:
    results = [inner for item in result for inner in _flat(item)] if isinstance(result, (list, tuple)) else [result]
    return [leaf for leaf in results if isinstance(leaf, paddle.Tensor)]
