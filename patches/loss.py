"""Loss functions, at the level of the functions of ``paddle.nn.functional``: where Torch has one function, that is called.

Labels get no gradient where Paddle's kernels have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.numerics.ties import Kinks
from padiff_shim.table.op import Fault, Floats, Op, Sample, each, function, op

from ._declarations import REDUCTIONS, ROUNDED, alike, reduced, with_axes
from ._faults import SMOOTHED, logarithm_of_difference, logits_at_zero

_REDUCED = each((Sample((3, 4), (3, 4)),), reduction=REDUCTIONS)
_BROADCAST = (*_REDUCED, Sample((3, 4), (4,)), Sample((3, 4), (3, 1), reduction="none"))


def loss(params: str, *, api: str = "", **options: Any) -> Callable[[Callable[..., Any]], Op]:
    """A decorator: the function of ``paddle.nn.functional`` that has the formula's name; ``api``: its own parameters."""

    def declare(formula: Callable[..., Any]) -> Op:
        return op(
            params,
            c=False,
            promote="same",
            more_entries=(function(f"paddle.nn.functional.{formula.__name__}", api or params),),
            **options,
        )(formula)

    return declare


@loss('input label reduction="mean"', samples=_BROADCAST)
def mse_loss(x: torch.Tensor, label: torch.Tensor, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.mse_loss``; Paddle broadcasts."""
    x, label = torch.broadcast_tensors(x, label)
    return F.mse_loss(x, label, reduction=reduction)


@loss('input label reduction="mean"', samples=_BROADCAST, ties=Kinks(together=True))
def l1_loss(x: torch.Tensor, label: torch.Tensor, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.l1_loss``; Paddle broadcasts."""
    x, label = torch.broadcast_tensors(x, label)
    return F.l1_loss(x, label, reduction=reduction)


@loss(
    'input label reduction="mean" delta=1.0 is_huber=True',
    samples=each(_REDUCED, delta=(1.0, 0.3)) + each(_REDUCED[:1], delta=(0.3,), is_huber=(False,)),
    deviations=ROUNDED,
)
def smooth_l1_loss(x: torch.Tensor, label: torch.Tensor, reduction: str, delta: float, is_huber: bool) -> torch.Tensor:
    """``torch.nn.functional.smooth_l1_loss`` for a delta of 1 and for is_huber=False, else ``huber_loss``."""
    alike(x, label)
    huber = is_huber and delta != 1
    return F.huber_loss(x, label, reduction, delta) if huber else F.smooth_l1_loss(x, label, reduction=reduction, beta=delta)


@op("input label delta", samples=each((Sample((3, 4), (3, 4)),), delta=(1.0, 0.3)), deviations=ROUNDED)
def huber_loss(x: torch.Tensor, label: torch.Tensor, delta: float) -> torch.Tensor:
    """``torch.nn.functional.huber_loss``."""
    alike(x, label)
    return F.huber_loss(x, label, "none", delta)


_DIVERGENCE = each((Sample((3, 4), Floats((3, 4), 0.1, 1.0)),), reduction=(*REDUCTIONS, "batchmean"))


@loss('input label reduction="mean" log_target=False', samples=each(_DIVERGENCE, log_target=(False, True)))
def kl_div(x: torch.Tensor, label: torch.Tensor, reduction: str, log_target: bool) -> torch.Tensor:
    """``torch.nn.functional.kl_div``, without its warning."""
    alike(x, label)
    how = {"none": 0, "mean": 1, "sum": 2, "batchmean": 2}[reduction]
    divergence = torch.kl_div(x, label.detach(), how, log_target=log_target)
    return divergence / x.shape[0] if reduction == "batchmean" and x.ndim else divergence


_LEGACY = "kldiv_loss: x label reduction='mean' log_target=False"
kldiv_loss = op('x label reduction="mean" log_target=False', name="kldiv_loss", legacy=_LEGACY, tensors=2, samples=_DIVERGENCE)(
    kl_div.reference
)

_LOGARITHM = {"log(1-x)": Fault(logarithm_of_difference, precision=True)}
_SHARES = (Floats((3, 4), 0.1, 0.9), Floats((3, 4), 0.0, 1.0))


@loss(
    'input label weight=None reduction="mean"',
    samples=each((Sample(*_SHARES), Sample(*_SHARES, Floats((4,), 0.5, 2.0))), reduction=REDUCTIONS),
    faults=_LOGARITHM,
)
def binary_cross_entropy(x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.binary_cross_entropy``, which has no gradient of the weights."""
    alike(x, label)
    if weight is not None and weight.requires_grad:
        return reduced(F.binary_cross_entropy(x, label.detach(), reduction="none") * weight, reduction)
    return F.binary_cross_entropy(x, label.detach(), weight, reduction=reduction)


@op("input label", inplace=True, legacy=True, samples=(Sample(*_SHARES),), faults=_LOGARITHM)
def bce_loss(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """``torch.nn.functional.binary_cross_entropy``."""
    alike(x, label)
    return F.binary_cross_entropy(x, label.detach(), reduction="none")


LOGITS = ((3, 4), Floats((3, 4), 0, 1))
WEIGHTS = Floats((4,), 0.5, 2.0)


@loss(
    'logit label weight=None pos_weight=None reduction="mean"',
    api='logit label weight=None reduction="mean" pos_weight=None',
    samples=each((Sample(*LOGITS), Sample(*LOGITS, WEIGHTS), Sample(*LOGITS, None, WEIGHTS)), reduction=REDUCTIONS),
    faults=logits_at_zero(1),
    note="weights of positives weigh the whole of their loss, as in Torch and Paddle 3; Paddle 2.6 leaves a part out",
)
def binary_cross_entropy_with_logits(
    x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, pos_weight: torch.Tensor | None, reduction: str
) -> torch.Tensor:
    """``torch.nn.functional.binary_cross_entropy_with_logits``, which has no gradient of the weights."""
    alike(x, label)
    pos_weight = None if pos_weight is None else pos_weight.detach()
    if weight is not None and weight.requires_grad:
        values = F.binary_cross_entropy_with_logits(x, label.detach(), reduction="none", pos_weight=pos_weight)
        return reduced(values * weight, reduction)
    return F.binary_cross_entropy_with_logits(x, label.detach(), weight, reduction=reduction, pos_weight=pos_weight)


@op(
    "x label pos_weight=None normalize=False ignore_index=-100",
    inplace=True,
    samples=(Sample(*LOGITS), Sample((3, 4), Floats((3, 4), 0, 1), normalize=True), Sample(*LOGITS, Floats((3, 4), 0.5, 2))),
    faults=logits_at_zero(0),
)
def sigmoid_cross_entropy_with_logits(
    x: torch.Tensor, label: torch.Tensor, pos_weight: torch.Tensor | None, normalize: bool, ignore_index: int
) -> torch.Tensor:
    """``torch.nn.functional.binary_cross_entropy_with_logits``, 0 where the label is ignored.

    ``pos_weight`` is here the factor of the logarithm, which Paddle's function makes of its own and of the labels.
    """
    counted, label = label != ignore_index, label.detach()
    if pos_weight is None:
        values = F.binary_cross_entropy_with_logits(x, label, reduction="none")
    else:
        alike(x, label)
        values = (1 - label) * x - pos_weight.detach() * F.logsigmoid(x)
    values = torch.where(counted, values, 0)
    return values / counted.sum().clamp(min=1e-5) if normalize else values


@op(
    "label prior_dist=None epsilon=0.0",
    samples=each((Sample((3, 4)), Sample((3, 4), (1, 4))), epsilon=(0.1,)),
    deviations=ROUNDED,
    faults=SMOOTHED,
)
def label_smooth(label: torch.Tensor, prior: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    """The label's share, and epsilon's of all classes, or of a prior."""
    if prior is not None and label.shape[-1:].numel() != prior.numel():
        raise ValueError("a prior of another number of classes")
    share = epsilon / label.shape[-1] if prior is None else epsilon * prior.detach().reshape(label.shape[-1:])
    return (1 - epsilon) * label + share


@op("input label epsilon=0.0001", legacy=True, samples=(Sample(Floats((5, 1), 0.1, 0.9), Floats((5, 1), 0, 1)),))
def log_loss(x: torch.Tensor, label: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The cross entropy of two classes, step by step: epsilon is added to both probabilities."""
    alike(x, label)
    with_axes(x)
    label = label.detach()
    return -label * torch.log(x + epsilon) - (1 - label) * torch.log(1 - x + epsilon)


@loss(
    'input label variance full=False epsilon=1e-06 reduction="mean"',
    samples=each(
        (Sample((3, 4), (3, 4), Floats((3, 4), 0.5, 2)), Sample((3, 4), (3, 4), Floats((3, 1), 0.5, 2))),
        full=(False, True),
        reduction=REDUCTIONS,
    ),
    deviations=ROUNDED,
)
def gaussian_nll_loss(
    x: torch.Tensor, label: torch.Tensor, variance: torch.Tensor, full: bool, epsilon: float, reduction: str
) -> torch.Tensor:
    """``torch.nn.functional.gaussian_nll_loss``."""
    return F.gaussian_nll_loss(x, label, variance.detach(), full=full, eps=epsilon, reduction=reduction)


@loss(
    'input label log_input=True full=False epsilon=1e-08 reduction="mean"',
    samples=each(
        (Sample(Floats((3, 4), 0.1, 2), Floats((3, 4), 0, 4)),), log_input=(True, False), full=(False, True), reduction=REDUCTIONS
    ),
)
def poisson_nll_loss(
    x: torch.Tensor, label: torch.Tensor, log_input: bool, full: bool, epsilon: float, reduction: str
) -> torch.Tensor:
    """``torch.nn.functional.poisson_nll_loss``."""
    alike(x, label)
    return F.poisson_nll_loss(x, label, log_input, full, eps=epsilon, reduction=reduction)
