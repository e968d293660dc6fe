"""The calls of an audit: every sample of an op under every stress that means something for it, run with its backward."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import paddle

from ..catalogue.registry import ops
from ..dispatch.frames import paused
from ..dispatch.spelling import called, present, takes
from ..table.op import Entry, Op
from ..table.samples import Sample
from .limits import ELEMENTS, LONGEST
from .programs import DECOMPOSITIONS, PRELUDE, PROGRAMS, UNIQUE, Program
from .stress import EMPTY, IN_VECTORS, LONG, MASKED, STRESSES, WIDE, Stress, changed, laid_out, one_sign, resized, wide

SAMPLES = 4  # of an op under every stress, the first of them in every dtype; further ones are tried plainly
PLAIN = STRESSES[0]
NAMES = ("x", "y", "z")  # of a program's operands


@dataclass(frozen=True)
class Case:
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
    """What is called: an entry of the op for its own sample, or a program that reaches it."""

    sample: Sample
    entry: Entry | None
    program: Program | None


def made(op: Op) -> list[Made]:
    """The calls that the op is tried with: none for ops that do nothing but draw."""
    found = [Made(sample, entry_of(op, sample), None) for sample in op.samples]
    return found + [Made(program.sample, None, program) for program in PROGRAMS.get(op.name, ())]


def entry_of(op: Op, sample: Sample) -> Entry | None:
    """The op's first door, in this Paddle, that takes the sample and leaves its operands as they are."""
    here = (present(entry) for entry in op.entries if not entry.inplace)
    return next((entry for entry in here if entry is not None and takes(op, entry, sample)), None)


def cases(name: str) -> Iterator[Case]:
    """All calls of an op, the plain ones first."""
    op = ops()[name]
    numbered = [(number, one) for number, one in enumerate(made(op)) if one.entry or one.program]
    for number, _ in numbered:
        yield from (Case(name, number, PLAIN.name, dtype) for dtype in PLAIN.dtypes[: 4 if number == numbered[0][0] else 2])
    for place, (number, one) in enumerate(numbered[:SAMPLES]):
        for stress in _stresses(name):
            yield from (Case(name, number, stress.name, dtype) for dtype in stress.dtypes[: 1 if place else None])
        if not place and name not in DECOMPOSITIONS and wide(one.sample) is not None:
            yield from (Case(name, number, f"{stress} {WIDE}", dtype) for stress in _in_vectors(name) for dtype in PLAIN.dtypes[:2])
        for label, _ in resized(one.sample, LONGEST.get(name, ELEMENTS)):
            if name not in DECOMPOSITIONS or label.startswith(EMPTY):
                yield Case(name, number, label, "float32")


def _stresses(name: str) -> list[Stress]:
    """Those that mean something for an op."""
    if name in DECOMPOSITIONS:
        return [one for one in STRESSES if one.name in UNIQUE]
    masked = any(word in name for word in MASKED)
    return [one for one in STRESSES[1:] if masked or one.name != "mask"]


def _in_vectors(name: str) -> list[str]:
    return [one for one in IN_VECTORS if one in {stress.name for stress in _stresses(name)}]


def find(name: str) -> Case:
    """The case of that name."""
    op = name.partition(":")[0]
    return next(case for case in cases(op) if case.name == name)


class Call:
    """A case, ready to be run. Raises ``ValueError`` where its stress means nothing for its sample."""

    def __init__(self, case: Case) -> None:
        self.case, self.op = case, ops()[case.op]
        given, self.entry, self.program = made(self.op)[case.number]
        self.rng = np.random.default_rng(zlib.crc32(case.name.encode()))
        stress, self.sample = _stressed(case, given)
        arrays = self.sample.arrays(self.rng, "float32" if case.dtype == "bfloat16" else case.dtype)
        if case.stress.startswith(LONG):
            arrays = one_sign(self.sample, arrays)
        found = changed(stress, self.sample, arrays, self.rng)
        if found is None:
            raise ValueError(f"{case.stress} means nothing for {given}")
        self.arrays, self.layout = found, stress.layout

    def tensors(self, *, grad: bool) -> list[Any]:
        """The operands as Paddle has them; ``grad``: float ones want a gradient."""
        return [tensor(one, self.layout, self.case.dtype, grad) if isinstance(one, np.ndarray) else one for one in self.arrays]

    def run(self, tensors: list[Any]) -> list[Any]:
        """The results that are tensors."""
        if self.program is not None:
            return _flat(eval(self.program.source, {**_prelude(), **dict(zip(NAMES, tensors))}))
        assert self.entry is not None
        return _flat(called(self.op, self.entry, self.sample, tensors))

    def backward(self, results: list[Any]) -> None:
        """Paddle's backward, from every result that has one, for normal incoming gradients."""
        ends = [one for one in {id(one): one for one in results}.values() if not one.stop_gradient and one.is_floating_point()]
        with paused():  # a cast is an op, too
            drawn = [paddle.to_tensor(np.asarray(self.rng.standard_normal(one.shape), "float32")).astype(one.dtype) for one in ends]
        if ends:
            paddle.autograd.backward(ends, drawn)


@functools.cache
def _prelude() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(PRELUDE, names)
    return names


def _stressed(case: Case, sample: Sample) -> tuple[Stress, Sample]:
    name, _, size = case.stress.partition(" ")
    for stress in STRESSES:
        if stress.name == name:
            return stress, (wide(sample) if size == WIDE else None) or sample
    return PLAIN, dict(resized(sample, LONGEST.get(case.op, ELEMENTS)))[case.stress]


def tensor(array: Any, layout: str, dtype: str, grad: bool) -> Any:
    """A leaf of these values, with other strides on request."""
    floating = array.dtype.kind == "f"
    held, strides, offset = laid_out(array, layout if floating else "contiguous")
    found = paddle.to_tensor(held)
    if strides is not None:
        found = paddle.as_strided(found, list(array.shape), strides, offset)
    found = found.detach().astype(dtype) if floating and dtype == "bfloat16" else found.detach()
    found.stop_gradient = not (grad and floating)
    return found


def _flat(result: Any) -> list[Any]:
    found = [one for item in result for one in _flat(item)] if isinstance(result, (list, tuple)) else [result]
    return [one for one in found if isinstance(one, paddle.Tensor)]
