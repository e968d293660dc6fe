"""What a proof is made of: verdicts, stages, mistakes with both source lines, layers."""

from __future__ import annotations

import csv
import io
import linecache
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from pathlib import Path

from ..arguments import path as checked
from ..dispatch.call_site import CallSite
from ..files import write
from .trace import TraceCall

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


class Cause(str, Enum):
    """Why two programs part."""

    ATTRIBUTE = "another attribute"
    SWAPPED = "operands swapped"
    CONSTANT = "another constant"
    WEIGHT = "another weight"
    OPERAND = "another operand"
    ORDER = "another arrangement"
    OTHER_OP = "another op"
    MISSING = "an op is missing"
    EXTRA = "an op too many"
    PLACE = "an op in another place"
    UNKNOWN = "other calls"
    TIED = "weights tied otherwise"
    DTYPE = "another dtype"
    OVERFLOW = "an overflow"
    OPTIMIZER = "another optimizer"
    SETTING = "another setting of the optimizer"
    RATE = "another learning rate"
    CLIPPING = "another clipping"
    SKIPPED = "a step that the other skips"
    CLEARED = "gradients are not cleared"

    def __str__(self) -> str:
        return self.value


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

    def once_more(self, other: Mistake) -> Mistake:
        """The same in a further call of the port."""
        line, first = ((place.file, place.line) if place else None for place in (other.paddle, self.paddle))
        also = self.also if line is None or line in (first, *self.also) else (*self.also, line)
        effects = [effect for effect in (self.effect, other.effect) if effect is not None]
        return replace(self, layers=(*self.layers, *other.layers), also=also, effect=sum(effects) if effects else None)

    def __str__(self) -> str:
        layers, calls = len(set(self.layers)), len(self.layers)
        often = f"in {layers} layers" if layers > 1 else f"{calls} times" if calls > 1 else ""
        lines = f", on {1 + len(self.also)} lines" if self.also else ""
        return f"{self.cause}: {self.text}{f' ({often}{lines})' if often else ''}"


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
