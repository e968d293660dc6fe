"""Arguments with which an op is tried: by the tests over the table, the benchmarks and audits. No framework is imported here.

Sample((3, 4), axis=1)                                  one float tensor, and axis=1
Sample((3, 4), None, 2.5)                               a tensor, an absent one, a number
Sample((5, 7), Ints((5,), 0, 7))                        values and labels
Sample((3, 4), Floats((4,), 0.5, 2.0), within=(-1, 1))  a range for one operand, and one for the others
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Floats:
    """A float tensor in the dtype that is tried, with values from [low, high)."""

    shape: tuple[int, ...]
    low: float
    high: float


@dataclass(frozen=True)
class Ints:
    """An integer tensor with values from [low, high): indices, labels, lengths."""

    shape: tuple[int, ...]
    low: int
    high: int
    dtype: str = "int64"


@dataclass(frozen=True)
class Bools:
    """A bool tensor: a mask."""

    shape: tuple[int, ...]


class Sample:
    """Arguments for one call, in which float tensors have no dtype yet.

    Args:
        operands: one for each tensor parameter, in order (of an op with ``operands=True``: one for each tensor of the sequence).
            A tuple is the shape of a float tensor, drawn from N(0, 1) or as ``positive`` and ``within`` say; a :class:`Floats`,
            :class:`Ints` or :class:`Bools` another tensor; a number itself; ``None`` an absent tensor. Those left out at the end
            are absent too.
        positive: values from [0.5, 2): divisors, operands of roots and logarithms.
        within: ``(low, high)``, the range of the float tensors' values.
        attrs: the other parameters, by the names that the op gives them; those left out have their defaults.

    >>> sample = Sample((3, 4), Ints((3,), 0, 4), axis=1)
    >>> sample.shapes, sample.attrs
    (((3, 4), (3,)), {'axis': 1})
    """

    def __init__(self, *operands: Any, positive: bool = False, within: tuple[float, float] | None = None, **attrs: Any) -> None:
        self.operands, self.attrs = operands, attrs
        self.within = (0.5, 2.0) if positive and within is None else within
        for operand in operands:
            if not (operand is None or isinstance(operand, (tuple, Floats, Ints, Bools, int, float))):
                raise TypeError(f"{operand!r} is no operand of a sample: a shape, Floats, Ints, Bools, a number or None")

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self.attrs.items()]
        limits = [f"within={self.within}"] if self.within is not None else []
        return f"Sample({', '.join([*map(repr, self.operands), *limits, *named])})"

    @property
    def shapes(self) -> tuple[tuple[int, ...] | None, ...]:
        """The shape of each operand; None for a number and for what is absent."""
        return tuple(operand if isinstance(operand, tuple) else getattr(operand, "shape", None) for operand in self.operands)

    @property
    def positive(self) -> bool:
        """The float tensors' values are above 0."""
        return self.within is not None and self.within[0] > 0

    @property
    def empty(self) -> bool:
        """A tensor has no elements."""
        return any(0 in shape for shape in self.shapes if shape is not None)

    def ranged(self, low: float, high: float) -> Sample:
        """The same with the float tensors' values from [low, high)."""
        return Sample(*self.operands, within=(low, high), **self.attrs)

    def also(self, **attrs: Any) -> Sample:
        """The same with more parameters given."""
        return Sample(*self.operands, within=self.within, **{**self.attrs, **attrs})

    def arrays(self, rng: Any, dtype: str = "float32") -> list[Any]:
        """The operands: NumPy arrays (float ones in ``dtype``), numbers and None. ``rng``: a ``numpy.random.Generator``."""
        return [self._array(operand, rng, dtype) for operand in self.operands]

    def _array(self, operand: Any, rng: Any, dtype: str) -> Any:
        if operand is None or isinstance(operand, (int, float)):
            return operand
        if isinstance(operand, Ints):
            return rng.integers(operand.low, operand.high, (1, *operand.shape)).reshape(operand.shape).astype(operand.dtype)
        if isinstance(operand, Bools):
            return rng.integers(0, 2, (1, *operand.shape)).reshape(operand.shape).astype("bool")
        shape = operand if isinstance(operand, tuple) else operand.shape
        limits = self.within if isinstance(operand, tuple) else (operand.low, operand.high)
        # With an axis in front: of 0-D shapes a generator makes numbers, not arrays.
        drawn = rng.standard_normal((1, *shape)) if limits is None else rng.uniform(*limits, (1, *shape))
        return drawn.reshape(shape).astype(dtype)


def ranged(samples: Iterable[Sample], low: float, high: float) -> tuple[Sample, ...]:
    """The samples with values from [low, high)."""
    return tuple(sample.ranged(low, high) for sample in samples)


def each(samples: Iterable[Sample], **attrs: Iterable[Any]) -> tuple[Sample, ...]:
    """Every sample with every value of one parameter, then of the next: ``each(ROWS, keepdim=(False, True))``."""
    results = tuple(samples)
    for name, values in attrs.items():
        results = tuple(sample.also(**{name: value}) for sample in results for value in values)
    return results
