"""Dropout: in a mode with ``random="torch"`` what Torch's global generator drops.

Without that option the draws stay Paddle's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Op, c_op, function, op

from ._declarations import generator, of


def _dropping(x: Any, p: Any, *rest: Any) -> bool:
    """In training, and with something to drop."""
    return bool(rest[-1]) and not (isinstance(p, (int, float)) and p == 0)


def _arranged(x: Any, seed_tensor: Any, p: Any, is_test: bool, mode: str, seed: int, fix_seed: bool) -> tuple[Any, ...]:
    """The arguments of Paddle's C function as the op's."""
    if seed_tensor is not None:
        seed, fix_seed = seed_tensor, True
    return x, p, mode == "upscale_in_train", seed if fix_seed else None, not is_test


@op(
    "x p=0.5 upscale=True seed=None training=True",
    c=False,
    random=_dropping,
    promote="same",
    more_entries=(
        c_op(
            "dropout",
            "x seed_tensor=None p=0.5 is_test=False mode='downgrade_in_infer' seed=0 fix_seed=False",
            arrange=_arranged,
            with_mask=True,
        ),
        c_op(
            "dropout_",
            "x seed_tensor=None p=0.5 is_test=False mode='downgrade_in_infer' seed=0 fix_seed=False",
            arrange=_arranged,
            inplace=True,
        ),
    ),
    note="`mode='downscale_in_infer'` is Paddle's own: nothing is scaled in training, and by 1 - p in evaluation.",
)
def dropout(x: torch.Tensor, p: float, upscale: bool, seed: Any, training: bool) -> torch.Tensor:
    """``torch.nn.functional.dropout``."""
    p = float(p)
    if not training:
        return x.clone() if upscale else x * (1 - p)
    if upscale and seed is None:
        return F.dropout(x, p, True)
    noise = torch.empty_like(x).bernoulli_(1 - p, generator=None if seed is None else generator(int(seed) or 1, x.device))
    return x * (noise.div_(1 - p) if upscale and p < 1 else noise)


def _dropping_along(x: Any, p: Any, axis: Any, training: bool, inplace: bool, mode: str) -> bool:
    return axis is not None and _dropping(x, p, training)


@op(
    "x p=0.5 axis=None training=True inplace=False mode='upscale_in_train'",
    c=False,
    random=_dropping_along,
    promote="same",
    more_entries=(
        function(
            "paddle.nn.functional.dropout", "x p=0.5 axis=None training=True inplace=False mode='upscale_in_train'", seen_below=True
        ),
    ),
    note="With `axis`: what lies along the other axes is dropped together. `axis=[0, 1]` (`dropout2d`, `dropout3d`) is Torch's "
    "feature dropout; `dropout1d` is Paddle's `axis=1`, one mask for the whole batch, where Torch draws one for each example.",
)
def dropout_nd(x: torch.Tensor, p: float, axis: Any, training: bool, inplace: bool, mode: str) -> torch.Tensor:
    """``torch.nn.functional.dropout2d`` for any axes."""
    drawn = [axis] if isinstance(axis, int) else list(axis)
    axes = range(x.ndim)
    if inplace or mode not in ("upscale_in_train", "downscale_in_infer") or len(drawn) > len(axes) or not set(drawn) <= set(axes):
        raise NotImplementedError("no such dropout: Paddle refuses it")
    p = float(p)
    if not 0 <= p <= 1:
        raise NotImplementedError("p is no probability: Paddle refuses it")
    # 0 with probability p, else 1, of one number for each place along the axes in ``kept``: ``feature_dropout`` draws so
    sizes = [size if axis in drawn else 1 for axis, size in enumerate(x.shape)]
    noise = torch.empty(sizes, dtype=x.dtype, device=x.device).bernoulli_(1 - p, generator=None)
    return x * (noise.div_(1 - p) if mode == "upscale_in_train" and p < 1 else noise)


def _alpha(formula: Callable[..., Any], x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """``torch.nn.functional.alpha_dropout`` and its like; with nothing to drop a copy."""
    return formula(x, p, training) if p else x.clone()


def _of_alpha(formula: Callable[..., Any]) -> Op:
    params = "x p=0.5 training=True"
    entry = function(f"paddle.nn.functional.{formula.__name__}", params, seen_below=True)
    return op(params, c=False, random=lambda x, p, training: bool(training), more_entries=(entry,))(of(_alpha, formula))


alpha_dropout, feature_alpha_dropout = _of_alpha(F.alpha_dropout), _of_alpha(F.feature_alpha_dropout)
