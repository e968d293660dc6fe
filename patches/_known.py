"""Known differences between the two frameworks' kernels: data only, in the keys of ``known_differences.Quirk``.

An entry gives a name and a reason to a verdict that is right: the difference is real, and somebody has already looked into it. None
is muted; a user mutes one by its name. Each was seen on the versions that it names (``tests/catalogue/test_quirks.py`` shows
each of them again) and says nothing about others: a version range ends where nobody looked. Each has a ``hypothesis``, spelled
out: a formula that the verdict fitted to the values, with nothing but rounding left over, so that a fault in its place or beside it
is not taken for the known difference.
"""

from __future__ import annotations

from typing import Any

_OF_PADDLE = {"side": "paddle", "paddle": ">=3.3,<3.4"}  # what an entry has that says nothing else; None: it has no such key
_OF_TORCH: dict[str, Any] = {"side": "torch", "torch": ">=2.4,<2.16", "paddle": None}

# Ops whose kernels take a Python number as float32 beside float64 tensors.
_OPS = """pow addmm baddbmm elu celu selu softshrink hardshrink hardtanh hardsigmoid stanh rrelu smooth_l1_loss huber_loss
label_smooth cross_entropy batch_norm instance_norm group_norm local_response_norm p_norm vector_norm frobenius_norm dist cdist
pairwise_distance normalize trapezoid cumulative_trapezoid multi_margin_loss pdist triplet_margin_loss weight_norm"""
_NORMS = "p_norm vector_norm frobenius_norm dist normalize pairwise_distance pdist cdist weight_norm triplet_margin_loss"
_ANY = ("NONFINITE", "PRECISION_MODE", "SEMANTICS")
_RATES = "numbers beta1 beta2 epsilon rho mu momentum coefficient lr_ratio momentum_decay"  # of optimizers
_NUMBERS = ("numbers->float32", "1-epsilon->float32", "slope->float32", "1/p->float32", "1/p->float32+norm+number")


def _also(*names: str) -> tuple[str, ...]:
    """The same beside numbers that are held in float32."""
    return (*names, *(f"{name}+numbers->float32" for name in names))


class _Quirk(dict[str, Any]):
    """An entry; ``ops``: names with spaces between them."""

    def __init__(self, name: str, ops: str, verdict: Any, hypothesis: Any, **more: Any) -> None:
        super().__init__(name=name, op=tuple(ops.split()), verdict=verdict, hypothesis=hypothesis, **{**_OF_PADDLE, **more})

    def because(self, reason: str) -> dict[str, Any]:
        """The whole entry."""
        return {key: value for key, value in {**self, "reason": reason}.items() if value is not None}


QUIRKS = (
    _Quirk("epsilon in float32", "layer_norm", "PRECISION_MODE", "epsilon->float32", dtype="float64").because(
        "Paddle's layer_norm rounds epsilon to float32 even in float64, also in the gradients: 1e-5 becomes 9.99999974738e-06"
    ),
    _Quirk(
        "scale lost in the gradient",
        "layer_norm",
        "SEMANTICS",
        ("no-weight", "no-weight+epsilon->float32", "epsilon->float32+no-weight"),
        tensor="grad:x",
    ).because(
        "Paddle's CPU layer_norm_grad leaves the scale out of x's gradient when the scale's own gradient is not asked for (a "
        "frozen layer norm, or paddle.grad(y, x))"
    ),
    _Quirk(
        "number in float32",
        _OPS,
        "PRECISION_MODE",
        ("y->float32", "alpha->float32", "beta->float32", "alpha->float32+beta->float32", *_NUMBERS),
        dtype="float64",
    ).because("Paddle's kernels hold the Python numbers of a call in float32 even in float64, and compute with them there"),
    _Quirk("master weight that stays as it was", "sgd", "SEMANTICS", "not-written", tensor="master").because(
        "Paddle's sgd on a CPU updates a bfloat16 parameter alone, and not its master weight"
    ),
    _Quirk(
        "number of an optimizer in float32",
        "adamw momentum lamb nadam adagrad adadelta rmsprop adamax radam",
        "PRECISION_MODE",
        tuple(f"{name}->float32" for name in _RATES.split()),
        dtype="float64",
    ).because(
        "Paddle's kernels hold an optimizer's numbers (rates of decay, epsilon, coefficients) in float32 beside parameters of "
        "float64"
    ),
    _Quirk(
        "softmax clipped at -64",
        "softmax log_softmax cross_entropy cross_entropy_with_softmax scaled_dot_product_attention fused_softmax_mask",
        "SEMANTICS",
        "clip=-64",
    ).because(
        "Paddle's CPU softmax computes exp(max(x - max, -64)): masked entries come out as 1.6e-28 and not as 0, and no loss is "
        "larger than 64 and the logarithm of the classes"
    ),
    _Quirk("log_softmax of minus infinity", "log_softmax cross_entropy", "NONFINITE", "clip=-64", phase="forward").because(
        "no logarithm of Paddle's CPU softmax is less than -64 and that of the sum, also where x is -inf"
    ),
    _Quirk("softmax of NaN", "softmax", "NONFINITE", ("nan-clipped", "clip=-64", "clip=-64+nan-clipped")).because(
        "Paddle's vectorised softmax takes a NaN in x - max for -64: a row with NaN, with +inf or of -inf alone comes out finite"
    ),
    _Quirk("sequential sum", "sum mean linear add subtract", "LOW_ACCURACY", "sequential-sum").because(
        "Paddle's CPU sums over an axis (sum, mean, gradients of biases and of what was broadcast) add one term after the "
        "other, where Torch adds in a tree: the error grows with the length and not with its logarithm"
    ),
    _Quirk("range added up", "arange range", "PRECISION_MODE", "step-added-up").because(
        "Paddle's CPU kernel adds the step up, where Torch multiplies it: the error grows with the length"
    ),
    _Quirk(
        "group norm without a weight", "group_norm", "SEMANTICS", _also("mean-held", "mean-held+one-pass-variance"), tensor="grad:x"
    ).because("without a weight Paddle's CPU group_norm_grad leaves the mean of the incoming gradient out of x's gradient"),
    _Quirk("whole Cholesky factor", "cholesky_solve", "SEMANTICS", "whole-factor", tensor="grad:y").because(
        "Paddle's gradient of a Cholesky factor multiplies by the factor with what lies outside of its triangle"
    ),
    _Quirk("gradient of spectral norm", "spectral_norm", "SEMANTICS", "sum-of-weight", tensor="grad:weight").because(
        "Paddle's gradient of spectral_norm takes the sum of the weight, element by element, where that of its product with the"
        " incoming gradient belongs"
    ),
    _Quirk(
        "number added to a norm",
        "p_norm vector_norm frobenius_norm dist normalize pdist cdist weight_norm norm_except_dim",
        _ANY,
        _also("norm+number", "squares+1e-12", "1/p->float32+norm+number"),
    ).because(
        "Paddle's gradients of norms divide by norm^(p - 1) plus a number: 1e-12, of normalize its epsilon; norm_except_dim "
        "adds it to the sum of squares"
    ),
    _Quirk(
        "powers that leave the range",
        f"hypot atan2 lp_pool2d {_NORMS}",
        _ANY,
        _also("powers", "squares", "1/p->float32"),
        side=None,
    ).because(
        "powers are added up unscaled: a length is 0 or infinite where it is a common number of the dtype, and a gradient that "
        "divides by it NaN"
    ),
    _Quirk("erfinv by a quantile", "erfinv", _ANY, "quantile").because(
        "Paddle's CPU erfinv is the normal distribution's quantile at (x + 1) / 2: the digits of small numbers are lost, and "
        "beyond 1 it is infinite"
    ),
    _Quirk(
        "expm1 and log1p spelled out",
        "elu celu selu softplus mish logsigmoid binary_cross_entropy bce_loss soft_margin_loss",
        _ANY,
        _also("exp(x)-1", "log(1+exp(x))", "log(exp+exp)", "log(1-x)", "log(1+exp)"),
        side=None,
    ).because(
        "Paddle computes exp(x) - 1, log(1 + exp(x)) and log(1 - x): of small numbers the digits are lost, in the gradients of "
        "elu and its like, too; that of celu multiplies an infinity by 0"
    ),
    _Quirk("gradient of silu", "silu swish", _ANY, "exp(-x)", phase="backward").because(
        "Paddle's gradient of silu is made of exp(-x), which overflows below -88"
    ),
    _Quirk(
        "logits at zero",
        "binary_cross_entropy_with_logits sigmoid_cross_entropy_with_logits",
        "SEMANTICS",
        "slope-at-0",
        phase="backward",
    ).because("Paddle's gradient at a logit of exactly 0 is too small by 1"),
    _Quirk("label's part taken off", "multi_margin_loss", _ANY, _also("label-taken-off")).because(
        "Paddle's multi_margin_loss adds up all classes and takes the label's own part off: of small losses the digits are lost"
    ),
    _Quirk("norms bounded together", "cosine_similarity", _ANY, _also("bounded-together")).because(
        "Torch bounds each norm by eps from below, Paddle their product by its square"
    ),
    _Quirk("half-centred covariance", "cov corrcoef", _ANY, "half-centred").because(
        "Paddle's cov multiplies the centred rows by the rows as they are: of a large mean the digits are lost"
    ),
    _Quirk("variance in one pass", "group_norm", _ANY, _also("one-pass-variance")).because(
        "Paddle's CPU group_norm takes the square of the mean from the mean of the squares: of a large mean the digits are lost"
    ),
    _Quirk("sinc of NaN", "sinc", _ANY, "nan->1").because("Paddle's sinc is 1 wherever its quotient is NaN"),
    _Quirk(
        "averages in float32",
        "pool2d pool3d avg_pool2d avg_pool3d local_response_norm",
        "PRECISION_MODE",
        _also("1/n->float32"),
        phase="backward",
        dtype="float64",
    ).because("Paddle's gradient of an average holds one over the number of elements in float32, also of float64"),
    _Quirk(
        "interpolation to one pixel",
        "linear_interp bilinear_interp bicubic_interp trilinear_interp",
        _ANY,
        ("first-pixel", "first-pixel+weights->float32", "first-pixel+places->float32"),
    ).because(
        "where one pixel is wanted along an axis, Paddle takes the first one (of bicubic: what is extrapolated before it), and "
        "not the middle; of linear in its gradient, of linear and trilinear before 3.0"
    ),
    _Quirk(
        "weights of interpolation in float32",
        "linear_interp bilinear_interp bicubic_interp trilinear_interp",
        _ANY,
        ("weights->float32", "ratio->float32", "places->float32"),
    ).because("Paddle computes places and weights of an interpolation in float32, also of float64"),
    _Quirk(
        "eigenvalues of several matrices", "eigh eigvalsh", "SEMANTICS", ("first-of-batch", "gradients-in-turn"), phase="backward"
    ).because(
        "of a batch of matrices, Paddle's gradient of eigh takes those of the first one's eigenvalues for all, that of eigvalsh"
        " takes them in another order"
    ),
    _Quirk("vectors of eigenvalues near the real axis", "eig", "SEMANTICS", "pairs-of-reals", tensor="vectors").because(
        "Paddle's eig takes eigenvalues that are less than 1e-6 off the real axis for real ones, and gives the real and the "
        "imaginary part of their vectors for two vectors"
    ),
    _Quirk("small determinants", "det", "SEMANTICS", ("below-1e-12->0", "below-1e-05->0"), phase="backward").because(
        "where a determinant of the batch is below 1e-5 (float64: 1e-12), Paddle's gradient of all of them is zero"
    ),
    _Quirk("slogdet through the determinant", "slogdet slogdet_v2", _ANY, "through-determinant").because(
        "Paddle's slogdet is the logarithm of the determinant, which may have left the range"
    ),
    _Quirk("one squaring too few", "matrix_exp", "PRECISION_MODE", ("few-squarings-7", "few-squarings-13")).because(
        "Paddle halves a matrix once too few before the Pade approximant of its exponential, which is not made for such norms"
    ),
    _Quirk(
        "torch's exponential of degree 8",
        "matrix_exp",
        "PRECISION_MODE",
        ("degree-8 of float32", "degree-8 of float64"),
        phase="forward",
        side="torch",
        torch=">=2.4,<2.14",
        paddle=None,
    ).because("For one matrix of a norm of 0.05 to 0.58 (in float64 of 0.0003 to 0.05) Torch's polynomial has a wrong coefficient"),
    _Quirk("pinv through vectors", "pinv", _ANY, "through-vectors", phase="backward").because(
        "Paddle's gradient of pinv is that of the singular vectors (of a Hermitian matrix: eigenvectors): NaN where values are "
        "equal, and symmetric where Torch's is that of any matrix"
    ),
    _Quirk("digamma's slope of large negative numbers", "digamma", _ANY, "nine-terms", phase="backward", dtype="float32").because(
        "Paddle's float32 trigamma adds nine terms, which do not come to where its series begins: below -8 it is wrong"
    ),
    _Quirk("gradient of gammaln", "gammaln", "PRECISION_MODE", "five-terms", phase="backward").because(
        "the digamma in Paddle's gradient of gammaln is good to 1e-13, also in float64"
    ),
    _Quirk("incomplete gamma functions", "gammainc gammaincc", _ANY, ("plain-series", "1-gammaincc"), side=None).because(
        "the power, the exponential and the gamma function before the series are not scaled, and the smaller of both functions "
        "is one less the larger: digits are lost, and gradients NaN"
    ),
    _Quirk("torch's incomplete gamma functions", "gammainc gammaincc", "PRECISION_MODE", "near-series", **_OF_TORCH).because(
        "Torch's series for large operands that are near one another is good to nine digits"
    ),
    _Quirk("torch's trigamma", "digamma polygamma", _ANY, "six-terms", **_OF_TORCH).because(
        "Torch's trigamma is good to nine digits, and finite at its poles"
    ),
    _Quirk("shares that do not sum to one", "cross_entropy", "SEMANTICS", "softmax-minus-label", tensor="grad:input").because(
        "of soft labels that sum to s, the gradient is s * softmax(x) - label; Paddle's is softmax(x) - label"
    ),
    _Quirk("logsumexp of infinities", "logsumexp", "NONFINITE", "infinite-maximum").because(
        "Paddle's logsumexp subtracts an infinite maximum: a row of -inf, or one with +inf, gives NaN for -inf or +inf"
    ),
    _Quirk("relu of NaN", "relu", "NONFINITE", "nan->0", phase="forward").because("Paddle's CPU relu turns NaN into 0"),
    _Quirk(
        "sqrt of infinity and of denormals",
        "sqrt rsqrt",
        ("NONFINITE", "PRECISION_MODE"),
        ("inf->nan", "denormals->0", "denormals->0+inf->nan"),
        dtype="float32",
    ).because("Paddle's vectorised float32 sqrt gives NaN for +inf and, as rsqrt does, takes denormal numbers for 0"),
    _Quirk("float16 exp wraps around", "exp", "SEMANTICS", "exponent+64", phase="forward", dtype="float16").because(
        "Paddle's CPU exp of float16 numbers below -53.37 is 2**64 times too large: up to 1.2e-4 and not 0"
    ),
    _Quirk("torch's renorm", "renorm", "SEMANTICS", "norm+1e-7", **_OF_TORCH).because(
        "Torch adds 1e-7 to the norm by which it divides"
    ),
    _Quirk(
        "torch's gradient of hardsigmoid",
        "hardsigmoid",
        "PRECISION_MODE",
        "1/6->float32",
        tensor="grad:x",
        dtype="float64",
        **_OF_TORCH,
    ).because("Torch's backward for float64 multiplies by 1/6 in float32"),
    _Quirk("torch's sign of NaN", "sign", "NONFINITE", "nan->0", **_OF_TORCH).because("Torch's sign of NaN is 0, Paddle's is NaN"),
    _Quirk(
        "extrema that pass over NaN",
        "pool2d pool3d max_pool2d_with_index max_pool3d_with_index put_along_axis",
        ("NONFINITE", "SEMANTICS"),
        ("nan-passed-over", "nan-skipped"),
    ).because(
        "Paddle's maxima over windows, and extrema that are put along an axis, hide NaN, and of -inf alone the maximum is the "
        "lowest finite number"
    ),
    _Quirk(
        "whole gradient to each of equal elements",
        "p_norm vector_norm send_u_recv segment_pool",
        "SEMANTICS",
        "whole-to-each",
        tensor="grad:x",
        paddle=">=2.6,<3.4",
    ).because(
        "of several equal elements that are the largest (or smallest) Paddle gives each the whole gradient, where one may have "
        "it or all of them a share: the sum over them is a multiple of what arrived"
    ),
    _Quirk(
        "whole gradient to each of equal extrema", "max min", "SEMANTICS", "whole-to-each", tensor="grad:x", paddle="<3.1"
    ).because("up to 3.0 Paddle's max and min give each of several equal elements the whole gradient; later ones share it"),
    _Quirk("torch's sqrt for pow", "pow", "NONFINITE", "sqrt-for-pow", **_OF_TORCH).because(
        "Torch computes x ** 0.5 as sqrt(x), which is NaN at -inf; C's pow(-inf, 0.5) is +inf"
    ),
    _Quirk("gradient of a product with a zero", "prod", "NONFINITE", "product/element", tensor="grad:x").because(
        "Paddle's gradient divides the product by each element: NaN where that is 0"
    ),
    _Quirk("power means in float32", "lp_pool2d", _ANY, "powers->float32", dtype="float64").because(
        "Paddle's power means add powers in float32, also of float64"
    ),
    _Quirk("range left on the way", "*", _ANY, "range", side=None, paddle=None).because(
        "operands and result are numbers of the dtype, but the square of what is met between them is not: there it depends on "
        "the order of the steps whether the result is infinite, NaN or 0"
    ),
)
