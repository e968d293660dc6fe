"""Threads that exchange, use and free each other's tensors, however they enter: nothing ever waits for ever.

Each program runs in a process of its own, which ends itself with the threads' tracebacks if it hangs.
"""

import textwrap
from pathlib import Path

import forked
import pytest
from helpers import WATCHDOG

ROOT = Path(__file__).resolve().parents[2]

PRELUDE = """
import contextlib, queue, sys, threading
import paddle, torch, padiff_shim

torch.set_num_threads(1)
sys.setswitchinterval(1e-5)  # threads change places as often as they can
mode = getattr(padiff_shim, sys.argv[1])
rounds = int(sys.argv[2])
w = paddle.randn([16, 16]); w.stop_gradient = False
x = paddle.randn([16, 16])
handed, failed = queue.Queue(8), []

def work(function):
    try:
        while (item := handed.get()) is not None:
            function(item)
    except BaseException as error:
        failed.append(error)
        raise

def begin(function):
    thread = threading.Thread(target=work, args=(function,))
    thread.start()
    return thread

def loss():
    return (paddle.tanh(x @ w).t() @ x).sum()
"""

PROGRAMS = {
    "backward in another thread": """
        thread = begin(lambda item: item.backward())
        with mode("torch"):
            for _ in range(rounds):
                handed.put(loss())
            handed.put(None); thread.join()
    """,
    "a thread that begins later": """
        with mode("torch"):
            made = [loss() for _ in range(rounds)]
            thread = begin(lambda item: item.backward())
            while made:
                handed.put(made.pop())
                if made:
                    made.pop()
                loss()
            handed.put(None); thread.join()
    """,
    "a thread that only drops tensors": """
        thread = begin(lambda item: None)
        with mode("torch"):
            for _ in range(rounds):
                handed.put([paddle.tanh(x @ w), paddle.exp(x).t(), loss()])
                loss().backward()
            handed.put(None); thread.join()
    """,
    "an optimizer in another thread": """
        optimizer = paddle.optimizer.SGD(1e-3, parameters=[w])
        def update(item):
            item.backward(); optimizer.step(); optimizer.clear_grad()
        thread = begin(update)
        with mode("torch"):
            for _ in range(rounds):
                handed.put(loss())
            handed.put(None); thread.join()
    """,
    "modes in every thread": """
        def train(item):
            with mode("torch"):
                (loss() + item).backward()
        threads = [begin(train) for _ in range(3)]
        with mode("torch", all_threads=True):
            for _ in range(rounds):
                handed.put(loss())
            for _ in threads:
                handed.put(None)
            for thread in threads:
                thread.join()
    """,
    "hooks that hand on": """
        thread = begin(lambda item: (item * 2).sum())
        with mode("torch"):
            for _ in range(rounds):
                hidden = paddle.tanh(x @ w)
                hidden.register_hook(lambda grad: handed.put(grad))
                hidden.sum().backward()
            handed.put(None); thread.join()
    """,
    "a data loader with threads": """
        class Data(paddle.io.Dataset):
            def __len__(self): return 4 * rounds
            def __getitem__(self, index): return paddle.tanh(paddle.full([16], float(index))) .numpy()
        with mode("torch", all_threads=True):
            for batch in paddle.io.DataLoader(Data(), batch_size=4, num_workers=0, use_buffer_reader=True):
                batch = batch[0] if isinstance(batch, list) else batch
                (batch @ w).sum().backward()
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reference", "compare"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_that_use_each_others_tensors_never_hang(name, mode):
    source = WATCHDOG + PRELUDE + textwrap.dedent(PROGRAMS[name]) + "\nassert not failed, failed\nprint('done', flush=True)\n"
    rounds = "300" if mode == "reference" else "40"
    done = forked.run(["-c", source, mode, rounds], warm=True)
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]
