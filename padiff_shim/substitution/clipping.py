"""Paddle's gradient clippers (``paddle.nn.ClipGradBy...``), answered by Torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..dispatch.frames import Frame
from ..frameworks.memory import as_it_lies, hand_over, stream_of
from ..frameworks.versions import IS_3
from ..gradients.leaves import has_turned_copy
from ..optimizers.clipping import factor
from ..table import reasons
from ..table.reasons import StayNative

Pairs = list[tuple[Any, Any]]


def by_global_norm(frame: Frame, definition: str, clip: Any, pairs: Pairs) -> Pairs:
    """``ClipGradByGlobalNorm``: one norm over all gradients. Raises StayNative, with nothing written."""
    _check_global(clip)
    clipped = [(param, grad, as_it_lies(grad)) for param, grad in pairs if _is_clipped(param, grad)]
    if not clipped:
        return pairs
    if len({side.dtype for *_, side in clipped}) > 1:
        raise StayNative(reasons.MIXED)
    with torch.no_grad(), stream_of(clipped[0][2]):
        by = factor((turned(param, side) for param, _, side in clipped), clip.clip_norm, definition)
        scaled = iter([_scaled(grad, side, by, in_place=IS_3) for _, grad, side in clipped])
    return [(param, next(scaled) if _is_clipped(param, grad) else grad) for param, grad in pairs if grad is not None]


def by_norm(frame: Frame, definition: str, clip: Any, pairs: Pairs) -> Pairs:
    """``ClipGradByNorm``: a norm for each gradient."""
    return list(_each_by_norm(definition, clip, pairs))


def _each_by_norm(definition: str, clip: Any, pairs: Pairs) -> Iterator[tuple[Any, Any]]:
    sides = [as_it_lies(grad) if _is_clipped(param, grad) else None for param, grad in pairs]
    for (param, grad), side in zip(pairs, sides):
        if side is not None:
            with torch.no_grad(), stream_of(side):
                yield param, _scaled(grad, side, factor([turned(param, side)], clip.clip_norm, definition), in_place=False)
        elif grad is not None:
            yield param, grad


def turned(param: Any, side: torch.Tensor) -> torch.Tensor:
    """A gradient as it lies in a Torch program: a Linear weight's as [out, in]."""
    return side.t().contiguous() if has_turned_copy(param) else side


def _is_clipped(param: Any, grad: Any) -> bool:
    return grad is not None and getattr(param, "need_clip", True) is not False


def _check_global(clip: Any) -> None:
    if clip.auto_skip_clip:
        raise StayNative(reasons.SKIPS_CLIP)
    if getattr(clip, "should_comm_on_shard_dim", False):
        raise StayNative(reasons.DISTRIBUTED)


def _scaled(grad: Any, side: torch.Tensor, by: torch.Tensor, *, in_place: bool) -> Any:
    """A gradient times a factor: in its own memory where Paddle writes there."""
    by = by.to(side.dtype)
    if not in_place or not side.ndim:
        return hand_over(side * by)
    side.mul_(by)
    grad._bump_inplace_version()
    return grad


WAYS: dict[str, Callable[..., Pairs]] = {"ClipGradByGlobalNorm": by_global_norm, "ClipGradByNorm": by_norm}
