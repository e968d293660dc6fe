"""What :func:`padiff_shim.prove` answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..arguments import whole
from ..dispatch.call_site import at_line
from ..errors import ArgumentError, PadiffShimError, described
from ..modes.environment import versions
from ..present.annotations import Finding
from ..present.document import Document
from ..present.result import Presented
from ..text import joined, tr
from .alignment import Alignment
from .carried import CarriedBy
from .findings import LayerRow, Mistake, ProofVerdict, Stage, StepRow
from .generation import Generate, generation_of
from .pages import annotated, proof_document

_BITWISE = tr("padiff_shim.bitwise(port, original, inputs) names each line where the bits part, and what to write to have the same")


class ProofAnswer(Presented):
    """What answers about a port's code share. ``verdict``, ``mistakes``: those of the dataclass that inherits."""

    verdict: ProofVerdict
    mistakes: list[Mistake]

    def __bool__(self) -> bool:
        return bool(self.verdict)

    @property
    def headline(self) -> str:
        """The answer in one line."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain types, ready for JSON."""
        data = asdict(self)  # type: ignore[call-overload]
        data["verdict"] = str(self.verdict)
        for mistake, fields in zip(self.mistakes, data["mistakes"]):
            fields["cause"] = str(mistake.cause)
        return {**data, "headline": self.headline, "right": bool(self)}

    @property
    def findings(self) -> list[Finding]:
        """The mistakes, each at the port's line."""
        return [annotated(mistake, str(self.verdict)) for mistake in self.mistakes]


@dataclass(repr=False)
class Proof(ProofAnswer):
    """Whether a port is right, and if not, where. True in a condition if the code is right.

    Attributes:
        verdict: the answer.
        reason: the answer in a sentence.
        stages: what was compared, in the order in which people align a port.
        mistakes: what the port does differently, the largest effect first.
        layers: a row for each pair of layers.
        training: a row for each step, with ``phase="train"``.
        carried: what carries the native difference of the outputs, once :meth:`carriers` was called.
        carried_gradients: the same of gradients, by the name that was passed.
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
    carried_gradients: dict[str, CarriedBy] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    differences: dict[str, float | None] = field(default_factory=dict)
    complete: bool = True
    seconds: float = 0.0
    environment: dict[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        self._measure: Callable[[], CarriedBy] | None = None
        self._measure_gradients: Callable[[str], CarriedBy] | None = None
        self._align: Callable[[Proof, int, Generate | None], Alignment] | None = None

    def measure_by(self, measure: Callable[[], CarriedBy], of_gradients: Callable[[str], CarriedBy] | None = None) -> None:
        """The measurements of :meth:`carriers`; ``of_gradients`` is None if the port had no backward."""
        self._measure, self._measure_gradients = measure, of_gradients

    def report_by(self, align: Callable[[Proof, int, Generate | None], Alignment]) -> None:
        """The measurements of :meth:`report`: of this proof, a number of tokens, and functions that generate them."""
        self._align = align

    def report(self, *, tokens: int = 0, generate: Generate | None = None, lang: str | None = None) -> Alignment:
        """The report that goes into a pull request: environment and commits, weights, layers, loss, gradients, training.

        It has one dtype, that of the proof; :func:`padiff_shim.align` proves and reports several. Both models run once more, and
        once in float64.

        Args:
            tokens: how many tokens both models generate greedily; 0: none.
            generate: as for :func:`padiff_shim.align`.
            lang: the language of the report, ``"en"`` or ``"zh"``; default: as the environment says.

        Returns:
            An :class:`Alignment <padiff_shim.proof.alignment.Alignment>`. A proof holds copies of both models for it.

        >>> import numpy, paddle, torch, padiff_shim
        >>> proof = padiff_shim.prove(paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), numpy.eye(4))
        >>> report = proof.report()
        >>> str(report.verdict), report.unchecked["training"]
        ('RIGHT', 'no steps were asked for')
        """
        assert self._align is not None  # prove has set it
        alignment = self._align(self, whole("tokens", tokens, least=0), generation_of(generate))
        alignment.speak(lang)
        return alignment

    def carriers(self, of: str = "outputs") -> CarriedBy:
        """Why the port differs natively: which calls carry how much of a difference.

        Args:
            of: ``"outputs"``: runs the port's forward twice more, with each op's formula in float64 beside it. ``"gradients"``, all
                of them together, or the name of one, of a parameter or of an input (``"input 0"``, ``"input tokens"``): the calls'
                forward, and their backward, each for the gradients that it gets. Runs the port's step four times more, twice in
                float64, and each call's backward by itself.

        Returns:
            A :class:`CarriedBy`; also kept in :attr:`carried` or :attr:`carried_gradients`, and printed with the proof. A proof
            holds copies of both models for it.

        Raises:
            PadiffShimError: nothing was run, as for inputs that differ, or no backward (``phase="forward"``), or the port does
                not run in float64.
            ArgumentError: there is no gradient of that name.
        """
        if not isinstance(of, str):
            raise ArgumentError(tr('of= is "outputs", "gradients" or the name of one, got {of}', of=described(of)))
        if of != "outputs":
            return self._of_gradients(of)
        if self.carried is None:
            if self._measure is None:
                raise PadiffShimError(tr("no run of the port to measure: {headline}", headline=self.headline))
            self.carried, self._measure = self._measure(), None
        return self.carried

    def _of_gradients(self, of: str) -> CarriedBy:
        if of not in self.carried_gradients:
            if self._measure_gradients is None:
                why = tr("phase='forward' has no backward") if self.differences else self.headline
                raise PadiffShimError(tr("no backward of the port to measure: {why}", why=why))
            self.carried_gradients[of] = self._measure_gradients(of)
        return self.carried_gradients[of]

    @property
    def headline(self) -> str:
        """The answer in one line, with the first mistake's line."""
        if not self.mistakes:
            return joined("", (f"{self.verdict}: ", self.reason))
        first = self.mistakes[0]
        text, place = first.sentence(), first.paddle or first.torch
        if place:
            text = tr("{text} at {line}", text=text, line=at_line(place.file, place.line))
            text = tr("{text} (layer {layer})", text=text, layer=place.layer) if place.layer else text
        if len(self.mistakes) > 1:
            text = tr("{text}, and {more} more", text=text, more=len(self.mistakes) - 1)
        return joined("", (f"{self.verdict}: ", text))

    def content(self) -> Document:
        """The verdict, mistakes with their lines, stages, training, what carries a native difference, and layers."""
        rounded = self.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
        return proof_document(self, [_BITWISE] if rounded else [])
