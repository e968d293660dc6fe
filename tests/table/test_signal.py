"""The short-time Fourier transform, pooling over segments and messages on graphs, against Torch and native Paddle."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim

pytestmark = pytest.mark.bitexact


def numbers(*shape):
    return np.random.RandomState(0).randn(*shape).astype("float32")


@pytest.mark.parametrize(
    "options",
    [{}, {"hop_length": 3}, {"center": False, "normalized": True}, {"onesided": False}, {"pad_mode": "constant"}],
    ids=str,
)
def test_stft(options):
    signal, window = numbers(2, 40), np.abs(numbers(8))
    x = paddle.to_tensor(signal, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        result = paddle.signal.stft(x, 8, window=paddle.to_tensor(window), **options)
        paddle.abs(result).sum().backward()
    t = torch.from_numpy(signal).requires_grad_()
    options = {"hop_length": 2, **options}
    expected = torch.stft(t, 8, window=torch.from_numpy(window), return_complex=True, **options)
    expected.abs().sum().backward()
    assert run.substituted["stft"] == 1
    assert "fft_r2c" not in run.substituted
    assert result.numpy().tobytes() == expected.detach().resolve_conj().contiguous().numpy().tobytes()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_istft_and_back():
    signal = numbers(2, 40)
    x = paddle.to_tensor(signal)
    with padiff_shim.reference("torch") as run:
        again = paddle.signal.istft(paddle.signal.stft(x, 8), 8, length=40)
    spectrum = torch.stft(torch.from_numpy(signal), 8, 2, window=torch.ones(8), return_complex=True)
    expected = torch.istft(spectrum, 8, 2, window=torch.ones(8), length=40)
    assert run.substituted["istft"] == 1
    assert again.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.compat
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min"])
def test_segments(kind):
    rows, ids = numbers(5, 3), np.array([0, 0, 2, 2, 2])
    x = paddle.to_tensor(rows, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        result = getattr(paddle.geometric, f"segment_{kind}")(x, paddle.to_tensor(ids))
        (result * result).sum().backward()
    assert run.substituted["segment_pool"] == 1
    expected = np.stack([getattr(rows[ids == i], kind)(0) if (ids == i).any() else np.zeros(3, "float32") for i in range(3)])
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    again = paddle.to_tensor(rows, stop_gradient=False)
    native = getattr(paddle.geometric, f"segment_{kind}")(again, paddle.to_tensor(ids))
    (native * native).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy(), rtol=1e-5)


@pytest.mark.compat
@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_largest_message_of_each_node(kind):
    rows, source, to = numbers(4, 3), [0, 1, 2, 3], [1, 1, 2, 1]

    def step():
        x = paddle.to_tensor(rows, stop_gradient=False)
        result = paddle.geometric.send_u_recv(x, paddle.to_tensor(source), paddle.to_tensor(to), kind)
        (result * result).sum().backward()
        return result.numpy(), x.grad.numpy()

    native = step()
    with padiff_shim.reference("torch") as run:
        ours = step()
    assert run.substituted["send_u_recv"] == 1
    for mine, theirs in zip(ours, native):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
