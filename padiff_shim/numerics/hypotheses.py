"""Named ways in which kernels differ, and the search for the one that explains an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from ..interrupts import let_pass
from ..language import logged
from ..verdicts import Judgement, Side, Verdict
from . import trial
from .difference import top_of
from .measured import Formula
from .precision import FORMATS, KINDS, Array, norm, represented, rms, rounded
from .quantity import Evaluation, Hypothesis, Quantity, Staged, in_turn
from .special_cases import classes
from .trial import Errors, Trial, classify, errors, explained_whole, sound

# ---- Whole ops that ran in a narrower format than that of their operands and result.

NARROWER = {
    torch.float64: ("float32", "tf32", "fp16", "bf16"),  # each one's numbers are among those before it, but for the range
    torch.float32: ("tf32", "fp16", "bf16"),
    torch.float16: ("bf16",),
    torch.bfloat16: (),
}
INSIDE = 0.999  # this part of the outputs has to fit
MANY = 8  # different outputs that are all numbers of a narrower format


def narrow_format(sample: Trial, errors: Errors) -> str | None:
    """``"bf16-output"`` or ``"bf16-arithmetic"``, say.

    Every sampled result is a number of a narrower format, and right for arithmetic in it: the whole op ran in that format.

    That says something only of outputs whose own rounding is much finer than the format: what cancels has few digits as it is.
    """
    if errors.rho_max < 4:
        return None
    finite = np.isfinite(errors.y) & (errors.y != 0)
    y, unit = errors.y[finite], sample.unit[finite]
    if np.unique(y).size < MANY:
        return None
    own = KINDS[sample.quantity.dtype].format
    ideal = rounded(sample.value, "float32" if own.bits == 24 else "float64")
    for form in reversed(NARROWER[sample.quantity.dtype]):
        if not represented(y, form) or represented(ideal[np.isfinite(ideal)], form):
            continue
        coarse = FORMATS[form].unit
        if np.unique(y[np.abs(y) * coarse > 4 * unit]).size < MANY:
            continue
        error = np.nan_to_num(np.abs(errors.y - sample.value))
        if float(np.mean(error <= sample.oracle.bound(sample.factors[0], coarse, coarse).reshape(-1))) < INSIDE:
            continue
        only = bool((error <= sample.oracle.bound(sample.factors[0], None, coarse).reshape(-1)).all())
        return f"{form}-output" if only else f"{form}-arithmetic"
    return None


# ---- Named ways in which kernels differ, and the search for the one that explains an error.
#
# The search is a matched filter: it compares the kernel's error w, in units of the bound, with the displacement d that a hypothesis
# predicts. A name needs two things. The rest after subtracting d must fit the rounding bound, at the oracle's value and at the
# hypothesis' own; and enough outputs must agree to rule out an accident (correlation, or the size of an error alone, would name
# causes that are not there). Rounding gets no name: functions of single elements inside their bound, single sums inside that of any
# order.

EPSILONS = (0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-3)
AMPLITUDE, STRENGTH = 0.15, 8.0
CHANCE = math.log(1e4)
LUCK = 0.25  # rounding units: an agreement closer than rounding allows is no stronger evidence
SCREEN, FEWEST = 8192, 16  # operand values, and samples, by which a large sample first screens its hypotheses


def precision(dtype: torch.dtype, inputs: Iterable[str], parameters: Iterable[str] = ()) -> list[Hypothesis]:
    """Operands, or the result, rounded to a narrower format. ``parameters``: operands that may keep their precision (a bias)."""
    names, every = tuple(inputs), (*inputs, *parameters)

    def operands(form: str, truncate: bool = False) -> Callable[[Staged], Staged]:
        return lambda s: s.each(lambda a: rounded(a, form, truncate=truncate), _there(s, names))

    def with_parameters(form: str) -> Callable[[Staged], Staged | None]:
        def change(s: Staged) -> Staged | None:
            chosen = _there(s, every)
            return s.each(lambda a: rounded(a, form), chosen) if len(chosen) > len(_there(s, names)) else None

        return change

    def result(form: str) -> Callable[[Staged], Staged]:
        return lambda s: replace(s, post=lambda y: rounded(y, form))

    named = []
    for form in NARROWER[dtype]:
        named.append(Hypothesis(f"{form}-inputs", True, operands(form)))
        if parameters:
            named.append(Hypothesis(f"{form}-inputs-and-parameters", True, with_parameters(form)))
        if form == "tf32":
            named.append(Hypothesis("tf32-truncated-inputs", True, operands(form, truncate=True)))
        else:
            named.append(Hypothesis(f"{form}-output", True, result(form)))
    return named


def _there(staged: Staged, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in staged.arrays]


def numbers(dtype: torch.dtype, *names: str) -> list[Hypothesis]:
    """Numbers of the call rounded to float32 on their way to a float64 kernel (or further, to a 16-bit one): each, and all at once.

    Two displacements of one size cannot be found one after the other, for each is noise beside the other.
    """
    if dtype not in (torch.float64, torch.float32):
        return []
    forms = ("float32",) if dtype == torch.float64 else ("fp16", "bf16")
    chosen = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    roundings = [(some, form, "+".join(f"{name}->{form}" for name in some)) for some in chosen for form in forms]
    return [Hypothesis(name, True, _rounded_numbers(some, form)) for some, form, name in roundings]


def _rounded_numbers(names: tuple[str, ...], form: str) -> Callable[[Staged], Staged | None]:
    def change(staged: Staged) -> Staged | None:
        values = [staged.attrs.get(name) for name in names]
        floats = [float(value) for value in values if isinstance(value, (int, float))]
        if len(floats) < len(names):
            return None
        return staged.change(**{n: float(rounded(np.asarray(v), form)) for n, v in zip(names, floats)})

    return change


def setting(name: str, **attrs: object) -> Hypothesis:
    """Other numbers in the same formula."""
    return Hypothesis(name, False, lambda s: s.change(**attrs))


def missing(operand: str, name: str) -> Hypothesis:
    """An optional operand that was not used."""
    return Hypothesis(name, False, lambda s: s.without(operand) if operand in s.arrays else None)


def dropped(names: Iterable[str], neutral: float = 0.0) -> list[Hypothesis]:
    """The first or the last element of what is summed over left out (masks and loops that are off by one)."""
    chosen = tuple(names)

    def drop(place: int) -> Callable[[Staged], Staged]:
        def blank(array: Array) -> Array:
            blanked = array.copy().reshape(len(array), -1)
            blanked[:, place] = neutral
            return blanked.reshape(array.shape)

        return lambda s: s.each(blank, _there(s, chosen)[:1])

    return [Hypothesis("first-element-dropped", False, drop(0)), Hypothesis("last-element-dropped", False, drop(-1))]


def epsilons(dtype: torch.dtype, own: float) -> list[Hypothesis]:
    """Another epsilon, epsilon outside the square root, epsilon through float32."""
    others = [setting(f"epsilon={value:g}", epsilon=value) for value in EPSILONS if value != own]
    return [*numbers(dtype, "epsilon"), *others, setting("epsilon-outside-sqrt", outside=True)]


class Explained(NamedTuple):
    """What explains an error: the name, whether it is one of precision, and others that fit as well.

    ``value``, ``evaluation``: what the kernel would have computed on the sample but for its rounding, and the bound of that; None
    where it is not known. ``change``: the same for any sample; ``full``: for the whole tensor. ``exact``: the very order of
    summation.
    """

    name: str
    precision: bool
    alternatives: tuple[str, ...]
    value: Array | None = None
    evaluation: Evaluation | None = None
    change: Callable[[Staged], Staged | None] | None = None
    exact: bool = False
    full: Callable[[], torch.Tensor | None] | None = None


class _Fit(NamedTuple):
    hypothesis: Hypothesis
    staged: Staged | None
    moved: Array
    value: Array
    evaluation: Evaluation | None
    left: float


def explain(sample: Trial, errors: Errors, other: Errors) -> Explained | None:
    """The hypothesis, or two of them together, that has ``errors`` for a consequence."""
    if errors.prob <= 1 and sample.quantity.k <= 1:
        return None
    whole = narrow_format(sample, errors)
    if whole is not None:
        return Explained(whole, True, ())
    named = sample.quantity.named()
    first = _candidates(sample, _screened(sample, named, errors), sample.staged, sample.value, errors.signed)
    accepted = [fit for fit in first if _accepted(sample, errors, other, fit)]
    if accepted:
        return _explained(accepted)
    for fit in first[:2]:
        if fit.staged is None:
            continue
        # All of them again: beside a large first cause a small second one does not pass the screening.
        rest = [h for h in named if h.name != fit.hypothesis.name]
        second = _candidates(sample, rest, fit.staged, fit.value, errors.signed - fit.moved)
        for more in second[:2]:
            both = more._replace(moved=more.moved + fit.moved)
            if _accepted(sample, errors, other, both):
                name = f"{fit.hypothesis.name}+{more.hypothesis.name}"
                return Explained(
                    name,
                    fit.hypothesis.precision and more.hypothesis.precision,
                    (),
                    both.value,
                    both.evaluation,
                    in_turn(fit.hypothesis, more.hypothesis),
                )
    return None


def _screened(sample: Trial, named: list[Hypothesis], errors: Errors) -> list[Hypothesis]:
    """Those hypotheses that a small part of a large sample does not rule out already.

    Half of the part are the largest errors, half random ones. A cause that explains the whole sample shows in its largest errors
    with an amplitude near 1; the part only has to tell it from nothing, so the limits are wide.
    """
    samples = len(sample.oracle.value)
    if sample.value.size != samples or samples * sample.quantity.per_sample <= SCREEN:
        return named
    count = max(SCREEN // (2 * sample.quantity.per_sample), FEWEST)
    largest = np.argsort(-np.abs(errors.signed))[: count // 2]
    part = np.unique(np.concatenate([largest, np.arange(samples)[sample.random][: count // 2]]))
    few = replace(sample, staged=sample.quantity.stage(tuple(axis[part] for axis in sample.staged.where)), unit=sample.unit[part])
    fits = _candidates(few, [h for h in named if h.full is None], few.staged, sample.value[part], errors.signed[part], 0.5, 3.0)
    names = {fit.hypothesis.name for fit in fits}
    return [h for h in named if h.full is not None or h.name in names]


def _explained(fits: list[_Fit]) -> Explained:
    close = [fit for fit in fits if fit.left <= 2.0 * fits[0].left + 0.1]
    best = close[0]
    if best.hypothesis.name.startswith("fp16"):
        # Both keep 11 bits and differ in range only, so either may fit better by accident: one of them has to be named always.
        twin = best.hypothesis.name.replace("fp16", "tf32", 1)
        best = next((fit for fit in close if fit.hypothesis.name == twin), best)
    others = tuple(fit.hypothesis.name for fit in close if fit is not best)
    own = best.hypothesis
    return Explained(own.name, own.precision, others, best.value, best.evaluation, own.change, full=own.full)


def _candidates(
    sample: Trial,
    named: list[Hypothesis],
    staged: Staged,
    base: Array,
    error: Array,
    amplitude: float = AMPLITUDE,
    strength: float = STRENGTH,
) -> list[_Fit]:
    """Hypotheses whose displacement the error contains once (amplitude 1), best first."""
    fits = []
    for hypothesis in named:
        changed, solved = None, None
        if hypothesis.full is not None:
            value = gathered(sample, hypothesis.full)
        else:
            changed = hypothesis.change(staged) if hypothesis.change else None
            solved = None if changed is None else sample.quantity.solve(changed)
            value = None if solved is None else solved.value.reshape(-1)
        if value is None or value.shape != base.shape:
            continue
        if not math.isfinite(np.add.reduce(value)) and not np.isfinite(value[np.isfinite(base)]).all():
            continue
        moved = np.asarray((value - base) / sample.unit, np.float64)
        if not math.isfinite(np.add.reduce(moved)):
            moved = np.nan_to_num(moved)
        top = top_of(np.abs(moved))
        if top < 1.0:
            continue  # below the rounding: harmless, and no statistic can see it
        direction = moved / top  # squares of displacements in float64 may be beyond its range
        alpha = float(np.dot(error / top, direction)) / float(np.dot(direction, direction))
        if abs(alpha - 1) < amplitude and abs(alpha) * float(norm(moved)) > strength * rms(error - alpha * moved):
            fits.append(_Fit(hypothesis, changed, moved, value, solved, rms(error - moved)))
    return sorted(fits, key=lambda fit: fit.left)


def gathered(sample: Trial, compute: Callable[[], torch.Tensor | None]) -> Array | None:
    """What a hypothesis about the whole tensor says of the sample's places."""
    full = compute()
    if full is None or tuple(full.shape) != sample.quantity.shape:
        return None
    taken = sample.quantity.result(full).gather(sample.staged.where)
    array = taken if isinstance(taken, np.ndarray) else taken.cpu().numpy()
    return array.astype(sample.quantity.kind.oracle).reshape(-1)


def _accepted(sample: Trial, errors: Errors, other: Errors, fit: _Fit) -> bool:
    """What is left is rounding: inside the probabilistic bound at both values, and small beside the error."""
    left = np.nan_to_num(np.abs(errors.y - fit.value))
    bound = sample.probable
    if fit.evaluation is not None:
        there = fit.evaluation.bound(sample.factors[0]).reshape(-1)
        # Where the hypothesis moves the value far (a clipped softmax), rounding is that of the value it has there.
        room = np.maximum(bound, np.abs(fit.moved) * sample.unit / 4)
        bound = np.where(np.isfinite(there), np.minimum(room, there), bound)
    inside = float(np.mean(left <= bound))
    rest = np.nan_to_num(np.asarray(left / sample.unit, np.float64))
    size, unexplained = rms(errors.signed), rms(rest)
    if inside < INSIDE or unexplained > max(size / 4, 4 * other.rho_rms, 1.0) or unexplained >= size:
        return False
    if errors.det <= 1 and different(fit.moved) < 2:
        return False
    return evidence(fit.moved, max(unexplained, LUCK) / size) >= CHANCE


def evidence(moved: Array, left: float) -> float:
    """-log of the chance that a displacement agrees so well by accident: about ``left`` for each output that is not a repetition.

    Three equal outputs are one: among two dozen hypotheses one will agree to a tenth with a single number.
    """
    return different(moved) * -math.log(max(left, 1e-30))


def different(moved: Array) -> int:
    """How many outputs are displaced by a unit or more; copies count once."""
    return int(np.unique(moved[np.abs(moved) >= 1.0]).size)


# ---- Kernels that treat NaN, infinities or denormal numbers in their own way, and orders of summation.
#
# A vector loop and the scalar loop for its remainder may treat them differently, and the length of a vector depends on the
# processor. So each output may be right or may have the hypothesis' value, and every one has to be either.

LAST = 1.0  # units: of a sum whose order is known no error is left, of a mean the rounding of the division
FEW = 8.0  # unit roundoffs
READ_LIMIT = 1 << 21  # operand values that are read for one answer


def treatment(sample: Trial, own: Errors, other: Errors) -> Explained | None:
    """What explains the outputs of one side that are not right; None if anything else is wrong, on either side.

    Every sampled output has to be right, or to have the value that a hypothesis of ``quantity.special`` gives; the rest has to be
    rounding.
    """
    if not (named := sample.quantity.special()):
        return None
    top = sample.quantity.kind.format.largest
    value, bounds = sample.value, [sample.unit, sample.probable, sample.certain]
    right = fits_value(own.y, value, sample.probable, top)
    if right.all() or not fits_value(other.y, value, sample.probable, top).all() or not sound(sample, other):
        return None
    used = []
    for hypothesis in named:
        answer = _answer_of(sample, hypothesis)
        if answer is None:
            continue
        values, value_bounds = answer
        here = ~right & fits_value(own.y, values, value_bounds[1], top)
        if here.any():
            used.append(hypothesis)
            right |= here
            value, *bounds = (np.where(here, new, old) for new, old in zip((values, *value_bounds), (value, *bounds)))
    if not used or not right.all():
        return None
    left = errors(own.y, value, (bounds[0], bounds[1], bounds[2]), sample)
    if classify(sample, left, other) is not Verdict.ROUNDING:
        return None
    return Explained("+".join(dict.fromkeys(h.name for h in used)), all(h.precision for h in used), ())


def _answer_of(sample: Trial, hypothesis: Hypothesis) -> tuple[Array, list[Array]] | None:
    """What a hypothesis gives for the samples, and its bounds; None if it says nothing of them."""
    if hypothesis.full is not None:
        values = gathered(sample, hypothesis.full)
        if values is None:
            return None
        least = np.where(
            np.isfinite(sample.value), 0.0, FEW * sample.quantity.kind.unit * np.abs(values)
        )  # where there is no bound
        return values, [np.fmax(bound, least) for bound in (sample.unit, sample.probable, sample.certain)]
    changed = hypothesis.change(sample.staged) if hypothesis.change else None
    if changed is None:
        return None
    there = sample.quantity.solve(changed)
    return there.value.reshape(-1), [there.bound(f).reshape(-1) for f in (1.0, *sample.factors)]


def fits_value(y: Array, value: Array, bound: Array, top: float) -> Array:
    """Where a result is this value up to rounding: NaN and infinities alike, finite ones within the bound."""
    alike = classes(y, top) == classes(value, top)
    near = np.abs(np.abs(value) / top - 1) < 0.01  # there rounding decides between the largest number and infinity
    finite = np.isfinite(y) & np.isfinite(value)
    inside = np.abs(np.where(finite, y, 0.0) - np.where(finite, value, 0.0)) <= np.where(np.isnan(bound), 0.0, bound)
    return np.where(near, np.isfinite(y) | alike, alike & (inside | ~finite))


def readable(positions: Array, per_sample: int) -> bool:
    """Whether so many samples may be read whole: what was not looked at has no name."""
    return math.prod((positions.size, per_sample)) <= READ_LIMIT


def order(sample: Trial, own: Errors) -> Explained | None:
    """The order of summation that gives one side's very errors: less than the last roundings of the result is left."""
    for hypothesis in sample.quantity.orders():
        changed = hypothesis.change(sample.staged) if hypothesis.change else None
        if changed is None:
            continue
        value = sample.quantity.solve(changed).value.reshape(-1)
        moved, left = _displaced(sample, own, value)
        share = math.sqrt(float(np.dot(left, left)) / (float(np.dot(moved, moved)) or 1.0))
        if ordered(sample, own, value) and evidence(moved, share) >= CHANCE:
            return Explained(hypothesis.name, True, (), change=hypothesis.change, exact=True)
    return None


def ordered(sample: Trial, own: Errors, value: Array) -> bool:
    """Whether nothing but the last roundings of the result distinguish one side from these sums."""
    return float(_displaced(sample, own, value)[1].max()) <= LAST


def _displaced(sample: Trial, own: Errors, value: Array) -> tuple[Array, Array]:
    """How far these sums are from the oracle's, and what they leave of one side's errors, in units of the bound."""
    moved = np.nan_to_num(np.asarray((value - sample.value) / sample.unit, np.float64))
    return moved, np.abs(own.signed - moved)


# ---- The second look at an explained error, at the whole tensor.
#
# The guided sample holds the largest differences. Where a named cause moves every output, all of them are its own, and a smaller
# fault beside it is not among them. So before a difference counts as a known one, its formula is compared with the whole tensor.

LIMIT, PIECE = 1 << 22, 1 << 17  # operand values read in all, of larger tensors as many at random; at a time


@dataclass
class Confirmation:
    """Whether the named causes leave nothing but rounding on the whole of both results. ``causes``: side -> what explains it."""

    quantity: Quantity
    paddle: torch.Tensor
    torch: torch.Tensor
    causes: Mapping[str, Explained]
    rng: np.random.Generator

    def __call__(self) -> bool:
        """Reads up to :data:`LIMIT` operand values (a quarter for float64, whose oracle is slow)."""
        with np.errstate(all="ignore"):
            return all(self._holds(sample) for sample in self._pieces())

    def _pieces(self) -> Iterator[Trial]:
        quantity = self.quantity
        limit = LIMIT // 4 if quantity.kind.oracle is np.longdouble else LIMIT
        size, each = math.prod(quantity.grid), quantity.per_sample
        most = max(limit // each, 1)
        flat = np.arange(size) if size <= most else self.rng.integers(0, size, most)
        step = max(PIECE // each, 16)
        for low in range(0, len(flat), step):
            where: tuple[Array, ...] = np.unravel_index(flat[low : low + step], quantity.grid) if quantity.grid else ()
            yield trial.run(quantity, where, 0, self.paddle, self.torch)

    def _holds(self, sample: Trial) -> bool:
        for name, other in (("paddle", "torch"), ("torch", "paddle")):
            own, beside, cause = sample.side(name), sample.side(other), self.causes.get(name)
            if cause is None:
                if not sound(sample, own):
                    return False
                continue
            if cause.full is not None:
                whole = gathered(sample, cause.full)
                if whole is None or not explained_whole(sample, own, beside, whole, None):
                    return False
                continue
            changed = cause.change(sample.staged) if cause.change else None
            if changed is None:
                continue  # it concerns what stands out in any sample
            there = self.quantity.solve(changed)
            value = there.value.reshape(-1)
            if not (ordered(sample, own, value) if cause.exact else explained_whole(sample, own, beside, value, there)):
                return False
        return True


# ---- Formulas that a kernel may compute instead: whether one of them gives the whole of a side's result, up to its own rounding.
#
# :func:`explain` asks for the displacement that a cause makes, in units of the op's own bound. That finds another constant. A
# formula that means the same and rounds worse (1 + erf for erfc, a square that leaves the range) displaces nothing: its own bound
# has to be measured, and every element has to lie in it.


class Alternative(NamedTuple):
    """``measure``: the formula of the same operands with its bound; it raises where it is about other arguments than these."""

    name: str
    precision: bool
    measure: Callable[[], Formula]


def explained(
    judged: Judgement, formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, alternatives: Iterable[Alternative]
) -> Judgement | None:
    """The judgement with the name of an alternative that gives all of a side's result, where that is not rounding; None without.

    Where neither side's is rounding, each needs one; if they differ, the result names that of the side with the worse verdict.
    """
    results = {Side.PADDLE: paddle, Side.TORCH: torch_}
    odd = {side: result for side, result in results.items() if not fits(formula, result)}
    inside = not odd and judged.side in results  # of the bound, and much worse than the other one
    if inside:
        odd = {judged.side: results[judged.side]}
    causes = _causes(odd, formula, alternatives, inside or judged.verdict is Verdict.UNVERIFIED)
    if not odd or len(causes) < len(odd):
        return None
    side = judged.side if judged.side in causes else next(iter(odd))
    cause = causes[side]
    others = [
        logged("; beside it {also}: {name}", also=also, name=other.name) for also, other in causes.items() if other is not cause
    ]
    if len(odd) == 2 and not others:
        side = Side.BOTH
    verdict = judged.verdict
    if verdict is not Verdict.NONFINITE:
        verdict = Verdict.PRECISION_MODE if cause.precision else Verdict.SEMANTICS
    reason = logged(
        "{side}: all of it is what {name} gives{others}; {reason}",
        side=side,
        name=cause.name,
        others="".join(others),
        reason=judged.reason,
    )
    return replace(judged, verdict=verdict, side=side, hypothesis=cause.name, alternatives=(), modifiers=(), reason=reason)


def _causes(
    odd: Mapping[Side, torch.Tensor], formula: Formula, alternatives: Iterable[Alternative], doubtful: bool
) -> dict[Side, Alternative]:
    """The first alternative for each side's result that gives it, and says more of it than the formula does.

    ``doubtful``: the result may be the formula's, rounded, or at a tie: a formula that rounds worse says nothing of it.
    """
    causes: dict[Side, Alternative] = {}
    for other in alternatives:
        if len(causes) == len(odd):
            break
        try:
            measured = other.measure()
        except Exception as error:  # it is about other arguments
            let_pass(error)
            continue
        if measured.shape == formula.shape:
            for side, result in odd.items():
                if side not in causes and fits(measured, result) and _tells(measured, formula, result, doubtful):
                    causes[side] = other
    return causes


NEARER, LOOSER = 2.0, 3.0  # times; measured bounds of one formula that is spelled in two ways differ by less


def _tells(other: Formula, formula: Formula, result: torch.Tensor, doubtful: bool) -> bool:
    """Whether an alternative says more of a result than the formula does, where that is worst: it is nearer, or rounds worse.

    What has the formula's values and its roundings explains nothing: any error within its bound would be its.
    """
    y: Array = result.detach().double().cpu().numpy().reshape(-1)
    own, there = formula.everywhere(), other.everywhere()
    if not np.array_equal(np.isfinite(y), np.isfinite(own.value)):
        return True  # a NaN, or a number that left the range: it has them where the result does
    with np.errstate(all="ignore"):
        errors, left, bound = (np.nan_to_num(np.abs(numbers)) for numbers in (y - own.value, y - there.value, own.bound(1.0)))
        excess = errors / np.maximum(bound, np.finfo(np.float64).tiny)
        worst = (excess >= 0.5 * excess.max(initial=0.0)) & (errors > 0)
        looser = (there.bound(1.0) >= LOOSER * bound) & (not doubtful)
        return bool(((NEARER * left <= errors) | looser)[worst].all())


def fits(formula: Formula, result: torch.Tensor) -> bool:
    """Whether every element of a result is the formula's up to its probabilistic bound; NaN and infinities alike.

    Where the formula has no digits left, as behind a number that has left the range, a result may be NaN or infinite.
    """
    evaluation = formula.everywhere()
    bound = evaluation.bound(trial.factors(formula)[1])
    y: Array = result.detach().double().cpu().numpy().reshape(-1)
    value, largest = evaluation.value, formula.kind.format.largest
    value = np.where(np.abs(value) == np.finfo(np.float64).max, np.copysign(largest, value), value)  # the largest that there is
    near = fits_value(y, value, bound, largest)
    lost = (bound > 0) & (bound >= np.abs(value))
    unknown = np.isfinite(value) & ~np.isfinite(bound)
    return bool((near | unknown | (lost & ~np.isfinite(y))).all())
