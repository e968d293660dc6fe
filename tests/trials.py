"""How the op table is tried: which doors with which samples, dtypes and layouts, and what has to come out.

A door is one test. Samples, layouts and dtypes are chosen by what can differ: all of them at an op's first entry, which carries the
formula, and at the others what could be bound or written wrongly. Not every sample comes in every layout and dtype unless
PADIFF_TESTS_TRIALS=all says so, as `make test-all` does: each sample, layout and dtype comes, and the first sample in all of them.
"""

import numpy as np
import paddle
import pytest
import torch
from helpers import EVERY, LAYOUTS, array, by_first_doors, entries, flat, has_defect, some, takes

from padiff_shim.dispatch.frames import paused
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import EMPTY, INTEGER, OTHER_RESULT

REFUSED = (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError)
# Op -> the title of docs/defects.md that samples of it run into. An area's gradient is that of gather.
VALUE_DEFECTS = dict.fromkeys(
    ("sigmoid_cross_entropy_with_logits", "binary_cross_entropy_with_logits"),
    "binary_cross_entropy_with_logits weights positives partly",
)
VALUE_DEFECTS["multi_label_margin_loss"] = "getitem misreads a strided tensor by two indices"
GRADIENT_DEFECTS = dict.fromkeys(
    ("gather", "trapezoid", "cumulative_trapezoid"), "gather gradient of repeated indices along axis 1 is wrong"
)
GRADIENT_DEFECTS["conv2d_transpose"] = "conv2d_transpose gradients with channels last are wrong"
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def doors(*, inplace):
    """(op, entry) for every door that takes some sample."""
    return [
        pytest.param(op, entry, id=entry.target.removeprefix("paddle."))
        for op, entry in entries()
        if entry.inplace == inplace and not op.random and any(takes(op, entry, sample) for sample in op.samples)
    ]


DOORS, INPLACE = doors(inplace=False), doors(inplace=True)
EACH = by_first_doors([case.values for case in DOORS])
FIRST, OTHERS = [case for case in EACH if not case.marks], [case for case in EACH if case.marks]


def trials(op, entry, *, halves=True):
    """(sample, dtype, layout): see the head of this module."""
    samples = [sample for sample in op.samples if takes(op, entry, sample)]
    first = any(case.values[1] is entry for case in FIRST)
    kinds = [("float32", layout) for layout in (LAYOUTS[:-1] if entry.inplace else LAYOUTS)]  # no writing into what overlaps
    for number, sample in enumerate(samples):
        if first:
            yield from ((sample, *kind) for kind in some([*kinds, ("float64", "contiguous")], number))
        else:
            yield from ((sample, *kind) for kind in (kinds[:1] if number else kinds))
    for dtype in ("float16", "bfloat16") if first and halves and EVERY else ():  # see test_halves.py
        yield samples[0], dtype, "contiguous"


class NoShortcuts(dict):
    """A frame's shortcuts where each door has tried its own, in vain."""

    def __contains__(self, door):
        return True


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


def held(op, dtype, *, gradient=False):
    """Whether native Paddle's values are held against ours: not where the op tells of a deviation."""
    if not IS_3 and op.name == "scaled_dot_product_attention":
        return False  # Paddle 2.6 drops out in evaluation, too
    if any(has_defect(name) for name in ((GRADIENT_DEFECTS if gradient else {}).get(op.name), VALUE_DEFECTS.get(op.name)) if name):
        return False
    words = {"gradient", f"gradient {dtype}"} if gradient else {dtype}
    return not words & set(op.deviations)


def without_kernel(op, dtype):
    """Whether an error of native Paddle may mean that it has no such kernel on the CPU: Torch may have one."""
    return dtype not in ("float32", "float64") or (not IS_3 and op.name == "scaled_dot_product_attention")


def formula(call, *, grad=False):
    """What Torch makes of the sample, or None where it refuses: then ``call.refusal`` is the error."""
    try:
        return call.torch(grad)
    except REFUSED as error:
        call.refusal = error
        return None, None


def uninitialised(call, theirs):
    """Whether native Paddle's values are whatever lies in memory.

    So answer 2.6 and the legacy form where the result does not fit into the buffer, and some versions where nothing is multiplied.
    """
    if call.op.name == "matmul" and has_defect("matmul over an empty axis returns unwritten memory") and call.sample.empty:
        return True
    misfit = call.entry.inplace and theirs is not None and list(flat(theirs)[0].shape) != call.before
    return misfit and (not IS_3 or call.entry.pairs is not None)


def expected_tally(op, call, sample, theirs):
    """(substituted, reason for staying native) of a call that Paddle accepts; a reason of "" is any."""
    if sample.empty:
        return {}, EMPTY.text
    if theirs is None:
        return {}, ""
    first = flat(theirs)[0]
    if not first.is_floating_point() and not op.integer and op.results != ("indices",):  # floats are chosen by their order
        return {}, INTEGER.text
    if call.entry.inplace and (list(first.shape) != call.before):
        return {}, OTHER_RESULT.text
    return {op.name: 1}, None


def check_tally(run, op, call, sample, theirs):
    substituted, reason = expected_tally(op, call, sample, theirs)
    assert run.substituted == substituted, run.native
    if op.exact and reason in (EMPTY.text, INTEGER.text):
        assert not run.native  # nothing is lost to Paddle's kernel
        return
    assert reason is None or (list(run.native) == [op.name] and (not reason or run.native == {op.name: {reason: 1}}))


def differentiable(results):
    """Those that a backward may begin at: indices beside values are on the graph as well."""
    return [result for result in flat(results) if not result.stop_gradient and result.is_floating_point()]


def arriving(results, dtype):
    """An incoming gradient for each result."""
    rng = np.random.default_rng(1)
    made = [
        paddle.to_tensor(rng.standard_normal((1, *result.shape)).astype("float32" if dtype == "bfloat16" else dtype)[0])
        for result in results
    ]
    with paused():  # a cast is an op, too
        return [value.reshape(result.shape).astype(result.dtype) for value, result in zip(made, results)]


def pulled(call, dtype, *, backward=True):
    """A call and its backward: the results, what arrives, and the gradients of the leaves."""
    results = call.run()
    ends = differentiable(results)
    seeds = arriving(ends, dtype)
    if backward:
        paddle.autograd.backward(ends, seeds)
    return results, seeds, [operand.grad for operand in wanted(call.tensors)]


def wanted(leaves):
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    return [
        leaf
        for leaf in leaves
        if (isinstance(leaf, paddle.Tensor) and not leaf.stop_gradient) or (isinstance(leaf, torch.Tensor) and leaf.dtype in floats)
    ]
