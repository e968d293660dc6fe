"""With ``optimizer="torch"`` a training under the shim is its Torch twin's: losses, gradients, parameters, to the last bit."""

import itertools

import paddle
import pytest
import torch
from helpers import in_turn, same
from trainings import AMSGRAD, KINDS, accumulator, backward, nets, unequal

import padiff_shim

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
STEPS = 10
CLIPS = {
    None: lambda net: None,
    "ClipGradByGlobalNorm": lambda net: torch.nn.utils.clip_grad_norm_(net.parameters(), 0.3),
    "ClipGradByNorm": lambda net: [torch.nn.utils.clip_grad_norm_([param], 0.3) for param in net.parameters()],
    "ClipGradByValue": lambda net: torch.nn.utils.clip_grad_value_(net.parameters(), 0.05),
}


def check(name, dtype="float32", clip=None, steps=STEPS, ours_more=(), theirs_more=()):
    kind, (ours, twin) = KINDS[name], nets(dtype)
    limit = {} if clip is None else {"grad_clip": getattr(paddle.nn, clip)(0.05 if clip.endswith("Value") else 0.3)}
    mine, theirs = kind.build(ours, **limit, **dict(ours_more)), kind.twin(twin, **dict(theirs_more))
    with padiff_shim.reference("torch", optimizer="torch") as run:
        for step in range(steps):
            loss, twin_loss = backward(ours, twin, step, dtype)
            assert same(loss, twin_loss), step
            assert not unequal(ours, twin, grads=True), step
            CLIPS[clip](twin)
            mine.step()
            theirs.step()
            assert not unequal(ours, twin), step
            mine.clear_grad()
            theirs.zero_grad()
    return run, mine, theirs, ours, twin


@pytest.mark.parametrize(("name", "dtype", "clip"), in_turn(itertools.product(KINDS, ("float32", "float64")), CLIPS))
def test_every_step(name, dtype, clip):
    run, mine, theirs, ours, twin = check(name, dtype, clip)
    update = mine.type
    assert run.optimizers[update] == {"torch": STEPS * len(ours.parameters())}
    assert not run.native
    for key, state in (KINDS[name].states or {}).items():
        for param, other in zip(ours.parameters(), twin.parameters(), strict=True):
            assert same(accumulator(mine, key, param), theirs.state[other][state]), key


@pytest.mark.parametrize(
    ("name", "dtype"), in_turn([name for name in KINDS if name not in ("adamw", "no momentum", "rprop")], ("float32", "float64"))
)
def test_weight_decay_is_added_by_torch(name, dtype):
    """A number, and the regularizer that Paddle makes of it."""
    check(name, dtype, "ClipGradByGlobalNorm", 4, {"weight_decay": 0.05}, {"weight_decay": 0.05})
    check(name, dtype, None, 4, {"weight_decay": paddle.regularizer.L2Decay(0.05)}, {"weight_decay": 0.05})


@pytest.mark.parametrize("name", sorted(AMSGRAD))
def test_amsgrad(name):
    check(name, "float32", None, STEPS, {"amsgrad": True}, {"amsgrad": True})


def test_named_in_the_run():
    run, *_ = check("sgd", clip="ClipGradByGlobalNorm", steps=2)
    assert run.to_dict()["optimizers"] == {"sgd": {"torch": 12}, "clip_grad_by_global_norm": {"torch": 2}}


@pytest.mark.skipif("nadam" not in KINDS, reason="this Paddle has no NAdam")
def test_nadam_counts_on_when_the_power_of_beta2_has_gone():
    """Which it has after 45 steps here; powers that are loaded from beyond do not tell how many there were."""
    run, mine, _, ours, _ = check("nadam", steps=60, ours_more={"beta2": 0.1}, theirs_more={"betas": (0.9, 0.1)})
    assert not run.native
    for name, kind in mine._accumulators.items():
        if "moment1" in name:
            for tensor in kind.values():
                tensor.set_value(tensor.numpy() * 0.5)
    with padiff_shim.reference("torch", optimizer="torch") as run:
        (ours(paddle.ones([1, 7])) ** 2).mean().backward()
        mine.step()
    assert "underflowed" in str(run.native)
