"""Known differences between the two frameworks' kernels: data only, in the keys of ``known_differences.Quirk``.

An entry gives a name and a reason to a verdict that is right: the difference is real, and somebody has already looked into it. None
is muted; a user mutes one by its name. Each was seen on the versions that it names (``tests/catalogue/test_quirks.py`` shows
each of them again) and says nothing about others: a version range ends where nobody looked. Each has a ``hypothesis``, spelled
out: a formula that the verdict fitted to the values, with nothing but rounding left over, so that a fault in its place or beside it
is not taken for the known difference.
"""

from __future__ import annotations

from typing import Any

_SEEN = {"paddle": ">=3.3,<3.4"}
_TORCH_SEEN = {"torch": ">=2.13,<2.14"}

# Ops whose kernels take a Python number as float32 beside float64 tensors.
_OPS = """pow addmm baddbmm elu celu selu softshrink hardshrink hardtanh hardsigmoid stanh rrelu smooth_l1_loss huber_loss
label_smooth cross_entropy batch_norm instance_norm group_norm local_response_norm p_norm vector_norm frobenius_norm dist cdist
pairwise_distance normalize trapezoid cumulative_trapezoid multi_margin_loss"""
_SINGLE = tuple(_OPS.split())
_NUMBERS = ("numbers->float32", "1-epsilon->float32", "slope->float32", "1/p->float32", "1/p->float32+1e-12")

QUIRKS: tuple[dict[str, Any], ...] = (
    {
        "name": "epsilon in float32",
        "op": "layer_norm",
        "dtype": "float64",
        "side": "paddle",
        "verdict": "PRECISION_MODE",
        "hypothesis": "epsilon->float32",
        "reason": "Paddle's layer_norm rounds epsilon to float32 even in float64, also in the gradients: 1e-5 becomes "
        "9.99999974738e-06",
        **_SEEN,
    },
    {
        "name": "scale lost in the gradient",
        "op": "layer_norm",
        "tensor": "grad:x",
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": ("no-weight", "no-weight+epsilon->float32", "epsilon->float32+no-weight"),
        "reason": "Paddle's CPU layer_norm_grad leaves the scale out of x's gradient when the scale's own gradient is not asked "
        "for (a frozen layer norm, or paddle.grad(y, x))",
        **_SEEN,
    },
    {
        "name": "number in float32",
        "op": _SINGLE,
        "dtype": "float64",
        "side": "paddle",
        "verdict": "PRECISION_MODE",
        "hypothesis": ("y->float32", "alpha->float32", "beta->float32", "alpha->float32+beta->float32", *_NUMBERS),
        "reason": "Paddle's kernels hold the Python numbers of a call in float32 even in float64, and compute with them there",
        **_SEEN,
    },
    {
        "name": "softmax clipped at -64",
        "op": ("softmax", "log_softmax", "cross_entropy", "cross_entropy_with_softmax", "scaled_dot_product_attention"),
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": "clip=-64",
        "reason": "Paddle's CPU softmax computes exp(max(x - max, -64)): masked entries come out as 1.6e-28 and not as 0, and no "
        "loss is larger than 64 and the logarithm of the classes",
        **_SEEN,
    },
    {
        "name": "log_softmax of minus infinity",
        "op": "log_softmax",
        "phase": "forward",
        "side": "paddle",
        "verdict": "NONFINITE",
        "hypothesis": "clip=-64",
        "reason": "no logarithm of Paddle's CPU softmax is less than -64 and that of the sum, also where x is -inf",
        **_SEEN,
    },
    {
        "name": "softmax of NaN",
        "op": "softmax",
        "side": "paddle",
        "verdict": "NONFINITE",
        "hypothesis": ("nan-clipped", "clip=-64", "clip=-64+nan-clipped"),
        "reason": "Paddle's vectorised softmax takes a NaN in x - max for -64: a row with NaN, with +inf or of -inf alone comes "
        "out finite",
        **_SEEN,
    },
    {
        "name": "sequential sum",
        "op": ("sum", "mean", "linear", "add", "subtract"),
        "side": "paddle",
        "verdict": "LOW_ACCURACY",
        "hypothesis": "sequential-sum",
        "reason": "Paddle's CPU sums over an axis (sum, mean, gradients of biases and of what was broadcast) add one term after "
        "the other, where Torch adds in a tree: the error grows with the length and not with its logarithm",
        **_SEEN,
    },
    {
        "name": "range added up",
        "op": ("arange", "range"),
        "side": "paddle",
        "verdict": "PRECISION_MODE",
        "hypothesis": "step-added-up",
        "reason": "Paddle's CPU kernel adds the step up, where Torch multiplies it: the error grows with the length",
        **_SEEN,
    },
    {
        "name": "group norm without a weight",
        "op": "group_norm",
        "tensor": "grad:x",
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": "mean-held",
        "reason": "without a weight Paddle's CPU group_norm_grad leaves the mean of the incoming gradient out of x's gradient",
        **_SEEN,
    },
    {
        "name": "whole Cholesky factor",
        "op": "cholesky_solve",
        "tensor": "grad:y",
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": "whole-factor",
        "reason": "Paddle's gradient of a Cholesky factor multiplies by the factor with what lies outside of its triangle",
        **_SEEN,
    },
    {
        "name": "gradient of spectral norm",
        "op": "spectral_norm",
        "tensor": "grad:weight",
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": "sum-of-weight",
        "reason": "Paddle's gradient of spectral_norm takes the sum of the weight, element by element, where that of its product "
        "with the incoming gradient belongs",
        **_SEEN,
    },
    {
        "name": "number added to a norm",
        "op": ("p_norm", "vector_norm", "frobenius_norm", "dist", "normalize"),
        "phase": "backward",
        "side": "paddle",
        "verdict": ("SEMANTICS", "WRONG"),
        "hypothesis": "norm+1e-12",
        "reason": "Paddle's gradients of norms divide by the norm plus 1e-12",
        **_SEEN,
    },
    {
        "name": "erfinv by a quantile",
        "op": "erfinv",
        "side": "paddle",
        "verdict": "PRECISION_MODE",
        "hypothesis": "quantile",
        "reason": "Paddle's CPU erfinv is the normal distribution's quantile at (x + 1) / 2: the digits of small numbers are lost",
        **_SEEN,
    },
    {
        "name": "expm1 and log1p spelled out",
        "op": ("elu", "softplus"),
        "phase": "forward",
        "side": "paddle",
        "verdict": "PRECISION_MODE",
        "hypothesis": ("exp(x)-1", "log(1+exp(x))"),
        "reason": "Paddle's elu computes exp(x) - 1, and its softplus log(1 + exp(x)): of small numbers the digits are lost",
        **_SEEN,
    },
    {
        "name": "shares that do not sum to one",
        "op": "cross_entropy",
        "tensor": "grad:input",
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": "softmax-minus-label",
        "reason": "of soft labels that sum to s, the gradient is s * softmax(x) - label; Paddle's is softmax(x) - label",
        **_SEEN,
    },
    {
        "name": "logsumexp of infinities",
        "op": "logsumexp",
        "side": "paddle",
        "verdict": "NONFINITE",
        "hypothesis": "infinite-maximum",
        "reason": "Paddle's logsumexp subtracts an infinite maximum: a row of -inf, or one with +inf, gives NaN for -inf or +inf",
        **_SEEN,
    },
    {
        "name": "relu of NaN",
        "op": "relu",
        "phase": "forward",
        "side": "paddle",
        "verdict": "NONFINITE",
        "hypothesis": "nan->0",
        "reason": "Paddle's CPU relu turns NaN into 0",
        **_SEEN,
    },
    {
        "name": "sqrt of infinity and of denormals",
        "op": ("sqrt", "rsqrt"),
        "dtype": "float32",
        "side": "paddle",
        "verdict": ("NONFINITE", "PRECISION_MODE"),
        "hypothesis": ("inf->nan", "denormals->0", "denormals->0+inf->nan"),
        "reason": "Paddle's vectorised float32 sqrt gives NaN for +inf and, as rsqrt does, takes denormal numbers for 0",
        **_SEEN,
    },
    {
        "name": "float16 exp wraps around",
        "op": "exp",
        "phase": "forward",
        "dtype": "float16",
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": "exponent+64",
        "reason": "Paddle's CPU exp of float16 numbers below -53.37 is 2**64 times too large: up to 1.2e-4 and not 0",
        **_SEEN,
    },
    {
        "name": "torch's renorm",
        "op": "renorm",
        "side": "torch",
        "verdict": "SEMANTICS",
        "hypothesis": "norm+1e-7",
        "reason": "Torch adds 1e-7 to the norm by which it divides",
        **_TORCH_SEEN,
    },
    {
        "name": "torch's gradient of hardsigmoid",
        "op": "hardsigmoid",
        "dtype": "float64",
        "tensor": "grad:x",
        "side": "both",
        "verdict": "PRECISION_MODE",
        "hypothesis": ("numbers->float32", "1/6->float32"),
        "reason": "Torch's backward for float64 multiplies by 1/6 in float32, and Paddle's by 0.1666667 in float32",
        **_SEEN,
        **_TORCH_SEEN,
    },
    {
        "name": "torch's sign of NaN",
        "op": "sign",
        "side": "torch",
        "verdict": "NONFINITE",
        "hypothesis": "nan->0",
        "reason": "Torch's sign of NaN is 0, Paddle's is NaN",
        **_TORCH_SEEN,
    },
    {
        "name": "extrema that pass over NaN",
        "op": ("pool2d", "pool3d", "max_pool2d_with_index", "max_pool3d_with_index", "put_along_axis"),
        "side": "paddle",
        "verdict": ("NONFINITE", "SEMANTICS"),
        "hypothesis": ("nan-passed-over", "nan-skipped"),
        "reason": "Paddle's maxima over windows, and extrema that are put along an axis, hide NaN, and of -inf alone "
        "the maximum is the lowest finite number",
        **_SEEN,
    },
    {
        "name": "whole gradient to each of equal elements",
        "op": ("p_norm", "vector_norm", "send_u_recv", "segment_pool"),
        "tensor": "grad:x",
        "side": "paddle",
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
        "side": "paddle",
        "verdict": "SEMANTICS",
        "hypothesis": "whole-to-each",
        "reason": "up to 3.0 Paddle's max and min give each of several equal elements the whole gradient; later ones share it",
        "paddle": "<3.1",
    },
    {
        "name": "torch's sqrt for pow",
        "op": "pow",
        "side": "torch",
        "verdict": "NONFINITE",
        "hypothesis": "sqrt-for-pow",
        "reason": "Torch computes x ** 0.5 as sqrt(x), which is NaN at -inf; C's pow(-inf, 0.5) is +inf",
        **_TORCH_SEEN,
    },
    {
        "name": "gradient of a product with a zero",
        "op": "prod",
        "tensor": "grad:x",
        "side": "paddle",
        "verdict": "NONFINITE",
        "hypothesis": "product/element",
        "reason": "Paddle's gradient divides the product by each element: NaN where that is 0",
        **_SEEN,
    },
)
