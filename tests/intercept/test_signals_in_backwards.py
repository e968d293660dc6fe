"""What the handler of a signal raises inside a backward reaches the program as that very object."""

import _thread
import functools
import itertools
import signal
import sys

import paddle
import pytest
from helpers import in_child
from paddle.distributed.fleet.utils import recompute

import padiff_shim
from padiff_shim import interrupts
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.tape import paddle_graph

NATIVE = paddle.logcumsumexp  # in a reference mode of these tests
MODES = {
    "reference": functools.partial(padiff_shim.reference, "torch", exclude=["logcumsumexp"]),
    "compare": functools.partial(padiff_shim.compare, "torch", progress=False),
    "carry": functools.partial(padiff_shim.compare, "torch", carry="torch", progress=False),
}
NUMBER = signal.SIGUSR1
pytestmark = pytest.mark.compat


class TooSlowError(Exception):
    """A timeout's."""


class StopError(BaseException):
    """As pytest's own outcomes are."""


@pytest.fixture(params=[TooSlowError, StopError, SystemExit, KeyboardInterrupt], ids=lambda kind: kind.__name__)
def raised(request):
    """The error that the handler of a signal raises."""
    error = request.param("too slow")

    def handler(number, _):
        signal.signal(number, signal.SIG_DFL)  # as one does that is to run once
        raise error

    before = signal.signal(NUMBER, handler)
    yield error
    signal.signal(NUMBER, before)
    error.__traceback__ = None  # its frames hold leaves whose hooks hold it: no collector sees that ring


def matrix():
    return paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)


def comes(*_):
    signal.raise_signal(NUMBER)


def in_the_hook_of_a_leaf():
    x = matrix()
    x.register_hook(comes)
    return paddle.exp(x).sum()


def in_the_hook_of_a_result():
    y = paddle.exp(matrix())
    y.register_hook(comes)
    return y.sum()


def in_the_hook_of_a_native_result():
    y = NATIVE(paddle.exp(matrix()))
    y.register_hook(comes)
    return y.sum()


class Comes(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        comes()
        return grad * 2.0


def in_a_layers_backward():
    return Comes.apply(paddle.exp(matrix())).sum()


def recomputed(again, **options):
    """``again`` is called in the block when it runs once more, in the backward."""
    calls = itertools.count()

    def block(x):
        if next(calls):
            again(x)
        return NATIVE(paddle.exp(x))  # Paddle keeps what its backward reads

    return recompute(block, matrix() * 1.0, **options).sum()


def within_another_backward():
    x, inner = matrix(), in_the_hook_of_a_result()
    x.register_hook(lambda grad: inner.backward())
    return paddle.exp(x).sum()


PROGRAMS = {
    "leaf": in_the_hook_of_a_leaf,
    "result": in_the_hook_of_a_result,
    "native result": in_the_hook_of_a_native_result,
    "PyLayer": in_a_layers_backward,
    "recompute": functools.partial(recomputed, comes),
    "a backward within": within_another_backward,
}
if IS_3:
    PROGRAMS["recompute by hooks"] = functools.partial(recomputed, comes, use_reentrant=False)


def assert_at_rest():
    assert paddle.is_grad_enabled()
    x = matrix()
    paddle.exp(x).sum().backward()
    assert x.grad.numpy().tolist() == paddle.exp(x).numpy().tolist()


@pytest.mark.rows(24)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_object_arrives(mode, name, raised):
    with MODES[mode]():
        loss = PROGRAMS[name]()
        with pytest.raises(type(raised)) as caught:
            loss.backward()
        assert caught.value is raised
        assert raised.__cause__ is None
        assert raised.__context__ is None
        assert_at_rest()


class Number(int):
    """A signal's, which comes when ``now`` is asked for."""

    now = property(_thread.interrupt_main)


def waiting():
    """A leaf whose hook, which is no Python code, has a signal come: its handler runs where the next Python function begins."""
    leaf = matrix()
    paddle_graph._register_grad_hook(leaf, functools.partial(getattr, Number(NUMBER), "now"))  # Paddle's own door
    return leaf


def meets(mode, leaf, depth, outlived):
    """A backward to three leaves; the signal comes behind so many ops of the chain that leads to the other two."""
    run = mode()
    run.start()
    try:
        chain = matrix()
        for index in range(4):
            chain = paddle.tanh(chain @ chain)
            if index == depth:
                chain = chain + leaf
        loss = (chain * matrix()).sum()
        if outlived:
            run.stop()
        loss.backward()
    finally:
        if not outlived:
            run.stop()


@pytest.mark.rows(24)
@pytest.mark.skipif(sys.version_info < (3, 10), reason="no signal can be made to wait by a function in C")
@pytest.mark.parametrize("outlived", [False, True], ids=["in the mode", "behind it"])
@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("mode", MODES)
def test_a_signal_that_waits_as_one_of_our_hooks_begins(mode, depth, outlived, raised):
    with pytest.raises(type(raised)) as caught:
        meets(MODES[mode], waiting(), depth, outlived)
    assert caught.value is raised
    assert_at_rest()


@pytest.mark.parametrize("name", ["leaf", "result", "native result", "PyLayer", "recompute"])
def test_an_error_of_ours_arrives_as_it_is(name, monkeypatch):
    def refused(*_):
        padiff_shim.reference("no such backend")

    monkeypatch.setattr(sys.modules[__name__], "comes", refused)
    with MODES["reference"]():
        loss = recomputed(refused) if name == "recompute" else PROGRAMS[name]()
        with pytest.raises(padiff_shim.PadiffShimError):
            loss.backward()
        assert_at_rest()


@pytest.mark.parametrize("mode", MODES)
def test_another_error_of_a_hook_is_what_paddle_makes_of_it(mode):
    def fails(grad):
        raise TooSlowError("mine")

    with MODES[mode]():
        y = NATIVE(matrix())
        y.register_hook(fails)
        with pytest.raises(OSError, match="TooSlowError: mine"):
            y.sum().backward()
        assert_at_rest()


def test_what_left_a_hook_of_one_backward_is_not_raised_by_another(raised):
    """An error in a hook that was set outside of all modes is natively an OSError, whatever came before."""

    def fails(grad):
        raise ValueError("mine")

    def ends(grad):
        with pytest.raises(type(raised)):
            in_the_hook_of_a_leaf().backward()

    leaf, around = matrix(), matrix()
    leaf.register_hook(fails)
    with padiff_shim.reference("torch"):
        around.register_hook(ends)
        paddle.exp(around).sum().backward()
        with pytest.raises(OSError, match="ValueError: mine"):
            paddle.exp(leaf).sum().backward()


def test_an_error_that_is_raised_again_is_the_same():
    error = TooSlowError()

    def leaves():
        held = interrupts.raised_again(error)
        held = None  # noqa: F841 - dropped
        return 1

    def goes_on():
        return leaves() + len(str(leaves))

    with pytest.raises(TooSlowError) as caught:
        goes_on()
    assert caught.value is error


AT_RANDOM = """
import random, signal
import numpy as np

class TooSlowError(Exception):
    pass

def alarm(*_):
    came[:] = [TooSlowError()]
    raise came[0]

def step():
    generator = np.random.default_rng(0)
    x, label = paddle.to_tensor(generator.normal(size=(8, 16)).astype("float32")), paddle.to_tensor(generator.integers(0, 4, (8,)))
    w = paddle.to_tensor(generator.normal(size=(16, 4)).astype("float32"), stop_gradient=False)
    h = F.layer_norm(paddle.tanh(F.linear(x, w)), 4)
    loss = F.cross_entropy(F.softmax(h) * paddle.exp(h), label)
    loss.backward()
    return loss.numpy(), w.grad.numpy()

def switches():
    return (
        torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack(), torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled(), paddle.is_grad_enabled(),
        paddle.base.framework._dygraph_tracer()._amp_level,
    )

MODES = {
    "reference": lambda: padiff_shim.reference("torch"),
    "compare": lambda: padiff_shim.compare("torch", progress=False),
    "carry": lambda: padiff_shim.compare("torch", carry="torch", progress=False),
}
before, came, met, mode = switches(), [], 0, MODES[NAME]
with mode():
    step(), step()
signal.signal(signal.SIGALRM, alarm)
random.seed(0)
for _ in range(400):
    came.clear()
    try:
        signal.setitimer(signal.ITIMER_REAL, random.random() * 0.05 + 1e-4)
        with mode():
            step(), step()
    except TooSlowError as error:
        met += 1
        assert error is came[0]
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
    except TooSlowError:
        pass
    assert switches() == before, came
native = step()
with mode() as run:
    shown = step()
assert "linear" in str(run)
assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(native, shown))
assert met
print("whole")
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_signals_of_a_timer(mode):
    """Whatever C or Python code they fall into: nothing else than the handler's error is raised, and every switch is as it was."""
    done = in_child(f"NAME = {mode!r}\n{AT_RANDOM}")
    assert "whole" in done.stdout, done.stdout + done.stderr[-3000:]
