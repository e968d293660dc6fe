"""Matrices turned on the CPU: by FBGEMM's kernel, which Torch brings along, in less than half the time of ``copy_``.

Torch has no door to it, so its library is asked for the function, whose name says what it takes. It moves values and computes
nothing; that it moves them to their places, bit for bit, is tried before it is used. Without it ``copy_`` serves.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

_NAME = "_ZN6fbgemm14transpose_simdIfEEvllPKT_lPS1_l"  # transpose_simd<float>(long, long, float const*, long, float*, long)
_SHAPES = ((1, 1), (3, 7), (16, 16), (37, 129), (5, 64), (64, 5), (130, 48))

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
    target = torch.zeros(columns, rows, dtype=torch.int32, device="cpu")
    turn(rows, columns, bits.data_ptr(), columns, target.data_ptr(), rows)
    return torch.equal(target, bits.t())
