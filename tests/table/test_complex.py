"""Ops of the table that take complex numbers: Torch's bits, and Paddle's values and gradients within rounding."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from tests.helpers import has_defect

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]

OPS = {
    "cumsum": (lambda x: paddle.cumsum(x, 1), lambda x: torch.cumsum(x, 1)),
    "cumprod": (lambda x: paddle.cumprod(x, 1), lambda x: torch.cumprod(x, 1)),
    "prod": (lambda x: paddle.prod(x, 1), lambda x: torch.prod(x, 1)),
    "trace": (paddle.trace, torch.trace),
    "diag": (lambda x: paddle.diag(x, 1), lambda x: torch.diag(x, 1)),
    "tril": (lambda x: paddle.tril(x, -1), lambda x: torch.tril(x, -1)),
    "triu": (lambda x: paddle.triu(x, 1), lambda x: torch.triu(x, 1)),
    "roll": (lambda x: paddle.roll(x, 2, 1), lambda x: torch.roll(x, 2, 1)),
    "flip": (lambda x: paddle.flip(x, [0]), lambda x: torch.flip(x, [0])),
}
WRONG = {"prod": "gradient of products of complex numbers", "cumprod": "gradient of running products of complex numbers"}


def numbers(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    return np.asarray(random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def ours(call, values, incoming):
    x = paddle.to_tensor(values, stop_gradient=False)
    out = call(x)
    out.backward(paddle.to_tensor(incoming(tuple(out.shape))))
    return out.numpy(), x.grad.numpy()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients(name, dtype):
    call, formula = OPS[name]
    values = numbers((4, 5), dtype)

    def incoming(shape):
        return numbers(shape, dtype, seed=1)

    try:
        native = ours(call, values, incoming)
    except RuntimeError as error:
        with padiff_shim.reference("torch"), pytest.raises(type(error)):
            call(paddle.to_tensor(values))
        pytest.skip("this Paddle has no such kernel of complex numbers")
    side = torch.from_numpy(values).requires_grad_()
    value = formula(side)
    value.backward(torch.from_numpy(incoming(tuple(value.shape))))
    with padiff_shim.reference("torch") as run:
        found = ours(call, values, incoming)
    assert name not in run.native
    np.testing.assert_array_equal(found[0], value.detach().numpy())
    np.testing.assert_array_equal(found[1], side.grad.resolve_conj().numpy())
    tolerance = 1e-4 if dtype == "complex64" else 1e-11
    np.testing.assert_allclose(found[0], native[0], rtol=tolerance, atol=tolerance)
    if not (name in WRONG and has_defect(WRONG[name])):
        np.testing.assert_allclose(found[1], native[1], rtol=tolerance, atol=tolerance)
