"""Differences of arrays, small and large, with what is not finite in them."""

import numpy as np
import pytest

from padiff_shim.measure.bits import largest, largests, same_bits

SIZES = [3, 5000, 100_000]
DTYPES = ["float16", "float32", "float64", "complex64", "complex128", "int64", "uint8", "bool"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_is_seen(size, dtype):
    array = np.ones(size, dtype)
    other = array.copy()
    assert same_bits(array, other)
    assert largest(array, other) == 0.0
    other[-1] = 0
    assert not same_bits(array, other)
    assert largest(array, other) == 1.0


@pytest.mark.parametrize("size", SIZES)
def test_zeros_of_other_signs_differ_and_nan_is_nan(size):
    array, other = np.zeros(size, "float32"), np.zeros(size, "float32")
    other[0] = -0.0
    assert not same_bits(array, other)
    assert largest(array, other) == 0.0
    array[:], other[:] = np.nan, np.nan
    assert same_bits(array, other)
    assert largest(array, other) == 0.0
    other.view("int32")[0] |= 1
    assert same_bits(array, other)
    assert largest(array, other) == 0.0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_only_one_has_is_infinitely_far(size, value):
    array, other = np.ones(size, "float32"), np.full(size, 3, "float32")
    array[1] = value
    assert largest(array, other) == np.inf
    other[1] = value
    assert largest(array, other) == 2.0


@pytest.mark.parametrize("size", [4, 300])
def test_layouts_are_no_matter(size):
    array = np.arange(size * size, dtype="float32").reshape(size, size)
    other = np.asfortranarray(array)
    assert same_bits(array, other)
    assert largest(array.T, other.T + np.float32(0.5)) == 0.5
    assert not same_bits(array, other.T)


def test_large_numbers_do_not_overflow():
    array, other = np.full(5, 1e308), np.full(5, -1e307)
    assert largest(array, other) == 1.1e308


def test_many_pairs_at_once_are_told_as_one_by_one():
    rng, pairs = np.random.default_rng(0), []
    for size in (0, 1, 2, 40, 5000, 40_000, 7, 33_000, 3):
        for dtype in ("float16", "float32", "float64", "complex64", "int64", "bool"):
            array = (rng.standard_normal(size) * 3).astype(dtype)
            for change in (None, 0, -1):
                other = array.copy()
                if change is not None and size:
                    other[change] = 1 - other[change]
                pairs.append((array, other))
                if size == 40:
                    pairs.append((array.reshape(5, 8).T, other.reshape(5, 8).T))
            if dtype != "int64" and dtype != "bool" and size:
                for value in (np.inf, -np.inf, np.nan):
                    other, again = array.copy(), array.copy()
                    other[0] = value
                    again[0] = np.inf
                    pairs += [(array, other), (other, other.copy()), (again, other)]
    pairs.append((np.zeros(3), -np.zeros(3)))
    differences = largests(pairs)
    assert [difference or 0.0 for difference in differences] == [largest(*pair) for pair in pairs]
    assert [difference is None for difference in differences] == [same_bits(*pair) for pair in pairs]
    assert largests([]) == []
