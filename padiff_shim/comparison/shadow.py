"""The shadow stream: every value as torch's kernels alone would have made it, beside Paddle's.

With it a call's error is taken apart: what this call adds (*local*), what came in (*incoming*: the largest difference between an
operand and its shadow) and what the call makes of that (*propagated*, and *amplification* = propagated / incoming). A covered op
computes its shadow with torch from the shadows of its operands; any other op with Paddle's own kernel from shadows, so that views,
copies and ops without reference pass the stream on. Random ops and in-place changes end it: the value behind starts without error.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..dispatch.dtypes import apart
from ..dispatch.operands import flat
from ..frameworks.memory import TENSOR_TYPES, as_operand, hand_over
from ..measure.bits import largest
from .compared_call import ComparedCall


class Shadow:
    """The shadows of living Paddle tensors, by identity; dropped with their tensors."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int, Any]] = {}

    def of(self, tensor: Any) -> Any:
        """The shadow of a Paddle tensor, or None: none known, or the tensor was changed in place since."""
        if type(tensor) not in TENSOR_TYPES:
            return None
        known = self._known.get(id(tensor))
        if known is None:
            return None
        holder, version, shadow = known
        holding: Any = holder()
        if holding is not tensor:
            return None
        return shadow if version == tensor.inplace_version else None

    def put(self, tensor: Any, shadow: Any) -> None:
        """``shadow`` (a Paddle tensor without gradient) stands beside ``tensor`` from now on."""
        key = id(tensor)
        self._known[key] = (weakref.ref(tensor, lambda _: self._known.pop(key, None)), tensor.inplace_version, shadow)

    def forward(self, subject: ComparedCall, position: int, result: Any, reference: torch.Tensor) -> dict[str, float | None]:
        """Compute and keep the shadow of a result of a covered call.

        Returns:
            ``incoming``, ``propagated`` (largest absolute differences) and ``amplification`` (None without an incoming error).
        """
        if not reference.is_floating_point():  # indices of what was chosen have no error
            return {}
        sides, incoming, known = list(subject.operands), 0.0, False
        for index, operand in enumerate(subject.inputs.paddle):
            shadow = self.of(operand)
            if shadow is None or index == subject.entry_point.transposed:
                continue
            known = True
            side = as_operand(shadow).to(sides[index].dtype)
            incoming = max(incoming, _distance(sides[index], side))
            sides[index] = side
        with torch.no_grad():
            out = flat(subject.run(*sides))[position] if known else reference
        propagated = _distance(reference, out) if known else 0.0
        self.put(result, hand_over(out.clone()))
        return {"incoming": incoming, "propagated": propagated, "amplification": propagated / incoming if incoming else None}

    def carry(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Pass the stream on through an op that is not compared, by its own kernel on the shadows of its operands."""
        shadows = {id(tensor): shadow for tensor in _tensors((*args, *kwargs.values())) if (shadow := self.of(tensor)) is not None}
        results = _tensors((result,))
        if not shadows or any(id(tensor) in shadows for tensor in results):
            return
        shadow_results = apart(original, args, kwargs, shadows)
        for tensor, shadow in zip(results, _tensors((shadow_results,))):
            if tensor.is_floating_point() and tensor.shape == shadow.shape:  # `unique` of other values has other elements
                self.put(tensor, shadow.astype(tensor.dtype))


def _distance(tensor: torch.Tensor, other: torch.Tensor) -> float:
    """Largest absolute difference, in float64."""
    return largest(*(side.detach().double().cpu().numpy() for side in (tensor, other)))


def _tensors(values: Any) -> list[Any]:
    """The Paddle tensors among ``values``, one level into lists and tuples."""
    return [value for value in flat(values) if type(value) in TENSOR_TYPES]
