"""A node may die anywhere in Paddle's C++, without the GIL: the hooks that compare mode put on it outlive it."""

import gc
import signal
import time
from collections import deque

import forked
import paddle
import pytest

import padiff_shim
from padiff_shim.comparison import posts
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
    done = forked.run(["-c", PROGRAM])
    assert "whole" in done.stdout, done.stdout + done.stderr[-2000:]


def test_hooks_go_with_their_nodes():
    gc.collect()
    before = posts._count()
    x = paddle.ones([4])
    x.stop_gradient = False
    with padiff_shim.compare("torch", progress=False):
        kept = paddle.exp(x)
        for _ in range(100):
            paddle.exp(x)
        assert posts._count() < before + 10
    gc.collect()
    assert posts._count() == before + 1
    del kept
    gc.collect()
    assert posts._count() == before


def test_graphs_go_as_a_whole_however_deep_they_are():
    def deep():
        y = x
        for _ in range(50):
            y = paddle.tanh(y)
        return y

    gc.collect()
    before = posts._count()
    x = paddle.ones([4])
    x.stop_gradient = False
    with padiff_shim.compare("torch", progress=False):
        for _ in range(20):
            out = deep()  # the last one lives while the next one is made
            assert posts._count() < before + 250
        del out
        posts.let_go()
        assert posts._count() == before


def test_a_ctrl_c_that_falls_into_a_collection_arrives(monkeypatch):
    """Python prints what leaves its collector's callbacks, and goes on."""
    fell = []

    def looked_at(count):
        if not fell:
            fell.append(count)
            raise KeyboardInterrupt

    def waited():
        gc.collect(0)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.001)

    monkeypatch.setattr(posts, "_looked_at", looked_at)
    monkeypatch.setattr(posts, "_next", deque([None]))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    posts.mode_closed()
    try:
        with pytest.raises(KeyboardInterrupt):
            waited()
        assert fell == [64]
    finally:
        gc.callbacks.remove(posts._collected)
        signal.signal(signal.SIGINT, before)
