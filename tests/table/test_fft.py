"""Fourier transforms under the shim are Torch's, forward and backward, bit for bit."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim

pytestmark = pytest.mark.bitexact
NORMS = ("backward", "ortho", "forward")
REAL = ("rfft", "rfft2", "rfftn", "ihfft", "fft", "ifft", "fftn")
COMPLEX = ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "irfft", "irfft2", "irfftn", "hfft")


def compared(name, value, **options):
    """Result and gradient of `paddle.fft.<name>` under the shim, and of `torch.fft.<name>`."""
    ours = paddle.to_tensor(value, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        result = getattr(paddle.fft, name)(ours, **options)
        (paddle.abs(result) if result.is_complex() else result * result).sum().backward()
    theirs = torch.from_numpy(value).requires_grad_()
    options = {"s" if key == "s" else key: value for key, value in options.items()}
    expected = getattr(torch.fft, name)(theirs, **options)
    (torch.abs(expected) if expected.is_complex() else expected * expected).sum().backward()
    assert result.numpy().tobytes() == expected.detach().resolve_conj().numpy().tobytes()
    return ours.grad.numpy(), theirs.grad.resolve_conj().numpy(), run


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", REAL)
def test_of_a_real_tensor(name, norm):
    value = np.random.RandomState(0).randn(3, 4, 6).astype("float32")
    ours, theirs, run = compared(name, value, norm=norm)
    assert run.substituted["fft_r2c"] == 1
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", COMPLEX)
def test_of_a_complex_tensor(name, norm):
    rng = np.random.RandomState(0)
    value = (rng.randn(3, 4, 6) + 1j * rng.randn(3, 4, 6)).astype("complex64")
    ours, theirs, run = compared(name, value, norm=norm)
    assert run.substituted["fft_c2r" if name.startswith(("ir", "h")) else "fft_c2c"] == 1
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_an_odd_length_and_both_ways():
    value = np.random.RandomState(0).randn(2, 5)
    x = paddle.to_tensor(value, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        again = paddle.fft.irfft(paddle.fft.rfft(x), n=5)
        (again * again * again).sum().backward()
    t = torch.from_numpy(value).requires_grad_()
    back = torch.fft.irfft(torch.fft.rfft(t), n=5)
    (back * back * back).sum().backward()
    assert run.substituted["fft_r2c"] == run.substituted["fft_c2r"] == 1
    assert again.numpy().tobytes() == back.detach().numpy().tobytes()
    assert x.grad.numpy().tobytes() == t.grad.numpy().tobytes()
