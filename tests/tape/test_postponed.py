"""Errors that waited for Paddle's engine: raised in the thread they belong to, and none is lost."""

import threading
from concurrent.futures import ThreadPoolExecutor

import paddle
import pytest
from helpers import PATIENCE, in_child

import padiff_shim
from padiff_shim import interrupts, testing
from padiff_shim.errors import MismatchError
from padiff_shim.frameworks.versions import NODE_HOOKS

pytestmark = [pytest.mark.usefixtures("undone"), pytest.mark.compat]


def matrix(value=1.0):
    tensor = paddle.full([4, 4], value)
    tensor.stop_gradient = False
    return tensor


def wrong_gradients(op="matmul"):
    return testing.planted(op, lambda grad, name, *_: grad * 1.5, gradients=True)


def notes(error):
    return " ".join(getattr(error, "__notes__", ()))


@pytest.mark.parametrize("inside", [False, True], ids=["other thread without a mode", "other thread with a mode"])
def test_an_error_is_raised_in_the_thread_it_belongs_to(inside):
    judged, other_done = threading.Event(), threading.Event()
    x, w = matrix(), matrix(2.0)

    def hold(_):
        judged.set()  # the gradients of the product are judged by now, but the engine of this thread has not returned
        assert other_done.wait(timeout=PATIENCE)

    x.register_hook(hold)

    def compares():
        with wrong_gradients(), padiff_shim.compare("torch", on_mismatch="raise"), pytest.raises(MismatchError):
            paddle.matmul(x, w).sum().backward()

    def other():
        assert judged.wait(timeout=PATIENCE)
        try:
            v = matrix()
            if inside:
                with padiff_shim.compare("torch", on_mismatch="raise"):
                    paddle.exp(v).sum().backward()
            else:
                (v * 2).sum().backward()
            return v.grad is not None
        finally:
            other_done.set()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(compares), pool.submit(other)
        first.result(timeout=PATIENCE)
        assert second.result(timeout=PATIENCE)


def test_every_error_of_a_backward_is_raised():
    x, w = matrix(), matrix(2.0)
    with wrong_gradients(), padiff_shim.compare("torch", on_mismatch="raise") as run, pytest.raises(MismatchError) as raised:
        paddle.matmul(x, w).sum().backward()
    assert len(run.calls.filter(phase="backward", verdict="WRONG")) == 2
    text = f"{raised.value} {notes(raised.value)}"
    assert "grad:x" in text
    assert "grad:y" in text


def test_a_backward_inside_a_hook_leaves_the_raising_to_the_outer_one():
    x, w, inner = matrix(), matrix(2.0), matrix(3.0)
    reached = []

    def hook(_):
        paddle.matmul(inner, w).sum().backward()
        reached.append(inner.grad is not None)

    x.register_hook(hook)
    with wrong_gradients(), padiff_shim.compare("torch", on_mismatch="raise"), pytest.raises(MismatchError):
        paddle.exp(x).sum().backward()
    assert reached == [True]
    assert paddle.is_grad_enabled()


def test_a_replayed_gradients_error_is_raised_and_the_others_with_it():
    """Nodes over a list of tensors are computed again after the backward, in engine calls of their own."""
    a, b = matrix(), matrix(2.0)
    with (
        wrong_gradients("einsum"),
        padiff_shim.compare("torch", on_mismatch="raise") as run,
        pytest.raises(MismatchError) as raised,
    ):
        (paddle.einsum("ij,jk->ik", a, b) + paddle.einsum("ij,jk->ik", b, a)).sum().backward()
    assert len(run.calls.filter(op="einsum", phase="backward", verdict="WRONG")) == 4
    assert notes(raised.value).count("MismatchError") == 3


def engine_call(*errors, raising=None, tasks=()):
    with interrupts.engine():
        for error in errors:
            interrupts.postpone(error)
        for task in tasks:
            interrupts.after_engine(task)
        if raising is not None:
            raise raising


def test_what_waits_goes_along_with_an_error_of_the_engine_and_ctrl_c_comes_first():
    with pytest.raises(ValueError) as raised:
        engine_call(MismatchError("waited", {}), raising=ValueError("the engine's"))
    assert notes(raised.value) == "and then MismatchError: waited"
    with pytest.raises(KeyboardInterrupt) as stopped:
        engine_call(MismatchError("waited", {}), KeyboardInterrupt())
    assert "waited" in notes(stopped.value)
    interrupts.raise_postponed()  # nothing is left


def test_a_failing_task_does_not_keep_the_others_from_running():
    ran = []
    with pytest.raises(ZeroDivisionError):
        engine_call(tasks=[lambda: 1 // 0, lambda: ran.append(interrupts.engine_runs())])
    assert ran == [True]
    assert not interrupts.engine_runs()


def test_ctrl_c_in_a_substituted_backward_comes_when_the_engine_has_returned(monkeypatch):
    from padiff_shim.tape import calls

    original, stops = calls.TapeCall.check, iter([KeyboardInterrupt])

    def interrupted(self, session):
        for stop in stops:
            raise stop
        return original(self, session)

    x, w = matrix(), matrix(2.0)
    paddle.matmul(x, w).sum().backward()
    native = x.grad.numpy()
    x.clear_gradient()
    monkeypatch.setattr(calls.TapeCall, "check", interrupted)
    with padiff_shim.reference("torch"), pytest.raises(KeyboardInterrupt):
        paddle.matmul(x, w).sum().backward()
    assert paddle.is_grad_enabled()
    assert (x.grad.numpy() == native).all()


@pytest.mark.skipif(not NODE_HOOKS, reason="this Paddle has no hooks on nodes")
@pytest.mark.parametrize("recorded", [True, False])
def test_ctrl_c_between_two_lines_of_a_post_hook_leaves_recording_as_it_was(recorded, monkeypatch):
    """Natively Paddle 3.3.1 keeps gradients switched off when an error leaves a node's post hook."""
    from padiff_shim.comparison import gradients

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    x = matrix()
    with padiff_shim.compare("torch"):
        loss = paddle.exp(paddle.tanh(x)).sum()
        monkeypatch.setattr(gradients, "_seen", interrupted)
        with paddle.set_grad_enabled(recorded):
            with pytest.raises(KeyboardInterrupt):
                loss.backward()
            assert paddle.is_grad_enabled() is recorded


@pytest.mark.parametrize("mode", ["reference", "compare"])
def test_a_real_ctrl_c_in_a_backward_is_a_keyboard_interrupt(mode):
    done = in_child(
        f"""
        import os, signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = paddle.rand([4, 4])
        x.stop_gradient = False
        def interrupted(program):
            try:
                program()
            except KeyboardInterrupt:
                assert paddle.is_grad_enabled()
                print("interrupted")
        def stop(*_):
            os.kill(os.getpid(), signal.SIGINT)
        def in_hook():
            y = paddle.tanh(x)
            y.register_hook(stop)
            paddle.exp(y).sum().backward()
        def anywhere():
            y = paddle.tanh(x)
            for _ in range(20):
                y = paddle.tanh(y)
            y = y.sum()
            threading.Timer(0.2, stop).start()
            while True:
                y.backward(retain_graph=True)
        with padiff_shim.{mode}("torch"):
            interrupted(in_hook)
            interrupted(anywhere)
        """
    )
    assert done.stdout.split() == ["interrupted"] * 2, done.stdout + done.stderr
