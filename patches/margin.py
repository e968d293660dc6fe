"""Losses with a margin: of pairs, triplets and classes, where what is far enough apart costs nothing.

Where a margin is met exactly, the gradient is 0.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.numerics.ties import Kinks
from padiff_shim.table.op import Definition, Fault, Floats, Ints, Sample, each, function, op

from ._declarations import REDUCTIONS, ROUNDED, alike, reduced, with_axes
from ._faults import label_taken_off, logarithm_of_sum
from ._norm_faults import TRIPLET
from .loss import LOGITS, WEIGHTS, loss

_MARGIN = Kinks(reach=4)  # what a pair lacks to it is computed


@op("logits labels", legacy=True, copies_result=True, samples=(Sample((5, 1), Floats((5, 1), 0, 1)),), ties=_MARGIN)
def hinge_loss(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Of labels 0 and 1: what the logit lacks to 1, on its label's side."""
    alike(x, label)
    with_axes(x)
    return torch.relu(1 - (2 * label.detach() - 1) * x)


@loss(
    'input other label margin=0.0 reduction="mean"',
    samples=each((Sample((3, 4), (3, 4), (3, 4)),), margin=(0.0, 0.5), reduction=REDUCTIONS),
    ties=Kinks(together=True, reach=4),
)
def margin_ranking_loss(x: torch.Tensor, other: torch.Tensor, label: torch.Tensor, margin: float, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.margin_ranking_loss``, step by step: at the margin its gradient is not 0."""
    values = torch.relu(-label * (x - other) + margin)
    if reduction == "none" and margin:
        with_axes(values)  # of such Paddle gives one of one axis
    return reduced(values, reduction)


@loss(
    'input label margin=1.0 reduction="mean"',
    samples=each((Sample((3, 4), Ints((3, 4), 0, 2)), Sample((3, 4), Ints((3, 4), -1, 0))), reduction=REDUCTIONS),
    ties=_MARGIN,
)
def hinge_embedding_loss(x: torch.Tensor, label: torch.Tensor, margin: float, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.hinge_embedding_loss``, step by step: labels that are neither 1 nor -1 add nothing."""
    alike(x, label)
    if reduction == "none":
        with_axes(x)  # of such Paddle gives one of one axis
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    return reduced(torch.where(label == -1, torch.relu(margin - x), zero) + torch.where(label == 1, x, zero), reduction)


@loss(
    'input1 input2 label margin=0.0 reduction="mean"',
    samples=each(
        (Sample((3, 4), (3, 4), Ints((3,), 1, 2)), Sample((3, 4), (3, 4), Ints((3,), -1, 0))),
        margin=(0.0, 0.3),
        reduction=REDUCTIONS,
    ),
    deviations=ROUNDED,
    definition=Definition(F.cosine_embedding_loss),
    note="adds 1e-11 to the squared norms, as Paddle does; Torch adds 1e-12",
)
def cosine_embedding_loss(x: torch.Tensor, y: torch.Tensor, label: torch.Tensor, margin: float, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.cosine_embedding_loss``, step by step: Paddle adds 1e-11 to the squares, Torch 1e-12."""
    alike(x, y)
    if x.ndim > 2 or label.ndim != 1:
        raise ValueError("vectors or rows of a matrix, and their labels")
    cosine = (x * y).sum(-1) / ((x * x).sum(-1).add(1e-11) * (y * y).sum(-1).add(1e-11)).sqrt()
    zero = torch.zeros((), dtype=x.dtype, device=x.device)
    return reduced(
        torch.where(label == 1, 1 - cosine, zero) + torch.where(label == -1, torch.relu(cosine - margin), zero), reduction
    )


@loss(
    'input positive negative margin=1.0 p=2.0 epsilon=1e-06 swap=False reduction="mean"',
    amp="p_norm",  # the lists name triplet_margin_loss, but Paddle has no such kernel
    copies_result=True,
    samples=each((Sample((3, 4), (3, 4), (3, 4)),), p=(2.0, 1.0), swap=(False, True), reduction=REDUCTIONS),
    faults=TRIPLET,
)
def triplet_margin_loss(
    x: torch.Tensor,
    positive: torch.Tensor,
    negative: torch.Tensor,
    margin: float,
    p: float,
    epsilon: float,
    swap: bool,
    reduction: str,
) -> torch.Tensor:
    """``torch.nn.functional.triplet_margin_loss``, step by step: at the margin its gradient is not 0."""
    alike(x, positive, negative)
    if margin < 0:
        raise ValueError("margin is negative")
    if p == 0:
        raise NotImplementedError("p=0: Torch's backward of a count gives nothing where Paddle's gives zeros")
    near, far = F.pairwise_distance(x, positive, p, epsilon), F.pairwise_distance(x, negative, p, epsilon)
    if swap:
        far = torch.minimum(far, F.pairwise_distance(positive, negative, p, epsilon))
    return reduced(torch.relu(margin + near - far), reduction)


@loss(
    'input label reduction="mean"',
    samples=each((Sample((3, 4), Floats((3, 4), -1, 1)), Sample((3, 4), Ints((3, 4), -1, 0))), reduction=REDUCTIONS),
    faults={"log(1+exp)": Fault(logarithm_of_sum, precision=True)},
)
def soft_margin_loss(x: torch.Tensor, label: torch.Tensor, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.soft_margin_loss``, which has no gradient of the labels."""
    alike(x, label)
    label = label.to(x.dtype)
    if label.requires_grad:
        return reduced(torch.log(torch.exp(-label * x) + 1), reduction)
    return F.soft_margin_loss(x, label, reduction=reduction)


@loss(
    'input label weight=None reduction="mean"',
    samples=each((Sample(*LOGITS), Sample(*LOGITS, WEIGHTS)), reduction=REDUCTIONS),
)
def multi_label_soft_margin_loss(x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.multilabel_soft_margin_loss``."""
    alike(x, label)
    return F.multilabel_soft_margin_loss(x, label, weight, reduction=reduction)


_TRIPLET = 'input positive negative distance_function=None margin=1.0 swap=False reduction="mean"'


@op(
    _TRIPLET,
    c=False,
    promote="same",
    copies_result=True,
    more_entries=(
        function("paddle.nn.functional.triplet_margin_with_distance_loss", _TRIPLET, when=("distance_function", (None,))),
    ),
    samples=each((Sample((3, 4), (3, 4), (3, 4)),), margin=(1.0, 0.1), swap=(False, True), reduction=REDUCTIONS),
    deviations=ROUNDED,
    note="with a function of one's own for the distance, its parts are ops of the table",
)
def triplet_margin_with_distance_loss(
    x: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, distance: Any, margin: float, swap: bool, reduction: str
) -> torch.Tensor:
    """``torch.nn.functional.triplet_margin_with_distance_loss`` with the Euclidean distance."""
    alike(x, positive, negative)
    if margin < 0:
        raise ValueError("margin is negative")
    return F.triplet_margin_with_distance_loss(x, positive, negative, margin=margin, swap=swap, reduction=reduction)


_NUMBERS = Ints((3,), 0, 4)


@loss(
    'input label weight=None p=1 margin=1.0 reduction="mean"',
    api='input label p=1 margin=1.0 weight=None reduction="mean"',
    samples=(
        *each((Sample((3, 4), _NUMBERS),), p=(1, 2), reduction=REDUCTIONS),
        Sample((3, 4), _NUMBERS, margin=0.3),
    ),
    refusals=(Sample((3, 4), Ints((2,), 0, 4)),),
    deviations=ROUNDED,
    faults={"label-taken-off": Fault(label_taken_off, precision=True)},
)
def multi_margin_loss(
    x: torch.Tensor, label: torch.Tensor, weight: torch.Tensor | None, p: int, margin: float, reduction: str
) -> torch.Tensor:
    """``torch.nn.functional.multi_margin_loss``, which has no gradient of the weights."""
    if margin < 0:
        raise NotImplementedError("a negative margin")
    with_axes(x)
    if not label.numel() == len(label) == len(x):
        raise ValueError("not one label for each row")
    label = label.reshape(-1).long()
    if weight is not None and weight.requires_grad:
        return reduced(F.multi_margin_loss(x, label, p, margin, reduction="none") * weight[label], reduction)
    return F.multi_margin_loss(x, label, p, margin, weight, reduction=reduction)


@loss('input label reduction="mean"', samples=each((Sample((3, 4), Ints((3, 4), -1, 4)),), reduction=REDUCTIONS))
def multi_label_margin_loss(x: torch.Tensor, label: torch.Tensor, reduction: str) -> torch.Tensor:
    """``torch.nn.functional.multilabel_margin_loss``."""
    return F.multilabel_margin_loss(x, label.long(), reduction=reduction)
