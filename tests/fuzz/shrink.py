"""The smallest part of a program that still fails in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from padiff_shim.questions.bisect import ddmin

from .check import Check, Failure, unlike_torch
from .difference import way
from .execute import Plan
from .progress import Progress
from .replay.run import REFERENCE


def smallest(failure: Failure, fails: Callable[[Sequence[str], Plan], Failure | None] | None = None) -> Failure:
    """A part of a program, of whose lines none can be left out, that differs in the same way."""
    wanted = {way(text) for text in failure.texts}
    best, lines = failure, [*range(len(failure.lines))]
    fails = fails or again

    def does(numbers: Sequence[int]) -> bool:
        nonlocal best
        other = fails([failure.lines[number] for number in numbers], failure.plan.of(list(numbers)))
        if other is None or not wanted & {way(text) for text in other.texts}:
            return False
        best = other if len(other.lines) <= len(best.lines) else best
        return True

    ddmin(lines, does)
    return best


def again(lines: Sequence[str], plan: Plan) -> Failure | None:
    """What fails of these lines under this plan."""
    if plan.name == REFERENCE.name:
        return unlike_torch(lines, Counter(), Progress())
    return Check(Counter(), Progress()).failure(lines, [plan])
