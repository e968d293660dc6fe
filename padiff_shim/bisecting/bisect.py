"""``padiff_shim.bisect``: the smallest set of ops, layers or calls whose kernels make a difference."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..arguments import flag, function, one_of, whole
from ..catalogue.registry import ops, optimizers
from ..dispatch.site import Site
from ..errors import BisectionError
from ..modes.environment import frameworks
from ..modes.mode import Mode
from ..modes.options import ReferenceOptions
from ..modes.selection import by_torchs_definition
from ..proving.seeding import seeded
from ..runs.run import Run
from .bisection import Bisection
from .choosing import OVER, Choosing, Key, Unit
from .ddmin import ddmin
from .targets import question


def bisect(
    fn: Callable[[], Any],
    target: Any,
    over: str = "ops",
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    optimizer: str = "paddle",
    random: str = "paddle",
    definitions: str | Iterable[str] = "paddle",
    seed: int = 0,
    progress: bool = True,
) -> Bisection:
    """Find the smallest set of ops, layers or calls whose kernels make a difference, by delta debugging.

    ``fn`` runs again and again under :func:`padiff_shim.reference`, each time with others of its ops (layers, calls) left on
    Paddle's kernels. If its result is bad natively and good on Torch's kernels, the answer is the smallest set of Paddle's kernels
    that makes it bad; if it is the other way round, the smallest set of Torch's. A call's gradient is computed by its op's kernel.

    Args:
        fn: a function without arguments that does the same each time: it makes its model, or does not train it.
        target: a function of what ``fn`` returns that is true while it is bad ("still differs"), or the value that it should have.
        over: what is left on one kernel or exchanged as a whole: ``"ops"``; ``"layers"``, by their own calls; ``"calls"``, one by
            one. Optimizers and clipping are exchanged as ops are.
        atol, rtol: with a value as target: bad is a result of which an element differs by more than ``atol + rtol * abs(value)``.
        optimizer, random, definitions: as for :func:`padiff_shim.reference`.
        seed: all random generators begin with it in each run, and are put back.
        progress: a bar on long runs, on terminals only.

    Returns:
        A :class:`Bisection`: the set with its lines, and how many runs it took.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        BisectionError: the target holds at both ends or at neither, or not each time alike.

    Errors of ``fn`` are raised unchanged.
    """
    start = time.perf_counter()
    function("fn", fn, "nothing")
    one_of("over", over, OVER)
    settled = ReferenceOptions(optimizer=optimizer, random=random, definitions=definitions)
    flag("progress", progress)
    frameworks()
    torchs = by_torchs_definition(settled.definitions)
    options = {"definition": settled.optimizer, "draws": settled.random == "torch", "torchs": torchs}
    with _Bar(progress) as bar:
        program = _Program(fn, question(target, atol, rtol), over, options, whole("seed", seed), bar)
        found = _bisected(program, over)
    found.seconds = time.perf_counter() - start
    return found


_NOWHERE = Site("", 0, "an optimizer's step")


class _Program:
    """The user's function with some of its units on Paddle's kernels; asks each set once."""

    def __init__(self, fn: Callable[[], Any], bad: Callable[[Any], bool], over: str, options: Any, seed: int, bar: _Bar) -> None:
        self._fn, self._bad, self._over, self._options, self._seed, self._bar = fn, bad, over, options, seed, bar
        self._answers: dict[frozenset[Key], bool] = {}
        self.units: dict[Key, Unit] = {}
        self.runs = self.known = 0

    def explore(self) -> bool:
        """Run all on Torch's kernels, and learn which units there are."""
        plan, run, answer = self._run(frozenset())
        self.units = dict(plan.units)
        self.units |= {("optimizer", name): Unit(name, None) for name in run.substituted if name in optimizers()}
        for key, unit in self.units.items():
            if key[0] == "optimizer":
                unit.places.update({(unit.op, "", _NOWHERE): run.substituted[unit.op]})
        self._answers[frozenset()] = answer
        return answer

    def bad(self, native: Iterable[Key]) -> bool:
        """Whether the result is bad with these units on Paddle's kernels."""
        chosen = frozenset(native)
        if chosen in self._answers:
            self.known += 1
        else:
            self._answers[chosen] = self._run(chosen)[2]
        return self._answers[chosen]

    def again(self, native: Iterable[Key]) -> bool:
        """The same, asked once more."""
        return self._run(frozenset(native))[2]

    def natively(self) -> bool:
        """Whether the result is bad without any mode."""
        self.runs += 1
        with seeded(self._seed):
            return self._bad(self._fn())

    def _run(self, native: frozenset[Key]) -> tuple[Choosing, Run, bool]:
        plan = Choosing(self._over, native, **self._options)
        left = {key[1] for key in native if key[0] == "optimizer"}
        run = Run("torch", "contiguous")
        enabled = (frozenset(ops()) | optimizers()) - left
        with seeded(self._seed), Mode(run, enabled, None, plan, strict=False, all_threads=False):
            result = self._fn()
        self.runs += 1
        self._bar.ran(self.runs)
        return plan, run, self._bad(result)


def _bisected(program: _Program, over: str) -> Bisection:
    """Both ends, then ever smaller parts."""
    torchs = program.explore()
    keys = list(program.units)
    if not keys:
        raise BisectionError("no call of fn ran on Torch's kernels: there is nothing to exchange")
    paddles = program.bad(keys)
    if torchs == paddles:
        raise BisectionError(_no_end(program, over, paddles))
    everything = frozenset(keys)

    def native(part: Iterable[Key]) -> frozenset[Key]:
        return frozenset(part) if paddles else everything - frozenset(part)

    def does(part: Sequence[Key]) -> bool:
        program._bar.left(len(part), len(keys))
        return program.bad(native(part))

    minimal = ddmin(keys, does)
    if not program.again(native(minimal)):
        raise BisectionError(
            "the same run was bad once and good once: fn has to do the same each time (seeds, models that it trains)"
        )
    alone = not program.bad(native(everything - frozenset(minimal)))
    return Bisection(
        over,
        "paddle" if paddles else "torch",
        [program.units[key] for key in minimal],
        len(keys),
        alone,
        program.runs,
        program.known,
    )


def _no_end(program: _Program, over: str, bad: bool) -> str:
    """Why there is nothing to look for."""
    natively = program.natively()
    if bad:
        return (
            f"the target holds with all {over} on Torch's kernels as it does on Paddle's: what is bad does not come from these "
            "kernels (a mistake of the program, or ops that stay native: print a run of padiff_shim.reference)"
        )
    if natively:
        return (
            f"the target holds natively, but with no {over} exchanged under the shim it does not: the difference comes from how "
            "gradients are added up, not from a kernel"
        )
    return f"the target holds neither on Paddle's kernels nor with all {over} on Torch's: there is no difference to look for"


class _Bar:
    """How far it is, on terminals."""

    def __init__(self, wanted: bool) -> None:
        console = Console(file=sys.stderr)
        shows = wanted and console.is_terminal and not console.is_dumb_terminal
        parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*parts, console=console, transient=True, disable=not shows)
        self._task = self._progress.add_task("bisecting", total=None)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def ran(self, runs: int) -> None:
        """One more run."""
        self._progress.update(self._task, description=f"bisecting, run {runs}")

    def left(self, part: int, total: int) -> None:
        """How many are being tried; what is known to be innocent counts as done."""
        self._progress.update(self._task, completed=total - part, total=total)
