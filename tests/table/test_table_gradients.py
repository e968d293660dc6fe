"""Gradients of every door of the op table, once and twice: Torch's bits, and Paddle's values but for rounding."""

import contextlib
import functools

import numpy as np
import paddle
import pytest
import torch
from helpers import Call, array, flat, has_defect, in_turn, same, sampled, takes
from torch._subclasses.fake_tensor import FakeTensorMode
from trials import (
    DOORS,
    FIRST,
    INPLACE,
    OTHERS,
    arriving,
    check_tally,
    differentiable,
    formula,
    held,
    loose,
    near,
    outcome,
    pulled,
    trials,
    uninitialised,
    wanted,
)  # fmt: skip

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.verdicts import HARD

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("installed")]


def torch_gradients(call, theirs, leaves, seeds, native):
    """Torch's gradients of the results that are differentiable in Paddle; what a formula does not read has zeros."""
    ends = [
        end for end, tensor in zip(flat(theirs), flat(native), strict=True) if end.is_floating_point() and not tensor.stop_gradient
    ]
    pairs = [(end, torch.from_numpy(array(seed)).to(end.dtype)) for end, seed in zip(ends, seeds, strict=True) if end.requires_grad]
    sources = wanted(leaves)
    gradients = torch.autograd.grad([end for end, _ in pairs], sources, [seed for _, seed in pairs], allow_unused=True)
    gradients = [torch.zeros_like(source) if result is None else result for result, source in zip(gradients, sources)]
    return [tensor.t() if call.op.layouts and source is leaves[1] else tensor for tensor, source in zip(gradients, sources)]


@pytest.mark.every_row
@pytest.mark.parametrize(("op", "entry"), FIRST + OTHERS)
def test_gradients(op, entry):
    for trial in trials(op, entry):
        sample, dtype, layout = trial
        call, again = Call(op, entry, *trial, grad=True), Call(op, entry, *trial, grad=True)
        if not wanted(call.tensors):
            continue
        theirs, leaves = formula(call, grad=True)
        if theirs is None or not any(tensor.requires_grad for tensor in flat(theirs)):
            continue
        native, error = outcome(functools.partial(pulled, again, dtype, backward=False))
        if error is not None:
            assert outcome(Call(op, entry, *trial).run)[1] is error, trial
            continue
        if not native[1]:  # 2.6 has no gradient of a remainder
            assert not IS_3, trial
            continue
        with padiff_shim.reference("torch") as run:
            results, seeds, ours = pulled(call, dtype, backward=not sample.empty)  # 2.6 has no gradients of nothing
        check_tally(run, op, call, sample, theirs)
        if not run.substituted:
            continue
        assert run.backward == {op.name: 1}
        assert all(same(tensor.detach(), other) for tensor, other in zip(flat(results), flat(theirs), strict=True)), trial
        expected = torch_gradients(call, theirs, leaves, seeds, native[0])
        assert all(agree(result, other) for result, other in zip(ours, expected, strict=True)), trial
        if layout == "contiguous" and held(op, dtype, gradient=True):
            check_native_gradients(Call(op, entry, *trial, grad=True), dtype, ours)


def agree(ours, theirs):
    """The same bits, or no gradient where Torch's are zeros."""
    return same(ours, theirs) if ours is not None else not theirs.any()


def check_native_gradients(call, dtype, ours):
    """Not of views: Paddle 3.3.1's backward of a legacy form reads beyond their memory."""
    native, error = outcome(functools.partial(pulled, call, dtype))
    if error is not None:
        return  # Paddle has no gradient for these operands
    pairs = [
        (result, paddle.zeros_like(result) if other is None else other)
        for result, other in zip(ours, native[2], strict=True)
        if result is not None
    ]
    assert all(near(result, other, dtype, roundings=4 * loose(dtype)) for result, other in pairs), call.sample


@contextlib.contextmanager
def everything_set(op):
    """What of Torch's own a program may have set around its Paddle code, all at once."""
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"), FakeTensorMode():
        if op.name != "det":  # Torch 2.13's own backward fails where the default is another dtype
            torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)


SWITCHED = [pytest.param(lambda op: torch.no_grad(), id="no_grad"), pytest.param(everything_set, id="everything")]


@pytest.mark.parametrize(("op", "entry", "switched"), sampled(in_turn(FIRST + OTHERS, SWITCHED), 3))
def test_gradients_do_not_depend_on_torch_s_own_switches(op, entry, switched):
    """Paddle's decide. As within a backward, where Torch's gradients are off, and recompute replays a forward."""

    def step(around):
        call = Call(op, entry, sample, grad=True)
        with padiff_shim.reference("torch") as run, around:
            results, error = outcome(functools.partial(pulled, call, "float32"))
        return results, error, run.substituted, run.backward, dict(run.native)

    for sample in [sample for sample in op.samples if takes(op, entry, sample) and not sample.empty][:2]:
        (on, *rest), (off, *others) = step(contextlib.nullcontext()), step(switched(op))
        assert rest == others, sample
        if on is not None:
            pairs = list(zip(on[2], off[2], strict=True))
            assert all(result is other or same(result, other) for result, other in pairs), sample
            pairs = list(zip(flat(on[0]), flat(off[0]), strict=True))
            assert all(same(tensor.detach(), other.detach()) for tensor, other in pairs), sample


def twice(call, framework):
    """The gradients of a curved function of the first gradients; None where there are none."""
    theirs = framework is torch
    results, leaves = call.torch(True) if theirs else (call.run(), call.tensors)
    ends = [tensor for tensor in flat(results) if (tensor.requires_grad if theirs else not tensor.stop_gradient)]
    sources = wanted(leaves)
    loss = sum((end * end).sum() for end in ends)
    grad = torch.autograd.grad if theirs else paddle.grad
    first = grad([loss], sources, create_graph=True, allow_unused=True)
    bent = [tensor for tensor in first if tensor is not None and (tensor.requires_grad if theirs else not tensor.stop_gradient)]
    if not bent:
        return [None] * len(sources)
    return list(grad([sum((result * result).sum() for result in bent)], sources, allow_unused=True))


@pytest.mark.rows(140)
@pytest.mark.parametrize(("op", "entry"), FIRST)
def test_second_gradients(op, entry):
    """Where Paddle has them: as in a Torch program, but for the sums in between, of which Paddle's own graph has some."""
    samples = [sample for sample in op.samples if takes(op, entry, sample) and not sample.empty]
    for sample in samples[:2]:
        call, again = (Call(op, entry, sample, "float64", grad=True) for _ in range(2))
        error = outcome(functools.partial(twice, again, paddle))[1]
        theirs, refused = outcome(functools.partial(twice, call, torch))
        if error is not None or refused is not None or not wanted(call.tensors):
            continue
        with padiff_shim.reference("torch"):
            ours = twice(call, paddle)
        for result, other, leaf in zip(ours, theirs, wanted(call.tensors), strict=True):
            result, other = (np.zeros(leaf.shape) if value is None else array(value) for value in (result, other))
            assert near(result, other.T if other.shape != result.shape else other, "float64", roundings=200), sample


@pytest.mark.parametrize(("op", "entry"), INPLACE)
def test_gradients_through_in_place_forms(op, entry):
    """On a tensor that is no leaf; a leaf's value was taken before."""
    for sample in [sample for sample in op.samples if takes(op, entry, sample) and not sample.empty][:2]:
        calls = [Call(op, entry, sample, grad=True) for _ in range(2)]
        theirs, leaves = formula(calls[0], grad=True)
        if theirs is None or uninitialised(calls[0], theirs) or list(theirs.shape) != calls[0].before:
            continue
        if not theirs.requires_grad:
            continue  # what Paddle has no gradient of stays native

        def step(call):
            source = call.args[0]
            call.args[0] = source * 1.0
            result = call.run()
            (seed,) = arriving([result], "float32")
            result.backward(seed)
            return result, seed, [leaf.grad for leaf in wanted(call.tensors)]

        native, error = outcome(functools.partial(step, calls[1]))
        if error is not None:
            continue
        with padiff_shim.reference("torch") as run:
            result, seed, ours = step(calls[0])
        assert op.name in run.substituted, run.native
        assert op.name not in run.native
        assert same(result.detach(), theirs), sample
        expected = torch_gradients(calls[0], theirs, leaves, [seed], native[0])
        assert all(agree(result, other) for result, other in zip(ours, expected, strict=True)), sample


@pytest.mark.parametrize(("op", "entry"), [case for case in DOORS if case.values[0].exact])
def test_ops_that_round_nothing_are_judged_too(op, entry):
    """Their honest kernels are accused of nothing but what is known."""
    wrong = {"masked_fill": ("grad:value",)} if has_defect("masked_fill gradient of the value is wrong") else {}
    with padiff_shim.compare("torch") as run:
        result = outcome(Call(op, entry, op.samples[0], grad=True).run)[0]
        ends = differentiable(result)
        outcome(functools.partial(paddle.autograd.backward, ends, arriving(ends, "float32")))  # legacy forms have none natively
    records = run.calls.filter(op=op.name)
    assert {record.phase for record in records} >= {"forward"}
    accused = [record for record in records if record.verdict in HARD and not record.quirk]
    assert {record.tensor for record in accused} <= set(wrong.get(op.name, ())), accused
    assert op.name not in run.native
