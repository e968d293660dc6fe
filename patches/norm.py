"""Normalisation: over trailing axes, over a batch, over groups of channels, over one instance, and to a norm of one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.numerics import models
from padiff_shim.table.op import Definition, Fault, Sample, op
from padiff_shim.torch_versions import batch_norm_kernel, weight_norm_kernel

from ._declarations import with_axes
from ._faults import GROUP_NORM, elementwise, factors, single
from ._norm_faults import EXCEPT_DIM, NORMALIZE, WEIGHT_NORM
from ._windows import to_first, to_last


@op(
    "x scale=None bias=None epsilon=1e-5 begin_norm_axis=1",
    promote="none",
    unread=("bias",),
    model=models.LayerNorm(),
    deviations={
        "float64": "Paddle rounds epsilon to float32",
        "gradient float64": "Paddle rounds epsilon to float32",
        "gradient": "Paddle leaves the scale out of x's gradient where the scale's own is not asked for",
    },
    samples=(
        Sample((4, 6), (6,), (6,)),
        Sample((4, 6), None, None, epsilon=1e-12),
        Sample((4, 6), (6,), None),
        Sample((4, 6), None, (6,)),
        Sample((2, 3, 4), (12,), (12,), epsilon=1e-6),
        Sample((2, 3, 4), (4,), (4,), epsilon=1e-6, begin_norm_axis=2),
    ),
)
def layer_norm(
    x: torch.Tensor, scale: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float, begin_norm_axis: int
) -> torch.Tensor:
    """``torch.nn.functional.layer_norm`` over the axes from ``begin_norm_axis`` on.

    Paddle keeps weights flat, and in float32 beside low-precision input; then the whole row is computed in float32, as Paddle does.
    """
    if begin_norm_axis <= 0:
        raise ValueError("Paddle normalises over trailing axes, never over all")
    shape = x.shape[begin_norm_axis:]
    weight, shift = (p if p is None or p.shape == shape else p.reshape(shape) for p in (scale, bias))
    mixed = any(p is not None and p.dtype != x.dtype for p in (weight, shift))
    if mixed and not torch.is_autocast_enabled(x.device.type):  # Torch's own autocast leaves them to Torch's kernel
        weight, shift = (None if p is None else p.float() for p in (weight, shift))
        return F.layer_norm(x.float(), shape, weight, shift, epsilon).to(x.dtype)
    return F.layer_norm(x, shape, weight, shift, epsilon)


_FACTOR = "Paddle rounds an epsilon, a factor or a power to float32"
_DOUBLE = {"float64": _FACTOR, "gradient float64": _FACTOR}
_Kernel = Callable[..., tuple[Any, ...]]
_FLAGS = "is_test=False momentum=0.9 epsilon=1e-5 data_format|data_layout='NCHW' use_global_stats=False trainable_statistics=False"


def _kernel(
    x: Any, mean: Any, variance: Any, weight: Any, bias: Any, training: bool, share: float, epsilon: float
) -> tuple[Any, ...]:
    """What ``torch.nn.functional.batch_norm`` calls: its result, and the mean and the reciprocal deviation that it keeps."""
    if training and x.numel() == x.shape[1]:
        raise ValueError("one value per channel, of which Torch takes no statistics")
    how = (training, share, epsilon, torch.backends.cudnn.enabled)
    return tuple(batch_norm_kernel(x, weight, bias, mean, variance, *how)[:3])


def _gradient_in_order(out: torch.Tensor) -> torch.Tensor:
    """A result whose gradient Torch reads as it lies: of an image with an axis of one element it takes two orders for alike."""
    if out.ndim > 3 and 1 in out.shape[2:] and out.requires_grad:
        out.register_hook(torch.Tensor.contiguous)
    return out


def _in_order(x: Any, *others: Any) -> tuple[Any, ...]:
    """What the kernel gives of images that lie in order, where Torch's gradients of others may be wrong."""
    out, *saved = _kernel(x.contiguous() if x.ndim > 3 and 1 in x.shape[2:] else x, *others)
    return _gradient_in_order(out), *saved


def _of_batch(x: Any, mean: Any, variance: Any, weight: Any, bias: Any, momentum: float, epsilon: float) -> tuple[Any, ...]:
    """The statistics of the batch, and Paddle's running ones: their variance is that of the batch as it is.

    Torch's kernel gives the population's variance; from zeros its update is that variance, which is brought back to the batch's.
    A momentum of 0.9 is 0.1 to a Torch program, and not the 0.09999999999999998 that is 1 - 0.9.
    """
    running, unbiased = mean.clone(), torch.zeros_like(variance)
    out, *saved = _in_order(x, running, unbiased, weight, bias, True, float(1 - Decimal(repr(momentum))), epsilon)
    count = x.numel() // x.shape[1]
    return out, running, unbiased * ((count - 1) / count) + momentum * variance, *saved, x.new_empty(0, dtype=torch.uint8)


def _torchs_statistics(
    x: Any, mean: Any, variance: Any, weight: Any, bias: Any, momentum: float, epsilon: float
) -> tuple[Any, ...]:
    """The same with Torch's own running variance, that of the population."""
    running = mean.clone(), variance.clone()
    out, *saved = _kernel(x, *running, weight, bias, True, float(1 - Decimal(repr(momentum))), epsilon)
    return out, *running, *saved, x.new_empty(0, dtype=torch.uint8)


def _normed(
    kernel: _Kernel, trained: _Kernel, x: Any, mean: Any, variance: Any, scale: Any, bias: Any, *flags: Any
) -> tuple[Any, ...]:
    """``torch.nn.functional.batch_norm``, and what Paddle keeps beside its result; ``trained`` computes its running statistics."""
    is_test, momentum, epsilon, data_format, fixed, trainable = flags
    last, mean, variance = data_format[-1] == "C" and x.ndim > 2, mean.detach(), variance.detach()
    x = to_first(x, last)
    if fixed or (is_test and not trainable):
        out, *_ = kernel(x, mean, variance, scale, bias, False, 0.0, epsilon)
        zeros = torch.zeros_like(mean)
        return (
            to_last(out, last),
            mean,
            variance,
            zeros,
            zeros.clone(),
            mean.new_empty(0, dtype=x.dtype if is_test else torch.uint8),
        )
    if is_test:
        raise NotImplementedError("the batch's statistics outside of training: Paddle's backward takes them for constants")
    out, *others = trained(x, mean, variance, scale, bias, momentum, epsilon)
    return to_last(out, last), *others


batch_norm = op(
    f"x mean variance scale|weight=None bias=None {_FLAGS}",
    name="batch_norm",
    tensors=5,
    promote="none",
    definition=Definition(functools.partial(_normed, _kernel, _torchs_statistics)),
    results=("out", "mean_out", "variance_out", "saved_mean", "saved_variance", "reserve_space"),
    writes={1: "mean", 2: "variance"},
    unwritten=("saved_mean", "saved_variance", "reserve_space"),
    unread=("bias",),
    note="momentum is the old value's share; the running variance is that of the batch (Torch: of the population)",
)(functools.partial(_normed, _in_order, _of_batch))


class _Asked(torch.autograd.Function):
    """``x`` itself; a backward that wants a gradient of one of ``others`` comes by here, and so computes that of ``x``, too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        ctx.others = len(others)
        ctx.set_materialize_grads(False)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return grad, *[None] * ctx.others


def _asked(x: torch.Tensor, *parameters: torch.Tensor | None) -> torch.Tensor:
    """``x`` for a group norm: Torch's backward with channels last writes x's gradient, asked for or not, and if not, to nowhere."""
    wanting = [p for p in parameters if p is not None and p.requires_grad]
    return x if x.is_contiguous() or not wanting or not torch.is_grad_enabled() else _Asked.apply(x, *wanting)


@op(
    "x scale|weight=None bias=None epsilon=1e-5 groups=-1 data_format|data_layout='NCHW'",
    tensors=3,
    promote="none",
    unread=("bias",),
    deviations={"gradient": "without a weight, Paddle's gradient of x is wrong on the CPU", "float64": _FACTOR},
    faults=GROUP_NORM,
    samples=(
        Sample((2, 6, 3, 4), (6,), (6,), groups=3),
        Sample((2, 6, 5), (6,), None, groups=2, epsilon=1e-3),
        Sample((2, 6, 5), None, (6,), groups=6),
        Sample((2, 6, 2, 3), None, None, groups=1),
        Sample((2, 3, 4, 6), (6,), (6,), groups=2, data_format="NHWC"),
    ),
)
def group_norm(x: Any, scale: Any, bias: Any, epsilon: float, groups: int, data_format: str) -> torch.Tensor:
    """``torch.nn.functional.group_norm``; its backward cannot do without a weight beside a bias, so there it is ones."""
    last = data_format[-1] == "C" and x.ndim > 2
    weight = torch.ones_like(bias) if scale is None and bias is not None else scale
    return to_last(F.group_norm(_asked(to_first(x, last), weight, bias), groups, weight, bias, epsilon), last)


@op(
    "x scale|weight=None bias=None epsilon=1e-5",
    tensors=3,
    promote="none",
    unread=("bias",),
    deviations=_DOUBLE,
    definition=Definition(lambda x, scale, bias, epsilon: F.instance_norm(x, None, None, scale, bias, True, 0.1, epsilon)),
    samples=(
        Sample((2, 3, 4, 5), (3,), (3,)),
        Sample((2, 3, 7), None, None, epsilon=1e-3),
        Sample((2, 3, 2, 3, 2), (3,), (3,)),
    ),
)
def instance_norm(x: Any, scale: Any, bias: Any, epsilon: float) -> torch.Tensor:
    """``torch.nn.functional.instance_norm`` of the instances' own statistics."""
    return _gradient_in_order(F.instance_norm(x, None, None, scale, bias, True, 0.1, epsilon))


def _rounded_share(own: Any, x: Any, size: int, alpha: float, beta: float, k: float, data_format: str) -> torch.Tensor:
    """With one over the number of channels in a mean held in float32, in the gradient."""
    first = to_first(x, data_format[-1] == "C")
    squares = (first * first).movedim(1, -1)
    mean = F.pad(squares, (size // 2, (size - 1) // 2)).unfold(-1, size, 1).sum(-1).movedim(-1, 1) / size
    mean = mean.detach() + single(1 / size) * size * (mean - mean.detach())
    return to_last(first / (k + alpha * mean) ** beta, data_format[-1] == "C")


@op(
    "x size alpha=1e-4 beta=0.75 k=1.0 data_format='NCHW'",
    deviations=_DOUBLE,
    python="paddle.nn.functional.local_response_norm",
    samples=(
        Sample((2, 5, 4, 3), size=3, alpha=0.1),
        Sample((2, 5, 4), size=2, beta=0.5, data_format="NCL"),
        Sample((2, 5, 4), size=3),
        Sample((2, 4, 3, 5), size=5, k=2.0, data_format="NHWC"),
        Sample((1, 4, 2, 3, 2), size=3, data_format="NCDHW"),
    ),
    faults={"1/n->float32": Fault(_rounded_share, precision=True)},
)
def local_response_norm(x: Any, size: int, alpha: float, beta: float, k: float, data_format: str) -> torch.Tensor:
    """``torch.nn.functional.local_response_norm``."""
    last = data_format[-1] == "C"  # all that Paddle reads of it: "NCHW", the default, serves for any number of axes
    if x.ndim not in (3, 4, 5):
        raise ValueError(f"{x.ndim} axes")
    return to_last(F.local_response_norm(to_first(x, last).contiguous(), size, alpha, beta, k), last)


@op(
    "x p=2 axis=1 epsilon=1e-12 out=None",
    amp="p_norm",
    deviations=_DOUBLE,
    python="paddle.nn.functional.normalize",
    samples=(
        Sample((3, 4)),
        Sample((2, 3, 4), axis=-1, p=1),
        Sample((2, 3, 4), axis=0, p=3.0, epsilon=1e-6),
        Sample((3, 4), epsilon=10.0),
    ),
    faults=NORMALIZE,
)
def normalize(x: Any, p: float, axis: int, epsilon: float, out: Any) -> torch.Tensor:
    """``torch.nn.functional.normalize``."""
    if out is not None:
        raise NotImplementedError("a result that is written into a tensor of the program")
    with_axes(x)  # of such Paddle gives one of one axis
    return F.normalize(x, float(p), axis, epsilon)


@op(
    "weight u v dim=0 power_iters=1 eps=1e-12",
    tensors=3,
    unread=("u", "v"),
    legacy=True,
    deviations={"gradient": "that of the function with u and v as constants; Paddle's is another one"},
    faults={"sum-of-weight": Fault(elementwise)},
    samples=(
        Sample((4, 2, 3), (4,), (6,)),
        Sample((2, 4, 3), (4,), (6,), dim=1, power_iters=3),
        Sample((4, 6), (4,), (6,), power_iters=0),
    ),
)
def spectral_norm(weight: Any, u: Any, v: Any, dim: int, power_iters: int, eps: float) -> torch.Tensor:
    """The weight over its largest singular value, by as many steps of the power method as asked for from ``u`` and ``v``."""
    matrix = weight.movedim(dim, 0).flatten(1)
    u, v = factors(matrix.detach(), u.detach(), v.detach(), power_iters, eps)
    return weight / torch.dot(u, torch.mv(matrix, v))


@op(
    "v g dim",
    promote="same",
    python="paddle.nn.utils.weight_norm_hook._weight_norm",
    samples=(
        Sample((4, 2, 3), (4,), dim=0),
        Sample((4, 6), (6,), dim=1),
        Sample((2, 4, 3), (4,), dim=1),
        Sample((4, 3), (), dim=-1),
    ),
    deviations=dict.fromkeys(("float64", "gradient float64"), "Paddle adds 1e-12 to the norms by which it divides"),
    note="lengths have no axes of size 1 in Paddle",
    faults=WEIGHT_NORM,
)
def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int) -> torch.Tensor:
    """What ``torch.nn.utils.weight_norm`` calls."""
    if not v.numel():
        raise NotImplementedError("Torch's kernel ends the process where there are no elements")
    if dim != -1 and g.numel() != v.shape[dim]:
        raise NotImplementedError("lengths that Paddle broadcasts, and Torch's kernel reads as if there were as many as it needs")
    lengths = g if dim == -1 else g.reshape([-1 if axis == dim else 1 for axis in range(v.ndim)])
    return weight_norm_kernel(v, lengths, dim)


@op(
    "p dim",
    promote="same",
    python="paddle.nn.utils.weight_norm_hook.norm_except_dim",
    faults=EXCEPT_DIM,
)
def norm_except_dim(p: torch.Tensor, dim: int) -> torch.Tensor:
    """``torch.norm_except_dim``, without axes of size 1."""
    norms = torch.norm_except_dim(p, 2, dim)
    return norms if dim == -1 else norms.reshape(-1)
