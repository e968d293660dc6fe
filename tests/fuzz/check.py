"""One program under all plans, and in plain Torch: what differs without a known reason fails, with the program as a script."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

from padiff_shim.frameworks import turning

from .execute import NATIVE, Plan, accusations, cut, differences, run, whole
from .known import unexplained
from .replay.run import REFERENCE, compared


class Progress:
    """The program that is running, on disk: what is left of it if it kills the process."""

    def __init__(self, path: Path | None = None) -> None:
        self.file = None if path is None else path.open("w")

    def note(self, lines: list[str], plan: object) -> None:
        """``lines`` run now under ``plan``."""
        if self.file is not None:
            self.file.seek(0)
            self.file.write(script(lines, plan))
            self.file.truncate()
            self.file.flush()


def script(lines: list[str], plan: object) -> str:
    """A program as text, with the modes it ran under."""
    body = "\n".join(f"{number:3}  {line}" for number, line in enumerate(lines))
    return f"modes: {plan}\n{body}\n"


@contextlib.contextmanager
def layouts(*, at_once: bool) -> Iterator[None]:
    """Nothing is known of the products whose weights need no copy; on request each is tried when it comes first."""
    held = turning.WORTH
    turning._known.clear()
    turning.WORTH = 0 if at_once else held
    try:
        yield
    finally:
        turning.WORTH = held


def check(lines: list[str], schedule: Plan, counts: dict[str, int], progress: Progress) -> None:
    """Run a program natively, wholly under either mode, under a schedule, and in Torch.

    Raises:
        AssertionError: something differs without a reason.
    """
    for plan in (whole("compare"), whole("reference"), schedule):
        found, shown, failed = differing(lines, plan, counts, progress)
        left = unexplained(shown, found, exact=plan.exact, failed=failed, changing=plan is schedule, counts=counts)
        if left:
            raise AssertionError("\n".join([script(shown, plan), *left]))
    progress.note(lines, REFERENCE)
    shown, found = compared(lines, counts)
    if found:
        raise AssertionError("\n".join([script(shown, REFERENCE), *found]))


def differing(lines: list[str], plan: Plan, counts: dict[str, int], progress: Progress) -> tuple[list[str], list[str], bool]:
    """What differs between native and ``plan``, the lines that were looked at, and whether a backward failed natively."""
    progress.note(lines, NATIVE)
    native = run(lines, NATIVE)
    if not plan.exact and (shorter := cut(lines, native)) is not lines:
        lines, native = shorter, run(shorter, NATIVE)
    failed = any("backward(" in lines[number] or "paddle.grad(" in lines[number] for number, *_ in native.errors)
    if differences(native, run(lines, NATIVE), exact=True):
        counts["not the same twice natively"] = counts.get("not the same twice natively", 0) + 1
        return [], lines, failed
    progress.note(lines, plan)
    other = run(lines, plan)
    found = differences(native, other, exact=plan.exact) + [f"accused: {call}" for call in accusations(other)]
    return found, lines, failed


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Paddle warns of much that random programs do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
