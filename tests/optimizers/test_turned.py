"""Norms are taken of a Linear weight's gradient as it lies in a Torch program: turned, whatever its dtype, size and strides."""

import paddle
import pytest
import torch
from helpers import same

from padiff_shim.substitution import clipping

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (37, 21), (130, 67), (0, 3)])
def test_a_linear_weights_gradient_is_turned(shape, dtype, monkeypatch):
    weight, bias = paddle.nn.Linear(3, 2).parameters()
    monkeypatch.setattr(clipping, "is_linear_weight", lambda param: param is weight)
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    sides = [values, values.t().contiguous().t(), torch.cat([values, values])[shape[0] :], torch.randn(5).to(dtype)]
    params = [weight, weight, weight, bias]
    for i, found in enumerate(clipping._turned(params, sides)):
        wanted = sides[i] if i == 3 else sides[i].t().contiguous()
        assert found.is_contiguous()
        assert found.shape == wanted.shape
        assert same(found.clone(), wanted)
        assert same(torch.linalg.vector_norm(found), torch.linalg.vector_norm(wanted))
