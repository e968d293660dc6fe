"""Matrices turned by the kernel that Torch's library has: to the last bit, or not by it."""

import ctypes

import pytest
import torch
from helpers import same
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff_shim.frameworks import weight_copies
from padiff_shim.frameworks.weight_copies import TransposeBuffer, norms_of_turned

sides = st.integers(1, 130)


@settings(max_examples=40)
@given(shapes=st.lists(st.tuples(sides, sides), min_size=1, max_size=4), seed=st.integers(0, 2**31), wide=st.booleans())
def test_elements_come_in_the_order_of_the_turned_matrix(shapes, seed, wide):
    rng = torch.Generator().manual_seed(seed)
    bits, kind = (torch.int64, torch.float64) if wide else (torch.int32, torch.float32)
    given_ = [torch.randint(-(2**31), 2**31, shape, generator=rng, dtype=bits) for shape in shapes]
    scratch = TransposeBuffer([tensor.view(kind) for tensor in given_])
    for value in given_:
        assert torch.equal(scratch.turned(value.view(kind)).view(bits), value.t().reshape(-1))


def test_strided_matrices():
    whole = torch.randn(20, 30)
    for matrix in (whole[:, 3:17], whole[::2], whole.t()):
        assert same(TransposeBuffer([whole]).turned(matrix), matrix.t().reshape(-1))


@pytest.mark.parametrize("kernel", ["none", "wrong"])
def test_a_kernel_that_is_not_there_or_does_something_else_is_not_used(kernel, monkeypatch):
    def wrong(rows, columns, *_):
        assert rows == columns == 1 or (rows, columns) in weight_copies._SHAPES  # asked in the trial alone

    weight_copies._turn.cache_clear()
    monkeypatch.setattr(weight_copies, "_found", lambda: wrong if kernel == "wrong" else None)
    try:
        matrix = torch.randn(33, 21)
        assert weight_copies._turn() is None
        assert same(TransposeBuffer([matrix]).turned(matrix), matrix.t().reshape(-1))
    finally:
        weight_copies._turn.cache_clear()


def random(shape, seed=0, dtype=torch.float32):
    """Values of many sizes: a sum of their squares in another order has other last bits, mostly."""
    rng = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=rng) * torch.rand(shape, generator=rng) ** 3).to(dtype)


def wanted(matrices):
    return [torch.linalg.vector_norm(matrix.t().contiguous()) for matrix in matrices]


@settings(max_examples=40)
@given(
    shapes=st.lists(st.tuples(st.sampled_from([1, 15, 16, 32, 48, 64, 128, 256]), sides), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_norms_are_those_of_the_turned_matrices(shapes, seed):
    """With lines of zeros between their rows or without, each in its place."""
    matrices = [random(shape, seed + i) for i, shape in enumerate(shapes)]
    assert all(same(*pair) for pair in zip(norms_of_turned(matrices), wanted(matrices), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_norms_of_any_values_dtypes_and_strides(dtype):
    whole = random((64, 96), dtype=dtype)
    odd = whole.clone()
    odd[3, 5], odd[9, 7] = float("nan"), float("inf")
    matrices = [
        whole,
        whole[:, :33],
        whole[::2],
        whole.t(),
        torch.zeros_like(whole),
        whole[:0],
        whole * 1e-22,
        whole * 1e19,
        odd,
        odd[4:52],
    ]
    matrices.append(-matrices[4])
    assert all(same(*pair) for pair in zip(norms_of_turned(matrices), wanted(matrices), strict=True))


def test_rows_that_fill_whole_vectors_are_spaced():
    """Which is what the speed comes from."""
    turn, spaced = weight_copies._turn(), [(256, 256), (16, 5), (1024, 256)]
    if turn is None:
        pytest.skip("no kernel that turns")
    matrices = [random(shape) for shape in [*spaced, (24, 8), (3, 7)]]
    assert sorted(weight_copies._norms_of_spaced(turn, matrices)) == [0, 1, 2]


@pytest.mark.parametrize("line", [1, 5])
def test_what_does_not_keep_the_bits_is_not_used(line, monkeypatch):
    """Lines that are no whole vectors put elements into other lanes; the trial of each shape finds it."""
    monkeypatch.setattr(weight_copies, "_LINE", line)
    weight_copies._keeps_bits.cache_clear()
    try:
        matrices = [random(shape, i) for i, shape in enumerate([(256, 256), (48, 33), (1000, 64)])]
        assert weight_copies._turn() is None or weight_copies._norms_of_spaced(weight_copies._turn(), matrices) == {}
        assert all(same(*pair) for pair in zip(norms_of_turned(matrices), wanted(matrices), strict=True))
    finally:
        weight_copies._keeps_bits.cache_clear()


def test_a_kernel_that_writes_between_rows_is_not_used():
    def wrong(rows, columns, source, row, target, line):
        turn(rows, columns, source, row, target, line)
        if line > rows:
            ctypes.memset(target + 4 * rows, 0, 4)

    turn = weight_copies._found()
    if turn is None:
        pytest.skip("no kernel that turns")
    assert all(weight_copies._is_right(turn, *shape) for shape in weight_copies._SHAPES)
    assert not any(weight_copies._is_right(wrong, *shape) for shape in weight_copies._SHAPES)
