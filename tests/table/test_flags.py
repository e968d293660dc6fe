"""What a result says of itself: ``stop_gradient``, ``is_leaf``, shape and dtype are Paddle's, of indices and masks as well."""

import functools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from helpers import Call, entries, flat, of_families, takes

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.compat
MODES = {
    "reference": functools.partial(padiff_shim.reference, "torch"),
    "compare": functools.partial(padiff_shim.compare, "torch", progress=False),
    "carry": functools.partial(padiff_shim.compare, "torch", carry="torch", exact=True, progress=False),
}


def flags(results):
    """Of each result; what holds no memory was not asked for."""
    return [
        (result.stop_gradient, result.is_leaf, list(result.shape), result.dtype)
        if result._is_initialized() or not result.size
        else None
        for result in flat(results)
    ]


def outcome(call):
    """The flags of a call's results, or the error that it ends with."""
    try:
        return flags(call())
    except Exception as error:
        return type(error)


def variants(op, entry, most=None):
    """Calls of the samples, or the first ones, whose float operands, and those of whole numbers, want gradients or not."""
    wanted = [(True, False)] + [(True, True), (False, True)] * bool(op.integer_places) + [(False, False)] * (most is None)
    if not IS_3 and op.name == "remainder":  # of which 2.6 has no gradient, and reference mode Torch's
        wanted = [(floats, integers) for floats, integers in wanted if not floats]
    samples = [sample for sample in op.samples if takes(op, entry, sample)]
    return [(op, entry, sample, *kind) for sample in samples[:most] for kind in wanted]


def of_variant(op, entry, sample, floats, integers):
    call = Call(op, entry, sample)
    for tensor in call.tensors:
        if isinstance(tensor, paddle.Tensor):
            tensor.stop_gradient = not (floats if tensor.is_floating_point() else integers)
    return outcome(call.run)


def differences(calls):
    """The modes and calls in which results say something else than natively."""
    native = [of_variant(*call) for call in calls]
    for name, mode in MODES.items():
        with mode():
            ours = [of_variant(*call) for call in calls]
        for (_, entry, sample, *wanted), *outcomes in zip(calls, native, ours):
            if outcomes[0] != outcomes[1]:
                yield name, entry.target, sample, wanted, outcomes


CALLS = [  # natively an op without a kernel for this device says nothing of flags
    (op, entry)
    for op, entry in entries()
    if op.limits.cpu and not op.random and any(takes(op, entry, sample) for sample in op.samples)
]
FAMILIES = of_families(CALLS)


@pytest.mark.rows(7)
@pytest.mark.parametrize("family", FAMILIES)
def test_ops_of_a_family(family):
    calls = [call for op, entry in FAMILIES[family] for call in variants(op, entry, 2)]
    assert list(differences(calls)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("op", "entry"), [pytest.param(*call, id=call[1].target.removeprefix("paddle.")) for call in CALLS])
def test_every_op_at_every_entry_point(op, entry):
    assert list(differences(variants(op, entry))) == []


@functools.lru_cache
def values(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def matrix(grad=True):
    return paddle.to_tensor(values(4, 4), stop_gradient=not grad)


def symmetric(x):
    return x @ x.t() + paddle.eye(4)


LABELS = np.arange(4)[:, None] % 3
PROGRAMS = {  # ops without samples, and what several ops make together
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: paddle.argmin(x, axis=1),
    "sort": lambda x: paddle.sort(x),
    "mode": lambda x: paddle.mode(x),
    "median, the lower one": lambda x: paddle.median(x, 1, mode="min"),
    "nanmedian, the lower one": lambda x: paddle.nanmedian(x, 1, mode="min"),
    "max_pool2d": lambda x: F.max_pool2d(x.reshape([1, 1, 4, 4]), 2, return_mask=True),
    "max_pool1d": lambda x: F.max_pool1d(x.reshape([1, 4, 4]), 2, return_mask=True),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.reshape([1, 1, 4, 4]), 2, return_mask=True),
    "softmax and cross entropy": lambda x: F.softmax_with_cross_entropy(x, paddle.to_tensor(LABELS), return_softmax=True),
    "batch_norm": lambda x: paddle.nn.BatchNorm1D(4)(x),
    "batch_norm in evaluation": lambda x: F.batch_norm(x, paddle.zeros([4]), paddle.ones([4])),
    "LSTM": lambda x: paddle.nn.LSTM(4, 3)(x.reshape([1, 4, 4])),
    "eig": lambda x: paddle.linalg.eig(x),
    "eigvals": lambda x: paddle.linalg.eigvals(x),
    "eigh": lambda x: paddle.linalg.eigh(symmetric(x)),
    "eigvalsh": lambda x: paddle.linalg.eigvalsh(symmetric(x)),
    "svd": lambda x: paddle.linalg.svd(x),
    "qr": lambda x: paddle.linalg.qr(x),
    "lu": lambda x: paddle.linalg.lu(x, get_infos=True),
    "lu_unpack": lambda x: paddle.linalg.lu_unpack(*paddle.linalg.lu(x)),
    "slogdet": lambda x: paddle.linalg.slogdet(x),
    "lstsq": lambda x: paddle.linalg.lstsq(x, x),
    "matrix_rank": lambda x: paddle.linalg.matrix_rank(x),
    "unique": lambda x: paddle.unique(x, return_index=True, return_inverse=True, return_counts=True),
    "searchsorted": lambda x: paddle.searchsorted(paddle.arange(4.0), x),
    "nonzero": lambda x: paddle.nonzero(x),
    "comparison": lambda x: [x > 0, x.isnan(), paddle.equal(x, x)],
    "gathered by topk": lambda x: paddle.gather(x[0], paddle.topk(x, 2)[1][0]),
    "indexed by argsort": lambda x: x[paddle.argsort(x[:, 0])],
    "taken by argsort": lambda x: paddle.take_along_axis(x, paddle.argsort(x), 1),
    "unsqueezed indices": lambda x: paddle.topk(x, 2)[1].unsqueeze(0),
    "counted with indices": lambda x: [paddle.topk(x, 2)[1] * 2, paddle.topk(x, 2)[1].astype("float32") * x[:, :2]],
    "one_hot of topk": lambda x: F.one_hot(paddle.topk(x, 1)[1], 4),
    "embedding of argmax": lambda x: F.embedding(x.argmax(1), x),
}
SCALARS = {  # operators of tensors without axes
    "//": lambda x: [x // 0.5, 3 // x, x // x],
    "%": lambda x: [x % 0.5, 3 % x, x % x],
    "/": lambda x: [x / 2, 2 / x, x / x],
    "**": lambda x: [x**2, 2**x, x**x, x**0.5],
    "+ - *": lambda x: [x + 1, 1 - x, x * x, -x],
    "@": lambda x: x.reshape([1]) @ x.reshape([1]),
    "reductions": lambda x: [x.sum(), x.mean(), x.max(), x.prod(), x.logsumexp(), x.sum(keepdim=True), x.norm()],
    "comparison": lambda x: [x > 0, x == x, x <= 1],
    "casts": lambda x: [x.astype("int64") // 2, x.astype("int64") % 2, x.astype("int32") / 2, x.astype("bool")],
    "movement": lambda x: [x.reshape([1, 1]), x.unsqueeze(0), x.expand([2]), paddle.stack([x, x]), x.flatten(), x.clone()],
    "choices": lambda x: [*paddle.topk(x.reshape([1]), 1), paddle.median(x), paddle.sort(x.reshape([1]))],
    "lists": lambda x: [paddle.add_n([x, x]), *paddle.meshgrid(x, x), paddle.concat([x.reshape([1])] * 2)],
}


def assert_as_natively(call):
    native = outcome(call)
    for name, mode in MODES.items():
        with mode():
            assert outcome(call) == native, name


@pytest.mark.rows(10)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    for grad in (True, False):
        assert_as_natively(lambda: PROGRAMS[name](matrix(grad)))  # noqa: B023


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("name", SCALARS)
def test_tensors_without_axes(name, dtype):
    for grad in (True, False):
        assert_as_natively(lambda: SCALARS[name](paddle.to_tensor(3, dtype=dtype, stop_gradient=not grad)))  # noqa: B023
