"""Where NaN and infinities come from: the calls that make them of finite operands, and the first one that is handed a NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..numerics.oracle.elements import first_place
from ..verdicts import Side
from .describe import name_of

if TYPE_CHECKING:
    from .cases import Case

NAN, INFINITY = "NaN", "infinity"
_NARROW = (torch.float16, torch.bfloat16)


class Births:
    """Of one mode: :meth:`of` looks at every judged tensor.

    A NaN that came from nowhere that was compared is told of once: what follows from it is no news.
    """

    def __init__(self) -> None:
        self._heard = False  # of a NaN

    def of(self, case: Case, sides: tuple[torch.Tensor, torch.Tensor], *, equal: bool) -> dict[str, Any] | None:
        """What a record says where its tensor is not finite, for the first time (docs/log.md); ``equal``: both sides are."""
        paddle, torch_ = sides
        if all_finite(paddle) and (equal or all_finite(torch_)):
            return None
        masks = [side.isnan() for side in sides]
        what = NAN if any(bool(mask.any()) for mask in masks) else INFINITY
        if what == INFINITY:
            masks = [side.isinf() for side in sides]
        operands = list(_operands(case))
        infinite = any(isinstance(value, float) and not math.isfinite(value) for value in case.subject.attributes)
        if what == INFINITY and (infinite or not all(all_finite(tensor) for _, tensor in operands)):
            return None  # it was handed on
        bearing = [name for name, tensor in operands if bool(tensor.isnan().any())] if what == NAN else []
        if bearing and self._heard:
            return None
        self._heard |= what == NAN
        guilty = [side for side, mask in zip((Side.PADDLE, Side.TORCH), masks) if bool(mask.any())]
        place = first_place(masks[0] | masks[1])
        seen = {str(side): float(tensor[tuple(place)]) for side, tensor in zip((Side.PADDLE, Side.TORCH), sides)}
        return {
            "what": what,
            "side": str(guilty[0] if len(guilty) == 1 else Side.BOTH),
            "at": place,
            "values": seen,
            "came_in": bearing,
            "operands": [*(_described(name, tensor, place, paddle.shape) for name, tensor in operands), *_numbers(case)],
        }


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinities."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    if tensor.dtype not in _NARROW and not tensor.is_complex() and math.isfinite(tensor.sum().item()):
        return True  # of an infinite sum more has to be asked: finite numbers may have one
    return bool(torch.isfinite(tensor).all())


def _operands(case: Case) -> Iterator[tuple[str, torch.Tensor]]:
    """The float tensors that the case depends on, by name: the call's, and of a gradient the incoming ones."""
    subject = case.subject
    for index, operand in enumerate(subject.operands):
        if isinstance(operand, torch.Tensor) and operand.is_floating_point():
            yield name_of(subject.door, index), operand
    yield from case.incoming()


def _numbers(case: Case) -> Iterator[dict[str, Any]]:
    """The numbers that stand where the op may have a tensor."""
    for index, operand in enumerate(case.subject.operands):
        if isinstance(operand, (int, float)) and not isinstance(operand, bool):
            yield {"name": name_of(case.subject.door, index), "number": operand}


def _described(name: str, tensor: torch.Tensor, place: Sequence[int], shape: torch.Size) -> dict[str, Any]:
    """An operand: its least and largest number, and what stands where the result is not finite, if it has that place."""
    finite = tensor[torch.isfinite(tensor)]
    about: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "infinite": int(tensor.isinf().sum())}
    if finite.numel():
        about["least"], about["most"] = float(finite.min()), float(finite.max())
    if tensor.shape == shape:
        about["there"] = float(tensor[tuple(place)])
    return about
