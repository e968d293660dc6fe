"""Losses of classes: a sample's label is the number of its class, or a share of each class."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Floats, Ints, Sample, each, op

from ._spell import ROUNDED
from .loss import REDUCTIONS, loss, reduced

_LABELS, _SHARES, _CLASSES = Ints((5,), 0, 4), Floats((5, 4), 0.25, 0.25), Floats((4,), 0.5, 2.0)
_ODD = "ignored labels under a negative ignore_index: Paddle's versions disagree on whether the mean counts them"


def _target(label: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    """Labels as Torch takes them: in int64, without the axis of length 1 that Paddle allows."""
    if label.is_floating_point():
        raise NotImplementedError("numbers of classes as floats")
    return (label.squeeze(axis) if label.ndim == x.ndim else label).long()


def _of_numbers(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, ignore_index: int, reduction: str, logits: bool
) -> torch.Tensor:
    """Torch's loss with the classes on axis 1 (or 0 of a vector), of logits or of probabilities."""
    if logits:
        return F.cross_entropy(x, target, weight, ignore_index=ignore_index, reduction=reduction)
    return F.nll_loss(torch.log(x).contiguous(), target, weight, ignore_index=ignore_index, reduction=reduction)


def _of_shares(
    x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, reduction: str, logits: bool, smoothing: float
) -> torch.Tensor:
    """The loss of shares, classes on the last axis. Paddle weighs a whole sample, by its shares' mean weight; Torch each class."""
    classes = x.shape[-1]
    given = (F.one_hot(label, classes) if label.ndim < x.ndim else label).to(x.dtype)
    if logits and weight is None:
        rows = x.reshape(-1, classes), given.detach().reshape(-1, classes)
        found = F.cross_entropy(*rows, reduction=reduction, label_smoothing=smoothing)
        return found.reshape(x.shape[:-1]) if reduction == "none" else found
    shares = given * (1 - smoothing) + smoothing / classes if smoothing else given
    values = -(shares.detach() * (torch.log_softmax(x, -1) if logits else torch.log(x))).sum(-1)
    if weight is None:
        return reduced(values, reduction)
    weights = shares @ weight
    return (values * weights).sum() / weights.sum() if reduction == "mean" else reduced(values * weights, reduction)


@loss(
    'input label weight=None ignore_index=-100 reduction="mean" soft_label=False axis=-1 use_softmax=True label_smoothing=0.0',
    tensors=3,
    amp="softmax_with_cross_entropy",
    note="weighted shares weigh a sample as a whole; Paddle's gradient takes it that shares sum to 1, Torch's does not",
    samples=(
        *each((Sample((5, 4), _LABELS), Sample((5, 4), _LABELS, _CLASSES)), ignore_index=(-100, 1), reduction=REDUCTIONS),
        *each((Sample((5, 4), Ints((5, 1), 0, 4)), Sample((2, 3, 4), Ints((2, 3), 0, 4))), reduction=REDUCTIONS),
        *each(
            (Sample((2, 4, 3, 3), Ints((2, 1, 3, 3), 0, 4)), Sample((2, 4, 3), Ints((2, 3), 0, 4))), axis=(1,), reduction=REDUCTIONS
        ),
        *each((Sample((5, 4), _SHARES), Sample((5, 4), _SHARES, _CLASSES)), soft_label=(True,), reduction=REDUCTIONS),
        *each((Sample((5, 4), _LABELS), Sample((5, 4), _SHARES)), label_smoothing=(0.1,), reduction=REDUCTIONS),
        *each((Sample((2, 3, 4), Ints((2, 3), 0, 4), _CLASSES),), label_smoothing=(0.1,), reduction=REDUCTIONS),
        *each((Sample(Floats((5, 4), 0.1, 0.9), _LABELS),), use_softmax=(False,), reduction=REDUCTIONS),
        Sample(Floats((5, 4), 0.1, 0.9), _SHARES, use_softmax=False, soft_label=True),
        *each(
            (Sample((5, 4), Ints((5,), 1, 2)), Sample((5, 4), Ints((5,), 1, 2), _CLASSES)), ignore_index=(1,), reduction=REDUCTIONS
        ),
    ),
    refusals=(Sample((5, 4), Ints((5,), 4, 5)), Sample((5, 4), _LABELS, reduction="median"), Sample((5, 4), Ints((3,), 0, 4))),
    deviations=ROUNDED,
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
) -> torch.Tensor:
    """``torch.nn.functional.cross_entropy``; beside it what Torch counts or weighs otherwise, and gradients of weights."""
    axis %= x.ndim
    if label_smoothing > 0 and not soft_label and use_softmax and weight is None and ignore_index < 0 and label.ndim < x.ndim:
        at = x.movedim(axis, 1) if x.ndim > 1 else x
        found = F.cross_entropy(at, _target(label, x, axis), reduction=reduction, label_smoothing=label_smoothing)
        return found.unsqueeze(axis) if reduction == "none" else found  # as Paddle, which makes shares of the labels
    if soft_label or label_smoothing > 0:
        if ignore_index >= 0 or axis != x.ndim - 1:
            raise NotImplementedError("shares of classes with ignore_index, or not on the last axis")
        shares = _target(label, x, axis) if label.ndim < x.ndim else label
        values = _of_shares(x, shares, weight, reduction, use_softmax, label_smoothing)
        return values.unsqueeze(axis) if reduction == "none" else values
    target = _target(label, x, axis)
    if target.shape != x.shape[:axis] + x.shape[axis + 1 :]:
        raise ValueError("labels of another shape")
    kept = target != ignore_index
    if weight is None and ignore_index < 0 and reduction == "mean" and not kept.all():
        raise NotImplementedError(_ODD)
    at = x.movedim(axis, 1) if x.ndim > 1 else x
    if reduction == "mean" and not kept.any():
        reduction = "sum"  # 0, where Torch divides by 0
    if weight is not None and weight.requires_grad:
        values = _of_numbers(at, target, None, ignore_index, "none", use_softmax)
        weights = torch.where(kept, weight[torch.where(kept, target, 0)], 0)
        found = (values * weights).sum() / weights.sum() if reduction == "mean" else reduced(values * weights, reduction)
    else:
        found = _of_numbers(at, target, weight, ignore_index, reduction, use_softmax)
    return found.unsqueeze(axis) if reduction == "none" and label.ndim == x.ndim else found


@op(
    "input label soft_label=False use_softmax=True numeric_stable_mode=True ignore_index=-100 axis=-1",
    tensors=2,
    results=("softmax", "loss"),
    promote="same",
    amp="softmax_with_cross_entropy",
    legacy="softmax_with_cross_entropy: input label soft_label=False use_softmax=True numeric_stable_mode=True ignore_index=-100 "
    "axis=-1",
)
def cross_entropy_with_softmax(
    x: torch.Tensor, label: torch.Tensor, soft_label: bool, use_softmax: bool, stable: bool, ignore_index: int, axis: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """``torch.softmax``, which has no gradient here, and ``torch.nn.functional.cross_entropy``."""
    if not use_softmax or label.ndim != x.ndim:
        raise NotImplementedError("probabilities, or labels without the axis of classes")
    at = x.movedim(axis, 1) if x.ndim > 1 else x
    target = label.detach().movedim(axis, 1) if soft_label else _target(label, x, axis)
    values = F.cross_entropy(at, target, ignore_index=-100 if soft_label else ignore_index, reduction="none")
    return torch.softmax(x.detach(), axis), values.unsqueeze(axis)


@loss(
    'input label weight=None ignore_index=-100 reduction="mean"',
    tensors=3,
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
    tensors=4,
    amp="warpctc",
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
    labels, steps, sizes = (one.to(torch.int64, copy=True) for one in (labels, input_lengths, label_lengths))
    logarithms = torch.log_softmax(x, -1)
    if not norm_by_times:
        return F.ctc_loss(logarithms, labels, steps, sizes, blank, reduction, zero_infinity=True)
    values = F.ctc_loss(logarithms, labels, steps, sizes, blank, "none", zero_infinity=True)
    shares = values / steps
    values = values.detach() + (shares - shares.detach())
    return reduced(values / sizes if reduction == "mean" else values, reduction)
