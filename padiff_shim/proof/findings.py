"""What a proof is made of: verdicts, causes, mistakes with both source lines, stages, and the rows of its tables."""

from __future__ import annotations

import linecache
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from ..dispatch.call_site import CallSite, at_line
from ..present.annotations import Patch
from ..text import marked, tr
from ..verdicts import PlainWord
from .trace import TraceCall


class ProofVerdict(PlainWord):
    """What a proof says of a port; true in a condition if the code is right.

    Attributes:
        CODE_CORRECT: on the same kernels both programs give the same bits.
        CODE_CORRECT_WITHIN_ROUNDING: the same mathematics, rounded in another order.
        CODE_DIFFERS: the port computes something else; :attr:`.proof.Proof.mistakes` say where.
        BUFFER_DIFFERS: with equal buffers the code is right, but a buffer that the forward reads began otherwise:
            :attr:`.proof.Proof.mistakes` name it, and the line that registers it.
        WEIGHTS_DIFFER: with ``weights="as-is"``: weights that belong together are not equal.
        INPUTS_DIFFER: both models get different inputs.
        NOT_COMPARABLE: nothing can be said: other modes, weights without partner, or a model that runs in no wider dtype.

    >>> from padiff_shim import ProofVerdict
    >>> bool(ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING), str(ProofVerdict.CODE_DIFFERS)
    (True, 'CODE_DIFFERS')
    """

    CODE_CORRECT = "CODE_CORRECT"
    CODE_CORRECT_WITHIN_ROUNDING = "CODE_CORRECT_WITHIN_ROUNDING"
    CODE_DIFFERS = "CODE_DIFFERS"
    BUFFER_DIFFERS = "BUFFER_DIFFERS"
    WEIGHTS_DIFFER = "WEIGHTS_DIFFER"
    INPUTS_DIFFER = "INPUTS_DIFFER"
    NOT_COMPARABLE = "NOT_COMPARABLE"

    def __bool__(self) -> bool:
        return self in (ProofVerdict.CODE_CORRECT, ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING)


WITH_BUFFERS = "+buffers"  # behind a word of weights=: buffers that differ are none of the code's


class Cause(PlainWord):
    """Why two programs part, in a few words."""

    ATTRIBUTE = marked("another attribute")
    SWAPPED = marked("operands swapped")
    CONSTANT = marked("another constant")
    WEIGHT = marked("another weight")
    OPERAND = marked("another operand")
    ORDER = marked("another arrangement")
    OTHER_OP = marked("another op")
    MISSING = marked("an op is missing")
    EXTRA = marked("an op too many")
    PLACE = marked("an op in another place")
    UNKNOWN = marked("other calls")
    BUFFER = marked("another buffer")
    GRAPH_ENDS = marked("the graph ends")
    GRAPH_GOES_ON = marked("the graph goes on")
    TRAINED = marked("other parameters are trained")
    TIED = marked("weights tied otherwise")
    DTYPE = marked("another dtype")
    OVERFLOW = marked("an overflow")
    OPTIMIZER = marked("another optimizer")
    SETTING = marked("another setting of the optimizer")
    RATE = marked("another learning rate")
    CLIPPING = marked("another clipping")
    SKIPPED = marked("a step that the other skips")
    CLEARED = marked("gradients are not cleared")
    PARTIAL_SUMS = marked("a sum over ranks is missing")
    RANK_BIAS = marked("each rank adds the bias")
    RANK_ORDER = marked("slices in another order")
    RANK_GRADIENTS = marked("gradients are not combined over ranks")
    GRADIENT_SCALE = marked("gradients by another factor")
    RANK_RESULT = marked("another result of the ranks")


@dataclass(frozen=True)
class ProgramPlace:
    """A call of one of the programs.

    Attributes:
        layer: the path of its layer; "" for the model itself.
        file, line: where it stands, and ``source``: that line's text.
        call: the call with its attributes, in Torch's words.
    """

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
        call = tr("the gradient of a call: {call}", call=node) if node.backward else str(node)
        return cls.at(site or node.site, node.layer, call)

    @classmethod
    def at(cls, site: CallSite, layer: str, call: str) -> ProgramPlace:
        """The place of a line."""
        return cls(layer, site.file, site.line, linecache.getline(site.file, site.line).strip(), call)


@dataclass(frozen=True)
class Fix:
    """What to write in the port, or where to look.

    Attributes:
        text: in Paddle's words: ``"epsilon=1e-05"``; "" where that is not known, but the line that makes the layer is.
        file, line: where: the line that makes the layer, or that of the call; "" and 0 where it is not known.
        source: the text of the line that makes the layer.
        patch: the change of that line; None where the text of the call does not tell it.
    """

    text: str
    file: str = ""
    line: int = 0
    source: str = ""
    patch: Patch | None = None

    @property
    def label(self) -> str:
        """What stands in front of it."""
        return tr("fix") if self.text else tr("look")

    def __str__(self) -> str:
        if not self.file:
            return self.text
        if not self.text:
            return f"{at_line(self.file, self.line)}: {self.source}"
        if not self.source:
            return str(tr("{fix} at {line}", fix=self.text, line=at_line(self.file, self.line)))
        return str(tr("{fix} at {line}: {source}", fix=self.text, line=at_line(self.file, self.line), source=self.source))


@dataclass(frozen=True)
class Mistake:
    """A place where the port does something else than the original.

    Attributes:
        cause: in a few words.
        text: in a sentence, with what to write where that is known.
        torch, paddle: the places in both programs; None where one has no such call.
        layers: paths of the port's layers in which these lines run so, one for each call.
        also: (file, line) of further lines of the port with the same attribute.
        effect: how far the port's outputs move in float64 when it is mended (its gradients, of a mistake in the backward);
            None: not measured.
        write: the arguments to write in Paddle's call or constructor; "" where the text says it, or it is not known.
        fix: what to write, and at which line; or the line that makes the layer, where to look; None where neither is known.
    """

    cause: Cause
    text: str
    torch: ProgramPlace | None
    paddle: ProgramPlace | None
    layers: tuple[str, ...]
    also: tuple[tuple[str, int], ...] = ()
    effect: float | None = None
    write: str = ""
    fix: Fix | None = None

    def once_more(self, other: Mistake) -> Mistake:
        """The same in a further call of the port."""
        line, first = ((place.file, place.line) if place else None for place in (other.paddle, self.paddle))
        also = self.also if line is None or line in (first, *self.also) else (*self.also, line)
        effects = [effect for effect in (self.effect, other.effect) if effect is not None]
        return replace(self, layers=(*self.layers, *other.layers), also=also, effect=sum(effects) if effects else None)

    def __str__(self) -> str:
        return str(self.sentence())

    def sentence(self) -> str:
        """The cause, the text, and in how many layers."""
        layers, calls = len(set(self.layers)), len(self.layers)
        often = ""
        if layers > 1:
            often = tr("in {layers} layers", layers=layers)
        elif calls > 1:
            often = tr("{calls} times", calls=calls)
        if often and self.also:
            often = tr("{often}, on {lines} lines", often=often, lines=1 + len(self.also))
        cause = tr(self.cause.value)
        if not often:
            return tr("{cause}: {text}", cause=cause, text=self.text)
        return tr("{cause}: {text} ({often})", cause=cause, text=self.text, often=often)

    def line_to_edit(self) -> str:
        """Where the fix is written, or else the line that runs it; "" where neither is known."""
        place = self.fix if self.fix is not None and self.fix.file else self.paddle or self.torch
        return at_line(place.file, place.line) if place else ""


STAGES = (
    *(marked("inputs"), marked("weights"), marked("buffers"), marked("forward"), marked("loss"), marked("backward")),
    *(marked("statistics"), marked("optimizer step"), marked("training"), marked("mode")),
)


def merged(mistakes: Iterable[tuple[Hashable, Mistake]]) -> list[Mistake]:
    """One mistake for each key, in how many layers and on how many lines it may be."""
    known: dict[Hashable, Mistake] = {}
    for key, mistake in mistakes:
        known[key] = known[key].once_more(mistake) if key in known else mistake
    return list(known.values())


@dataclass(frozen=True)
class Stage:
    """One of the stages in which people align a port.

    Attributes:
        name: one of :data:`STAGES`.
        right: None where it was not compared.
        text: what was found.
    """

    name: str
    right: bool | None
    text: str


@dataclass(frozen=True)
class StepRow:
    """One step of a training.

    Attributes:
        step: its number, from 0.
        loss: the original's; None if it has none.
        identical: every bit of losses, gradients, statistics and updated weights is the original's.
        shim: the largest absolute difference from the original's, with the port on Torch's kernels.
        native: the same on Paddle's own kernels; None where the port fails there.
        shim_loss, native_loss: the port's loss in both cases; None if it has none.
    """

    step: int
    loss: float | None
    identical: bool
    shim: float
    native: float | None
    shim_loss: float | None = None
    native_loss: float | None = None


@dataclass(frozen=True)
class LayerRow:
    """The results of one layer, compared.

    Attributes:
        torch, paddle: the layer's paths.
        calls: how many.
        identical: every bit is the original's, with the port on Torch's kernels.
        shim: the largest absolute difference from the original's there.
        native: the same on Paddle's own kernels; None where the port fails there.
    """

    torch: str
    paddle: str
    calls: int
    identical: bool
    shim: float
    native: float | None
