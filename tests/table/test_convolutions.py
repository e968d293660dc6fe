"""Convolutions in the spellings that programs have: functions and layers, every form of padding, both data formats."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same
from torch.nn import functional as T

import padiff_shim

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]


def arrays(*shapes, dtype="float32"):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def last(function):
    """A Torch function of channels first, for channels last."""
    return lambda x, *rest: function(x.movedim(-1, 1), *rest).movedim(1, -1)


X, W, B = (2, 4, 7, 6), (6, 4, 3, 3), (6,)
PROGRAMS = {
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b), lambda x, w, b: T.conv2d(x, w, b), X, W, B),
    "keywords": (
        lambda x, w, b: F.conv2d(weight=w, x=x, dilation=2, bias=b, padding=1, name="mine"),
        lambda x, w, b: T.conv2d(x, w, b, padding=1, dilation=2), X, W, B,
    ),
    "SAME": (lambda x, w, b: F.conv2d(x, w, b, padding="SAME"), lambda x, w, b: T.conv2d(x, w, b, padding="same"), X, W, B),
    "same, even window": (
        lambda x, w: F.conv2d(x, w, padding="same"), lambda x, w: T.conv2d(x, w, padding="same"), X, (6, 4, 2, 4),
    ),
    "SAME, strides": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding="SAME"),
        lambda x, w, b: T.conv2d(T.pad(x, (0, 1, 1, 1)), w, b, stride=2), X, W, B,
    ),
    "VALID": (lambda x, w, b: F.conv2d(x, w, b, padding="VALID"), lambda x, w, b: T.conv2d(x, w, b), X, W, B),
    "four paddings": (
        lambda x, w, b: F.conv2d(x, w, b, padding=[1, 2, 0, 3]), lambda x, w, b: T.conv2d(T.pad(x, (0, 3, 1, 2)), w, b), X, W, B,
    ),
    "pairs": (
        lambda x, w, b: F.conv2d(x, w, b, padding=[[0, 0], [0, 0], [1, 2], [1, 1]]),
        lambda x, w, b: T.conv2d(T.pad(x, (1, 1, 1, 2)), w, b), X, W, B,
    ),
    "equal pairs": (
        lambda x, w, b: F.conv2d(x, w, b, padding=[[0, 0], [0, 0], [2, 2], [1, 1]]),
        lambda x, w, b: T.conv2d(x, w, b, padding=(2, 1)), X, W, B,
    ),
    "NHWC": (
        lambda x, w, b: F.conv2d(x, w, b, padding=[[0, 0], [1, 1], [1, 1], [0, 0]], data_format="NHWC"),
        last(lambda x, w, b: T.conv2d(x, w, b, padding=1)), (2, 7, 6, 4), W, B,
    ),
    "depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4),
        lambda x, w, b: T.conv2d(x, w, b, padding=1, groups=4), X, (8, 1, 3, 3), (8,),
    ),
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), lambda x, w, b: T.conv1d(x, w, b, 2, 1), (2, 4, 9), (6, 4, 3), B,
    ),
    "conv1d, NLC": (
        lambda x, w: F.conv1d(x, w, data_format="NLC"), last(lambda x, w: T.conv1d(x, w)), (2, 9, 4), (6, 4, 3),
    ),
    "conv3d": (
        lambda x, w, b: F.conv3d(x, w, b, padding=[1, 0, 2]),
        lambda x, w, b: T.conv3d(x, w, b, padding=(1, 0, 2)), (1, 2, 4, 5, 4), (3, 2, 3, 2, 3), (3,),
    ),
    "conv3d, NDHWC": (
        lambda x, w, b: F.conv3d(x, w, b, stride=2, padding=1, data_format="NDHWC"),
        last(lambda x, w, b: T.conv3d(x, w, b, 2, 1)), (1, 4, 5, 4, 2), (3, 2, 3, 2, 3), (3,),
    ),
    "transpose": (
        lambda x, w, b: F.conv2d_transpose(x, w, b, stride=2, padding=1, output_padding=1),
        lambda x, w, b: T.conv_transpose2d(x, w, b, 2, 1, 1), (2, 4, 4, 3), (4, 3, 3, 3), (3,),
    ),
    "transpose to a size": (
        lambda x, w, b: F.conv2d_transpose(x, w, b, stride=2, output_size=[10, 7]),
        lambda x, w, b: T.conv_transpose2d(x, w, b, 2, 0, (1, 0)), (2, 4, 4, 3), (4, 3, 3, 3), (3,),
    ),
    "transpose, NHWC, groups": (
        lambda x, w, b: F.conv2d_transpose(x, w, b, groups=2, dilation=2, data_format="NHWC"),
        last(lambda x, w, b: T.conv_transpose2d(x, w, b, 1, 0, 0, 2, 2)), (2, 4, 3, 4), (4, 3, 3, 3), (6,),
    ),
    "transpose, SAME": (
        lambda x, w, b: F.conv2d_transpose(x, w, b, stride=2, padding="SAME"),
        lambda x, w, b: T.conv_transpose2d(x, w, b, 2)[:, :, :-1, :-1], (2, 4, 4, 4), (4, 3, 3, 3), (3,),
    ),
    "conv1d_transpose": (
        lambda x, w, b: F.conv1d_transpose(x, w, b, stride=2, padding=1, output_padding=1),
        lambda x, w, b: T.conv_transpose1d(x, w, b, 2, 1, 1), (2, 4, 5), (4, 3, 3), (3,),
    ),
    "conv3d_transpose": (
        lambda x, w, b: F.conv3d_transpose(x, w, b, stride=2), lambda x, w, b: T.conv_transpose3d(x, w, b, 2),
        (1, 4, 3, 2, 3), (4, 2, 3, 2, 3), (2,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_functions(name, dtype):
    ours, theirs, *shapes = PROGRAMS[name]
    values = arrays(*shapes, dtype=dtype)
    p = [paddle.to_tensor(value, stop_gradient=False) for value in values]
    t = [torch.tensor(value, requires_grad=True) for value in values]
    with padiff_shim.reference("torch", strict=True) as run:
        out = ours(*p)
        out.backward(paddle.ones_like(out))
    expected = theirs(*t)
    expected.backward(torch.ones_like(expected))
    assert same(out.detach(), expected)
    for leaf, other in zip(p, t):
        assert same(leaf.grad, other.grad)
    assert sum(run.substituted.values()) == 1, run.substituted


def test_what_torch_does_not_take_stays_native():
    x, w, bias = (paddle.to_tensor(value) for value in arrays(X, W, (1,)))
    expected = F.conv2d(x, w, bias)  # a bias that is broadcast
    with padiff_shim.reference("torch") as run:
        assert same(F.conv2d(x, w, bias), expected.numpy())
    assert list(run.native) == ["conv2d"]
