"""``padiff_shim.prove``: whether a port is right, and if not, where."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import paddle
import torch

from ..arguments import function, one_of, port_and_original, seed as checked_seed, whole
from ..errors import ArgumentError, described
from ..frameworks.copies import duplicate
from ..interrupts import let_pass
from ..measure.difference import Comparator
from ..progress import Waiting
from ..text import joined, listed, marked, tr, with_fields
from ..weights.explicit import Used
from ..weights.mapping import Mapping as WeightMapping
from ..weights.reading import read_both
from ..weights.transfer import match
from ..weights.tree import WeightSide as Tree
from . import agreement, precision
from .agreement import RunOutcome
from .attribution import wrong_natively
from .buffers import began_apart, fill, hide_something, judge_buffers, without_effect
from .causes import BACKWARD, FORWARD
from .findings import WITH_BUFFERS, Cause, ProofVerdict, Stage
from .fixes import with_fixes
from .graph_ends import ends_before_inputs, mending_ends, trained_otherwise, with_graphs_ended
from .held_values import rounded_numbers
from .locate import Differing, Located, locate, stages_of, tied_differently
from .plans import OnTorch, opened
from .preconditions import (
    align_draws,
    by_use,
    drawn_differently,
    is_doubted,
    mending_settings,
    note_of_use,
    preconditions,
)
from .programs import Inputs, NotWider, PaddleSide, TorchSide, generators_restored, is_of_original, natively, not_running
from .proof import DTYPES, Proof, Ran
from .rules import Evidence, diagnosed, mistakes
from .training import judge, train
from .updates import Recipe

Losses = tuple[Any, Any]  # Paddle's, Torch's


def both_losses(loss: Any) -> Losses:
    """``loss=`` as one function for each side (Paddle's, Torch's), or None for both."""
    if isinstance(loss, tuple) and len(loss) == 2 and all(map(callable, loss)):
        return loss
    if loss is not None and not callable(loss):
        raise ArgumentError(
            "loss= is a function of the output, or a pair of them (Paddle's, Torch's), got {loss}", loss=described(loss)
        )
    return loss, loss


WEIGHTS = ("torch->paddle", "paddle->torch", "as-is", "random")
PHASES = ("forward", "both", "train")


@Waiting("proving")
def prove(
    paddle_layer: Any,
    torch_module: Any,
    inputs: Any,
    *,
    weights: str = "torch->paddle",
    phase: str = "both",
    loss: Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None,
    optimizer: Any = None,
    steps: int = 1,
    layer_map: Mapping[Any, Any] | None = None,
    rules: Any = None,
    dtype: Any = None,
    seed: int = 0,
    equal: Comparator | None = None,
) -> Proof:
    """Say whether a Paddle layer computes what a Torch module computes, and if not, where and why.

    Both run with equal weights, the Paddle layer on Torch's own kernels (:func:`padiff_shim.reference`). A remaining difference
    then cannot come from a kernel: equal bits prove the code, without a tolerance. Where the bits differ, both run once more in
    float64: rounding shrinks with the unit roundoff, a mistake stays. The proof finds mistake after mistake: behind each the port
    goes on with the original's values. The caller's models are not changed.

    Args:
        paddle_layer: the port, a :class:`paddle.nn.Layer`.
        torch_module: the original, a :class:`torch.nn.Module`.
        inputs: an array or tensor of either framework, a tuple or list of positional or a dict of keyword arguments, or a
            function of ``"paddle"`` or ``"torch"`` that returns one of these. Arrays of floats get the model's dtype, tensors
            keep their own. A function of two parameters also gets the number of the training step, from 0.
        weights: whose weights both use: ``"torch->paddle"``, ``"paddle->torch"``, ``"random"`` (the Torch module's shapes with
            seeded normal numbers of its own spread), or ``"as-is"``: each model keeps its own. Then weights that belong
            together must be equal; constants (tables, masks) and weights without partner may differ. A buffer that the port makes
            otherwise is a finding; with ``"torch->paddle+buffers"`` (or ``+buffers`` behind another word) it is not, because a
            checkpoint brings it along.
        phase: ``"forward"``; ``"both"``: outputs and the gradients of all parameters, and where the graph ends before inputs of
            floats; ``"train"``: whole steps of a training, also their losses, weights and running statistics.
        loss: a function of the model's output that returns a scalar, or two of them (Paddle's, Torch's). Without it a backward
            begins with the same fixed random numbers on both sides; a training with the model's own output ``"loss"``, if it
            has one.
        optimizer: with ``phase="train"``: a function of ``"paddle"`` or ``"torch"`` and the model, or two functions of the model
            (Paddle's, Torch's), or the name of an optimizer, which then has Torch's default numbers on both sides. A function
            returns an optimizer, ``(optimizer, schedule)``, or a function that does what the training loop does after each
            backward (clipping, step, schedule, clearing gradients). ``model`` is a copy: take parameters from it.
        steps: how many steps are trained, with ``phase="train"``.
        layer_map: names of Torch layers -> names of Paddle layers, where they overrule :func:`padiff_shim.transfer_weights`.
        rules: how weights lie on both sides, as in :func:`padiff_shim.transfer_weights`: pairs ``(pattern, transform)``, functions,
            AOA statements, or a model that describes its own weights (a PaddleFormers model does so by itself). A function takes
            values from the side that ``weights`` names first. Gradients and updated weights are compared through the same
            rules: if a function f makes w' = f(w), updated weights are compared as f(w) and w', and gradients as g and J^T g',
            with f's Jacobian J: the g that belongs to the same loss. Where f only moves elements that is exact; where f is no
            affine map, its weight's gradient is not compared, and a note says so.
        dtype: ``"bfloat16"``, ``"float16"``, ``"float32"`` or ``"float64"``, or a framework's dtype: both models are proven with
            parameters, buffers and inputs of floats in it (``model.to(dtype)``); None: as they are. Where Paddle has no kernel
            of it on this device, Torch's kernels prove the port all the same.
        equal: a comparator of your own, as of :func:`padiff_shim.difference`: asked about each output, running statistic and
            gradient of the port whose bits are not the original's. If it accepts all, the code counts as right within rounding;
            what it refuses is a difference, whatever rounding explains. Not with ``phase="train"``.
        seed: all random generators begin with it in each run, and stand in the end where they stood before.

    Returns:
        A :class:`Proof`, true if the code is right.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        TransferError: the weights cannot be transferred, or a rule cannot be applied.

    Weights without partner do not end a proof where no compared output depends on them, nor do constants: notes name them. Where
    bits differ both run in float64, which takes twice the memory: if that runs out, the proof says so, and what to prove instead.
    Models of 16 bits that do not run in float64 run in float32; a note says so. Errors of the models themselves are raised
    unchanged; a note tells errors of Paddle's own kernels alone.

    >>> import numpy, paddle, torch, padiff_shim
    >>> port, original = paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    >>> padiff_shim.prove(port, original, numpy.eye(4)).verdict
    <ProofVerdict.CODE_CORRECT: 'CODE_CORRECT'>
    >>> wrong = paddle.nn.Sequential(port, paddle.nn.ReLU())
    >>> proof = padiff_shim.prove(wrong, torch.nn.Sequential(original, torch.nn.GELU()), numpy.eye(4))
    >>> print(proof.mistakes[0])
    another op: relu in place of gelu(approximate='none')
    """
    start = time.perf_counter()
    question = Question(
        paddle_layer, torch_module, inputs, weights, phase, loss, optimizer, steps, layer_map, rules, dtype, seed, equal
    )
    with generators_restored():
        proof = question.proof()
    proof.seconds = time.perf_counter() - start
    return proof


@dataclass
class Question:
    """The arguments of :func:`prove`, checked when it is made.

    ``ran``: both programs of the last proof, and how weights belong together.

    Raises:
        ArgumentError: an argument of a kind that is not accepted.
    """

    layer: Any
    module: Any
    inputs: Any
    weights: str
    phase: str
    loss: Any
    optimizer: Any
    steps: int
    layer_map: Any
    rules: Any
    dtype: Any
    seed: int
    equal: Comparator | None

    def __post_init__(self) -> None:
        port_and_original(self.layer, self.module)
        self.ran: Ran
        self._own_buffers = isinstance(self.weights, str) and self.weights.endswith(WITH_BUFFERS)  # a checkpoint brings them
        self._weights = self.weights.removesuffix(WITH_BUFFERS) if self._own_buffers else self.weights
        one_of("weights", self._weights, WEIGHTS)
        one_of("phase", self.phase, PHASES)
        if isinstance(self.dtype, (torch.dtype, paddle.dtype)):
            self.dtype = str(self.dtype).rpartition(".")[2]
        if self.dtype is not None:
            one_of("dtype", self.dtype, DTYPES)
        self._losses = both_losses(self.loss)
        self.inputs = self.inputs if isinstance(self.inputs, Inputs) else Inputs(self.inputs, self.dtype or "")
        self.seed = checked_seed(self.seed)
        whole("steps", self.steps, least=1)
        if self.phase != "train" and (self.optimizer is not None or self.steps != 1):
            raise ArgumentError("optimizer= and steps= belong to phase='train', not to phase={phase}", phase=repr(self.phase))
        self._recipe = Recipe.of(self.optimizer) if self.phase == "train" else None
        if self.equal is not None:
            function("equal", self.equal, marked("two arrays and a name"))
            if self._recipe is not None:
                raise ArgumentError("equal= judges outputs and gradients: pass phase='forward' or 'both', not 'train'")

    def proof(self) -> Proof:
        """The proof; where weights may belong together by their use, they do so if nothing else makes the port right."""
        proof = self._proof()
        proof.mistakes = with_fixes(proof.mistakes, self.layer)
        return proof

    def _proof(self) -> Proof:
        proof, used = self._attempt(), []
        if not proof and proof.verdict is not ProofVerdict.INPUTS_DIFFER and is_doubted(self.ran.mapping):
            ran, used = self.ran, by_use(*self._sides(), self.ran.mapping)
            other = self._attempt(used) if used else proof
            if other is not proof and (other or _says_more(other, proof)):
                other.notes.append(note_of_use(used))
                proof = other
            else:
                self.ran, used = ran, []
        return self._with_effect(self._with_buffers(proof, used), used) if proof.differences else proof

    def _with_buffers(self, proof: Proof, used: Sequence[Used]) -> Proof:
        """The proof, with what is wrong with buffers; or, if the port is right with its own, one in which each keeps them."""
        ran = self.ran
        if self._own_buffers or not (apart := began_apart(ran.mapping, self.module, self.layer, covered=self._weights == "as-is")):
            return proof
        if not proof:
            names = [buffer.pair.paddle for buffer in apart]
            other = self._attempt(used, own=names)
            alone = [mistake for mistake in other.mistakes if mistake.cause is not Cause.BUFFER]
            if other or 0 < len(other.mistakes) == len(alone) <= len(proof.mistakes):
                other.notes.append(tr("each program has its own {names}: they were made otherwise", names=listed(names)))
                return other
            self.ran = ran
        judge_buffers(proof, apart, ran.original, ran.port, ran.mapping)
        return proof

    def _with_effect(self, proof: Proof, used: Sequence[Used]) -> Proof:
        """The proof of a right port; or one with other numbers in place of zeros and weights near zero, if these hide a mistake."""
        ran = self.ran
        original, port, mapping = ran.original, ran.port, ran.mapping
        pairs = without_effect(mapping, original, port, back=self.phase != "forward" and not original.stopped) if proof else []
        hidden = hide_something(pairs, mapping, original, port) if pairs else False
        names = listed([pair.paddle for pair in pairs])
        if hidden is None:
            proof.notes.append(tr("{names}: zeros or near zero, with which nothing shows what is done with them", names=names))
        other = self._attempt(used, filled=[pair.paddle for pair in pairs]) if hidden else proof
        if hidden and other.verdict is ProofVerdict.CODE_DIFFERS:
            other.notes.append(tr("{names}: numbers near zero hide the mistake, so both had the same random ones", names=names))
            return other
        self.ran = ran
        return proof

    def _sides(self) -> tuple[TorchSide, PaddleSide]:
        """Copies of both models, ready to run."""
        backward = self.phase != "forward"
        port, original = duplicate(self.layer), duplicate(self.module)
        if self.dtype is not None:
            port, original = PaddleSide.converted(port, self.dtype), TorchSide.converted(original, self.dtype)
        torch_side = TorchSide(original, self.inputs, self._losses[1], self.seed, backward=backward)
        paddle_side = PaddleSide(port, self.inputs, self._losses[0], self.seed, backward=backward)
        paddle_side.starts = torch_side.starts
        return torch_side, paddle_side

    def _attempt(self, used: Sequence[Used] = (), own: Collection[str] = (), filled: Collection[str] = ()) -> Proof:
        """A proof.

        Args:
            used: pairs of weights by their use.
            own: names in the port of what each program keeps as it made it.
            filled: names in the port of what gets random numbers, the same on both sides.
        """
        original, port = self._sides()
        if self._weights == "random":
            _fill(original.model, self.seed)
        trees = read_both(original.model, port.model)
        mapping = self._mapping(original, port, trees, used)
        mapping = replace(mapping, pairs=[pair for pair in mapping if pair.paddle not in own]) if own else mapping
        if self.dtype is not None:
            original.unrounded = rounded_numbers(original, self.module, mapping)
            port.unrounded = rounded_numbers(port, self.layer, mapping)
        if filled:
            fill([pair for pair in mapping if pair.paddle in filled], mapping, original, port)
        began = drawn_differently(original, port, mapping) if self.phase != "forward" else []
        stages: list[Stage] = []
        trains = self._recipe is not None
        proof, notes = preconditions(original, port, self.inputs, mapping, trees, self._weights, stages, trains=trains)
        port.lender = original, mapping
        if proof is None:
            ready = [*stages]
            proof = _judged(original, port, mapping, stages, self._recipe, self.steps, self.equal)
            proof = _evaluated(proof, original, port, mapping, ready, self.equal) if proof and original.model.training else proof
        proof.notes += [*notes, *mapping.remarks(updates=self._recipe is not None), *began]
        models, back = (self.layer, self.module), self.phase != "forward"
        proof.ran = self.ran = Ran(original, port, mapping, models, back, self._recipe, self.steps, self._weights, self.in_dtype)
        return proof

    def in_dtype(self, dtype: str) -> Proof:
        """The proof of the same models in another dtype."""
        return replace(self, dtype=dtype, inputs=self.inputs.in_dtype(dtype)).proof()

    def _mapping(self, original: TorchSide, port: PaddleSide, trees: tuple[Tree, Tree], used: Sequence[Used]) -> WeightMapping:
        """Which weights belong together. The models run with the caller's inputs where only its use tells how a weight lies."""
        sides = {"torch": original, "paddle": port}
        return match(
            *(trees[::-1] if self._weights == "paddle->torch" else trees),
            layer_map=self.layer_map,
            rules=self.rules,
            used=used,
            run=lambda framework: sides[framework].run_forward(),
            values_tell=self._weights == "as-is",
            kernels=lambda: opened(OnTorch()),
        )


def _says_more(other: Proof, proof: Proof) -> bool:
    """Whether the first of two proofs with different matches finds mistakes beyond those of the match."""
    if other.verdict is not ProofVerdict.CODE_DIFFERS:
        return False
    if proof.verdict is not ProofVerdict.CODE_DIFFERS:
        return True
    exchanged = [sum(mistake.cause is Cause.WEIGHT for mistake in result.mistakes) for result in (other, proof)]
    return exchanged[0] < exchanged[1] and len(other.mistakes) <= len(proof.mistakes)


def _judged(
    original: TorchSide,
    port: PaddleSide,
    mapping: WeightMapping,
    stages: list[Stage],
    recipe: Recipe | None,
    steps: int,
    equal: Comparator | None = None,
) -> Proof:
    """Run both, and compare the outcomes; ``stages`` go on."""
    if recipe is None:
        notes: list[str] = []
        runs = _runs(original, port, notes)
        apart = original.model.training and (
            agreement.shapes_differ(*runs[:2]) or agreement.outputs_differ(*runs[:2], lambda _: True)
        )
        if apart and (drawn := align_draws(original, port)):
            notes = drawn
            runs = _runs(original, port, notes)
        proof = _compared(original, port, mapping, [*stages], runs, equal)
        proof.notes += notes
        left = [*original.left(runs[0]), *port.left(runs[1])] if proof and original.calls == 1 else []
        again = functools.partial(_judged, original, port, mapping, stages, recipe, steps, equal)
        if left and (second := _of_second_call(proof, again, original, port, listed([*dict.fromkeys(left)]))) is not None:
            return second
        looks = bool(proof) and bool(runs[0].gradients) and original.reads_floats
        ends, of_inputs = ends_before_inputs(original, port, mapping) if looks else ([], "")
        if ends:
            proof.verdict, proof.mistakes = ProofVerdict.CODE_DIFFERS, ends
            proof.stages = [Stage("backward", False, of_inputs) if stage.name == "backward" else stage for stage in proof.stages]
        proof.notes += [of_inputs] if of_inputs else []
        return _unless_opaque(proof, runs)
    trained, drawn = train(original, port, mapping, recipe, steps), list[str]()
    if trained.port.first is not None and (drawn := align_draws(original, port)):
        trained = train(original, port, mapping, recipe, steps)
    remarks = port.remarks
    runs = trained.original[0], trained.port.start, trained.natively
    proof = _compared(original, port, mapping, stages, runs)
    proof.notes += [*drawn, *trained.notes]
    judge(proof, trained, original, port)
    proof.notes += [remark for remark in remarks if remark not in proof.notes]
    return _unless_opaque(proof, runs)


def _evaluated(
    proof: Proof, original: TorchSide, port: PaddleSide, mapping: WeightMapping, stages: list[Stage], equal: Comparator | None
) -> Proof:
    """The proof of models that agree in training mode; or, where they differ in evaluation, the proof of that."""
    try:
        with original.evaluating(), port.evaluating():
            runs = original.run(), port.run()
            differs = Differing.between(mapping, *runs)
            other = _compared(original, port, mapping, stages, (*runs, natively(port)[0]), equal) if differs else proof
    except Exception as error:
        let_pass(error)
        proof.reason = tr("in training mode alone {reason}", reason=proof.reason)
        proof.notes.append(tr("in evaluation mode nothing is known: {error}", error=not_running(error)))
        return proof
    if other.verdict is not ProofVerdict.CODE_DIFFERS:
        return proof
    other.notes.append(tr("both are equal in training mode, and not in evaluation mode, as here"))
    return other


def _of_second_call(proof: Proof, again: Callable[[], Proof], original: TorchSide, port: PaddleSide, left: str) -> Proof | None:
    """The proof of a second call, which ``again`` makes; None if it fails, and the first's then says so.

    ``left``: what the first call leaves for it.
    """
    original.calls = port.calls = 2
    try:
        second = again()
    except Exception as error:
        let_pass(error)
        original.calls = port.calls = 1
        failure = tr("a second call fails, which may read {left}: {error}", left=left, error=not_running(error))
        proof.notes.append(failure)
        if is_of_original(error):
            proof.reason = tr("a first call alone is {reason}", reason=proof.reason)
        else:
            proof.verdict, proof.reason = ProofVerdict.NOT_COMPARABLE, failure
        return None
    texts = tr("a second call differs, which may read {left}"), tr("a first call leaves {left}, and a second is equal, too")
    second.notes.append(with_fields(texts[bool(second)], left=left))
    return second


def _unless_opaque(proof: Proof, runs: Runs) -> Proof:
    """The proof; of a port that seems right, that this is not known where an output cannot be compared."""
    left = agreement.not_compared(*runs[:2]) if proof else ""
    if left:
        proof.verdict, proof.reason = ProofVerdict.NOT_COMPARABLE, left
    return proof


def _fill(module: torch.nn.Module, seed: int) -> None:
    """Normal numbers around each parameter's mean with its spread, where it has one: no two weights may be alike."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and parameter.numel():
                spread = float(parameter.std()) if parameter.numel() > 1 else 0.0
                noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
                parameter.copy_(parameter.mean() + noise * (spread or 0.02))
        for layer in module.modules():
            if isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and layer.padding_idx is not None:
                layer.weight[layer.padding_idx] = 0.0  # Paddle's gives zeros there, whatever the row holds


Runs = tuple[RunOutcome, RunOutcome, RunOutcome | None]  # of the original, the port on Torch's kernels, and natively if it runs so


def _runs(original: TorchSide, port: PaddleSide, notes: list[str]) -> Runs:
    expected = original.run()
    port.order = list(expected.outputs)
    actual = port.run()
    pairs = agreement.output_pairs(expected, actual)
    if pairs and not len(pairs) == len(expected.outputs) == len(actual.outputs):  # a backward begins alike at the common outputs
        original.begins, port.begins = ([path for path, _ in pairs], [path for _, path in pairs])
        expected, actual = original.run(), port.run()
    native, failure = natively(port)
    notes += [failure] if failure else []
    return expected, actual, native


def _compared(
    original: TorchSide, port: PaddleSide, mapping: WeightMapping, stages: list[Stage], runs: Runs, equal: Comparator | None = None
) -> Proof:
    """Compare all bits; if they differ, find out why. ``stages`` go on."""
    if silent := agreement.says_nothing(runs[0]):
        return Proof(ProofVerdict.NOT_COMPARABLE, silent, stages=stages, layers=agreement.layers(mapping, *runs))
    original.stopped = any(gradient.size and not gradient.any() for gradient in runs[0].gradients.values())
    refused = agreement.refused(equal, mapping, *runs[:2])
    accepted = _accepted(mapping, stages, runs) if refused == "" else None
    proof = _of_runs(original, port, mapping, stages, runs) if accepted is None else accepted
    if refused and proof:
        proof.verdict, proof.reason = ProofVerdict.CODE_DIFFERS, tr("{name} differs by the comparator of equal=", name=refused)
    proof.notes += [note for note in (agreement.renamed_outputs(*runs[:2]), agreement.unpaired_outputs(*runs[:2])) if note]
    return proof


def _accepted(mapping: WeightMapping, stages: list[Stage], runs: Runs) -> Proof | None:
    """The proof of a port whose every difference the comparator of the user's own accepts; None where it could not be asked."""
    expected, actual, native = runs
    differing = Differing.between(mapping, expected, actual)
    if not differing or differing.shapes or differing.missing or differing.dtypes:
        return None
    far = None if native is None else agreement.worst(mapping, expected, native)
    stages += stages_of(differing, expected, actual)
    return Proof(
        ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING,
        tr("equal by the comparator of equal= ({first})", first=differing.first),
        stages=stages,
        layers=agreement.layers(mapping, *runs),
        differences={"native": far, "shim": agreement.worst(mapping, expected, actual), "float64": None},
    )


def _of_runs(original: TorchSide, port: PaddleSide, mapping: WeightMapping, stages: list[Stage], runs: Runs) -> Proof:
    expected, actual, native = runs
    layers = agreement.layers(mapping, expected, actual, native)
    differing = Differing.between(mapping, expected, actual)
    differences: dict[str, float | None] = {
        "native": None if native is None else agreement.worst(mapping, expected, native),
        "shim": 0.0,
        "float64": None,
    }
    if not differing:
        stages += stages_of(differing, expected, actual)
        goes_back = native is None or not expected.gradients or bool(native.gradients)
        reason = _bit_for_bit(differences["native"], goes_back, _wrong(port, mapping, runs))
        return Proof(ProofVerdict.CODE_CORRECT, reason, stages=stages, layers=layers, differences=differences)
    differences["shim"], far = agreement.how_far(mapping, expected, actual, original.epsilon**0.5)  # half of the digits
    if not expected.weights:  # no step of a training: nobody looks at the gradients again
        for outcome in filter(None, runs):
            outcome.gradients = {}
    remarks, defined = port.remarks, port.defined
    try:
        with (
            mending_settings(original, port, mapping, (expected, actual)) as otherwise,
            mending_ends(original, port, mapping, differing, (expected, actual)) as ends,
        ):
            located = locate(original, port, mapping, differing, (expected, actual), far=far)
    except NotWider as error:
        reason = tr(
            "{first}; whether that is rounding cannot be told, for the models run in no wider dtype ({error})",
            first=differing.first,
            error=error,
        )
        return Proof(ProofVerdict.NOT_COMPARABLE, reason, stages=stages, layers=layers, differences=differences)
    port.tables, differences[original.wider] = located.tables, located.apart
    proof = Proof(ProofVerdict.CODE_DIFFERS, "", stages=stages, layers=layers, differences=differences)
    proof.notes = [*remarks, *located.notes, *_how_wide(original)]
    ties = tied_differently(mapping)
    evidence = Evidence(located.original, located.port, tied=bool(ties), defined=defined)
    differences_left = diagnosed(located.differences, evidence)
    proof.complete = located.over
    proof.mistakes = [
        *ties,
        *trained_otherwise(original, port, mapping, differing),
        *otherwise,
        *ends,
        *with_graphs_ended(mistakes(differences_left, (original.layers, port.layers)), original, port, mapping, located.parts),
    ]
    plain = differing.shapes or differing.missing or located.unexplained
    at_work, rounded = (
        precision.dtype_or_overflow(original, port, mapping.layers, located.rounded, overflows=far)
        if located.over and not (proof.mistakes or plain)
        else (None, "")
    )
    if at_work is not None:
        proof.mistakes = [at_work]
        plain = tr("both agree in {wider}, but not at the models' dtype ({first})", wider=original.wider, first=differing.first)
    plain = plain or differing.dtypes
    stages += stages_of(
        differing, expected, actual, {*located.parts, *(FORWARD for _ in otherwise), *(BACKWARD for _ in ends)}, plain
    )
    if not proof.mistakes and located.over and not plain:
        proof.verdict = ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
        proof.reason = joined("; ", filter(None, (rounded, _within_rounding(located, differing.first, original.wider))))
        return proof
    _explained(proof, over=located.over, plain=plain, differing=differing.first)
    return proof


def _wrong(port: PaddleSide, mapping: WeightMapping, runs: Runs) -> list[str]:
    """Ops that are wrong natively, where a gradient is missing there, or half of the digits."""
    expected, actual, native = runs
    if native is None:
        return []
    missing = not native.gradients.keys() >= actual.gradients.keys()
    return wrong_natively(port) if missing or agreement.how_far(mapping, expected, native, 2.0**-12)[1] else []


def _bit_for_bit(apart: float | None, goes_back: bool, wrong: Sequence[str]) -> str:
    """The reason of a port with the original's numbers; ``apart``: natively, None if it does not run so.

    ``wrong``: ops that are wrong natively.
    """
    if not goes_back and not wrong:
        return tr("bit for bit on Torch's kernels; natively its backward fails")
    if apart is None:
        return tr("bit for bit on Torch's kernels; natively the port does not run")
    if wrong:
        return tr("bit for bit on Torch's kernels; the gradients are wrong on Paddle's own kernels: {ops}", ops=listed(wrong))
    if not apart:
        return tr("bit for bit on Torch's kernels and on Paddle's own")
    return tr(
        "bit for bit on Torch's kernels; natively {apart:.3g} apart: the kernels differ, not the code",
        apart=apart,
    )


def _how_wide(original: TorchSide) -> list[str]:
    """A note where the runs that tell rounding from mistakes were not plain float64 runs."""
    if not original.not_wider:
        return []
    how = tr("with experts_implementation='eager' in the original") if original.simple else f"in {original.wider}"
    return [tr("runs {how} tell what is rounding, because {not_wider}", how=how, not_wider=original.not_wider)]


def _within_rounding(located: Located, differing: str, wider: str) -> str:
    """The reason of a port that is right though its numbers differ; ``wider``: the dtype of the runs that tell."""
    if located.unsettled:
        return tr(
            "both agree in {wider} but for {unsettled}, which single rounding errors move as far ({apart:.2g}): "
            "at ties, steps and singular points several answers are right ({differing})",
            wider=wider,
            unsettled=located.unsettled,
            apart=located.apart,
            differing=differing,
        )
    return tr(
        "same mathematics: in {wider} both differ by {apart:.2g}, no more than rounding explains; at the models' dtype they round "
        "in another order ({differing})",
        wider=wider,
        apart=located.apart,
        differing=differing,
    )


def _explained(proof: Proof, *, over: bool, plain: str, differing: str) -> None:
    """The reason of a port that is not right; ``plain``: what is wrong though no call differs."""
    proof.reason = plain or differing
    if plain and proof.mistakes:
        proof.notes.append(plain)
    if not over:
        proof.notes.append(tr("what differs after the last mistake could not be told apart: correct these, then prove again"))
