"""Properties of every door of the op table, generated from it: Torch's bits, forward and backward; Paddle's shapes, dtypes, errors.

A door is one test. Samples, layouts and dtypes are chosen by what can differ: all of them at an op's first door, which carries the
formula, and at the others what could be bound or written wrongly.
"""

import functools

import numpy as np
import paddle
import pytest
import torch
from helpers import LAYOUTS, Call, array, entries, flat, same, takes

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import EMPTY, INTEGER, OTHER_RESULT

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
REFUSED = (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError)
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.fixture(scope="module", autouse=True)
def installed():
    """Thousands of short modes: what is redirected stays so between them."""
    padiff_shim.install()
    yield
    padiff_shim.uninstall()


def doors(*, inplace):
    """(op, entry) for every door that takes some sample."""
    return [
        pytest.param(op, entry, id=entry.target.removeprefix("paddle."))
        for op, entry in entries()
        if entry.inplace == inplace and not op.random and any(takes(op, entry, sample) for sample in op.samples)
    ]


DOORS, INPLACE = doors(inplace=False), doors(inplace=True)
FIRST = list({case.values[0].name: case for case in reversed(DOORS)}.values())[::-1]


def trials(op, entry, *, halves=True):
    """(sample, dtype, layout): see the head of this module."""
    samples = [sample for sample in op.samples if takes(op, entry, sample)]
    first = any(case.values[1] is entry for case in FIRST)
    layouts = LAYOUTS[:-1] if entry.inplace else LAYOUTS  # nothing is written into elements that overlap
    for number, sample in enumerate(samples):
        for layout in layouts if first or not number else LAYOUTS[:1]:
            yield sample, "float32", layout
        if first:
            yield sample, "float64", "contiguous"
    for dtype in ("float16", "bfloat16") if first and halves else ():
        yield samples[0], dtype, "contiguous"


def outcome(function):
    try:
        return function(), None
    except Exception as error:
        return None, type(error)


def near(ours, native, dtype, *, roundings):
    """Whether a value is native Paddle's but for so many roundings of the largest element: no other formula is."""
    ours, native = array(ours), array(native)
    if ours.shape != native.shape or ours.dtype != native.dtype:
        return False
    if ours.dtype.kind != "f":
        return np.array_equal(ours, native)
    finite = np.isfinite(native)
    size = max(1.0, float(np.abs(native[finite]).max(initial=0.0)))
    if not np.array_equal(ours[~finite], native[~finite], equal_nan=True):
        return False
    return bool(np.abs(ours[finite].astype("float64") - native[finite]).max(initial=0.0) <= roundings * UNITS[dtype] * size)


def loose(dtype):
    """The samples add at most 60 products of size 1, whose roundings a kernel in half precision may all show."""
    return 200 if dtype in ("float32", "float64") else 16


def formula(call, *, grad=False):
    """What Torch makes of the sample, or None where it refuses."""
    try:
        return call.torch(grad)
    except REFUSED:
        return None, None


def uninitialised(call, theirs):
    """Paddle 2.6 and the legacy form answer such a call with whatever lies behind the buffer."""
    misfit = call.entry.inplace and theirs is not None and list(flat(theirs)[0].shape) != call.before
    return misfit and (not IS_3 or call.entry.pairs is not None)


def expected_tally(op, call, sample, theirs, grad):
    """(substituted, reason for staying native) of a call that Paddle accepts; a reason of "" is any."""
    if sample.empty and (grad or not IS_3):
        return {}, EMPTY.text
    if theirs is None:
        return {}, ""
    first = flat(theirs)[0]
    if not first.is_floating_point() and not op.integer:
        return {}, INTEGER.text
    if call.entry.inplace and (list(first.shape) != call.before):
        return {}, OTHER_RESULT.text
    return {op.name: 1}, None


def check_tally(run, op, call, sample, theirs, *, grad=False):
    substituted, reason = expected_tally(op, call, sample, theirs, grad)
    assert run.substituted == substituted, run.native
    assert reason is None or (list(run.native) == [op.name] and (not reason or run.native == {op.name: {reason: 1}}))


@pytest.mark.parametrize(("op", "entry"), DOORS + INPLACE)
def test_values(op, entry):
    for trial in trials(op, entry):
        sample, dtype, _ = trial
        call, again = Call(op, entry, *trial), Call(op, entry, *trial)
        theirs, _ = formula(call)
        if uninitialised(call, theirs) or (theirs is None and dtype not in ("float32", "float64")):
            continue
        native, error = outcome(again.run)
        if error is not None and dtype not in ("float32", "float64"):
            continue  # Paddle has no such kernel on the CPU: Torch may have one
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
            assert all(same(one, other) for one, other in zip(mine, flat(theirs), strict=True)), trial
        if dtype not in op.deviations:
            assert all(near(one, other, dtype, roundings=loose(dtype)) for one, other in zip(mine, expected, strict=True)), trial


def differentiable(results):
    return [one for one in flat(results) if not one.stop_gradient]


def arriving(results, dtype):
    """An incoming gradient for each result."""
    rng = np.random.default_rng(1)
    made = [
        paddle.to_tensor(rng.standard_normal((1, *one.shape)).astype("float32" if dtype == "bfloat16" else dtype)[0])
        for one in results
    ]
    return [value.reshape(one.shape).astype(one.dtype) for value, one in zip(made, results)]


def pulled(call, dtype, *, backward=True):
    """A call and its backward: the results, what arrives, and the gradients of the leaves."""
    results = call.run()
    ends = differentiable(results)
    seeds = arriving(ends, dtype)
    if backward:
        paddle.autograd.backward(ends, seeds)
    return results, seeds, [one.grad for one in wanted(call.tensors)]


def wanted(leaves):
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return [
        one
        for one in leaves
        if (isinstance(one, paddle.Tensor) and not one.stop_gradient) or (isinstance(one, torch.Tensor) and one.dtype in floats)
    ]


def torch_gradients(call, theirs, leaves, seeds, native):
    """Torch's gradients of the results that are differentiable in Paddle; what a formula does not read has zeros."""
    ends = [end for end, one in zip(flat(theirs), flat(native), strict=True) if not one.stop_gradient]
    pairs = [(end, torch.from_numpy(array(seed)).to(end.dtype)) for end, seed in zip(ends, seeds, strict=True) if end.requires_grad]
    sources = wanted(leaves)
    found = torch.autograd.grad([end for end, _ in pairs], sources, [seed for _, seed in pairs], allow_unused=True)
    found = [torch.zeros_like(source) if one is None else one for one, source in zip(found, sources)]
    return [one.t() if call.op.layouts and source is leaves[1] else one for one, source in zip(found, sources)]


@pytest.mark.parametrize(("op", "entry"), DOORS)
def test_gradients(op, entry):
    for trial in trials(op, entry):
        sample, dtype, layout = trial
        call, again = Call(op, entry, *trial, grad=True), Call(op, entry, *trial, grad=True)
        if not wanted(call.tensors):
            continue
        theirs, leaves = formula(call, grad=True)
        if theirs is None or not any(one.requires_grad for one in flat(theirs)):
            continue
        native, error = outcome(functools.partial(pulled, again, dtype, backward=False))
        if error is not None:
            assert outcome(Call(op, entry, *trial).run)[1] is error, trial
            continue
        with padiff_shim.reference("torch") as run:
            results, seeds, ours = pulled(call, dtype, backward=not sample.empty)  # 2.6 has no gradients of nothing
        check_tally(run, op, call, sample, theirs, grad=True)
        if not run.substituted:
            continue
        assert run.backward == {op.name: 1}
        assert all(same(one.detach(), other) for one, other in zip(flat(results), flat(theirs), strict=True)), trial
        expected = torch_gradients(call, theirs, leaves, seeds, native[0])
        assert all(same(one, other) for one, other in zip(ours, expected, strict=True)), trial
        if layout == "contiguous" and not {"gradient", f"gradient {dtype}"} & set(op.deviations):
            check_native_gradients(Call(op, entry, *trial, grad=True), dtype, ours)


def check_native_gradients(call, dtype, ours):
    """Not of views: Paddle 3.3.1's backward of a legacy form reads beyond their memory."""
    native, error = outcome(functools.partial(pulled, call, dtype))
    if error is not None:
        return  # Paddle has no gradient for these operands
    pairs = [(one, paddle.zeros_like(one) if other is None else other) for one, other in zip(ours, native[2], strict=True)]
    assert all(near(one, other, dtype, roundings=4 * loose(dtype)) for one, other in pairs), call.sample


def twice(call, framework):
    """The gradients of a curved function of the first gradients; None where there are none."""
    theirs = framework is torch
    results, leaves = call.torch(True) if theirs else (call.run(), call.tensors)
    ends = [one for one in flat(results) if (one.requires_grad if theirs else not one.stop_gradient)]
    sources = wanted(leaves)
    loss = sum((end * end).sum() for end in ends)
    grad = torch.autograd.grad if theirs else paddle.grad
    first = grad([loss], sources, create_graph=True, allow_unused=True)
    bent = [one for one in first if one is not None and (one.requires_grad if theirs else not one.stop_gradient)]
    if not bent:
        return [None] * len(sources)
    return list(grad([sum((one * one).sum() for one in bent)], sources, allow_unused=True))


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
        for one, other, leaf in zip(ours, theirs, wanted(call.tensors), strict=True):
            one, other = (np.zeros(leaf.shape) if value is None else array(value) for value in (one, other))
            assert near(one, other.T if other.shape != one.shape else other, "float64", roundings=200), sample


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


@pytest.mark.parametrize(("op", "entry"), INPLACE)
def test_gradients_through_in_place_forms(op, entry):
    """On a tensor that is no leaf; a leaf's value was taken before."""
    for sample in [sample for sample in op.samples if takes(op, entry, sample) and not sample.empty][:2]:
        calls = [Call(op, entry, sample, grad=True) for _ in range(2)]
        theirs, leaves = formula(calls[0], grad=True)
        if theirs is None or uninitialised(calls[0], theirs) or list(theirs.shape) != calls[0].before:
            continue

        def step(call):
            source = call.args[0]
            call.args[0] = source * 1.0
            result = call.run()
            (seed,) = arriving([result], "float32")
            result.backward(seed)
            return result, seed, [one.grad for one in wanted(call.tensors)]

        native, error = outcome(functools.partial(step, calls[1]))
        if error is not None:
            continue
        with padiff_shim.reference("torch") as run:
            result, seed, ours = step(calls[0])
        assert op.name in run.substituted, run.native
        assert op.name not in run.native
        assert same(result.detach(), theirs), sample
        expected = torch_gradients(calls[0], theirs, leaves, [seed], native[0])
        assert all(same(one, other) for one, other in zip(ours, expected, strict=True)), sample


WANTED = {"nothing wants a gradient": (False, True), "gradients wanted": (True, True), "wanted, under no_grad": (True, False)}


@pytest.mark.parametrize(("grad", "enabled"), WANTED.values(), ids=WANTED)
@pytest.mark.parametrize(("op", "entry"), DOORS)
def test_every_way_gives_the_bits_for_operands_that_want_gradients_or_not(op, entry, grad, enabled, monkeypatch):
    """Torch itself chooses some kernels by that, under no_grad too; the shortcuts and the full way have to do as it does."""
    for sample, dtype, layout in trials(op, entry, halves=False):
        call = Call(op, entry, sample, dtype, layout, grad)
        with torch.set_grad_enabled(enabled):
            theirs, _ = formula(call, grad=grad)
        if sample.empty or theirs is None or outcome(Call(op, entry, sample, dtype, layout, grad).run)[1] is not None:
            continue  # nothing is substituted: see test_values
        with padiff_shim.reference("torch") as run, paddle.set_grad_enabled(enabled):
            short = call.run()
            with monkeypatch.context() as patch:
                patch.setattr("padiff_shim.substitution.shortcut.grad_tracer", lambda: None)
                full = call.run()
        if run.native and not op.integer and not flat(theirs)[0].is_floating_point():
            continue
        assert run.substituted == {op.name: 2}, run.native
        for ours in (short, full):
            mine = [one.detach() for one in flat(ours)]
            assert all(same(one, other) for one, other in zip(mine, flat(theirs), strict=True)), (sample, layout)


@pytest.mark.parametrize(("op", "entry"), [case for case in DOORS + INPLACE if case.values[0].refusals])
def test_what_paddle_refuses_is_refused_with_its_error(op, entry):
    for sample in op.refusals:
        if not takes(op, entry, sample):
            continue
        _, error = outcome(Call(op, entry, sample).run)
        if error is None:
            assert not IS_3, sample
            continue
        with padiff_shim.reference("torch") as run, pytest.raises(error):
            Call(op, entry, sample).run()
        assert not run.substituted
        with padiff_shim.compare("torch"), pytest.raises(error):
            Call(op, entry, sample).run()


@pytest.mark.parametrize(("op", "entry"), [case for case in DOORS if case.values[0].exact])
def test_ops_that_round_nothing_are_never_judged(op, entry):
    with padiff_shim.compare("torch") as run:
        result = outcome(Call(op, entry, op.samples[0], grad=True).run)[0]
        for one in differentiable(result):
            one.sum().backward()
    assert not run.calls.filter(op=op.name)
    assert op.name not in run.native
