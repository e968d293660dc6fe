"""Paddle's gradient clippers (``paddle.nn.ClipGradBy...``, ``paddle.nn.utils.clip_grad_norm_``), answered by Torch.

Clipping by value needs nothing here: it is made of calls of ops.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import paddle
import torch

from ..frameworks.memory import as_it_lies, hand_over, stream_of
from ..frameworks.versions import IS_3, PaddleTensor
from ..table import reasons
from ..table.reasons import StayNative
from ..tape.twins import is_linear_weight
from ..torch_versions import foreach, group_by_dtype

Pairs = list[tuple[Any, Any]]
_ORDERS = (float("inf"), 0, 1, 2)  # of norms that Paddle's function takes


def by_global_norm(definition: str, clip: Any, pairs: Pairs) -> Pairs:
    """``ClipGradByGlobalNorm``: one norm over all gradients. Raises StayNative, with nothing written."""
    if clip.auto_skip_clip:
        raise StayNative(reasons.SKIPS_CLIP)
    if getattr(clip, "should_comm_on_shard_dim", False):
        raise StayNative(reasons.DISTRIBUTED)
    pairs_with_grad = [pair for pair in pairs if pair[1] is not None]
    clipped = [pair for pair in pairs_with_grad if _is_clipped(pair[0])]
    if not clipped:
        return pairs
    sides = [as_it_lies(grad) for _, grad in clipped]
    mixed = len({side.dtype for side in sides}) > 1
    if mixed and (definition != "torch" or sides[0].is_cuda):
        raise StayNative(reasons.MIXED)
    with torch.no_grad(), stream_of(sides[0].device):
        params = [param for param, _ in clipped]
        if mixed:
            norms = _norms(params, sides)
            groups = group_by_dtype([sides], with_indices=True)  # in whose order Torch takes gradients of several dtypes
            by = factor_of_norms([norms[index] for _, indices in groups.values() for index in indices], clip.clip_norm)
        else:
            by = _factor(params, sides, clip.clip_norm, definition).to(sides[0].dtype)
        written = [_is_written(grad) for _, grad in clipped]
        _multiply([*itertools.compress(clipped, written)], [*itertools.compress(sides, written)], by)
        others = [side.view(side.shape or ((1,) if IS_3 else ())) for side, writes in zip(sides, written) if not writes]
        scaled = iter(foreach("mul")(others, by) if others else ())
    return [
        (param, hand_over(next(scaled)) if _is_clipped(param) and not _is_written(grad) else grad)
        for param, grad in pairs_with_grad
    ]


def _is_written(grad: PaddleTensor) -> bool:
    """Whether Paddle writes what is clipped into the gradient; it makes another one where there are no axes, or no elements."""
    return IS_3 and grad.ndim > 0 and grad._is_initialized()


def _multiply(pairs: Pairs, sides: list[torch.Tensor], by: torch.Tensor) -> None:
    """In place."""
    if sides and (by.is_cuda or by.item() != 1.0):  # where nothing is clipped nothing is written
        foreach("mul_")(sides, by)
    for _, grad in pairs:
        grad._bump_inplace_version()


def by_norm_of_all(
    definition: str, parameters: Sequence[Any], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Any:
    """``clip_grad_norm_``, which both frameworks define alike; NotImplemented for what is Paddle's to refuse, or nothing to do."""
    pairs = [(param, grad) for param in parameters if (grad := param._grad_ivar()) is not None]
    if norm_type not in _ORDERS or not pairs:
        return NotImplemented
    sides = [as_it_lies(grad) for _, grad in pairs]
    if len({side.dtype for side in sides}) > 1:
        raise StayNative(reasons.MIXED)
    with torch.no_grad(), stream_of(sides[0].device):
        norm = norm_of_norms(_norms([param for param, _ in pairs], sides, float(norm_type)), float(norm_type))
        if error_if_nonfinite and not norm.isfinite():
            return NotImplemented
        _multiply(pairs, sides, factor_of_norm(norm, float(max_norm)).to(sides[0].dtype))
        return hand_over(norm)


def with_list(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of ``clip_grad_norm_`` with a list of parameters, which may come from a generator, or be one alone."""
    parameters_argument = args[0] if args else kwargs.get("parameters")
    if parameters_argument is None:
        return args, kwargs
    parameters = [parameters_argument] if isinstance(parameters_argument, paddle.Tensor) else list(parameters_argument)
    return ((parameters, *args[1:]), kwargs) if args else (args, {**kwargs, "parameters": parameters})


def by_norm(definition: str, clip: Any, pairs: Pairs) -> Pairs:
    """``ClipGradByNorm``: a norm for each gradient."""
    if not clip.clip_norm > 0:
        raise StayNative(reasons.CLIP_NORM)
    pairs_with_grad = [(param, grad) for param, grad in pairs if grad is not None]
    sides = [as_it_lies(grad) if _is_clipped(param) else None for param, grad in pairs_with_grad]
    return [
        (param, grad if side is None else _by_norm(definition, clip.clip_norm, param, side))
        for (param, grad), side in zip(pairs_with_grad, sides)
    ]


def _by_norm(definition: str, limit: float, param: PaddleTensor, side: torch.Tensor) -> Any:
    with torch.no_grad(), stream_of(side.device):
        return hand_over(side * factor(_turned([param], [side]), limit, definition).to(side.dtype))


def _factor(params: Sequence[Any], sides: Sequence[torch.Tensor], limit: float, definition: str) -> torch.Tensor:
    """What gradients are multiplied by; of those that lie as in a Torch program the norms are taken in one call."""
    if definition != "torch" or sides[0].is_cuda:
        return factor(_turned(params, sides), limit, definition)
    return factor_of_norms(_norms(params, sides), limit)


def _norms(params: Sequence[Any], sides: Sequence[torch.Tensor], order: float = 2.0) -> list[torch.Tensor]:
    """The norm of each gradient, as it lies in a Torch program."""
    return [torch.linalg.vector_norm(side, order) for side in _turned(params, sides)]


def _turned(params: Sequence[Any], sides: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Gradients as they lie in a Torch program: a Linear weight's as [out, in], each valid until the next one is taken."""
    scratch: torch.Tensor | None = None  # fresh pages would cost more than turning
    for param, side in zip(params, sides):
        if is_linear_weight(param):
            if scratch is None or scratch.dtype is not side.dtype:
                scratch = side.new_empty(max(other.numel() for other in sides))
            yield scratch[: side.numel()].view(side.shape[1], side.shape[0]).copy_(side.t())
        else:
            yield side


def _is_clipped(param: PaddleTensor) -> bool:
    return getattr(param, "need_clip", True) is not False


# ---- The factors, by Torch's definition and by Paddle's in Torch's functions.

_BESIDE_ZERO = 1e-6  # what Torch adds to a norm that it divides by


def factor(gradients: Iterable[torch.Tensor], limit: float, definition: str) -> torch.Tensor:
    """What the gradients of one norm are multiplied by, a tensor without axes.

    Args:
        gradients: laid out as in a Torch program, for a norm's last bits depend on the order. They are taken one after the other,
            and none is kept.
        limit: the largest norm that is left alone.
        definition: ``"torch"``: the norm of the gradients' norms, and ``limit / (norm + 1e-6)``, at most 1. ``"paddle"``: the root
            of the sum of all squares, and ``limit / max(norm, limit)``.
    """
    if definition == "torch":
        return factor_of_norms([torch.linalg.vector_norm(gradient) for gradient in gradients], limit)
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    return limit / norm.clamp(min=limit)


def factor_of_norms(norms: Sequence[torch.Tensor], limit: float) -> torch.Tensor:
    """The same by Torch's definition, from the gradients' norms."""
    return factor_of_norm(norm_of_norms(norms), limit)


def norm_of_norms(norms: Sequence[torch.Tensor], order: float = 2.0) -> torch.Tensor:
    """Of all gradients, from their norms, by Torch's definition."""
    return torch.linalg.vector_norm(torch.stack(list(norms)), order)


def factor_of_norm(norm: torch.Tensor, limit: float) -> torch.Tensor:
    """What gradients of that norm are multiplied by, by Torch's definition."""
    return torch.clamp(limit / (norm + _BESIDE_ZERO), max=1.0)


CLIPPING: dict[str, Callable[..., Any]] = {
    "ClipGradByGlobalNorm": by_global_norm,
    "ClipGradByNorm": by_norm,
    "clip_grad_norm_": by_norm_of_all,
}
