"""An error that the handler of a signal raises, wherever it falls: the program gets it; what answers errors does not take it."""

import functools
import os
import signal
import sys
import threading

import numpy as np
import paddle
import pytest
from counted_calls import CountedCalls

import padiff_shim
from padiff_shim.interrupts import let_pass, of_a_signal

OURS = (os.path.dirname(padiff_shim.__file__) + os.sep, os.path.dirname(padiff_shim.patches.__file__) + os.sep, "<shortcut")
VALUES = np.linspace(-1, 1, 16, dtype="float32").reshape(4, 4)
NUMBER = signal.SIGUSR1


class TooSlowError(RuntimeError):
    """Of a kind that Torch refuses calls with."""


RAISED = []


def alarm(*_):
    RAISED[:] = [TooSlowError("too slow")]
    raise RAISED[0]


@pytest.fixture
def _handled():
    before = signal.signal(NUMBER, alarm)
    yield
    signal.signal(NUMBER, before)


class Signals(CountedCalls):
    """The calls of our functions, counted; at one of them a signal comes."""

    def __init__(self, at=None):
        super().__init__(at)
        self.came = False

    def counted(self, file):
        return file.startswith(OURS)

    def reached(self):
        self.came = True
        signal.raise_signal(NUMBER)


def program():
    x = paddle.to_tensor(VALUES, stop_gradient=False)
    y = paddle.nn.functional.softmax(paddle.matmul(x, x)).reshape([2, 8])
    y = paddle.nn.functional.dropout(paddle.erfinv(y * 0.1), 0.0) + 1
    y[0] = 1.0
    paddle.nn.functional.layer_norm(y, 8).sum().backward()


def swallowed(mode, noise):
    """Our functions in which the signal's error was lost or changed, at first and last calls. ``noise``: what Python printed."""
    lost = []
    with mode:
        for _ in range(2):  # what is learnt once
            program()
        calls = Signals()
        calls.of(program)
        assert len(calls.counts) > 20
        for place in sorted({(code, at) for code, count in calls.counts.items() for at in (1, count)}, key=str):
            noise.clear()
            once, raised = Signals(place), None
            try:
                once.of(program)
            except Exception as error:
                raised = error
            if once.came and not noise and raised is not RAISED[0]:
                lost.append((place, raised))
    return lost


@pytest.fixture
def noise(monkeypatch):
    """What falls into a destructor is printed by Python, and not raised."""
    states = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: states.append(what.exc_type))
    return states


@pytest.mark.usefixtures("_handled")
@pytest.mark.filterwarnings("ignore:a mode of padiff_shim")
@pytest.mark.parametrize("options", [{}, {"random": "torch"}], ids=str)
def test_in_reference_mode(options, noise):
    assert not swallowed(padiff_shim.reference("torch", **options), noise)


@pytest.mark.usefixtures("_handled")
@pytest.mark.filterwarnings("ignore:a mode of padiff_shim")
@pytest.mark.parametrize("options", [{"carry": "torch"}, {"shadow": True, "exact": True}], ids=str)
@pytest.mark.slow
def test_in_a_comparison(options, noise):
    assert not swallowed(padiff_shim.compare("torch", progress=False, **options), noise)


def answered():
    """As where an error is expected."""
    try:
        signal.raise_signal(NUMBER)
    except TooSlowError as error:
        let_pass(error)


class Handler:
    def __call__(self, *_):
        raise TooSlowError("too slow")

    def method(self, *_):
        raise TooSlowError("too slow")


@pytest.mark.parametrize(
    "handler", [alarm, functools.partial(alarm, 1), Handler(), Handler().method], ids=lambda handler: type(handler).__name__
)
def test_every_kind_of_handler_is_known(handler):
    before = signal.signal(NUMBER, handler)
    try:
        with pytest.raises(TooSlowError):
            answered()
    finally:
        signal.signal(NUMBER, before)


@pytest.mark.usefixtures("_handled")
def test_an_error_of_the_program_itself_is_none_of_a_signals():
    try:
        raise TooSlowError
    except TooSlowError as error:
        let_pass(error)
        caught = error
    assert not of_a_signal(caught)


@pytest.mark.usefixtures("_handled")
def test_another_thread_runs_no_handlers():
    answers = []
    with pytest.raises(TooSlowError) as raised:
        signal.raise_signal(NUMBER)
    thread = threading.Thread(target=lambda: answers.append(of_a_signal(raised.value)))
    thread.start()
    thread.join()
    assert answers == [False]
