"""Which calls are compared: steps, every n-th, the first ones of a kind then a reservoir, and a budget of time."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

from ..errors import PadiffShimError
from ..runlog.counts import OTHER_STEP, OVER_BUDGET, RESERVOIR, THINNED

COLD = 1.35  # what a comparison costs over what its clock shows: after it the program finds cold caches (measured)
LEAST = 0.25  # of the budget: what comparing gets where the hooks that stay cost more than all of it


def fraction(budget: str | float | None) -> float | None:
    """``"10%"`` or ``0.1`` -> 0.1.

    Raises:
        PadiffShimError: for anything that is not a positive share.
    """
    if budget is None:
        return None
    share: float | None = None
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", budget)
        share = float(match[1]) / 100 if match and float(match[1]) <= 100 else None
    elif isinstance(budget, (int, float)) and not isinstance(budget, bool):
        share = float(budget)
    if share is None or not 0 < share < float("inf"):
        raise PadiffShimError("budget= is a share of the native time such as '10%' or 0.1, got {budget}", budget=repr(budget))
    return share


def positive(name: str, value: int | None) -> int | None:
    """A whole number from 1 on, or None.

    Raises:
        PadiffShimError: for anything else.
    """
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise PadiffShimError("{name}= is a whole number from 1 on, got {value}", name=name, value=repr(value))
    return value


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def in_steps(steps: Any) -> Callable[[int], bool] | None:
    """Whether a step is among ``steps``, as a function; None: every one is.

    Raises:
        PadiffShimError: ``steps`` is not a number, range, set, slice or function of a step.
    """
    if steps is None:
        return None
    if _is_step(steps):
        return lambda step: bool(step == steps)
    if isinstance(steps, slice):
        start, stop, stride = steps.start or 0, steps.stop, 1 if steps.step is None else steps.step
        if stride < 1 or (stop is not None and stop <= start):
            raise PadiffShimError("steps= holds no step: {start}:{stop}:{stride}", start=start, stop=stop or "", stride=stride)
        return lambda step: step >= start and (stop is None or step < stop) and (step - start) % stride == 0
    if isinstance(steps, (list, tuple, set, frozenset, range)):
        sound = bool(steps) and all(_is_step(step) for step in steps)
    else:
        sound = isinstance(steps, Container) and not isinstance(steps, str)
    if sound:
        return lambda step: step in steps
    if callable(steps):
        return lambda step: bool(steps(step))
    raise PadiffShimError(
        "steps= is a step number from 0 on, a range or set of them, a slice or a function of it, got {steps}", steps=repr(steps)
    )


@dataclass
class _Kind:
    """The calls of one (op, shapes, dtypes)."""

    calls: int = 0
    compared: int = 0
    forward: float = 0.0  # seconds that comparing one of them took beyond its native kernel: the larger ones count, and are
    backward: float = 0.0  # forgotten slowly

    @property
    def cost(self) -> float:
        """Of one call and its gradients."""
        return self.forward + self.backward


class Sampling:
    """Decides call by call, and keeps account of the time that comparing takes.

    Args:
        steps: a step number, range, set, slice or predicate; other steps run natively.
        every: compare each n-th call of a kind (same op, shapes and dtypes).
        first: compare the first ones of a kind; later call number n is compared with probability first / n (a reservoir).
        budget: share of the native time that comparing may take (``"10%"``); kinds not compared yet come first.
        seed: of the reservoir's own generator; the program's random state is never touched.
        clock: gives seconds; see :func:`padiff_shim.comparison.plan.measure`.

    The account of ``budget`` holds all that the mode costs: besides the comparisons the way into each hook, keys, counters,
    gradient hooks (*plumbing*), and later openings of the mode. Where plumbing alone exceeds the budget, the hooks stand
    idle, and most of them are taken away, from one *pulse* of the program to the next (the start of an outermost layer, the end of
    a backward) until the account can bear a stretch of calls again. Then at least one call of that stretch is compared. What
    stays all the time (hooks of layers and backwards) is the *floor*; where it alone exceeds the budget, comparing gets
    :data:`LEAST` of it on top.
    """

    def __init__(
        self,
        *,
        steps: Any = None,
        every: int | None = None,
        first: int | None = None,
        budget: str | float | None = None,
        seed: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._in_steps = in_steps(steps)
        self._every, self._first = positive("every", every), positive("first", first)
        share = fraction(budget)
        self._budget = None if share is None else share / COLD
        self._random = random.Random(seed)
        self._kinds: dict[Any, _Kind] = {}
        self._opened: float | None = None
        self._before = 0.0  # seconds that the mode was open in earlier openings
        self.extra = 0.0  # seconds spent on comparing so far
        self.everything = steps is None and every is None and first is None and budget is None
        self.accounts = budget is not None
        self.clock = clock
        # Seconds that the way into a hook and out of it takes, that noting a layer takes, and the hook of a backward.
        self.entry = self.layer = self.engine = 0.0
        self.floor = 0.0  # the part of ``extra`` that goes to hooks which stay
        self._turn = 0.0  # seconds that it takes to take the hooks away, or to bring them back
        self._owed = True  # no call of this stretch was compared yet
        self._thread = 0  # whose clock runs
        self._seen = 0.0  # native seconds, when that thread looked last
        self._asleep_until = 0.0  # by the clock: the account cannot bear a stretch of calls before
        self._due = 0.0  # what the gradients of calls compared are going to cost
        self.idle = self.stretches = 0  # stretches between two pulses in which the hooks stood idle; all stretches
        self._calls = self._usual_calls = 0  # hooked calls in this stretch; in the latest one that was watched
        self._plumbing = self._usual_plumbing = 0.0  # the same of seconds
        self._inside = 0.0  # seconds of native kernels that were called inside of hooks
        self._skip = 0  # calls of this stretch that are passed over, so that the budget does not always go to the first ones

    def begin(self, began: float | None = None) -> None:
        """The mode is open: the clock of the budget runs. ``began``: when opening it began, to be in the account."""
        if self._opened is None:
            now = self.clock()
            self._opened, self._thread = now if began is None else began, threading.get_ident()
            self.extra += now - self._opened
            self._asleep_until = 0.0  # another thread may have another clock

    def end(self, began: float | None = None) -> None:
        """The mode is closed. ``began``: when closing it began, to be in the account."""
        if self._opened is not None and threading.get_ident() == self._thread:
            now = self.clock()
            self._before, self._opened = self._before + now - self._opened, None
            self.extra += now - (now if began is None else began)

    def _native_seconds(self) -> float:
        """Time in the mode that was not spent on comparing. In another thread than that which opened it: when it looked last."""
        if self._opened is None:
            self._seen = self._before - self.extra
        elif threading.get_ident() == self._thread:
            self._seen = self._before + self.clock() - self._opened - self.extra
        return self._seen

    def charge(self, seconds: float, *, stays: bool = False) -> None:
        """What the mode took outside of all hooks. ``stays``: it takes that as well while the hooks stand idle."""
        self.extra += seconds
        self.floor += seconds if stays else 0.0

    def stays(self, seconds: float) -> None:
        """The same of hooks that stay while the others stand idle; measured in a loop, with warm caches."""
        self.extra += COLD * seconds
        self.floor += COLD * seconds

    def turned(self, seconds: float) -> None:
        """Taking the hooks away, or bringing them back, took so long."""
        self._turn = max(seconds, 0.75 * self._turn)

    def refusal(self, key: Any, step: int) -> str | None:
        """Why the call of this kind is not compared, or None: compare it."""
        if self.everything:
            return None
        if self._in_steps is not None and not self._in_steps(step):
            return OTHER_STEP
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind()
        kind.calls += 1
        if self._every is not None and (kind.calls - 1) % self._every:
            return THINNED
        if self._first is not None and kind.calls > self._first and self._random.random() >= self._first / kind.calls:
            return RESERVOIR
        if self._budget is not None and not self._affordable(kind):
            return OVER_BUDGET
        kind.compared += 1
        self._due += kind.backward
        return None

    def _affordable(self, kind: _Kind) -> bool:
        allowed = self._allowed()
        # A kind never compared may overdraw the account, so that each is seen once; the debt is worked off before repeats.
        if kind.compared and self._skip > 0:
            self._skip -= 1
            return False
        owed, self._owed = self._owed, False  # a stretch for which the hooks came back
        return owed or (self.extra <= allowed if not kind.compared else self.extra + self._due + kind.cost <= allowed)

    def _allowed(self) -> float:
        """Seconds that comparing may have taken so far, with all that belongs to it."""
        whole = self._budget * self._native_seconds()  # type: ignore[operator]
        return max(whole, self.floor + LEAST * whole)

    @property
    def over(self) -> float | None:
        """The share of the native time that the hooks which stay take, where that is more than the budget."""
        native = self._native_seconds()
        return self.floor / native if self._budget is not None and native > 0 and self.floor > self._budget * native else None

    def enter(self) -> float:
        """A hook begins; returns the argument of :meth:`leave`."""
        return self.clock() - self._inside - self.extra

    def native(self, seconds: float) -> None:
        """A native kernel ran inside of a hook."""
        self._inside += seconds

    def leave(self, entered: float) -> None:
        """A hook ends: what it took beyond native kernels, and what is in the account already, is plumbing."""
        seconds = self.clock() - self._inside - self.extra - entered + self.entry
        self._calls += 1
        self._plumbing += seconds
        self.extra += seconds

    def pulse(self, idle: bool, *, away: bool = False, layers: int = 0) -> bool:
        """A stretch of the program ends: whether the hooks stand idle in the next one.

        ``idle``: whether they did in this one, and ``away``, whether they were even taken away; ``layers``: how many calls of
        layers it held.
        """
        self.stretches += 1
        self._due = 0.0
        self.stays(layers * self.layer)
        if idle:
            self.idle += 1
            self.stays(0.0 if away else self._usual_calls * self.entry)  # a hook that stands idle is entered all the same
        elif self._calls:
            self._usual_calls, self._usual_plumbing = self._calls, self._plumbing
        self._calls, self._plumbing = 0, 0.0
        allowed = self._allowed()
        costs = sorted(kind.cost for kind in self._kinds.values() if kind.compared)
        usual = costs[len(costs) // 2] if costs else 0.0
        ahead = self._usual_plumbing + 2 * self._turn + usual
        begins = self.stretches == 1 and not idle and self._owed  # so that something is compared, whatever the budget
        rest = not begins and self.extra + (ahead if idle else 0.0) > allowed
        if rest:
            self._asleep_until = self.clock() + (self.extra + ahead - allowed) / self._budget  # type: ignore[operator]
        wakes = idle and not rest
        # The stretch before may have ended before its call was met: then the first one is compared.
        self._skip = self._random.randrange(self._usual_calls) if wakes and self._usual_calls and not self._owed else 0
        self._owed = self._owed or wakes
        return rest

    def sleeps(self) -> bool:
        """Whether a stretch that begins after an idle one is idle for certain, which is counted."""
        if self.clock() >= self._asleep_until:
            return False
        self.stretches += 1
        self.idle += 1
        self.stays(2 * self.entry)  # about what this takes
        return True

    def spent(self, key: Any, seconds: float, *, backward: bool = False) -> None:
        """Comparing a call of this kind (or its gradients: ``backward``) took ``seconds`` beyond the native kernel."""
        self.extra += seconds
        kind = self._kinds.get(key)
        if kind is None:
            return
        if backward:
            self._due = max(0.0, self._due - kind.backward)
            kind.backward = max(seconds, 0.75 * kind.backward)
        else:
            kind.forward = max(seconds, 0.75 * kind.forward)


def kind_of(op: str, operands: Any) -> tuple[Any, ...]:
    """The kind of a call: op, and shape and dtype of every operand; of attributes and what else a user may pass the type."""
    return (op, *map(_kind, operands))


def _kind(operand: Any) -> Any:
    if isinstance(operand, (list, tuple)):
        return tuple(map(_kind, operand))
    return (tuple(operand.shape), operand.dtype) if hasattr(operand, "dtype") else type(operand)
