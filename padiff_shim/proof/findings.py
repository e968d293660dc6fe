"""What a proof is made of: verdicts, stages, mistakes with both source lines, layers."""

from __future__ import annotations

import csv
import io
import linecache
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ..arguments import path as checked
from ..dispatch.call_site import CallSite
from ..files import write
from .causes import CallDifference, Cause, advice_on_layer, advice_on_missing
from .rules import first_of_exchanges, told_as_one
from .trace import Key, TraceCall

_ATTRIBUTES = re.compile(r"(\w+)=\S+ against")  # one line may call an op twice, and be wrong about another attribute each time
MANY = 1e300  # times as much as another effect: the larger one may be infinite
FAILS = "fails"  # in place of a native difference


class ProofVerdict(str, Enum):
    """What is said of a port; true in a condition if the code is right."""

    CODE_CORRECT = "CODE_CORRECT"  # on the same kernels both programs give the same bits
    CODE_CORRECT_WITHIN_ROUNDING = "CODE_CORRECT_WITHIN_ROUNDING"  # the same mathematics, rounded in another order
    CODE_DIFFERS = "CODE_DIFFERS"
    WEIGHTS_DIFFER = "WEIGHTS_DIFFER"
    INPUTS_DIFFER = "INPUTS_DIFFER"
    NOT_COMPARABLE = "NOT_COMPARABLE"

    def __str__(self) -> str:
        return self.value

    def __bool__(self) -> bool:
        return self in (ProofVerdict.CODE_CORRECT, ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING)


@dataclass(frozen=True)
class ProgramPlace:
    """A call of one of the programs: its layer, file and line, that line's text, and the call with its attributes."""

    layer: str
    file: str
    line: int
    source: str
    call: str

    @classmethod
    def of(cls, node: TraceCall | None, site: CallSite | None) -> ProgramPlace | None:
        """The place of a traced call; ``site``: another line than its own."""
        if node is None:
            return None
        call = f"the gradient of a call: {node}" if node.backward else str(node)
        return cls.at(site or node.site, node.layer, call)

    @classmethod
    def at(cls, site: CallSite, layer: str, call: str) -> ProgramPlace:
        """The place of a line."""
        return cls(layer, site.file, site.line, linecache.getline(site.file, site.line).strip(), call)


@dataclass(frozen=True)
class Mistake:
    """A place where the port does otherwise than the original.

    ``layers``: those of the port in which these lines run so, one per call. ``also``: further files and lines of the port with the
    same attribute. ``effect``: how far the port's outputs move by mending it, in float64; of a mistake in the backward, its
    gradients; None where that was not measured.
    """

    cause: Cause
    text: str
    torch: ProgramPlace | None
    paddle: ProgramPlace | None
    layers: tuple[str, ...]
    also: tuple[tuple[str, int], ...] = ()
    effect: float | None = None

    def once_more(self, layer: str, place: ProgramPlace | None, effect: float | None) -> Mistake:
        """The same in a further call of the port."""
        line, first = ((call.file, call.line) if call else None for call in (place, self.paddle))
        also = self.also if line is None or line in (first, *self.also) else (*self.also, line)
        effects = [measured for measured in (self.effect, effect) if measured is not None]
        return replace(self, layers=(*self.layers, layer), also=also, effect=sum(effects) if effects else None)

    def __str__(self) -> str:
        layers, calls = len(set(self.layers)), len(self.layers)
        often = f"in {layers} layers" if layers > 1 else f"{calls} times" if calls > 1 else ""
        lines = f", on {1 + len(self.also)} lines" if self.also else ""
        return f"{self.cause}: {self.text}{f' ({often}{lines})' if often else ''}"


def merged(differences: Sequence[CallDifference], port: Mapping[str, Any]) -> list[Mistake]:
    """One mistake for each line, however many layers run it, and for each setting, however many lines have it.

    A gradient of a call that is a mistake itself is none of its own.

    Nor is what only follows from another one, see :func:`_follows`. What has most effect comes first. ``port``: its layers.
    """
    mistakes: dict[Any, Mistake] = {}
    settings: dict[Key, Any] = {}
    wrong: set[Any] = set()
    for difference in told_as_one(first_of_exchanges(differences)):
        if _follows(difference, differences):
            continue
        sites = difference.sites or (None, None)
        original, ours = ProgramPlace.of(difference.original, sites[0]), ProgramPlace.of(difference.port, sites[1])
        lines = [place and (place.file, place.line) for place in (original, ours)]
        names = [node and node.name for node in (difference.original, difference.port)]
        if difference.backward and (lines[0] in wrong or lines[1] in wrong):
            continue
        wrong.update(line for line in lines if line)
        if difference.cause in (Cause.MISSING, Cause.EXTRA):  # what lacks it, or has it too much, may be several calls
            beside = 1 if difference.cause is Cause.MISSING else 0
            lines[beside] = names[beside] = None
        which = _ATTRIBUTES.findall(difference.text) if difference.cause is Cause.ATTRIBUTE else ()
        key = (difference.cause, *lines, *names, *which)
        key = settings.setdefault(difference.setting, key) if difference.setting else key
        layer = (ours or original).layer if ours or original else ""  # type: ignore[union-attr]
        known = mistakes.get(key)
        attribute = advice_on_layer(difference.cause, port.get(layer))
        cause, text = (Cause.ATTRIBUTE, attribute) if attribute else (difference.cause, difference.text)
        if difference.cause is Cause.MISSING and difference.original is not None:
            text += advice_on_missing(difference.original.name, port.get(layer))
        if known is None:
            mistakes[key] = Mistake(cause, text, original, ours, (layer,), effect=difference.effect)
            continue
        mistakes[key] = known.once_more(layer, ours, difference.effect)
    return _ranked(list(mistakes.values()))


def _ranked(mistakes: list[Mistake]) -> list[Mistake]:
    """First those of an effect within a tenth of the largest, then within a hundredth: each in the order of the port's calls."""
    most = max((mistake.effect or 0.0 for mistake in mistakes), default=0.0)

    def rank(mistake: Mistake) -> float:
        if not mistake.effect:
            return math.inf
        return 0.0 if mistake.effect == most else math.floor(math.log10(min(most / mistake.effect, MANY)))

    return sorted(mistakes, key=rank)


def _follows(difference: CallDifference, all_: Sequence[CallDifference]) -> bool:
    """Whether another one says it already.

    A call that has its counterpart with other attributes is neither missing nor too much. One that stands in another place is
    missing where it was and too much where it is, in each layer that runs these lines; and where it is the last one of a line,
    what reads that line's result is given another op's.
    """
    paired = [(another.cause, another.original, another.port) for another in all_ if another.original and another.port]
    moved = [(original, port) for cause, original, port in paired if cause is Cause.PLACE]
    others = [(original, port) for cause, original, port in paired if cause not in (Cause.PLACE, Cause.MISSING, Cause.EXTRA)]
    if difference.cause in (Cause.MISSING, Cause.EXTRA):
        side = 0 if difference.cause is Cause.MISSING else 1
        alone = (difference.original, difference.port)[side]
        return alone is not None and (
            any(pair[side].key == alone.key for pair in others) or any(_at(pair[side]) == _at(alone) for pair in moved)
        )
    if difference.cause is not Cause.OPERAND or not difference.original or not difference.port:
        return False
    sources = [
        (operand.value.node, other.value.node) for operand, other in zip(difference.original.operands, difference.port.operands)
    ]
    return any(
        expected is not None and actual is not None and expected.site == call.site and _at(actual) == _at(other)
        for expected, actual in sources
        for call, other in moved
    )


def _at(node: TraceCall) -> tuple[str, CallSite, str]:
    """What is equal for the calls that one line makes in all layers."""
    return node.name, node.site, str(node.attributes)


@dataclass(frozen=True)
class Stage:
    """A step of the way in which ports are aligned; ``right`` is None where it was not looked at."""

    name: str
    right: bool | None
    text: str


@dataclass(frozen=True)
class StepRow:
    """One step of a training: the original's loss, and the largest differences of everything from it behind the step.

    ``native``: None where the port fails natively.
    """

    step: int
    loss: float | None
    identical: bool
    shim: float
    native: float | None


@dataclass(frozen=True)
class CarrierRow:
    """What the calls of one op in one layer carry of a native difference: that of the outputs, or that of gradients.

    ``kernels``: how far both kernels are apart on equal operands at most, ``paddle`` and ``torch``: the largest rounding error of
    either on its run's own operands, all in unit roundoffs of the result's largest element. ``amplified``: how many times as long
    as its local error what it carries is. ``share``: of the difference; all add up to 1. ``own``: the part of it that comes of the
    kernels being apart; the rest is rounding of operands that differ already. ``part``: ``"forward"``, or ``"backward"``: what is
    told is that of the gradients which the calls' backward gives, against what it was handed.
    """

    layer: str
    op: str
    calls: int
    kernels: float
    paddle: float
    torch: float
    amplified: float
    own: float
    share: float
    part: str = "forward"


@dataclass(frozen=True)
class GradientRow:
    """The native difference of one gradient: its largest element, that over the gradient's largest, its share of all squares."""

    name: str
    apart: float
    relative: float
    share: float


@dataclass(frozen=True)
class JumpRow:
    """The calls of a step function in one layer whose results jump between the two runs: in so many of all elements."""

    layer: str
    op: str
    calls: int
    jumped: int
    elements: int


@dataclass
class CarriedBy:
    """Which calls carry a native difference, those whose own kernels carry most first.

    ``explained``: the sum of all shares; far from 1, the difference is too large for a first order. ``apart``: its largest element.
    ``of``: whose it is: ``"outputs"``, ``"gradients"`` (all of them together), or the name of one. ``gradients``: those that it is
    made of, those that hold most of it first. ``failed``: why nothing could be measured: natively the port does not run.
    ``jumps``: step functions whose results differ: what they make of a difference no first order tells.
    """

    rows: list[CarrierRow]
    explained: float
    apart: float
    of: str = "outputs"
    gradients: list[GradientRow] = field(default_factory=list)
    failed: str = ""
    jumps: list[JumpRow] = field(default_factory=list)

    @property
    def own(self) -> float:
        """The part of the difference that comes of kernels that differ on equal operands."""
        return sum(row.own for row in self.rows)

    def __iter__(self) -> Iterator[CarrierRow]:
        return iter(self.rows)

    def to_csv(self, path: str | Path) -> Path:
        """Write both tables with all digits: a line for each carrier, then one for each gradient (``part`` is ``gradient``).

        Raises:
            FileError: it cannot be written.
        """
        heads = ["part", *(column.name for column in fields(CarrierRow) if column.name != "part"), "apart", "relative"]
        lines = io.StringIO()
        writer = csv.DictWriter(lines, heads, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        for row in self.gradients:
            cells = asdict(row)
            writer.writerow({"part": "gradient", "layer": cells.pop("name"), **cells})
        return write(checked("path", path), lines.getvalue())


@dataclass(frozen=True)
class LayerRow:
    """Outputs of one layer: largest differences from the original's, on the same kernels and natively (None: it fails)."""

    torch: str
    paddle: str
    calls: int
    identical: bool
    shim: float
    native: float | None
