"""Updates that stay native, with their reasons and their decay; what is left out; errors, and what a mode leaves behind."""

import numpy as np
import paddle
import pytest
from helpers import in_child
from trainings import KINDS, nets

import padiff_shim
from padiff_shim.errors import PadiffShimError, StayedNativeError, UnknownNameError
from padiff_shim.table import reasons

pytestmark = pytest.mark.compat


def shim(**options):
    return padiff_shim.reference("torch", optimizer="torch", **options)


def test_sparse_gradients_stay_native():
    embedding = paddle.nn.Embedding(9, 4, sparse=True)
    optimizer = paddle.optimizer.SGD(0.1, parameters=embedding.parameters())
    with shim() as run:
        embedding(paddle.to_tensor([1, 3])).sum().backward()
        optimizer.step()
    assert run.native["sgd"] == {reasons.SPARSE.text: 1}


def one_parameter(**state):
    param = paddle.create_parameter([2, 3], "float32")
    param.grad = paddle.ones([2, 3])
    optimizer = paddle.optimizer.Adam(0.1, parameters=[param], weight_decay=0.5, **state)
    return param, optimizer


def test_powers_that_belong_to_no_step_stay_native_with_their_decay():
    """The decay that was left to Torch is added natively then."""
    results = []
    for mode in (True, False):
        paddle.seed(0)
        param, optimizer = one_parameter()
        optimizer.step()
        power = optimizer._accumulators["beta2_pow_acc"][param.name]
        power.set_value(paddle.full([1], 0.77))
        if mode:
            with shim() as run:
                optimizer.step()
            assert run.native["adam"] == {reasons.BETA_POWERS.text: 1}
            assert not run.optimizers
        else:
            optimizer.step()
        results.append(param.numpy())
    assert np.allclose(*results, rtol=1e-6, atol=1e-7)


def test_strict_raises_where_an_update_stays_native():
    param, optimizer = one_parameter()
    optimizer.step()
    optimizer._accumulators["beta2_pow_acc"][param.name].set_value(paddle.full([1], 0.77))
    with pytest.raises(StayedNativeError, match="adam"), shim(strict=True):
        optimizer.step()


@pytest.mark.parametrize("left_out", [{"exclude": "optimizers"}, {"exclude": ["adam"]}, {"ops": "matmul"}])
def test_left_out_of_a_mode(left_out):
    _, optimizer = one_parameter()
    with shim(**left_out) as run:
        optimizer.step()
    assert run.native["adam"] == {reasons.FILTERED.text: 1}
    assert not run.optimizers


def test_chosen_alone():
    ours, _ = nets()
    optimizer = KINDS["sgd"].build(ours)
    with shim(ops="sgd") as run:
        (ours(paddle.ones([2, 7])) ** 2).mean().backward()
        optimizer.step()
    assert run.substituted == {"sgd": 6}


def test_an_optimizer_of_ones_own():
    """A subclass that adds to what Paddle's does is not made to wait, and one that computes by itself is left alone."""
    seen = []

    class Watching(paddle.optimizer.SGD):
        def _append_optimize_op(self, block, param_and_grad):
            super()._append_optimize_op(block, param_and_grad)
            seen.append(param_and_grad[0].numpy().copy())

    param = paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(1.0))
    param.grad = paddle.ones([2])
    with shim() as run:
        Watching(0.5, parameters=[param], weight_decay=1.0).step()
    assert run.optimizers == {"sgd": {"torch": 1}}
    assert seen[0].tolist() == [0.0, 0.0] == param.numpy().tolist()


def test_an_error_in_the_middle_of_a_step_leaves_what_natively_is_left():
    class Failing(paddle.optimizer.SGD):
        def _create_param_lr(self, param_and_grad):
            if param_and_grad[0] is params[1]:
                raise RuntimeError("no rate")
            return super()._create_param_lr(param_and_grad)

    params = [paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(1.0)) for _ in range(3)]
    for param in params:
        param.grad = paddle.ones([2])
    with pytest.raises(RuntimeError, match="no rate"), shim():
        Failing(0.5, parameters=params).step()
    assert [param.numpy().tolist() for param in params] == [[0.5, 0.5], [1.0, 1.0], [1.0, 1.0]]


def test_undone_after_a_mode(undone):
    names = [paddle.optimizer.Optimizer, paddle.nn.ClipGradByGlobalNorm, paddle.nn.ClipGradByNorm]
    before = [dict(vars(owner)) for owner in names]
    codes = paddle.optimizer.Optimizer._create_optimization_pass.__code__
    _, optimizer = one_parameter()

    def failing():
        with shim():
            optimizer.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert [dict(vars(owner)) for owner in names] == before
    assert paddle.optimizer.Optimizer._create_optimization_pass.__code__ is codes


@pytest.mark.parametrize("value", ["pytorch", "", None, 1, True])
def test_a_definition_that_is_none(value):
    with pytest.raises(UnknownNameError, match=r"unknown optimizer .*Accepted: paddle, torch"):
        padiff_shim.reference("torch", optimizer=value)


def test_a_comparison_runs_paddles_optimizers():
    with pytest.raises(PadiffShimError, match="optimizer= belongs to reference"):
        padiff_shim.reference("torch", optimizer="torch", compare=True)
    ours, _ = nets()
    optimizer = KINDS["adam"].build(ours, weight_decay=0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1))
    with padiff_shim.compare("torch", progress=False) as run:
        (ours(paddle.ones([2, 7])) ** 2).mean().backward()
        optimizer.step()
    assert run.coverage()["updates"] == 6
    assert {call.tensor for call in run.calls if call.op == "adam"} == {"param", "moment1", "moment2"}


def test_threads_have_steps_of_their_own():
    result = in_child(
        """
        import threading
        import numpy as np
        def stepped(results, key):
            w = paddle.create_parameter([30, 20], "float32", default_initializer=paddle.nn.initializer.Constant(0.5))
            o = paddle.optimizer.AdamW(0.01 * (key + 1), parameters=[w], grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1))
            with padiff_shim.reference("torch", optimizer="torch"):
                for step in range(20):
                    w.grad = paddle.full([30, 20], 0.3 + step * key)
                    o.step()
            results[key] = w.numpy().tobytes()
        alone, together = {}, {}
        for key in range(4):
            stepped(alone, key)
        threads = [threading.Thread(target=stepped, args=(together, key)) for key in range(4)]
        [one.start() for one in threads]
        [one.join() for one in threads]
        assert alone == together
        """
    )
    assert result.returncode == 0, result.stderr
