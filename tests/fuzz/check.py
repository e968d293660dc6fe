"""One program under all its plans, and in plain Torch: what differs without a known reason is a failure."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from padiff_shim.frameworks import weight_copies

from .difference import of_numbers, way
from .execute import NATIVE, Outcome, Plan, accusations, beyond, differences, run, whole
from .known import listed_lines, unexplained
from .progress import Progress
from .replay.run import REFERENCE, compared
from .rounding import Rounding

TWICE = "not the same twice natively"
AGAIN = 3  # times that a failure has to be seen again


@dataclass
class Failure:
    """A program that differs under a plan without a reason."""

    lines: list[str]
    plan: Plan
    texts: list[str]


@contextlib.contextmanager
def layouts(*, at_once: bool) -> Iterator[None]:
    """Nothing is known of the products whose weights need no copy; on request each is tried when it comes first."""
    held = weight_copies.WORTH
    weight_copies._known.clear()
    weight_copies.WORTH = 0 if at_once else held
    try:
        yield
    finally:
        weight_copies.WORTH = held


class Trial:
    """A program, and what it does natively."""

    def __init__(self, lines: Sequence[str], progress: Progress, counts: Counter[str]) -> None:
        self.lines, self._progress, self._counts = list(lines), progress, counts
        self.native = self._run(NATIVE)
        self.steady = not differences(self.native, self._run(NATIVE))

    @functools.cached_property
    def named(self) -> dict[int, str]:
        """The lines of which a comparison knows the difference by its name, each with that."""
        return self._run(whole("compare")).named

    def _run(self, plan: Plan) -> Outcome:
        self._progress.note(self.lines, plan)
        return run(self.lines, plan)

    def within(self) -> tuple[Trial, list[int]]:
        """The program without what Paddle refuses, and the numbers of its lines."""
        trial, numbers = self, [*range(len(self.lines))]
        while lacking := beyond(trial.lines, trial.native):
            numbers = [number for place, number in enumerate(numbers) if place not in lacking]
            trial = Trial([self.lines[number] for number in numbers], self._progress, self._counts)
        return trial, numbers

    def differing(self, plan: Plan) -> list[str]:
        """What differs between native and ``plan``, and whom it accuses."""
        if not self.steady:
            return []
        other = self._run(plan)
        texts = differences(self.native, other, None if plan.exact else Rounding(self.lines, plan, other))
        return texts + [f"accused: {call}" for call in accusations(other)]

    def unexplained(self, plan: Plan) -> list[str]:
        """What differs without a known reason."""
        changing = plan.name == "schedule"
        texts = self.differing(plan)
        return unexplained(self.lines, texts, exact=plan.exact, changing=changing, counts=self._counts)


class Check:
    """Programs are checked with one count of reasons."""

    def __init__(self, counts: Counter[str], progress: Progress) -> None:
        self.counts, self.progress = counts, progress

    def failure(self, lines: Sequence[str], plans: Sequence[Plan]) -> Failure | None:
        """The first plan under which a program differs without a reason."""
        entire = Trial(lines, self.progress, self.counts)
        if not entire.steady:
            self.counts[TWICE] += 1
            return None
        within, numbers = entire.within()
        for plan in plans:
            trial, planned = (entire, plan) if plan.exact else (within, plan.of(numbers))
            texts = trial.unexplained(planned)
            left = self.without_listed(Failure(trial.lines, planned, texts), trial) if texts else None
            if left is not None:
                return left
        return None

    def without_listed(self, failure: Failure, trial: Trial) -> Failure | None:
        """What is left of a failure without the lines of which the differences are known."""
        culprits = listed_lines(failure.lines, failure.texts)
        if not failure.plan.exact and any(of_numbers(text) for text in failure.texts):
            culprits.update({number: f"named: {name}" for number, name in trial.named.items()})
        if not culprits:
            return failure
        numbers = [number for number in range(len(failure.lines)) if number not in culprits]
        rest = self.failure([failure.lines[number] for number in numbers], [failure.plan.of(numbers)])
        self.counts.update({*culprits.values()} if rest is None else ())
        return rest

    def seen_again(self, failure: Failure) -> bool:
        """Whether a failure is one whenever it runs: what kernels make of the place of memory is none of the shim's."""
        wanted = {way(text) for text in failure.texts}
        for _ in range(AGAIN):
            other = Check(Counter(), self.progress).failure(failure.lines, [failure.plan])
            if other is None or not wanted & {way(text) for text in other.texts}:
                self.counts.update(f"seen once and not again: {failure.plan.name}, {kind}" for kind in wanted)
                return False
        return True


def unlike_torch(lines: Sequence[str], counts: Counter[str], progress: Progress) -> Failure | None:
    """What differs in a bit from the same program in plain Torch."""
    progress.note(list(lines), REFERENCE)
    shown, texts = compared(list(lines), counts)
    return Failure(shown, REFERENCE, texts) if texts else None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Paddle warns of much that random programs do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
