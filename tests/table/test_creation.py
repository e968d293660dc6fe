"""Ranges of floats are Torch's, of Paddle's size; those of integers are not counted."""

import warnings

import forked
import numpy as np
import paddle
import pytest
import torch
from helpers import needs, same

import padiff_shim
from padiff_shim.frameworks.versions import VERSION

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]

IS_NAMED = VERSION >= (3, 3)  # the versions of the table of known differences

RANGES = {
    "arange": [(0, 1, 0.1), (0.0, 10, 0.3), (-1.5, 1.5, 0.01), (1, 0, -0.07), (0, 64, 2.0), (0.5, 7)],
    "linspace": [(-1, 1, 100), (0.1, 2.3, 57), (3.3, -7.7, 1000), (0, 1, 1)],
    "logspace": [(0, 1, 11), (0.1, 2.3, 57), (0, 4, 5, 2.0)],
}
CASES = [(name, arguments) for name, several in RANGES.items() for arguments in several]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_ranges_are_torchs(name, arguments, dtype):
    native = getattr(paddle, name)(*arguments, dtype=dtype)
    with padiff_shim.reference("torch", strict=True) as run:
        ours = getattr(paddle, name)(*arguments, dtype=dtype)
    assert run.substituted == {name: 1}
    assert same(ours, getattr(torch, name)(*arguments, dtype=getattr(torch, dtype)))
    assert (ours.shape, ours.dtype, ours.stop_gradient) == (native.shape, native.dtype, native.stop_gradient)
    np.testing.assert_allclose(ours.numpy(), native.numpy(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("end", [0.3, 0.6, 0.7, 0.9, 1.2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_are_as_many_elements_as_natively(end, dtype):
    """Paddle counts in the result's dtype, Torch in double."""
    native = paddle.arange(0, end, 0.1, dtype=dtype)
    with padiff_shim.reference("torch", strict=True) as run:
        ours = paddle.arange(0, end, 0.1, dtype=dtype)
    assert run.substituted == {"arange": 1}
    assert ours.shape == native.shape
    expected = torch.arange(0, end, 0.1, dtype=getattr(torch, dtype))
    if len(expected) == len(native):
        assert same(ours, expected)
    np.testing.assert_allclose(ours.numpy(), np.arange(len(native)) * 0.1, rtol=1e-6)


def test_the_default_dtype_and_tensors_among_the_arguments():
    with padiff_shim.reference("torch", strict=True) as run:
        by_number, by_tensor = paddle.arange(3.5), paddle.arange(paddle.to_tensor(0.5), 4)
        spread = paddle.linspace(0, paddle.to_tensor(1.0), paddle.to_tensor(7))
    assert run.substituted == {"arange": 2, "linspace": 1}
    assert same(by_number, torch.arange(3.5))
    assert same(by_tensor, torch.arange(0.5, 4))
    assert same(spread, torch.linspace(0, 1, 7))


def test_integers_and_refusals_are_paddles():
    with padiff_shim.reference("torch", strict=True) as run:
        assert paddle.arange(5).dtype == paddle.arange(0, 9, 2).dtype == paddle.int64
        assert paddle.linspace(0, 4, 5, dtype="int32").dtype == paddle.int32
        with pytest.raises((ValueError, RuntimeError)):
            paddle.arange(0.0, 1.0, 0.0)
    assert not run.native
    assert not run.substituted


def test_what_stays_native_says_why():
    with padiff_shim.reference("torch", exclude=["linspace"]) as run:
        paddle.linspace(0, 1, 5)
    assert run.native == {"linspace": {"filtered out by ops= or exclude=": 1}}


@needs("range")
def test_a_range_with_its_end():
    numbers = (0.5, 7, 0.3)
    with padiff_shim.reference("torch") as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both frameworks would like it gone
        assert same(paddle.range(*numbers), torch.range(*numbers))
    assert run.substituted == {"range": 1}


@needs("linspace device")
def test_a_place_asked_for():
    with padiff_shim.reference("torch") as run:
        paddle.linspace(0, 1, 5, device="cpu")
    assert [*run.native] == ["linspace"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_a_comparison_judges_them(name, arguments, dtype):
    """Paddle's arange adds the step up, on every machine; the others are right."""
    with padiff_shim.compare("torch", audit=1) as run:
        native = getattr(paddle, name)(*arguments, dtype=dtype)
    (call,) = run.calls
    assert (call.op, list(call.shape), str(call.dtype)) == (name, list(native.shape), dtype)
    if name == "arange" and call.verdict not in ("EQUAL", "ROUNDING"):
        assert (call.verdict, call.side, call.hypothesis) == ("PRECISION_MODE", "paddle", "step-added-up")
        assert call.quirk == ("range added up" if IS_NAMED else None)
    else:
        assert call.verdict in ("EQUAL", "ROUNDING"), str(call)


@pytest.mark.parametrize("side", ["paddle", "torch"])
@pytest.mark.parametrize("fault", ["all", "one"])
@pytest.mark.parametrize("name", RANGES)
def test_a_comparison_finds_a_fault(name, fault, side):
    def change(out, *numbers):
        changed = out.clone()
        (changed if fault == "all" else changed[-1:]).mul_(1.001)
        return changed

    with padiff_shim.testing.planted(name, change, side=side), padiff_shim.compare("torch") as run:
        getattr(paddle, name)(*RANGES[name][1])
    (call,) = run.calls
    assert call.verdict not in ("EQUAL", "ROUNDING")
    assert call.side == side
    assert call.quirk is None


def test_a_comparison_leaves_whole_numbers_alone():
    with padiff_shim.compare("torch") as run:
        paddle.arange(0, 9, 2)
    assert len(run.calls) == 0
    assert not run.native


def test_the_script_of_a_range(tmp_path):
    with padiff_shim.compare("torch", keep_inputs=5) as run:
        paddle.arange(0, 1000, 0.1)
    (call,) = run.calls
    script = run.repro(call, tmp_path / "show.py")
    done = forked.run([script])
    assert done.returncode == 1, done.stderr
    assert "REPRODUCED" in done.stdout
