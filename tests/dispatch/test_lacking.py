"""Calls in 16 bits that Paddle's CPU has no kernel for run on Torch's; what Paddle refuses in any dtype stays refused."""

import paddle
import paddle.nn.functional as F
import pytest
import torch
import torch.nn.functional as TF
from helpers import array, leaves_in, same

import padiff_shim
from padiff_shim.dispatch.dtypes import DtypeRules, dtype_without_kernel, is_listed_without
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.compat
HALVES = ("bfloat16", "float16")
# Name -> shapes of the operands, the call, its Torch twin.
CALLS = {
    "matmul": ([(3, 4), (4, 5)], paddle.matmul, torch.matmul),
    "linear": ([(3, 4), (4, 5), (5,)], F.linear, lambda x, w, b: TF.linear(x, w.t().contiguous(), b)),
    "add": ([(3, 4), (4,)], lambda x, y: x + y, lambda x, y: x + y),
    "softmax": ([(3, 4)], F.softmax, lambda x: torch.softmax(x, -1)),
    "layer_norm": ([(3, 4), (4,), (4,)], lambda x, w, b: F.layer_norm(x, 4, w, b), lambda x, w, b: TF.layer_norm(x, [4], w, b)),
    "conv2d": ([(2, 3, 6, 6), (4, 3, 3, 3)], F.conv2d, TF.conv2d),
    "clip": ([(3, 4)], lambda x: paddle.clip(x, -0.5, 0.5), lambda x: torch.clamp(x, -0.5, 0.5)),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", CALLS)
def test_torchs_bits_forward_and_backward(name, dtype):
    shapes, function, twin = CALLS[name]
    pairs = [leaves_in(dtype, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    with padiff_shim.reference("torch") as run:
        for _ in range(3):  # the first two calls are learnt from
            for leaf, _ in pairs:
                leaf.clear_gradient()
            result = function(*[leaf for leaf, _ in pairs])
            result.backward(paddle.ones(result.shape, dtype))
            function(*[leaf.detach() for leaf, _ in pairs])
    expected = twin(*[leaf for _, leaf in pairs])
    expected.backward(torch.ones_like(expected))
    assert same(result.detach(), expected)
    assert result.dtype == getattr(paddle, dtype)
    for ours, theirs in pairs:
        assert ours.grad.dtype == getattr(paddle, dtype)
        assert same(ours.grad, theirs.grad)
    assert run.native == {}
    assert run.substituted[name] == 6


def test_a_strict_mode_has_nothing_to_complain_of():
    x, _ = leaves_in("bfloat16", 2, 4)
    with padiff_shim.reference("torch", strict=True) as run:
        F.gelu(x @ x.t())
    assert set(run.substituted) == {"matmul", "gelu"}


MIXED = {  # the second operand is of float32
    "a product": (lambda x, w: x * w, lambda x, w: x * w),
    # Paddle 2.6 casts the second operand of this operator, too.
    "a quotient": (lambda x, w: x / w, lambda x, w: x / (w if IS_3 else w.to(x.dtype))),
    "a weighted norm": (lambda x, w: F.layer_norm(x, 4, w), lambda x, w: TF.layer_norm(x.float(), [4], w).to(x.dtype)),
    # Paddle's operator casts the second operand to the dtype of the first.
    "a matrix from the right": (lambda x, w: x @ w.unsqueeze(1), lambda x, w: x @ w.unsqueeze(1).to(x.dtype)),
    "a matrix from the left": (lambda x, w: w.unsqueeze(0) @ x.t(), lambda x, w: w.unsqueeze(0) @ x.t().float()),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MIXED)
def test_mixed_dtypes_are_promoted_as_paddle_does(name, dtype):
    (x, x_torch), (w, w_torch) = leaves_in(dtype, 3, 4), leaves_in("float32", 4)
    function, twin = MIXED[name]
    expected = twin(x_torch, w_torch)
    expected.sum().backward()
    with padiff_shim.reference("torch") as run:
        result = function(x, w)
        result.sum().backward()
    assert run.native == {}
    assert str(result.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    assert same(result.detach(), expected)
    assert x.grad.dtype == getattr(paddle, dtype)
    assert same(x.grad, x_torch.grad)
    assert w.grad.dtype == paddle.float32
    assert same(w.grad, w_torch.grad)


def outcome(function):
    with pytest.raises(Exception) as caught:
        function()
    return type(caught.value), str(caught.value)


REFUSED = {
    "an axis that there is not": lambda x: F.softmax(x, axis=7),
    "sizes that do not fit": lambda x: paddle.matmul(x, x),
    "an axis of another type": lambda x: F.softmax(x, axis="last"),
    "a weight of another dtype": lambda x: F.linear(x, paddle.ones([4, 2])),
    "filters of another dtype": lambda x: F.conv2d(x.reshape([1, 1, 3, 4]), paddle.ones([2, 1, 2, 2])),
    "groups of one": lambda x: F.maxout(x.reshape([1, 3, 2, 2]), 1),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_paddle_refuses_is_refused(name, dtype):
    x, _ = leaves_in(dtype, 3, 4)
    x.stop_gradient = True
    natively = outcome(lambda: REFUSED[name](x))
    with padiff_shim.reference("torch") as run:
        assert outcome(lambda: REFUSED[name](x))[0] is natively[0]
    assert not set(run.substituted) - {"reshape"}


def test_the_native_op_is_tried_once_for_a_kind_of_call(monkeypatch):
    questions, answer = [], DtypeRules._answer
    monkeypatch.setattr(DtypeRules, "_answer", lambda self, *call: questions.append(call) or answer(self, *call))
    x, _ = leaves_in("bfloat16", 3, 4)
    with padiff_shim.reference("torch"):
        for _ in range(5):
            paddle.atan2(x, x)
            paddle.atan2(x.detach(), x.detach())
    assert len(questions) <= 1


def test_what_is_no_missing_kernel():
    kernel = "(NotFound) The kernel with key (CPU, Undefined(AnyLayout), {}) of kernel `relu` is not registered."
    assert dtype_without_kernel(RuntimeError(kernel.format("bfloat16"))) == "bfloat16"
    assert dtype_without_kernel(RuntimeError(kernel.format("int64"))) == ""
    assert dtype_without_kernel(RuntimeError("(NotFound) The file `bfloat16` is not there")) == ""
    assert dtype_without_kernel(ValueError("(InvalidArgument) axis 7 of bfloat16")) == ""


def test_paddles_own_list_says_the_same():
    assert is_listed_without("matmul", "bfloat16")
    assert not is_listed_without("matmul", "float32")
    assert not is_listed_without("cast", "bfloat16")
    assert not is_listed_without("no_such_kernel", "bfloat16")
    x = paddle.ones([2], "float32").astype("bfloat16")
    assert array(x.astype("float32")).tolist() == [1.0, 1.0]
