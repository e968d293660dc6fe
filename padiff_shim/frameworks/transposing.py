"""Matrices turned on the CPU: by FBGEMM's kernel, which Torch brings along, in less than half the time of ``copy_``.

Torch has no door to it, so its library is asked for the function, whose name says what it takes. It moves values and computes
nothing; that it moves them to their places, bit for bit, is tried before it is used. Without it ``copy_`` serves.

Turned for their norm, matrices get rows that are a cache line longer: those that lie a power of two apart fall into a few sets of
the caches, where they displace one another. The line holds zeros, and Torch's kernel adds the squares of a stretch of memory up in
as many sums as a vector has lanes; the zeros fill whole vectors, so each element stays in its lane, and nothing is added to its
sum. Another version of Torch may add otherwise, so that the norm keeps its bits is tried for each shape before it is used.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

_NAME = "_ZN6fbgemm14transpose_simdIfEEvllPKT_lPS1_l"  # transpose_simd<float>(long, long, float const*, long, float*, long)
_SHAPES = ((1, 1), (3, 7), (16, 16), (37, 129), (5, 64), (64, 5), (130, 48))
_LINE = 16  # of float32: a line of the cache, and the longest vector
_LARGEST = 1 << 22  # elements: trying larger ones would take long, and much memory
_TRIED = 1 << 20  # elements of random matrices that are tried for a shape, of which there are
_FEWEST, _MOST = 4, 24

Turn = Callable[[int, int, int, int, int, int], None]  # rows, columns, source, its row's length, target, its row's length


class Scratch:
    """Memory in which matrices of one dtype are turned, one after the other."""

    def __init__(self, matrices: Sequence[torch.Tensor]) -> None:
        first = matrices[0]
        self._memory = first.new_empty(max(matrix.numel() for matrix in matrices))
        self._place = self._memory.data_ptr()
        self._turn = _turn() if first.dtype is torch.float32 and not first.is_cuda else None

    def turned(self, matrix: torch.Tensor) -> torch.Tensor:
        """The elements of ``matrix.t()`` in its order, along one axis; valid until the next matrix is turned."""
        found = self._memory[: matrix.numel()]
        rows, columns = matrix.shape
        if self._turn is None or not matrix.is_contiguous():
            found.view(columns, rows).copy_(matrix.t())
        else:
            self._turn(rows, columns, matrix.data_ptr(), columns, self._place, rows)
        return found


class _Spaced:
    """Memory in which float32 matrices of so many rows are turned, with a line of zeros behind each row."""

    def __init__(self, turn: Turn, rows: int, columns: int) -> None:
        """``columns``: the most that a matrix has."""
        self._turn, self._rows, self._row = turn, rows, rows + _LINE
        self._memory = torch.empty(columns * self._row, dtype=torch.float32, device="cpu")
        self._memory.view(columns, self._row)[:, rows:].zero_()  # and never written
        self._place = self._memory.data_ptr()
        self._parts: dict[int, torch.Tensor] = {}  # by columns

    def norm(self, matrix: torch.Tensor) -> torch.Tensor:
        """The norm of the turned matrix."""
        columns = matrix.shape[1]
        self._turn(self._rows, columns, matrix.data_ptr(), columns, self._place, self._row)
        part = self._parts.get(columns)
        if part is None:
            part = self._parts[columns] = self._memory[: columns * self._row]
        return torch.linalg.vector_norm(part)


def norms_of_turned(matrices: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """``torch.linalg.vector_norm(matrix.t().contiguous())`` of matrices of one dtype, with its bits, and without their copies."""
    turn = _turn()
    found = {} if turn is None else _norms_of_spaced(turn, matrices)
    scratch: Scratch | None = None
    for place, matrix in enumerate(matrices):
        if place not in found:
            scratch = scratch or Scratch(matrices)
            found[place] = torch.linalg.vector_norm(scratch.turned(matrix))
    return [found[place] for place in range(len(matrices))]


def _norms_of_spaced(turn: Turn, matrices: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The norms of those that may be turned with lines of zeros, by their places."""
    by_rows: dict[int, list[int]] = {}
    threads = torch.get_num_threads()
    for place, matrix in enumerate(matrices):
        rows, columns = matrix.shape
        if _may_be_spaced(matrix, rows, columns) and _keeps_bits(rows, columns, threads):
            by_rows.setdefault(rows, []).append(place)
    found: dict[int, torch.Tensor] = {}
    for rows, places in by_rows.items():
        spaced = _Spaced(turn, rows, max(matrices[place].shape[1] for place in places))
        for place in places:
            found[place] = spaced.norm(matrices[place])
    return found


def _may_be_spaced(matrix: torch.Tensor, rows: int, columns: int) -> bool:
    """Whether lines of zeros keep the elements of a turned matrix in their lanes."""
    return (
        not rows % _LINE
        and 0 < rows * columns <= _LARGEST
        and matrix.dtype is torch.float32
        and not matrix.is_cuda
        and matrix.is_contiguous()
    )


@functools.lru_cache(maxsize=1024)
def _keeps_bits(rows: int, columns: int, threads: int) -> bool:
    """Whether lines of zeros leave the norms of turned matrices of this shape as they are; ``threads`` may share a sum."""
    turn = _turn()
    if turn is None:
        return False
    rng, spaced = torch.Generator().manual_seed(0), _Spaced(turn, rows, columns)
    for _ in range(min(max(_FEWEST, _TRIED // (rows * columns)), _MOST)):
        matrix = torch.randn(rows, columns, generator=rng, dtype=torch.float32, device="cpu")
        if spaced.norm(matrix).item() != torch.linalg.vector_norm(matrix.t().contiguous()).item():
            return False
    return True


@functools.cache
def _turn() -> Turn | None:
    """FBGEMM's function, if it is there and does what its name says."""
    turn = _found()
    return turn if turn is not None and all(_is_right(turn, *shape) for shape in _SHAPES) else None


def _found() -> Turn | None:
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        turn = getattr(library, _NAME)
    except (OSError, AttributeError):  # another system, or another build
        return None
    turn.restype = None
    turn.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
    return turn


def _is_right(turn: Turn, rows: int, columns: int) -> bool:
    """Any bits: NaNs of all kinds, denormals, zeros with signs."""
    bits = torch.randint(
        -(2**31), 2**31, (rows, columns), generator=torch.Generator().manual_seed(0), dtype=torch.int32, device="cpu"
    )
    for line in (0, _LINE):  # behind each row, which stays as it is
        target = torch.full((columns, rows + line), -1, dtype=torch.int32, device="cpu")
        turn(rows, columns, bits.data_ptr(), columns, target.data_ptr(), rows + line)
        if not torch.equal(target[:, :rows], bits.t()) or not (target[:, rows:] == -1).all():
            return False
    return True
