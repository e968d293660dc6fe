"""Trainings that tell which of their steps were made without Paddle's, and that they leave what Paddle's leave."""

import functools

import paddle
import pytest
from helpers import same
from trainings import KINDS, batch, nets

import padiff_shim
from padiff_shim.optimizers import step as optimizer_step
from padiff_shim.optimizers.step import Updating

OPTIMIZER = paddle.optimizer.Optimizer
STEPS = 6


def built(kind="sgd", **options):
    with paddle.utils.unique_name.guard("a"):
        net, _ = nets()
        return net, KINDS[kind].build(net, **options)


def train(net, optimizer, change=None, *, passing=True):
    """What a training leaves, and which of its steps were made without Paddle's."""
    taken = []
    whole = Updating.whole_step

    def spied(self, *args):
        taken.append(whole(self, *args))
        return taken[-1]

    with pytest.MonkeyPatch.context() as spy, padiff_shim.reference("torch", optimizer="torch") as run:
        spy.setattr(Updating, "whole_step", spied)
        if not passing:
            spy.setattr(optimizer_step, "pairs_of_step", lambda _: None)
        for step in range(STEPS):
            loss = (net(paddle.to_tensor(batch(step))) ** 2).mean()
            loss.backward()
            with pytest.MonkeyPatch.context() as patch:
                if change is not None:
                    change(step, net, optimizer, patch)
                optimizer.step()
            optimizer.clear_grad()
    state = optimizer.state_dict()
    left = [*net.parameters(), *(state[name] for name in sorted(state) if isinstance(state[name], paddle.Tensor))]
    return [tensor.numpy() for tensor in left], taken, run


def taken(change=None, build=built):
    """Which steps are made without Paddle's, once it is asserted that the training is the same as without any such."""
    left, updates, run = train(*build(), change=change)
    wanted, _, other = train(*build(), change=change, passing=False)
    assert len(left) == len(wanted)
    assert all(same(parameter, two) for parameter, two in zip(left, wanted, strict=True))
    assert (run.optimizers, run.native) == (other.optimizers, other.native)
    return updates


def of(kind="sgd", **options):
    return functools.partial(built, kind, **options)


def at_3(change):
    """A change that is there in the step with this number alone."""

    def made(step, net, optimizer, patch):
        if step == 3:
            change(net, optimizer, patch)

    return made


ON_THE_WAY = ("_apply_optimize", "append_regularization_ops", "_create_regularization_of_grad", "_create_optimization_pass")
ONLY_THE_FIRST, BUT_3, NONE = [False] + [True] * 5, [False, True, True, False, True, True], [False] * STEPS
