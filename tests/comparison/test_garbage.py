"""A compared call frees its tensors when its verdicts are made: nothing waits for Python's collector."""

import gc

import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim

SMALL = [1, 8, 2, 8]


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def softmax_of_a_product(q, k, v):
    return paddle.matmul(F.softmax(paddle.matmul(q, k, transpose_y=True)), v)


def cumulative(q, k, v):
    return paddle.cumsum(q * k, axis=1) - F.silu(v)


@pytest.mark.parametrize("program", [attention, softmax_of_a_product, cumulative])
def test_compared_steps_leave_no_rings(program):
    tensors = [paddle.randn(SMALL) for _ in range(3)]
    for tensor in tensors:
        tensor.stop_gradient = False

    def step():
        program(*tensors).sum().backward()
        for tensor in tensors:
            tensor.clear_gradient()

    with padiff_shim.compare("torch"):
        step()
        step()
        gc.collect()
        gc.disable()
        try:
            step()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            ours = [
                type(item).__qualname__
                for item in gc.garbage
                if type(item).__module__.startswith(("padiff_shim", "paddle", "torch"))
            ]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert not ours
