"""Calls of a port that are kept, so that each can be gone back through by itself: natively, by Torch, and in float64."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle
import torch

from ..dispatch.door import Door
from ..dispatch.frames import Frame, paused
from ..dispatch.operands import wanting
from ..dispatch.plan import Unlisted
from ..dispatch.prepare import Prepared, prepare
from ..substitution.plan import Substituting
from ..table.reasons import StayNative
from .plans import TORCHS, survivable
from .values import as_array, leaves, mapped

Array = np.ndarray[Any, Any]
Key = tuple[str, str, int]  # layer, op, and the how-maniest call of it


class Kept:
    """One call: its operands before it, what it made, and the gradients that its results were handed by the backward.

    ``wanted`` are the operands, in the order of the op's parameters, whose gradients the call's backward gives.
    """

    def __init__(self, door: Door, frame: Frame, values: Any, args: Any, kwargs: Any) -> None:
        self.door = door
        copies: dict[int, Any] = {}

        def copied(tensor: Any) -> Any:
            if not isinstance(tensor, paddle.Tensor):
                return tensor
            if id(tensor) not in copies:
                copies[id(tensor)] = tensor, _copy(tensor)  # the tensor too: no identity is given out twice
            return copies[id(tensor)][1]

        with paused():
            self.args, self.kwargs = mapped(args, copied), mapped(kwargs, copied)
            given = mapped(values, copied)
        with paddle.no_grad():
            self.prepared: Prepared = prepare(door, frame, given, self.args, self.kwargs)
        self.wanted = wanting(self.prepared.inputs.paddle, self.prepared.inputs.torch)
        self.made: list[Array] = []
        self.handed: list[Array | None] = []

    def follow(self, made: Sequence[Any]) -> None:
        """Keep the results, and the gradient of each as soon as a backward hands it over."""
        self.made = [as_array(tensor).copy() for tensor in made]
        self.handed = [None] * len(made)
        for place, tensor in enumerate(made):
            if not tensor.stop_gradient:
                tensor.register_hook(self._handing(place))

    def _handing(self, place: int) -> Callable[[Any], None]:
        def keep(gradient: Any) -> None:
            known, array = self.handed[place], as_array(gradient)
            self.handed[place] = array.copy() if known is None else known + array

        return keep

    @property
    def answered(self) -> bool:
        """Whether a backward went through it."""
        return bool(self.wanted) and any(one is not None and one.any() for one in self.handed)

    def operand(self, place: int) -> Array:
        """The values of one operand."""
        return as_array(self.prepared.inputs.paddle[place])

    def torchs(self, *, double: bool) -> tuple[list[Array], list[Array | None]]:
        """The results of the op's formula on these operands, and the gradients of the wanted ones; ``double``: in float64."""
        inputs, attributes, casts = self.prepared
        sides = [_side(side, double=double, wanted=at in self.wanted) for at, side in enumerate(inputs.torch)]
        with torch.enable_grad():
            out = self.door.torch(sides, attributes) if double else casts.run(self.door, sides, attributes)
        made = [one for _, one in leaves(out)]
        results = [as_array(one) for one in made]
        pairs = [
            (one, torch.from_numpy(given).to(one))
            for one, given in zip(made, self.handed)
            if given is not None and one.requires_grad and given.shape == tuple(one.shape)
        ]
        if not pairs:
            return results, [None] * len(self.wanted)
        ends, starts = zip(*pairs)
        found = torch.autograd.grad(ends, [sides[at] for at in self.wanted], starts, allow_unused=True)
        turned = [one.t() if at == self.door.transposed and one is not None else one for at, one in zip(self.wanted, found)]
        return results, self._summed([None if one is None else as_array(one) for one in turned])

    def paddles(self) -> tuple[list[Array], list[Array | None]]:
        """The same of Paddle's kernels; an operand that stands in several places has its whole gradient in the first."""
        fresh: dict[int, Any] = {}

        def leaf(tensor: Any) -> Any:
            if not isinstance(tensor, paddle.Tensor):
                return tensor
            if id(tensor) not in fresh:
                fresh[id(tensor)] = tensor.detach()
                fresh[id(tensor)].stop_gradient = tensor.stop_gradient
            found = fresh[id(tensor)]
            return found.clone() if self.door.entry.inplace else found

        with paused(), paddle.enable_grad():
            made = [one for _, one in leaves(self.door.native(*mapped(self.args, leaf), **mapped(self.kwargs, leaf)))]
            pairs = [
                (one, paddle.to_tensor(given).astype(one.dtype))
                for one, given in zip(made, self.handed)
                if given is not None and not one.stop_gradient and list(given.shape) == list(one.shape)
            ]
            if not pairs:
                return [as_array(one) for one in made], [None] * len(self.wanted)
            operands = [self.prepared.inputs.paddle[at] for at in self.wanted]
            distinct = {id(one): fresh[id(one)] for one in operands if id(one) in fresh}
            ends, starts = map(list, zip(*pairs))
            found = paddle.grad(ends, list(distinct.values()), starts, allow_unused=True)
        by_operand = dict(zip(distinct, found))
        given = [by_operand.pop(id(one), None) for one in operands]
        return [as_array(one) for one in made], [None if one is None else as_array(one) for one in given]

    def _summed(self, gradients: Sequence[Array | None]) -> list[Array | None]:
        """Gradients of the wanted operands, those of one that stands in several places added up in the first."""
        first: dict[int, int] = {}
        found: list[Array | None] = []
        for at, one in zip(self.wanted, gradients):
            known = first.setdefault(id(self.prepared.inputs.paddle[at]), len(found))
            if known < len(found):
                other = found[known]
                found[known] = one if other is None else other if one is None else other + one
                one = None
            found.append(one)
        return found


def _copy(tensor: Any) -> Any:
    """Its values as they are now; what is written later, as a parameter by an optimizer, is another's."""
    copy = tensor.detach().clone()
    copy.stop_gradient = tensor.stop_gradient
    return copy


def _side(side: Any, *, double: bool, wanted: bool) -> Any:
    """An operand of Torch's, as one that a graph begins with."""
    if not isinstance(side, torch.Tensor):
        return side
    side = side.detach()
    if double and side.is_floating_point():
        side = side.to(torch.float64, copy=True)
    return side.requires_grad_() if wanted else side


class Keeping(Substituting):
    """Reference mode's plan, or Paddle's kernels, that keeps every call which rounds.

    Args:
        native: calls run on Paddle's kernels; what draws random numbers draws Torch's all the same.
        layer: tells the path of the layer that is running.
    """

    def __init__(self, *, native: bool, layer: Callable[[], str]) -> None:
        super().__init__("torch", draws=True, torchs=TORCHS)
        if native:
            self.autocasts = ""
        self.calls: dict[Key, Kept] = {}
        self._native, self._layer = native, layer
        self._times: collections.Counter[tuple[str, str]] = collections.Counter()

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call, kept."""
        if (door.op.random is not None and door.op.random(*values)) or not door.op.leading:
            return super().call(door, frame, values, args, kwargs)
        kept = Kept(door.torchs if door.op.name in self.torchs else door, frame, values, args, kwargs)
        if self._native:
            args, kwargs = survivable(door, values, args, kwargs)
            result = door.native(*args, **kwargs)
        else:
            result = super().call(door, frame, values, args, kwargs)
            frame.quick.clear()  # a shorter way would pass by here
        kept.follow([tensor for _, tensor in leaves(result)])
        place = self._layer(), door.op.name
        self.calls[(*place, self._times[place])] = kept
        self._times[place] += 1
        return result

    def native(self, door: Door, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel; of a native run beside no tape."""
        return door.native(*args, **kwargs) if self._native else super().native(door, frame, why, args, kwargs)

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for an op without reference."""
        return other.original(*args, **kwargs) if self._native else super().unlisted(other, frame, args, kwargs)

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for what moves values."""
        return original(*args, **kwargs) if self._native else super().exact(name, original, args, kwargs)

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for a function with a backward of its own."""
        return original(*args, **kwargs) if self._native else super().py_layer(name, original, args, kwargs)
