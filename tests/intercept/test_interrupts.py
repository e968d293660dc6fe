"""A Ctrl-C, or the signal of a timeout, wherever one can come: nothing stays half done, and what follows is right.

CPython takes signals where functions begin, among other places. There a call within our own functions, or within the contexts
of Python's and Torch's that they use, raises.
"""

import gc
import os
import sys

import numpy as np
import paddle
import pytest
import torch
from counted_calls import CountedCalls

import padiff_shim
from padiff_shim import interrupts
from padiff_shim.dispatch import call_site, frames
from padiff_shim.frameworks.torch_state import disturbed
from padiff_shim.intercept import engine, entry_points
from padiff_shim.interrupts import finish
from padiff_shim.modes.mode import Mode
from padiff_shim.tape import twins
from padiff_shim.tape.paddle_graph import LOCAL

OURS = os.path.dirname(padiff_shim.__file__) + os.sep
OTHERS = (
    "contextlib.py",
    "grad_mode.py",
    *(
        os.sep.join(("torch", *parts))
        for parts in (("utils", "_contextlib.py"), ("utils", "_python_dispatch.py"), ("overrides.py",))
    ),
    os.sep.join(("autograd", "graph.py")),
)
# There an opening is not begun to be closed yet, and nobody is left who could close it.
TOO_EARLY = {(Mode.__exit__.__code__, 1)}
VALUES = np.linspace(-1, 1, 16, dtype="float32").reshape(4, 4)


pytestmark = pytest.mark.filterwarnings("ignore:a mode of padiff_shim")


class Calls(CountedCalls):
    """The calls of a program, counted by function; the call ``at`` is interrupted: a function and a number."""

    def counted(self, file):
        return file.startswith(("<shortcut", OURS)) or file.endswith(OTHERS)

    def reached(self):
        raise KeyboardInterrupt


def interrupted(program, then):
    """Run a program once for the first and the last call of each function, which is interrupted, and ``then`` each time."""
    for _ in range(2):  # what is learnt once
        program()
    calls = Calls()
    calls.of(program)
    assert len(calls.counts) > 20
    for place in sorted({(code, at) for code, count in calls.counts.items() for at in (1, count)} - TOO_EARLY, key=str):
        try:  # noqa: SIM105 - contextlib is among the code that is interrupted
            Calls(place).of(program)
        except KeyboardInterrupt:
            pass
        then(f"interrupted at {place}")


def on_the_tape():
    """One more than tape tensors live: each holds this one object."""
    return sys.getrefcount(twins._presence())


LIVED = [0]


@pytest.fixture(autouse=True)
def _before():
    """What other tests have left on the tape keeps the engine's redirections."""
    gc.collect()
    LIVED[0] = on_the_tape()


def assert_undone(where):
    assert frames.top() is None, where
    assert not frames._shared, where
    assert on_the_tape() <= LIVED[0], where
    for group in (entry_points.OPS, entry_points.LAYERS, entry_points.SHADOWS, *([] if twins.alive() else [engine.ENGINE])):
        assert not group.installed, where
        assert not [point.path for point in group._points or () if point.ours()], where


def assert_at_rest(where):
    assert not call_site._stack.layers, where
    assert not call_site._stack.paths, where
    assert not interrupts.HERE.engines, where
    assert LOCAL.session is None, where
    assert LOCAL.turn is None, where
    assert not LOCAL.around, where
    assert torch.is_grad_enabled(), where
    assert not disturbed(), where
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None, where
    assert paddle.is_grad_enabled(), where
    assert paddle.base.framework._dygraph_tracer()._amp_level == paddle.base.core.AmpLevel.O0, where


def product():
    """A product and its gradient are Torch's."""
    x = paddle.to_tensor(VALUES, stop_gradient=False)
    side = torch.from_numpy(VALUES.copy()).requires_grad_()
    paddle.nn.functional.softmax(paddle.matmul(x, x)).sum().backward()
    torch.softmax(side @ side, -1).sum().backward()
    return bool((x.grad.numpy() == side.grad.numpy()).all())


@pytest.fixture(autouse=True)
def _no_noise(monkeypatch):
    """What falls into a destructor is printed by Python, and not raised; nothing else is."""
    sys.last_value = sys.last_traceback = None  # pytest keeps the frames of an earlier test's error there, and with them its graph
    gc.collect()
    others = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: others.append(what.exc_type.__name__))
    yield
    gc.collect()
    assert set(others) <= {"KeyboardInterrupt"}


def model():
    with paddle.utils.unique_name.guard():
        return paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.LayerNorm(4), paddle.nn.GELU())


def test_while_a_mode_is_opened_and_closed():
    def program():
        with padiff_shim.reference("torch", layers="**"):
            pass

    interrupted(program, assert_undone)


@pytest.mark.slow
def test_while_a_comparison_is_opened_and_closed(tmp_path):
    def program():
        with padiff_shim.compare("torch", shadow=True, progress=False, log=tmp_path):
            pass

    interrupted(program, assert_undone)


@pytest.mark.rows(1)
@pytest.mark.parametrize("options", [{}, {"layers": "**"}, {"profile": True}], ids=["all", "in layers", "timed"])
def test_in_a_forward_and_its_backward(options):
    net, x = model(), paddle.to_tensor(VALUES)

    def program():
        y = paddle.erfinv(net(x) * 0.1) + paddle.nn.functional.dropout(x, 0.0)
        y[0] = 1.0
        y.sum().backward()

    with padiff_shim.reference("torch", **options) as run:

        def then(where):
            assert_at_rest(where)
            before, equal = run.substituted.get("matmul", 0), product()
            # Outside layers it is Paddle's own, whose bits are Torch's on some processors alone
            assert "layers" in options or (equal and run.substituted["matmul"] == before + 1), where

        interrupted(program, then)
    gc.collect()
    assert_undone("at the end")


def test_in_a_step_of_an_optimizer():
    net = model()
    step = paddle.optimizer.AdamW(parameters=net.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
    with padiff_shim.reference("torch", optimizer="torch"):

        def program():
            net(paddle.to_tensor(VALUES)).sum().backward()
            step.step()

        def then(where):
            assert_at_rest(where)
            assert product(), where

        interrupted(program, then)


@pytest.mark.slow
def test_in_a_comparison():
    net, x = model(), paddle.to_tensor(VALUES)
    with padiff_shim.compare("torch", progress=False) as run:

        def then(where):
            assert_at_rest(where)
            before = len(run.calls)
            product()
            assert len(run.calls) > before, where

        interrupted(lambda: net(x).sum().backward(), then)


def test_a_remark_that_became_an_error_leaves_nothing_open(monkeypatch):
    """With warnings as errors, or a program's own ``warn``, closing raises; it closes all the same."""

    def refuse(*_):
        raise RuntimeWarning("no")

    for door in (padiff_shim.reference, padiff_shim.compare):
        mode = door("torch", layers="nowhere")
        mode.start()
        monkeypatch.setattr(mode.run, "warn", refuse)
        with pytest.raises(RuntimeWarning):
            mode.stop()
        assert_undone(door.__name__)


def test_each_step_is_made_though_one_fails_and_an_interrupt_comes_before_an_error():
    made = []

    def interrupt():
        made.append("interrupted")
        if made.count("interrupted") == 1:
            raise KeyboardInterrupt

    def fail():
        made.append("failed")
        raise ValueError

    steps = [fail, interrupt, lambda: made.append("last")]
    with pytest.raises(KeyboardInterrupt):
        finish(steps)
    assert made == ["failed", "failed", "interrupted", "interrupted", "last"]
    assert steps == []
