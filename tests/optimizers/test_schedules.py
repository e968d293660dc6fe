"""Learning rates: which of Paddle's schedules give the very numbers of Torch's, as docs/definitions.md says."""

import math

import paddle
import pytest
import torch

RATE, STEPS = 0.03, 60
OURS, THEIRS = paddle.optimizer.lr, torch.optim.lr_scheduler


def factor(step):
    return (step + 1) / 10 if step < 10 else 0.5 * (1 + math.cos(math.pi * (step - 10) / 50))


@pytest.mark.compat
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: OURS.LambdaDecay(RATE, factor), lambda optimizer: THEIRS.LambdaLR(optimizer, factor)),
        (lambda: OURS.CosineAnnealingDecay(RATE, T_max=STEPS), lambda optimizer: THEIRS.CosineAnnealingLR(optimizer, STEPS)),
        (lambda: OURS.StepDecay(RATE, 10, 0.5), lambda optimizer: THEIRS.StepLR(optimizer, 10, 0.5)),
        (lambda: OURS.MultiStepDecay(RATE, [40], 0.1), lambda optimizer: THEIRS.MultiStepLR(optimizer, [40], 0.1)),
    ],
    ids=["lambda", "cosine", "halving", "milestone"],
)
def test_equal_numbers_at_every_step(ours, theirs):
    schedule, optimizer = ours(), torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    twin = theirs(optimizer)
    for step in range(STEPS):
        assert schedule() == optimizer.param_groups[0]["lr"], step
        optimizer.step()
        schedule.step()
        twin.step()
