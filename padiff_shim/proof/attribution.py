"""Why a right port differs natively: which calls carry the difference of its outputs and gradients."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import torch

from ..catalogue.registry import ops
from ..dispatch.entry_point import EntryPoint, Unlisted
from ..dispatch.frames import Frame, paused
from ..dispatch.operands import wanting
from ..dispatch.prepare import Prepared, prepare
from ..errors import ArgumentError
from ..frameworks import autocast
from ..interrupts import let_pass
from ..modes.compare import compare
from ..modes.mode import Mode
from ..substitution.plan import Substituting
from ..table.reasons import StayNative
from ..text import joined, tr
from ..trees import as_array, leaves, mapped
from ..verdicts import HARD, Side, Verdict
from .agreement import Array
from .carried import CarriedBy, CarrierRow, GradientRow, JumpRow
from .plans import TORCHS, opened, survivable
from .programs import NotWider, PaddleSide, error_text
from .trace import Tensor

# ---- The difference of outputs.
#
# To first order the difference of two runs of one program on two frameworks' kernels is the sum over its calls of J e. Here e is
# how far the call's two results are apart beyond their operands: the difference of their two rounding errors, each against the
# same formula in float64 on that run's own operands. J is how the call's result moves the outputs. One backward that begins with
# the difference itself gives the inner products of all J e with it (the adjoint of error analysis): shares, which add up to 1 where
# the first order explains all. A part of e comes from the kernels: their distance on equal operands. The rest is an echo: operands
# that differ already round differently on any kernel.

Key = tuple[str, str, int]  # layer, op, and the number of its call there
NEAR = 2.0**-16  # of the largest element: most of the digits of float32
NOWHERE = tr("the port fails on Paddle's own kernels")
STEP = 2.0**-7  # of an element: less is no jump of a step function


@dataclass
class ResultRounding:
    """How far one result lies from the float64 formula's (``error``), its largest element, and its dtype's unit roundoff."""

    error: Array
    size: float
    unit: float

    @property
    def units(self) -> float:
        """The largest error, in unit roundoffs of the largest element."""
        return float(np.abs(self.error).max(initial=0)) / (self.size * self.unit) if self.size and self.unit else 0.0

    @classmethod
    def between(cls, made: Array, exact: Array) -> ResultRounding:
        """Of a result of floats and the exact result of its shape."""
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.nan_to_num(np.subtract(made, exact, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        size = float(np.abs(np.nan_to_num(exact, posinf=0.0, neginf=0.0)).max(initial=0))
        return cls(error, size, float(np.finfo(made.dtype).eps) / 2)


Seen = Callable[[Key, list[Any], list[ResultRounding | None], list[Array]], None]


class Watching(Substituting):
    """Reference mode's plan, or Paddle's kernels, with the rounding error of each call.

    Args:
        native: calls run on Paddle's kernels; what draws random numbers draws Torch's all the same.
        layer: returns the path of the running layer.
        seen: called with each call's key, its results, their rounding errors, and Paddle's results for the same operands (none
            where the call itself is Paddle's, or writes in place).
    """

    def __init__(self, *, native: bool, layer: Callable[[], str], seen: Seen) -> None:
        super().__init__("torch", draws=True, torchs=TORCHS)
        if native:
            self.autocasts = ""
        self._native, self._layer, self._seen = native, layer, seen
        self._calls: collections.Counter[tuple[str, str]] = collections.Counter()

    def call(self, door: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call, and what it rounds."""
        draws = door.op.random is not None and door.op.random(*values)
        if door.op.exact or draws or not door.op.leading:
            result = super().call(door, frame, values, args, kwargs)
            if door.op.steps:
                frame.quick.clear()  # a shorter way would not pass here
                self._tell(door, [tensor for _, tensor in leaves(result)], [], [])
            return result
        wanted = _in_float64(door.torchs if door.op.name in self.torchs else door, frame, values, args, kwargs)
        others: list[Array] = []
        if self._native:
            result = door.native(*args, **kwargs)
        else:
            result = super().call(door, frame, values, args, kwargs)
            frame.quick.clear()  # a shorter way would not pass here
            if not (door.entry.inplace or autocast.HERE.on):  # on a CPU Paddle itself makes no casts
                with paddle.no_grad():
                    others = [as_array(tensor) for _, tensor in leaves(door.native(*args, **kwargs))]
        made = [tensor for _, tensor in leaves(result)]
        self._tell(door, made, list(_errors(made, wanted)), others)
        return result

    def _tell(self, door: EntryPoint, made: list[Any], errors: list[ResultRounding | None], others: list[Array]) -> None:
        place = self._layer(), door.op.name
        self._seen((*place, self._calls[place]), made, errors, others)
        self._calls[place] += 1


def _in_float64(door: EntryPoint, frame: Frame, values: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The results of the op's formula on these operands in float64."""
    with paddle.no_grad():  # the operands of the kernel
        inputs, attributes, casts = prepare(door, frame, values, args, kwargs)
    wide = [
        side.detach().to(torch.float64, copy=True) if isinstance(side, torch.Tensor) and side.is_floating_point() else side
        for side in casts.apply(inputs.torch)
    ]
    try:
        with torch.no_grad():
            return [tensor for _, tensor in leaves(door.torch(wide, attributes))]
    except StayNative:
        raise
    except RuntimeError:  # the formula asks for a dtype that does not go with float64
        return []


def _errors(made: Sequence[Any], wanted: Sequence[torch.Tensor]) -> Iterator[ResultRounding | None]:
    for place, tensor in enumerate(made):
        exact = wanted[place] if place < len(wanted) else None
        if exact is None or exact.dtype is not torch.float64 or not paddle.is_floating_point(tensor):
            yield None
            continue
        array, exact = as_array(tensor), as_array(exact)
        if array.shape != exact.shape or (array.dtype == np.float64 == exact.dtype and not array.size):
            yield None
            continue
        yield ResultRounding.between(array, exact)


@dataclass
class CarrierSum:
    """The sums of one op in one layer."""

    calls: int = 0
    paddle: float = 0.0  # largest rounding errors, in units
    torch: float = 0.0
    kernels: float = 0.0  # how far both kernels are apart on equal operands, in units
    local: float = 0.0  # sum of squares of e
    along: float = 0.0  # sum of the inner products of J e with the difference, which is scaled to length 1
    own: float = 0.0  # the same of the kernels' part of e

    def add(self, gradient: Array, native: ResultRounding, substituted: ResultRounding, own: Array | None) -> None:
        """Add one result: both runs' rounding of it, and ``gradient``, how it moves the difference.

        ``own``: how far the kernels are apart on equal operands; None where that is not known.
        """
        self.paddle, self.torch = max(self.paddle, native.units), max(self.torch, substituted.units)
        error = native.error - substituted.error
        self.local += float((error**2).sum())
        self.along += float((gradient * error).sum())
        if own is not None and own.shape == gradient.shape:
            self.kernels = max(self.kernels, ResultRounding(own, substituted.size, substituted.unit).units)
            self.own += float((gradient * own).sum())

    def row(self, place: tuple[str, str], length: float, part: str = "forward") -> CarrierRow:
        """The row of a table; ``length``: of the difference."""
        amplified = abs(self.along) / self.local**0.5 if self.local else 0.0
        own, share = self.own / length, self.along / length
        return CarrierRow(*place, self.calls, self.kernels, self.paddle, self.torch, amplified, own, share, part)


class Jumps:
    """The results of step functions in both runs, and where they jump between them."""

    def __init__(self) -> None:
        self._native: dict[Key, list[Array]] = {}
        self._counts: dict[tuple[str, str], list[int]] = collections.defaultdict(lambda: [0, 0, 0])  # calls, jumped, elements

    def natively(self, key: Key, made: Sequence[Any]) -> None:
        """A call of the native run."""
        if ops()[key[1]].steps:
            self._native[key] = [as_array(tensor).copy() for tensor in made]

    def substituted(self, key: Key, made: Sequence[Any]) -> None:
        """The same call on Torch's kernels."""
        for tensor, other in zip(made, self._native.get(key, ())):
            array = as_array(tensor)
            if array.shape != other.shape:
                continue
            with np.errstate(invalid="ignore"):
                jumped = np.abs(array.astype(np.float64) - other) > STEP * np.maximum(np.abs(array), np.abs(other))
            counts = self._counts[key[:2]]
            for place, number in enumerate((1, int(jumped.sum()), array.size)):
                counts[place] += number

    def rows(self) -> list[JumpRow]:
        """Those that jump, most elements first."""
        rows = [JumpRow(*place, *counts) for place, counts in self._counts.items() if counts[1]]
        return sorted(rows, key=lambda row: -row.jumped)


def wrong_natively(port: PaddleSide, *, training: bool = False) -> list[str]:
    """Ops of the port's step that are wrong on Paddle's own kernels, as their formulas in float64 say.

    Calls that differ by far less than what is to be explained are not judged.
    """
    mode = compare("torch", progress=False, equal=_near)
    try:
        port.watch_step(mode, training=training)
    except Exception as error:
        let_pass(error)  # it was to say more of a port that runs
    findings = [finding.worst for finding in mode.run.by_line() if not finding.apart]
    return sorted(
        {str(record["op"]) for record in findings if record["side"] == Side.PADDLE and Verdict(record["verdict"]) in HARD}
    )


def _near(a: Array, b: Array, _: str) -> bool | None:
    """True where two results agree in most of their digits."""
    with np.errstate(invalid="ignore"):
        return bool(np.abs(a - b).max(initial=0.0) <= NEAR * np.abs(b).max(initial=0.0)) or None


def carriers(port: PaddleSide) -> CarriedBy:
    """Run the port natively and on Torch's kernels, and find the calls that carry the difference of its outputs."""
    native: dict[Key, list[ResultRounding | None]] = {}
    sums: dict[tuple[str, str], CarrierSum] = collections.defaultdict(CarrierSum)
    outputs: list[Array] = []
    apart: list[float] = [0.0, 0.0]

    steps = Jumps()

    def keep(key: Key, made: Sequence[Any], errors: list[ResultRounding | None], _: Any) -> None:
        native[key] = errors
        steps.natively(key, made)

    try:
        with paddle.no_grad():
            port.watch_forward(_mode(port, native=True, seen=keep), lambda named: outputs.extend(_floats(named)[1]))
    except Exception as error:
        return CarriedBy([], 0.0, 0.0, failed=joined("", (NOWHERE, " (", error_text(error), ")")))

    def follow(key: Key, made: Sequence[Any], errors: list[ResultRounding | None], others: list[Array]) -> None:
        known = sums[key[:2]]
        known.calls += 1
        steps.substituted(key, made)
        for place, (tensor, substituted, native_rounding) in enumerate(zip(made, errors, native.get(key, ()))):
            if (
                substituted is None
                or native_rounding is None
                or substituted.error.shape != native_rounding.error.shape
                or tensor.stop_gradient
            ):
                continue
            own = np.subtract(others[place], as_array(tensor), dtype=np.float64) if place < len(others) else None
            tensor.register_hook(_adding(known, native_rounding, substituted, own))

    def go_back(named: list[tuple[str, Tensor]]) -> None:
        tensors, arrays = _floats(named)
        between = [other.astype(np.float64) - array for array, other in zip(arrays, outputs)]
        apart[0] = max((float(np.abs(difference).max(initial=0)) for difference in between), default=0.0)
        apart[1] = float(np.sqrt(sum((difference**2).sum() for difference in between)))
        if apart[1]:
            starts = [paddle.to_tensor(difference / apart[1]).astype(tensor.dtype) for tensor, difference in zip(tensors, between)]
            wanting = [(tensor, start) for tensor, start in zip(tensors, starts) if not tensor.stop_gradient]
            port.back_from(*map(list, zip(*wanting)))

    port.watch_forward(_mode(port, native=False, seen=follow), go_back)
    rows = [carrier.row(place, apart[1] or 1.0) for place, carrier in sums.items() if carrier.along or carrier.own]
    rows.sort(key=lambda row: (-abs(row.own), -abs(row.share)))
    return CarriedBy(rows, float(sum(row.share for row in rows)), apart[0], jumps=steps.rows())


def _mode(port: PaddleSide, *, native: bool, seen: Any) -> Mode:
    return opened(Watching(native=native, layer=port.layer, seen=seen))


def _floats(named: list[tuple[str, Tensor]]) -> tuple[list[Any], list[Array]]:
    """The tensors of floats among outputs, and their values."""
    tensors = [tensor for _, tensor in named if paddle.is_floating_point(tensor)]
    return tensors, [as_array(tensor).copy() for tensor in tensors]


def _adding(known: CarrierSum, native: ResultRounding, substituted: ResultRounding, own: Array | None) -> Callable[[Any], None]:
    """What happens with the gradient of one result; a result without gradient moves no output, whatever it holds.

    ``own``: how far the kernels are apart on equal operands; None where that is not known.
    """

    def add(gradient: Tensor) -> None:
        array = as_array(gradient)
        if not array.any():
            return
        known.add(array, native, substituted, own)

    return add


# ---- Calls of a port, each of which can be gone back through by itself: natively, by Torch, and in float64.


class RecordedCall:
    """One call: its operands before it, its results, and the gradients that a backward hands them.

    ``wanted`` are the operands, in the order of the op's parameters, whose gradients the call's backward gives.
    """

    def __init__(self, door: EntryPoint, frame: Frame, values: Any, args: Any, kwargs: Any) -> None:
        self.door = door
        copies: dict[int, Any] = {}

        def copied(tensor: Tensor) -> Any:
            if not isinstance(tensor, paddle.Tensor):
                return tensor
            if id(tensor) not in copies:
                copies[id(tensor)] = tensor, _copied(tensor)  # the tensor too: no identity is used twice
            return copies[id(tensor)][1]

        with paused():
            self.args, self.kwargs = mapped(args, copied), mapped(kwargs, copied)
            operands = mapped(values, copied)
        with paddle.no_grad():
            self.prepared: Prepared = prepare(door, frame, operands, self.args, self.kwargs)
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
        def keep(gradient: Tensor) -> None:
            known, array = self.handed[place], as_array(gradient)
            self.handed[place] = array.copy() if known is None else known + array

        return keep

    @property
    def answered(self) -> bool:
        """Whether a backward went through the call."""
        return bool(self.wanted) and any(gradient is not None and gradient.any() for gradient in self.handed)

    def operand(self, place: int) -> Array:
        """The values of one operand."""
        return as_array(self.prepared.inputs.paddle[place])

    def torchs(self, *, double: bool) -> tuple[list[Array], list[Array | None]]:
        """The results of the op's formula on these operands, and the gradients of the wanted ones; ``double``: in float64."""
        inputs, attributes, casts = self.prepared
        sides = [_side(side, double=double, wanted=at in self.wanted) for at, side in enumerate(inputs.torch)]
        with torch.enable_grad():
            out = self.door.torch(sides, attributes) if double else casts.run(self.door, sides, attributes)
        made = [tensor for _, tensor in leaves(out)]
        results = [as_array(tensor) for tensor in made]
        pairs = [
            (tensor, torch.from_numpy(gradient).to(tensor))
            for tensor, gradient in zip(made, self.handed)
            if gradient is not None and tensor.requires_grad and gradient.shape == tuple(tensor.shape)
        ]
        if not pairs:
            return results, [None] * len(self.wanted)
        ends, starts = zip(*pairs)
        gradients = torch.autograd.grad(ends, [sides[at] for at in self.wanted], starts, allow_unused=True)
        turned = [
            gradient.t() if at == self.door.transposed and gradient is not None else gradient
            for at, gradient in zip(self.wanted, gradients)
        ]
        return results, self._summed([None if gradient is None else as_array(gradient) for gradient in turned])

    def paddles(self) -> tuple[list[Array], list[Array | None]]:
        """The same of Paddle's kernels; an operand in several places has its whole gradient in the first."""
        fresh: dict[int, Any] = {}

        def leaf(tensor: Tensor) -> Any:
            if not isinstance(tensor, paddle.Tensor):
                return tensor
            if id(tensor) not in fresh:
                fresh[id(tensor)] = tensor.detach()
                fresh[id(tensor)].stop_gradient = tensor.stop_gradient
            copy = fresh[id(tensor)]
            return copy.clone() if self.door.entry.inplace else copy

        with paused(), paddle.enable_grad():
            made = [tensor for _, tensor in leaves(self.door.native(*mapped(self.args, leaf), **mapped(self.kwargs, leaf)))]
            pairs = [
                (tensor, paddle.to_tensor(gradient).astype(tensor.dtype))
                for tensor, gradient in zip(made, self.handed)
                if gradient is not None and not tensor.stop_gradient and list(gradient.shape) == list(tensor.shape)
            ]
            if not pairs:
                return [as_array(tensor) for tensor in made], [None] * len(self.wanted)
            operands = [self.prepared.inputs.paddle[at] for at in self.wanted]
            distinct = {id(operand): fresh[id(operand)] for operand in operands if id(operand) in fresh}
            ends, starts = map(list, zip(*pairs))
            gradients = paddle.grad(ends, list(distinct.values()), starts, allow_unused=True)
        by_operand = dict(zip(distinct, gradients))
        answers = [by_operand.pop(id(operand), None) for operand in operands]
        return [as_array(tensor) for tensor in made], [None if array is None else as_array(array) for array in answers]

    def _summed(self, gradients: Sequence[Array | None]) -> list[Array | None]:
        """Gradients of the wanted operands; those of an operand in several places are added up in the first."""
        first: dict[int, int] = {}
        sums: list[Array | None] = []
        for at, gradient in zip(self.wanted, gradients):
            known = first.setdefault(id(self.prepared.inputs.paddle[at]), len(sums))
            if known < len(sums):
                other = sums[known]
                sums[known] = gradient if other is None else other if gradient is None else other + gradient
                gradient = None
            sums.append(gradient)
        return sums


def _copied(tensor: Tensor) -> Any:
    """Its values as they are now: an optimizer may write a parameter later."""
    copy = tensor.detach().clone()
    copy.stop_gradient = tensor.stop_gradient
    return copy


def _side(side: Any, *, double: bool, wanted: bool) -> Any:
    """An operand of Torch's as a leaf."""
    if not isinstance(side, torch.Tensor):
        return side
    side = side.detach()
    if double and side.is_floating_point():
        side = side.to(torch.float64, copy=True)
    return side.requires_grad_() if wanted else side


class RecordingPlan(Substituting):
    """Reference mode's plan, or Paddle's kernels, that records every call which rounds.

    Args:
        native: calls run on Paddle's kernels; what draws random numbers draws Torch's all the same.
        layer: returns the path of the running layer.
    """

    def __init__(self, *, native: bool, layer: Callable[[], str]) -> None:
        super().__init__("torch", draws=True, torchs=TORCHS)
        if native:
            self.autocasts = ""
        self.calls: dict[Key, RecordedCall] = {}
        self._native, self._layer = native, layer
        self._times: collections.Counter[tuple[str, str]] = collections.Counter()

    def call(self, door: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call, recorded."""
        if (door.op.random is not None and door.op.random(*values)) or not door.op.leading:
            return super().call(door, frame, values, args, kwargs)
        record = RecordedCall(door.torchs if door.op.name in self.torchs else door, frame, values, args, kwargs)
        if self._native:
            args, kwargs = survivable(door, values, args, kwargs)
            result = door.native(*args, **kwargs)
        else:
            result = super().call(door, frame, values, args, kwargs)
            frame.quick.clear()  # a shorter way would not pass here
        record.follow([tensor for _, tensor in leaves(result)])
        place = self._layer(), door.op.name
        self.calls[(*place, self._times[place])] = record
        self._times[place] += 1
        return result

    def native(self, door: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel, in a native run without a tape."""
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


# ---- The difference of gradients.
#
# A step computes g(theta), the gradients, from the results y of its calls and from the gradients that each call's backward hands
# on. To first order the difference of two runs is the sum over all calls of two parts: how far the call's result is apart beyond
# its operands, times how y moves the gradients, and how far its backward's gradients are apart beyond those that it got, times how
# they move the gradients. With v the difference scaled to length 1, both inner products come from one directional derivative, for
# second derivatives are symmetric (Pearlmutter, Fast exact multiplication by the Hessian, 1994): moved along v, a result's gradient
# changes as <g, v> does with the result, and an operand's value as <g, v> does with the gradient that it gets. So two more runs in
# float64, with weights and inputs moved along v to either side, give all of it, and no op needs a second derivative of its own.

UNEXPLAINED = 0.5  # of a difference: rounding alone leaves less
MOVE = 1e-9  # of the length of all weights: hardly a relu changes sides, and float64 has digits left
Grads = dict[str, Array]


def gradient_carriers(port: PaddleSide, of: str, *, training: bool) -> CarriedBy:
    """Run the port's step natively and on Torch's kernels, and find the calls that carry the difference of its gradients.

    Args:
        port: the port.
        of: ``"gradients"``, or the name of one: of a parameter, or ``"input 0"``, ``"input tokens"`` of an input.
        training: as in a step of a training, the model's own output ``"loss"`` is the loss.

    Raises:
        ArgumentError: there is no gradient of that name.
        NotWider: the port does not run in float64.
    """
    substituted, torchs = _run(port, native=False, training=training)
    _check(torchs, of)
    try:
        native, paddles = _run(port, native=True, training=training)
    except Exception as error:
        return CarriedBy([], 0.0, 0.0, of, failed=joined("", (NOWHERE, " (", error_text(error), ")")))
    between = _between(torchs, paddles, of)
    length = float(np.sqrt(sum((difference**2).sum() for difference in between.values())))
    largest = max((float(np.abs(difference).max(initial=0)) for difference in between.values()), default=0.0)
    if not length:
        return CarriedBy([], 0.0, largest, of)
    sides = _to_either_side(port, {name: difference / length for name, difference in between.items()}, training=training)
    sums: dict[tuple[str, str, str], CarrierSum] = collections.defaultdict(CarrierSum)
    for key, call in substituted.items():
        other = native.get(key)
        if other is not None and all(key in moved for moved, _ in sides):
            _add(sums, key, call, other, _Slope(*((moved[key], step) for moved, step in sides)))
    rows = [carrier.row(place[:2], length, place[2]) for place, carrier in sums.items() if carrier.along or carrier.own]
    rows.sort(key=lambda row: (-abs(row.own), -abs(row.share)))
    explained = float(sum(row.share for row in rows))
    wrong = wrong_natively(port, training=training) if abs(explained - 1) > UNEXPLAINED else []
    return CarriedBy(rows, explained, largest, of, list(_gradient_rows(between, torchs, length)), wrong=wrong)


def _run(port: PaddleSide, *, native: bool, training: bool, **how: Any) -> tuple[dict[Key, RecordedCall], Grads]:
    plan = RecordingPlan(native=native, layer=port.layer)
    gradients = port.watch_step(opened(plan), training=training, **how)
    return plan.calls, gradients


def _check(gradients: Grads, of: str) -> None:
    """Raise if there is no gradient of that name."""
    if of != "gradients" and of not in gradients:
        raise ArgumentError(
            tr(
                'of= is "outputs", "gradients" or the name of one of them ({gradients}...), got {of}',
                gradients=joined(", ", list(gradients)[:8]),
                of=repr(of),
            )
        )


def _between(torchs: Grads, paddles: Grads, of: str) -> Grads:
    """How far the native gradients are apart from Torch's."""
    names = [name for name in torchs if name in paddles and torchs[name].shape == paddles[name].shape and of in ("gradients", name)]
    return {name: np.nan_to_num(np.subtract(paddles[name], torchs[name], dtype=np.float64)) for name in names}


def _to_either_side(port: PaddleSide, along: Grads, *, training: bool) -> list[tuple[dict[Key, RecordedCall], float]]:
    """The port's step in float64 with weights and inputs moved forth and back, and how far."""
    whole = float(np.sqrt(sum(float((weight.numpy().astype(np.float64) ** 2).sum()) for weight in port.model.parameters())))
    step = MOVE * (whole or 1.0)
    runs = []
    for signed in (step, -step):
        moved = {name: signed * direction for name, direction in along.items()}
        try:
            runs.append((_run(port, native=False, training=training, wide=True, moved=moved)[0], step))
        except Exception as error:
            raise NotWider.of("paddle", error) from error
    return runs


class _Slope:
    """How a call's operands, and the gradients of its results, change along the difference."""

    def __init__(self, onwards: tuple[RecordedCall, float], back: tuple[RecordedCall, float]) -> None:
        (self._plus, step), (self._minus, _) = onwards, back
        self._width = 2 * step

    def of_operand(self, place: int) -> Array:
        """The slope of one operand's values."""
        return (self._plus.operand(place) - self._minus.operand(place)) / self._width

    def of_gradient(self, place: int) -> Array | None:
        """The slope of the gradient that one result gets."""
        ahead, other = (call.handed[place] if place < len(call.handed) else None for call in (self._plus, self._minus))
        return None if ahead is None or other is None else (ahead - other) / self._width


def _add(sums: Mapping[tuple[str, str, str], CarrierSum], key: Key, call: RecordedCall, other: RecordedCall, slope: _Slope) -> None:
    """What one call carries, in the forward and in the backward."""
    if not (call.answered and other.answered) or call.wanted != other.wanted:
        return
    try:
        exact, wide = other.torchs(double=True), call.torchs(double=True)
        narrow = call.torchs(double=False)
    except (StayNative, RuntimeError):  # the formula asks for a dtype that does not go with float64
        return
    paddles = other.paddles()
    try:
        apart = call.paddles() if not call.door.entry.inplace else ([], [])
    except StayNative:
        apart = ([], [])
    count = dict.fromkeys(("forward", "backward"), 0)
    results = zip(other.made, exact[0], call.made, wide[0], _padded(apart[0], len(call.made)))
    for place, (native_result, rightly, substituted, right, native) in enumerate(results):
        tangent = slope.of_gradient(place)
        count["forward"] += _entered(
            sums[(*key[:2], "forward")], (native_result, rightly), (substituted, right), native, substituted, tangent
        )
    gradients = zip(call.wanted, paddles[1], exact[1], narrow[1], wide[1], _padded(apart[1], len(call.wanted)))
    for at, yours_, rightly_, mine_, right_, native_ in gradients:
        if yours_ is not None and rightly_ is not None and mine_ is not None and right_ is not None:
            along = slope.of_operand(at)
            count["backward"] += _entered(sums[(*key[:2], "backward")], (yours_, rightly_), (mine_, right_), native_, mine_, along)
    for part, seen in count.items():
        sums[(*key[:2], part)].calls += bool(seen)


def _padded(arrays: Sequence[Array | None], length: int) -> Sequence[Array | None]:
    return arrays if len(arrays) == length else [None] * length


def _entered(
    known: CarrierSum,
    natively: tuple[Array, Array],
    substituted: tuple[Array, Array],
    native: Array | None,
    made: Array,
    along: Array | None,
) -> bool:
    """Whether two results, each with its exact result, and what carries them on have one shape: then they are added."""
    if along is None or not along.any() or not all(array.shape == along.shape for array in (*natively, *substituted)):
        return False
    if not np.issubdtype(made.dtype, np.floating):
        return False
    own = np.subtract(native, made, dtype=np.float64) if native is not None and native.shape == made.shape else None
    known.add(along, ResultRounding.between(*natively), ResultRounding.between(*substituted), own)
    return True


def _gradient_rows(between: Grads, torchs: Grads, length: float) -> Iterator[GradientRow]:
    """Each gradient's part of the difference, the largest first."""
    shares = {name: float((difference**2).sum()) / length**2 for name, difference in between.items()}
    for name in sorted(between, key=lambda name: -shares[name]):
        apart, largest = (float(np.abs(array).max(initial=0)) for array in (between[name], torchs[name]))
        if apart:
            yield GradientRow(name, apart, apart / largest if largest else float("inf"), shares[name])
