"""Memory stays flat: compared calls, with and without a backward, whatever ends them; each in a process of its own."""

import pytest
from helpers import PATIENCE, in_child

from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not IS_3, reason="what is hooked on 3.x is replayed on 2.6")]

# The tensors of `large` are 1 MiB: one that is leaked in every step is unmistakable beside what allocators keep.
PROGRAM = """
import ctypes, gc, sys, threading
trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)

def resident():
    gc.collect(); trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4 / 1024

x, w, b = paddle.rand([8, 8]), paddle.rand([8, 8]), paddle.rand([8])
X, W = paddle.rand([512, 512]), paddle.rand([512, 512])
for leaf in (x, w, b, X, W):
    leaf.stop_gradient = False

def over(loss, **options):
    loss.backward(**options)
    for leaf in (x, w, b):
        leaf.clear_gradient()

def forward(): x * w, F.linear(x, w, b), paddle.exp(x), paddle.tanh(x), F.softmax(x)
def backward(): over(F.softmax(paddle.tanh(F.linear(paddle.exp(x * 0.1), w, b))).square().sum())
def forward_in_place():
    h = x * 1.0
    h.add_(w); h.exp_(); h.tanh_()
def in_place():
    h = x * 1.0
    h.add_(w); h.tanh_(); over(h.sum())
def retained():
    y = paddle.exp(x * w).sum()
    over(y, retain_graph=True); over(y, retain_graph=True)
def penalty():
    (g,) = paddle.grad(F.linear(x, w, b).tanh().sum(), x, create_graph=True)
    over((g * g).sum())
def unfinished_penalty():
    h = x * w
    (g,) = paddle.grad(h.tanh().sum(), h, create_graph=True)
    g * g
def partial():
    y = F.linear(x, w, b).tanh()
    paddle.grad(y.sum(), x, retain_graph=True); paddle.grad(y.sum(), b)
def replayed(): over(paddle.einsum("ij,jk->ik", x, w).sum()); paddle.einsum("ij,jk->ik", x, w)
def raising():
    y = paddle.exp(x * w)
    def refuse(grad): raise ValueError("refused")
    y.register_hook(refuse)
    try: over(y.sum())
    except Exception: pass
def hooked():
    y = paddle.exp(x * w)
    y.register_hook(lambda grad: grad * 2.0)
    over(y.sum())
def threaded():
    worker = threading.Thread(target=backward)
    worker.start(); worker.join()

def large():
    paddle.exp(X * W)
    paddle.tanh(X * W).sum().backward()
    X.clear_gradient(); W.clear_gradient()

PROGRAMS = (
    forward, backward, forward_in_place, in_place, retained, penalty, unfinished_penalty, partial, replayed, raising, hooked
)

from padiff_shim.tape.calls import TapeCall
from padiff_shim.tape.twins import Taped
from padiff_shim.comparison.compared_call import ComparedCall

from padiff_shim.comparison import gradients
def alive():
    # What the modes keep for a backward is an object for each call.
    gc.collect()
    gradients.let_go()  # while a mode is open it is the next hook, or the end of a backward, that looks
    gc.collect()
    return sum(type(one) in (ComparedCall, TapeCall, Taped) for one in gc.get_objects())

gc.freeze()  # the frameworks themselves: a collection need not walk through them

def grown(step, steps, mode):
    with mode:
        step(); step(); step()
        before = resident()
        for _ in range(steps):
            step()
        inside = resident() - before
    return inside / steps, (resident() - before) / steps
"""

MODES = """
MODES = {
    "compare": lambda: padiff_shim.compare("torch"),
    "carry": lambda: padiff_shim.compare("torch", carry="torch"),
    "shadow": lambda: padiff_shim.compare("torch", shadow=True, on_mismatch="warn", callback=str),
    "threads": lambda: padiff_shim.compare("torch", all_threads=True),
    "reference": lambda: padiff_shim.reference("torch"),
}
"""


def flat(program, *, timeout=PATIENCE):
    done = in_child(PROGRAM + program, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("grown")]
    assert lines, done.stdout + done.stderr
    leaks = [line for line in lines if max(float(line[2]), float(line[3])) > float(line[4])]
    assert not leaks, leaks


def test_no_object_is_left_behind():
    done = in_child(
        PROGRAM
        + MODES
        + """
for name, mode in MODES.items():
    with mode():
        for step in (*PROGRAMS, threaded):
            step(); step()
            assert not alive(), (name, step.__name__, alive())
    assert not alive(), name
def outside():
    with padiff_shim.compare("torch", ops="exp"):
        y = paddle.exp(x)
    over(y.sum())
    paddle.grad(y.detach().sum() + paddle.exp(x).sum(), x)
outside()
assert not alive()
import weakref
with padiff_shim.compare("torch") as run:
    backward()
gone = weakref.ref(run)
del run
gc.collect()
assert gone() is None
print("none")
"""
    )
    assert "none" in done.stdout, done.stdout + done.stderr


def test_no_tensor_is_left_behind():
    flat(
        MODES
        + """
for name, mode in MODES.items():
    if name != "threads":
        print("grown", name, *grown(large, 10, mode()), 0.4)
"""
    )


@pytest.mark.long
@pytest.mark.timeout(6 * PATIENCE)
def test_long_runs_are_flat():
    """2,000 training steps, 10^5 calls with a backward in between, and as many forward calls alone: a few MiB in all."""
    flat(
        """
layer = paddle.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0)
net = paddle.nn.TransformerEncoder(layer, 2)
optimizer = paddle.optimizer.AdamW(parameters=net.parameters())
data, small = paddle.rand([2, 8, 32]), paddle.rand([16, 16])
small.stop_gradient = False
def train():
    net(data).square().mean().backward(); optimizer.step(); optimizer.clear_grad()
def calls():
    y = small
    for _ in range(100): y = paddle.tanh(y)
    y.sum().backward(); small.clear_gradient()
def forwards():
    for _ in range(100): paddle.tanh(small)
for step, steps in ((train, 2000), (calls, 1000), (forwards, 1000)):
    print("grown", step.__name__, *grown(step, steps, padiff_shim.compare("torch", progress=False)), 8 / steps)
""",
        timeout=5 * PATIENCE,
    )
