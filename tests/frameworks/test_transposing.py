"""Matrices turned by the kernel that Torch's library has: to the last bit, or not by it."""

import pytest
import torch
from helpers import same
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff_shim.frameworks import transposing
from padiff_shim.frameworks.transposing import Scratch

sides = st.integers(1, 130)


@settings(max_examples=40)
@given(shapes=st.lists(st.tuples(sides, sides), min_size=1, max_size=4), seed=st.integers(0, 2**31), wide=st.booleans())
def test_elements_come_in_the_order_of_the_turned_matrix(shapes, seed, wide):
    rng = torch.Generator().manual_seed(seed)
    bits, kind = (torch.int64, torch.float64) if wide else (torch.int32, torch.float32)
    given_ = [torch.randint(-(2**31), 2**31, shape, generator=rng, dtype=bits) for shape in shapes]
    scratch = Scratch([one.view(kind) for one in given_])
    for one in given_:
        assert torch.equal(scratch.turned(one.view(kind)).view(bits), one.t().reshape(-1))


def test_strided_matrices():
    whole = torch.randn(20, 30)
    for matrix in (whole[:, 3:17], whole[::2], whole.t()):
        assert same(Scratch([whole]).turned(matrix), matrix.t().reshape(-1))


@pytest.mark.parametrize("found", ["none", "wrong"])
def test_a_kernel_that_is_not_there_or_does_something_else_is_not_used(found, monkeypatch):
    def wrong(rows, columns, *_):
        assert rows == columns == 1 or (rows, columns) in transposing._SHAPES  # asked in the trial alone

    transposing._turn.cache_clear()
    monkeypatch.setattr(transposing, "_found", lambda: wrong if found == "wrong" else None)
    try:
        matrix = torch.randn(33, 21)
        assert transposing._turn() is None
        assert same(Scratch([matrix]).turned(matrix), matrix.t().reshape(-1))
    finally:
        transposing._turn.cache_clear()
