"""Factorisations under the shim are Torch's bit for bit; natively signs and orders may be others, so only products are compared."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.bitexact


def values(*shape, definite=False):
    x = np.random.RandomState(0).randn(*shape)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1]) if definite else x


CASES = {
    "cholesky": (lambda f, x: (f.linalg.cholesky(x),), values(2, 4, 4, definite=True)),
    "qr": (lambda f, x: f.linalg.qr(x), values(2, 5, 3)),
    "svd": (lambda f, x: f.linalg.svd(x, full_matrices=False), values(2, 5, 3)),
    "eigh": (lambda f, x: f.linalg.eigh(x), values(4, 4, definite=True)),
    "eigvalsh": (lambda f, x: (f.linalg.eigvalsh(x),), values(4, 4, definite=True)),
}


def test_lu_and_its_parts():
    value = values(2, 4, 4)
    x = paddle.to_tensor(value, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        lu, pivots = paddle.linalg.lu(x)
        p, low, up = paddle.linalg.lu_unpack(lu, pivots)
        (low * low * low + up * up * up).sum().backward()
    assert run.substituted["lu"] == run.substituted["lu_unpack"] == 1
    t = torch.from_numpy(value).requires_grad_()
    factors, places = torch.linalg.lu_factor(t)
    parts = torch.lu_unpack(factors, places)
    (parts[1] ** 3 + parts[2] ** 3).sum().backward()
    assert pivots.numpy().tolist() == places.numpy().tolist()
    for mine, other in zip((lu, p, low, up), (factors, *parts), strict=True):
        assert mine.numpy().tobytes() == np.ascontiguousarray(other.detach().numpy()).tobytes()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-10)


def test_eigenvalues_of_any_matrix():
    value = values(4, 4)
    with padiff_shim.reference("torch") as run:
        w, v = paddle.linalg.eig(paddle.to_tensor(value))
        alone = paddle.linalg.eigvals(paddle.to_tensor(value))
    assert run.substituted["eig"] == run.substituted["eigvals"] == 1
    tw, tv = torch.linalg.eig(torch.from_numpy(value))
    for mine, other in ((w, tw), (v, tv), (alone, torch.linalg.eigvals(torch.from_numpy(value)))):
        assert mine.numpy().tobytes() == np.ascontiguousarray(other.numpy()).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_factorisation(name, dtype):
    function, value = CASES[name]
    value = value.astype(dtype)
    ours = paddle.to_tensor(value, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        result = function(paddle, ours)
        sum((value * value * value).sum() for value in result).backward()
    assert run.substituted[name] == 1, run.native
    theirs = torch.from_numpy(value).requires_grad_()
    expected = function(torch, theirs)
    sum((value * value * value).sum() for value in expected).backward()
    for mine, other in zip(result, expected, strict=True):
        assert mine.numpy().tobytes() == np.ascontiguousarray(other.detach().numpy()).tobytes()
    assert ours.grad.numpy().tobytes() == np.ascontiguousarray(theirs.grad.numpy()).tobytes()


def test_what_torch_refuses_keeps_paddles_error():
    x = paddle.to_tensor(-np.eye(3))
    with pytest.raises(Exception) as natively:
        paddle.linalg.cholesky(x)
    with padiff_shim.reference("torch"), pytest.raises(type(natively.value)):
        paddle.linalg.cholesky(x)


@pytest.mark.compat
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss", None])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 5, 3)], ids=str)
def test_least_squares(shape, driver):
    x, y = values(*shape), values(*shape[:-1], 2)
    with padiff_shim.reference("torch", strict=True) as run:
        ours = paddle.linalg.lstsq(paddle.to_tensor(x), paddle.to_tensor(y), driver=driver)
    theirs = torch.linalg.lstsq(torch.from_numpy(x), torch.from_numpy(y), driver=driver or "gelsy")
    assert run.substituted == {"lstsq": 1}
    if driver in ("gelsy", None):  # of one and the same call Torch gives several solutions: its pivots are not initialised
        np.testing.assert_allclose(ours[0].numpy(), theirs.solution.numpy(), rtol=1e-9)
    else:
        assert ours[0].numpy().tobytes() == np.ascontiguousarray(theirs.solution.numpy()).tobytes()
    assert ours[1].numpy().tobytes() == theirs.residuals.numpy().tobytes()
    assert ours[2].numpy().tolist() == theirs.rank.tolist()
    assert ours[3].numpy().tobytes() == theirs.singular_values.numpy().tobytes()
    native = paddle.linalg.lstsq(paddle.to_tensor(x), paddle.to_tensor(y), driver=driver)
    np.testing.assert_allclose(ours[0].numpy(), native[0].numpy(), rtol=1e-9)


@pytest.mark.skipif(not IS_3, reason="2.6 has no such function")
@pytest.mark.parametrize("upper", [False, True])
def test_the_inverse_behind_a_factor(upper):
    factor = np.linalg.cholesky(values(4, 4, definite=True))
    factor = np.ascontiguousarray(factor.T) if upper else factor
    x, t = paddle.to_tensor(factor, stop_gradient=False), torch.tensor(factor, requires_grad=True)
    with padiff_shim.reference("torch", strict=True) as run:
        result = paddle.linalg.cholesky_inverse(x, upper=upper)
        result.sum().backward()
    expected = torch.cholesky_inverse(t, upper)
    expected.sum().backward()
    assert run.substituted["cholesky_inverse"] == run.backward["cholesky_inverse"] == 1
    assert result.numpy().tobytes() == np.ascontiguousarray(expected.detach().numpy()).tobytes()
    assert x.grad.numpy().tobytes() == np.ascontiguousarray(t.grad.numpy()).tobytes()
    np.testing.assert_allclose(result.numpy(), paddle.linalg.cholesky_inverse(x, upper=upper).numpy(), rtol=1e-9)
    whole = paddle.to_tensor(values(4, 4))
    with padiff_shim.reference("torch") as run:
        paddle.linalg.cholesky_inverse(whole)
    assert run.native["cholesky_inverse"]  # Paddle reads all of it


def reflections(framework, x, tau, y):
    return [framework.linalg.householder_product(x, tau), (framework if framework is torch else paddle.linalg).ormqr(x, tau, y)]


@pytest.mark.skipif(not IS_3, reason="2.6 has no ormqr")
def test_products_of_reflections():
    matrices = [values(4, 4), values(4), values(4, 3)]
    ours = [paddle.to_tensor(value, stop_gradient=False) for value in matrices]
    theirs = [torch.tensor(value, requires_grad=True) for value in matrices]
    with padiff_shim.reference("torch", strict=True) as run:
        result = reflections(paddle, *ours)
        sum(value.sum() for value in result).backward()
    expected = reflections(torch, *theirs)
    sum(value.sum() for value in expected).backward()
    assert run.substituted["householder_product"] == run.substituted["ormqr"] == 1
    native = reflections(paddle, *map(paddle.to_tensor, matrices))
    for mine, other, third in zip(result, expected, native, strict=True):
        assert mine.numpy().tobytes() == np.ascontiguousarray(other.detach().numpy()).tobytes()
        np.testing.assert_allclose(mine.numpy(), third.numpy(), rtol=1e-9)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad.numpy().tobytes() == np.ascontiguousarray(other.grad.numpy()).tobytes()


@pytest.mark.compat
@pytest.mark.parametrize("shape", [[3, 3], [2, 3, 3]], ids=str)
def test_what_tells_of_a_singular_matrix_has_the_native_shape(shape):
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal(shape))
    native = [tensor.shape for tensor in paddle.linalg.lu(x, get_infos=True)]
    with padiff_shim.reference("torch", strict=True) as run:
        ours = [tensor.shape for tensor in paddle.linalg.lu(x, get_infos=True)]
    assert ours == native
    assert run.substituted == {"lu": 1}


@pytest.mark.compat
@pytest.mark.parametrize("shape", [[], [1]], ids=["a number", "one element"])
def test_a_tolerance_in_a_tensor(shape):
    values = np.random.default_rng(0).standard_normal((2, 3, 4))
    tolerance = paddle.full(shape, 0.3, "float64")
    side = torch.from_numpy(values).requires_grad_()
    expected = torch.linalg.pinv(side, rtol=0.3)
    (expected * expected).sum().backward()
    x = paddle.to_tensor(values, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        result = paddle.linalg.pinv(x, rcond=tolerance)
        (result * result).sum().backward()
    assert not run.native
    np.testing.assert_array_equal(result.numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(x.grad.numpy(), side.grad.numpy())
