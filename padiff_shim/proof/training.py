"""Whole steps of a training, of the original and of the port: what differs first, at which step, and why."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dispatch.call_site import CallSite, is_library
from ..recording.settings import ALONE, ComparedSettings, SettingDifference
from ..runlog.optimizer_settings import PADDLES_WORDS, Settings, setting_text
from ..text import listed, many, tr
from ..weights.mapping import Mapping as WeightMapping
from . import agreement
from .agreement import Agreement, Noise, RunOutcome
from .bits.updates import behind, port_updates
from .findings import Cause, Mistake, ProgramPlace, ProofVerdict, Stage, StepRow
from .locate import IDENTICAL, LOSS, ROUNDED, Differing, identical
from .programs import ModelSide, NotWider, PaddleSide, TorchSide, failure_of_backward, forward_alone, in_wider
from .trace import WithTables
from .updates import Recipe, StepUpdate, same_in_paddle

if TYPE_CHECKING:
    from .proof import Proof

# ---- Mistakes of a training: optimizers, their settings, learning rates, clipping, gradients that are not cleared.

_SHOWN = 3


class _Apart(NamedTuple):
    """A setting that differs, the first step in which it does, for which parameters, and the lines of both if it is no setting."""

    cause: Cause
    text: str
    step: int
    names: list[str]
    sites: tuple[CallSite | None, CallSite | None] = (None, None)
    write: str = ""  # where it holds for all weights


def faults(
    recipe: Recipe,
    mapping: WeightMapping,
    original: Sequence[StepUpdate],
    port: Sequence[StepUpdate],
    *,
    clipping: bool,
    differs: bool = True,
) -> list[Mistake]:
    """The mistakes that the updates of both runs show, step by step.

    Args:
        recipe: where the optimizers were made.
        mapping: which parameters belong together.
        original, port: the updates of each step of the original and of the port.
        clipping: whether weights differ: else clipping and skipped steps have no effect, and are no mistakes.
        differs: whether anything differs: else copies in float32 of weights of 16 bits have no effect.
    """
    pairs = {(pair.torch, pair.paddle) for pair in mapping}
    known = [(name, other) for name, other in sorted(pairs) if any(name in update.settings for update in original)]
    mistakes = [_mistake(recipe, apart, len(known)) for apart in _settings(known, original, port)]
    steps = [_first(rule, original, port) for rule in (_left, *((_masters,) if differs else ()))]
    if clipping:
        steps += [_skipped(original, port), _first(_unscaled, original, port) or _first(_clip, original, port)]
    return [*mistakes, *(_mistake(recipe, apart, 0) for apart in steps if apart is not None)]


_Rule = Callable[[StepUpdate, StepUpdate], "tuple[Cause, str] | None"]  # of a step of the original and of the port


def _first(rule: _Rule, original: Sequence[StepUpdate], port: Sequence[StepUpdate]) -> _Apart | None:
    """The first step of which a rule says something."""
    pairs = enumerate(zip(original, port))
    return next((_Apart(*apart, step, []) for step, updates in pairs if (apart := rule(*updates)) is not None), None)


def _settings(pairs: Sequence[tuple[str, str]], original: Sequence[StepUpdate], port: Sequence[StepUpdate]) -> list[_Apart]:
    compared, names = ComparedSettings(), {other: name for name, other in pairs}
    for step, (expected, actual) in enumerate(zip(original, port)):
        wanted = {other: expected.settings[name] for name, other in pairs if name in expected.settings}
        compared.add(step, 0, wanted, {name: actual.settings[name] for name in wanted if name in actual.settings})
    return [_of_setting(known, original[known.step].settings[names[known.names[0]]]) for known in compared.conclude()]


def _of_setting(known: SettingDifference, original: Settings) -> _Apart:
    """A setting of the port's, b, that is not the original's."""
    word, expected, actual = known.word, known.a, known.b
    own, cause, same = PADDLES_WORDS.get(word, word), Cause.RATE if word == "lr" else Cause.SETTING, same_in_paddle(original)
    there = setting_text(expected) if own == word else f"{word}={setting_text(expected)}"
    text = tr("{name}={own} against {other}", name=own, own=setting_text(actual), other=there)
    write = known.write(("torch", "paddle"))
    if word == ALONE:
        text = tr("is not in the port's optimizer")
    elif word == "optimizer":
        text, cause = tr("{port} in place of {original}", port=actual, original=expected), Cause.OPTIMIZER
    elif word == "decoupled":
        ways = [tr("apart from the gradient") if apart else tr("added to the gradient") for apart in (actual, expected)]
        text = tr("weight decay is {here}, in the original {there}", here=ways[0], there=ways[1])
    elif known.shift:
        steps, early = many(abs(known.shift), "step"), known.shift > 0
        text = tr(
            "{text}: the schedule is {steps} early" if early else "{text}: the schedule is {steps} late", text=text, steps=steps
        )
    if word in ("optimizer", "decoupled"):
        write = "" if same is None else f"paddle.optimizer.{same.name}"
    return _Apart(cause, text, known.step, known.names, write=write)


def _skipped(original_steps: Sequence[StepUpdate], port_steps: Sequence[StepUpdate]) -> _Apart | None:
    """The first step that one side alone makes, or makes more often."""
    for step, (original, port) in enumerate(zip(original_steps, port_steps)):
        if original.steps == port.steps or None in (original.steps, port.steps):
            continue
        sites = original.site, port.site
        if original.steps and port.steps:
            text = tr(
                "the port's optimizer makes {port} steps for a backward, the original's {original}",
                port=port.steps,
                original=original.steps,
            )
            return _Apart(Cause.SKIPPED, text, step, [], sites)
        made, who, skips = (
            (port, tr("the port"), tr("the original")) if port.steps else (original, tr("the original"), tr("the port"))
        )
        why = tr(": gradients hold inf or NaN there ({infinite})", infinite=listed(made.infinite, _SHOWN)) if made.infinite else ""
        write = tr("; skip such steps, as paddle.amp.GradScaler.step does") if made.infinite and port.steps else ""
        text = tr("{who} makes step {step}, {skips} does not{why}{write}", who=who, step=step, skips=skips, why=why, write=write)
        return _Apart(Cause.SKIPPED, text, 0, [], sites)
    return None


def _left(original: StepUpdate, port: StepUpdate) -> tuple[Cause, str] | None:
    """Gradients that one side alone keeps."""
    port_left, original_left = _forgotten(port), _forgotten(original)
    if bool(port_left) is bool(original_left):
        return None
    who, names = tr("the port's") if port_left else tr("the original's"), listed(port_left or original_left, _SHOWN)
    return Cause.CLEARED, tr("{who} gradients are kept after the step, the other's are cleared ({left})", who=who, left=names)


def _forgotten(update: StepUpdate) -> list[str]:
    """Gradients that stay, of parameters that are in an optimizer: it cannot clear others."""
    return [name for name in update.left if name in update.settings or not update.settings]


def _clip(original: StepUpdate, port: StepUpdate) -> tuple[Cause, str] | None:
    """Gradients that are clipped otherwise."""
    expected, actual = original.clip, port.clip
    if (expected is None and actual is None) or None in (original.steps, port.steps):
        return None
    if expected is None or actual is None:
        clip, who = (actual, tr("in the original they are not")) if actual else (expected, tr("in the port they are not"))
        assert clip is not None
        write = f" ({expected.write})" if expected else ""
        words = {"by": clip.by, "shown": clip.shown, "who": who, "write": write}
        return Cause.CLIPPING, tr("gradients are clipped by {by} to {shown}, {who}{write}", **words)
    near = max(expected.within, actual.within) * abs(expected.limit)
    if expected.by == actual.by and abs(expected.limit - actual.limit) <= near:
        return None
    return Cause.CLIPPING, tr(
        "gradients are clipped by {by} to {limit} against {expected_by} to {expected_limit} ({write})",
        by=actual.by,
        limit=actual.shown,
        expected_by=expected.by,
        expected_limit=expected.shown,
        write=expected.write,
    )


def _unscaled(original: StepUpdate, port: StepUpdate) -> tuple[Cause, str] | None:
    """Gradients from which a scaler takes the loss's scale too late, never, or in another order."""
    expected, actual = original.clip, port.clip
    if port.scale == 1.0 or None in (original.steps, port.steps):
        return None
    scale = setting_text(port.scale)
    if port.moved and not original.moved:
        return Cause.GRADIENT_SCALE, tr("the scaler's update() comes before the step: write it behind scaler.step(optimizer)")
    if actual is None and expected is not None:
        return Cause.GRADIENT_SCALE, tr("gradients keep the loss's scale, {scale}: write scaler.step(optimizer)", scale=scale)
    if actual and expected and abs(actual.limit * port.scale / expected.limit - 1) < max(actual.within, expected.within):
        return Cause.CLIPPING, tr(
            "gradients are clipped before they are unscaled: {limit} limits what is {scale} times as large; write "
            "scaler.unscale_(optimizer) before it",
            limit=expected.shown,
            scale=scale,
        )
    return None


def _added_to_norms(original: StepUpdate, port: StepUpdate) -> tuple[Cause, str] | None:
    """Gradients that both clip by their global norm to one limit, which one alone divides by the norm and a small number.

    ``original``, ``port``: in a wider dtype; there the small number shows.
    """
    expected, actual = original.clip, port.clip
    if expected is None or actual is None or None in (expected.added, actual.added) or expected.factor == actual.factor:
        return None
    words = {"factor": actual.factor, "expected": expected.factor}
    text = tr("clipped gradients are multiplied by {factor}, in the original by {expected} (write {expected})", **words)
    return Cause.CLIPPING, text


def _masters(original: StepUpdate, port: StepUpdate) -> tuple[Cause, str] | None:
    """Weights of 16 bits that one side alone updates by copies in float32."""
    if None in (original.masters, port.masters) or original.masters is port.masters:
        return None
    return Cause.SETTING, (
        tr("weights of 16 bits are updated as they are, in the original by copies in float32: write multi_precision=True")
        if original.masters
        else tr("weights of 16 bits are updated by copies in float32, in the original as they are: write multi_precision=False")
    )


def _mistake(recipe: Recipe, apart: _Apart, all_of_them: int) -> Mistake:
    text, everywhere = apart.text, len(apart.names) == all_of_them
    if apart.names and not everywhere:
        weights, names = many(all_of_them, "weight"), listed(apart.names, _SHOWN)
        text = tr("{text} for {count} of {weights} ({names})", text=text, count=len(apart.names), weights=weights, names=names)
    write = apart.write if everywhere else ""
    text = tr("{text} (write {write})", text=text, write=write) if write else text
    text = tr("{text} from step {step} on", text=text, step=apart.step) if apart.step else text
    original, port = (
        place_of(function) if site is None or is_library(site.file) else ProgramPlace.at(site, "", tr("a step of the optimizer"))
        for function, site in zip(recipe.places, apart.sites)
    )
    return Mistake(apart.cause, text, original, port, ("",), write=write)


def place_of(function: Any) -> ProgramPlace | None:
    """The place of a function of the caller."""
    try:
        code = inspect.unwrap(getattr(function, "func", function)).__code__
    except AttributeError:
        return None
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return ProgramPlace("", code.co_filename, code.co_firstlineno, line, tr("makes the optimizer"))


# ---- The port's optimizer by itself: with the original's gradients at each step.


def optimizer_replay(
    port: PaddleSide, mapping: WeightMapping, recipe: Recipe, original: list[RunOutcome]
) -> tuple[int, str] | None:
    """The first step behind which weights differ, and how; None where none does."""
    made = port_updates(port, mapping, recipe, original).run().outputs
    for step, outcome in enumerate(original):
        pairs = [(pair.paddle or pair.torch, pair.torch) for pair in mapping]
        text = agreement.first_difference([(name, outcome.weights.get(key), made.get(behind(step, key))) for name, key in pairs])
        if text:
            return step, text
    return None


WEIGHTS = "weights"


@dataclass
class PortTraining:
    """A run of the port compared with one of the original, step by step, and the first difference."""

    mapping: WeightMapping
    original: list[RunOutcome]
    judged: bool = True  # False: only the distance is kept
    start: RunOutcome = field(default_factory=RunOutcome)  # the first step
    end: RunOutcome = field(default_factory=RunOutcome)  # the last
    updates: list[StepUpdate] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    identical: list[bool] = field(default_factory=list)
    first: tuple[int, str, str] | None = None  # (step, what, in words)

    def __call__(self, outcome: RunOutcome) -> None:
        """The next step of the port."""
        step = len(self.apart)
        expected = self.original[step]
        if step == 0:
            self.start = outcome
        self.end = outcome
        assert outcome.update is not None
        self.updates.append(outcome.update)
        self.losses.append(_loss(outcome))
        weights = agreement.weights(self.mapping, expected, outcome)
        self.apart.append(max(agreement.worst(self.mapping, expected, outcome), agreement.largest_of_rows(weights)))
        if not self.judged:
            return
        differing = Differing.between(self.mapping, expected, outcome)
        updated = agreement.first_difference(weights)
        self.identical.append(not differing and not updated)
        if self.first is None and (differing or updated):
            self.first = (step, *_what(differing, updated))


def _what(differing: Differing, updated: str) -> tuple[str, str]:
    """The first part that differs in a step, and how."""
    parts = {
        "forward": differing.shapes or differing.forward,
        LOSS: differing.loss,
        "backward": differing.missing or differing.backward,
        "statistics": differing.statistics,
        WEIGHTS: updated,
    }
    return next((part, text) for part, text in parts.items() if text)


@dataclass
class TrainingRuns:
    """The trainings of both, and of the port natively."""

    recipe: Recipe
    original: list[RunOutcome]
    port: PortTraining
    native: PortTraining
    wide: tuple[list[StepUpdate], list[StepUpdate]] = field(default_factory=lambda: ([], []))  # in a wider dtype, as far as known
    natively: RunOutcome | None = None  # the first step natively, or its forward alone; None where that fails
    notes: list[str] = field(default_factory=list)

    def rows(self) -> list[StepRow]:
        """One for each step."""
        rows = []
        for step, expected in enumerate(self.original):
            native, loss = None, None
            if step < len(self.native.apart):
                native, loss = self.native.apart[step], self.native.losses[step]
            port = self.port
            rows.append(StepRow(step, _loss(expected), port.identical[step], port.apart[step], native, port.losses[step], loss))
        return rows


def _loss(outcome: RunOutcome) -> float | None:
    """The loss of a step; None if the model has none."""
    loss = outcome.outputs.get(LOSS)
    return float(loss.reshape(-1)[0]) if loss is not None and loss.size == 1 else None


def train(original: TorchSide, port: PaddleSide, mapping: WeightMapping, recipe: Recipe, steps: int) -> TrainingRuns:
    """Train the original, the port on Torch's kernels, and the port natively, as far as it goes there."""
    outcomes: list[RunOutcome] = []
    original.train(recipe, steps, outcomes.append)
    native, followed = PortTraining(mapping, outcomes, judged=False), PortTraining(mapping, outcomes)
    port.train(recipe, steps, followed)
    trained = TrainingRuns(recipe, outcomes, followed, native)
    port.shim = False
    try:
        port.train(recipe, steps, native)
    except Exception as error:
        step = len(native.apart)
        trained.notes.append(
            tr(
                "the port's training fails at step {step} on Paddle's own kernels, not on Torch's ({error}): natively {what}",
                step=step,
                error=failure_of_backward(error, lambda: port.train(recipe, step + 1, lambda _: None), ModelSide._pass.__code__),
                what=tr("it is compared up to there") if step else tr("outputs alone are compared, if any"),
            )
        )
    finally:
        port.shim = True
    trained.natively = native.start if native.apart else forward_alone(port)[0]
    return trained


def judge(proof: Proof, trained: TrainingRuns, original: TorchSide, port: PaddleSide) -> None:
    """Add what the training shows to a proof of the first step's forward and backward."""
    proof.training = trained.rows()
    proof.trained = trained.original[-1].states, trained.port.end.states, trained.native.end.states
    if proof.verdict is ProofVerdict.NOT_COMPARABLE:
        return
    seen: list[StepUpdate] = [outcome.update for outcome in trained.original if outcome.update is not None]
    broken = next((stage.name for stage in proof.stages if stage.right is False), "")
    first = trained.port.first
    mapping = trained.port.mapping
    if broken:
        apart = optimizer_replay(port, mapping, trained.recipe, trained.original)
        further = faults(trained.recipe, mapping, seen, trained.port.updates, clipping=False)
        proof.stages.append(_alone(apart, further, len(seen)))
        proof.stages.append(Stage("training", None, tr("not checked, the {behind} already differs", behind=tr(broken))))
        proof.mistakes += further
        return
    in_weights = first is not None and first[1] == WEIGHTS
    mistakes = faults(trained.recipe, mapping, seen, trained.port.updates, clipping=in_weights, differs=first is not None)
    if first is None and not mistakes:
        weights = identical(many(len(trained.original[0].weights), "weight"))
        proof.stages += [Stage("optimizer step", True, weights), Stage("training", True, identical(many(len(seen), "step")))]
        proof.reason = tr("{steps} {reason}", steps=many(len(seen), "training step"), reason=proof.reason)
        return
    try:
        rest = "" if first is None or mistakes else _in_wider(proof, trained, original, port)
    except NotWider as error:
        assert first is not None
        step, what, text = first
        proof.verdict = ProofVerdict.NOT_COMPARABLE
        why = tr("whether that is rounding cannot be told ({error})", error=error)
        proof.reason = tr("{what} at step {step}: {text}; {why}", what=what, step=step, text=text, why=why)
        proof.stages.append(Stage("training", None, proof.reason))
        return
    if rest:  # both round differently before the first step: a different clip counts if it has an effect
        mistakes = faults(trained.recipe, mapping, seen, trained.port.updates, clipping=True)
        added = None if mistakes else _first(_added_to_norms, *trained.wide)
        mistakes += [] if added is None else [_mistake(trained.recipe, added, 0)]
    _differing(proof, trained, mistakes, rest, original.wider)


def _alone(apart: tuple[int, str] | None, mistakes: Sequence[Mistake], steps: int) -> Stage:
    """The stage of the optimizer, from the original's weights and gradients."""
    name = "optimizer step"
    if mistakes:
        return Stage(name, False, mistakes[0].sentence())
    if apart is None:
        return Stage(name, True, tr("{steps} from the original's gradients, {identical}", steps=steps, identical=IDENTICAL))
    step, text = apart
    return Stage(
        name,
        None,
        tr("from the original's gradients at step {step}: {text}; prove again once the rest is correct", step=step, text=text),
    )


def _differing(proof: Proof, trained: TrainingRuns, mistakes: list[Mistake], rest: str, wider: str) -> None:
    """Stages and verdict where bits differ, or settings do; ``rest``: what rounding does not explain in the wider dtype."""
    first = trained.port.first
    where = (
        tr("{what} at step {step}: {text}", what=first[1], step=first[0], text=first[2])
        if first
        else tr("no effect in {steps}", steps=many(len(trained.original), "step"))
    )
    # An updated weight may differ further than rounding explains, though outputs and gradients agree.
    names = [pair.paddle or pair.torch for pair in trained.port.mapping if pair.name("torch") in trained.original[0].weights]
    in_step = first is not None and (first[1] == WEIGHTS or any(f": {name} differs" in rest for name in names))
    step_wrong = bool(mistakes and mistakes[0].cause is not Cause.CLEARED) or bool(rest and in_step)
    rounded = first is not None and (first[1] == WEIGHTS or first[0] == 0)
    shown = (rest or where) if step_wrong else where
    text = tr("{mistake} ({where})", mistake=mistakes[0].sentence(), where=shown) if mistakes else ""
    if step_wrong:
        hidden = tr("not checked, the {behind} already differs", behind=tr("optimizer step"))
        proof.stages += [Stage("optimizer step", False, text or where), Stage("training", None, hidden)]
    else:
        proof.stages.append(Stage("optimizer step", True, ROUNDED if rounded else IDENTICAL))
        proof.stages.append(Stage("training", not (mistakes or rest), text or rest or ROUNDED))
    if not mistakes and not rest:
        if proof.verdict is ProofVerdict.CODE_CORRECT:
            proof.reason = tr(
                "the first step {reason}; the training agrees in {wider} up to rounding ({where})",
                reason=proof.reason,
                wider=wider,
                where=where,
            )
        proof.verdict = ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
        return
    proof.verdict, proof.reason = ProofVerdict.CODE_DIFFERS, rest or where
    proof.mistakes += mistakes
    if first is not None and mistakes:
        proof.complete = False
        proof.notes.append(tr("this hides what else may differ in the training: correct it, then prove again"))


def _in_wider(proof: Proof, trained: TrainingRuns, original: TorchSide, port: PaddleSide) -> str:
    """What differs further between the trainings in a wider dtype than rounding errors travel; "" if nothing does.

    Raises:
        NotWider: one of them does not run so.
    """
    steps, mapping = len(trained.original), trained.port.mapping

    def trainings() -> tuple[list[RunOutcome], list[RunOutcome], list[RunOutcome]]:
        outcomes: tuple[list[RunOutcome], list[RunOutcome], list[RunOutcome]] = ([], [], [])
        original.train(trained.recipe, steps, outcomes[0].append, wide=True)
        original.train(trained.recipe, steps, outcomes[1].append, wide=True, within=Noise(original.wider))
        port.train(trained.recipe, steps, outcomes[2].append, wide=True, within=WithTables(port.tables))
        return outcomes

    originals, touched, ports = in_wider(original, port, trainings)
    for updates, outcomes in zip(trained.wide, (originals, ports)):
        updates += [outcome.update for outcome in outcomes if outcome.update is not None]
    proof.differences[original.wider] = max(
        agreement.worst(mapping, expected, actual) for expected, actual in zip(originals, ports)
    )
    for step, (expected, actual, moved) in enumerate(zip(originals, ports, touched)):
        if breach := Agreement(mapping, expected, moved, original.wider).breach(actual):
            return tr("step {step}: {breach}", step=step, breach=breach)
    return ""
