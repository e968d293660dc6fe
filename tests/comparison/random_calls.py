"""Random calls of ops whose kernels differ by design: small shapes, hostile values, every attribute, with their backward.

A call is given by its name and a seed. ``python tests/comparison/random_calls.py 0 1000`` prints what a comparison accuses.
"""

import collections
import contextlib
import functools
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.nn.utils import weight_norm_hook

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.verdicts import Verdict, apart

ACCUSING = Verdict.UNVERIFIED.severity + 1
NAMES = {"range", *(f"{fault}{also}" for op in ops().values() for fault in op.faults for also in ("", "+numbers->float32"))}
KINDS = (
    *["normal"] * 5,
    "uniform",
    "large",
    "tiny",
    "denormal",
    "zeros",
    "one zero",
    "ties",
    "mixed",
    "constant",
    "offset",
    "sqrt",
)
TINY, TOP = {"float32": 2.0**-126, "float64": 2.0**-1022}, {"float32": 3.4e38, "float64": 1.79e308}
INF = float("inf")


class Draw:
    """The random numbers of one call."""

    def __init__(self, name, seed):
        self.rng = np.random.default_rng([seed, *name.encode()])
        self.dtype = self.among("float32", "float32", "float64")

    def among(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def shape(self, least=0, most=3, sizes=(0, 1, 1, 2, 3, 4, 5, 7, 16, 33)):
        return tuple(self.among(*sizes) for _ in range(self.among(*range(least, most + 1))))

    def axis(self, ndim, *others):
        return self.among(*range(-ndim, ndim), *others)

    def normal(self, shape):
        return self.rng.standard_normal((1, *shape)).reshape(shape)

    def values(self, shape, kind=None):
        """Of one of the kinds: sizes far from 1, zeros and equal ones."""
        kind, numbers = kind or self.among(*KINDS), self.normal(shape)
        if kind == "one zero" and numbers.size:
            numbers.reshape(-1)[0] = 0
        spread = 10.0 ** self.rng.uniform(-6, 6, (1, *shape)).reshape(shape)
        scales = {"large": 1e3, "tiny": 1e-20, "denormal": TINY[self.dtype] / 2, "sqrt": TOP[self.dtype] ** 0.5, "mixed": spread}
        others = {
            "uniform": lambda: self.rng.uniform(-2, 2, (1, *shape)).reshape(shape),
            "zeros": lambda: np.where(self.rng.random(shape) < 0.5, 0, numbers),
            "ties": lambda: np.round(numbers * 2) / 2,
            "constant": lambda: np.full(shape, self.rng.uniform(-3, 3)),
            "offset": lambda: 100 + numbers,
        }
        return others[kind]() if kind in others else numbers * scales.get(kind, 1.0)

    def within(self, shape, low, high):
        """From a range, sometimes at its ends, or equal."""
        numbers = self.rng.uniform(low, high, (1, *shape)).reshape(shape)
        how = self.among("plain", "plain", "ends", "ties", "geometric")
        if how == "ends":
            numbers = np.where(self.rng.random(shape) < 0.3, self.among(low, high), numbers)
        elif how == "ties":
            numbers = np.clip(np.round(numbers * 4) / 4, low, high)
        elif how == "geometric" and low > 0:
            numbers = low * (high / low) ** self.rng.random((1, *shape)).reshape(shape)
        return numbers

    def tensor(self, shape=None, kind=None, low=None, high=None, grad=True):
        """A leaf; with ``grad`` it mostly wants a gradient."""
        shape = self.shape() if shape is None else shape
        values = self.values(shape, kind) if low is None else self.within(shape, low, high)
        with np.errstate(all="ignore"):
            leaf = paddle.to_tensor(np.asarray(values).astype(self.dtype).reshape(shape)).detach()
        leaf.stop_gradient = not (grad and self.rng.random() < 0.8)
        return leaf

    def matrix(self, square=True, symmetric=False):
        """One matrix, or several: of full rank, singular, of equal or of tiny elements."""
        rows = self.among(1, 2, 3, 4, 6)
        shape = (*self.among((), (), (2,), (0,), (2, 2)), self.among(1, 2, 3, 5) if not square else rows, rows)
        numbers, kind = self.normal(shape), self.among("normal", "normal", "dominant", "singular", "integers", "scaled", "identity")
        eye = np.broadcast_to(np.eye(*shape[-2:]), shape)
        numbers = {"dominant": numbers + 5 * eye, "integers": np.round(numbers * 2), "identity": eye.copy()}.get(kind, numbers)
        if kind == "singular":
            numbers[..., -1] = numbers[..., 0]
        if kind == "scaled":
            numbers = numbers * self.among(1e-12, 1e-3, 1e3, 1e10)
        if symmetric:
            numbers = numbers + np.swapaxes(numbers, -1, -2)
        tensor = paddle.to_tensor(numbers.astype(self.dtype))
        tensor.stop_gradient = self.rng.random() < 0.3
        return tensor


CALLS = {}
ORDERS = (2.0, 1.0, 3.0, 0.5, 1.5, INF, -INF, -1.0, 4.0)
REFUSALS = (ValueError, RuntimeError, IndexError, TypeError, AssertionError, AttributeError, NotImplementedError)
REDUCTIONS = ("mean", "sum", "none")


def call(function):
    """A decorator: one call of the name of its function."""
    CALLS[function.__name__.strip("_")] = function
    return function


def unary(name, function, low=None, high=None):
    if function is not None:  # some Paddles have it not
        CALLS[name] = lambda d: function(d.tensor(low=low, high=high))


for gamma, low, high in (("digamma", 0.01, 6), ("lgamma", 0.01, 6), ("gammaln", 0.01, 60)):
    unary(gamma, getattr(paddle, gamma, None), low, high)
for gamma in ("digamma", "lgamma"):
    unary(f"{gamma} below 0", getattr(paddle, gamma), -5.5, 5)
for name in ("digamma", "erf", "i0", "i0e", "i1", "i1e", "sinc", "expm1", "log1p", "log", "sqrt", "rsqrt", "tanh", "atan", "asinh"):
    unary(f"{name} of any", getattr(paddle, name, None))
for name in ("elu", "celu", "selu", "gelu", "silu", "mish", "softplus", "log_sigmoid", "tanhshrink", "hardswish", "softsign"):
    unary(name, getattr(F, name))
unary("erfinv", paddle.erfinv, -1.0, 1.0)
unary("acos", paddle.acos, -1, 1)
unary("atanh", paddle.atanh, -1, 1)
unary("logit", paddle.logit, 0, 1)


@call
def polygamma(d):
    return paddle.polygamma(d.tensor(low=0.05, high=20), d.among(1, 1, 2, 3, 5))


@call
def multigammaln(d):
    return paddle.multigammaln(d.tensor(low=2.1, high=20), d.among(1, 2, 3))


@call
def incomplete_gamma(d):
    shape, top = d.shape(1, 2, (0, 1, 2, 5)), d.among(3, 30, 300)
    a, x = d.tensor(shape, low=0.05, high=top, grad=False), d.tensor(shape, low=0.0, high=1.5 * top)
    return d.among(paddle.gammainc, paddle.gammaincc)(a, x)


@call
def activations(d):
    x = d.tensor()
    return d.among(F.elu, F.celu)(x, d.among(0.5, 2.0, 0.1, 1.3))


@call
def reductions(d):
    x = d.tensor()
    name = d.among("sum", "mean", "prod", "logsumexp", "std", "var", "nansum", "nanmean")
    return getattr(paddle, name)(x, axis=d.axis(x.ndim, None), keepdim=d.among(True, False))


@call
def products(d):
    return paddle.prod(d.tensor((d.among(1, 3), d.among(1, 2, 4))), axis=d.among(0, 1, None))


@call
def running(d):
    x = d.tensor(d.shape(1))
    return getattr(paddle, d.among("cumsum", "cumprod", "logcumsumexp"))(x, d.axis(x.ndim))


@call
def norms(d):
    x = d.tensor(d.shape(1))
    return d.among(paddle.linalg.vector_norm, paddle.norm)(x, d.among(*ORDERS), d.axis(x.ndim, None), d.among(True, False))


@call
def matrix_norms(d):
    x = d.tensor((d.among(1, 2, 3, 5), d.among(1, 2, 3, 5)))
    return paddle.linalg.matrix_norm(x, d.among("fro", "nuc", 1, -1, 2, INF), axis=[0, 1], keepdim=d.among(True, False))


@call
def frobenius_norm(d):
    x = d.tensor(d.shape(1))
    return paddle._C_ops.frobenius_norm(x, [d.axis(x.ndim)], d.among(True, False), False)


@call
def norm_except_dim(d):
    x = d.tensor(d.shape(2), grad=False)
    return weight_norm_hook.norm_except_dim(x, d.among(-1, *range(x.ndim)))


@call
def weight_norm(d):
    x = d.tensor(d.shape(2))
    dim = d.among(-1, *range(x.ndim))
    return weight_norm_hook._weight_norm(x, d.tensor(() if dim == -1 else (x.shape[dim],)), dim)


@call
def normalize(d):
    x = d.tensor(d.shape(1))
    return F.normalize(x, d.among(2, 2, 1, 3, 1.5, INF), d.axis(x.ndim), d.among(1e-12, 1e-6, 1e-3))


@call
def distances(d):
    rows = d.among(1, 2, 4)
    x, y = d.tensor((3, rows)), d.tensor((3, rows))
    order = d.among(2.0, 1.0, 3.0, INF, 0.5)
    pairs = functools.partial(F.pairwise_distance, p=order)
    return d.among(
        lambda: paddle.dist(x, y, order), lambda: paddle.cdist(x, y, order), lambda: pairs(x, y), lambda: paddle.pdist(x, order)
    )()


@call
def cosine_similarity(d):
    shape = d.shape(1, 3, (1, 2, 3, 5))
    return F.cosine_similarity(d.tensor(shape), d.tensor(shape), axis=d.axis(len(shape)))


@call
def average_pools(d):
    n = d.among(1, 2, 3)
    x = d.tensor((d.among(1, 2), d.among(1, 3), *(d.among(2, 3, 4, 5, 7) for _ in range(n))))
    if d.among(True, False):
        return getattr(F, f"adaptive_avg_pool{n}d")(x, d.among(1, 2, 3))
    size = d.among(1, 2, 3)
    padding, own = d.among(0, 0, 1) if size > 1 else 0, {"divisor_override": d.among(None, None, 3)} if n > 1 else {}
    return getattr(F, f"avg_pool{n}d")(x, size, d.among(None, 1, 2), padding, exclusive=d.among(True, False), **own)


@call
def power_pools(d):
    n = d.among(1, 2)
    x = d.tensor((1, 2, *(d.among(3, 4, 6) for _ in range(n))))
    return getattr(F, f"lp_pool{n}d")(x, d.among(2.0, 1.0, 3.0), d.among(2, 3), d.among(None, 1))


@call
def interpolate(d):
    modes = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
    mode = d.among(*modes)
    n = modes[mode]
    x, size = d.tensor((1, d.among(1, 3), *(d.among(1, 2, 3, 5) for _ in range(n)))), [d.among(1, 1, 2, 4, 9) for _ in range(n)]
    return F.interpolate(x, size=size, mode=mode, align_corners=d.among(True, False), data_format=("NCW", "NCHW", "NCDHW")[n - 1])


@call
def multi_margin_loss(d):
    rows, classes = d.among(1, 2, 5), d.among(1, 2, 4)
    label = paddle.to_tensor(d.rng.integers(0, classes, rows))
    weight = d.among(None, d.tensor((classes,), low=0.1, high=2.0, grad=False))
    return F.multi_margin_loss(d.tensor((rows, classes)), label, d.among(1, 2), d.among(1.0, 0.5), weight, d.among(*REDUCTIONS))


@call
def losses(d):
    shape, reduction = d.shape(1), d.among(*REDUCTIONS)
    x, share = d.tensor(shape), d.tensor(shape, low=0.0, high=1.0, grad=False)
    return d.among(
        lambda: F.binary_cross_entropy_with_logits(x, share, reduction=reduction),
        lambda: F.binary_cross_entropy(d.tensor(shape, low=0.0, high=1.0), share, reduction=reduction),
        lambda: F.soft_margin_loss(x, paddle.sign(share - 0.5), reduction),
        lambda: F.smooth_l1_loss(x, share, reduction, d.among(1.0, 0.3)),
    )()


@call
def rows(d):
    x = d.tensor(d.shape(1))
    return d.among(
        lambda: F.softmax(x, d.axis(x.ndim)),
        lambda: F.log_softmax(x, d.axis(x.ndim)),
        lambda: F.layer_norm(x, x.shape[-1:], epsilon=d.among(1e-5, 1e-12)),
        lambda: F.group_norm(d.tensor((2, 4, d.among(1, 2, 5))), d.among(1, 2, 4)),
        lambda: F.instance_norm(d.tensor((2, 3, d.among(1, 2, 5), 3))),
        lambda: F.local_response_norm(d.tensor((1, 4, 3)), 3, 0.1, 0.75, 1.0),
    )()


@call
def pairs_of_numbers(d):
    shape = d.shape()
    return getattr(paddle, d.among("hypot", "atan2", "logaddexp", "pow", "divide", "multiply"))(d.tensor(shape), d.tensor(shape))


@call
def statistics(d):
    x = d.tensor((d.among(1, 2, 3), d.among(2, 3, 5)))
    return d.among(paddle.linalg.cov, paddle.linalg.corrcoef)(x)


@call
def eigenvalues(d):
    names = {"eig": False, "eigvals": False, "eigh": True, "eigvalsh": True}
    name = d.among(*names)
    return getattr(paddle.linalg, name)(d.matrix(symmetric=names[name]))


@call
def factors(d):
    x = d.matrix(square=False)
    return d.among(
        lambda: paddle.linalg.svd(x, d.among(True, False)),
        lambda: paddle.linalg.svdvals(x),
        lambda: paddle.linalg.qr(x, d.among("reduced", "complete")),
        lambda: paddle.linalg.lu(d.matrix())[0],
        lambda: paddle.linalg.pinv(x, d.among(1e-15, 1e-6)),
        lambda: paddle.linalg.pinv(d.matrix(symmetric=True), 1e-6, hermitian=True),
    )()


@call
def of_matrices(d):
    return getattr(paddle.linalg, d.among("inv", "det", "slogdet", "matrix_exp"))(d.matrix())


def flat(result):
    """The tensors of a result."""
    tensors = [inner for item in result for inner in flat(item)] if isinstance(result, (list, tuple)) else [result]
    return [inner for inner in tensors if isinstance(inner, paddle.Tensor)]


def backward(result, gradient):
    """The backward of all that a call gave. ``gradient``: of a result, its incoming one."""
    ends = [tensor for tensor in flat(result) if not tensor.stop_gradient]
    if ends:
        paddle.autograd.backward(ends, [paddle.to_tensor(np.asarray(gradient(end))).astype(end.dtype) for end in ends])


def run(name, seed):
    """The comparison of one call and its backward; what Paddle itself refuses is no call."""
    draw = Draw(name, seed)
    paddle.seed(seed)
    with padiff_shim.compare("torch", progress=False, audit=draw.among(0, 0, 1)) as comparison, contextlib.suppress(*REFUSALS):
        backward(CALLS[name](draw), lambda end: draw.values(tuple(end.shape), "normal"))
    return comparison


def suspects(comparison):
    """The calls of a comparison that accuse somebody; rounding beside the whole tensor and muted ones apart."""
    return [call for call in comparison.calls if call.verdict.severity >= ACCUSING and not apart(call._record)]


def accusations(comparison):
    """Those of them that have no known cause."""
    return [call for call in suspects(comparison) if call.hypothesis not in NAMES]


def main(first, last):
    """Every call with these seeds: prints the accusations, and how many programs have one."""
    counts = collections.Counter()
    for seed in range(first, last):
        for name in CALLS:
            accused = accusations(run(name, seed))
            counts["programs"] += 1
            counts["accused"] += bool(accused)
            for judged in accused:
                print(
                    name, seed, judged.op, judged.tensor, judged.dtype, judged.verdict, judged.side, judged.reason[:120], sep=" | "
                )
    print(dict(counts))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
