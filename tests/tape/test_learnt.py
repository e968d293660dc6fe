"""What is learnt of one call serves the next ones of its kind, however their operands lie."""

import gc
import weakref

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from helpers import Call, needs, sampled
from trials import FIRST, NoShortcuts, outcome, trials

import padiff_shim
from padiff_shim.dispatch import frames
from padiff_shim.substitution import execute
from padiff_shim.tape import calls


@pytest.mark.rows(30)
@pytest.mark.parametrize(("op", "entry"), sampled(FIRST, 3))
def test_a_backward_reads_the_same_of_all_operands_of_a_kind(op, entry, monkeypatch):
    results, others = {}, []

    def reads(known, *call):
        fresh = {}
        result = calls.reads(fresh, *call)
        (kind,) = fresh
        others.extend((kind, known, result) for known in [results.setdefault(kind, result)] if known != result)
        return result

    monkeypatch.setattr(execute, "reads", reads)
    for sample, dtype, layout in trials(op, entry, halves=False):
        if dtype == "float32" and not sample.empty:
            with padiff_shim.reference("torch"):
                frames.top().quick = NoShortcuts()
                outcome(Call(op, entry, sample, dtype, layout, True).run)
    assert not others


def drawn(*shape):
    return paddle.to_tensor(np.random.default_rng(5).standard_normal(shape).astype("float32"))


def strided(tensor):
    """The same values, with the last two axes exchanged in memory."""
    axes = [*range(tensor.ndim - 2), tensor.ndim - 1, tensor.ndim - 2]
    return (tensor.transpose(axes) * 1.0).transpose(axes)


def forgotten(program):
    """Have what was learnt of a program's ops learnt anew."""
    with padiff_shim.reference("torch"):
        program()
        for door in frames.top().quick:
            door.reads.clear()
            door.substitution = None


def change(function, x, *operands, of="operand"):
    """The gradients if the first operand or the result is changed between forward and backward, or the type of the error."""
    leaf = x.detach()
    leaf.stop_gradient = False
    operand = leaf * 1.0
    result = function(operand, *operands)
    with paddle.no_grad():
        (operand if of == "operand" else result).fill_(0.5)
    try:
        return paddle.grad((result * drawn(*result.shape).astype(result.dtype)).sum(), [leaf])[0].tolist()
    except (RuntimeError, SystemError) as error:
        return type(error)


def first_then(first, then):
    """What ``then`` answers where it comes as the first, and behind ``first``."""
    results = []
    for before in (lambda: None, first):
        forgotten(lambda: (first(), then()))
        with padiff_shim.reference("torch"):
            for _ in range(3):
                before()
            results.append(then())
    return results


READING = {
    "matmul": (paddle.matmul, (2, 3, 4), (4, 5), strided),
    "matmul of batches": (paddle.matmul, (2, 3, 4, 5), (2, 3, 5, 2), strided),
    "matmul that repeats": (paddle.matmul, (2, 2, 3, 4), (2, 2, 4, 5), lambda x: x[:1] * 1.0),
    "linear": (F.linear, (2, 3, 4), (4, 5), strided),
    "einsum": (lambda x, w: paddle.einsum("bij,jk->bik", x, w), (2, 3, 4), (4, 5), strided),
}


@pytest.mark.compat
@pytest.mark.parametrize("case", READING)
def test_an_operand_that_torch_copies_may_be_the_first(case):
    function, shape, other, laid = READING[case]
    x, w = drawn(*shape), drawn(*other)
    view = laid(x)
    w.stop_gradient = view.stop_gradient = False

    def first():
        function(view, w).sum().backward()

    cold, warm = first_then(first, lambda: change(function, x, w))
    assert cold is RuntimeError
    assert warm is RuntimeError


@needs("nn.functional.scaled_dot_product_attention")
@pytest.mark.parametrize("of", ["operand", "result"])
def test_attention_that_no_fused_kernel_computes_may_be_the_first(of):
    q, narrow = drawn(2, 5, 4, 8), drawn(2, 5, 4, 6)
    narrow.stop_gradient = False

    def attention(x):
        return F.scaled_dot_product_attention(x, x, x)

    def first():
        detached = q.detach()
        detached.stop_gradient = False
        F.scaled_dot_product_attention(detached, detached, narrow).sum().backward()

    cold, warm = first_then(first, lambda: change(attention, q, of=of))
    assert cold == warm
    assert isinstance(cold, list) == (of == "result")


@pytest.mark.compat
def test_tensors_among_the_attributes_are_not_held():
    x, seen = drawn(3, 4), []
    x.stop_gradient = False
    with padiff_shim.reference("torch") as run:
        for _ in range(3):
            axis = paddle.to_tensor(1)
            paddle.sum(x, axis=axis).sum().backward()
            paddle.mean(x, axis=axis).sum().backward()
            seen.append(weakref.ref(axis))
    del axis
    gc.collect()
    assert run.substituted
    assert not any(reference() is not None for reference in seen)
