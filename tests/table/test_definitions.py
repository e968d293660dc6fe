"""Where Paddle's and Torch's functions of one name mean different things, and what stands in docs/ops.md about it."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim


@pytest.mark.compat
def test_leaky_relu_at_zero_has_torchs_slope():
    """A layer without bias gives zeros wherever its input is zero: the edge of an image."""
    values = np.array([0.0, -0.0, 1.0, -1.0], dtype="float32")

    def gradient():
        x = paddle.to_tensor(values, stop_gradient=False)
        paddle.nn.functional.leaky_relu(x, 0.25).sum().backward()
        return x.grad.numpy().tolist()

    assert gradient() == [1.0, 1.0, 1.0, 0.25]
    with padiff_shim.reference("torch"):
        ours = gradient()
    side = torch.tensor(values, requires_grad=True)
    torch.nn.functional.leaky_relu(side, 0.25).sum().backward()
    assert ours == side.grad.tolist() == [0.25, 0.25, 1.0, 0.25]


@pytest.mark.compat
def test_an_embedding_answers_zeros_at_its_padding():
    table, tokens = np.ones((3, 2), dtype="float32"), np.array([0, 1, 0, 2])

    def step():
        weight = paddle.to_tensor(table, stop_gradient=False)
        found = paddle.nn.functional.embedding(paddle.to_tensor(tokens), weight, padding_idx=0)
        found.sum().backward()
        return found.numpy()[:, 0].tolist(), weight.grad.numpy()[:, 0].tolist()

    native = step()
    with padiff_shim.reference("torch", strict=True):
        assert step() == native == ([0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0])
    side = torch.ones(3, 2, requires_grad=True)
    found = torch.nn.functional.embedding(torch.tensor(tokens), side, padding_idx=0)
    found.sum().backward()
    assert found[:, 0].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert side.grad[:, 0].tolist() == native[1]
