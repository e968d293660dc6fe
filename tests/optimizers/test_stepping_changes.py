"""A step in which Paddle does something else than the last time is made by Paddle."""

import types

import paddle
import pytest
from helpers import needs
from steppings import BUT_3, OPTIMIZER, at_3, built, taken, train
from trainings import RATE

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


def _main_grad(net, optimizer, patch):
    patch.setattr(net[0].weight, "main_grad", paddle.ones(net[0].weight.shape), raising=False)


def _fused(net, optimizer, patch):
    patch.setattr(type(optimizer), "enable_tensor_fusion", True, raising=False)


def _main_grads_asked_for(net, optimizer, patch):
    patch.setenv("FLAGS_enable_main_grad", "1")


def _bypassed(net, optimizer, patch):
    patch.setattr("paddle.optimizer.optimizer.g_shard_bypass_dygraph_optimizer", 1)


def _traced(net, optimizer, patch):
    patch.setattr("paddle.base.dygraph.base.in_to_static_mode", lambda: True)
    patch.setattr(OPTIMIZER, "_declarative_step", lambda self: self.clear_grad())


def _frozen(net, optimizer, patch):
    patch.setattr(net[0].weight, "stop_gradient", True)


def _no_gradient(net, optimizer, patch):
    net[0].weight.clear_gradient(False)


def _regularized(net, optimizer, patch):
    """What is found behind the schedule's number."""
    patch.setattr(net[0].weight, "regularizer", paddle.regularizer.L2Decay(0.3))


def _an_option(net, optimizer, patch):
    patch.setattr(optimizer, "_grad_clip", paddle.nn.ClipGradByNorm(0.01))


def _a_function_of_this_object(net, optimizer, patch):
    patch.setattr(optimizer, "_apply_optimize", lambda **_: None)


def _another_list(net, optimizer, patch):
    patch.setattr(optimizer, "_param_groups", net.parameters()[1:])


CHANGES = (
    _main_grad,
    _fused,
    _main_grads_asked_for,
    _bypassed,
    _traced,
    _frozen,
    _no_gradient,
    _regularized,
    _an_option,
    _a_function_of_this_object,
    _another_list,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__[1:])
def test_paddle_makes_a_step_that_is_another(change):
    result = taken(at_3(change))
    assert result[:4] == BUT_3[:4]
    assert result[5]  # where parameters were others, the step behind is another one, too


@needs("distributed.auto_parallel.auto_dp_utils")
def test_paddle_shares_gradients():
    shared = []

    def sharing(net, optimizer, patch):
        path = "paddle.distributed.auto_parallel.auto_dp_utils"
        patch.setattr(f"{path}.in_auto_dp_mode", lambda: True)
        patch.setattr(f"{path}._convert_fake_replicate_grad_to_partial", shared.append)

    assert taken(at_3(sharing)) == BUT_3
    assert len(shared) == 2


def test_paddle_makes_the_steps_of_sharded_parameters():
    pytest.importorskip("paddle.distributed.auto_parallel.fully_shard_fusion")
    context = types.SimpleNamespace(
        comm_sync_and_reset_status=lambda: None, buffer_manager=types.SimpleNamespace(buffer_groups=[], _fsdp_group=None)
    )
    path = "paddle.distributed.auto_parallel.fully_shard_fusion.get_fsdp_context"
    assert taken(at_3(lambda net, optimizer, patch: patch.setattr(path, lambda: context))) == BUT_3


class Counting(paddle.optimizer.lr.LRScheduler):
    """A schedule that knows how often it was asked."""

    calls = 0

    def __call__(self):
        Counting.asked += 1
        return super().__call__()

    def get_lr(self):
        return RATE


@pytest.mark.parametrize("change", [_frozen, _no_gradient, _regularized], ids=lambda change: change.__name__[1:])
def test_a_schedule_is_asked_as_often_as_before(change):
    counts = []
    for passing in (True, False):
        net, optimizer = built("momentum", rate=Counting())
        Counting.asked = 0
        train(net, optimizer, at_3(change), passing=passing)
        counts.append(Counting.asked)
    assert counts[0] == counts[1]
