"""The traps that were measured on Paddle 2.6.2 and 3.3.1: in-place changes, lifetimes, shared gradients, crashes, strides."""

import gc
import weakref

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import in_child

import padiff_shim
from padiff_shim.dispatch.frames import top
from padiff_shim.frameworks.memory import to_torch
from padiff_shim.frameworks.versions import attribute
from padiff_shim.tape.twins import LEAF, TAPE

PADDLE_2 = paddle.__version__.startswith("2.")


def leaf(*shape, seed=0, dtype="float64"):
    values = np.random.default_rng(seed).random(shape) + 0.5
    return paddle.to_tensor(values.astype(dtype), stop_gradient=False)


@pytest.mark.compat
def test_leaf_gradients_look_like_the_leaf():
    with padiff_shim.reference("torch"):
        for dtype in ("float32", "float64"):
            x, w, row = leaf(3, 4).astype(dtype), leaf(4, 2).astype(dtype), leaf(4).astype(dtype)
            for t in (x, w, row):
                t.stop_gradient = False
                t.retain_grads()
            (paddle.matmul((x + row).t().t(), w).sum(0) / 3.0).mean().backward()
            for t in (x, w, row):
                assert (t.grad.shape, t.grad.dtype, t.grad.is_contiguous()) == (t.shape, t.dtype, True)
                assert str(t.grad.place) == str(t.place)


@pytest.mark.parametrize("function", [lambda x: paddle.exp(x), lambda x: paddle.matmul(x, x), lambda x: F.gelu(x), lambda x: x * x])
def test_activations_die_with_the_backward_and_without_the_collector(function):
    gc.collect()
    gc.disable()
    try:
        with padiff_shim.reference("torch"):
            x = leaf(4, 4)
            hidden = x * 1.0
            out = function(hidden)
            loss = out.sum()
            dies = weakref.ref(hidden)
            del hidden, out
            loss.backward()
            assert dies() is None  # freed by the backward, the loss still there
            hidden = x * 1.0
            loss = function(hidden).sum()
            dies = weakref.ref(hidden)
            del hidden, loss
            assert dies() is None  # never run backward: no cycle either
            hidden = x * 1.0
            (g,) = paddle.grad(function(hidden).sum(), hidden, create_graph=True)
            (g * g).sum().backward()
            dies = weakref.ref(hidden)
            del hidden, g
            assert dies() is None
    finally:
        gc.enable()


def test_too_few_arguments_never_reach_a_c_function():
    """2.6.2 does not check the number of arguments of a C function and crashes."""
    done = in_child("""
        x = paddle.ones([2, 2])
        with padiff_shim.reference("torch") as run:
            for call in (paddle.matmul, paddle.divide, F.linear, paddle.add, paddle.pow, paddle.exp):
                try:
                    call(*([] if call is paddle.exp else [x]))
                except (TypeError, ValueError):
                    print("refused")
            paddle.matmul(x, x); paddle.mm(x, x); x @ x; paddle.logsumexp(x); paddle.sum(x); F.softmax(x)
        print(sum(run.substituted.values()))
    """)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["refused"] * 6 + ["6"]


@pytest.mark.compat
def test_inputs_keep_their_strides_and_identity():
    x = leaf(4, 3)
    view = x.detach().t()
    strides, pointer, version = list(view.strides), view.data_ptr(), view.inplace_version
    with padiff_shim.reference("torch") as run:
        for call in (
            paddle.exp,
            paddle.tanh,
            F.gelu,
            F.softmax,
            paddle.sum,
            paddle.logsumexp,
            lambda v: v @ x,
            lambda v: F.linear(v, x),
        ):
            call(view)
        assert x.reshape(x.shape) is x or PADDLE_2
        assert x.detach().t().data_ptr() == x.data_ptr()  # views stay native and stay views
    assert sum(run.substituted.values()) == 8
    assert (list(view.strides), view.data_ptr(), view.inplace_version) == (strides, pointer, version)
    if not PADDLE_2:
        assert to_torch(view).stride() == (1, 3)


def test_torch_writes_never_reach_the_program():
    """No result of the mode aliases an input: a later in-place op on it must leave the input alone."""
    with padiff_shim.reference("torch"):
        x = paddle.ones([3])
        for same in (x * 1.0, x + 0.0, x / 1.0, x**1.0, paddle.sum(x.reshape([3, 1]), 1), paddle.mean(x.reshape([3, 1]), 1)):
            assert same.data_ptr() != x.data_ptr()
            same.add_(paddle.ones([1]))
        assert x.numpy().tolist() == [1.0, 1.0, 1.0]
    assert torch.is_grad_enabled()


@pytest.mark.compat
@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
def test_numbers_beyond_int64(mode):
    x = paddle.to_tensor(np.array([1.0, -2.0], "float32"))
    calls = [lambda: x + 10**30, lambda: x * -(10**30), lambda: 10**30 / x, lambda: x - 10**400]

    def answer(call):
        try:
            return call().tolist()
        except Exception as error:
            return type(error), "<method '__" in str(error)  # Paddle's, nobody's behind it

    expected = [answer(call) for call in calls]
    assert expected[-1] == (SystemError, True)
    with mode("torch"):
        for _ in range(3):  # what has been learnt of a call changes nothing
            assert [answer(call) for call in calls] == expected
            assert top() is not None  # the mode was closed by it


@pytest.mark.compat
@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
def test_layer_norm_over_all_axes_is_refused_as_natively(mode):
    with pytest.raises(ValueError, match="begin_norm_axis"), mode("torch"):
        paddle.nn.functional.layer_norm(paddle.ones([4]), 4)


@pytest.mark.compat
def test_what_is_kept_on_a_tensor_dies_with_it():
    x = leaf(2, 3)
    with padiff_shim.reference("torch"):
        y = paddle.exp(x)
    references = [weakref.ref(attribute(y, TAPE).twin), weakref.ref(attribute(x, LEAF).now[1])]
    assert attribute(paddle.ones([2]), TAPE) is None
    del x, y
    gc.collect()
    assert [reference() for reference in references] == [None, None]
