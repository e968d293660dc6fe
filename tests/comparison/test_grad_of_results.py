"""``paddle.grad`` with respect to a call's own result, whose node has several: what compare mode hooks there is in nobody's way."""

import contextlib
import functools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from helpers import Call, array, entries, flat, in_turn, of_families, takes
from trials import outcome

import padiff_shim

pytestmark = pytest.mark.compat
MODES = {
    "compare": (functools.partial(padiff_shim.compare, "torch", progress=False), True),
    "moves": (functools.partial(padiff_shim.compare, "torch", exact=True, progress=False), True),
    "carry": (functools.partial(padiff_shim.compare, "torch", carry="torch", progress=False), False),
    "reference": (functools.partial(padiff_shim.reference, "torch"), False),
}


@functools.lru_cache
def values(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def symmetric(x):
    return x[0] @ x[0].t() + paddle.eye(4)


def layer(make, *shape):
    """A layer's results from an input of this shape."""

    def run(x):
        paddle.seed(0)
        return make()(x.reshape(shape))

    return run


PROGRAMS = {
    "batch_norm": layer(lambda: paddle.nn.BatchNorm2D(2), 2, 2, 4, 4),
    "batch_norm in evaluation": layer(lambda: paddle.nn.BatchNorm1D(4, use_global_stats=True), 16, 4),
    "instance_norm": layer(lambda: paddle.nn.InstanceNorm2D(2), 2, 2, 4, 4),
    "group_norm": layer(lambda: paddle.nn.GroupNorm(2, 4), 1, 4, 4, 4),
    "layer_norm": layer(lambda: paddle.nn.LayerNorm(4), 4, 4, 4),
    "GRUCell": layer(lambda: paddle.nn.GRUCell(4, 3), 16, 4),
    "softmax and cross_entropy": lambda x: F.softmax_with_cross_entropy(
        x.reshape([16, 4]), paddle.arange(16).reshape([16, 1]) % 4, return_softmax=True
    )[::-1],
    "max_pool2d": lambda x: F.max_pool2d(x.reshape([1, 4, 4, 4]), 2, return_mask=True),
    "topk": lambda x: paddle.topk(x, 2),
    "sort": lambda x: paddle.sort(x),
    "kthvalue": lambda x: paddle.kthvalue(x, 2),
    "mode": lambda x: paddle.mode(x),
    "cummax": lambda x: paddle.cummax(x),
    "median": lambda x: paddle.median(x, 1),
    "split": lambda x: paddle.split(x, 2),
    "unbind": lambda x: paddle.unbind(x),
    "unstack": lambda x: paddle.unstack(x, 1),
    "qr": lambda x: paddle.linalg.qr(symmetric(x)),
    "eigh": lambda x: paddle.linalg.eigh(symmetric(x)),
    "svd": lambda x: paddle.linalg.svd(symmetric(x)),
    "slogdet": lambda x: paddle.linalg.slogdet(symmetric(x)),
    "lu": lambda x: paddle.linalg.lu(symmetric(x)),
}


def gradients(results, inputs, before=True):
    """Of the first result, asked for alone; then of what all were made of, through the same hooks once more."""
    first, *others = [result for result in flat(results) if not result.stop_gradient and result.dtype == paddle.float32]
    loss = (first * first).sum()
    early = paddle.grad(loss, first, retain_graph=True) if before else []
    for other in others:  # of unstack and others Paddle's own backward ends the process where one has no gradient
        loss = loss + (other * other).sum()
    return [array(grad) for grad in (*early, *paddle.grad(loss, inputs))]


def agree(ours, native, exactly):
    if exactly:
        return all(np.array_equal(our, other) for our, other in zip(ours, native, strict=True))
    return all(np.allclose(our, other, rtol=1e-3, atol=1e-4) for our, other in zip(ours, native, strict=True))


def judged(run):
    """The gradients that were held against Torch's."""
    return {(call.op, call.tensor) for call in run.calls if call.tensor.startswith("grad") and call.verdict != "UNVERIFIED"}


@pytest.mark.rows(8)
@pytest.mark.parametrize(("name", "mode"), in_turn(PROGRAMS, MODES))
def test_gradients_of_a_first_result_are_as_natively(name, mode):
    def step(around, before=True):
        x = paddle.to_tensor(values(4, 4, 4), stop_gradient=False)
        with around as run:
            return gradients(PROGRAMS[name](x), x, before), run

    make, exactly = MODES[mode]
    native, _ = step(contextlib.nullcontext())
    ours, run = step(make())
    assert agree(ours, native, exactly)
    if mode != "reference":
        assert judged(run) == judged(step(make(), before=False)[1])


def of_the_first(call, around):
    """The gradient of the first of several results; None if there is one alone."""
    with around:
        results = flat(call.run())
        if len(results) < 2 or results[0].stop_gradient:
            return None
        return [array(grad) for grad in paddle.grad((results[0] * results[0]).sum(), results[0])]


def differences(op, entry):
    """The modes and samples of an op with several results in which the gradient of the first is another one than natively."""
    for sample in op.samples:
        if not takes(op, entry, sample) or sample.empty:
            continue
        native, error = outcome(lambda: of_the_first(Call(op, entry, sample, grad=True), contextlib.nullcontext()))  # noqa: B023
        if error is not None:
            continue  # refused natively
        if native is None:
            return
        for name, (make, exactly) in MODES.items():
            if not agree(of_the_first(Call(op, entry, sample, grad=True), make()), native, exactly):
                yield name, sample


CALLS = [
    (op, entry)
    for op, entry in entries()
    if not entry.inplace and op.gradient and not op.random and any(takes(op, entry, sample) for sample in op.samples)
]
FAMILIES = of_families(CALLS)


@pytest.mark.parametrize("family", FAMILIES)
def test_ops_of_a_family_with_several_results(family):
    apart = {op.name: list(differences(op, entry)) for op, entry in FAMILIES[family]}
    assert {name: places for name, places in apart.items() if places} == {}


@pytest.mark.slow
@pytest.mark.parametrize(("op", "entry"), [pytest.param(*call, id=call[1].target.removeprefix("paddle.")) for call in CALLS])
def test_every_entry_point_of_ops_with_several_results(op, entry):
    assert list(differences(op, entry)) == []
