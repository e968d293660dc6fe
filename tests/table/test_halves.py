"""Every op of the table in 16 bits on a CPU, forward and backward: Torch's bits, or a reason that is listed."""

import functools

import paddle
import pytest
import torch
from helpers import Call, array, entries, flat, in_turn, same, takes
from sixteen_bit import BOTH, HALVES, OLDER, PADDLE, TORCH
from trials import arriving, differentiable, formula, outcome, pulled, wanted

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("installed")]
LISTED = HALVES if IS_3 else {**HALVES, **OLDER}


@functools.cache
def door(name):
    """The first entry point of an op that answers natively in float32, and the samples that it takes; None if none does."""
    for op, entry in entries():
        if op.name != name or entry.inplace or not has_kernel(op):
            continue
        samples = [sample for sample in op.samples if takes(op, entry, sample)]
        if samples and outcome(Call(op, entry, samples[0]).run)[1] is None:
            return op, entry, samples
    return None


TRIED = [name for name, op in ops().items() if op.samples and not op.random]


def kinds(results):
    """Shapes and dtypes, as either framework calls them."""
    return [(list(result.shape), str(result.dtype).rpartition(".")[2]) for result in flat(results)]


def step(call, dtype, *, backward):
    """The results, gradients and run of a call in reference mode, with all that raised in it."""
    with padiff_shim.reference("torch") as run:
        results, seeds, gradients = pulled(call, dtype, backward=backward)
    return results, seeds, gradients, run


def check(op, entry, sample, dtype):
    """That a sample has Torch's bits in a dtype, where Torch computes it; the error's type where it raises, else None."""
    call = Call(op, entry, sample, dtype, grad=True)
    theirs, leaves = formula(call, grad=True)
    backward = theirs is not None and not sample.empty and any(result.requires_grad for result in flat(theirs))
    made, error = outcome(functools.partial(step, call, dtype, backward=backward))
    if error is not None:
        return error
    results, seeds, gradients, run = made
    if theirs is None or not run.substituted:
        return None
    assert kinds(results) == kinds(theirs)
    assert all(same(result.detach(), other) for result, other in zip(flat(results), flat(theirs), strict=True))
    if not backward:
        return None
    ends = [end for end, result in zip(flat(theirs), flat(results)) if end.is_floating_point() and not result.stop_gradient]
    pairs = [(end, torch.from_numpy(array(seed)).to(end.dtype)) for end, seed in zip(ends, seeds, strict=True) if end.requires_grad]
    sources = wanted(leaves)
    expected = torch.autograd.grad([end for end, _ in pairs], sources, [seed for _, seed in pairs], allow_unused=True)
    for ours, gradient, source in zip(gradients, expected, sources, strict=True):
        gradient = torch.zeros_like(source) if gradient is None else gradient
        gradient = gradient.t() if op.layouts and source is leaves[1] else gradient
        if ours is None:
            assert not gradient.any()
        else:
            assert kinds(ours) == kinds(gradient)
            assert same(ours, gradient)
    return None


@pytest.mark.rows(140)
@pytest.mark.parametrize(("name", "dtype"), in_turn(TRIED, BOTH))
def test_forward_and_backward_with_torchs_bits(name, dtype):
    tried = door(name)
    if tried is None:
        pytest.skip("this Paddle answers no sample in float32")
    op, entry, samples = tried
    reason, dtypes = LISTED.get(name, ("", ()))
    error = check(op, entry, samples[0], dtype)
    if error is not None:
        assert dtype in dtypes, error
    elif dtype in dtypes and reason == TORCH:
        assert formula(Call(op, entry, samples[0], dtype))[0] is None  # nobody's but Paddle's own kernel


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", sorted(LISTED))
def test_what_is_listed_raises(name, dtype):
    tried = door(name)
    if tried is None:
        pytest.skip("this Paddle has no such op, or answers no sample in float32")
    reason, dtypes = LISTED[name]
    assert (check(*tried[:2], tried[2][0], dtype) is not None) == (dtype in dtypes)
    if reason == PADDLE and dtype in dtypes:
        error = outcome(functools.partial(check, *tried[:2], tried[2][0], dtype))[0]
        assert error in (AssertionError, TypeError, ValueError)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", TRIED)
def test_further_samples(name, dtype):
    """Where one raises, Torch refuses it, or Paddle does in float32 as well."""
    tried = door(name)
    if tried is None or dtype in LISTED.get(name, ("", ()))[1]:
        pytest.skip("see the tests above")
    op, entry, samples = tried
    for sample in samples[1:]:
        error = check(op, entry, sample, dtype)
        if error is not None and formula(Call(op, entry, sample, dtype))[0] is not None:
            assert outcome(functools.partial(pulled, Call(op, entry, sample, grad=True), "float32"))[1] is not None, sample


# Op -> (library's definition, dtypes) in which a guard without promotion makes it raise, where Paddle's and Torch's own code does.
RAISES_UNDER_A_GUARD = {"matrix_exp": ("paddle", ("float16",)), "pinv": ("torch", BOTH)}


def guarded(op, entry, sample, dtype, **options):
    with paddle.amp.auto_cast(dtype=dtype, **options):
        results = Call(op, entry, sample, grad=True).run()
    # Without elements it stays on Paddle's kernel, which has exp and log in 16 bits, and no backward of them.
    ends = [end for end in differentiable(results) if end.size or end.dtype == paddle.float32]
    if ends:
        paddle.autograd.backward(ends, arriving(ends, "float32"))


@pytest.mark.slow
@pytest.mark.skipif(not IS_3, reason="2.6 ends the process at nan_to_num, with which nobody tried further ops")
@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", TRIED)
def test_under_a_guard_nothing_raises_that_does_not_natively(name, dtype):
    """The casts of O1, of O2, and of O2 on every operand: forward and backward."""
    tried = door(name)
    if tried is None:
        pytest.skip("this Paddle answers no sample in float32")
    op, entry, samples = tried
    raised = {}
    for definition in ("paddle", "torch"):
        for sample in samples:
            if outcome(functools.partial(guarded, op, entry, sample, dtype, level="O1"))[1] is not None:
                continue
            for options in ({"level": "O1"}, {"level": "O2"}, {"level": "O2", "use_promote": False}):
                with padiff_shim.reference("torch", definitions=definition):
                    error = outcome(functools.partial(guarded, op, entry, sample, dtype, **options))[1]
                if error is not None:
                    raised.setdefault(definition, []).append((sample, options, error))
    definition, dtypes = RAISES_UNDER_A_GUARD.get(name, ("", ()))
    assert set(raised) == ({definition} if dtype in dtypes else set()), raised
