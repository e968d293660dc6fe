"""Differences of arrays, small and large, with what is not finite in them."""

import numpy as np
import pytest

from padiff_shim.proof.agreement import largest, largests, same_bits

SIZES = [3, 5000, 100_000]
DTYPES = ["float16", "float32", "float64", "complex64", "complex128", "int64", "uint8", "bool"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_is_seen(size, dtype):
    one = np.ones(size, dtype)
    other = one.copy()
    assert same_bits(one, other)
    assert largest(one, other) == 0.0
    other[-1] = 0
    assert not same_bits(one, other)
    assert largest(one, other) == 1.0


@pytest.mark.parametrize("size", SIZES)
def test_signs_of_zeros_and_payloads_are_bits(size):
    one, other = np.zeros(size, "float32"), np.zeros(size, "float32")
    other[0] = -0.0
    assert not same_bits(one, other)
    assert largest(one, other) == 0.0
    one[:], other[:] = np.nan, np.nan
    assert same_bits(one, other)
    assert largest(one, other) == 0.0
    other.view("int32")[0] |= 1
    assert not same_bits(one, other)
    assert largest(one, other) == 0.0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_only_one_has_is_infinitely_far(size, value):
    one, other = np.ones(size, "float32"), np.full(size, 3, "float32")
    one[1] = value
    assert largest(one, other) == np.inf
    other[1] = value
    assert largest(one, other) == 2.0


@pytest.mark.parametrize("size", [4, 300])
def test_layouts_are_no_matter(size):
    one = np.arange(size * size, dtype="float32").reshape(size, size)
    other = np.asfortranarray(one)
    assert same_bits(one, other)
    assert largest(one.T, other.T + np.float32(0.5)) == 0.5
    assert not same_bits(one, other.T)


def test_large_numbers_do_not_overflow():
    one, other = np.full(5, 1e308), np.full(5, -1e307)
    assert largest(one, other) == 1.1e308


def test_many_pairs_at_once_are_told_as_one_by_one():
    rng, pairs = np.random.default_rng(0), []
    for size in (0, 1, 2, 40, 5000, 40_000, 7, 33_000, 3):
        for dtype in ("float16", "float32", "float64", "complex64", "int64", "bool"):
            one = (rng.standard_normal(size) * 3).astype(dtype)
            for change in (None, 0, -1):
                other = one.copy()
                if change is not None and size:
                    other[change] = 1 - other[change]
                pairs.append((one, other))
                if size == 40:
                    pairs.append((one.reshape(5, 8).T, other.reshape(5, 8).T))
            if dtype != "int64" and dtype != "bool" and size:
                for value in (np.inf, -np.inf, np.nan):
                    other, again = one.copy(), one.copy()
                    other[0] = value
                    again[0] = np.inf
                    pairs += [(one, other), (other, other.copy()), (again, other)]
    pairs.append((np.zeros(3), -np.zeros(3)))
    found = largests(pairs)
    assert [one or 0.0 for one in found] == [largest(*pair) for pair in pairs]
    assert [one is None for one in found] == [same_bits(*pair) for pair in pairs]
    assert largests([]) == []
