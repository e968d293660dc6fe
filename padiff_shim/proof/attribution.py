"""Why a right port differs natively: which calls carry the difference of its outputs and gradients."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import torch

from ..catalogue.registry import ops
from ..dispatch.entry_point import EntryPoint
from ..dispatch.frames import Frame
from ..dispatch.prepare import prepare
from ..frameworks import autocast
from ..interrupts import let_pass
from ..modes.compare import compare
from ..modes.mode import Mode
from ..substitution.plan import Substituting
from ..table.reasons import StayNative
from ..text import joined, tr
from ..trees import as_array, leaves
from ..verdicts import HARD, Side, Verdict
from .agreement import Array
from .carriers import CarriedBy, CarrierRow, JumpRow
from .plans import TORCHS, opened
from .programs import PaddleSide, error_text
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

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One call, and what it rounds."""
        draws = entry_point.op.random is not None and entry_point.op.random(*values)
        if entry_point.op.exact or draws or not entry_point.op.leading:
            result = super().call(entry_point, frame, values, args, kwargs)
            if entry_point.op.steps:
                frame.quick.clear()  # a shorter way would not pass here
                self._tell(entry_point, [tensor for _, tensor in leaves(result)], [], [])
            return result
        wanted = _in_float64(entry_point.torchs if entry_point.op.name in self.torchs else entry_point, frame, values, args, kwargs)
        others: list[Array] = []
        if self._native:
            result = entry_point.native(*args, **kwargs)
        else:
            result = super().call(entry_point, frame, values, args, kwargs)
            frame.quick.clear()  # a shorter way would not pass here
            if not (entry_point.entry.inplace or autocast.HERE.on):  # on a CPU Paddle itself makes no casts
                with paddle.no_grad():
                    others = [as_array(tensor) for _, tensor in leaves(entry_point.native(*args, **kwargs))]
        made = [tensor for _, tensor in leaves(result)]
        self._tell(entry_point, made, list(_errors(made, wanted)), others)
        return result

    def _tell(self, entry_point: EntryPoint, made: list[Any], errors: list[ResultRounding | None], others: list[Array]) -> None:
        place = self._layer(), entry_point.op.name
        self._seen((*place, self._calls[place]), made, errors, others)
        self._calls[place] += 1


def _in_float64(entry_point: EntryPoint, frame: Frame, values: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The results of the op's formula on these operands in float64."""
    with paddle.no_grad():  # the operands of the kernel
        inputs, attributes, casts = prepare(entry_point, frame, values, args, kwargs)
    wide = [
        side.detach().to(torch.float64, copy=True) if isinstance(side, torch.Tensor) and side.is_floating_point() else side
        for side in casts.apply(inputs.torch)
    ]
    try:
        with torch.no_grad():
            return [tensor for _, tensor in leaves(entry_point.torch(wide, attributes))]
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

    def add(self, native: ResultRounding, substituted: ResultRounding, own: Array | None, moving: Tensor) -> None:
        """Add one result: both runs' rounding of it, and ``moving``, its gradient: how it moves the difference.

        ``own``: how far the kernels are apart on equal operands; None where that is not known.
        """
        gradient = as_array(moving)
        if not gradient.any():  # it moves no output, whatever it holds
            return
        self.paddle, self.torch = max(self.paddle, native.units), max(self.torch, substituted.units)
        error = native.error - substituted.error
        self.local += float((error**2).sum())
        self.along += float((gradient * error).sum())
        if own is not None and own.shape == gradient.shape:
            self.kernels = max(self.kernels, ResultRounding(own, substituted.size, substituted.unit).units)
            self.own += float((gradient * own).sum())

    def row(self, place: tuple[str, str], length: float) -> CarrierRow:
        """The row of a table; ``length``: of the difference."""
        amplified = abs(self.along) / self.local**0.5 if self.local else 0.0
        own, share = self.own / length, self.along / length
        return CarrierRow(*place, self.calls, self.kernels, self.paddle, self.torch, amplified, own, share)


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


def wrong_natively(port: PaddleSide) -> list[str]:
    """Ops of the port's step that are wrong on Paddle's own kernels, as their formulas in float64 say.

    Calls that differ by far less than what is to be explained are not judged.
    """
    mode = compare("torch", progress=False, equal=_near)
    try:
        port.watch(mode)
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
            port.watch(_mode(port, native=True, seen=keep), lambda named: outputs.extend(_floats(named)[1]))
    except Exception as error:
        return CarriedBy([], 0.0, 0.0, failed=joined("", (NOWHERE, " (", error_text(error), ")")))

    def follow(key: Key, made: Sequence[Any], errors: list[ResultRounding | None], others: list[Array]) -> None:
        known = sums[key[:2]]
        known.calls += 1
        steps.substituted(key, made)
        for place, (tensor, substituted, native_rounding) in enumerate(zip(made, errors, native.get(key, ()))):
            if substituted is None or native_rounding is None or tensor.stop_gradient:
                continue
            if substituted.error.shape != native_rounding.error.shape:
                continue
            own = np.subtract(others[place], as_array(tensor), dtype=np.float64) if place < len(others) else None
            tensor.register_hook(functools.partial(known.add, native_rounding, substituted, own))

    def go_back(named: list[tuple[str, Tensor]]) -> None:
        tensors, arrays = _floats(named)
        between = [other.astype(np.float64) - array for array, other in zip(arrays, outputs)]
        apart[0] = max((float(np.abs(difference).max(initial=0)) for difference in between), default=0.0)
        apart[1] = float(np.sqrt(sum((difference**2).sum() for difference in between)))
        if apart[1]:
            starts = [paddle.to_tensor(difference / apart[1]).astype(tensor.dtype) for tensor, difference in zip(tensors, between)]
            wanting = [(tensor, start) for tensor, start in zip(tensors, starts) if not tensor.stop_gradient]
            port.back_from(*map(list, zip(*wanting)))

    port.watch(_mode(port, native=False, seen=follow), go_back)
    rows = [carrier.row(place, apart[1] or 1.0) for place, carrier in sums.items() if carrier.along or carrier.own]
    rows.sort(key=lambda row: (-abs(row.own), -abs(row.share)))
    return CarriedBy(rows, float(sum(row.share for row in rows)), apart[0], jumps=steps.rows())


def _mode(port: PaddleSide, *, native: bool, seen: Any) -> Mode:
    return opened(Watching(native=native, layer=port.layer, seen=seen))


def _floats(named: list[tuple[str, Tensor]]) -> tuple[list[Any], list[Array]]:
    """The tensors of floats among outputs, and their values."""
    tensors = [tensor for _, tensor in named if paddle.is_floating_point(tensor)]
    return tensors, [as_array(tensor).copy() for tensor in tensors]
