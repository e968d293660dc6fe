"""Backwards of the tape from several threads, and what hooks may answer: as natively, or refused in words."""

import contextlib
import threading

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.skipif(not IS_3, reason="some of these programs need what 2.6 lacks"), pytest.mark.usefixtures("undone")]


def parameter(*shape, seed=0):
    return paddle.to_tensor(np.random.RandomState(seed).randn(*shape).astype("float32"), stop_gradient=False)


def gradients(*tensors):
    return [None if t.grad is None else t.grad.numpy() for t in tensors]


def outcome(function):
    try:
        function()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["none"]


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def forward_in_another_thread(mode):
    x, w, results = parameter(4, 4), parameter(4, 4, seed=1), []

    def forward():
        with mode():
            results.append(x @ w)

    in_thread(forward)
    return [gradient.numpy() for gradient in paddle.grad((F.elu(results[0]) + x).sum(), [x, w])]


def backward_in_another_thread(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        y = F.elu(x @ w)
    in_thread((F.elu(y) + x).sum().backward)
    return gradients(x, w)


def same(ours, natives):
    if isinstance(ours, np.ndarray) and isinstance(natives, np.ndarray):
        return ours.dtype == natives.dtype and ours.shape == natives.shape and np.allclose(ours, natives, 1e-3, 1e-4)
    return type(ours) is type(natives) and ours == natives


@pytest.mark.parametrize("program", [forward_in_another_thread, backward_in_another_thread])
def test_as_natively(program):
    ours = program(lambda: padiff_shim.reference("torch"))
    natives = program(contextlib.nullcontext)
    assert len(ours) == len(natives)
    for index, (our, native) in enumerate(zip(ours, natives)):
        assert same(our, native), (index, our, native)


def reference():
    return padiff_shim.reference("torch")


def refused(answer):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with reference():
        y = x @ w
        handle = y.register_hook(answer)
        first = outcome(F.tanh(y).sum().backward)
        assert gradients(x, w) == [None, None]
        handle.remove()
        (x @ w).sum().backward()  # the next step works
        again = gradients(x, w)
    x.clear_gradient()
    w.clear_gradient()
    (x @ w).sum().backward()
    assert all(same(our, native) for our, native in zip(again, gradients(x, w)))
    return first


def test_an_error_in_a_hook_arrives_as_through_paddles_engine():
    def refuse(grad):
        raise ValueError("boom")

    kind, text = refused(refuse)
    assert kind == "OSError"
    assert text.startswith("(External) ValueError: boom")


def test_what_a_hook_must_not_return_is_named():
    assert refused(lambda grad: 3) == ["TypeError", "a hook on a tensor returned int; it must return a Tensor or None"]
    assert refused(lambda grad: grad.sum())[0] == "ValueError"
    kind, text = refused(lambda grad: grad.astype("float64"))
    assert kind == "RuntimeError"
    assert text.startswith("(PermissionDenied) The dtype of tensor before(float32) and after(float64) hook are not consistent")
