"""A node may die anywhere in Paddle's C++, without the GIL: the hooks that compare mode put on it outlive it."""

import _thread
import functools
import gc
import signal
from collections import deque

import forked
import paddle
import pytest

import padiff_shim
from padiff_shim.comparison import gradients as hooks
from padiff_shim.frameworks.versions import NODE_HOOKS

pytestmark = pytest.mark.skipif(not NODE_HOOKS, reason="this Paddle shows no grad nodes")

PROGRAM = """
import paddle, padiff_shim, faulthandler
faulthandler.enable()

def matrix():
    x = paddle.ones([3, 4]); x.stop_gradient = False
    return x

def replaced():  # an in-place op gives its tensor another node
    x = matrix(); y = x * 2.0
    paddle.assign(paddle.ones([3, 4]), output=y)
def written():
    x, z = matrix(), matrix(); y = paddle.exp(x * 2.0)
    paddle.assign(z * 3.0, output=y)
def set_item():
    x = matrix(); y = paddle.tanh(x)
    y[:] = x * 2.0
def failed():  # what a failed paddle.grad leaves behind goes with the next one
    x, z = matrix(), matrix()
    try: paddle.grad([(x * 2.0).sum()], [(z * 2.0).sum()])
    except Exception: pass
    paddle.grad([(x * 2.0).sum()], [x])
def chained():
    y = matrix()
    for _ in range(5): y = paddle.tanh(y * 1.5)
    paddle.assign(paddle.ones([3, 4]), output=y)

for step in (replaced, written, set_item, failed, chained):
    with padiff_shim.compare("torch", progress=False):
        for _ in range(20): step()
    for _ in range(3): step()
    print(step.__name__, flush=True)
print("whole")
"""


def test_a_node_may_die_without_the_gil():
    done = forked.run(["-c", PROGRAM], warm=True)
    assert "whole" in done.stdout, done.stdout + done.stderr[-2000:]


def test_hooks_go_with_their_nodes():
    gc.collect()
    before = hooks._count()
    x = paddle.ones([4])
    x.stop_gradient = False
    with padiff_shim.compare("torch", progress=False):
        retained = paddle.exp(x)
        for _ in range(100):
            paddle.exp(x)
        assert hooks._count() < before + 10
    gc.collect()
    assert hooks._count() == before + 1
    del retained
    gc.collect()
    assert hooks._count() == before


def test_graphs_go_as_a_whole_however_deep_they_are():
    def deep():
        y = x
        for _ in range(50):
            y = paddle.tanh(y)
        return y

    gc.collect()
    before = hooks._count()
    x = paddle.ones([4])
    x.stop_gradient = False
    with padiff_shim.compare("torch", progress=False):
        for _ in range(20):
            out = deep()  # the last one lives while the next one is made
            assert hooks._count() < before + 250
        del out
        hooks.let_go()
        assert hooks._count() == before


def test_pythons_own_collections_look_at_a_few_hooks_and_one_that_is_asked_for_at_all(monkeypatch):
    looks = []
    monkeypatch.setattr(hooks, "_looked_at", looks.append)
    monkeypatch.setattr(hooks, "_turn", deque())  # without hooks that other tests have left
    monkeypatch.setattr(hooks, "_next", deque([len] * 100))
    hooks.mode_closed()
    made = []
    while not looks:
        made.append([])
    assert set(looks) == {64}
    del looks[:]
    gc.collect()
    assert 100 in looks
    gc.callbacks.remove(hooks._CALLBACK)


class TooSlowError(RuntimeError):
    """A timeout's."""


def too_slow(*_):
    raise TooSlowError


def comes(number, phase):
    """A callback of Python's collector by which a signal comes in a phase, as if while it walks: no Python code runs meanwhile."""
    phases = {"start": None, "stop": None, phase: property(_thread.interrupt_main)}
    return functools.partial(getattr, type("Phases", (int,), phases)(number))


SIGNALS = {  # name: (number, handler, the error it raises)
    "Ctrl-C": (signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
    "a timeout": (signal.SIGUSR1, too_slow, TooSlowError),
}


@pytest.fixture(params=SIGNALS)
def raises(request, monkeypatch):
    """The number of a signal and the error that its handler raises, where a hook of compare mode has outlived its mode."""
    number, handler, error = SIGNALS[request.param]
    monkeypatch.setattr(hooks, "_next", deque([len]))  # not dead: others hold it as well
    before, callbacks = signal.signal(number, handler), gc.callbacks[:]
    gc.disable()  # there is no collection but the test's
    gc.callbacks.clear()  # those of other libraries are functions, which lose signals
    hooks.mode_closed()
    assert len(gc.callbacks) == 1
    yield number, error
    gc.callbacks[:] = callbacks
    gc.enable()
    signal.signal(number, before)


@pytest.mark.parametrize("phase", ["start", "stop"])
def test_a_signal_that_comes_while_the_collector_walks_is_not_lost(raises, phase):
    number, error = raises
    gc.callbacks.insert(0, comes(number, phase))
    for _ in range(3):
        with pytest.raises(error):
            gc.collect(0)


def test_a_signal_that_comes_while_hooks_are_looked_at_is_not_lost(raises, monkeypatch):
    number, error = raises
    looks = []

    def looked_at(count):
        looks.append(count)
        if len(looks) == 1:
            signal.raise_signal(number)

    monkeypatch.setattr(hooks, "_looked_at", looked_at)
    with pytest.raises(error):
        gc.collect(0)
    gc.collect(0)
    assert len(looks) == 2
