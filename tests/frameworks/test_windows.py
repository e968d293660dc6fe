"""Windows on gradients: Torch's side of them from step to step, without holding their memory."""

import copy
import pickle

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from paddle.base import core

from padiff_shim.frameworks import windows
from padiff_shim.frameworks.memory import CPU_ALONE
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.frameworks.windows import Windows, all_on_torchs_side, on_torchs_side, window

pytestmark = [pytest.mark.compat]
opened = pytest.mark.skipif(not (CPU_ALONE and IS_3), reason="gradients cross each time: on a GPU, and in Paddle 2.6")


def parameter(shape=(3, 4), dtype="float32"):
    return paddle.create_parameter(list(shape), dtype)


def gradient(values, dtype="float32"):
    return paddle.to_tensor(np.asarray(values), dtype=dtype)


@opened
def test_one_window_serves_while_the_gradient_lies_there():
    param, grad = parameter(), gradient(np.arange(12.0).reshape(3, 4))
    first = window(param, grad)
    grad.set_value(grad * 2)
    assert window(param, grad) is first
    assert same(first.side, grad.numpy())
    first.side.mul_(3)
    assert same(grad.numpy(), np.arange(12, dtype="float32").reshape(3, 4) * 6)


@opened
@pytest.mark.parametrize(
    "other",
    [
        lambda grad: gradient(np.ones((3, 4))),  # elsewhere
        lambda grad: grad.reshape([4, 3]),
        lambda grad: grad.view("int32").view("float32").reshape([12]),
        lambda grad: grad[:2],  # less of it
    ],
)
def test_another_gradient_is_seen(other):
    param, grad = parameter(), gradient(np.arange(12.0).reshape(3, 4))
    first, known = window(param, grad), Windows([(param, grad)])
    changed = other(grad)
    assert not first.shows(changed)
    assert not known.show([changed])
    seen = on_torchs_side(param, changed)
    assert list(seen.shape) == list(changed.shape)
    assert same(seen, changed.numpy())


@opened
def test_a_dtype_of_the_same_size_is_another_one():
    param, grad = parameter(dtype="float16"), gradient(np.ones((3, 4)), "float16")
    first, known = window(param, grad), Windows([(param, grad)])
    other = grad.view("bfloat16")
    assert other.data_ptr() == grad.data_ptr()
    assert not first.shows(other)
    assert not known.show([other])
    assert on_torchs_side(param, other).dtype is torch.bfloat16


@opened
def test_a_window_holds_no_memory():
    def held():
        return core.host_memory_stat_current_value("Allocated", 0)

    param, grad = parameter((64, 1024)), gradient(np.ones((64, 1024)))
    before = held()
    all_on_torchs_side([(param, grad)])
    del grad
    assert held() <= before - 64 * 1024 * 4


@pytest.mark.parametrize("case", ["strided", "sparse", "empty"])
def test_what_no_window_can_show_crosses_or_says_why(case):
    if case == "sparse":
        layer = paddle.nn.Embedding(5, 3, sparse=True)
        layer(paddle.to_tensor([1, 2])).sum().backward()
        param, grad = layer.weight, layer.weight._grad_ivar()
        assert window(param, grad) is None
        with pytest.raises(Exception, match="sparse"):
            on_torchs_side(param, grad)
        return
    grad = gradient(np.arange(12.0).reshape(4, 3)).t() if case == "strided" else gradient(np.ones((0, 3)))
    param = parameter(grad.shape if grad.size else [1])  # Paddle 2.6 has no parameters without elements
    assert window(param, grad) is None or not IS_3
    assert same(on_torchs_side(param, grad), grad.numpy())
    assert same(all_on_torchs_side([(param, grad)])[0], grad.numpy())


def test_copies_and_pickles_have_no_windows():
    param, grad = parameter(), gradient(np.ones((3, 4)))
    all_on_torchs_side([(param, grad)])
    for first in (Windows([(param, grad)]), window(param, grad)):
        assert copy.deepcopy(first) is None
        assert pickle.loads(pickle.dumps(first)) is None
    copied = copy.deepcopy(param)
    assert getattr(copied, windows._WINDOW, None) is None
    assert getattr(copied, windows._WINDOWS, None) is None


def test_one_that_crosses_among_many():
    params = [parameter(), parameter((4, 3))]
    grads = [gradient(np.ones((3, 4))), gradient(np.arange(12.0).reshape(3, 4)).t()]
    sides = all_on_torchs_side(list(zip(params, grads, strict=True)))
    assert [same(side, grad.numpy()) for side, grad in zip(sides, grads, strict=True)] == [True, True]
    assert not Windows(list(zip(params, grads, strict=True))).show(grads)
