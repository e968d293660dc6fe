"""Norms are taken of a Linear weight's gradient as it lies in a Torch program: turned, whatever its dtype, size and strides."""

import paddle
import pytest
import torch
from helpers import same

from padiff_shim.optimizers import clipping

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (37, 21), (130, 67), (0, 3)])
def test_a_linear_weights_gradient_is_turned(shape, dtype, monkeypatch):
    weight, bias = paddle.nn.Linear(3, 2).parameters()
    monkeypatch.setattr(clipping, "is_linear_weight", lambda param: param is weight)
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    sides = [values, values.t().contiguous().t(), torch.cat([values, values])[shape[0] :], torch.randn(5).to(dtype)]
    params = [weight, weight, weight, bias]
    for i, result in enumerate(clipping._turned(params, sides)):
        wanted = sides[i] if i == 3 else sides[i].t().contiguous()
        assert result.is_contiguous()
        assert result.shape == wanted.shape
        assert same(result.clone(), wanted)
        assert same(torch.linalg.vector_norm(result), torch.linalg.vector_norm(wanted))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("linear", ["none", "some", "all"])
def test_the_factor_is_that_of_the_torch_program(linear, dtype, monkeypatch):
    """Of gradients that are turned and of others, each in its place."""
    shapes = [(37, 21), (5, 9), (130, 67), (1, 40), (256, 33)]
    params = [paddle.create_parameter(list(shape), "float32") for shape in shapes]
    turned = {"none": [], "some": params[1::2], "all": params}[linear]
    monkeypatch.setattr(clipping, "is_linear_weight", lambda param: any(param is turned_param for turned_param in turned))
    rng = torch.Generator().manual_seed(0)
    sides = [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]
    twins = [torch.nn.Parameter(torch.zeros_like(side)) for side in sides]
    for twin, param, side in zip(twins, params, sides, strict=True):
        is_turned = any(param is turned_param for turned_param in turned)
        twin.data = twin.data.t().contiguous() if is_turned else twin.data
        twin.grad = (side.t() if is_turned else side).clone(memory_format=torch.contiguous_format)
    torch.nn.utils.clip_grad_norm_(twins, 0.7)
    by = clipping._factor(params, sides, 0.7, "torch").to(dtype)
    for twin, param, side in zip(twins, params, sides, strict=True):
        assert same((side * by).t().contiguous() if any(param is turned_param for turned_param in turned) else side * by, twin.grad)
