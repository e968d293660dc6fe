"""Properties of every door of the op table: Torch's bits; Paddle's shapes, dtypes and errors."""

import paddle
import pytest
import torch
from helpers import Call, flat, in_turn, same, takes
from trials import (
    DOORS,
    FIRST,
    INPLACE,
    OTHERS,
    NoShortcuts,
    check_tally,
    formula,
    held,
    loose,
    near,
    outcome,
    trials,
    uninitialised,
    without_kernel,
)

import padiff_shim
from padiff_shim.dispatch import frames
from padiff_shim.tested import PADDLES

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("installed")]


@pytest.mark.every_row
@pytest.mark.parametrize(("op", "entry"), DOORS + INPLACE)
def test_values(op, entry):
    for trial in trials(op, entry):
        sample, dtype, _ = trial
        call, again = Call(op, entry, *trial), Call(op, entry, *trial)
        theirs, _ = formula(call)
        if uninitialised(call, theirs) or (theirs is None and dtype not in ("float32", "float64")):
            continue
        native, error = outcome(again.run)
        if error is not None and without_kernel(op, dtype):
            continue
        if error is None and op.name != "kron":  # torch.kron makes a view of its operands, which some strides do not allow
            assert call.refusal is None or isinstance(call.refusal, NotImplementedError), "a formula refuses in its own words"
        with padiff_shim.reference("torch") as run:
            if error is not None:
                with pytest.raises(error):
                    call.run()
                assert not run.substituted, trial
                continue
            ours = call.run()
        check_tally(run, op, call, sample, theirs)
        assert type(ours) is type(native), trial
        mine, expected = flat(ours), flat(native)
        assert [(o.shape, o.dtype, str(o.place), o.stop_gradient) for o in mine] == [
            (o.shape, o.dtype, str(o.place), o.stop_gradient) for o in expected
        ], trial
        if run.substituted:
            assert all(same(result, other) for result, other in zip(mine, flat(theirs), strict=True)), trial
        if held(op, dtype):
            assert all(near(result, other, dtype, roundings=loose(dtype)) for result, other in zip(mine, expected, strict=True)), (
                trial
            )


@pytest.mark.parametrize(("op", "entry"), INPLACE)
def test_in_place_forms_write_into_their_tensor(op, entry):
    for sample in (sample for sample in op.samples if takes(op, entry, sample)):
        call = Call(op, entry, sample)
        target = call.args[0]
        pointer, version = target.data_ptr(), target.inplace_version
        theirs, _ = formula(call)
        if theirs is None or list(flat(theirs)[0].shape) != target.shape or sample.empty:
            continue  # stays native: see test_values
        if outcome(Call(op, entry, sample).run)[1] is not None:
            continue
        with padiff_shim.reference("torch") as run:
            result = call.run()
        assert result is target
        assert target.data_ptr() == pointer
        assert target.inplace_version > version
        assert same(target, theirs)
        assert run.substituted == {op.name: 1}


WANTED = [
    pytest.param(False, True, id="nothing wants a gradient"),
    pytest.param(True, True, id="gradients wanted"),
    pytest.param(True, False, id="wanted, under no_grad"),
]


@pytest.mark.rows(140)
@pytest.mark.parametrize(("op", "entry", "grad", "enabled"), in_turn(FIRST + OTHERS, WANTED))
def test_every_way_gives_the_bits_for_operands_that_want_gradients_or_not(op, entry, grad, enabled, monkeypatch):
    """Torch itself chooses some kernels by that, under no_grad too; the shortcuts and the full way have to do as it does."""
    for sample, dtype, layout in trials(op, entry, halves=False):
        if grad and layout not in ("contiguous", "transposed")[: 1 + enabled]:
            continue  # whether a gradient is wanted changes no kernel's choice by strides
        call = Call(op, entry, sample, dtype, layout, grad)
        with torch.set_grad_enabled(enabled):
            theirs, _ = formula(call, grad=grad)
        if sample.empty or theirs is None or outcome(Call(op, entry, sample, dtype, layout, grad).run)[1] is not None:
            continue  # nothing is substituted: see test_values
        if grad and enabled and not any(tensor.requires_grad for tensor in flat(theirs)):
            continue  # what Paddle has no gradient of stays native there: see test_norms_of_vectors
        with padiff_shim.reference("torch") as run, paddle.set_grad_enabled(enabled):
            first, short = call.run(), call.run()  # what is learnt at the first call of a kind serves the next
            with monkeypatch.context() as patch:
                patch.setattr(frames.top(), "quick", NoShortcuts())
                full = call.run()
        if run.native and not op.integer and not flat(theirs)[0].is_floating_point():
            continue
        assert run.substituted == {op.name: 3}, run.native
        for ours in (first, short, full):
            mine = [tensor.detach() for tensor in flat(ours)]
            assert all(same(result, other) for result, other in zip(mine, flat(theirs), strict=True)), (sample, layout)


@pytest.mark.parametrize(("op", "entry"), [case for case in DOORS + INPLACE if case.values[0].refusals])
def test_what_paddle_refuses_is_refused_with_its_error(op, entry):
    for sample in op.refusals:
        if not takes(op, entry, sample):
            continue
        _, error = outcome(Call(op, entry, sample).run)
        if error is None:
            assert paddle.__version__ != PADDLES[-1], sample
            continue
        with padiff_shim.reference("torch") as run, pytest.raises(error):
            Call(op, entry, sample).run()
        assert not run.substituted
        with padiff_shim.compare("torch"), pytest.raises(error):
            Call(op, entry, sample).run()
