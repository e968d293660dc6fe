"""What a backward of the tape leaves behind, program by program, is what Paddle alone leaves behind."""

import contextlib
import threading

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle.autograd import PyLayer

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.skipif(not IS_3, reason="some of these programs need what 2.6 lacks"), pytest.mark.usefixtures("undone")]

PROGRAMS = []  # each takes what opens a mode, or a context that does nothing, and returns arrays and plain values


def case(program):
    PROGRAMS.append(program)
    return program


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


class Square(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gr):
        (x,) = ctx.saved_tensor()
        return gr * x * 2


@case
def frontier_roots(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    h = F.elu(x)
    with mode():
        t = (h @ w).sum()
    a = (h * h).sum()
    paddle.autograd.backward([a, t])
    return gradients(x, w)


@case
def frontier_inside_open(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    h = F.elu(x)
    with mode():
        t = h @ w
        (F.elu(h) + t).sum().backward()
    return gradients(x, w)


@case
def backward_only_open(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    y = F.elu(x @ w).sum()
    with mode():
        y.backward()
    return gradients(x, w)


@case
def grad_other_mixed(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        y = x @ w
    z = F.elu(y) + y * y
    return [a.numpy() for a in paddle.grad(z.sum(), [x, w])]


@case
def grad_other_thread(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    out = []

    def fw():
        with mode():
            out.append(x @ w)

    t = threading.Thread(target=fw)
    t.start()
    t.join()
    z = F.elu(out[0]) + x
    return [a.numpy() for a in paddle.grad(z.sum(), [x, w])]


@case
def backward_other_thread(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        y = F.elu(x @ w)
    z = F.elu(y) + x

    def bw():
        z.sum().backward()

    t = threading.Thread(target=bw)
    t.start()
    t.join()
    return gradients(x, w)


@case
def inplace_violation_closed(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        y = F.tanh(x @ w)
        z = y.sum()
    y.add_(paddle.ones([4, 4]))
    return outcome(lambda: z.backward())[:1] + gradients(x, w)


@case
def multi_roots(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        h = x @ w
        a = F.tanh(h).sum()
        b = F.elu(h)
        paddle.autograd.backward([a, b], [None, paddle.ones([4, 4]) * 2])
    return gradients(x, w)


@case
def root_and_descendant(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        h = x @ w
        a = F.tanh(h)
        paddle.autograd.backward([a, h])
    return gradients(x, w)


@case
def hooks_after_close(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    c = []
    with mode():
        h = x @ w
    h.register_hook(lambda gr: gr * 3)
    y = F.tanh(h)
    k2 = h.register_hook(lambda gr: gr * 5)
    k2.remove()
    y.sum().backward()
    return c + gradients(x, w)


@case
def hook_order(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        h = x @ w
        h.register_hook(lambda gr: gr + 1)
        h.register_hook(lambda gr: gr * 5)
        h.retain_grads()
        h.register_hook(lambda gr: gr * 7)
        F.tanh(h).sum().backward()
    return gradients(x, w, h)


@case
def leaf_hooks(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    c = []
    b = parameter(4, seed=2)
    w.register_hook(lambda gr: (c.append(gr.numpy()), gr * 2)[1])
    with mode():
        h = F.linear(x, w, b) + x @ w + F.elu(w) * w + w.t()
        h.sum().backward()
    return c + gradients(x, w, b)


@case
def no_grad_vars(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        h = x @ w
        y = (h * x).sum()
        a = paddle.grad(y, [x], no_grad_vars=[h], retain_graph=True)
        b = paddle.grad(y, [x, w], no_grad_vars=[h], allow_unused=True, retain_graph=True)
        e = outcome(lambda: paddle.grad(y, [w], no_grad_vars=[h]))
    return [t if t is None else t.numpy() for t in a + b] + e[:1]


@case
def pylayer_open_forward_only(mode):
    x, w = parameter(4, 4), parameter(4, 4, seed=1)
    with mode():
        y = Square.apply(x @ w)
    F.tanh(y).sum().backward()
    return gradients(x, w)


def same(ours, natives):
    if isinstance(ours, np.ndarray) and isinstance(natives, np.ndarray):
        return ours.dtype == natives.dtype and ours.shape == natives.shape and np.allclose(ours, natives, 1e-3, 1e-4)
    return type(ours) is type(natives) and ours == natives


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
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


def test_what_a_hook_on_the_result_of_a_pylayer_returns_is_ignored_as_natively():
    class Twice(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            return grad * 2.0

    def step():
        x, seen = paddle.ones([2]), []
        x.stop_gradient = False
        y = Twice.apply(x)
        y.register_hook(lambda grad: seen.append(grad.tolist()) or grad * 10.0)
        (y * 3.0).sum().backward()
        return x.grad.tolist(), seen

    native = step()
    with padiff_shim.reference("torch"):
        assert step() == native
