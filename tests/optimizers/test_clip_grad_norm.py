"""``paddle.nn.utils.clip_grad_norm_`` is Torch's, whose gradients of Linear weights lie as [out, in]."""

import contextlib

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from trainings import KINDS, backward, nets, unequal

import padiff_shim
from padiff_shim.optimizers import clipping

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
ours_clip = paddle.nn.utils.clip_grad_norm_
INF = float("inf")
GIVEN = {
    "list": lambda net: net.parameters(),
    "generator": lambda net: iter(net.parameters()),
    "tuple": lambda net: tuple(net.parameters()),
}


@pytest.mark.parametrize("definition", ["paddle", "torch"])
@pytest.mark.parametrize(("norm_type", "max_norm"), [*zip((1.0, 2, INF), GIVEN)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_step_and_the_norm(dtype, norm_type, max_norm, definition):
    ours, twin = nets(dtype)
    mine, theirs = KINDS["adamw"].build(ours), KINDS["adamw"].twin(twin)
    with padiff_shim.reference("torch", optimizer=definition) as run:
        for step in range(6):
            backward(ours, twin, step, dtype)
            limit = 0.1 if step % 2 else 1e6  # nothing is clipped
            versions = [param.grad.inplace_version for param in ours.parameters()]
            norm = ours_clip(GIVEN[max_norm](ours), limit, norm_type)
            assert same(norm, torch.nn.utils.clip_grad_norm_(twin.parameters(), limit, norm_type))
            assert norm.shape == []
            assert [param.grad.inplace_version for param in ours.parameters()] == [version + 1 for version in versions], (
                "as natively"
            )
            assert not unequal(ours, twin, grads=True), step
            mine.step()
            theirs.step()
            assert not unequal(ours, twin), step
            mine.clear_grad()
            theirs.zero_grad()
    assert not run.native
    assert run.optimizers["clip_grad_norm"] == {"torch": 6}


def test_one_tensor_and_keywords():
    ours, twin = nets()
    with padiff_shim.reference("torch") as run:
        backward(ours, twin, 0)
        param, other = ours.parameters()[0], next(twin.parameters())
        norm = ours_clip(max_norm=0.1, parameters=param)
        assert same(norm, torch.nn.utils.clip_grad_norm_(other, 0.1))
        assert not unequal(ours, twin, grads=True)
    assert run.optimizers == {"clip_grad_norm": {"torch": 1}}


def test_what_has_no_gradient_is_passed_by():
    ours, twin = nets()
    ours[0].weight.stop_gradient = True
    twin[0].weight.requires_grad_(False)
    with padiff_shim.reference("torch") as run:
        assert ours_clip(ours.parameters(), 1.0).item() == 0.0
        backward(ours, twin, 0)
        assert same(ours_clip(ours.parameters(), 0.1), torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.1))
        assert same(ours[0].bias.grad, twin[0].bias.grad)
        assert ours[0].weight.grad is None
    assert run.optimizers == {"clip_grad_norm": {"torch": 1}}


@pytest.mark.parametrize("mode", [contextlib.nullcontext, lambda: padiff_shim.reference("torch")], ids=["native", "shim"])
def test_what_paddle_refuses_is_refused_as_natively(mode):
    ours, twin = nets()
    with mode():
        backward(ours, twin, 0)
        before = [param.grad.numpy() for param in ours.parameters()]
        with pytest.raises(ValueError, match="norm_type only support"):
            ours_clip(ours.parameters(), 1.0, 3.0)
        assert all(same(param.grad, grad) for param, grad in zip(ours.parameters(), before, strict=True))
        (ours(paddle.full([2, 7], float("nan"))) ** 2).mean().backward()
        with pytest.raises(RuntimeError, match="non-finite"):
            ours_clip(iter(ours.parameters()), 1.0, error_if_nonfinite=True)
        ours_clip(ours.parameters(), 1.0)
        assert all(np.isnan(param.grad.numpy()).all() for param in ours.parameters())


@pytest.mark.parametrize("options", [{"exclude": "clip_grad_norm"}, {"exclude": "optimizers"}], ids=str)
def test_it_can_be_left_native(options):
    ours, twin = nets()
    with padiff_shim.reference("torch", **options) as run:
        backward(ours, twin, 0)
        norm = ours_clip(iter(ours.parameters()), 0.1)
    theirs = torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.1)
    assert abs(norm.item() - theirs.item()) <= 1e-6 * theirs.item()
    assert list(run.native["clip_grad_norm"].values()) == [1]
    assert not run.optimizers


def test_a_profile_names_it():
    ours, twin = nets()
    with padiff_shim.reference("torch", profile=True) as run:
        backward(ours, twin, 0)
        ours_clip(ours.parameters(), 0.1)
    assert "clip_grad_norm_" in {place["op"] for place in run.to_dict()["profile"]["places"]}


def test_compared_it_is_natively_paddles():
    ours, twin = nets()
    with padiff_shim.compare("torch", progress=False) as run:
        backward(ours, twin, 0)
        ours_clip(ours.parameters(), 0.1)
    assert "p_norm" in run.by_op() or "norm" in "".join(run.by_op())


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
