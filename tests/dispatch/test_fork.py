"""Graphs and frames of a process that forks: the child ends its backward, with the right values, and compares nothing."""

import sys
import textwrap

import forked
import pytest
from helpers import WATCHDOG, thinned

pytestmark = [pytest.mark.compat, pytest.mark.skipif(sys.platform != "linux", reason="forks")]

PRELUDE = """
import os, sys
import numpy as np, paddle, padiff_shim, torch

torch.set_num_threads(2)
torch.ones(512, 512) @ torch.ones(512, 512)   # torch's thread pool runs: a kernel in a forked child could hang now
x, w = paddle.randn([300, 300]), paddle.randn([300, 300])
w.stop_gradient = False

def layers(x):
    hidden = paddle.nn.functional.softmax(paddle.tanh(x @ w / 10) @ w)
    return paddle.einsum("ij,jk->ik", hidden, w / 100).sum()

def in_child(function):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            function()
            sys.stdout.flush()
        finally:
            os._exit(1 if sys.exc_info()[0] else 0)
    assert os.waitpid(child, 0)[1] == 0

MODES = {
    "reference": lambda: padiff_shim.reference("torch"),
    "compare": lambda: padiff_shim.compare("torch", log=sys.argv[2]),
    "carry": lambda: padiff_shim.compare("torch", log=sys.argv[2], carry="torch"),
    "shadow": lambda: padiff_shim.compare("torch", log=sys.argv[2], shadow=True),
}
layers(x).backward()
native = w.grad.numpy()
w.clear_gradient()
"""


def run(source, mode, folder):
    """What a program prints in a process of its own, which ends itself with a traceback if it hangs."""
    done = forked.run(["-c", WATCHDOG + PRELUDE + textwrap.dedent(source), mode, folder / "log"], warm=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()


@pytest.mark.rows(1)
@pytest.mark.parametrize("mode", thinned(("reference", "compare", "carry"), "reference", "compare"))
def test_the_backward_of_a_graph_made_before_the_fork(mode, tmp_path):
    lines = run(
        """
        def backward():
            loss.backward()
            np.testing.assert_allclose(w.grad.numpy(), native, rtol=1e-2, atol=1e-3)
            print("right")

        def twice():
            loss.backward(retain_graph=True)
            backward()

        with MODES[sys.argv[1]]() as run:
            loss = layers(x)
            in_child(backward)
            native = 2 * native
            in_child(twice)
            native = native / 2
        records = 0 if sys.argv[1] == "reference" else len(run.calls)
        in_child(backward)   # the mode is closed, too
        if sys.argv[1] != "reference":
            assert len(run.calls) == records, "the children compared nothing"
        """,
        mode,
        tmp_path,
    )
    assert lines == ["right"] * 3


@pytest.mark.rows(1)
@pytest.mark.parametrize("mode", ["reference", "shadow"])
def test_a_child_trains_natively_and_the_parent_goes_on(mode, tmp_path):
    lines = run(
        """
        class Returns(paddle.autograd.PyLayer):
            forward = staticmethod(lambda ctx, tensor: tensor)
            backward = staticmethod(lambda ctx, grad: grad)

        def train():
            loss = Returns.apply(layers(x))
            loss.backward()
            same = np.array_equal(w.grad.numpy(), native)
            with padiff_shim.reference("torch") as again:
                Returns.apply(layers(x) * 1.0).backward()
            same = same and np.allclose(w.grad.numpy(), 2 * native)
            print(same, again.substituted)

        with MODES[sys.argv[1]]() as run:
            layers(x)
            in_child(train)
            w.clear_gradient()
            layers(x).backward()
        print(np.allclose(w.grad.numpy(), native, rtol=1e-2, atol=1e-3))
        """,
        mode,
        tmp_path,
    )
    assert lines == ["True {}", "True"]


def test_a_task_whose_frame_another_context_opened(tmp_path):
    lines = run(
        """
        import asyncio
        opened = asyncio.Event()

        async def computes(run_of):
            with MODES[sys.argv[1]]() as run:
                run_of.append(run)
                opened.set()
                await asyncio.sleep(0)
                await resumed.wait()
                if os.getpid() != parent:
                    layers(x)
                    print(run.substituted, flush=True)
                    os._exit(0)

        async def main():
            task = asyncio.create_task(computes(runs))
            await opened.wait()
            child = os.fork()
            resumed.set()
            await task
            assert os.waitpid(child, 0)[1] == 0

        runs, parent, resumed = [], os.getpid(), asyncio.Event()
        asyncio.run(main())
        """,
        "reference",
        tmp_path,
    )
    assert lines == ["{}"]
