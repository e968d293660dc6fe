"""Torch's steps (ATen ops): which round, which add terms, which consist of others; fused kernels and special functions."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..torch_versions import decompositions_of

# ---- Special functions for which Torch's own in float64 are no oracle, and the steps by which kernels compute some.
#
# Torch 2.13's float64 trigamma is good to nine digits, and so are its incomplete gamma functions where both operands are large and
# near one another; where the first is small, the upper one is 1 - P (docs/defects.md). All its other special functions in the table
# of ops are good to their last digits. ``tests/numerics/test_special.py`` compares both with mpmath.


def polygamma(order: int, x: torch.Tensor) -> torch.Tensor:
    """``torch.polygamma``, whose second function is the Hurwitz zeta function, reflected below 0."""
    if order != 1:
        return torch.ops.aten.polygamma(order, x)
    beyond = torch.where(x > 0, x, 1 - x)
    above = torch.special.zeta(2.0, beyond).masked_fill(beyond == math.inf, 0.0)
    sine = torch.sin(math.pi * (x - x.round()))  # of the distance to the pole, which is exact
    return torch.where(x > 0, above, (math.pi / sine) ** 2 - above)


def lower(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The lower incomplete gamma function P(a, x), regularised."""
    return _incomplete(a, x, False, torch.ops.aten.igamma)


def upper(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The upper one, Q(a, x) = 1 - P(a, x)."""
    return _incomplete(a, x, True, torch.ops.aten.igammac)


def _incomplete(a: torch.Tensor, x: torch.Tensor, complement: bool, kernel: Any) -> torch.Tensor:
    """Torch's, and mpmath's where Torch's lose digits: of numbers large and near one another, and Q of small ones, from 1 - P.

    Torch takes an expansion of nine digits up to 0.3 apart, of 200 and more up to 4.5 / sqrt(a). From a million on, where mpmath's
    series is long, that expansion is good to twelve.
    """
    result = kernel(a, x)
    a, x = a.expand(result.shape), x.expand(result.shape)
    near = (x - a).abs() / a < torch.where(a < 1000, 0.5, 4.5 / a.sqrt())
    poor = (a > 20) & (a < 1e6) & near
    if complement:
        poor |= (a > 0) & (a < 0.01) & (x > 0) & (x < 1.2)
    for place in map(tuple, poor.nonzero().tolist()):
        result[place] = _regularised(float(a[place]), float(x[place]), complement)
    return result


@functools.lru_cache(4096)
def _regularised(a: float, x: float, complement: bool) -> float:
    """P(a, x), or with ``complement`` Q, rounded from 30 digits."""
    import mpmath  # which Torch requires, too; loaded where a program calls such a function alone

    with mpmath.workdps(30):
        return float(mpmath.gammainc(a, *((x, mpmath.inf) if complement else (0, x)), regularized=True))


# ---- As kernels compute them: where terms cancel, a bound relative to the result would accuse every kernel.


def digamma(x: torch.Tensor) -> torch.Tensor:
    """By recurrence and the asymptotic series: near its root 1.46 the terms are a thousand times the result."""
    below = x <= 0
    at = torch.where(below, 1 - x, x)
    total = torch.where(below, -math.pi / torch.tan(math.pi * (x - x.round())), torch.zeros_like(x))
    for _ in range(10):
        low = at < 10
        total = total - torch.where(low, 1 / at, torch.zeros_like(at))
        at = torch.where(low, at + 1, at)
    square = 1 / (at * at)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132 - square / 47)))))
    return total + (torch.log(at) - 0.5 / at - series)


def sinc(x: torch.Tensor) -> torch.Tensor:
    """By the sine of pi x, which is rounded before."""
    at = math.pi * x
    return torch.where(x == 0, torch.ones_like(x), torch.sin(at) / at)


def lgamma(x: torch.Tensor) -> torch.Tensor:
    """Below 0 by reflection, whose terms cancel near its roots."""
    reflected = math.log(math.pi) - torch.log(torch.sin(math.pi * (x - x.round())).abs()) - torch.lgamma(1 - x)
    return torch.where(x < 0, reflected, torch.lgamma(x))


# ---- The table of Torch's steps (ATen ops): which round, which add up terms, and which consist of others.
#
# A step in none of the tables counts as a function whose operands and result are each a few roundings off.

EXACT, PLAIN, FUNCTION, SPECIAL, UNKNOWN = "exact", "plain", "function", "special", "unknown"
SUM, COUNTED, GROWING, NORMWISE = "sum", "counted", "growing", "normwise"
WITH_TERMS = (SUM, COUNTED, GROWING, NORMWISE, UNKNOWN)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Values are moved, chosen or compared, and not rounded.
_EXACT = _names(
    """_adaptive_max_pool2d _copy_from _reshape_copy _to_copy _unique2 _unsafe_index _unsafe_view _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d abs adaptive_max_pool2d adaptive_max_pool3d amax amin argmax argmin
    argsort atleast_1d bucketize cat ceil channel_shuffle clamp clamp_max clamp_min clone constant_pad_nd contiguous copy
    copysign cummax cummin diag diag_embed diagonal_copy embedding empty_like eq expand_copy fill flip floor fmax fmin frac
    full_like gather ge gt hardtanh hardtanh_backward im2col index index_copy index_fill index_select isfinite isinf isnan kthvalue
    le leaky_relu_inplace lift_fresh lift_fresh_copy logical_and logical_not lt masked_fill masked_scatter masked_select max
    max_pool1d max_pool2d max_pool2d_with_indices max_pool3d_with_indices maximum median min minimum mode nan_to_num
    nanmedian native_channel_shuffle ne neg new_empty new_full new_ones new_zeros nonzero ones_like permute_copy
    pixel_shuffle pixel_unshuffle put reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 renorm repeat
    repeat_interleave replication_pad1d replication_pad2d replication_pad3d resize roll rot90 round scatter select_backward
    select_scatter set sgn sign slice_backward slice_scatter sort split_copy stack take threshold threshold_backward tile
    topk tril triu trunc unfold_copy unique_dim unsafe_chunk unsafe_split unsafe_split_with_sizes upsample_nearest1d
    upsample_nearest2d upsample_nearest3d view_copy where zero zeros_like
    as_strided detach squeeze swapaxes swapdims t transpose unsqueeze"""  # the last line: views, made in place
)
# One IEEE operation.
_PLAIN = _names("""add conj_physical div floor_divide fmod mul reciprocal remainder rsub sqrt square sub true_divide""")
# Elementwise functions, a few units in the last place off in good kernels.
_FUNCTION = _names(
    """_prelu_kernel acos acosh angle asin asinh atan atan2 atanh complex cos cosh exp exp2 expm1 float_power hypot leaky_relu
    leaky_relu_backward log log10 log1p log2 logaddexp2 logit native_dropout polar pow rsqrt sigmoid sin sinc sinh
    special_entr special_xlog1py tan tanh xlogy"""
)
# Special functions, by polynomials: torch's erf in float32 is up to 6 units off.
_SPECIAL = _names(
    """digamma erf erfc erfinv i0 igamma igammac lgamma mvlgamma ndtri polygamma special_erfcx special_i0e special_i1
    special_i1e special_log_ndtr special_ndtri special_zeta"""
)
# Linear in each of their float operands: the same step of the magnitudes gives the sum of the terms' magnitudes.
_SUM = _names(
    """_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward _embedding_bag
    _trilinear _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa
    _upsample_bilinear2d_aa_backward avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward bmm
    convolution convolution_backward dot mean mm mv nansum sum trace upsample_bicubic2d upsample_bicubic2d_backward
    upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward upsample_trilinear3d
    upsample_trilinear3d_backward vdot"""
)
# The same with coefficients 0 and 1: the step of ones counts the terms.
_COUNTED = _names(
    """_unsafe_index_put _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward adaptive_max_pool2d_backward
    adaptive_max_pool3d_backward col2im cumsum embedding_dense_backward index_add index_put max_pool2d_with_indices_backward
    max_pool3d_with_indices_backward reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward
    replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward scatter_add unfold_backward
    upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward"""
)
# Factorisations of matrices and what is solved by them: good kernels give the result of a matrix near to theirs, as their norms go
# (Higham, Accuracy and Stability of Numerical Algorithms, chapters 9 to 20): an element of 0 may be off as much as any other.
_NORMWISE = _names(
    """_linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky linalg_cholesky_ex
    linalg_eig linalg_eigvals linalg_inv_ex linalg_ldl_factor_ex linalg_lstsq linalg_lu linalg_lu_factor_ex linalg_matrix_exp
    linalg_pinv linalg_qr"""
)
_SPECTRA = _names("""_fft_c2c _fft_c2r _fft_r2c""")
_MIXED = _SPECTRA | _names("""linalg_householder_product ormqr""")
# Beside sums and views: a move too small for a rounding moves their results by as little, wherever the operands lie.
_SMOOTH = _names(
    """_reshape_copy _to_copy _unsafe_view add cat clone constant_pad_nd contiguous copy cos erf exp expand_copy flip full_like
    im2col mul neg ones_like permute_copy repeat roll rsub select_backward sigmoid sin slice_backward square stack sub tanh
    zeros_like"""
)
# Each term adds a rounding relative to the result.
_GROWING = _names("""cumprod prod""")

_DECOMPOSED = _names(
    """_batch_norm_no_update _batch_norm_with_update _euclidean_dist _fused_rms_norm _log_softmax _log_softmax_backward_data
    _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _prelu_kernel_backward
    _softmax _softmax_backward_data _weight_norm_interface addcdiv addcmul addmm addmv baddbmm
    batch_norm_backward binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits celu elu
    elu_backward gelu gelu_backward glu glu_backward grid_sampler_2d hardsigmoid hardsigmoid_backward hardswish
    hardswish_backward huber_loss huber_loss_backward lerp linalg_vector_norm log_sigmoid_backward
    log_sigmoid_forward logaddexp logsumexp mish mish_backward mse_loss mse_loss_backward native_batch_norm
    native_batch_norm_backward native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
    nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward norm selu sigmoid_backward silu silu_backward
    smooth_l1_loss smooth_l1_loss_backward soft_margin_loss softplus softplus_backward softshrink std std_mean tanh_backward"""
)


def _variance(
    x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Variance and mean in two passes."""
    over = list(range(x.ndim)) if dim is None or (isinstance(dim, Sequence) and not dim) else dim
    mean = x.mean(over, keepdim=True)
    count = x.numel() / max(mean.numel(), 1)
    squares = ((x - mean) * (x - mean)).sum(over, keepdim=keepdim)
    free = max(count - (1 if correction is None else float(correction)), 0.0)
    return squares / free, mean if keepdim else mean.reshape(squares.shape)


def _flagged(x: torch.Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in Torch's older spelling."""
    return _variance(x, dim, correction=int(unbiased), keepdim=keepdim)


def _decompositions() -> dict[Any, Callable[..., Any]]:
    aten = torch.ops.aten
    packets = [getattr(aten, name) for name in sorted(_DECOMPOSED) if hasattr(aten, name)]
    decompositions: dict[Any, Callable[..., Any]] = decompositions_of(packets)
    decompositions[aten.var_mean.correction] = _variance
    decompositions[aten.var.correction] = lambda *args, **kwargs: _variance(*args, **kwargs)[0]
    decompositions[aten.var_mean.dim] = _flagged
    decompositions[aten.var.dim] = lambda *args, **kwargs: _flagged(*args, **kwargs)[0]
    return decompositions


DECOMPOSED = _decompositions()
_unwrapped = functools.cache(inspect.unwrap)


def parts(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
    """What a step is made of; None where it is not taken apart. Without Torch's promotion of dtypes, where all tensors have one."""
    decomposition = DECOMPOSED.get(func)
    if decomposition is None or any(isinstance(a, torch.Tensor) and not _floating(a) for a in (*args, *kwargs.values())):
        return decomposition
    return _unwrapped(decomposition)


# Steps that are not to their last digits in Torch's float64.
MENDED: dict[Any, Callable[..., torch.Tensor]] = {
    torch.ops.aten.igamma.default: lower,
    torch.ops.aten.igammac.default: upper,
    torch.ops.aten.polygamma.default: polygamma,
}
# Steps whose errors are not relative to the result: in good kernels, too, they are those of larger terms.
CANCELLING: dict[Any, Callable[..., torch.Tensor]] = {
    torch.ops.aten.sinc.default: sinc,
    torch.ops.aten.digamma.default: digamma,
    torch.ops.aten.lgamma.default: lgamma,
}


def _sampled(
    x: torch.Tensor, grid: torch.Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> torch.Tensor | None:
    """``grid_sample`` in steps: linear interpolation, the sum of the 4 or 8 neighbours of a place, 0 outside or of the border."""
    if mode != "bilinear" or padding_mode == "reflection":
        return None
    sizes = x.shape[:1:-1]  # of the grid's coordinates: width, height, depth
    places = [
        (grid[..., axis] + 1) / 2 * (size - 1) if align_corners else ((grid[..., axis] + 1) * size - 1) / 2
        for axis, size in enumerate(sizes)
    ]
    if padding_mode == "border":
        places = [place.clamp(0, size - 1) for place, size in zip(places, sizes)]
    low = [place.detach().floor() for place in places]
    shares = [(1 - (place - start), place - start) for place, start in zip(places, low)]
    batch = torch.arange(x.shape[0], device=x.device).view(-1, *[1] * len(sizes))
    terms = []
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        at = [start.long() + step for start, step in zip(low, corner)]
        inside = torch.stack([(places >= 0) & (places < size) for places, size in zip(at, sizes)]).all(0)
        index = (places.clamp(0, size - 1) for places, size in zip(at[::-1], sizes[::-1]))
        share = functools.reduce(torch.mul, (pair[step] for pair, step in zip(shares, corner)))
        terms.append(x[(batch, slice(None), *index)].movedim(-1, 1) * share.where(inside, 0.0).unsqueeze(1))
    return functools.reduce(torch.add, terms)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor | None:
    """Scaled dot product attention in steps: of as many heads, without dropout."""
    if dropout_p or query.shape[:-2] != key.shape[:-2]:
        return None
    logits = (query @ key.mT) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
    if attn_mask is not None:
        logits = logits.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else logits + attn_mask
    weighed: torch.Tensor = _Weighed.apply(logits, value)
    return weighed


class _Weighed(torch.autograd.Function):
    """Values weighed by the softmax of logits. Its gradient subtracts what the result gives, as fused kernels do.

    Where one weight is nearly 1, both terms cancel: plain steps round them together, and fused ones each by itself.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits, value)
        return _weights(logits) @ value

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        logits, value = ctx.saved_tensors
        weights = _weights(logits)
        sums = (grad * (weights @ value)).sum(-1, keepdim=True)
        return weights * (grad @ value.mT - sums), (weights.mT @ grad).sum_to_size(value.shape)


def _weights(logits: torch.Tensor) -> torch.Tensor:
    """The softmax, 0 in rows that are masked altogether."""
    return torch.softmax(logits, -1).masked_fill((logits == -math.inf).all(-1, keepdim=True), 0.0)


# Functions above autograd: the result has a backward of single steps. None: not for these arguments.
FUNCTIONS: dict[Any, Callable[..., torch.Tensor | None]] = {
    torch.nn.functional.grid_sample: _sampled,
    torch.nn.functional.scaled_dot_product_attention: _attention,
}


@functools.cache
def _named(func: Any) -> str:
    """How a step rounds, by its name."""
    name = func.overloadpacket.__name__.rstrip("_")
    if _is_view(func):
        return EXACT
    for kind, names in (
        (EXACT, _EXACT),
        (PLAIN, _PLAIN),
        (FUNCTION, _FUNCTION),
        (SPECIAL, _SPECIAL),
        (SUM, _SUM),
        (COUNTED, _COUNTED),
        (NORMWISE, _NORMWISE),
    ):
        if name in names:
            return kind
    return GROWING if name in _GROWING else UNKNOWN


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(result.alias_info is not None and not result.alias_info.is_write for result in returns)


def smooth(kind: str, func: Any) -> bool:
    """Whether a step jumps nowhere and has no singular point: linear ones, and functions with a slope everywhere."""
    return kind is SUM or _is_view(func) or func.overloadpacket.__name__.rstrip("_") in _SMOOTH


def kind(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """How a step rounds."""
    if func.namespace != "aten" and func.namespace != "prims":
        return UNKNOWN
    rounding = _named(func)
    if rounding is COUNTED and func.overloadpacket.__name__.rstrip("_") in ("index_put", "_unsafe_index_put"):
        return COUNTED if (len(args) > 3 and args[3]) or kwargs.get("accumulate") else EXACT
    if func.overloadpacket.__name__.rstrip("_") == "scatter_reduce" and not {"amax", "amin"}.isdisjoint(map(str, args)):
        return EXACT
    if rounding is EXACT or any(_floating(a) for a in (*args, *kwargs.values())):
        return rounding
    return EXACT


def _floating(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_floating(entry) for entry in value)
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


# Results, and operands, of steps that are marks (0 and 1) and no numbers to round.
_MARKS = {"multilabel_margin_loss_forward": (1,)}
_MARKED = {"multilabel_margin_loss_backward": (4,)}


@functools.cache
def marks(func: Any) -> tuple[int, ...]:
    """Which of a step's results are marks."""
    return _MARKS.get(func.overloadpacket.__name__, ())


@functools.cache
def marked(func: Any) -> tuple[int, ...]:
    """Which of a step's operands are marks."""
    return _MARKED.get(func.overloadpacket.__name__, ())


_ROUNDINGS = {PLAIN: 1.0, SUM: 1.0, COUNTED: 1.0, GROWING: 1.0, FUNCTION: 2.0, SPECIAL: 6.0, NORMWISE: 4.0, UNKNOWN: 4.0}


def roundings(kind: str) -> float:
    """Unit roundoffs of a step's own, of its result or of the sum of its terms' magnitudes."""
    return _ROUNDINGS[kind]


def each(args: Sequence[Any], function: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    """The arguments with ``function`` applied to float tensors, which gives new ones: a step may write into its first."""
    return [function(a) if isinstance(a, torch.Tensor) and _floating(a) else a for a in args]


def partial(func: Any, sums: Sequence[torch.Tensor], terms: Sequence[Any]) -> list[torch.Tensor]:
    """How large the sums are on the way; the magnitudes of averages are averages, too, and the sums so many times as large."""
    name = func.overloadpacket.__name__
    return [size * count for size, count in zip(sums, terms)] if "avg_pool" in name or name == "mean" else list(sums)


# Products, quotients and powers of numbers that are not 0 are neither 0 nor infinite, if the range holds them; exponentials and
# sums of finite numbers are not infinite.
_MULTIPLIED = _names("div mul pow reciprocal square true_divide")
_GROWN = _names("add cosh exp expm1 sinh sub") | _SUM


def beyond(func: Any, args: Sequence[Any], result: Any) -> torch.Tensor | None:
    """Where a step of finite numbers has left the range of float64; None where that cannot be."""
    name = func.overloadpacket.__name__.rstrip("_")
    if (name not in _MULTIPLIED and name not in _GROWN) or not isinstance(result, torch.Tensor) or result.is_complex():
        return None
    operands = [operand for operand in args if isinstance(operand, torch.Tensor) and _floating(operand)]
    gone = result.isinf()
    if name in _SUM:
        return gone if all(bool(operand.isfinite().all()) for operand in operands) else None
    if name in _MULTIPLIED:
        if not func._overloadname.endswith("mode"):  # a quotient that is rounded to a whole number may be 0
            gone = gone | (result == 0)
        operands += [torch.tensor(operand, dtype=torch.float64) for operand in args if isinstance(operand, (int, float))]
    for operand in operands:
        gone = gone & operand.isfinite() & ((operand != 0) if name in _MULTIPLIED else True)
    return gone


def ratio(args: Sequence[Any]) -> float:
    """Terms in one reduced output, at most: the elements of the first operand."""
    return float(max(args[0].numel(), 1))


def terms(func: Any, args: Sequence[Any]) -> float | tuple[float, ...]:
    """Terms in one output of a :data:`SUM`; for the three gradients of a convolution one number each."""
    name = func.overloadpacket.__name__
    if name in ("mm", "bmm", "dot", "vdot", "mv"):
        return float(max(args[0].shape[-1], 1))
    if name == "convolution":
        weight, transposed = args[1], args[6]
        return _taps(weight) * (weight.shape[0] / max(args[8], 1) if transposed else weight.shape[1])
    if name == "convolution_backward":
        grad, _, weight = args[:3]
        transposed, groups = args[7], max(args[9], 1)
        places = float(max(grad.numel() // max(grad.shape[1], 1), 1))
        return _taps(weight) * (weight.shape[1] if transposed else weight.shape[0] / groups), places, places
    if name.startswith(("upsample", "_upsample")):
        # A weight is the fraction of a place that was computed in the tensor's dtype: an error of the longest axis, not of k terms.
        spatial = [size for value in args if isinstance(value, torch.Tensor) for size in value.shape[2:]]
        return max(64.0, max(spatial, default=1) ** 2 / 4)
    if name.startswith("avg_pool"):
        return float(math.prod(args[2 if name.endswith("backward") else 1]))
    if name.startswith("_adaptive_avg_pool"):
        # The elements of an adaptive pool's window, at most; of its backward, the windows that meet in one element
        sizes = args[1].shape[2:] if isinstance(args[1], torch.Tensor) else args[1]
        extents = args[0].shape[-len(sizes) :]
        return float(math.prod(-(-a // max(b, 1)) + 1 for a, b in zip(extents, sizes)))
    if name in ("sum", "mean", "nansum") and len(args) > 1 and args[1] not in (None, []):
        axes = args[1] if isinstance(args[1], Sequence) else (args[1],)
        return float(math.prod(args[0].shape[axis] for axis in axes) if args[0].ndim else 1)
    return ratio(args)


def _taps(weight: torch.Tensor) -> float:
    return float(math.prod(weight.shape[2:]))


def unknown_terms(func: Any, args: Sequence[Any]) -> float:
    """For an unknown step: one term where it is elementwise, else as many as the longest axis of its operands has."""
    shapes = [a.shape for a in args if isinstance(a, torch.Tensor)]
    if torch.Tag.pointwise in func.tags or not shapes:
        return 1.0
    return float(max((size for shape in shapes for size in shape), default=1))


def mixed(kind: str, func: Any) -> bool:
    """Whether a step adds up its operands on ways of its own, on which infinities meet each other and numbers that are 0."""
    return kind is NORMWISE or func.overloadpacket.__name__ in _MIXED


def spectral(func: Any, args: Sequence[Any], result: torch.Tensor) -> torch.Tensor | None:
    """The sizes by which the results of a Fourier transform round: at least what is usual in it; None of other steps.

    Each is a sum of all operands with coefficients of one size. What cancels in all of it, as imaginary parts of a real tensor's
    do, cancels but for the rounding of its parts.
    """
    if func.overloadpacket.__name__ not in _SPECTRA or not result.numel():
        return None
    sizes = result.abs()
    return torch.maximum(sizes, sizes.square().mean(tuple(args[1]), keepdim=True).sqrt())


def widened(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], narrow: tuple[torch.dtype, ...], complexes: tuple[torch.dtype, ...]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a step that would answer in a narrower dtype, so that it does not; of another step the very same ones."""

    def change(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return torch.float64 if value in narrow else torch.complex128 if value in complexes else value
        return value

    if any(isinstance(a, torch.dtype) and (a in narrow or a in complexes) for a in (*args, *kwargs.values())):
        return [change(a) for a in args], {name: change(value) for name, value in kwargs.items()}
    return args, kwargs
