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
WRONG = {
    "prod": "prod gradient of complex numbers is not conjugated",
    "cumprod": "cumprod gradient of complex numbers is not conjugated",
}


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
        result = ours(call, values, incoming)
    assert name not in run.native
    np.testing.assert_array_equal(result[0], value.detach().numpy())
    np.testing.assert_array_equal(result[1], side.grad.resolve_conj().numpy())
    tolerance = 1e-4 if dtype == "complex64" else 1e-11
    np.testing.assert_allclose(result[0], native[0], rtol=tolerance, atol=tolerance)
    if not (name in WRONG and has_defect(WRONG[name])):
        np.testing.assert_allclose(result[1], native[1], rtol=tolerance, atol=tolerance)


# Each with what a Torch program writes, and of a matrix to begin with.
FACTORS = {
    "qr": (paddle.linalg.qr, torch.linalg.qr, lambda values: values),
    "svd": (paddle.linalg.svd, lambda x: torch.linalg.svd(x, full_matrices=False), lambda values: values),
    "eigh": (paddle.linalg.eigh, torch.linalg.eigh, lambda values: values + values.conj().T),
    "eigvalsh": (paddle.linalg.eigvalsh, torch.linalg.eigvalsh, lambda values: values + values.conj().T),
    "eig": (paddle.linalg.eig, torch.linalg.eig, lambda values: values),
    "inverse": (paddle.linalg.inv, torch.linalg.inv, lambda values: values),
}


def _several(results):
    return [results] if hasattr(results, "shape") else list(results)


def _weighted(result):
    """An incoming gradient that no phase of a vector changes: that of weighted squares."""
    weights = np.random.default_rng(2).uniform(0.5, 1.5, result.shape)
    return np.asarray(result * weights).astype(result.dtype)


def _factors(call, values, taken):
    x = paddle.to_tensor(values, stop_gradient=False)
    outs = _several(call(x))
    chosen = [outs[index] for index in taken] if taken else outs
    paddle.autograd.backward(chosen, [paddle.to_tensor(_weighted(out.numpy())) for out in chosen])
    return [out.numpy() for out in outs], x.grad.numpy()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("name", "taken"), [*((name, ()) for name in FACTORS), ("qr", (0,)), ("qr", (1,)), ("svd", (1,)), ("eigh", (1,))]
)
def test_factors(name, taken, dtype):
    """Also through some of the results alone, where Paddle's own backward of ``qr`` ends the process."""
    call, formula, prepared = FACTORS[name]
    values = prepared(numbers((4, 4), dtype))
    try:
        native = _factors(call, values, ()) if not taken else _several(call(paddle.to_tensor(values)))
    except RuntimeError:
        pytest.skip("this Paddle has no such kernel of complex numbers")
    side = torch.from_numpy(values).requires_grad_()
    sides = _several(formula(side))
    chosen = [sides[index] for index in taken] if taken else sides
    torch.autograd.backward(chosen, [torch.from_numpy(_weighted(out.detach().resolve_conj().numpy())) for out in chosen])
    with padiff_shim.reference("torch") as run:
        result = _factors(call, values, taken)
    assert name not in run.native
    for factor, other in zip(result[0], sides, strict=True):
        np.testing.assert_array_equal(factor, other.detach().resolve_conj().numpy())
    np.testing.assert_array_equal(result[1], side.grad.resolve_conj().numpy())
    if not taken:  # the gradient of what no phase changes is one and the same
        np.testing.assert_allclose(result[1], native[1], rtol=1e-3, atol=1e-3 if dtype == "complex64" else 1e-9)


def test_a_gradient_that_depends_on_a_phase_is_refused_as_torch_does():
    values = numbers((3, 3), "complex128")
    x = paddle.to_tensor(values + values.conj().T, stop_gradient=False)
    with padiff_shim.reference("torch"):
        _, vectors = paddle.linalg.eigh(x)
        with pytest.raises(RuntimeError, match="specified up to multiplication by"):
            paddle.real(vectors).sum().backward()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_running_sums_and_products_get_a_verdict(name, dtype):
    if name in WRONG and has_defect(WRONG[name]):
        pytest.skip("their gradient is wrong in this Paddle")
    try:
        OPS[name][0](paddle.to_tensor(numbers((2, 2), dtype)))
    except RuntimeError:
        pytest.skip("this Paddle has no such kernel of complex numbers")
    with padiff_shim.compare("torch", audit=1) as run:
        ours(OPS[name][0], numbers((4, 5), dtype), lambda shape: numbers(shape, dtype, seed=1))
    calls = list(run.calls.filter(op=name))
    assert {call.tensor for call in calls} == {"out", "grad:x"}
    assert {str(call.verdict) for call in calls} <= {"EQUAL", "ROUNDING"}, [str(call) for call in calls]
