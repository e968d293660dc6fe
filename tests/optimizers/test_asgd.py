"""ASGD, two optimizers of one name: Paddle's averages gradients, Torch's parameters. Its state holds whole numbers."""

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from trainings import RATE, accumulator, backward, nets, stepped

import padiff_shim

pytestmark = [
    pytest.mark.bitexact,
    pytest.mark.skipif(not hasattr(paddle.optimizer, "ASGD"), reason="this Paddle has no ASGD"),
]
STEPS = 6


def port(net, rate=RATE, **options):
    return paddle.optimizer.ASGD(rate, parameters=net.parameters(), **options)


def native_of(run):
    """What ran natively among the updates."""
    return run.native.get("asgd", {})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.05}, {"batch_num": 3}], ids=["plain", "decay", "batches"])
def test_torchs_definition_is_the_twins(options, dtype):
    ours, twin = nets(dtype)
    optimizer = port(ours, **options)
    twin_optimizer = torch.optim.ASGD(twin.parameters(), RATE, weight_decay=options.get("weight_decay", 0.0))
    with padiff_shim.reference("torch", optimizer="torch") as run:
        stepped(ours, twin, optimizer, twin_optimizer, steps=range(STEPS), dtype=dtype)
    assert run.optimizers == {"asgd": {"torch": STEPS * 6}}
    assert not native_of(run)
    for param, other in zip(ours.parameters(), twin.parameters(), strict=True):
        assert same(accumulator(optimizer, "d", param), twin_optimizer.state[other]["ax"])


def test_a_schedule_reaches_the_step_size_one_step_later():
    """As in Torch, whose step size is made of the rate of the step before."""
    ours, twin = nets()
    schedule = paddle.optimizer.lr.StepDecay(RATE, step_size=2, gamma=0.5)
    optimizer, twin_optimizer = port(ours, schedule), torch.optim.ASGD(twin.parameters(), RATE)
    twin_schedule = torch.optim.lr_scheduler.StepLR(twin_optimizer, step_size=2, gamma=0.5)

    def after(_):
        schedule.step()
        twin_schedule.step()

    with padiff_shim.reference("torch", optimizer="torch"):
        stepped(ours, twin, optimizer, twin_optimizer, steps=range(STEPS), after=after)


@paddle.utils.unique_name.guard()  # accumulators find their values in a checkpoint by name
def trained(steps, mode=None, state=None, **options):
    """Parameters and accumulators after steps under a mode, which go on from ``state``."""
    net, twin = nets("float64")
    optimizer = port(net, **options)
    if state is not None:
        net.set_state_dict(state[0])
        optimizer.set_state_dict(state[1])
    first = 0 if state is None else STEPS
    for step in range(first, first + steps):
        if mode is None:
            backward(net, twin, step, "float64")
            optimizer.step()
        else:
            with padiff_shim.reference("torch", optimizer=mode) as run:
                backward(net, twin, step, "float64")
                optimizer.step()
            assert bool(native_of(run)) is (mode == "torch" and state is not None and state[2] != "torch"), run.native
        optimizer.clear_grad()
    return {**net.state_dict()}, {**optimizer.state_dict()}, mode


def values(state):
    return [tensor.numpy() for part in state[:2] for _, tensor in sorted(part.items()) if isinstance(tensor, paddle.Tensor)]


@pytest.mark.parametrize("batch_num", [1, 3])
def test_paddles_definition_is_native_paddles_but_for_rounding(batch_num):
    native, shim = (values(trained(STEPS, mode, batch_num=batch_num)) for mode in (None, "paddle"))
    assert len(native) == len(shim) == 6 * 4
    assert all(np.allclose(left, right, rtol=1e-7, atol=1e-9) for left, right in zip(native, shim, strict=True))


def test_a_state_of_torchs_goes_on():
    whole = values(trained(2 * STEPS, "torch"))
    resumed = values(trained(STEPS, "torch", trained(STEPS, "torch")))
    assert all(same(left, right) for left, right in zip(whole, resumed, strict=True))


def test_a_state_of_paddles_is_not_taken_for_torchs():
    """Its updates stay native, with the reason, and are Paddle's."""
    expected = values(trained(STEPS, None, trained(STEPS, batch_num=2), batch_num=2))
    resumed = values(trained(STEPS, "torch", trained(STEPS, batch_num=2), batch_num=2))
    assert all(np.allclose(left, right, rtol=1e-7, atol=1e-9) for left, right in zip(expected, resumed, strict=True))


def test_a_call_without_an_optimizer_stays_native():
    param, grad = paddle.ones([3]), paddle.ones([3])
    rate, states = paddle.to_tensor([0.1]), [paddle.zeros([3]), paddle.zeros([3])]
    with padiff_shim.reference("torch") as run:
        paddle._C_ops.asgd_(param, grad, rate, *states, paddle.to_tensor([1]), None, False)
    assert "called by no optimizer" in str(native_of(run))
    assert np.allclose(param.numpy(), 0.9)
