"""A Linear weight that is computed is multiplied as ``torch.nn.Linear`` holds its own: also one of a single column or row."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]


@pytest.mark.parametrize("shape", [(4, 1), (64, 1), (1, 4), (4, 3)], ids=str)
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("seed", range(4))
def test_a_computed_weight(shape, rows, seed):
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(size).astype("float32") for size in ((rows, shape[0]), shape))
    layer = torch.nn.Linear(*shape, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w).t())
    weight = paddle.to_tensor(w, stop_gradient=False)
    with padiff_shim.reference("torch"):
        out = paddle.nn.functional.linear(paddle.to_tensor(x), weight * 1.0)
        (out**2).sum().backward()
    expected = layer(torch.from_numpy(x))
    (expected**2).sum().backward()
    np.testing.assert_array_equal(out.numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(weight.grad.numpy(), layer.weight.grad.t().numpy())
