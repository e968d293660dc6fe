"""Scaled gradients, and steps that a scaler skips."""

import contextlib
import types

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from trainings import KINDS, accumulator, batch, nets, unequal

import padiff_shim

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


def shim():
    return padiff_shim.reference("torch", optimizer="torch")


@pytest.fixture
def scaling(monkeypatch):
    """Paddle's scaler does nothing on a CPU: tell it of another place."""
    place = types.SimpleNamespace(_expected_place=types.SimpleNamespace(is_gpu_place=lambda: True))
    monkeypatch.setattr("paddle.amp.grad_scaler._dygraph_tracer", lambda: place)


@pytest.mark.rows(14)
@pytest.mark.parametrize("skipped", [(0, 3), (2,)], ids=["the first and one more", "in the middle"])
@pytest.mark.parametrize("name", KINDS)
def test_a_step_that_a_scaler_skips_is_none(name, skipped, scaling):
    """Nor does it count: Paddle's Adamax takes its power of beta on natively, and in a mode with its own definition."""
    ours, twin = nets()
    mine, theirs = KINDS[name].build(ours), KINDS[name].twin(twin)
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0, use_dynamic_loss_scaling=False)
    with shim() as run:
        for step in range(6):
            x = batch(step)
            x[0, 0] = np.inf if step in skipped else x[0, 0]
            scaler.scale((ours(paddle.to_tensor(x)) ** 2).mean()).backward()
            (twin(torch.tensor(x)) ** 2).mean().backward()
            scaler.step(mine)
            scaler.update()
            if step not in skipped:
                theirs.step()
            assert not unequal(ours, twin), step
            assert "_finish_update" not in vars(mine)
            mine.clear_grad()
            theirs.zero_grad()
    assert run.optimizers == {mine.type: {"torch": (6 - len(skipped)) * 6}}


@pytest.mark.skipif("adamax" not in KINDS, reason="this Paddle has no Adamax")
@pytest.mark.parametrize("options", [{"optimizer": "paddle"}, {"optimizer": "torch", "exclude": "optimizers"}], ids=str)
def test_a_skipped_step_counts_where_it_is_paddles(options, scaling):
    """With Paddle's definition, and where the optimizer is left out of the mode, the state is native Paddle's."""

    def powers(mode):
        ours, _ = nets()
        mine = KINDS["adamax"].build(ours)
        scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0, use_dynamic_loss_scaling=False)
        with mode:
            for step in range(4):
                x = batch(step)
                x[0, 0] = np.inf if step == 2 else x[0, 0]
                scaler.scale((ours(paddle.to_tensor(x)) ** 2).mean()).backward()
                scaler.step(mine)
                scaler.update()
                mine.clear_grad()
        return [accumulator(mine, "beta1_pow_acc", param) for param in ours.parameters()]

    natively = powers(contextlib.nullcontext())
    assert all(same(result, two) for result, two in zip(powers(padiff_shim.reference("torch", **options)), natively, strict=True))
