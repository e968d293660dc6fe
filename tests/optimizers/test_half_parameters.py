"""Parameters of 16 bits on a CPU: optimizers, clipping, accumulation and a whole training, with Torch's bits."""

import sys

import numpy as np
import paddle
import pytest
import torch
from helpers import ROOT, needs, same
from torch.optim.adam import adam

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

sys.path.append(str(ROOT / "examples"))
from zoo.gpt import LENGTH, WORDS
from zoo.llama import paddle_model, torch_model

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
HALVES = ("bfloat16", "float16")
SCALE = 1e-4  # epsilon: float16 has no 1e-8
OPTIMIZERS = {
    "SGD": ({}, torch.optim.SGD, {}),
    "Momentum": ({"momentum": 0.9}, torch.optim.SGD, {"momentum": 0.9}),
    "Adam": ({"epsilon": SCALE}, torch.optim.Adam, {"eps": SCALE}),
    "AdamW": ({"epsilon": SCALE, "weight_decay": 0.1}, torch.optim.AdamW, {"eps": SCALE, "weight_decay": 0.1}),
    "RAdam": ({"epsilon": SCALE}, torch.optim.RAdam, {"eps": SCALE}),
    "NAdam": ({"epsilon": SCALE}, torch.optim.NAdam, {"eps": SCALE}),
    "Adagrad": ({"epsilon": SCALE}, torch.optim.Adagrad, {"eps": SCALE}),
}
CLIPPERS = {
    "none": (None, None),
    "global norm": (lambda: paddle.nn.ClipGradByGlobalNorm(0.5), lambda params: torch.nn.utils.clip_grad_norm_(params, 0.5)),
    "value": (lambda: paddle.nn.ClipGradByValue(0.125), lambda params: torch.nn.utils.clip_grad_value_(params, 0.125)),
    "norm": (
        lambda: paddle.nn.ClipGradByNorm(0.25),
        lambda params: [torch.nn.utils.clip_grad_norm_([param], 0.25) for param in params],
    ),
}


def held(dtype, *shape, seed):
    """Values that the dtype holds: Paddle 2.6 rounds others in another way."""
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))
    return values.to(getattr(torch, dtype))


def models(dtype):
    """A Linear layer of either framework, with one output among its sizes: as many elements as a power of beta has."""
    ours, theirs = paddle.nn.Linear(6, 1), torch.nn.Linear(6, 1)
    weight, bias = held(dtype, 1, 6, seed=0), held(dtype, 1, seed=1)
    ours.to(dtype=dtype)
    ours.weight.set_value(paddle.to_tensor(weight.t().float().numpy()).astype(dtype))
    ours.bias.set_value(paddle.to_tensor(bias.float().numpy()).astype(dtype))
    theirs.to(getattr(torch, dtype))
    theirs.weight.data.copy_(weight)
    theirs.bias.data.copy_(bias)
    return ours, theirs


def step(optimizer, params, copies):
    """A step of Torch's, over copies of float32 where there are any."""
    for copy, param in zip(copies or (), params):
        copy.grad = param.grad.float()
    optimizer.step()
    for copy, param in zip(copies or (), params):
        param.data.copy_(copy.data)


def check_training(dtype, name, *, masters, clipper="none", steps=3):
    words, kind, options = OPTIMIZERS[name]
    make, clip = CLIPPERS[clipper]
    ours, theirs = models(dtype)
    batches = [held(dtype, 5, 6, seed=seed) for seed in range(2, 2 + 2 * steps)]
    with padiff_shim.reference("torch", optimizer="torch") as run:
        how = {**words, **({"grad_clip": make()} if make else {}), **({"multi_precision": masters} if masters is not None else {})}
        optimizer = getattr(paddle.optimizer, name)(0.125, parameters=ours.parameters(), **how)
        for number in range(steps):
            for batch in batches[
                2 * number : 2 * number + 1 + (IS_3 and number == 1)
            ]:  # sums of gradients round otherwise in Paddle 2.6
                (ours(paddle.to_tensor(batch.float().numpy()).astype(dtype)) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
    params = list(theirs.parameters())
    copies = [param.detach().float().requires_grad_() for param in params] if masters else params
    twin = kind(copies, 0.125, **options)
    for number in range(steps):
        for batch in batches[2 * number : 2 * number + 1 + (IS_3 and number == 1)]:
            (theirs(batch) ** 2).mean().backward()
        if clip:
            clip(params)
        step(twin, params, copies if masters else None)
        theirs.zero_grad()
    assert run.native == {}
    assert run.without_kernel["linear"] == {dtype: steps + IS_3}
    assert ours.weight.dtype == getattr(paddle, dtype)
    assert same(ours.weight.detach().t(), theirs.weight)
    assert same(ours.bias.detach(), theirs.bias)


@pytest.mark.parametrize("masters", [False, True], ids=["plain", "masters"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adam", "AdamW"])
def test_optimizers_with_and_without_masters(name, dtype, masters):
    check_training(dtype, name, masters=masters)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(f"optimizer.{name}")) for name in ("Adagrad", "RAdam", "NAdam")])
def test_optimizers_without_that_option(name, dtype):
    check_training(dtype, name, masters=None)


@pytest.mark.parametrize("masters", [False, True], ids=["plain", "masters"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("clipper", ["global norm", "value", "norm"])
def test_clipping(clipper, dtype, masters):
    check_training(dtype, "AdamW", masters=masters, clipper=clipper)


def test_paddles_definition_computes_in_float32():
    """Accumulators of float32 beside a parameter of 16 bits, as in Paddle's kernels on other devices."""
    param, grad = held("bfloat16", 3, 4, seed=0), held("bfloat16", 3, 4, seed=1)
    leaf = paddle.to_tensor(param.float().numpy()).astype("bfloat16")
    leaf.stop_gradient = False
    with padiff_shim.reference("torch"):
        optimizer = paddle.optimizer.AdamW(0.125, parameters=[leaf])
        for _ in range(2):
            (leaf * paddle.to_tensor(grad.float().numpy()).astype("bfloat16")).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
    wide, first, second = param.float(), torch.zeros(3, 4), torch.zeros(3, 4)
    for done in (0.0, 1.0):
        adam(
            [wide], [grad.float()], [first], [second], [], [torch.tensor(done)], decoupled_weight_decay=True, amsgrad=False,
            beta1=0.9, beta2=0.999, lr=0.125, weight_decay=0.01, eps=1e-8, maximize=False,
        )  # fmt: skip
        wide = wide.bfloat16().float()
    assert same(leaf.detach(), wide.bfloat16())
    moments = [state for name, states in optimizer._accumulators.items() if name.startswith("moment1") for state in states.values()]
    assert [state.dtype for state in moments] == [paddle.float32]
    assert same(moments[0], first)


def test_a_definition_that_changes_between_two_modes():
    """What is held of an optimizer's step is not that of the other definition."""
    leaf = paddle.to_tensor(held("bfloat16", 3, 4, seed=0).float().numpy()).astype("bfloat16")
    leaf.stop_gradient = False
    optimizer = paddle.optimizer.AdamW(0.125, parameters=[leaf])
    for definition in ("paddle", "torch", "paddle"):
        for _ in range(2):
            with padiff_shim.reference("torch", optimizer=definition) as run:
                (leaf * leaf).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
            assert run.native == {}
            assert run.without_kernel["adamw"] == {"bfloat16": 1}


def test_what_is_left_to_paddle_has_its_reason():
    leaf = paddle.ones([3, 4]).astype("bfloat16")
    leaf.stop_gradient = False
    optimizer = paddle.optimizer.Adamax(0.125, parameters=[leaf])
    with padiff_shim.reference("torch"):
        (leaf * leaf).sum().backward()
        with pytest.raises(RuntimeError, match="adamax"):
            optimizer.step()


TOKENS = np.random.default_rng(0).integers(0, WORDS, (5, 2, LENGTH + 1))
RATE, DECAY = 0.01, 0.1


def equal_models(dtype):
    """The model of either framework, and the names of what Torch holds as [out, in]."""
    theirs, ours = torch_model().to(getattr(torch, dtype)), paddle_model()
    ours.to(dtype=dtype)
    linear = {f"{name}.weight" for name, layer in theirs.named_modules() if isinstance(layer, torch.nn.Linear)}
    named = dict(theirs.named_parameters())
    assert set(named) == {name for name, _ in ours.named_parameters()}
    for seed, (name, param) in enumerate(ours.named_parameters()):
        values = held(dtype, *named[name].shape, seed=seed) / 4
        named[name].data.copy_(values)
        values = values.t() if name in linear else values
        param.set_value(paddle.to_tensor(np.ascontiguousarray(values.float().numpy())).astype(dtype))
    return ours, theirs, linear


def trained(model, *, masters):
    """The losses of five steps, in the mode that is open."""
    optimizer = paddle.optimizer.AdamW(
        RATE, epsilon=SCALE, parameters=model.parameters(), weight_decay=DECAY, multi_precision=masters,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0),
    )  # fmt: skip
    losses = []
    for batch in TOKENS:
        logits = model(paddle.to_tensor(batch[:, :-1])).astype("float32").reshape([-1, WORDS])
        loss = paddle.nn.functional.cross_entropy(logits, paddle.to_tensor(batch[:, 1:].reshape(-1)))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses


def trained_in_torch(model, *, masters):
    params = list(model.parameters())
    copies = [param.detach().float().requires_grad_() for param in params] if masters else params
    optimizer = torch.optim.AdamW(copies, RATE, eps=SCALE, weight_decay=DECAY)
    losses = []
    for batch in TOKENS:
        logits = model(torch.from_numpy(batch[:, :-1])).float().reshape(-1, WORDS)
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch[:, 1:].reshape(-1)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        step(optimizer, params, copies if masters else None)
        model.zero_grad()
        losses.append(float(loss))
    return losses


@pytest.mark.rows(2)
@pytest.mark.parametrize("masters", [False, True], ids=["plain", "masters"])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_tiny_llama_is_trained_bit_for_bit(dtype, masters):
    ours, theirs, linear = equal_models(dtype)
    with padiff_shim.reference("torch", optimizer="torch") as run:
        losses = trained(ours, masters=masters)
    assert losses == trained_in_torch(theirs, masters=masters)
    assert run.native == {}
    assert run.without_kernel["linear"] == {dtype: 5 * 15}
    named = dict(theirs.named_parameters())
    for name, param in ours.named_parameters():
        assert same(param.detach().t() if name in linear else param.detach(), named[name]), name
