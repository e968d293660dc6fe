"""Losses of classes: the label of a sample is a number, or a share of each class."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Floats, Ints, Sample, each, op

from .loss import REDUCTIONS, loss, reduced

_LABELS = Ints((5,), 0, 4)
_ROWS, _IMAGES = Sample((5, 4), None, _LABELS), Sample((2, 3, 3, 4), None, Ints((2, 3, 3), 0, 4))
_CLASSES = Floats((4,), 0.5, 2.0)


def _channels(x: torch.Tensor, axis: int) -> torch.Tensor:
    """The classes in the place where Torch expects them."""
    return x.movedim(axis, 1) if x.ndim > 1 else x


def _hard(label: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    """Labels as Torch takes them: without the axis of length 1 that Paddle allows, in int64."""
    return (label.squeeze(axis) if label.ndim == x.ndim else label).long()


@loss(
    'input label weight=None ignore_index=-100 reduction="mean" soft_label=False axis=-1 use_softmax=True label_smoothing=0.0',
    tensors=3,
    promote="none",
    amp="softmax_with_cross_entropy",
    samples=(
        *each((Sample((5, 4), _LABELS), Sample((5, 4), _LABELS, _CLASSES)), ignore_index=(-100, 1), reduction=REDUCTIONS),
        *each((Sample((5, 4), Ints((5, 1), 0, 4)), Sample((2, 3, 4), Ints((2, 3), 0, 4))), reduction=REDUCTIONS),
        *each((Sample((2, 4, 3, 3), Ints((2, 1, 3, 3), 0, 4)), Sample((2, 4, 3), Ints((2, 3), 0, 4), _CLASSES)), axis=(1,), reduction=REDUCTIONS),
        *each((Sample((5, 4), Floats((5, 4), 0, 1)), Sample((5, 4), Floats((5, 4), 0, 1), _CLASSES)), soft_label=(True,), reduction=REDUCTIONS),
        *each((Sample((5, 4), _LABELS), Sample((5, 4), Floats((5, 4), 0, 1)), Sample((5, 4), _LABELS, _CLASSES)), label_smoothing=(0.1,), reduction=REDUCTIONS),
        *each((Sample(Floats((5, 4), 0.1, 0.9), _LABELS),), use_softmax=(False,), reduction=REDUCTIONS),
        Sample(Floats((5, 4), 0.1, 0.9), Floats((5, 4), 0, 1), use_softmax=False, soft_label=True),
        Sample((5, 4), Ints((5,), 1, 2), ignore_index=1),
        Sample((5, 4), Ints((5,), -100, -99)),
        Sample((5, 4), Ints((5,), 1, 2), _CLASSES, ignore_index=1),
        Sample((5, 4), Ints((5,), -1, 2), ignore_index=-1),
    ),
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
    """``torch.nn.functional.cross_entropy``; where it weighs or counts otherwise than Paddle, of each sample alone."""
    if weight is not None and weight.dtype != x.dtype:
        raise NotImplementedError("input and weight of different dtypes")
    if soft_label or label_smoothing > 0:
        return _of_shares(x, label, weight, ignore_index, reduction, axis, use_softmax, label_smoothing)
    target = _hard(label, x, axis)
    kept = target != ignore_index
    counted = bool(kept.all()) if weight is None and ignore_index < 0 else bool(kept.any())
    if reduction == "mean" and counted and not (weight is not None and weight.requires_grad):
        return _likelihood(x, target, weight, ignore_index, "mean", axis, use_softmax)
    values = _likelihood(x, target, None, ignore_index, "none", axis, use_softmax)
    ...
