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
_OF_TORCH = {"side": "torch", "torch": ">=2.4,<2.16", "paddle": None}

# Ops whose kernels take a Python number as float32 beside float64 tensors.
_OPS = """pow addmm baddbmm elu celu selu softshrink hardshrink hardtanh hardsigmoid stanh rrelu smooth_l1_loss huber_loss
label_smooth cross_entropy batch_norm instance_norm group_norm local_response_norm p_norm vector_norm frobenius_norm dist cdist
pairwise_distance normalize trapezoid cumulative_trapezoid multi_margin_loss pdist triplet_margin_loss weight_norm"""
_SINGLE = tuple(_OPS.split())
_RATES = "numbers beta1 beta2 epsilon rho mu momentum coefficient lr_ratio momentum_decay"  # of optimizers
_NUMBERS = ("numbers->float32", "1-epsilon->float32", "slope->float32", "1/p->float32", "1/p->float32+norm+number")


def _also(*names: str) -> tuple[str, ...]:
    """The same beside numbers that are held in float32."""
    return (*names, *(f"{name}+numbers->float32" for name in names))


_NORMS = (
    "p_norm",
    "vector_norm",
    "frobenius_norm",
    "dist",
    "normalize",
    "pairwise_distance",
    "pdist",
    "cdist",
    "weight_norm",
    "triplet_margin_loss",
)
_ANY = ("NONFINITE", "PRECISION_MODE", "SEMANTICS")

_ENTRIES: tuple[dict[str, Any], ...] = (
    {
        "name": "epsilon in float32",
        "op": "layer_norm",
        "dtype": "float64",
        "verdict": "PRECISION_MODE",
        "hypothesis": "epsilon->float32",
        "reason": "Paddle's layer_norm rounds epsilon to float32 even in float64, also in the gradients: 1e-5 becomes "
        "9.99999974738e-06",
    },
    {
        "name": "scale lost in the gradient",
        "op": "layer_norm",
        "tensor": "grad:x",
        "verdict": "SEMANTICS",
        "hypothesis": ("no-weight", "no-weight+epsilon->float32", "epsilon->float32+no-weight"),
        "reason": "Paddle's CPU layer_norm_grad leaves the scale out of x's gradient when the scale's own gradient is not asked "
        "for (a frozen layer norm, or paddle.grad(y, x))",
    },
    {
        "name": "number in float32",
        "op": _SINGLE,
        "dtype": "float64",
        "verdict": "PRECISION_MODE",
        "hypothesis": ("y->float32", "alpha->float32", "beta->float32", "alpha->float32+beta->float32", *_NUMBERS),
        "reason": "Paddle's kernels hold the Python numbers of a call in float32 even in float64, and compute with them there",
    },
    {
        "name": "master weight that stays as it was",
        "op": "sgd",
        "tensor": "master",
        "verdict": "SEMANTICS",
        "hypothesis": "not-written",
        "reason": "Paddle's sgd on a CPU updates a bfloat16 parameter alone, and not its master weight",
    },
    {
        "name": "number of an optimizer in float32",
        "op": ("adamw", "momentum", "lamb", "nadam", "adagrad", "adadelta", "rmsprop", "adamax", "radam"),
        "dtype": "float64",
        "verdict": "PRECISION_MODE",
        "hypothesis": tuple(f"{name}->float32" for name in _RATES.split()),
        "reason": "Paddle's kernels hold an optimizer's numbers (rates of decay, epsilon, coefficients) in float32 beside "
        "parameters of float64",
    },
    {
        "name": "softmax clipped at -64",
        "op": (
            "softmax",
            "log_softmax",
            "cross_entropy",
            "cross_entropy_with_softmax",
            "scaled_dot_product_attention",
            "fused_softmax_mask",
        ),
        "verdict": "SEMANTICS",
        "hypothesis": "clip=-64",
        "reason": "Paddle's CPU softmax computes exp(max(x - max, -64)): masked entries come out as 1.6e-28 and not as 0, and no "
        "loss is larger than 64 and the logarithm of the classes",
    },
    {
        "name": "log_softmax of minus infinity",
        "op": ("log_softmax", "cross_entropy"),
        "phase": "forward",
        "verdict": "NONFINITE",
        "hypothesis": "clip=-64",
        "reason": "no logarithm of Paddle's CPU softmax is less than -64 and that of the sum, also where x is -inf",
    },
    {
        "name": "softmax of NaN",
        "op": "softmax",
        "verdict": "NONFINITE",
        "hypothesis": ("nan-clipped", "clip=-64", "clip=-64+nan-clipped"),
        "reason": "Paddle's vectorised softmax takes a NaN in x - max for -64: a row with NaN, with +inf or of -inf alone comes "
        "out finite",
    },
    {
        "name": "sequential sum",
        "op": ("sum", "mean", "linear", "add", "subtract"),
        "verdict": "LOW_ACCURACY",
        "hypothesis": "sequential-sum",
        "reason": "Paddle's CPU sums over an axis (sum, mean, gradients of biases and of what was broadcast) add one term after "
        "the other, where Torch adds in a tree: the error grows with the length and not with its logarithm",
    },
    {
        "name": "range added up",
        "op": ("arange", "range"),
        "verdict": "PRECISION_MODE",
        "hypothesis": "step-added-up",
        "reason": "Paddle's CPU kernel adds the step up, where Torch multiplies it: the error grows with the length",
    },
    {
        "name": "group norm without a weight",
        "op": "group_norm",
        "tensor": "grad:x",
        "verdict": "SEMANTICS",
        "hypothesis": _also("mean-held", "mean-held+one-pass-variance"),
        "reason": "without a weight Paddle's CPU group_norm_grad leaves the mean of the incoming gradient out of x's gradient",
    },
    {
        "name": "whole Cholesky factor",
        "op": "cholesky_solve",
        "tensor": "grad:y",
        "verdict": "SEMANTICS",
        "hypothesis": "whole-factor",
        "reason": "Paddle's gradient of a Cholesky factor multiplies by the factor with what lies outside of its triangle",
    },
    {
        "name": "gradient of spectral norm",
        "op": "spectral_norm",
        "tensor": "grad:weight",
        "verdict": "SEMANTICS",
        "hypothesis": "sum-of-weight",
        "reason": "Paddle's gradient of spectral_norm takes the sum of the weight, element by element, where that of its product "
        "with the incoming gradient belongs",
    },
    {
        "name": "number added to a norm",
        "op": ("p_norm", "vector_norm", "frobenius_norm", "dist", "normalize", "pdist", "cdist", "weight_norm", "norm_except_dim"),
        "verdict": _ANY,
        "hypothesis": _also("norm+number", "squares+1e-12"),
        "reason": "Paddle's gradients of norms divide by norm^(p - 1) plus a number: 1e-12, of normalize its epsilon; "
        "norm_except_dim adds it to the sum of squares",
    },
    {
        "name": "powers that leave the range",
        "op": ("hypot", "atan2", "lp_pool2d", *_NORMS),
        "side": None,
        "verdict": _ANY,
        "hypothesis": _also("powers", "squares", "1/p->float32"),
        "reason": "powers are added up unscaled: a length is 0 or infinite where it is a common number of the dtype, "
        "and a gradient that divides by it NaN",
    },
    {
        "name": "erfinv by a quantile",
        "op": "erfinv",
        "verdict": _ANY,
        "hypothesis": "quantile",
        "reason": "Paddle's CPU erfinv is the normal distribution's quantile at (x + 1) / 2: the digits of small "
        "numbers are lost, and beyond 1 it is infinite",
    },
    {
        "name": "expm1 and log1p spelled out",
        "op": (
            "elu",
            "celu",
            "selu",
            "softplus",
            "mish",
            "logsigmoid",
            "binary_cross_entropy",
            "bce_loss",
            "soft_margin_loss",
        ),
        "side": None,
        "verdict": _ANY,
        "hypothesis": _also("exp(x)-1", "log(1+exp(x))", "log(exp+exp)", "log(1-x)", "log(1+exp)"),
        "reason": "Paddle computes exp(x) - 1, log(1 + exp(x)) and log(1 - x): of small numbers the digits are lost, "
        "in the gradients of elu and its like, too; that of celu multiplies an infinity by 0",
    },
    {
        "name": "gradient of silu",
        "op": ("silu", "swish"),
        "phase": "backward",
        "verdict": _ANY,
        "hypothesis": "exp(-x)",
        "reason": "Paddle's gradient of silu is made of exp(-x), which overflows below -88",
    },
    {
        "name": "logits at zero",
        "op": ("binary_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits"),
        "phase": "backward",
        "verdict": "SEMANTICS",
        "hypothesis": "slope-at-0",
        "reason": "Paddle's gradient at a logit of exactly 0 is too small by 1",
    },
    {
        "name": "label's part taken off",
        "op": "multi_margin_loss",
        "verdict": _ANY,
        "hypothesis": _also("label-taken-off"),
        "reason": "Paddle's multi_margin_loss adds up all classes and takes the label's own part off: of small losses "
        "the digits are lost",
    },
    {
        "name": "norms bounded together",
        "op": "cosine_similarity",
        "verdict": _ANY,
        "hypothesis": _also("bounded-together"),
        "reason": "Torch bounds each norm by eps from below, Paddle their product by its square",
    },
    {
        "name": "half-centred covariance",
        "op": ("cov", "corrcoef"),
        "verdict": _ANY,
        "hypothesis": "half-centred",
        "reason": "Paddle's cov multiplies the centred rows by the rows as they are: of a large mean the digits are lost",
    },
    {
        "name": "variance in one pass",
        "op": "group_norm",
        "verdict": _ANY,
        "hypothesis": _also("one-pass-variance"),
        "reason": "Paddle's CPU group_norm takes the square of the mean from the mean of the squares: of a large mean "
        "the digits are lost",
    },
    {
        "name": "sinc of NaN",
        "op": "sinc",
        "verdict": _ANY,
        "hypothesis": "nan->1",
        "reason": "Paddle's sinc is 1 wherever its quotient is NaN",
    },
    {
        "name": "averages in float32",
        "op": ("pool2d", "pool3d", "avg_pool2d", "avg_pool3d", "local_response_norm"),
        "dtype": "float64",
        "phase": "backward",
        "verdict": "PRECISION_MODE",
        "hypothesis": _also("1/n->float32"),
        "reason": "Paddle's gradient of an average holds one over the number of elements in float32, also of float64",
    },
    {
        "name": "interpolation to one pixel",
        "op": ("linear_interp", "bilinear_interp", "bicubic_interp", "trilinear_interp"),
        "verdict": _ANY,
        "hypothesis": ("first-pixel", "first-pixel+weights->float32", "first-pixel+places->float32"),
        "reason": "where one pixel is wanted along an axis, Paddle takes the first one (of bicubic: what is "
        "extrapolated before it), and not the middle; of linear in its gradient, of linear and trilinear before 3.0",
    },
    {
        "name": "weights of interpolation in float32",
        "op": ("linear_interp", "bilinear_interp", "bicubic_interp", "trilinear_interp"),
        "verdict": _ANY,
        "hypothesis": ("weights->float32", "ratio->float32", "places->float32"),
        "reason": "Paddle computes places and weights of an interpolation in float32, also of float64",
    },
    {
        "name": "eigenvalues of several matrices",
        "op": ("eigh", "eigvalsh"),
        "phase": "backward",
        "verdict": "SEMANTICS",
        "hypothesis": ("first-of-batch", "gradients-in-turn"),
        "reason": "of a batch of matrices, Paddle's gradient of eigh takes those of the first one's eigenvalues for "
        "all, that of eigvalsh takes them in another order",
    },
    {
        "name": "vectors of eigenvalues near the real axis",
        "op": "eig",
        "tensor": "vectors",
        "verdict": "SEMANTICS",
        "hypothesis": "pairs-of-reals",
        "reason": "Paddle's eig takes eigenvalues that are less than 1e-6 off the real axis for real ones, and gives the "
        "real and the imaginary part of their vectors for two vectors",
    },
    {
        "name": "small determinants",
        "op": "det",
        "phase": "backward",
        "verdict": "SEMANTICS",
        "hypothesis": ("below-1e-12->0", "below-1e-05->0"),
        "reason": "where a determinant of the batch is below 1e-5 (float64: 1e-12), Paddle's gradient of all of them is zero",
    },
    {
        "name": "slogdet through the determinant",
        "op": ("slogdet", "slogdet_v2"),
        "verdict": _ANY,
        "hypothesis": "through-determinant",
        "reason": "Paddle's slogdet is the logarithm of the determinant, which may have left the range",
    },
    {
        "name": "one squaring too few",
        "op": "matrix_exp",
        "verdict": "PRECISION_MODE",
        "hypothesis": ("few-squarings-7", "few-squarings-13"),
        "reason": "Paddle halves a matrix once too few before the Pade approximant of its exponential, which is not "
        "made for such norms",
    },
    {
        "name": "torch's exponential of degree 8",
        "op": "matrix_exp",
        "phase": "forward",
        "verdict": "PRECISION_MODE",
        "hypothesis": ("degree-8 of float32", "degree-8 of float64"),
        "reason": "For one matrix of a norm of 0.05 to 0.58 (in float64 of 0.0003 to 0.05) Torch's polynomial has a wrong "
        "coefficient",
        **_OF_TORCH,
        "torch": ">=2.4,<2.14",
    },
    {
        "name": "pinv through vectors",
        "op": "pinv",
        "phase": "backward",
        "verdict": _ANY,
        "hypothesis": "through-vectors",
        "reason": "Paddle's gradient of pinv is that of the singular vectors (of a Hermitian matrix: eigenvectors): "
        "NaN where values are equal, and symmetric where Torch's is that of any matrix",
    },
    {
        "name": "digamma's slope of large negative numbers",
        "op": "digamma",
        "phase": "backward",
        "dtype": "float32",
        "verdict": _ANY,
        "hypothesis": "nine-terms",
        "reason": "Paddle's float32 trigamma adds nine terms, which do not come to where its series begins: below -8 it is wrong",
    },
    {
        "name": "gradient of gammaln",
        "op": "gammaln",
        "phase": "backward",
        "verdict": "PRECISION_MODE",
        "hypothesis": "five-terms",
        "reason": "the digamma in Paddle's gradient of gammaln is good to 1e-13, also in float64",
    },
    {
        "name": "incomplete gamma functions",
        "op": ("gammainc", "gammaincc"),
        "side": None,
        "verdict": _ANY,
        "hypothesis": ("plain-series", "1-gammaincc"),
        "reason": "the power, the exponential and the gamma function before the series are not scaled, and the smaller "
        "of both functions is one less the larger: digits are lost, and gradients NaN",
    },
    {
        "name": "torch's incomplete gamma functions",
        "op": ("gammainc", "gammaincc"),
        "verdict": "PRECISION_MODE",
        "hypothesis": "near-series",
        "reason": "Torch's series for large operands that are near one another is good to nine digits",
        **_OF_TORCH,
    },
    {
        "name": "torch's trigamma",
        "op": ("digamma", "polygamma"),
        "verdict": _ANY,
        "hypothesis": "six-terms",
        "reason": "Torch's trigamma is good to nine digits, and finite at its poles",
        **_OF_TORCH,
    },
    {
        "name": "shares that do not sum to one",
        "op": "cross_entropy",
        "tensor": "grad:input",
        "verdict": "SEMANTICS",
        "hypothesis": "softmax-minus-label",
        "reason": "of soft labels that sum to s, the gradient is s * softmax(x) - label; Paddle's is softmax(x) - label",
    },
    {
        "name": "logsumexp of infinities",
        "op": "logsumexp",
        "verdict": "NONFINITE",
        "hypothesis": "infinite-maximum",
        "reason": "Paddle's logsumexp subtracts an infinite maximum: a row of -inf, or one with +inf, gives NaN for -inf or +inf",
    },
    {
        "name": "relu of NaN",
        "op": "relu",
        "phase": "forward",
        "verdict": "NONFINITE",
        "hypothesis": "nan->0",
        "reason": "Paddle's CPU relu turns NaN into 0",
    },
    {
        "name": "sqrt of infinity and of denormals",
        "op": ("sqrt", "rsqrt"),
        "dtype": "float32",
        "verdict": ("NONFINITE", "PRECISION_MODE"),
        "hypothesis": ("inf->nan", "denormals->0", "denormals->0+inf->nan"),
        "reason": "Paddle's vectorised float32 sqrt gives NaN for +inf and, as rsqrt does, takes denormal numbers for 0",
    },
    {
        "name": "float16 exp wraps around",
        "op": "exp",
        "phase": "forward",
        "dtype": "float16",
        "verdict": "SEMANTICS",
        "hypothesis": "exponent+64",
        "reason": "Paddle's CPU exp of float16 numbers below -53.37 is 2**64 times too large: up to 1.2e-4 and not 0",
    },
    {
        "name": "torch's renorm",
        "op": "renorm",
        "verdict": "SEMANTICS",
        "hypothesis": "norm+1e-7",
        "reason": "Torch adds 1e-7 to the norm by which it divides",
        **_OF_TORCH,
    },
    {
        "name": "torch's gradient of hardsigmoid",
        "op": "hardsigmoid",
        "dtype": "float64",
        "tensor": "grad:x",
        "verdict": "PRECISION_MODE",
        "hypothesis": "1/6->float32",
        "reason": "Torch's backward for float64 multiplies by 1/6 in float32",
        **_OF_TORCH,
    },
    {
        "name": "torch's sign of NaN",
        "op": "sign",
        "verdict": "NONFINITE",
        "hypothesis": "nan->0",
        "reason": "Torch's sign of NaN is 0, Paddle's is NaN",
        **_OF_TORCH,
    },
    {
        "name": "extrema that pass over NaN",
        "op": ("pool2d", "pool3d", "max_pool2d_with_index", "max_pool3d_with_index", "put_along_axis"),
        "verdict": ("NONFINITE", "SEMANTICS"),
        "hypothesis": ("nan-passed-over", "nan-skipped"),
        "reason": "Paddle's maxima over windows, and extrema that are put along an axis, hide NaN, and of -inf alone "
        "the maximum is the lowest finite number",
    },
    {
        "name": "whole gradient to each of equal elements",
        "op": ("p_norm", "vector_norm", "send_u_recv", "segment_pool"),
        "tensor": "grad:x",
        "verdict": "SEMANTICS",
        "hypothesis": "whole-to-each",
        "reason": "of several equal elements that are the largest (or smallest) Paddle gives each the whole gradient, where one "
        "may have it or all of them a share: the sum over them is a multiple of what arrived",
        "paddle": ">=2.6,<3.4",
    },
    {
        "name": "whole gradient to each of equal extrema",
        "op": ("max", "min"),
        "tensor": "grad:x",
        "verdict": "SEMANTICS",
        "hypothesis": "whole-to-each",
        "reason": "up to 3.0 Paddle's max and min give each of several equal elements the whole gradient; later ones share it",
        "paddle": "<3.1",
    },
    {
        "name": "torch's sqrt for pow",
        "op": "pow",
        "verdict": "NONFINITE",
        "hypothesis": "sqrt-for-pow",
        "reason": "Torch computes x ** 0.5 as sqrt(x), which is NaN at -inf; C's pow(-inf, 0.5) is +inf",
        **_OF_TORCH,
    },
    {
        "name": "gradient of a product with a zero",
        "op": "prod",
        "tensor": "grad:x",
        "verdict": "NONFINITE",
        "hypothesis": "product/element",
        "reason": "Paddle's gradient divides the product by each element: NaN where that is 0",
    },
    {
        "name": "power means in float32",
        "op": "lp_pool2d",
        "dtype": "float64",
        "verdict": _ANY,
        "hypothesis": "powers->float32",
        "reason": "Paddle's power means add powers in float32, also of float64",
    },
    {
        "name": "range left on the way",
        "op": "*",
        "side": None,
        "paddle": None,
        "verdict": _ANY,
        "hypothesis": "range",
        "reason": "operands and result are numbers of the dtype, but the square of what is met between them is not: "
        "there it depends on the order of the steps whether the result is infinite, NaN or 0",
    },
)
QUIRKS = tuple({key: value for key, value in {**_OF_PADDLE, **entry}.items() if value is not None} for entry in _ENTRIES)
