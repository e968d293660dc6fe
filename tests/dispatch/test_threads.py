"""Threads, forked processes, data loaders and compiled programs under a mode."""

import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import paddle
import pytest
from helpers import PATIENCE

import padiff_shim
from padiff_shim.dispatch import frames
from padiff_shim.intercept import entry_points

ROOT = Path(__file__).resolve().parents[2]
MODERN = not paddle.__version__.startswith("2.")


pytestmark = pytest.mark.usefixtures("undone")


def multiply(times=1):
    x = paddle.ones([2, 2])
    for _ in range(times):
        x = x @ (x / 2)
    return x


def in_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(timeout=PATIENCE)


def output_of(source):
    """What Python source prints in another process, which must end by itself."""
    prelude = "import paddle, padiff_shim\nimport os, sys\n"
    done = forked.run(["-c", prelude + textwrap.dedent(source)], warm=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()


# ------------------------------------------------------------------------------------------------ threads


@pytest.mark.compat
def test_a_mode_does_not_leak_into_other_threads():
    with padiff_shim.reference("torch") as run:
        in_thread(multiply)
        assert in_thread(frames.top) is None
    assert run.substituted == run.native == {}


@pytest.mark.compat
@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
def test_what_runs_natively_in_other_threads_is_said_once(mode):
    in_thread(multiply)  # before the mode
    with mode("torch") as run:
        in_thread(lambda: paddle.concat([paddle.ones([2]), paddle.zeros([2])]))  # nothing that kernels may differ in
        assert not [remark for remark in run.warnings if "thread" in remark]
        for _ in range(3):
            in_thread(multiply)
        multiply()
    assert len([remark for remark in run.warnings if "all_threads=True" in remark and "thread" in remark]) == 1
    with mode("torch") as other:
        in_thread(multiply)
    assert [remark for remark in other.warnings if "all_threads=True" in remark]


@pytest.mark.compat
def test_threads_with_modes_of_their_own_are_no_strangers():
    def work():
        with padiff_shim.reference("torch") as own:
            multiply()
        return own.warnings

    with padiff_shim.reference("torch") as run:
        assert in_thread(work) == []
        multiply()
    assert run.warnings == []


@pytest.mark.compat
def test_all_threads_counts_every_call():
    threads, times = 8, 200
    barrier = threading.Barrier(threads)

    def work(_):
        barrier.wait(timeout=PATIENCE)
        multiply(times)

    with padiff_shim.reference("torch", all_threads=True) as run, ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
        multiply()
    assert run.substituted == {"matmul": threads * times + 1, "divide": threads * times + 1}
    assert run.native == {}
    in_thread(multiply)
    assert run.substituted["matmul"] == threads * times + 1


def test_a_threads_own_mode_wins_over_a_shared_one():
    with padiff_shim.reference("torch", all_threads=True) as shared:

        def work():
            with padiff_shim.reference("torch") as own:
                multiply()
            multiply(2)
            return own

        own = in_thread(work)
    assert (own.substituted["matmul"], shared.substituted["matmul"]) == (1, 2)


def test_one_mode_in_many_threads_at_once():
    mode = padiff_shim.reference("torch")
    decorated = mode(multiply)
    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(decorated, 5) for _ in range(60)]:
            future.result(timeout=PATIENCE)
    assert mode.run.substituted == {"matmul": 300, "divide": 300}


@pytest.mark.compat
def test_closing_from_another_thread():
    mode = padiff_shim.reference("torch")
    run = mode.start()
    multiply()
    in_thread(mode.stop)
    assert not entry_points.OPS.installed
    with padiff_shim.reference("torch") as other:
        multiply()
    assert frames.top() is None
    assert run.substituted["matmul"] == other.substituted["matmul"] == 1


# ------------------------------------------------------------------------------------------------ processes

WARM_POOL = """
import torch
torch.set_num_threads(2)
torch.ones(512, 512) @ torch.ones(512, 512)   # torch's thread pool runs: a kernel in a forked child could hang now
"""


@pytest.mark.compat
@pytest.mark.skipif(not hasattr(sys, "getwindowsversion") and sys.platform != "linux", reason="forks")
def test_a_forked_child_runs_natively_and_says_so():
    lines = output_of(
        WARM_POOL
        + textwrap.dedent("""
        with padiff_shim.reference("torch", all_threads=True) as run:
            x = paddle.ones([600, 600])
            x @ x
            sys.stdout.flush()
            child = os.fork()
            if not child:
                y = x @ x
                with padiff_shim.reference("torch") as again:
                    x @ x
                print(run.native, again.substituted, again.native, float(y[0, 0].item()), flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            x @ x
        print(run.substituted, run.native, flush=True)
        """)
    )
    reason = "{'matmul': {'forked child process: torch kernels can hang there': 1}}"
    assert lines[-2:] == [f"{reason} {{}} {reason} 600.0", "{'matmul': 2} {}"]


@pytest.mark.compat
def test_data_loader_workers_do_not_hang():
    lines = output_of(
        WARM_POOL
        + textwrap.dedent("""
        import numpy as np

        class Set(paddle.io.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, index):
                value = paddle.ones([300, 300]) @ paddle.full([300, 300], float(index))
                return value[:2, :2].numpy() / np.float32(300)

        with padiff_shim.reference("torch") as run:
            total = 0.0
            for batch in paddle.io.DataLoader(Set(), batch_size=2, num_workers=2, return_list=True):
                batch = batch[0] if isinstance(batch, list) else batch
                total += float((batch @ batch).sum().item())
        print(total, run.substituted, run.native)
        """)
    )
    total = sum(2 * index * index * 4 for index in range(8))
    assert lines[-1] == f"{float(total)} {{'matmul': 4, 'sum': 4}} {{}}"


# ------------------------------------------------------------------------------------------------ compiled programs


def compiled(**options):
    @paddle.jit.to_static(**options)
    def function(x):
        return paddle.matmul(x, x) / 2 + 1

    return function


@pytest.mark.filterwarnings("ignore")
def test_a_program_compiled_inside_a_mode_runs_natively():
    x = paddle.ones([2, 2])
    function = compiled(full_graph=True)
    with padiff_shim.reference("torch") as run:
        inside = function(x)
        x @ x
    assert inside.tolist() == function(x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert run.substituted == {"matmul": 1}
    assert any("compiled program" in warning for warning in run.warnings)
    assert "compiled program" in str(run)


@pytest.mark.filterwarnings("ignore")
def test_a_program_compiled_before_the_mode_is_reported_once():
    x = paddle.ones([2, 2])
    function = compiled(full_graph=True)
    native = function(x)
    with padiff_shim.reference("torch") as run:
        assert function(x).tolist() == function(x).tolist() == native.tolist()
    assert run.substituted == {}
    assert sum(run.native["run_program"].values()) == 2
    assert [warning for warning in run.warnings if "compiled program" in warning] == run.warnings
    assert len(run.warnings) == 1


@pytest.mark.skipif(not MODERN, reason="SOT of Paddle 3")
@pytest.mark.filterwarnings("ignore")
def test_sot_gives_right_results_inside_and_afterwards():
    x = paddle.ones([2, 2])
    function = compiled(full_graph=False)
    with padiff_shim.reference("torch") as run:
        inside = function(x).tolist()
        again = function(x).tolist()
    assert inside == again == function(x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert run.substituted.get("matmul", 0) == 2 or "run_program" in run.native


def test_static_graph_mode_inside_a_mode():
    with padiff_shim.reference("torch") as run:
        paddle.enable_static()
        try:
            program = paddle.static.Program()
            with paddle.static.program_guard(program):
                data = paddle.static.data("x", [2, 2], "float32")
                result = paddle.exp(paddle.matmul(data, data) / 2.0 + data)
                import numpy as np

                value = paddle.static.Executor().run(program, feed={"x": np.zeros((2, 2), "float32")}, fetch_list=[result])[0]
        finally:
            paddle.disable_static()
        multiply()
    assert value.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert run.substituted == {"matmul": 1, "divide": 1}


def test_what_a_thread_leaves_open_is_closed_when_it_ends():
    """No other thread sees the mode, or could close it; Paddle is not left redirected."""
    runs = []

    def leave_open():
        runs.append(padiff_shim.reference("torch").start())

    thread = threading.Thread(target=leave_open)
    with pytest.warns(RuntimeWarning, match="a thread ended while the mode was open"):
        in_thread(lambda: (thread.start(), thread.join()))
    assert len(runs[0].warnings) == 1
