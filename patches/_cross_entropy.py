"""Cross entropy of labels and of class shares by Torch's kernels, counted and weighed as in Paddle."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .loss import reduced


def numbers_of(label: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
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


def of_shares(
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


def mean_of_shares(
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
    values = of_shares(x, label, weight, "none", axis, logits, smoothing)
    shares = _shares(x, label, smoothing)
    counted = shares != ignored
    if not counts_all and counted.all():
        return of_shares(x, label, weight, "mean", axis, logits, smoothing)
    each = counted.to(x.dtype) if weight is None else counted * (shares @ weight).reshape(values.shape).unsqueeze(axis)
    return values.sum() / (each.sum() or 1.0)


def of_labels(
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
    target = numbers_of(label, x, axis)
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
