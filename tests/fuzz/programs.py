"""Program ``number`` of a seed: which kind it is of, its lines, and the plans that it runs under."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from .check import Check, Failure, layouts, quiet, unlike_torch
from .execute import NATIVE, Plan, run, whole
from .generate import Program, schedule
from .grammar import BROAD, GRAMMAR, NESTED
from .progress import Progress
from .source import alone

CARRY = whole("compare", "carry='torch'")


@dataclass
class Drawn:
    """A program, and what it is held against."""

    lines: list[str]
    plans: list[Plan]
    replayed: bool  # in plain Torch, too
    at_once: bool  # whether products are laid out anew when they first come

    def failure(self, counts: Counter[str], progress: Progress) -> Failure | None:
        """What is wrong with it."""
        with layouts(at_once=self.at_once):
            check = Check(counts, progress)
            failure = check.failure(self.lines, self.plans)
            if failure is None and self.replayed:
                return unlike_torch(self.lines, counts, progress)
            return failure if failure is None or check.seen_again(failure) else None


def source_of(seed: str, number: int, length: int) -> str:
    """A program as plain Paddle."""
    with quiet():
        lines = drawn(seed, number, length, Progress()).lines
        return alone(lines, {line for line, *_ in run(lines, NATIVE).errors})


def drawn(seed: str, number: int, length: int, progress: Progress) -> Drawn:
    """Three of four programs call all that the tables list; the fourth changes tensors, graphs and modes, as Torch can say it.

    Every fourth of those has more of what runs within a backward; every sixth of the others has NaN and infinities.
    """
    choose = random.Random(f"{seed}/{number}").randrange
    broad, nested = number % 4 != 3, number % 16 == 15
    program = Program(choose, progress, BROAD if broad else NESTED if nested else GRAMMAR, edges=number % 8 == 4)
    lines = program.draw(length if broad else length + 4)
    plans = [whole("compare"), whole("reference"), CARRY if broad else schedule(choose, len(lines))]
    return Drawn(lines, plans, not broad, nested and choose(3) == 2)
