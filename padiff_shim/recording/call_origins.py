"""Where the bits of two recorded runs of one framework part: calls that read equal bits and make other ones of them.

What differs behind such a call mostly carries its difference on: it reads other bits. Each recorded call has a digest of every
operand, so both are told apart without any value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..text import tr
from .switches import SwitchDifference, candidates, device_of, unfixed
from .tensors import CallReads, Tensor

if TYPE_CHECKING:
    from .difference import TensorRow

MOST = 100  # origins that are held

CALL, ARGUMENTS, RANDOM, LAYOUT = "call", "arguments", "random numbers", "layout"


@dataclass(frozen=True)
class CallOrigin:
    """A place where the bits of two runs part.

    Attributes:
        kind: ``"call"``: a call that reads equal bits and makes other ones. ``"layout"``: such a call whose operands lie in memory
            in another way. ``"arguments"``: such a call with other numbers. ``"random numbers"``: a call that draws.
        row: the result that differs, of both runs.
        kernel: what computed it, in words.
        details: what is known beside, in sentences.
        switches: the settings in which both runs differ and that can be the reason.
    """

    kind: str
    row: TensorRow
    kernel: str
    details: tuple[str, ...]
    switches: tuple[SwitchDifference, ...]

    def to_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        return {
            "kind": self.kind,
            "row": self.row.to_dict(),
            "kernel": self.kernel,
            "details": list(self.details),
            "switches": [switch._asdict() for switch in self.switches],
        }


@dataclass
class CallOrigins:
    """The places where two runs part, in their order.

    Attributes:
        held: the first of them.
        count: how many there are.
        carried: results of calls that differ because the call reads bits that differ.
    """

    held: list[CallOrigin] = field(default_factory=list)
    count: int = 0
    carried: int = 0

    def add(self, origin: CallOrigin) -> None:
        """Count an origin, and hold it while there is room."""
        self.count += 1
        if len(self.held) < MOST:
            self.held.append(origin)


class OriginFinder:
    """Finds the origins among the rows of one process, which come in the order of the run.

    Args:
        origins: where they are added.
        headers: the first lines of both recordings.
        framework: that of both.
    """

    def __init__(self, origins: CallOrigins, headers: tuple[Mapping[str, Any], Mapping[str, Any]], framework: str) -> None:
        self._origins, self._headers, self._framework = origins, headers, framework
        self._calls: set[int] = set()  # numbers of a's calls that are origins, whose other results are not counted

    def step(self, rows: Sequence[TensorRow]) -> None:
        """The rows of one step."""
        for row in rows:
            a, b = row.a, row.b
            if a is None or b is None or a.kind != "op":
                continue
            if row.differs or (a.digest and b.digest and a.digest != b.digest):  # in any bit, whatever counts elsewhere
                self._call(row, a, b)

    def _call(self, row: TensorRow, a: Tensor, b: Tensor) -> None:
        if a.reads is None or b.reads is None or a.call in self._calls:
            return
        equal = _equal_operands(a.reads, b.reads)
        if equal:
            self._calls.add(a.call)
            kind, details = self._kind(a.reads, b.reads)
            kernels = {a.reads.kernels or self._framework, b.reads.kernels or self._framework}
            if len(kernels) > 1:
                details = (*details, tr("one run used Paddle's kernel, the other Torch's, in a mode of padiff_shim"))
            known = kind in (ARGUMENTS, RANDOM)
            switches = () if known else tuple(candidates(*self._headers, a.reads.family, min(kernels)))
            if kind == CALL and not switches:
                details = (*details, *_nothing_known(self._headers))
            self._origins.add(CallOrigin(kind, row, _kernel(a, self._headers, kernels), details, switches))
        elif equal is False:
            self._origins.carried += 1

    def _kind(self, a: CallReads, b: CallReads) -> tuple[str, tuple[str, ...]]:
        """What sets a call apart from its partner, and that in sentences."""
        numbers = other_arguments(a, b)
        if numbers:
            return ARGUMENTS, tuple(tr("{name} is {a} in a, {b} in b", name=name, a=a, b=b) for name, a, b in numbers)
        strides = [(first, second) for first, second in zip(a.operands, b.operands) if first.strides != second.strides]
        if strides:
            ordered = tr("in C order")
            return LAYOUT, tuple(
                tr(
                    "{name} lies {a} in a, {b} in b",
                    name=first.name,
                    a=tr("with strides {strides}", strides=first.strides) if first.strides else ordered,
                    b=tr("with strides {strides}", strides=second.strides) if second.strides else ordered,
                )
                for first, second in strides
            )
        if a.draws or b.draws or not a.operands:
            return RANDOM, (tr("it draws random numbers, and the generators are in other states"),)
        return CALL, ()


def _equal_operands(a: CallReads, b: CallReads) -> bool | None:
    """Whether two calls have read equal bits; None where that is not known."""
    if len(a.operands) != len(b.operands):
        return None
    pairs = list(zip(a.operands, b.operands))
    if any(first.digest and second.digest and first.digest != second.digest for first, second in pairs):
        return False
    if not all(first.digest and second.digest for first, second in pairs):
        return None
    return all((first.shape, first.dtype) == (second.shape, second.dtype) for first, second in pairs)


def other_arguments(a: CallReads, b: CallReads) -> list[tuple[str, str, str]]:
    """The arguments that both calls name and give otherwise. Places say something only where both have the same ones."""
    by_place = any(name.startswith("argument ") for name in (*a.arguments, *b.arguments))
    if by_place and set(a.arguments) != set(b.arguments):
        return []
    common = [name for name in a.arguments if name in b.arguments]
    return [(name, a.arguments[name], b.arguments[name]) for name in common if a.arguments[name] != b.arguments[name]]


def _kernel(a: Tensor, headers: tuple[Mapping[str, Any], Mapping[str, Any]], kernels: set[str]) -> str:
    """What computed a call, in words."""
    devices = list(dict.fromkeys(map(device_of, headers)))
    whose = tr("Torch's kernel of {op}", op=a.name) if kernels == {"torch"} else tr("Paddle's kernel of {op}", op=a.name)
    dtype = a.reads.operands[0].dtype if a.reads is not None and a.reads.operands else a.dtype
    return tr(
        "{kernel} ({function}), {dtype}, {device}", kernel=whose, function=a.function, dtype=dtype, device=" / ".join(devices)
    )


def _nothing_known(headers: tuple[Mapping[str, Any], Mapping[str, Any]]) -> tuple[str, ...]:
    """What to look for where no setting differs."""
    off = unfixed(*headers)
    sentences = [
        tr("no setting that was recorded differs between both runs: record one of them twice to see whether it repeats itself")
    ]
    if off:
        sentences.append(tr("off in both, so that kernels may give other bits each time: {names}", names=", ".join(off)))
    return tuple(sentences)


def origins_as_dict(origins: CallOrigins) -> dict[str, Any]:
    """In plain types (JSON)."""
    return {"count": origins.count, "carried": origins.carried, "origins": [origin.to_dict() for origin in origins.held]}
