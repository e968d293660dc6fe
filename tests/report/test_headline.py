"""The answer of a comparison in one sentence, and what can be done about it."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import testing

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def tf32(x):
    bits = x.contiguous().view(torch.int32)
    return (bits + (0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)


def product(out, x, weight, bias, *_):
    return torch.nn.functional.linear(tf32(x), tf32(weight), bias)


def compared(change, *, side="paddle", gradients=False):
    rng = np.random.default_rng(0)
    layer = paddle.nn.Linear(256, 16)
    layer.weight.set_value(rng.standard_normal((256, 16)).astype("float32"))
    x = paddle.to_tensor(rng.standard_normal((32, 256)).astype("float32"))
    with testing.planted("linear", change, side=side, gradients=gradients), padiff_shim.compare("torch", audit=1) as run:
        layer(x).sum().backward()
    return run


@pytest.mark.parametrize("side", ["paddle", "torch"])
def test_tf32_says_whose_it_is_and_how_it_is_turned_off(side):
    run = compared(product, side=side)
    assert run.headline.startswith(f"{side.capitalize()}'s linear at ")
    assert "test_headline.py" in run.headline
    assert "computes in a lower precision than its dtype" in run.headline
    assert ("NVIDIA_TF32_OVERRIDE=0" in str(run)) == (side == "paddle")
    assert ("allow_tf32" in str(run)) == (side == "torch")
    assert run.headline in str(run)
    assert "computes in a lower precision than its dtype" in run.to_markdown()


def test_a_wrong_gradient_is_named():
    run = compared(lambda gradient, name, *_: gradient * 1.5 if name == "weight" else gradient, gradients=True)
    assert "Paddle's gradient of linear (weight)" in run.headline
    assert "is wrong" in run.headline


def test_where_nothing_is_wrong_the_bound_is_told():
    run = compared(lambda out, x, weight, bias, *_: torch.nn.functional.linear(x.flip(-1), weight.flip(-1), bias))
    assert run.headline.startswith("No kernel is accused, only rounding: the largest difference is ")
    assert "two right kernels may be" in run.headline


def test_equal_results_are_told_apart_from_rounding():
    with testing.planted("relu", lambda out, x: torch.relu(x)), padiff_shim.compare("torch", audit=1) as run:
        paddle.nn.functional.relu(paddle.to_tensor([1.0, -1.0, 0.5]))
    assert "equal bit for bit" in run.headline


def test_a_run_without_calls():
    with padiff_shim.compare("torch") as run:
        pass
    assert run.headline == "Nothing was compared."
