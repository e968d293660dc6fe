"""What ends or starves a process in the middle of a mode: signals, memory, threads that open and close modes at once.

Elsewhere: a log whose disk is full or whose folder goes (test_log.py, test_log_lost.py), forks (test_fork.py), places that somebody
else changes (test_monkeypatches.py), hostile logs and bundles (test_log_hostile.py, test_repro_hostile.py).
"""

import os
import shutil
import signal
import sys
import textwrap
import threading
import time

import forked
import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import ranks
from helpers import PATIENCE, in_child, thinned

import padiff_shim

ENDED = """
import os, signal, sys
import paddle, padiff_shim
with padiff_shim.compare("torch", log=sys.argv[1], progress=False):
    x = paddle.ones([4, 4])
    for _ in range(20):
        x = paddle.tanh(x)
    print("ready", flush=True)
    while True:
        x = paddle.tanh(x)
"""


@pytest.mark.compat
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
@pytest.mark.parametrize("how", thinned(("killed", "terminated", "asked to end"), "killed"))
def test_a_process_that_is_ended_leaves_its_records(how, tmp_path):
    program = textwrap.dedent(ENDED)
    if how == "asked to end":  # as a launcher's workers do: the handler raises, and the mode closes on its way
        program = program.replace("with padiff", "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\nwith padiff")
    sent = signal.SIGKILL if how == "killed" else signal.SIGTERM
    with forked.started(["-c", program, tmp_path / "log"], ranks.environment(), warm=True) as ended:
        forked.until_printed("ready", ended)
        os.kill(ended.process.pid, sent)
        assert ended().returncode == (3 if how == "asked to end" else -sent)
    run = padiff_shim.load(tmp_path / "log")
    assert len(run.calls) >= 20
    assert run.verdicts
    (log,) = (tmp_path / "log").glob("*.jsonl")
    assert (b'{"type":"end"' in log.read_bytes()) == (how == "asked to end")


@pytest.mark.compat
@pytest.mark.skipif(sys.platform != "linux", reason="signals")
@pytest.mark.parametrize("profile", thinned((False, True), True))
def test_a_reference_run_that_is_killed_leaves_what_it_had_counted(profile, tmp_path):
    """What was counted a moment ago: not nothing, and not as if it were all."""
    program = ENDED.replace("compare", "reference").replace("progress=False", f"profile={profile}")
    program = program.replace("x = paddle.ones([4, 4])", "x = w = paddle.ones([4, 4]); w.stop_gradient = False")
    program = program.replace('print("ready", flush=True)', 'x.sum().backward(); print("ready", flush=True)', 1)
    program += "        paddle.tanh(w).sum().backward()\n        x = w\n"
    with forked.started(["-c", textwrap.dedent(program), tmp_path / "log"], ranks.environment(), warm=True) as ended:
        forked.until_printed("ready", ended)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            run = padiff_shim.load(tmp_path / "log")
            if run.backward.get("tanh", 0) > 20:
                break
            time.sleep(0.1)
    assert run.backward["tanh"] > 20
    assert run.substituted["tanh"] > 20
    assert bool(run.to_dict()["profile"]) is profile
    (remark,) = run.warnings
    assert "was not closed" in remark
    assert "was not closed" in str(run)


def test_what_can_no_longer_be_kept_breaks_no_program(tmp_path):
    """The folder goes, and a file stands in its place: a step goes on, and the end says so."""
    x = paddle.ones([4])
    x.stop_gradient = False
    mode = padiff_shim.reference("torch", log=tmp_path / "log")
    run = mode.start()
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "log").write_text("")
    run._due = 0.0  # as if time had passed
    F.gelu(x).sum().backward()
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        mode.stop()
    assert run.backward["gelu"] == 1


STARVED = """
import gc, resource
def starve(mib):
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + mib * 2**20, resource.RLIM_INFINITY))
def feed():
    gc.collect()
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
large, small = paddle.ones([64, 1024, 1024]), paddle.linspace(-1, 1, 64)   # 256 MiB
large.stop_gradient = small.stop_gradient = False
def step():
    F.gelu(small * 2.0).sum().backward()
    grad = small.grad.numpy()
    small.clear_gradient()
    return grad
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory")
def test_torch_without_memory_is_an_error_and_no_more():
    done = in_child(
        STARVED
        + textwrap.dedent("""
        with padiff_shim.reference("torch") as run:
            before = step()
            starve(100)
            try:
                F.gelu(large)
            except MemoryError as error:
                print("forward:", type(error).__name__)
            feed()
            starve(400)
            result = F.gelu(large)
            try:
                result.sum().backward()
            except (MemoryError, RuntimeError) as error:
                print("backward:", "alloc" in str(error))
            result = None
            large.clear_gradient()
            feed()
            assert (step() == before).all()
            (2.0 * small).sum().backward()
            print("after:", run.native)
        """)
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["forward: MemoryError", "backward: True", "after: {}"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory")
def test_a_comparison_without_memory_breaks_no_program():
    done = in_child(
        STARVED
        + textwrap.dedent("""
        with padiff_shim.compare("torch", progress=False) as run:
            step()
            starve(400)
            with paddle.no_grad():
                assert F.gelu(large).shape == large.shape
            feed()
            step()
        print(run.native.get("gelu") or run.native)
        """)
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "alloc" in done.stdout, done.stdout


def test_threads_that_open_and_close_modes_at_once(undone):
    """Each thread's modes are its own; what one closes stays open in the others, and at the end nothing is."""
    values = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
    expected = F.softmax(paddle.tanh(paddle.to_tensor(values))).numpy()
    wrong, start = [], threading.Barrier(4)

    def work(number):
        try:
            start.wait(PATIENCE)
            random = np.random.default_rng(number)
            for _ in range(12):
                modes = [padiff_shim.reference("torch"), padiff_shim.compare("torch", progress=False)]
                opened = [modes[int(i)] for i in random.permutation(2)]
                for mode in opened:
                    mode.start()
                result = F.softmax(paddle.tanh(paddle.to_tensor(values))).numpy()
                for mode in (opened[int(i)] for i in random.permutation(2)):
                    mode.stop()
                assert np.allclose(result, expected, rtol=1e-5, atol=1e-6)
                inner = opened[-1].run
                counted = inner.substituted.get("tanh") if opened[-1] is modes[0] else inner.counts.calls
                assert counted, (number, inner)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not wrong, wrong
