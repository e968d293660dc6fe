"""Threads that share what the tape is made of, and what is left when its tensors have gone."""

import gc
import sys

import paddle
import pytest
from helpers import WATCHDOG, in_child

import padiff_shim
from padiff_shim.frameworks.versions import IS_3, attribute
from padiff_shim.intercept import engine
from padiff_shim.tape import twins

pytestmark = [pytest.mark.skipif(not IS_3, reason="the tape is for 3.x"), pytest.mark.usefixtures("undone")]

PRELUDE = """
import threading
import numpy as np
errors = []
threading.excepthook = lambda args: errors.append(repr(args.exc_value))
def model():
    paddle.seed(0)
    nn = paddle.nn
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.ELU(), nn.LayerNorm(16), nn.Linear(16, 8))
def side_by_side(function, values):
    threads = [threading.Thread(target=function, args=(value,)) for value in values]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not errors, errors
"""


def passes(program):
    done = in_child(WATCHDOG + PRELUDE + program)
    assert done.returncode == 0, done.stdout + done.stderr


def test_threads_that_train_their_own_models():
    passes("""
def train(index):
    own = models[index]
    optimizer = paddle.optimizer.Adam(1e-3, parameters=own.parameters())
    x = paddle.full([4, 8], index / 4)
    for _ in range(40):
        own(x).square().mean().backward()
        optimizer.step(); optimizer.clear_grad()
    trained[index] = [p.numpy() for p in own.parameters()]
results = []
for run in (lambda: side_by_side(train, range(4)), lambda: [train(index) for index in range(4)]):
    trained, models = {}, [model() for _ in range(4)]  # made here: seeding is global
    with padiff_shim.reference("torch", all_threads=True):
        run()
    results.append(trained)
for index in range(4):
    assert all(np.array_equal(a, b) for a, b in zip(results[0][index], results[1][index]))
""")


def test_threads_that_share_a_model_find_its_twins_whole():
    # No word of the sums: adding up ``grad`` from several threads is Paddle's own affair, and not safe natively.
    passes("""
for _ in range(20):
    shared, barrier = model(), threading.Barrier(4)
    def step(index):
        barrier.wait()
        loss = shared(paddle.full([4, 8], index / 4)).square().sum()
        loss.backward()
    with padiff_shim.reference("torch", all_threads=True):
        side_by_side(step, range(4))
""")


def test_a_tensor_of_a_thread_that_has_ended_keeps_its_gradients():
    done = in_child("""
import threading
x = paddle.ones([2, 2]); x.stop_gradient = False
made = []
def forward():
    with padiff_shim.reference("torch"):
        made.append(x @ x)
thread = threading.Thread(target=forward); thread.start(); thread.join(); del thread
assert paddle.grad(F.elu(made[0]).sum() + x.sum(), x)[0].numpy().tolist() == [[5.0, 5.0], [5.0, 5.0]]
""")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_engines_doors_go_with_the_last_tape_tensor_in_any_thread():
    passes("""
from padiff_shim.intercept import engine as engine_doors
from padiff_shim.tape import twins
layer = paddle.nn.Linear(4, 4)
for _ in range(50):
    with padiff_shim.reference("torch"):
        box = [layer(paddle.ones([2, 4]))]
    assert engine_doors.ENGINE.installed
    side_by_side(lambda box: box.clear(), [box])
    assert not engine_doors.ENGINE.installed
def opens(_):
    for _ in range(50):
        with padiff_shim.reference("torch"):
            y = layer(paddle.ones([2, 4]))
        del y
side_by_side(opens, range(4))
assert not twins.alive()
with padiff_shim.reference("torch"):
    assert engine_doors.ENGINE.installed
assert not engine_doors.ENGINE.installed
""")


def living():
    """One more than tape tensors live: each holds this one object."""
    return sys.getrefcount(twins._presence())


def test_flat_without_the_collector():
    layer = paddle.nn.Linear(4, 4)
    x = paddle.ones([2, 4])
    x.stop_gradient = False
    gc.collect()
    before = living()  # what other tests have left behind: a failed recompute keeps its tensors
    gc.disable()
    try:
        for step in range(150):
            with padiff_shim.reference("torch"):
                y = layer(x).tanh()
                if step % 3 == 1:
                    y.sum().backward()
                elif step % 3 == 2:
                    (grad,) = paddle.grad(y.sum(), x, create_graph=True)
                    (grad * grad).sum().backward()
                    del grad
            del y
            assert living() == before, step
            assert engine.ENGINE.installed == twins.alive()
        known = [len(attribute(x, twins.LEAF).all), len(attribute(layer.weight, twins.COPY).all)]
        assert known == [1, 1]
    finally:
        gc.enable()


def test_torch_s_compiler_is_not_loaded():
    """It takes a second, and what it is loaded in the midst of is held until the next collection."""
    passes("""
import sys
layer, x = paddle.nn.Linear(4, 4), paddle.ones([2, 4])
x.stop_gradient = False
for mode in padiff_shim.reference, padiff_shim.compare:
    with mode("torch"):
        layer(x).tanh().sum().backward()
assert "torch._dynamo" not in sys.modules
""")


def test_torch_s_symbolic_shapes_are_not_loaded():
    """Half a second and 28 MB, for a check of the gradients that a backward is given, or for a shape."""
    passes("""
import sys
from padiff_shim.frameworks import weight_copies
sys.modules.pop("torch.fx.experimental.symbolic_shapes")  # the process that this one is forked from has it
layer, x = paddle.nn.Linear(4, 4), paddle.ones([2, 4])
x.stop_gradient = False
for mode in padiff_shim.reference, padiff_shim.compare:
    with mode("torch"):
        for _ in range(weight_copies.WORTH + 1):
            layer(x).tanh().backward(paddle.ones([2, 4]))
        y = layer(x).tanh()
        (grad,) = paddle.grad([y], [x], [paddle.ones([2, 4])], create_graph=True)
        grad.sum().backward()
rows = [paddle.rand([2, 64, 32]) for _ in range(2)]  # large enough for bounds in Torch
with padiff_shim.compare("torch", ops="add"), padiff_shim.testing.planted("add", lambda out, *_: out + 1e-3, side="torch"):
    rows[0] + rows[1]
assert True in weight_copies._known.values() or False in weight_copies._known.values()
assert "torch.fx.experimental.symbolic_shapes" not in sys.modules
""")
