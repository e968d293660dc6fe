"""Paddle's gradient clippers (``paddle.nn.ClipGradBy...``), answered by Torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..frameworks.memory import as_it_lies, hand_over, stream_of
from ..frameworks.versions import IS_3
from ..gradients.leaves import is_linear_weight
from ..optimizers.clipping import factor
from ..table import reasons
from ..table.reasons import StayNative

Pairs = list[tuple[Any, Any]]


def by_global_norm(definition: str, clip: Any, pairs: Pairs) -> Pairs:
    """``ClipGradByGlobalNorm``: one norm over all gradients. Raises StayNative, with nothing written."""
    _check_global(clip)
    given = [(param, grad) for param, grad in pairs if grad is not None]
    clipped = [(param, grad, as_it_lies(grad)) for param, grad in given if _is_clipped(param)]
    if not clipped:
        return pairs
    if len({side.dtype for *_, side in clipped}) > 1:
        raise StayNative(reasons.MIXED)
    sides = [side for *_, side in clipped]
    with torch.no_grad(), stream_of(sides[0].device):
        by = factor(_turned([param for param, *_ in clipped], sides), clip.clip_norm, definition).to(sides[0].dtype)
        if IS_3:  # Paddle 3 writes into the gradients
            if sides[0].is_cuda or by.item() != 1.0:  # where nothing is clipped nothing is written
                torch._foreach_mul_(sides, by)
            for _, grad, _ in clipped:
                grad._bump_inplace_version()
            return given
        scaled = iter(torch._foreach_mul(sides, by))
    return [(param, hand_over(next(scaled)) if _is_clipped(param) else grad) for param, grad in given]


def by_norm(definition: str, clip: Any, pairs: Pairs) -> Pairs:
    """``ClipGradByNorm``: a norm for each gradient."""
    given = [(param, grad) for param, grad in pairs if grad is not None]
    sides = [as_it_lies(grad) if _is_clipped(param) else None for param, grad in given]
    return [
        (param, grad if side is None else _by_norm(definition, clip.clip_norm, param, side))
        for (param, grad), side in zip(given, sides)
    ]


def _by_norm(definition: str, limit: float, param: Any, side: torch.Tensor) -> Any:
    with torch.no_grad(), stream_of(side.device):
        return hand_over(side * factor(_turned([param], [side]), limit, definition).to(side.dtype))


def _turned(params: Sequence[Any], sides: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Gradients as they lie in a Torch program: a Linear weight's as [out, in], valid until the next one is asked for."""
    scratch: torch.Tensor | None = None
    for param, side in zip(params, sides):
        if is_linear_weight(param):
            if scratch is None or scratch.numel() < side.numel():
                scratch = side.new_empty(max(other.numel() for other in sides))
            yield scratch[: side.numel()].view(side.shape[1], side.shape[0]).copy_(side.t())
        else:
            yield side


def _is_clipped(param: Any) -> bool:
    return getattr(param, "need_clip", True) is not False


def _check_global(clip: Any) -> None:
    if clip.auto_skip_clip:
        raise StayNative(reasons.SKIPS_CLIP)
    if getattr(clip, "should_comm_on_shard_dim", False):
        raise StayNative(reasons.DISTRIBUTED)


WAYS: dict[str, Callable[..., Pairs]] = {"ClipGradByGlobalNorm": by_global_norm, "ClipGradByNorm": by_norm}
