"""Gradients at ties, kinks, zeros and NaN: where native Paddle and the Torch function that people port from agree, so do we."""

import contextlib

import numpy as np
import paddle
import paddle.nn.functional as P
import pytest
import torch
import torch.nn.functional as T
from helpers import flat, same

import padiff_shim
from padiff_shim.frameworks.versions import IS_3, VERSION

pytestmark = pytest.mark.compat
TABLES = {
    "ties": [[1, 2, 2, 3], [2, 2, 2, 1], [3, 1, 3, 1], [0, 2, 1, 2]],
    "equal": [[1, 1, 1, 1]] * 4,
    "zeros": [[0, 0, 0, 0]] * 4,
    "signs": [[-1, 0, 1, 0], [0, -1, -1, 0], [1, 1, -1, -1], [-0.0, 0.0, 0.0, -0.0]],
    "kinks": [[-3, 3, 0, 6], [-6, 0.5, -0.5, 1], [-1, 2.5, -2.5, 20], [5, 1, 0, -20]],
    "infinite": [[np.inf, 1, np.inf, 0], [-np.inf, 1, 1, -np.inf], [2, np.inf, 2, 0], [1, 1, 0, 0]],
}


def images(x):
    return x.reshape([1, 1, 4, 4])


BOTH = {  # of what the two frameworks call alike
    name: (getattr(paddle, name), getattr(torch, name))
    for name in """abs sign sqrt square exp floor ceil round trunc frac relu prod logsumexp cumsum cumprod logcumsumexp
        amax amin sum mean nansum nanmean sin atan asinh erf log1p rsqrt nanmedian median""".split()  # noqa: SIM905
    if hasattr(paddle, name) and hasattr(torch, name)
}
PAIRS = {
    **{name: pair for name, pair in BOTH.items() if name not in ("cumsum", "cumprod", "logcumsumexp", "logsumexp")},
    "max": (paddle.max, torch.max),
    "max of all": (lambda x: x.max(), lambda x: x.max()),
    "max along an axis": (lambda x: paddle.max(x, 1), lambda x: torch.max(x, 1).values),
    "amax along an axis": (lambda x: paddle.amax(x, 1), lambda x: torch.amax(x, 1)),
    "min": (paddle.min, torch.min),
    "amin along axes": (lambda x: paddle.amin(x, [0, 1]), lambda x: torch.amin(x, (0, 1))),
    "median along an axis": (lambda x: paddle.median(x, 1), lambda x: torch.median(x, 1).values),
    "nanmedian along an axis": (lambda x: paddle.nanmedian(x, 1), lambda x: torch.nanmedian(x, 1).values),
    "kthvalue": (lambda x: paddle.kthvalue(x, 2)[0], lambda x: torch.kthvalue(x, 2).values),
    "mode": (lambda x: paddle.mode(x)[0], lambda x: torch.mode(x).values),
    "topk": (lambda x: paddle.topk(x, 2)[0], lambda x: torch.topk(x, 2).values),
    "sort": (lambda x: paddle.sort(x), lambda x: torch.sort(x).values),
    "sort, descending": (lambda x: paddle.sort(x, descending=True), lambda x: torch.sort(x, descending=True).values),
    "cummax": (lambda x: paddle.cummax(x, 1)[0], lambda x: torch.cummax(x, 1).values),
    "cummin": (lambda x: paddle.cummin(x, 1)[0], lambda x: torch.cummin(x, 1).values),
    "quantile": (lambda x: paddle.quantile(x, 0.5), lambda x: torch.quantile(x, 0.5)),
    "quantile along an axis": (lambda x: paddle.quantile(x, 0.25, 1), lambda x: torch.quantile(x, 0.25, 1)),
    "nanquantile": (lambda x: paddle.nanquantile(x, 0.5), lambda x: torch.nanquantile(x, 0.5)),
    "maximum": (lambda x: paddle.maximum(x, x.t()), lambda x: torch.maximum(x, x.t())),
    "minimum": (lambda x: paddle.minimum(x, x.t()), lambda x: torch.minimum(x, x.t())),
    "fmax": (lambda x: paddle.fmax(x, x.t()), lambda x: torch.fmax(x, x.t())),
    "fmin": (lambda x: paddle.fmin(x, x.t()), lambda x: torch.fmin(x, x.t())),
    "clip": (lambda x: paddle.clip(x, 0.0, 1.0), lambda x: torch.clip(x, 0.0, 1.0)),
    "clip from below": (lambda x: paddle.clip(x, min=1.0), lambda x: torch.clip(x, min=1.0)),
    "cumsum": (lambda x: paddle.cumsum(x, 1), lambda x: torch.cumsum(x, 1)),
    "cumprod": (lambda x: paddle.cumprod(x, 1), lambda x: torch.cumprod(x, 1)),
    "logcumsumexp": (lambda x: paddle.logcumsumexp(x, 1), lambda x: torch.logcumsumexp(x, 1)),
    "logsumexp": (lambda x: paddle.logsumexp(x, 1), lambda x: torch.logsumexp(x, 1)),
    "prod along an axis": (lambda x: paddle.prod(x, 1), lambda x: torch.prod(x, 1)),
    **{
        f"norm p={p}": (lambda x, p=p: paddle.linalg.norm(x, p, axis=1), lambda x, p=p: torch.linalg.vector_norm(x, p, 1))
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf"), float("-inf"))
    },
    **{
        f"dist p={p}": (lambda x, p=p: paddle.dist(x, x.t(), p), lambda x, p=p: torch.dist(x, x.t(), p))
        for p in (0.0, 1.0, 2.0, float("inf"))
    },
    **{
        f"PairwiseDistance p={p}": (
            lambda x, p=p: paddle.nn.PairwiseDistance(p)(x, x.detach() * 2),
            lambda x, p=p: torch.nn.PairwiseDistance(p)(x, x.detach() * 2),
        )
        for p in (0.0, 1.0, 2.0, float("inf"))
    },
    **{
        f"cdist p={p}": (lambda x, p=p: paddle.cdist(x, x.t(), p), lambda x, p=p: torch.cdist(x, x.t(), p))
        for p in (0.0, 1.0, 2.0, float("inf"))
    },
    "renorm": (lambda x: paddle.renorm(x, 2.0, 0, 1.0), lambda x: torch.renorm(x, 2.0, 0, 1.0)),
    "normalize": (lambda x: P.normalize(x), lambda x: T.normalize(x)),
    "cosine_similarity": (lambda x: P.cosine_similarity(x, x.t()), lambda x: T.cosine_similarity(x, x.t())),
    "std": (lambda x: paddle.std(x, 1), lambda x: torch.std(x, 1)),
    "var": (lambda x: paddle.var(x, 1), lambda x: torch.var(x, 1)),
    "remainder": (lambda x: paddle.remainder(x, paddle.ones([4]) * 2), lambda x: torch.remainder(x, torch.ones(4) * 2)),
    "pow": (lambda x: paddle.pow(x, 2.0), lambda x: torch.pow(x, 2.0)),
    "pow 0": (lambda x: paddle.pow(x, 0.0), lambda x: torch.pow(x, 0.0)),
    "pow 1.5": (lambda x: paddle.pow(x.abs(), 1.5), lambda x: torch.pow(x.abs(), 1.5)),
    "atan2": (lambda x: paddle.atan2(x, x.t()), lambda x: torch.atan2(x, x.t())),
    "where": (lambda x: paddle.where(x > 1, x, x.t()), lambda x: torch.where(x > 1, x, x.t())),
    "max_pool2d": (lambda x: P.max_pool2d(images(x), 2), lambda x: T.max_pool2d(images(x), 2)),
    "max_pool2d, overlapping": (lambda x: P.max_pool2d(images(x), 3, 1), lambda x: T.max_pool2d(images(x), 3, 1)),
    "max_pool2d with indices": (
        lambda x: P.max_pool2d(images(x), 2, return_mask=True)[0],
        lambda x: T.max_pool2d(images(x), 2, return_indices=True)[0],
    ),
    "adaptive_max_pool2d": (lambda x: P.adaptive_max_pool2d(images(x), 2), lambda x: T.adaptive_max_pool2d(images(x), 2)),
    "max_pool1d": (lambda x: P.max_pool1d(x.reshape([1, 4, 4]), 2), lambda x: T.max_pool1d(x.reshape([1, 4, 4]), 2)),
    "relu6": (P.relu6, T.relu6),
    "leaky_relu": (P.leaky_relu, T.leaky_relu),
    "elu": (P.elu, T.elu),
    "selu": (P.selu, T.selu),
    "celu": (P.celu, T.celu),
    "gelu": (P.gelu, T.gelu),
    "silu": (P.silu, T.silu),
    "softplus": (P.softplus, T.softplus),
    "softsign": (P.softsign, T.softsign),
    "hardtanh": (P.hardtanh, T.hardtanh),
    "hardsigmoid": (P.hardsigmoid, T.hardsigmoid),
    "hardswish": (P.hardswish, T.hardswish),
    "hardshrink": (P.hardshrink, T.hardshrink),
    "softshrink": (P.softshrink, T.softshrink),
    "tanhshrink": (P.tanhshrink, T.tanhshrink),
    "log_sigmoid": (P.log_sigmoid, T.logsigmoid),
    "softmax": (lambda x: P.softmax(x), lambda x: T.softmax(x, -1)),
    "thresholded_relu": (lambda x: P.thresholded_relu(x, 1.0), lambda x: T.threshold(x, 1.0, 0.0)),
    "prelu": (lambda x: P.prelu(x, paddle.to_tensor([0.25])), lambda x: T.prelu(x, torch.tensor([0.25]))),
    "l1_loss": (lambda x: P.l1_loss(x, x.detach().t()), lambda x: T.l1_loss(x, x.detach().t())),
    "smooth_l1_loss": (lambda x: P.smooth_l1_loss(x, x.detach().t()), lambda x: T.smooth_l1_loss(x, x.detach().t())),
    "mse_loss": (lambda x: P.mse_loss(x, x.detach().t()), lambda x: T.mse_loss(x, x.detach().t())),
    "margin_ranking_loss": (
        lambda x: P.margin_ranking_loss(x, x.t(), paddle.ones([4, 4])),
        lambda x: T.margin_ranking_loss(x, x.t(), torch.ones(4, 4)),
    ),
    "hinge_embedding_loss": (
        lambda x: P.hinge_embedding_loss(x, paddle.ones([4, 4]) - 2 * paddle.eye(4)),
        lambda x: T.hinge_embedding_loss(x, torch.ones(4, 4) - 2 * torch.eye(4)),
    ),
    "triplet_margin_loss": (
        lambda x: P.triplet_margin_loss(x, x.t(), x.detach()),
        lambda x: T.triplet_margin_loss(x, x.t(), x.detach()),
    ),
    "multi_margin_loss": (
        lambda x: P.multi_margin_loss(x, paddle.to_tensor([0, 1, 2, 3])),
        lambda x: T.multi_margin_loss(x, torch.tensor([0, 1, 2, 3])),
    ),
    "huber": (
        lambda x: P.smooth_l1_loss(x, paddle.zeros([4, 4]), delta=1.0, reduction="sum"),
        lambda x: T.huber_loss(x, torch.zeros(4, 4), delta=1.0, reduction="sum"),
    ),
    "dropped": (lambda x: P.relu(x) + P.relu(-x), lambda x: T.relu(x) + T.relu(-x)),
    "index_select": (
        lambda x: paddle.index_select(x, paddle.to_tensor([0, 0, 1])),
        lambda x: torch.index_select(x, 0, torch.tensor([0, 0, 1])),
    ),
    "matrix_norm": (lambda x: paddle.linalg.norm(x, "fro"), lambda x: torch.linalg.norm(x, "fro")),
}
if not hasattr(paddle.nn, "PairwiseDistance"):
    PAIRS = {name: pair for name, pair in PAIRS.items() if not name.startswith("PairwiseDistance")}


def by_paddle(function, table):
    x = paddle.to_tensor(np.array(table, "float32"), stop_gradient=False)
    result = flat(function(x))[0]
    weights = np.arange(1.0, result.size + 1, dtype="float32").reshape(result.shape)
    result.backward(paddle.to_tensor(weights))
    return result.numpy(), None if x.grad is None else x.grad.numpy()


def by_torch(function, table):
    x = torch.tensor(np.array(table, "float32"), requires_grad=True)
    result = function(x)
    weights = torch.arange(1.0, result.numel() + 1).reshape(result.shape)
    if result.requires_grad:
        with contextlib.suppress(RuntimeError):  # Torch's own backward of a distance with p=0 fails
            result.backward(weights)
    return result.detach().numpy(), None if x.grad is None else x.grad.numpy()


def alike(ours, others):
    """Whether two gradients are the same but for rounding."""
    if ours is None or others is None:
        return ours is others
    return ours.shape == others.shape and np.allclose(ours, others, 1e-4, 1e-5, equal_nan=True)


def apart(name, table):
    """In what reference mode differs where both frameworks agree; of what this Paddle refuses, nothing."""
    paddles, torchs = PAIRS[name]
    values, theirs = by_torch(torchs, table)
    try:
        native, grad = by_paddle(paddles, table)
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        return None
    with padiff_shim.reference("torch"):
        ours, our_grad = by_paddle(paddles, table)
    if alike(native.reshape(values.shape) if native.size == values.size else native, values):
        if not alike(ours, native):
            return native, ours
        zeros = np.zeros_like(grad) if theirs is None and grad is not None else theirs  # Torch's graph breaks there
        if alike(grad, zeros) and not alike(our_grad, grad):
            return grad, our_grad
    none = IS_3 or name != "remainder"  # of which 2.6 has no gradient
    return (grad, our_grad) if none and (our_grad is None) != (grad is None) else None


@pytest.mark.rows(40)
@pytest.mark.parametrize("name", PAIRS)
def test_where_both_frameworks_agree_so_do_we(name):
    differences = {table: apart(name, rows) for table, rows in TABLES.items()}
    assert {table: values for table, values in differences.items() if values is not None} == {}


OF_TORCH = (
    "max",
    "max of all",
    "min",
    "amax along an axis",
    "amin along axes",
    "sort",
    "topk",
    "kthvalue",
    "mode",
    "cummax",
    "cummin",
    "abs",
)


@pytest.mark.bitexact
@pytest.mark.parametrize("name", OF_TORCH)
def test_equal_elements_have_torchs_gradients(name):
    paddles, torchs = PAIRS[name]
    with padiff_shim.reference("torch", strict=True):
        ours = by_paddle(paddles, TABLES["ties"])
    assert all(map(same, ours, by_torch(torchs, TABLES["ties"])))


@pytest.mark.bitexact
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "where", "clip"])
def test_ties_between_two_tensors_are_as_in_paddle(name):
    """Nothing is rounded here, so that it is the same on every machine."""
    if (not IS_3 or VERSION == (3, 0)) and name in ("maximum", "minimum", "clip"):
        pytest.skip("up to 3.0 Paddle has rules of its own: the second of two equal ones, and at a limit none has the gradient")
    native = by_paddle(PAIRS[name][0], TABLES["ties"])
    with padiff_shim.reference("torch", strict=True):
        ours = by_paddle(PAIRS[name][0], TABLES["ties"])
    assert all(map(same, ours, native))


def middle(x):
    """Of rows of four: the mean of the two in the middle, or what all share that are equal to both."""
    below, above = torch.sort(x, 1).values[:, 1:3].unbind(1)
    equal = torch.where(x == below.detach()[:, None], x, -torch.inf).amax(1)
    return torch.where(below == above, equal, (below + above) / 2)


@pytest.mark.bitexact
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_a_median_is_the_mean_of_the_middle(name):
    with padiff_shim.reference("torch", strict=True) as run:
        ours = by_paddle(PAIRS[f"{name} along an axis"][0], TABLES["ties"])
    assert run.substituted[name] == run.backward[name] == 1
    assert all(map(same, ours, by_torch(middle, TABLES["ties"])))


@pytest.mark.bitexact
@pytest.mark.parametrize("values", [[1.0, np.nan, 3.0, 2.0], [np.nan] * 4, [1.0, np.nan, np.nan, np.nan]], ids=str)
@pytest.mark.parametrize("function", [paddle.median, paddle.nanmedian], ids=["median", "nanmedian"])
def test_nan_among_the_elements(function, values):
    x = paddle.to_tensor([values])
    native = function(x, axis=1)
    with padiff_shim.reference("torch", strict=True):
        assert same(function(x, axis=1), native)


@pytest.mark.skipif(not IS_3, reason="2.6 passes over NaN")
def test_the_largest_of_nan_is_nan():
    x = paddle.to_tensor([[1.0, np.nan, 3.0]])
    with padiff_shim.reference("torch", strict=True):
        ours = [paddle.max(x, axis=1), paddle.min(x), paddle.amax(x)]
    assert all(np.isnan(tensor.numpy()).all() for tensor in ours)
