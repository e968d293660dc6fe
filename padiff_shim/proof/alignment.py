"""The report that goes into a pull request: everything that was compared between a port and its original, and the conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from ..weights.mapping import Mapping as Weights
from .agreement import RunOutcome, named, output_pairs
from .alignment_pages import alignment_document
from .distances import DriftRow, gradient_rows, layer_rows, outcomes_of, output_rows, state_rows
from .findings import ProofVerdict
from .generation import Generate, GenerationRow, GenerationUnchecked, generation
from .locate import LOSS
from .programs import PaddleSide, TorchSide, named_tensors

if TYPE_CHECKING:
    from .proof import Proof, Ran


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


# ---- What is compared in one dtype.


@dataclass
class AlignedDtype:
    """All that was compared in one dtype.

    Attributes:
        dtype: of parameters and inputs of floats.
        proof: the :class:`~padiff_shim.Proof`.
        weights: which weights belong together, and what happens on the way.
        rows: layers' results in the order of the run, outputs, and gradients of parameters.
        blocks: paths of the original's layers that stand in a list, such as a stack of decoder layers.
        losses: the loss of the original (``"torch"``), and of the port on Torch's kernels (``"substituted"``) and ``"native"``.
        generated: a row for each kind of kernels.
        hashes: (name, MD5 in the original, in the port on Torch's kernels, and natively) of layers' results, outputs and loss.
        unchecked: what was not compared, and why.
        notes: what else a reader has to know.
        fails: why the port's backward fails on Paddle's own kernels; "" if it does not.
    """

    dtype: str
    proof: Proof
    weights: Weights
    rows: list[DriftRow] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    generated: list[GenerationRow] = field(default_factory=list)
    hashes: list[tuple[str, str, str, str]] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fails: str = ""

    @property
    def forward(self) -> list[DriftRow]:
        """Embeddings, blocks, norms and outputs: no part of a block, and no layer that holds blocks."""
        paths = {row.torch for row in self.rows if row.kind == "layer" and row.torch}
        apart = {path for path in paths if not any(_inside(path, block) or _inside(block, path) for block in self.blocks)}
        return [row for row in self.rows if row.kind == "output" or (row.kind == "layer" and row.torch in apart)]

    @property
    def first_block(self) -> str:
        """The first block, in the order of the run, of which parts were compared; "" if there is none."""
        ended = [row.torch for row in self.rows if row.kind == "layer" and row.torch in self.blocks]
        return next((block for block in ended if any(_inside(row.torch, block) for row in self.rows if row.kind == "layer")), "")

    @property
    def parts(self) -> list[DriftRow]:
        """The parts of the first block, in the order of the run."""
        block = self.first_block
        return [row for row in self.rows if row.kind == "layer" and block and _inside(row.torch, block)]

    def leave_out(self, reason: str) -> None:
        """Nothing was compared, for this reason."""
        self.unchecked = {tr("anything"): reason}

    def first_apart(self, side: str) -> DriftRow | None:
        """The first tensor of the forward, in all layers, that differs in a bit on a side: ``"substituted"`` or ``"native"``."""
        rows = ((row, getattr(row, side)) for row in self.rows if row.kind in ("layer", "output"))
        return next((row for row, apart in rows if apart is not None and not apart.identical), None)

    @property
    def states(self) -> list[DriftRow]:
        """What optimizers keep behind the last step."""
        return [row for row in self.rows if row.kind == "optimizer state"]

    @property
    def gradients(self) -> list[DriftRow]:
        """Those of parameters."""
        return [row for row in self.rows if row.of_gradient]


def _inside(path: str, outer: str) -> bool:
    return path.startswith(f"{outer}.") if outer else bool(path)


def aligned_dtype(
    proof: Proof,
    original: TorchSide,
    port: PaddleSide,
    weights: Weights,
    *,
    back: bool,
    tokens: int,
    generate: Generate | None,
) -> AlignedDtype:
    """Measure what a proof does not keep: each tensor's distances, the losses, and the generated tokens.

    Args:
        proof: of these two sides; where nothing was run for it, nothing is measured.
        original, port: the models with equal weights.
        weights: which weights belong together.
        back: whether gradients were compared.
        tokens: how many are generated; 0: none.
        generate: see :func:`.generation.generation`.
    """
    aligned = AlignedDtype(original.dtype(), proof, weights, blocks=_blocks(original.model))
    if not proof.differences:
        aligned.leave_out(str(proof.verdict))
        return aligned
    outcomes, aligned.notes, aligned.fails = outcomes_of(original, port)
    aligned.rows = [*layer_rows(weights, outcomes), *output_rows(outcomes)]
    aligned.rows += [row for row in gradient_rows(weights, outcomes) if row.kind == "gradient of parameter"] if back else []
    aligned.rows += state_rows(weights, *proof.trained) if proof.trained else []
    aligned.hashes = list(_hashes(weights, outcomes))
    losses = {run: outcome.outputs[LOSS] for run, outcome in outcomes.items() if LOSS in outcome.outputs and "64" not in run}
    aligned.losses = {run: float(loss.reshape(-1)[0]) for run, loss in losses.items() if loss.size == 1}
    if not {"torch", "substituted"} <= set(aligned.losses):
        aligned.unchecked[tr("loss")] = tr("no loss= was passed, and not both models return a loss")
        aligned.losses = {}
    if not back:
        aligned.unchecked[tr("gradients")] = tr("only forwards were compared")
    if not proof.training:
        aligned.unchecked[tr("training")] = tr("no steps were asked for")
    try:
        aligned.generated, notes = generation(original, port, tokens, generate, natively="native" in outcomes)
        aligned.notes += notes
    except GenerationUnchecked as why:
        aligned.unchecked[tr("generation")] = why.args[0]
    return aligned


def _hashes(weights: Weights, outcomes: Mapping[str, RunOutcome]) -> Iterator[tuple[str, str, str, str]]:
    """MD5 of what layers return and of outputs, as people post them."""
    runs = [outcomes.get(run) for run in ("torch", "substituted", "native")]

    def hashed(name: str, arrays: list[Any]) -> tuple[str, str, str, str]:
        first, second, third = ("" if array is None else md5(array) for array in arrays)
        return name, first, second, third

    for path, partner in weights.layers.items():
        if not (partner or path):
            continue  # the model's results are the outputs
        layers = [[] if run is None else run.layers.get(path if run is runs[0] else partner, []) for run in runs]
        for call in range(min(len(layers[0]), len(layers[1]))):
            name = f"{partner or path} ({call + 1})" if call else partner or path
            yield hashed(name, [calls[call] if call < len(calls) else None for calls in layers])
    for path, partner in output_pairs(outcomes["torch"], outcomes["substituted"]):
        yield hashed(partner, [None if run is None else run.outputs.get(path if run is runs[0] else partner) for run in runs])


def _blocks(module: torch.nn.Module) -> list[str]:
    """The layers in a module's outermost lists."""
    lists = [
        name
        for name, layer in module.named_modules()
        if isinstance(layer, (torch.nn.ModuleList, torch.nn.Sequential)) and len(layer)
    ]
    outermost = [name for name in lists if not any(_inside(name, other) for other in lists)]
    return [f"{name}.{child}".strip(".") for name in outermost for child, _ in module.get_submodule(name).named_children()]
