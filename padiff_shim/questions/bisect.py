"""``padiff_shim.bisect``: the smallest set of ops, layers or calls whose kernels make a difference."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..arguments import flag, function, one_of, seed as checked_seed
from ..catalogue.registry import ops, optimizers
from ..dispatch.call_site import CallSite, call_site, layer_path
from ..dispatch.entry_point import EntryPoint
from ..dispatch.frames import Frame
from ..errors import ArgumentError, BisectionError, described
from ..measure.distance import distance
from ..modes.environment import frameworks, versions
from ..modes.mode import Mode
from ..modes.options import ModeOptions, ReferenceOptions, by_torchs_definition
from ..present.annotations import Finding
from ..present.document import Column, Document, Table
from ..present.result import Presented
from ..progress import Bar
from ..proof.programs import seeded
from ..runs.run import Run
from ..substitution.plan import Substituting
from ..table.reasons import FILTERED, StayNative
from ..text import code_line, joined, listed, many, marked, tr
from ..trees import as_array, leaves

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], does: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A part of ``items`` that does it, and none of whose items can be left out (Zeller and Hildebrandt, 2002).

    Args:
        items: all of them together do it, none of them does not.
        does: whether a part does it, which is in the order of ``items``; the same answer for the same part.

    >>> ddmin(range(8), lambda part: {2, 5} <= set(part))
    [2, 5]
    """
    left, parts = list(items), 2
    while len(left) > 1:
        # Parts of nearly equal length
        ends = [round(len(left) * place / parts) for place in range(parts + 1)]
        chunks = [list(left[begin:end]) for begin, end in itertools.pairwise(ends) if end > begin]
        smaller = next((chunk for chunk in chunks if does(chunk)), None)
        if smaller is not None:
            left, parts = smaller, 2
            continue
        rests = [[item for item in left if item not in chunk] for chunk in chunks] if parts > 2 else []
        larger = next((rest for rest in rests if does(rest)), None)
        if larger is not None:
            left, parts = larger, parts - 1
        elif parts < len(left):
            parts = min(len(left), 2 * parts)
        else:
            break
    return left


def question(target: Any, atol: float, rtol: float) -> Callable[[Any], bool]:
    """``target`` as a function of the result that says whether it is bad.

    Raises:
        ArgumentError: it is neither a function nor a value, or the tolerances are no numbers from 0 on.
    """
    for name, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ArgumentError("{name}= is a number from 0 on, got {value}", name=name, value=described(value))
    wanted = [] if target is None else _arrays(target)
    if wanted:
        return lambda result: _differs(_arrays(result), wanted, atol, rtol)
    if not callable(target):
        raise ArgumentError(
            "target= is a function of fn's result that is true while it is bad, or the value that it should have "
            "(numbers, arrays, tensors of either framework, in tuples, lists or dicts), got {target}",
            target=described(target),
        )
    if atol or rtol:
        raise ArgumentError("atol= and rtol= belong to a target that is a value; a function decides by itself")
    return lambda result: _yes(target(result))


def _yes(answer: Any) -> bool:
    """The truth value of an answer, which may be a tensor of one element."""
    try:
        return bool(answer)
    except Exception:
        raise ArgumentError("target= has to answer with True or False, got {answer}", answer=described(answer)) from None


def _arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """All numbers of a result, as arrays."""
    if isinstance(value, (bool, int, float, complex)):
        return [np.asarray(value)]
    if isinstance(value, (list, tuple)) and value and all(isinstance(number, (bool, int, float, complex)) for number in value):
        return [np.asarray(number) for number in value]
    return [as_array(leaf).copy() for _, leaf in leaves(value)]


class _ShapesError(ArgumentError):
    """A result has not the shapes of the target."""


def _differs(results: list[np.ndarray[Any, Any]], wanted: list[np.ndarray[Any, Any]], atol: float, rtol: float) -> bool:
    """Whether an element is further from the wanted value than the tolerances allow."""
    shapes = [[array.shape for array in arrays] for arrays in (results, wanted)]
    if shapes[0] != shapes[1]:
        raise _ShapesError(
            "target= has {wanted}, but fn returned {returned}", wanted=_shapes_text(shapes[1]), returned=_shapes_text(shapes[0])
        )
    between = (distance(result, other) for result, other in zip(results, wanted))
    return any(apart.different and not apart.max_abs <= atol + rtol * apart.scale for apart in between)


def _shapes_text(shapes: list[Any]) -> str:
    if not shapes:
        return tr("nothing numeric")
    return joined(
        " ", (many(len(shapes), "array of shape", "arrays of shapes"), ", ".join(str(list(shape)) for shape in shapes[:6]))
    )


# ---- The plan of a bisection: Torch's kernels, but Paddle's for some ops, layers or calls.

OVER = ("ops", "layers", "calls")
Place = tuple[str, str, CallSite]  # op, layer, line


@dataclass(eq=False)
class Unit:
    """What runs on one framework's kernels as a whole: an op, a layer (its own calls, not those of layers below), or one call.

    Attributes:
        op: its name; "" for a layer.
        layer: its path; None for an op.
        number: of a call: its place among the calls of its op, line and layer, from 0.
        places: (op, layer, line) -> how many calls of the unit.
    """

    op: str
    layer: str | None
    number: int = 0  # of a call
    places: Counter[Place] = field(default_factory=Counter)

    @property
    def calls(self) -> int:
        """How many calls belong to it."""
        return sum(self.places.values())

    def to_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        places = [
            {"op": op, "layer": layer, "file": site.file, "line": site.line, "calls": calls}
            for (op, layer, site), calls in self.places.items()
        ]
        about = {"op": self.op, "layer": self.layer, "number": self.number, "calls": self.calls}
        return {"unit": str(self), **about, "places": places}

    def __str__(self) -> str:
        if self.layer is None:
            return self.op
        where = tr("layer {layer}", layer=self.layer) if self.layer else tr("outside of any layer below the outermost one")
        return tr("{op} in {where}", op=self.op, where=where) if self.op and self.layer else self.op or where


Key = tuple[Any, ...]


class Choosing(Substituting):
    """Answers calls with Torch, unless they belong to one of the units ``native``; remembers all units that it meets."""

    tracks_layers = True

    def __init__(self, over: str, native: Iterable[Key], definition: str, *, draws: bool, torchs: frozenset[str]) -> None:
        super().__init__(definition, draws=draws, torchs=torchs)
        self._over, self._native = over, frozenset(native)
        self._number: Counter[Place] = Counter()
        self.units: dict[Key, Unit] = {}

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """As in reference mode, for the chosen calls; calls that only move values are always chosen."""
        if entry_point.op.exact:
            return super().call(entry_point, frame, values, args, kwargs)
        place = entry_point.op.name, layer_path(), call_site()
        number = self._number[place]
        self._number[place] += 1
        key: Key = {"ops": place[:1], "layers": place[1:2], "calls": (*place, number)}[self._over]
        if key in self._native:
            raise StayNative(FILTERED)
        try:
            result = super().call(entry_point, frame, values, args, kwargs)
        finally:
            frame.quick.pop(entry_point, None)  # else the next call would not pass here
        self._met(key, place, number)
        return result

    def _met(self, key: Key, place: Place, number: int) -> None:
        unit = self.units.get(key)
        if unit is None:
            op, layer, _ = place
            made = {"ops": Unit(op, None), "layers": Unit("", layer), "calls": Unit(op, layer, number)}
            unit = self.units[key] = made[self._over]
        unit.places[place] += 1


SHOWN = 4  # lines of one unit


@dataclass(repr=False)
class Bisection(Presented):
    """The smallest set that makes the difference; iterating it gives its units.

    Attributes:
        over: ``"ops"``, ``"layers"`` or ``"calls"``.
        kernel: whose kernels make it bad: ``"paddle"`` (bad natively, good on Torch's) or ``"torch"`` (the other way round).
        minimal: the units: with these on that kernel, and all others on the other framework's, the target holds; without any one of
            them it does not.
        units: how many there are altogether.
        alone: no other unit makes it: with all others on that kernel, and these on the other framework's, the target does not hold.
        runs: how often the program ran.
        known: how many answers came from an earlier run.
        seconds: what all runs took.
        environment: versions of both frameworks, and the device.
    """

    over: str
    kernel: str
    minimal: list[Unit] = field(default_factory=list)
    units: int = 0
    alone: bool = False
    runs: int = 0
    known: int = 0
    seconds: float = 0.0
    environment: dict[str, str] = field(default_factory=versions)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.minimal)

    def __len__(self) -> int:
        return len(self.minimal)

    def __bool__(self) -> bool:
        return bool(self.minimal)

    @property
    def findings(self) -> list[Finding]:
        """The units, each at its lines."""
        places = ([(site.file, site.line) for _, _, site in unit.places] for unit in self.minimal)
        return [Finding(f"bisect: {self.over}", "warning", str(unit), lines) for unit, lines in zip(self.minimal, places)]

    @property
    def answer(self) -> str:
        """The answer in one line."""
        return self._says(listed(self.minimal, 3))

    def _shorter(self) -> Iterator[str]:
        yield self._says(many(len(self.minimal), self.over[:-1]))

    def _says(self, units: str) -> str:
        """The answer, with these words for its units."""
        part = tr("{part} of {all}", part=len(self.minimal), all=many(self.units, self.over[:-1]))
        others = tr("no other is involved") if self.alone else tr("others cause it as well")
        answer = tr(
            "Paddle's kernels of {units} cause the difference ({part}; {others})"
            if self.kernel == "paddle"
            else "Torch's kernels of {units} cause the difference ({part}; {others})",
            units=units, part=part, others=others,
        )  # fmt: skip
        return joined("; ", (answer, many(self.runs, "run")))

    def content(self) -> Document:
        """The answer, and the units with their lines."""
        columns = (Column(tr(self.over[:-1]), fold=True), Column(tr("calls"), right=True), Column(tr("lines"), fold=True))
        names = [
            tr("{unit}, call {number} there", unit=unit, number=unit.number + 1) if unit.number else str(unit) for unit in self
        ]
        rows = [(name, str(unit.calls), _lines(unit)) for name, unit in zip(names, self)]
        return Document(self.answer, [Table(columns, rows)])


def _lines(unit: Unit) -> str:
    """Where a unit's calls are made."""
    lines: dict[str, None] = {}
    for op, layer, site in unit.places:
        beside = [part for part, known in ((op, unit.op), (layer, unit.layer)) if part and part != known]
        lines[joined("", (code_line(site), f" ({', '.join(beside)})" if beside else ""))] = None
    return listed(list(lines), SHOWN, "; ")


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

    ``fn`` runs again and again under :func:`padiff_shim.reference`, each time with others of its ops (layers, calls) on
    Paddle's kernels. If its result is bad natively and good on Torch's kernels, the answer is the smallest set of Paddle's
    kernels that makes it bad; if it is the other way round, the smallest set of Torch's. An op's kernel also computes the
    gradient of its calls.

    Args:
        fn: a function without arguments that does the same each time: it makes its model, or does not train it.
        target: a function of fn's result that is true while the result is bad ("still differs"), or the value that it should have.
        over: what runs on one framework's kernels as a whole: ``"ops"``; ``"layers"``, by their own calls; ``"calls"``, one by one.
            Optimizers and clipping count as ops.
        atol, rtol: with a value as target: a result is bad if an element differs by more than ``atol`` plus ``rtol`` of
            the largest element, as :func:`padiff_shim.difference` has it.
        optimizer, random, definitions: as for :func:`padiff_shim.reference`.
        seed: all random generators begin with it in each run, and stand in the end where they stood before.
        progress: show a bar on long runs, on terminals only.

    Returns:
        A :class:`Bisection`: the set with its lines, and how many runs it took.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        BisectionError: the target holds at both ends or at neither, or the same run is bad once and good once.

    Errors of ``fn`` are raised unchanged.

    Paddle's gradient of leaky_relu is 1 at 0, Torch's is the slope:

    >>> import paddle, padiff_shim
    >>> def program():
    ...     x = paddle.zeros([3])
    ...     x.stop_gradient = False
    ...     paddle.nn.functional.leaky_relu(paddle.tanh(x), 0.01).sum().backward()
    ...     return x.grad
    >>> found = padiff_shim.bisect(program, paddle.full([3], 0.01), atol=1e-6, progress=False)
    >>> found.kernel, [str(unit) for unit in found]
    ('paddle', ['leaky_relu'])
    """
    start = time.perf_counter()
    function("fn", fn, marked("no argument"))
    one_of("over", over, OVER)
    settled = ReferenceOptions(optimizer=optimizer, random=random, definitions=definitions)
    flag("progress", progress)
    frameworks()
    torchs = by_torchs_definition(settled.definitions)
    options = {"definition": settled.optimizer, "draws": settled.random == "torch", "torchs": torchs}
    with Bar(tr("bisecting"), wanted=progress) as bar:
        program = _Program(fn, question(target, atol, rtol), over, options, checked_seed(seed), bar)
        bisection = _bisected(program, over)
    bisection.seconds = time.perf_counter() - start
    return bisection


_NOWHERE = CallSite("", 0, "an optimizer's step")


class _Program:
    """The user's function with some of its units on Paddle's kernels; each set runs once."""

    def __init__(self, fn: Callable[[], Any], bad: Callable[[Any], bool], over: str, options: Any, seed: int, bar: Bar) -> None:
        self._fn, self._bad, self._over, self._options, self._seed, self.bar = fn, bad, over, options, seed, bar
        self._answers: dict[frozenset[Key], bool] = {}
        self.misfits: dict[frozenset[Key], ArgumentError] = {}  # of results that have not the target's shapes
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
        """The same by a run of its own."""
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
        with seeded(self._seed), Mode(run, enabled, None, plan, ModeOptions()):
            result = self._fn()
        self.runs += 1
        self.bar.describe(tr("run {number}", number=self.runs))
        try:
            return plan, run, self._bad(result)
        except _ShapesError as error:  # a part may leave a gradient out: None is not the target, either
            self.misfits[native] = error
            return plan, run, True


def _bisected(program: _Program, over: str) -> Bisection:
    """Both ends, then ever smaller parts."""
    torchs = program.explore()
    keys = list(program.units)
    if not keys:
        raise BisectionError("no call of fn ran on Torch's kernels: there is nothing to exchange")
    paddles = program.bad(keys)
    if frozenset() in program.misfits and frozenset(keys) in program.misfits:
        raise program.misfits[frozenset()]
    if torchs == paddles:
        raise BisectionError(_no_end(program, over, paddles))
    everything = frozenset(keys)

    def native(part: Iterable[Key]) -> frozenset[Key]:
        return frozenset(part) if paddles else everything - frozenset(part)

    def does(part: Sequence[Key]) -> bool:
        program.bar.reach(len(keys) - len(part), len(keys))
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
    """Why there is no difference to look for."""
    natively = program.natively()
    if bad:
        return tr(
            "the result is bad with all {over} on Torch's kernels, as on Paddle's: that does "
            "not come from these kernels (a mistake of the program, or ops that stay native: print a run of "
            "padiff_shim.reference)",
            over=over,
        )
    if natively:
        return tr(
            "the result is bad natively, but not under the shim with no {over} exchanged: the "
            "difference comes from how gradients are added up, not from a kernel",
            over=over,
        )
    return tr(
        "the result is good on Paddle's kernels, and with all {over} on Torch's: there is no difference to look for", over=over
    )
