"""Properties of every entry of the op table: torch's bits, forward and backward; Paddle's shapes, dtypes and errors."""

import numpy as np
import paddle
import pytest
import torch
from helpers import LAYOUTS, Call, entries, same, takes

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import EMPTY

pytestmark = pytest.mark.bitexact

CASES = [
    pytest.param(op, entry, sample, id=f"{entry.target.removeprefix('paddle.')}-{number}")
    for op, entry in entries()
    for number, sample in enumerate(op.samples)
    if takes(op, entry, sample)
]
# Paddle rounds these ops' numbers to float32 in float64, or writes a constant with seven digits: its own defect, not ours.
_ROUNDED = """layer_norm pow scale elu celu selu hardtanh hardshrink hardsigmoid softshrink stanh thresholded_relu clip rrelu
    leaky_relu logit polygamma"""
ROUNDED = frozenset(_ROUNDED.split())
DTYPES = ("float32", "float64")


def native(op, entry, sample, dtype, layout, grad):
    call = Call(op, entry, sample, dtype, layout, grad)
    try:
        return call.run(), None
    except Exception as error:
        return None, type(error)


def empty(sample):
    return any(0 in shape for shape in sample.shapes if shape is not None)


def bound(result, dtype):
    """Generous: 200 roundings of the largest element (the samples add at most 60 products of size 1)."""
    unit = {"float32": 2.0**-24, "float64": 2.0**-53}[dtype]
    return 200 * unit * max(1.0, float(np.abs(result).max(initial=0.0)))


@pytest.mark.compat
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "entry", "sample"), CASES)
def test_forward(op, entry, sample, dtype):
    for layout in LAYOUTS:
        call = Call(op, entry, sample, dtype, layout, False)
        theirs, _ = call.torch(False)
        if entry.inplace and list(theirs.shape) != call.before and (not IS_3 or entry.pairs is not None):
            continue  # Paddle 2.6 and the legacy form answer such a call with whatever lies behind the buffer
        expected, error = native(op, entry, sample, dtype, layout, False)
        with padiff_shim.reference("torch") as run:
            if error is not None:
                with pytest.raises(error):
                    call.run()
                assert not run.substituted
                continue
            ours = call.run()
        assert same(ours, theirs), layout
        assert list(ours.shape) == list(expected.shape)
        assert ours.dtype == expected.dtype
        assert str(ours.place) == str(expected.place)
        assert ours.stop_gradient == expected.stop_gradient
        if entry.inplace and ours.shape != call.before:
            assert run.native == {op.name: {"in-place result of another shape or dtype": 1}}
        elif empty(sample) and not IS_3:
            assert run.native == {op.name: {EMPTY.text: 1}}
        else:
            assert run.substituted == {op.name: 1}, run.native
        if op.name not in ROUNDED or dtype == "float32":
            assert np.abs(ours.numpy() - expected.numpy()).max(initial=0.0) <= bound(expected.numpy(), dtype)


@pytest.mark.compat
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "entry", "sample"), [case for case in CASES if not case.values[1].inplace])
def test_gradients(op, entry, sample, dtype):
    for layout in LAYOUTS:
        refused = native(op, entry, sample, dtype, layout, True)[1]
        if refused is not None:
            assert native(op, entry, sample, dtype, layout, False)[1] is refused, "only the forward may refuse a sample"
            continue
        if empty(sample):
            with padiff_shim.reference("torch") as run:
                Call(op, entry, sample, dtype, layout, True).run()
            assert run.native == {op.name: {EMPTY.text: 1}}
            continue
        call = Call(op, entry, sample, dtype, layout, True)
        theirs, leaves = call.torch(True)
        rng = np.random.default_rng(1)
        arriving = rng.standard_normal(tuple(theirs.shape)).astype(dtype)
        wanted = [leaf for leaf in leaves if leaf is not None]
        gradients = torch.autograd.grad(theirs, wanted, torch.from_numpy(np.asarray(arriving)), allow_unused=True)
        with padiff_shim.reference("torch") as run:
            ours = call.run()
            assert not ours.stop_gradient
            ours.backward(paddle.to_tensor(arriving))
        assert same(ours.detach(), theirs), layout
        assert run.backward == {op.name: 1}
        sources = [tensor for tensor in call.tensors if tensor is not None]
        for index, (tensor, expected) in enumerate(zip(sources, gradients)):
            if expected is None:
                assert tensor.grad is None or not tensor.grad.numpy().any()
                continue
            if op.layouts and index == 1:
                expected = expected.t()
            assert same(tensor.grad, expected.contiguous()), (layout, index)
            assert tensor.grad.shape == tensor.shape


@pytest.mark.compat
@pytest.mark.parametrize(("op", "entry", "sample"), [case for case in CASES if case.values[1].inplace])
def test_in_place_forms_write_into_their_tensor(op, entry, sample):
    call = Call(op, entry, sample, "float32", "contiguous", False)
    target = call.args[0]
    pointer, version = target.data_ptr(), target.inplace_version
    theirs, _ = call.torch(False)
    if list(theirs.shape) != target.shape:
        pytest.skip("the result has another shape: stays native (see test_forward)")
    if native(op, entry, sample, "float32", "contiguous", False)[1] is not None:
        pytest.skip("Paddle refuses this sample (see test_forward)")
    if empty(sample):
        pytest.skip("nothing is written into an empty tensor (see test_forward)")
    with padiff_shim.reference("torch") as run:
        result = call.run()
    assert result is target
    assert target.data_ptr() == pointer
    assert target.inplace_version > version
    assert same(target, theirs)
    assert run.substituted == {op.name: 1}


WANTED = {"nothing wants a gradient": (False, True), "gradients wanted": (True, True), "wanted, under no_grad": (True, False)}


@pytest.mark.compat
@pytest.mark.parametrize(("grad", "enabled"), WANTED.values(), ids=WANTED)
@pytest.mark.parametrize(("op", "entry", "sample"), [case for case in CASES if not case.values[1].inplace])
def test_every_way_gives_the_bits_for_operands_that_want_gradients_or_not(op, entry, sample, grad, enabled, monkeypatch):
    """Torch itself chooses some kernels by that, under no_grad too; the shortcuts and the full way have to do as it does."""
    if empty(sample) or native(op, entry, sample, "float32", "contiguous", False)[1] is not None:
        pytest.skip("nothing is substituted (see test_forward)")
    for layout in LAYOUTS:
        call = Call(op, entry, sample, "float32", layout, grad)
        with torch.set_grad_enabled(enabled):
            theirs, _ = call.torch(grad)
        with padiff_shim.reference("torch") as run, paddle.set_grad_enabled(enabled):
            short = call.run()
            with monkeypatch.context() as patch:
                patch.setattr("padiff_shim.substitution.shortcut.grad_tracer", lambda: None)
                full = call.run()
        assert run.substituted == {op.name: 2}
        assert same(short.detach(), theirs), layout
        assert same(full.detach(), theirs), layout


INTEGERS = ("int32", "int64", "bool")


@pytest.mark.compat
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("name", "program"), [
    ("sum", lambda x, y: paddle.sum(x)),
    ("sum", lambda x, y: paddle.sum(x, axis=1, keepdim=True)),
    ("sum", lambda x, y: paddle.sum(x, axis=0, dtype="float64")),
    ("divide", lambda x, y: x / y),
    ("divide", lambda x, y: x / 3),
    ("divide", lambda x, y: 3 / x),
    ("divide", lambda x, y: paddle.divide(x, y)),
])  # fmt: skip
def test_integer_operands_promote_as_natively(name, program, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(1, 9, (3, 4)).astype(dtype) for _ in range(2)]
    x, y = map(paddle.to_tensor, arrays)
    try:
        expected = program(x, y)
    except Exception as error:
        with padiff_shim.reference("torch") as run, pytest.raises(type(error)):
            program(x, y)
        assert not run.substituted
        return
    with padiff_shim.reference("torch") as run:
        ours = program(x, y)
    assert ours.dtype == expected.dtype
    assert list(ours.shape) == list(expected.shape)
    assert np.abs(ours.numpy().astype("float64") - expected.numpy().astype("float64")).max() <= bound(
        expected.numpy().astype("float64"), "float32"
    )
    if name == "sum":
        assert run.substituted == {"sum": 1}
        assert same(ours, expected.numpy())
