"""What :func:`padiff_shim.prove` answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import paddle
import torch

from ..arguments import flag, one_of, whole
from ..errors import ArgumentError, PadiffShimError, described
from ..modes.environment import versions
from ..present.annotations import Finding
from ..present.document import Document
from ..present.result import Presented
from ..progress import Waiting
from ..recording.provenance import origin
from ..text import fields_of, joined, listed, marked, tr
from ..weights.mapping import Mapping as WeightMapping
from .alignment import AlignedDtype, Alignment, aligned_dtype, surroundings
from .attribution import carriers
from .bits.bitwise import bitwise, same_mathematics
from .bits.result import Bitwise
from .carriers import CarriedBy
from .drift import Drift, drift
from .findings import WITH_BUFFERS, Cause, LayerRow, Mistake, ProofVerdict, Stage, StepRow
from .generation import Generate, generation_of
from .held_values import without_plain_weights
from .pages import annotated, proof_document
from .programs import PaddleSide, TorchSide, generators_restored, not_running
from .updates import Recipe, States

DTYPES = ("float64", "float32", "float16", "bfloat16")

_BITS = marked("proof.bits(), or --bits: the lines where the bits part, and what to write")
_DRIFT = marked("proof.drift(), or --drift: how the difference of the kernels grows from layer to layer")
_REPORT = marked("proof.report(), or --report align.md: what goes into the pull request")
_RECORD = marked("padiff-shim record, there and here, then diff: if another machine gives other numbers")
_AGAIN = marked("correct that, then prove again")


_BRACKETS = re.compile(r" ?[(（][^()（）]*[)）]")


def _without_brackets(text: str) -> str:
    """A sentence in the reader's language, without the arguments of calls and counts that stand in brackets."""
    return _BRACKETS.sub("", _BRACKETS.sub("", str(text)))


class ProofAnswer(Presented):
    """What answers about a port's code share. ``verdict``, ``reason``, ``mistakes`` ...: those of the dataclass that inherits."""

    verdict: ProofVerdict
    reason: str
    stages: list[Stage]
    mistakes: list[Mistake]
    differences: dict[str, float | None]
    _equal_weights = marked("make the weights equal, then prove again")

    def __bool__(self) -> bool:
        return bool(self.verdict)

    @property
    def answer(self) -> str:
        """The answer in a sentence, with the line to edit first."""
        return joined("", (f"{self.verdict}: ", self._with_line(self._line())))

    def _line(self) -> str:
        """The line to edit, of the first mistake; "" where there is none."""
        return self.mistakes[0].line_to_edit() if self.mistakes else ""

    def _with_line(self, line: str, *, layer: bool = True) -> str:
        if not self.mistakes:
            return self.reason
        first = self.mistakes[0]
        text, place, fix = first.sentence(), first.paddle or first.torch, first.fix.text if first.fix else ""
        if line:
            text = tr("{text}, at {line}", text=text, line=line)
            text = tr("{text} (layer {layer})", text=text, layer=place.layer) if layer and place and place.layer else text
        if fix and fix not in str(first.sentence()):
            text = tr("{cause}: write {fix}", cause=text, fix=fix)
        return self._and_more(text)

    def _and_more(self, text: str) -> str:
        more = len(self.mistakes) - 1
        return tr("{text}, and {more} more", text=text, more=more) if more > 0 else text

    def _shorter(self) -> Iterator[str]:
        return (joined("", (f"{self.verdict}: ", text)) for text in self.brief())

    def brief(self) -> Iterator[str]:
        """The answer without its verdict, for a headline: a mistake without folder and layer, then its cause and what to write."""
        if not self.mistakes:
            clause = re.split("[;；]", str(self.reason))[0]
            yield from (clause, _without_brackets(clause), re.split("[:：]", clause)[0], _without_brackets(clause))
            return
        first, line = self.mistakes[0], self._line().rpartition("/")[2]
        fix = first.fix.text if first.fix is not None else ""
        yield self._with_line(line, layer=True)
        yield self._with_line(line, layer=False)
        bare, cause = _without_brackets(first.sentence()), tr(first.cause.value)
        if line:
            bare, cause = tr("{text}, at {line}", text=bare, line=line), tr("{cause} at {line}", cause=cause, line=line)
        fields = {str(value) for value in fields_of(first.text).values()}
        for text in (bare, cause) if len({*map(_without_brackets, fields)}) == len(fields) else (cause,):
            yield self._and_more(tr("{cause}: write {fix}", cause=text, fix=fix) if fix else text)
        yield self._and_more(cause)

    @property
    def following(self) -> list[str]:
        """What to do next, in one sentence or two."""
        if self.mistakes:
            first = self.mistakes[0]
            line = self._line()
            if not line:
                return [tr(_AGAIN)]
            if first.fix is not None and first.fix.text:
                return [tr("write {fix} at {line}, then prove again", fix=first.fix.text, line=line)]
            if first.cause is Cause.BUFFER:
                words = tr('correct {line}, or say weights="...{suffix}", then prove again', line=line, suffix=WITH_BUFFERS)
                return [words]
            return [tr("no change is known that mends it: correct {line}, then prove again", line=line)]
        if self.verdict:
            return [*map(tr, self._views())]
        return [tr(self._equal_weights if self.verdict is ProofVerdict.WEIGHTS_DIFFER else _AGAIN)]

    def _views(self) -> list[str]:
        """What to ask next of a right port."""
        return [_RECORD]

    @property
    def findings(self) -> list[Finding]:
        """The mistakes, each at the port's line."""
        return [annotated(mistake, str(self.verdict)) for mistake in self.mistakes]


@dataclass(frozen=True)
class Ran:
    """Both programs of a proof, which its views run again.

    Attributes:
        original, port: copies of the models with equal weights; ``models``: the caller's, (Paddle's, Torch's).
        mapping: how weights belong together.
        back: gradients were compared.
        recipe, steps: how both were trained; None: they were not.
        weights: whose weights both use, as asked for.
        proof_in: proves the same in a dtype.
    """

    original: TorchSide
    port: PaddleSide
    mapping: WeightMapping
    models: tuple[paddle.nn.Layer, torch.nn.Module]
    back: bool
    recipe: Recipe | None
    steps: int
    weights: str
    proof_in: Callable[[str], Proof]


@dataclass(repr=False)
class Proof(ProofAnswer):
    """Whether a port is right, and if not, where. True in a condition if the code is right.

    :meth:`bits`, :meth:`drift`, :meth:`carriers` and :meth:`report` ask further, of the programs that were run; for that a proof
    holds copies of both models.

    Attributes:
        verdict: the answer.
        reason: the answer in a sentence.
        stages: what was compared, in the order in which people align a port.
        mistakes: what the port does differently, the largest effect first.
        layers: a row for each pair of layers.
        training: a row for each step, with ``phase="train"``.
        carried: what carries the native difference of the outputs, once :meth:`carriers` was called.
        notes: what else a reader has to know.
        differences: the largest absolute difference of outputs (and gradients) from the original's: ``"native"`` (None where
            the port fails natively), ``"shim"`` (the port on Torch's kernels), and ``"float64"`` (both models in float64; None
            where that was not needed).
        complete: the mistakes explain all that differs.
        seconds: what the proof took.
        environment: versions of both frameworks, and the device.

    >>> import numpy, paddle, torch, padiff_shim
    >>> port, original = paddle.nn.LayerNorm(8, epsilon=1e-6), torch.nn.LayerNorm(8)
    >>> proof = padiff_shim.prove(port, original, numpy.ones((2, 8)) * numpy.arange(8))
    >>> bool(proof), proof.mistakes[0].text
    (False, 'epsilon=1e-06 against eps=1e-05 (write epsilon=1e-05)')
    """

    verdict: ProofVerdict
    reason: str
    stages: list[Stage] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    layers: list[LayerRow] = field(default_factory=list)
    training: list[StepRow] = field(default_factory=list)
    carried: CarriedBy | None = None
    notes: list[str] = field(default_factory=list)
    differences: dict[str, float | None] = field(default_factory=dict)
    complete: bool = True
    seconds: float = 0.0
    environment: dict[str, str] = field(default_factory=versions)

    _equal_weights = marked('prove with weights="torch->paddle", or make the weights equal, then prove again')

    def __post_init__(self) -> None:
        self.ran: Ran | None = None
        self.trained: tuple[States, States, States] | None = None  # the original, the port, and natively
        self._reported = False

    def _programs(self) -> Ran:
        if self.ran is None or not self.differences:
            raise PadiffShimError("no run of the port to measure: {headline}", headline=self.answer)
        return self.ran

    def bits(self) -> Bitwise:
        """Where the bits of a right port part from its original's, why, and what to write to have the same.

        On equal kernels only the formulation makes other bits. Each call of the port gets the original's own operands, bit for
        bit; where the result differs, the line is an origin. The original's own calls in Paddle's words, other layouts and other
        orders are replayed on these operands. One that gives the original's bits, in results and gradients, is printed as a
        change. With all changes in place the whole port runs again, without anything of the original's.

        Returns:
            A :class:`Bitwise <padiff_shim.Bitwise>`, true if no bit differs.

        >>> import numpy, paddle, torch, padiff_shim
        >>> class Port(paddle.nn.Layer):
        ...     def forward(self, x):
        ...         return x * (1 / 3)
        >>> class Original(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x / 3
        >>> bits = padiff_shim.prove(Port(), Original(), numpy.arange(8.0)).bits()
        >>> bool(bits), bits.mended, [(origin.name, origin.change) for origin in bits.origins]
        (False, True, [('div against mul', 'x1 / 3')])
        """
        if not same_mathematics(self):
            return Bitwise(self, comparable=False)
        ran = self._programs()
        with without_plain_weights(ran.mapping, ran.original, ran.port) as names:
            bits = bitwise(self, ran.original, ran.port, ran.mapping, ran.recipe, ran.steps)
        if names:
            bits.notes.append(
                tr("{names}: ones or zeros hide roundings, so both had the same other numbers there", names=listed(names))
            )
        return bits

    def drift(self, *, calls: bool = False) -> Drift:
        """How far the port's values are from the original's: mean and largest difference of every layer's result.

        The port runs natively and on Torch's kernels, then both models in float64. A native difference that is rounding is 0 on
        Torch's kernels (or comes from another order of summation), and about 1e-9 of itself in float64. Unless the proof is of
        ``phase="forward"``, also the gradients of every layer's result, of inputs of floats and of parameters.

        Args:
            calls: also every op call, aligned as :func:`padiff_shim.diff` aligns them.

        Returns:
            A :class:`Drift <padiff_shim.Drift>`.

        Raises:
            PadiffShimError: nothing was run, as for inputs that differ.

        >>> import numpy, paddle, torch, padiff_shim
        >>> proof = padiff_shim.prove(paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), numpy.eye(4), phase="forward")
        >>> [(row.kind, row.substituted.max_abs) for row in proof.drift().rows]
        [('layer', 0.0), ('output', 0.0)]
        """
        flag("calls", calls)
        ran = self._programs()
        return drift(ran.original, ran.port, ran.mapping, back=ran.back, calls=calls)

    def report(
        self, *, dtypes: Sequence[str] = (), tokens: int = 16, generate: Generate | None = None, lang: str | None = None
    ) -> Alignment:
        """The report that goes into a pull request: environment and commits, weights, layers, loss, gradients, training.

        It has a conclusion (right, wrong at a line, or not known), and lists what was not compared, with the reason. Both models
        run once more, and once in float64.

        Args:
            dtypes: names of further dtypes of floats; in each the port is proven, too.
            tokens: how many tokens both models generate greedily, if they can; 0: none.
            generate: a pair of functions (Paddle's, Torch's) of the model, its arguments ``(positional, keywords)`` and the number
                of tokens, which return new tokens ``[sequences, tokens]``. None: the models' method ``generate``, if both have one,
                as PaddleFormers and transformers call it.
            lang: the language of the report, ``"en"`` or ``"zh"``; default: as the environment says.

        Returns:
            An :class:`Alignment <padiff_shim.Alignment>`, true if the port is right. Where the models do not run in one of
            ``dtypes``, it says so, and the conclusion is NOT_KNOWN there.

        Raises:
            ArgumentError: an argument that is not accepted; the message says what is.

        >>> import numpy, paddle, torch, padiff_shim
        >>> report = padiff_shim.prove(paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), numpy.eye(4)).report(dtypes=["bfloat16"])
        >>> report.verdict, [aligned.dtype for aligned in report.dtypes]
        (<AlignmentVerdict.RIGHT: 'RIGHT'>, ['float32', 'bfloat16'])
        >>> report.unchecked["training"]
        'no steps were asked for'
        """
        if isinstance(dtypes, str):
            raise ArgumentError("dtypes= is a list of names of dtypes, got {dtypes}", dtypes=described(dtypes))
        names, tokens, ways = (
            [one_of("dtypes", dtype, DTYPES) for dtype in dtypes],
            whole("tokens", tokens),
            generation_of(generate),
        )
        assert self.ran is not None  # prove has set it
        start = time.perf_counter()
        with generators_restored(), Waiting("aligning"):
            measured = [self._aligned(tokens, ways)]
            for name in dict.fromkeys(names):
                if name != measured[0].dtype:
                    measured.append(self._aligned_in(name, tokens, ways, measured[0].weights))
            models = {side: origin(model) for side, model in zip(("paddle", "torch"), self.ran.models)}
            report = Alignment(models, surroundings(self.ran), measured)
        report.seconds = self.seconds + time.perf_counter() - start
        report.speak(lang)
        self._reported = True
        return report

    def _aligned(self, tokens: int, generate: Generate | None) -> AlignedDtype:
        assert self.ran is not None
        ran = self.ran
        return aligned_dtype(self, ran.original, ran.port, ran.mapping, back=ran.back, tokens=tokens, generate=generate)

    def _aligned_in(self, dtype: str, tokens: int, generate: Generate | None, weights: WeightMapping) -> AlignedDtype:
        """The same of a proof in another dtype, if the models run there."""
        assert self.ran is not None
        try:
            return self.ran.proof_in(dtype)._aligned(tokens, generate)
        except PadiffShimError:
            raise
        except Exception as error:  # the models' own
            reason = not_running(error)
            aligned = AlignedDtype(dtype, Proof(ProofVerdict.NOT_COMPARABLE, reason), weights)
            aligned.leave_out(reason)
            return aligned

    def carriers(self) -> CarriedBy:
        """Why the port's outputs differ natively: which calls carry how much of the difference.

        Runs the port's forward twice more, with each op's formula in float64 beside it, and goes back once. Gradients are in
        :meth:`drift`.

        Returns:
            A :class:`CarriedBy`; :attr:`carried` holds it as well, and the proof prints it.

        Raises:
            PadiffShimError: nothing was run, as for inputs that differ, or the port does not run in float64.
        """
        if self.carried is None:
            self.carried = carriers(self._programs().port)
        return self.carried

    def content(self) -> Document:
        """The verdict, mistakes with their lines, stages, training, what carries a native difference, and layers."""
        return proof_document(self, self.following)

    def _views(self) -> list[str]:
        rounds = self.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
        view = _BITS if rounds else _DRIFT if self.differences.get("native") else _RECORD
        return [view] if self._reported else [view, _REPORT]
