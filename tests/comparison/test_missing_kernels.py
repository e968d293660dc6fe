"""Calls that Paddle has no kernel for, compared: Torch's side is judged, and the program goes on where it is asked to."""

import warnings

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same

import padiff_shim
from padiff_shim.comparison.compared_call import ComparedCall
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.verdicts import NO_KERNEL

pytestmark = pytest.mark.compat
HALVES = ("bfloat16", "float16")


def leaf(dtype, *shape, seed=0):
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32")).to(getattr(torch, dtype))
    tensor = paddle.to_tensor(values.float().numpy()).astype(dtype)
    tensor.stop_gradient = False
    return tensor


def program(x, w):
    hidden = F.softmax(F.gelu(F.linear(x, w)))
    return F.layer_norm(hidden, 5)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_native_error_says_what_to_write(dtype):
    x, w = leaf(dtype, 3, 4), leaf(dtype, 4, 5, seed=1)
    with padiff_shim.compare("torch") as run, pytest.raises(RuntimeError) as caught:
        program(x, w)
    text = str(caught.value)
    assert "is not registered" in text
    assert 'compare("torch", carry="torch")' in text
    assert f"no kernel in {dtype}" in text
    [record] = run.calls.filter(op="linear")
    assert record.modifiers == [NO_KERNEL]
    assert str(record.verdict) in ("EQUAL", "ROUNDING")
    assert run.without_kernel == {"linear": {dtype: 1}}
    assert f"linear in {dtype} (1)" in str(run)
    assert "Native kernel missing" in run.markdown()


@pytest.mark.parametrize("dtype", HALVES)
def test_with_torchs_results_the_program_goes_on(dtype):
    x, w = leaf(dtype, 3, 4), leaf(dtype, 4, 5, seed=1)
    with padiff_shim.compare("torch", carry="torch") as run:
        result = program(x, w)
        assert paddle.isclose(result, result).all()
        result.sum().backward()
    assert run.without_kernel == {name: {dtype: 1} for name in ("linear", "gelu", "softmax", "layer_norm")}
    assert {record.op for record in run.calls.filter(phase="backward") if NO_KERNEL in record.modifiers} == set(run.without_kernel)
    # Paddle 2.6 rounds the cast of a gradient towards zero.
    verdicts = {str(record.verdict) for record in run.calls if NO_KERNEL in record.modifiers}
    assert verdicts <= {"EQUAL", "ROUNDING", *(() if IS_3 else ("UNVERIFIED",))}
    again = leaf(dtype, 3, 4), leaf(dtype, 4, 5, seed=1)
    with padiff_shim.reference("torch"):
        expected = program(*again)
        expected.sum().backward()
    assert result.dtype == getattr(paddle, dtype)
    assert same(result.detach(), expected.detach())
    assert same(x.grad, again[0].grad)
    assert same(w.grad, again[1].grad)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_call_that_fails_writes_nothing(dtype):
    layer, x = paddle.nn.BatchNorm1D(4), leaf(dtype, 3, 4).detach()
    layer.to(dtype=dtype)
    before = [state.astype("float32").numpy() for state in (layer._mean, layer._variance)]
    y = leaf(dtype, 3, 4).detach()
    values = y.astype("float32").numpy()
    with padiff_shim.compare("torch"):
        with pytest.raises(RuntimeError):
            layer(x)
        with pytest.raises(RuntimeError):
            y.add_(x)
    after = [state.astype("float32").numpy() for state in (layer._mean, layer._variance)]
    assert all(map(np.array_equal, before, after))
    assert np.array_equal(y.astype("float32").numpy(), values)


def test_in_place_calls_write_torchs_values():
    x = leaf("bfloat16", 3, 4)
    with padiff_shim.compare("torch", carry="torch") as run:
        y = x * 1.0
        memory = y.data_ptr()
        y.add_(x)
    assert y.data_ptr() == memory
    assert run.without_kernel["add"] == {"bfloat16": 1}
    assert np.array_equal(y.astype("float32").numpy(), 2 * x.astype("float32").numpy())


def test_torchs_side_is_judged_against_the_oracle(monkeypatch):
    """A wrong kernel of Torch's is accused, though Paddle has none."""
    kernel = ComparedCall.run

    def wrong(self, *sides):
        result = kernel(self, *sides)
        return result * 1.25 if self.entry_point.op.name == "gelu" else result

    monkeypatch.setattr(ComparedCall, "run", wrong)
    x = leaf("bfloat16", 16, 16)
    with padiff_shim.compare("torch", carry="torch") as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        F.gelu(x.detach())
    [record] = run.calls.filter(op="gelu")
    assert str(record.side) == "torch"


def test_other_errors_are_paddles_alone():
    x = leaf("bfloat16", 3, 4)
    with padiff_shim.compare("torch", carry="torch"), pytest.raises(ValueError, match="does not match") as caught:
        F.linear(x, paddle.ones([4, 2]))
    assert "padiff_shim" not in str(caught.value)


def test_a_log_tells_of_them(tmp_path):
    x = leaf("bfloat16", 3, 4)
    with padiff_shim.compare("torch", carry="torch", log=tmp_path):
        F.gelu(x.detach())
    assert padiff_shim.load(tmp_path).without_kernel == {"gelu": {"bfloat16": 1}}
