"""The report that goes into a pull request: everything that was compared between a port and its original, and the conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import paddle
import torch

from .. import __version__
from ..frameworks import settings
from ..present.annotations import Finding
from ..present.document import Document, setting_label
from ..present.result import Presented
from ..recording.provenance import configuration, weights_of
from ..recording.tensors import md5
from ..runs.run import command
from ..text import joined, many, tr
from ..trees import as_array
from ..verdicts import PlainWord
from .agreement import named
from .aligned import AlignedDtype
from .alignment_pages import alignment_document
from .findings import ProofVerdict
from .programs import named_tensors

if TYPE_CHECKING:
    from .proof import Ran


class AlignmentVerdict(PlainWord):
    """The conclusion of an alignment; true in a condition if the port is right.

    Attributes:
        RIGHT: in each dtype the port computes what the original computes.
        NOT_TRAINABLE: so it does, and its backward fails on Paddle's own kernels: it cannot be trained natively.
        WRONG: it computes something else; the mistakes say where.
        NOT_KNOWN: neither is proven; the sentence says what is missing.

    >>> from padiff_shim import AlignmentVerdict
    >>> bool(AlignmentVerdict.RIGHT), bool(AlignmentVerdict.NOT_KNOWN)
    (True, False)
    """

    RIGHT = "RIGHT"
    NOT_TRAINABLE = "RIGHT_NOT_TRAINABLE"
    WRONG = "WRONG"
    NOT_KNOWN = "NOT_KNOWN"

    def __bool__(self) -> bool:
        return self in (AlignmentVerdict.RIGHT, AlignmentVerdict.NOT_TRAINABLE)


@dataclass(repr=False)
class Alignment(Presented):
    """What :meth:`padiff_shim.Proof.report` compared. True in a condition if the port is right.

    Attributes:
        models: where port (``"paddle"``) and original (``"torch"``) come from: class, file, commit or release.
        environment: versions, processor, threads and inputs.
        dtypes: what was compared in each dtype.
        seconds: what all of it took.

    >>> import numpy, paddle, torch, padiff_shim
    >>> port, original = paddle.nn.LayerNorm(8, epsilon=1e-6), torch.nn.LayerNorm(8)
    >>> alignment = padiff_shim.prove(port, original, numpy.eye(8) + 1).report()
    >>> bool(alignment), alignment.answer.partition("float32: ")[2]
    (False, 'another attribute: epsilon=1e-06 against eps=1e-05 (write epsilon=1e-05)')
    """

    models: dict[str, str]
    environment: dict[str, str]
    dtypes: list[AlignedDtype]
    seconds: float = 0.0
    _names = ("verdict", "models", "environment", "unchecked", "dtypes", "seconds")

    @property
    def verdict(self) -> AlignmentVerdict:
        """The conclusion."""
        verdicts = [aligned.proof.verdict for aligned in self.dtypes]
        if ProofVerdict.CODE_DIFFERS in verdicts:
            return AlignmentVerdict.WRONG
        if not all(verdicts) or any(_contradicted(aligned) for aligned in self.dtypes):
            return AlignmentVerdict.NOT_KNOWN
        return AlignmentVerdict.NOT_TRAINABLE if any(aligned.fails for aligned in self.dtypes) else AlignmentVerdict.RIGHT

    @property
    def unchecked(self) -> dict[str, str]:
        """What was not compared, and why: in no dtype, or with the dtype's name in some."""
        merged: dict[str, str] = {}
        names = dict.fromkeys(name for aligned in self.dtypes for name in aligned.unchecked)
        for name in names:
            reasons = {aligned.dtype: aligned.unchecked[name] for aligned in self.dtypes if name in aligned.unchecked}
            if len(reasons) == len(self.dtypes) and len(set(reasons.values())) == 1:
                merged[name] = next(iter(reasons.values()))
            else:
                merged |= {tr("{what} in {dtype}", what=name, dtype=dtype): reason for dtype, reason in reasons.items()}
        return merged

    @property
    def answer(self) -> str:
        """The conclusion in a sentence, with its evidence."""
        verdict = self.verdict
        if verdict is AlignmentVerdict.WRONG:
            differing = [aligned for aligned in self.dtypes if aligned.proof.verdict is ProofVerdict.CODE_DIFFERS]
            text = _mistake(differing[0])
            for aligned in self.dtypes:
                if aligned not in differing:
                    how = _right([aligned])[0] if aligned.proof.verdict else tr("not known in {dtype}", dtype=aligned.dtype)
                    text = tr("{text}; {how}", text=text, how=how)
            equal = _equal_but_gradients(differing[0])
            return joined("", (f"{verdict}: ", tr("{equal}; {text}", equal=equal, text=text) if equal else text))
        if verdict:
            text = tr("{how}, for these weights and inputs", how=joined("; ", _right(self.dtypes)))
            if fails := next((aligned.fails for aligned in self.dtypes if aligned.fails), ""):
                text = tr("right, and cannot be trained natively: {fails}; {text}", fails=fails, text=text)
        else:
            parts = []
            for aligned in self.dtypes:
                reason = _contradicted(aligned) if aligned.proof.verdict else aligned.proof.reason
                parts.append(tr("in {dtype} {reason}", dtype=aligned.dtype, reason=reason) if reason else _right([aligned])[0])
            text = joined("; ", parts)
        return joined("", (f"{verdict}: ", text))

    def _shorter(self) -> Iterator[str]:
        verdict = self.verdict
        if verdict is AlignmentVerdict.WRONG:
            wrong = next(aligned for aligned in self.dtypes if aligned.proof.verdict is ProofVerdict.CODE_DIFFERS)
            for text in wrong.proof.brief():
                text = tr("in {dtype}: {mistake}", dtype=wrong.dtype, mistake=text) if len(self.dtypes) > 1 else text
                yield joined("", (f"{verdict}: ", text))
        elif verdict:
            dtypes = joined(", ", [aligned.dtype for aligned in self.dtypes])
            yield joined("", (f"{verdict}: ", tr("in {dtypes}, for these weights and inputs; details below", dtypes=dtypes)))
        else:
            unknown = next(aligned for aligned in self.dtypes if not aligned.proof or _contradicted(aligned))
            for reason in [_contradicted(unknown)] if unknown.proof else unknown.proof.brief():
                yield joined("", (f"{verdict}: ", tr("in {dtype}: {mistake}", dtype=unknown.dtype, mistake=reason)))

    def __bool__(self) -> bool:
        return bool(self.verdict)

    @property
    def findings(self) -> list[Finding]:
        """The mistakes, those of several dtypes once, each at the port's line."""
        mistakes: list[Finding] = []
        for aligned in self.dtypes:
            mistakes += [mistake for mistake in aligned.proof.findings if mistake not in mistakes]
        return mistakes

    def _versions(self) -> str:
        return ""

    def content(self) -> Document:
        """The conclusion with its evidence, environment, weights, and a section for each thing that was compared."""
        return alignment_document(self)


def _right(dtypes: Sequence[AlignedDtype]) -> list[str]:
    """How far a right port agrees on Torch's kernels: dtypes in which it does so alike, together."""
    alike: dict[tuple[bool, int], list[str]] = {}
    for aligned in dtypes:
        key = aligned.proof.verdict is ProofVerdict.CODE_CORRECT, len(aligned.proof.training)
        alike.setdefault(key, []).append(aligned.dtype)
    texts = []
    for (exact, steps), names in alike.items():
        dtype = joined(", ", names)
        text = tr("equal bit for bit in {dtype}", dtype=dtype) if exact else tr("equal up to rounding in {dtype}", dtype=dtype)
        texts.append(tr("{text} ({steps})", text=text, steps=many(steps, "training step")) if steps else text)
    return texts


def _equal_but_gradients(aligned: AlignedDtype) -> str:
    """That a gradient alone differs, and what is equal; "" where anything else differs, too."""
    right = {stage.name: stage.right for stage in aligned.proof.stages}
    names = [name for name in ("forward", "loss") if name in right]
    if right.get("backward") is not False or not names or not all(right[name] for name in names):
        return ""
    equal = [tr(name) for name in names]
    equal += [tr("generation")] if any(row.kernels == "substituted" and row.first is None for row in aligned.generated) else []
    return tr("gradients alone differ, equal are {what}", what=joined(", ", equal))


def _mistake(aligned: AlignedDtype) -> str:
    """The first mistake of a proof, its line first."""
    mistakes = aligned.proof.mistakes
    if not mistakes:
        return tr("in {dtype} {reason}", dtype=aligned.dtype, reason=aligned.proof.reason)
    first = mistakes[0]
    place = first.paddle or first.torch
    text = tr("in {dtype}: {mistake}", dtype=aligned.dtype, mistake=first.sentence())
    if where := first.line_to_edit():
        where += f" ({place.layer})" if place and place.layer else ""
        text = tr("at {where}, in {dtype}: {mistake}", where=where, dtype=aligned.dtype, mistake=first.sentence())
    text = tr("{text}, and {more} more", text=text, more=len(mistakes) - 1) if len(mistakes) > 1 else text
    if aligned.proof.complete:
        return text
    return tr(
        "{reason}; the first difference that could be located: {text}; what differs behind it is not known",
        reason=aligned.proof.reason,
        text=text,
    )


def _contradicted(aligned: AlignedDtype) -> str:
    """What the generated tokens say against a proof of equal bits; "" if nothing."""
    if aligned.proof.verdict is not ProofVerdict.CODE_CORRECT:
        return ""
    differing = [row for row in aligned.generated if row.kernels == "substituted" and row.first is not None]
    if not differing:
        return ""
    return tr(
        "one forward is equal bit for bit, but greedy generation differs from token {first} on: caches, positions and the end of a "
        "generation are not located",
        first=differing[0].first,
    )


def surroundings(ran: Ran) -> dict[str, str]:
    """The command, versions, processor, threads, configurations, where weights come from, and inputs."""
    port = ran.port
    configurations = [(model, configuration(model)) for model in ran.models]
    known = settings.environment()
    names = ("paddle", "torch", "numpy", "python", "system", "device", *(["cuda"] if known["device"] != "cpu" else []))
    threads = paddle.get_flags("FLAGS_paddle_num_threads")["FLAGS_paddle_num_threads"]
    inputs = port.ask(lambda _, arguments: [_input(name, tensor) for name, tensor in named_tensors(arguments)])
    return {
        "padiff_shim": __version__,
        **{setting_label(name): known[name] for name in names},
        tr("processor"): settings.processor(),
        tr("threads"): tr("paddle {threads}, torch {get_num_threads}", threads=threads, get_num_threads=torch.get_num_threads()),
        tr("command"): command(),
        **{tr("configuration of {model}", model=type(model).__name__): text for model, text in configurations if text},
        tr("weights"): weights_of(ran.models[0 if ran.weights.startswith("paddle") else 1], ran.weights, port.seed),
        tr("inputs"): joined("; ", [*inputs, *([tr("another batch at each step")] if port.changing and ran.steps > 1 else [])]),
        tr("seed"): str(port.seed),
    }


def _input(name: str, tensor: Any) -> str:
    called = named(name) if name[6:7].isdigit() else name.removeprefix("input ")
    return joined(" ", (called, list(tensor.shape), str(tensor.dtype).rpartition(".")[2], f"(MD5 {md5(as_array(tensor))})"))
