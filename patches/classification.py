"""Losses of classes: a sample's label is the number of its class, or a share of each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Definition, Fault, Floats, Ints, KernelLimits, Sample, each, op

from ._declarations import REDUCTIONS, ROUNDED, reduced
from ._faults import SMOOTHED_LABELS, clipped, shares_of_one
from .loss import loss

# ---- Cross entropy of labels and of class shares by Torch's kernels, counted and weighed as in Paddle.


def _numbers_of(label: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    """Labels as Torch takes them: in int64, without the axis of length 1 that Paddle allows."""
    return (label.squeeze(axis) if label.ndim == x.ndim else label).long()


def _of_numbers(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, ignore_index: int, reduction: str, logits: bool
) -> torch.Tensor:
    """Torch's loss with the classes on axis 1 (or 0 of a vector), of logits or of probabilities."""
    if logits:
        return F.cross_entropy(x, target, weight, ignore_index=ignore_index, reduction=reduction)
    return F.nll_loss(torch.log(x).contiguous(), target, weight, ignore_index=ignore_index, reduction=reduction)


def _shares(x: torch.Tensor, label: torch.Tensor, smoothing: float) -> torch.Tensor:
    """Each class's share of a label, smoothed."""
    shares = (F.one_hot(label.long(), x.shape[-1]) if label.ndim < x.ndim else label).to(x.dtype)
    if shares.shape != x.shape:
        raise ValueError("shares of another shape")
    return shares * (1 - smoothing) + smoothing / shares.shape[-1] if smoothing else shares


def _of_shares(
    x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, reduction: str, axis: int, logits: bool, smoothing: float
) -> torch.Tensor:
    """The loss of shares. Paddle weighs a whole sample, by its shares' mean weight; Torch each class."""
    if logits and weight is None and axis == x.ndim - 1 and label.shape == x.shape:
        rows = x.reshape(-1, x.shape[-1]), label.to(x.dtype).detach().reshape(-1, x.shape[-1])
        value = F.cross_entropy(*rows, reduction=reduction, label_smoothing=smoothing)
        return value.reshape(x.shape[:-1]) if reduction == "none" else value
    shares = _shares(x, label, smoothing)
    values = -(shares.detach() * (torch.log_softmax(x, axis) if logits else torch.log(x))).sum(axis)
    if weight is None:
        return reduced(values, reduction)
    weights = (shares @ weight).reshape(values.shape)
    return (values * weights).sum() / weights.sum() if reduction == "mean" else reduced(values * weights, reduction)


def _mean_of_shares(
    x: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None,
    ignored: int,
    axis: int,
    logits: bool,
    smoothing: float,
    counts_all: bool,
) -> torch.Tensor:
    """Paddle's mean over the single shares that are not ignore_index; in Paddle 2.6 only where one of them is."""
    values = _of_shares(x, label, weight, "none", axis, logits, smoothing)
    shares = _shares(x, label, smoothing)
    counted = shares != ignored
    if not counts_all and counted.all():
        return _of_shares(x, label, weight, "mean", axis, logits, smoothing)
    weights = counted.to(x.dtype) if weight is None else counted * (shares @ weight).reshape(values.shape).unsqueeze(axis)
    return values.sum() / (weights.sum() or 1.0)


def _of_labels(
    x: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    reduction: str,
    axis: int,
    logits: bool,
    counts_all: bool,
) -> torch.Tensor:
    """The loss of numbers of classes."""
    target = _numbers_of(label, x, axis)
    if target.shape != x.shape[:axis] + x.shape[axis + 1 :]:
        raise ValueError("labels of another shape")
    at = x.movedim(axis, 1) if x.ndim > 1 else x
    counted = target != ignore_index
    if reduction == "mean" and weight is None and ignore_index < 0 and counts_all and not counted.all():
        return _of_numbers(at, target, None, ignore_index, "none", logits).mean()
    if reduction == "mean" and not (counted if weight is None else weight[target[counted]]).any():
        reduction = "sum"  # 0, where Torch divides by 0
    if weight is not None and weight.requires_grad:
        values = _of_numbers(at, target, None, ignore_index, "none", logits)
        weights = torch.where(counted, weight[torch.where(counted, target, 0)], 0)
        value = (values * weights).sum() / weights.sum() if reduction == "mean" else reduced(values * weights, reduction)
    else:
        value = _of_numbers(at, target, weight, ignore_index, reduction, logits)
    return value.unsqueeze(axis) if reduction == "none" and label.ndim == x.ndim else value


# ---- The ops.

_LABELS, _SHARES, _CLASSES = Ints((5,), 0, 4), Floats((5, 4), 0.25, 0.25), Floats((4,), 0.5, 2.0)


def _counts_all(native: Callable[..., Any], tensor: Callable[..., Any]) -> bool:
    """Whether the mean under a negative ignore_index is over all labels, as in Paddle 3, or over those that are not ignored."""
    return float(native(tensor([[0.0, 0.0]] * 2), tensor([0, -1]), ignore_index=-1)) < 0.5


def _differs(
    x: torch.Tensor, label: torch.Tensor, weight: Any, ignore_index: int, reduction: str, soft_label: bool, *others: Any
) -> str:
    """Where labels that are ignored, or shares, are counted or weighed otherwise than by Torch."""
    *_, smoothing, counts_all = others
    if (soft_label or smoothing > 0) and weight is not None and (weight != weight.flatten()[:1]).any():
        return "a sample of shares (soft_label, label_smoothing) is weighed as a whole, in Torch each class by its own weight"
    ignored = bool((label == ignore_index).any()) and not soft_label
    if smoothing > 0 and ignored:
        return f"beside label_smoothing ignored labels (ignore_index={ignore_index}) count, in Torch they do not"
    if reduction == "mean" and ignored and (label == ignore_index).all():
        return "the mean over no labels is 0, in Torch NaN"
    if reduction != "mean" or not counts_all:
        return ""
    if soft_label or smoothing > 0:
        return "" if ignore_index < 0 else "under an ignore_index from 0 on, the mean of shares is over samples times classes"
    counted = ignore_index < 0 and weight is None and ignored
    return f"ignored labels (ignore_index={ignore_index}) count in the mean, which Torch takes over the others" if counted else ""


def _remains(
    x: torch.Tensor, label: torch.Tensor, weight: Any, ignore_index: int, reduction: str, soft_label: bool, axis: int, *_: Any
) -> str:
    """Where a Torch program has another call for what may be meant: shares that are labels, smoothed or not, and weighted."""
    if not soft_label or weight is None or reduction != "mean":
        return ""
    shares = label.movedim(axis, -1).sort(-1).values
    if not torch.allclose(shares[..., :-1], shares[..., :1]):
        return ""
    says = "weighted shares that are smoothed labels: Torch divides their mean by the samples, that of labels with label_smoothing="
    return f"{says} by the labels' weights; give the labels themselves where the twin does"


def _torchs(
    x: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    reduction: str,
    soft_label: bool,
    axis: int,
    use_softmax: bool,
    label_smoothing: float,
    counts_all: bool,
) -> torch.Tensor:
    """``torch.nn.functional.cross_entropy`` as it is; Torch has none of probabilities."""
    if not use_softmax:
        return cross_entropy.reference(
            x, label, weight, ignore_index, reduction, soft_label, axis, use_softmax, label_smoothing, counts_all
        )
    axis %= x.ndim
    at = x.movedim(axis, 1) if x.ndim > 1 else x
    shares = label.ndim == x.ndim and (soft_label or label_smoothing > 0)
    target = label.detach().movedim(axis, 1) if shares and x.ndim > 1 else label if shares else _numbers_of(label, x, axis)
    value = F.cross_entropy(at, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
    return value.unsqueeze(axis) if reduction == "none" and (label.ndim == x.ndim or label_smoothing > 0) else value


@loss(
    'input label weight=None ignore_index=-100 reduction="mean" soft_label=False axis=-1 use_softmax=True label_smoothing=0.0 '
    "counts_all=True",
    api='input label weight=None ignore_index=-100 reduction="mean" soft_label=False axis=-1 use_softmax=True label_smoothing=0.0',
    amp="softmax_with_cross_entropy",
    probes={"counts_all": _counts_all},
    definition=Definition(_torchs, differs=_remains),
    differs=_differs,
    note="the mean under a negative ignore_index is over all labels in Paddle 3, over the others in Paddle 2.6 and Torch; weighted "
    "shares weigh a sample as a whole; Paddle's gradient takes it that shares sum to 1, Torch's does not",
    samples=(
        *each((Sample((5, 4), _LABELS), Sample((5, 4), _LABELS, _CLASSES)), ignore_index=(-100, 1), reduction=REDUCTIONS),
        *each((Sample((5, 4), Ints((5, 1), 0, 4)), Sample((2, 3, 4), Ints((2, 3), 0, 4))), reduction=REDUCTIONS),
        *each(
            (Sample((2, 4, 3, 3), Ints((2, 1, 3, 3), 0, 4)), Sample((2, 4, 3), Ints((2, 3), 0, 4))), axis=(1,), reduction=REDUCTIONS
        ),
        *each((Sample((5, 4), _SHARES), Sample((5, 4), _SHARES, _CLASSES)), soft_label=(True,), reduction=REDUCTIONS),
        Sample((4, 3), Floats((4, 3), 0.25, 0.25), soft_label=True, axis=0),
        Sample((4, 4), Floats((4, 4), 0.25, 0.25), _CLASSES, soft_label=True, axis=0, reduction="none"),
        *each((Sample((5, 4), _LABELS), Sample((5, 4), _SHARES)), label_smoothing=(0.1,), reduction=REDUCTIONS),
        *each((Sample((2, 3, 4), Ints((2, 3), 0, 4), _CLASSES),), label_smoothing=(0.1,), reduction=REDUCTIONS),
        *each((Sample((5, 4), _LABELS),), label_smoothing=(0.1,), ignore_index=(1,), reduction=("sum", "none")),
        *each((Sample(Floats((5, 4), 0.1, 0.9), _LABELS),), use_softmax=(False,), reduction=REDUCTIONS),
        Sample(Floats((5, 4), 0.1, 0.9), _SHARES, use_softmax=False, soft_label=True),
        *each(
            (Sample((5, 4), Ints((5,), 1, 2)), Sample((5, 4), Ints((5,), 1, 2), _CLASSES)), ignore_index=(1,), reduction=REDUCTIONS
        ),
        *each((Sample((8, 4), Ints((8,), -1, 4)),), ignore_index=(-1,), reduction=("sum", "none")),
        Sample((8, 4), Ints((8,), -1, 4), _CLASSES, ignore_index=-1),
        Sample((4,), Ints((), 1, 4)),
    ),
    refusals=(Sample((5, 4), Ints((5,), 4, 5)), Sample((5, 4), _LABELS, reduction="median"), Sample((5, 4), Ints((3,), 0, 4))),
    deviations=ROUNDED,
    faults={
        **clipped(lambda label, weight, ignored, reduction, soft, axis, *rest: axis),
        **SMOOTHED_LABELS,
        "softmax-minus-label": Fault(shares_of_one),
    },
)
def cross_entropy(
    x: torch.Tensor,
    label: torch.Tensor,
    weight: torch.Tensor | None,
    ignore_index: int,
    reduction: str,
    soft_label: bool,
    axis: int,
    use_softmax: bool,
    label_smoothing: float,
    counts_all: bool,
) -> torch.Tensor:
    """``torch.nn.functional.cross_entropy``; beside it what Torch counts or weighs otherwise, and gradients of weights."""
    axis %= x.ndim
    plain = use_softmax and weight is None and ignore_index < 0 and axis == x.ndim - 1
    if label_smoothing > 0 and plain and not soft_label and label.ndim < x.ndim:
        at = x.movedim(axis, 1) if x.ndim > 1 else x
        value = F.cross_entropy(at, _numbers_of(label, x, axis), reduction=reduction, label_smoothing=label_smoothing)
        return value.unsqueeze(axis) if reduction == "none" else value  # as Paddle, which makes shares of the labels
    if soft_label or label_smoothing > 0:
        if soft_label and ignore_index > 0:
            raise ValueError("ignore_index beside shares of classes")
        if ignore_index >= 0 and reduction == "mean":
            return _mean_of_shares(x, label, weight, ignore_index, axis, use_softmax, label_smoothing, counts_all)
        values = _of_shares(x, label, weight, reduction, axis, use_softmax, label_smoothing)
        return values.unsqueeze(axis) if reduction == "none" else values
    return _of_labels(x, label, weight, ignore_index, reduction, axis, use_softmax, counts_all)


@op(
    "input label soft_label=False use_softmax=True numeric_stable_mode=True ignore_index=-100 axis=-1",
    integers=("label",),
    results=("softmax", "loss"),
    promote="same",
    amp="softmax_with_cross_entropy",
    legacy="softmax_with_cross_entropy: input label soft_label=False use_softmax=True numeric_stable_mode=True ignore_index=-100 "
    "axis=-1",
    faults=clipped(lambda label, soft, use_softmax, stable, ignored, axis: axis),
)
def cross_entropy_with_softmax(
    x: torch.Tensor, label: torch.Tensor, soft_label: bool, use_softmax: bool, stable: bool, ignore_index: int, axis: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """``torch.softmax`` (or the probabilities), without gradient here, and ``torch.nn.functional.cross_entropy``."""
    if label.ndim != x.ndim:
        raise ValueError("labels without the axis of classes")
    if not use_softmax:
        values = _of_shares(x, label, None, "none", axis, False, 0.0).unsqueeze(axis) if soft_label else None
        losses = _of_labels(x, label, None, ignore_index, "none", axis % x.ndim, False, False) if values is None else values
        return x.detach().clone(), losses
    at = x.movedim(axis, 1) if x.ndim > 1 else x
    target = label.detach().movedim(axis, 1) if soft_label else _numbers_of(label, x, axis)
    values = F.cross_entropy(at, target, ignore_index=-100 if soft_label else ignore_index, reduction="none")
    return torch.softmax(x.detach(), axis), values.unsqueeze(axis)


def _none_counts(x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, ignore_index: int, reduction: str) -> str:
    """Where every label is ignored."""
    if reduction != "mean" or (label != ignore_index).any():
        return ""
    return "the mean over no labels is 0, in Torch NaN"


def _torchs_nll_loss(
    x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, ignore_index: int, reduction: str
) -> torch.Tensor:
    """``torch.nn.functional.nll_loss`` as it is."""
    return F.nll_loss(x, label.long(), weight, ignore_index=ignore_index, reduction=reduction)


@loss(
    'input label weight=None ignore_index=-100 reduction="mean"',
    definition=Definition(_torchs_nll_loss),
    differs=_none_counts,
    limits=KernelLimits(once=True),
    samples=(
        # No label is the ignored one: Paddle's float64 kernel then writes outside of its memory.
        *each((Sample((5, 4), _LABELS), Sample((5, 4), _LABELS, _CLASSES)), ignore_index=(-100, 7), reduction=REDUCTIONS),
        *each((Sample((2, 4, 3), Ints((2, 3), 0, 4)), Sample((2, 4, 3, 3), Ints((2, 3, 3), 0, 4), _CLASSES)), reduction=REDUCTIONS),
    ),
)
def nll_loss(x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, ignore_index: int, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.nll_loss``; neither framework has a gradient of the weights."""
    if x.ndim < 2 or label.ndim != x.ndim - 1:
        raise ValueError("samples with classes on axis 1, and their labels")
    weight = None if weight is None else weight.detach()
    if reduction == "mean" and not (label != ignore_index).any():
        reduction = "sum"  # 0, where Torch divides by 0
    x = x.contiguous() if x.ndim > 2 else x  # of images Torch's backward takes no other
    return F.nll_loss(x, label.long(), weight, ignore_index=ignore_index, reduction=reduction)


@loss(
    'log_probs labels input_lengths label_lengths blank=0 reduction="mean" norm_by_times=False zero_infinity=False',
    amp="warpctc",
    unread=("labels", "input_lengths", "label_lengths"),  # copies of them are
    note="of logits; a row that no path fits is 0, without gradient; with norm_by_times a row's gradient is divided by its length",
    samples=each(
        (Sample((8, 2, 5), Ints((2, 3), 1, 5, "int32"), Ints((2,), 7, 9), Ints((2,), 1, 4)),),
        reduction=REDUCTIONS,
        norm_by_times=(False, True),
    ),
)
def ctc_loss(
    x: torch.Tensor,
    labels: torch.Tensor,
    input_lengths: torch.Tensor,
    label_lengths: torch.Tensor,
    blank: int,
    reduction: str,
    norm_by_times: bool,
    zero_infinity: bool,
) -> torch.Tensor:
    """``torch.nn.functional.ctc_loss`` of the logits' ``log_softmax``."""
    if reduction == "mean" and not label_lengths.all():
        raise NotImplementedError("the mean over a label without classes, where Paddle divides by 0")
    # In tensors of their own: Torch's backward reads them, and the program may change its own.
    labels, steps, sizes = (lengths.to(torch.int64, copy=True) for lengths in (labels, input_lengths, label_lengths))
    logarithms = torch.log_softmax(x, -1)
    if not norm_by_times:
        return F.ctc_loss(logarithms, labels, steps, sizes, blank, reduction, zero_infinity=True)
    values = F.ctc_loss(logarithms, labels, steps, sizes, blank, "none", zero_infinity=True)
    shares = values / steps
    values = values.detach() + (shares - shares.detach())
    return reduced(values / sizes if reduction == "mean" else values, reduction)
