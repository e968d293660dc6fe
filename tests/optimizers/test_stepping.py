"""Paddle's whole step is passed by where it would only hand gradients on; somebody else's function on the way is called."""

import functools
import gc
import hashlib
import inspect
import traceback
import weakref

import paddle
import pytest
from helpers import same
from steppings import BUT_3, NONE, ON_THE_WAY, ONLY_THE_FIRST, OPTIMIZER, STEPS, at_3, built, of, taken, train
from trainings import RATE, nets

import padiff_shim
from padiff_shim.intercept import optimizers as doors
from padiff_shim.optimizers import step as optimizer_step
from padiff_shim.optimizers import step_cache
from padiff_shim.tested import PADDLES

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


@pytest.mark.parametrize("kind", ["sgd", "momentum", "nesterov", "adagrad", "adamax", "adadelta", "rmsprop"])
def test_steps_are_passed_by(kind):
    assert taken(build=of(kind))[3:] == [True] * 3


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_a_class_with_a_step_of_its_own_makes_it(kind):
    assert taken(build=of(kind)) == []


def test_decay_of_its_kernel_passes():
    """Momentum's: Paddle adds it nowhere else."""
    assert taken(build=of("momentum", weight_decay=0.1))[3:] == [True] * 3


def test_a_learning_rate_that_changes_passes():
    assert taken(lambda step, net, optimizer, patch: optimizer.set_lr(RATE / (step + 1))) == ONLY_THE_FIRST


def with_a_schedule():
    return built(rate=paddle.optimizer.lr.ExponentialDecay(RATE, 0.9))


def test_a_schedule_passes():
    assert taken(lambda step, net, optimizer, patch: optimizer._learning_rate.step(), with_a_schedule) == ONLY_THE_FIRST


# What makes Paddle's Python do more, from the first step on.


def with_groups():
    with paddle.utils.unique_name.guard("a"):
        net, _ = nets()
        first, *others = net.parameters()
        groups = [{"params": [first], "learning_rate": 0.5}, {"params": others}]
        return net, paddle.optimizer.SGD(RATE, parameters=groups)


def with_a_regularizer():
    net, optimizer = built()
    net[0].weight.regularizer = paddle.regularizer.L2Decay(0.3)
    return net, optimizer


class Own(paddle.optimizer.SGD):
    pass


def with_a_class_of_its_own():
    with paddle.utils.unique_name.guard("a"):
        net, _ = nets()
        return net, Own(RATE, parameters=net.parameters())


BUILDS = {
    "groups": with_groups,
    "clipping": of(grad_clip=paddle.nn.ClipGradByNorm(0.01)),
    "clipping by the global norm": of("momentum", grad_clip=paddle.nn.ClipGradByGlobalNorm(0.01)),
    "decay": of(weight_decay=0.1),
    "decay of one": with_a_regularizer,
    "a class of its own": with_a_class_of_its_own,
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_paddle_makes_what_it_does_more_in(build):
    assert taken(build=build) == NONE


@pytest.mark.parametrize("owner", [OPTIMIZER, paddle.optimizer.SGD], ids=lambda owner: owner.__name__)
@pytest.mark.parametrize("name", ON_THE_WAY)
@pytest.mark.parametrize("disguised", [False, True], ids=["plain", "disguised"])
def test_somebody_elses_function_on_the_way_is_called(owner, name, disguised):
    called = []
    original = getattr(owner, name)

    def ours(self, *args, **kwargs):
        called.append(name)
        return original(self, *args, **kwargs)

    function = functools.wraps(original)(ours) if disguised else ours
    function.__code__ = function.__code__.replace(co_name=name)
    assert taken(at_3(lambda net, optimizer, patch: patch.setattr(owner, name, function))) == BUT_3
    assert called or (disguised and name == "_create_regularization_of_grad")


def test_exchanged_code_on_the_way_is_called():
    def nothing(self, loss, startup_program, params_grads, param_group_idx=0):
        return []

    assert (
        taken(at_3(lambda net, optimizer, patch: patch.setattr(OPTIMIZER._apply_optimize, "__code__", nothing.__code__))) == BUT_3
    )


def test_a_wrapper_around_the_step_is_called_and_what_it_calls_passes():
    called = []

    def wrapped(step, net, optimizer, patch):
        kind = type(optimizer)  # Paddle's profiler, once used, leaves a step of its own with each kind
        original = kind.step

        def ours(self):
            called.append(self)
            return original(self)

        patch.setattr(kind, "step", ours)

    assert taken(wrapped) == ONLY_THE_FIRST
    assert len(called) == 2 * STEPS


def test_decay_that_was_added_by_hand_is_not_added_again():
    def added(net, optimizer, patch):
        optimizer.append_regularization_ops([(p, p.grad) for p in net.parameters()], paddle.regularizer.L2Decay(0.5))

    assert taken(at_3(added)) == ONLY_THE_FIRST


def test_what_was_found_is_said_once_and_of_one_optimizer():
    (_, first), (_, other) = built(), built()
    for parameter, answer in ((first, True), (first, False), (other, False)):
        if answer or parameter is other:
            step_cache.refuse_repeat(first)
        assert step_cache.take_refused(parameter) == answer
    assert not step_cache.take_refused(first)


def test_what_is_handed_on_is_what_paddle_hands_on():
    """Not what is frozen, and not what has no gradient."""
    net, optimizer = built()
    handed = []

    def look(step, net, optimizer, patch):
        net[0].bias.stop_gradient = True
        net[2].weight.clear_gradient(False)
        if step == 4:
            original = optimizer._apply_optimize
            handed.append(optimizer_step.pairs_of_step(optimizer))
            patch.setattr(
                OPTIMIZER, "_apply_optimize", lambda _, **keywords: handed.append(keywords["params_grads"]) or original(**keywords)
            )

    train(net, optimizer, look)
    mine, paddles = handed
    assert [param.name for param, _ in mine] == [param.name for param, _ in paddles]
    assert len(mine) == len(net.parameters()) - 2
    assert all(param is other for pairs in zip(mine, paddles, strict=True) for param, other in [[pair[0] for pair in pairs]])
    assert all(same(result[1].numpy(), other[1].numpy()) for result, other in zip(mine, paddles, strict=True))


def test_an_optimizer_without_parameters_fails_in_paddle():
    _, optimizer = built()
    optimizer._param_groups = []
    with pytest.raises(IndexError) as caught, padiff_shim.reference("torch"):
        optimizer.step()
    assert traceback.extract_tb(caught.tb)[-1].filename.endswith("optimizer.py")
    assert "padiff_shim" not in traceback.extract_tb(caught.tb)[-1].filename


def test_sparse_gradients_are_paddles():
    def sparse():
        with paddle.utils.unique_name.guard("a"):
            paddle.seed(3)
            net = paddle.nn.Sequential(paddle.nn.Linear(7, 3), paddle.nn.Linear(3, 2))
            table = paddle.nn.Embedding(9, 2, sparse=True)
            return net, table, paddle.optimizer.SGD(RATE, parameters=[*net.parameters(), *table.parameters()])

    def run(passing):
        net, table, optimizer = sparse()

        def change(step, net, optimizer, patch):
            (table(paddle.to_tensor([1, 4, step])) ** 2).sum().backward()

        _, result, _ = train(net, optimizer, change, passing=passing)
        return table.weight.numpy(), result

    (mine, results), (wanted, _) = run(True), run(False)
    assert same(mine, wanted)
    assert results == NONE


def test_a_programs_classes_are_not_kept():
    class Mine(paddle.optimizer.SGD):
        pass

    net, _ = nets()
    train(net, Mine(RATE, parameters=net.parameters()))
    gone = weakref.ref(Mine)
    del Mine
    gc.collect()
    assert gone() is None


def test_the_door_is_there_where_the_source_was_read_and_goes(undone):
    inner = inspect.unwrap(OPTIMIZER.step)
    before = inner.__code__
    with padiff_shim.reference("torch"):
        assert (inner.__code__ is not before) == (paddle.__version__ in PADDLES)
    assert inner.__code__ is before


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
def test_no_door_in_a_paddle_that_was_not_read(read, monkeypatch):
    text = "".join(inspect.getsource(inspect.unwrap(getattr(OPTIMIZER, name)).__code__) for name in doors._WAY)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    monkeypatch.setattr(doors, "python_function", lambda owner, name: inspect.unwrap(getattr(owner, name)))
    monkeypatch.setattr(doors, "_READ", frozenset({digest} if read else {"0" * 16}))
    assert any(point.path.endswith("Optimizer.step") for point in doors.points()) == read
