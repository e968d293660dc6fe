"""Integer and bool results: nothing rounds, but a comparison or an argument of a maximum may stand on the edge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ...verdicts import Judgement, Side, Verdict
from ..oracle import noise
from ..oracle.elements import first_place
from .classes import wrong_class

RUNS = 12  # runs with operands moved by one unit roundoff; as many again beside operands of 0


def judge(
    paddle: torch.Tensor, torch_: torch.Tensor, kernel: Callable[..., torch.Tensor], operands: Sequence[torch.Tensor], seed: int
) -> Judgement:
    """Judge two results that are integers or bools, of one shape and dtype.

    TIE where they differ only in outputs that change when the float operands move by one unit roundoff, to what such a move gives;
    UNVERIFIED if to something else. Else the side that is not what float64 gives is WRONG, or LOCAL_WRONG in single outputs;
    without float operands nobody can say which it is.
    """
    unlike = paddle != torch_
    count = int(unlike.sum())
    stats: dict[str, Any] = {"count": paddle.numel(), "different": count}
    if not count:
        return Judgement(Verdict.EQUAL, reason="equal in value", stats=stats)
    floats = [t for t in operands if t.is_floating_point()]
    if not floats:
        reason = f"{count} of {paddle.numel()} results of integers differ; nothing is rounded"
        return Judgement(Verdict.SEMANTICS, Side.NONE, reason=reason, stats=stats)
    given = [noise.wide(t) for t in operands]
    value = noise.exact(kernel, given)
    values = [value, *_moved(kernel, given, floats[0].dtype, seed)]
    stable = unlike & ~torch.stack([other != value for other in values]).any(0)
    stats["oracle"] = "float64"
    if not stable.any():
        reached = [torch.stack([side == other for other in values]).any(0) for side in (paddle, torch_)]
        if not bool((reached[0] & reached[1] | ~unlike).all()):
            reason = f"{count} results stand on the edge; what is allowed there was not to be settled"
            return Judgement(Verdict.UNVERIFIED, reason=reason, stats=stats)
        stats["tied"], stats["first_tied"] = count, first_place(unlike)
        reason = f"{count} results stand on the edge, within one unit roundoff, where both choices are allowed"
        return Judgement(Verdict.TIE, reason=reason, stats=stats)
    wrong = {side: int((stable & (t != value)).sum()) for side, t in ((Side.PADDLE, paddle), (Side.TORCH, torch_))}
    guilty = [side for side, n in wrong.items() if n]
    stats["first_bad"] = first_place(stable)
    bad = max(wrong.values())
    reason = f"{' and '.join(guilty)}: {bad} of {paddle.numel()} results are not what float64 gives, and no tie explains it"
    verdict, side = wrong_class(bad, paddle.numel()), guilty[0] if len(guilty) == 1 else Side.BOTH
    return Judgement(verdict, side, reason=reason, stats=stats)


def _moved(
    kernel: Callable[..., torch.Tensor], given: Sequence[torch.Tensor], dtype: torch.dtype, seed: int
) -> Iterator[torch.Tensor]:
    """What comes out when operands move by a unit roundoff, or zeros by a number near the smallest."""
    info = torch.finfo(dtype)
    sizes = [noise.Size(info.eps, unit=info.eps), noise.Size(0.0, zeros=2 * info.tiny, unit=info.eps)]
    for place, size in enumerate(sizes):
        for run in range(RUNS):
            yield noise.moved(kernel, given, size, seed + 2 * run + place)[0]
