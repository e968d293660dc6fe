"""How far two tensors are apart: figures, units in the last place, what is not finite, and every dtype of both frameworks."""

import math

import numpy as np
import paddle
import pytest
import torch

from padiff_shim.measure.distance import Distance, distance, unit_in_last_place, worst_of
from padiff_shim.trees import as_array, elements

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]


@pytest.mark.parametrize("shape", [(6,), (50, 2000)])
def test_the_figures_of_a_pair(shape):
    other = np.random.default_rng(0).standard_normal(shape).astype("float32")
    array = other.copy()
    array.flat[3] += 0.5
    array.flat[1] *= 1.5
    apart = np.abs(array.astype("float64") - other)
    measured = distance(array, other, whole=True)
    assert (measured.max_abs, measured.different, measured.elements) == (apart.max(), 2, other.size)
    assert measured.mean_abs == pytest.approx(apart.mean())
    assert measured.relative == pytest.approx(np.linalg.norm(apart) / np.linalg.norm(other.astype("float64")))
    assert measured.max_rel == pytest.approx((apart / np.abs(other)).max())
    assert measured.scale == np.abs(other).max()
    assert measured.equal_share == pytest.approx(1 - 2 / other.size)
    assert measured.first == np.unravel_index(1, shape)
    assert measured.worst == np.unravel_index(apart.argmax(), shape)
    assert measured.quantiles == pytest.approx(
        {share: np.quantile(apart, share, method="inverted_cdf") for share in (0.5, 0.9, 0.99)}
    )
    assert not measured.identical


def test_one_unit_in_the_last_place_is_that_of_the_largest_element():
    for dtype, unit in {"float32": 2**-23, "float64": 2**-52, "float16": 2**-10, "bfloat16": 2**-7, "float8_e4m3fn": 2**-3}.items():
        assert unit_in_last_place(dtype, 1.0) == unit_in_last_place(dtype, 1.75) == unit
        assert unit_in_last_place(dtype, 2.0) == 2 * unit
    array = np.array([3.0, 1.0, 0.0], "float32")
    other = np.array([3.0, 1.0 + 2**-23, -0.0], "float32")
    assert distance(array, other).ulp == 0.5
    assert distance(array, other).share == pytest.approx(2 / 3)
    assert distance(array[:1] * 3, array[:1] * 3 + 2**-6, ("bfloat16", "bfloat16")).ulp == pytest.approx(0.25)
    assert distance(array, other.astype("float64"), ("float32", "float64")).ulp == 0.5  # the coarser dtype's
    assert distance(array, array).ulp == 0.0
    assert distance(np.arange(3), np.arange(3) + 1).ulp is None
    near_zero = np.array([1.0, 1e-12], "float32"), np.array([1.0, 2e-12], "float32")
    assert distance(*near_zero).ulp < 1e-4


@pytest.mark.parametrize("size", [4, 100_000])
def test_zeros_of_other_signs_differ_and_nan_is_nan(size):
    array, other = np.zeros(size, "float32"), np.zeros(size, "float32")
    other[-1] = -0.0
    measured = distance(array, other)
    assert (measured.identical, measured.different, measured.max_abs, measured.first) == (False, 1, 0.0, (size - 1,))
    array[0] = other[0] = np.nan
    other.view("int32")[0] |= 1
    array[1] = other[1] = np.inf
    measured = distance(array, other, whole=True)
    assert (measured.different, measured.max_abs, measured.nan, measured.infinite) == (1, 0.0, (1, 1), (1, 1))
    other[1] = -np.inf
    measured = distance(array, other)
    assert (measured.max_abs, measured.ulp, measured.worst) == (math.inf, math.inf, (1,))
    array[2] = np.nan
    assert distance(array, other, whole=True).nan == (2, 1)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)
def test_every_dtype_has_a_distance(dtype):
    array = np.ones(40_000, dtype)
    other = array.copy()
    assert distance(array, other).identical
    other[7] = 0
    measured = distance(array, other)
    assert (measured.max_abs, measured.different, measured.first) == (1.0, 1, (7,))
    with_double = distance(array, other.astype("complex128"))
    assert (with_double.max_abs, with_double.different) == (1.0, 1)
    assert distance(array, array.astype("complex128")).identical is (dtype == "complex128")


@pytest.mark.parametrize("dtype", [torch.bfloat16, *FLOAT8])
def test_dtypes_that_numpy_does_not_have_are_read_exactly(dtype):
    count = 1 << (16 if dtype is torch.bfloat16 else 8)
    words = torch.arange(count, dtype=torch.int32).to(torch.int16 if count > 256 else torch.uint8)
    tensor = words.view(dtype).reshape(2, -1)
    assert np.array_equal(as_array(tensor), tensor.float().numpy(), equal_nan=True)
    bits, name = elements(tensor)
    assert (bits.dtype.kind, name) == ("u", str(dtype).removeprefix("torch."))
    assert distance(bits, bits, (name, name)).identical
    other = bits.copy()
    other[0, 0] ^= 1
    assert distance(bits, other, (name, name)).different == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "complex64"])
def test_both_frameworks_are_read_alike(dtype):
    if not hasattr(paddle, dtype):
        dtype = "bfloat16"  # Paddle 2.6 has no float8
    values = [0.5, -3.0, -0.0, 448.0]
    torchs = torch.tensor(values).to(getattr(torch, dtype))
    paddles = paddle.to_tensor(values).astype(dtype)
    assert distance(*(elements(tensor)[0] for tensor in (paddles, torchs)), (dtype, dtype)).identical
    assert elements(paddles)[1] == elements(torchs)[1] == dtype


def test_arrays_in_another_layout_and_without_elements():
    array = np.arange(90_000, dtype="float32").reshape(300, 300)
    other = np.asfortranarray(array)
    assert distance(array, other).identical
    other[2, 5] += 1
    assert distance(array, other).first == distance(array, other).worst == (2, 5)
    assert distance(array[:0], array[:0]).identical
    assert distance(array[:0], array[:0], whole=True).elements == 0
    shapes = distance(array, array[:1])
    assert (shapes.how, shapes.identical, shapes.ulp) == ("shape", False, None)


def test_large_numbers_have_differences():
    measured = distance(np.full(5, 1e308), np.full(5, -1e307))
    assert measured.max_abs == 1.1e308


def test_the_worst_of_several():
    worst = worst_of(
        [Distance(True, elements=3), Distance(False, 1.0, 0.5, 0.1, 2.0, 4, 1), Distance(False, 0.5, 0.5, 0.2, 3.0, 4, 2)]
    )
    assert (worst.identical, worst.max_abs, worst.relative, worst.ulp, worst.share) == (False, 1.0, 0.2, 3.0, 0.5)
    assert worst_of([]).identical
