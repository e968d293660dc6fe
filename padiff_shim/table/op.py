"""The words in which an op is declared. Pure data: no framework is imported here.

A family module of ``patches/`` holds ``OPS = (Op(...), ...)``; everything else (interception, tests, coverage, docs) is
derived from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One door by which a Paddle program reaches the op.

    ``target`` is a dotted path: ``paddle._C_ops.matmul`` (a C function), ``paddle.Tensor.__matmul__`` (a descriptor) or
    ``paddle.nn.functional.linear`` (a Python function).
    ``params`` is the door's own signature as ``"x|input y|other transpose_x=False"``: aliases after ``|``, defaults after
    ``=``, in positional order; parameters are matched with the op's by name, so a reflected operator is just ``"y x"``.
    ``inplace`` doors write the result into their first tensor.
    ``numbers`` are parameters that must be Python numbers at this door; a tensor there stays native.
    ``returns_list`` doors hand back ``[result]`` (``_C_ops.einsum``).
    ``pairs`` doors take the first so many parameters by position, and after them pairs of an attribute's name and its value
    (``paddle._legacy_C_ops``): the last alias is the name there. A parameter that the op does not have may only be its default,
    but for ``reduce_all=True``, which stands for ``axis=None``.
    ``arrange`` turns the door's own arguments, complete and by position, into the op's (an RNN's lists of states and weights).
    A target that the installed Paddle does not have is skipped, except where no door of the op is left.
    """

    target: str
    params: str
    inplace: bool = False
    numbers: tuple[str, ...] = ()
    returns_list: bool = False
    pairs: int | None = None
    arrange: Callable[..., tuple[Any, ...]] | None = None


@dataclass(frozen=True)
class Sample:
    """Arguments for one call in NumPy terms, from which tests and benchmarks build tensors of any dtype and layout.

    ``shapes`` are the shapes of the tensor parameters (``None``: parameter absent); ``attrs`` the other parameters.
    ``positive``: values are drawn from [0.5, 2) instead of N(0, 1) (square roots, divisors).
    """

    shapes: tuple[tuple[int, ...] | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    positive: bool = False


@dataclass(frozen=True)
class Op:
    """A Paddle op and the torch formula that stands for it.

    ``params``: the canonical signature (same notation as :class:`Entry`); ``reference`` takes them all, by position.
    ``tensors``: how many leading parameters are tensors; with ``operands`` the first parameter is a sequence of tensors.
    ``promote``: ``"result"`` casts every tensor to the dtype that the native op returns before the reference runs;
    ``"none"`` leaves dtypes to the reference (LayerNorm keeps float32 weights beside float16 input).
    ``copies_result``: torch's backward reads the result where Paddle's does not, so that Paddle, whose program may change it,
    gets a copy.
    ``unread``: operands that torch's graph keeps although its backward does not read their values, so that they may change.
    ``writes``: of an op with several results: position of a result -> name of the operand in whose memory it is written (running
    statistics).
    ``layouts``: ``{"weight": "transposed"}`` marks the parameter of which the reference wants a contiguous transposed copy.
    ``amp``: Paddle's (legacy) names of the op in the autocast lists, for tensor and for Python-scalar operands.
    ``model``: the op's rounding model (:mod:`padiff_shim.numerics.models`): its bound, its hypotheses and those of its gradients.
    ``integer``: integer and bool results are computed by the reference too; otherwise they stay native, being exact in both.
    ``elementwise``: an element of the result depends on the operands' elements in its place only (asked where an in-place op of
    several tensors has the target as another operand, too).
    """

    name: str
    family: str
    reference: Callable[..., Any]
    params: str
    entries: tuple[Entry, ...]
    samples: tuple[Sample, ...]
    tensors: int = 1
    operands: bool = False
    promote: str = "result"
    copies_result: bool = False
    unread: tuple[str, ...] = ()
    writes: Mapping[int, str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    amp: tuple[str, str] = ("", "")
    model: Any = None
    integer: bool = False
    elementwise: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the parameters, in order."""
        return [word.partition("=")[0].partition("|")[0] for word in self.params.split()]


def c_op(name: str, params: str, **options: Any) -> Entry:
    """The door ``paddle._C_ops.<name>``."""
    return Entry(f"paddle._C_ops.{name}", params, **options)


def legacy(name: str, params: str, *, tensors: int = 1, **options: Any) -> Entry:
    """The door ``paddle._legacy_C_ops.<name>``: ``tensors`` by position, then attributes as pairs of name and value."""
    return Entry(f"paddle._legacy_C_ops.{name}", params, pairs=tensors, **options)


def operator(symbol: str, params: str = "x y") -> Entry:
    """The door ``paddle.Tensor.__<symbol>__``."""
    return Entry(f"paddle.Tensor.__{symbol}__", params)
