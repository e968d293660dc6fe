"""Whole steps of a training, of the original and of the port: what differs first, at which step, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..weights.mapping import Mapping
from . import outcomes
from .agreement import Agreement
from .alone import weights_alone
from .causes import Cause
from .faults import faults
from .findings import Mistake, ProofVerdict, Stage, StepRow
from .natively import forward_alone, told
from .noise import Noise
from .outcome import Outcome
from .paddle_side import PaddleSide
from .proof import Proof
from .sides import NotWider
from .stages import IDENTICAL, LOSS, ROUNDED, Differing
from .torch_side import TorchSide
from .updates import Recipe, Update
from .widening import in_wider

WEIGHTS = "weights"


@dataclass
class Followed:
    """A run of the port beside one of the original: what differs at each step, and the first thing that does."""

    mapping: Mapping
    original: list[Outcome]
    judged: bool = True  # else only how far they are apart is kept
    start: Outcome = field(default_factory=Outcome)  # the first step
    updates: list[Update] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)
    identical: list[bool] = field(default_factory=list)
    first: tuple[int, str, str] | None = None  # (step, what, in words)

    def __call__(self, outcome: Outcome) -> None:
        """The next step of the port."""
        step = len(self.apart)
        theirs = self.original[step]
        if step == 0:
            self.start = outcome
        assert outcome.update is not None
        self.updates.append(outcome.update)
        weights = outcomes.weights(self.mapping, theirs, outcome)
        self.apart.append(max(outcomes.worst(self.mapping, theirs, outcome), outcomes.widest(weights)))
        if not self.judged:
            return
        differing = Differing.between(self.mapping, theirs, outcome)
        updated = outcomes.differ("", weights)
        self.identical.append(not differing and not updated)
        if self.first is None and (differing or updated):
            self.first = (step, *_what(differing, updated))


def _what(differing: Differing, updated: str) -> tuple[str, str]:
    """The first thing that differs in a step, and how."""
    parts = {
        "forward": differing.shapes or differing.forward,
        LOSS: differing.loss,
        "backward": differing.missing or differing.backward,
        "statistics": differing.statistics,
        WEIGHTS: updated,
    }
    return next((part, text) for part, text in parts.items() if text)


@dataclass
class Trained:
    """The trainings of both, and of the port natively."""

    recipe: Recipe
    original: list[Outcome]
    port: Followed
    native: Followed
    natively: Outcome | None = None  # what the first step gave natively, or its forward alone; None where that fails
    notes: list[str] = field(default_factory=list)

    def rows(self) -> list[StepRow]:
        """One for each step."""
        found = []
        for step, theirs in enumerate(self.original):
            loss = theirs.outputs.get(LOSS)
            shown = float(loss) if loss is not None and loss.size == 1 else None
            native = self.native.apart[step] if step < len(self.native.apart) else None
            found.append(StepRow(step + 1, shown, self.port.identical[step], self.port.apart[step], native))
        return found


def train(theirs: TorchSide, ours: PaddleSide, mapping: Mapping, recipe: Recipe, steps: int) -> Trained:
    """Train the original, the port on Torch's kernels, and the port natively, as far as it goes there."""
    original: list[Outcome] = []
    theirs.train(recipe, steps, original.append)
    native, port = Followed(mapping, original, judged=False), Followed(mapping, original)
    ours.train(recipe, steps, port)
    trained = Trained(recipe, original, port, native)
    ours.shim = False
    try:
        ours.train(recipe, steps, native)
    except Exception as error:
        step = len(native.apart) + 1
        trained.notes.append(
            f"the port's training fails at step {step} on Paddle's own kernels, not on Torch's ({told(error)}): natively "
            + ("it is compared up to there" if step > 1 else "outputs alone are compared, if any")
        )
    finally:
        ours.shim = True
    trained.natively = native.start if native.apart else forward_alone(ours)[0]
    return trained


def judge(proof: Proof, trained: Trained, theirs: TorchSide, ours: PaddleSide) -> None:
    """Add to a proof of the first step's forward and backward what the training shows."""
    proof.training = trained.rows()
    if proof.verdict is ProofVerdict.NOT_COMPARABLE:
        return
    seen: list[Update] = [one.update for one in trained.original if one.update is not None]
    broken = next((stage.name for stage in proof.stages if stage.right is False), "")
    first = trained.port.first
    mapping = trained.port.mapping
    if broken:
        apart = weights_alone(ours, mapping, trained.recipe, trained.original)
        found = faults(trained.recipe, mapping, seen, trained.port.updates, clipping=False)
        proof.stages.append(_alone(apart, found, len(seen)))
        proof.stages.append(Stage("training", None, f"behind the {broken}"))
        proof.mistakes += found
        return
    in_weights = first is not None and first[1] == WEIGHTS
    mistakes = faults(trained.recipe, mapping, seen, trained.port.updates, clipping=in_weights, differs=first is not None)
    if first is None and not mistakes:
        _identical(proof, trained)
        return
    try:
        rest = "" if first is None or mistakes else _in_wider(proof, trained, theirs, ours)
    except NotWider as error:
        _not_told(proof, trained, error)
        return
    if rest:  # both round otherwise before the first step: whether it clips otherwise, too, is asked where that has an effect
        mistakes = faults(trained.recipe, mapping, seen, trained.port.updates, clipping=True)
    _differing(proof, trained, mistakes, rest, theirs.wider)


def _not_told(proof: Proof, trained: Trained, error: NotWider) -> None:
    """A training that differs in bits, and that runs in no wider dtype."""
    assert trained.port.first is not None
    step, what, text = trained.port.first
    proof.verdict = ProofVerdict.NOT_COMPARABLE
    proof.reason = f"{what} at step {step + 1}: {text}; whether that is rounding cannot be told ({error})"
    proof.stages.append(Stage("training", None, proof.reason))


def _identical(proof: Proof, trained: Trained) -> None:
    steps, count = len(trained.original), len(trained.original[0].weights)
    proof.stages.append(Stage("optimizer step", True, f"{count} weights {IDENTICAL}"))
    proof.stages.append(Stage("training", True, f"{steps} step{'s' if steps > 1 else ''} {IDENTICAL}"))
    proof.reason = f"{steps} training step{'s' if steps > 1 else ''} {proof.reason}"


def _alone(apart: Sequence[tuple[int, str]], found: Sequence[Mistake], steps: int) -> Stage:
    """The stage of the optimizer, from the original's weights and gradients."""
    name = "optimizer step"
    if found:
        return Stage(name, False, str(found[0]))
    if not apart:
        return Stage(name, True, f"{steps} from the original's gradients, {IDENTICAL}")
    step, text = apart[0]
    return Stage(name, None, f"from the original's gradients at step {step + 1}: {text}; look again when the rest is mended")


def _differing(proof: Proof, trained: Trained, found: list[Mistake], rest: str, wider: str) -> None:
    """Stages and verdict where bits differ, or settings do; ``rest``: what the wider dtype cannot explain by rounding."""
    first = trained.port.first
    where = f"{first[1]} at step {first[0] + 1}: {first[2]}" if first else f"no effect in {len(trained.original)} steps"
    in_step = first is not None and (first[1] == WEIGHTS or _of_weights(rest, trained))
    step_wrong = bool(found and found[0].cause is not Cause.CLEARED) or bool(rest and in_step)
    rounded = first is not None and (first[1] == WEIGHTS or first[0] == 0)
    if step_wrong:
        proof.stages.append(Stage("optimizer step", False, f"{found[0]} ({rest or where})" if found else where))
        proof.stages.append(Stage("training", None, "behind the optimizer step"))
    else:
        proof.stages.append(Stage("optimizer step", True, ROUNDED if rounded else IDENTICAL))
        proof.stages.append(Stage("training", not (found or rest), f"{found[0]} ({where})" if found else rest or ROUNDED))
    if not found and not rest:
        if proof.verdict is ProofVerdict.CODE_CORRECT:
            proof.reason = f"the first step {proof.reason}; the training agrees in {wider} up to rounding ({where})"
        proof.verdict = ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
        return
    proof.verdict, proof.reason = ProofVerdict.CODE_DIFFERS, rest or where
    proof.mistakes += found
    if first is not None and found:
        proof.complete = False
        proof.notes.append("what else may differ in the training is hidden behind this: mend it, and prove again")


def _of_weights(rest: str, trained: Trained) -> bool:
    """Whether what differs further than rounding explains is an updated weight, where outputs and gradients agree."""
    names = [pair.paddle or pair.torch for pair in trained.port.mapping if pair.name("torch") in trained.original[0].weights]
    return any(f": {name} differs" in rest for name in names)


def _in_wider(proof: Proof, trained: Trained, theirs: TorchSide, ours: PaddleSide) -> str:
    """What differs further between the trainings in a wider dtype than rounding errors travel; "" if nothing does.

    Raises:
        NotWider: one of them does not run so.
    """
    steps, mapping = len(trained.original), trained.port.mapping

    def trainings() -> tuple[list[Outcome], list[Outcome], list[Outcome]]:
        found: tuple[list[Outcome], list[Outcome], list[Outcome]] = ([], [], [])
        noise = Noise(torch.Generator().manual_seed(0), theirs.wider)
        theirs.train(trained.recipe, steps, found[0].append, wide=True)
        theirs.train(trained.recipe, steps, found[1].append, wide=True, within=noise)
        ours.train(trained.recipe, steps, found[2].append, wide=True)
        return found

    original, touched, port = in_wider(theirs, ours, trainings)
    proof.differences[theirs.wider] = max(outcomes.worst(mapping, one, other) for one, other in zip(original, port))
    for step, (one, other, moved) in enumerate(zip(original, port, touched), 1):
        if breach := Agreement(mapping, one, moved, theirs.wider).breach(other):
            return f"step {step}: {breach}"
    return ""
