"""Draws random Paddle programs, line by line: each line is tried natively before the next is drawn.

A line that raises is kept now and then (errors must be the same, too); one that makes numbers grow out of hand, or that is not the
same twice, is taken back. ``choose(n)`` gives a number below n: Hypothesis draws and shrinks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle

from . import prelude
from .check import Progress
from .execute import Plan
from .grammar import GRAMMAR, NESTED
from .words import FLOATS, Nothing, broadcast

SHAPES = ([3, 4], [4, 3], [4, 4], [4], [3, 1], [2, 3, 4], [1, 4], [2, 4, 3], [])
LIMIT = 1e3  # larger numbers would make "equal but for rounding" mean little


class Program:
    """A program being drawn, with its native state."""

    def __init__(self, choose: Callable[[int], int], progress: Progress, *, nested: bool = False) -> None:
        self.grammar = NESTED if nested else GRAMMAR
        self.choose, self.progress = choose, progress
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
        self.count = 0
        self.hooks = 0
        self.spoilt = False  # the last line left gradients switched off
        self.replay()

    def pick(self, options: Any) -> Any:
        """One of several."""
        return options[self.choose(len(options))]

    def chance(self, one_in: int) -> bool:
        """True once in so many draws; shrinks to False."""
        return self.choose(one_in) == one_in - 1

    def replay(self) -> None:
        """The native state after the lines so far, made anew."""
        paddle.seed(7)
        self.scope = prelude.namespace()
        for line in self.lines:
            self._run(line)

    def _run(self, line: str) -> BaseException | None:
        self.spoilt = False
        try:
            exec(line, self.scope)
        except Exception as error:
            self.spoilt = not paddle.is_grad_enabled()  # a defect of Paddle's: "an error while a saved tensor is unpacked"
            paddle.base.framework._dygraph_tracer()._has_grad = True
            return error
        return None

    # What stands in a line

    def tensors(self, wanted: Callable[[Any], bool] = lambda t: True) -> list[str]:
        """Names of variables that fit; the latest first, which small draws prefer."""
        names = [n for n, v in self.scope.items() if n[0] == "t" and n[1:].isdigit() and isinstance(v, paddle.Tensor) and wanted(v)]
        return names[::-1]

    def tensor(self, wanted: Callable[[Any], bool] = lambda t: True) -> str:
        """A variable that fits; raises :class:`Nothing` if there is none."""
        names = self.tensors(wanted)
        if not names:
            raise Nothing
        return self.pick(names)

    def floating(self, wanted: Callable[[Any], bool] = lambda t: True) -> str:
        """A float variable."""
        return self.tensor(lambda t: t.is_floating_point() and wanted(t))

    def partner(self, name: str, *, same: bool = False) -> str:
        """A float variable that broadcasts with ``name`` (or has its very shape); seldom one that does not."""
        shape = self.scope[name].shape
        fits = (lambda t: t.shape == shape) if same else (lambda t: broadcast(t.shape, shape))
        return self.floating(fits) if not self.chance(40) else self.floating()

    def new(self) -> str:
        """A name for a result."""
        self.count += 1
        return f"t{self.count}"

    @property
    def spent(self) -> bool:
        """Whether a backward may have run through a PyLayer: a second one crashes Paddle 3.3.1 and 2.6.2 natively."""
        made = [number for number, line in enumerate(self.lines) if ".apply(" in line or "use_reentrant=True" in line]
        return bool(made) and any(map(frees, self.lines[made[0] :]))

    @property
    def asks(self) -> bool:
        """Whether a paddle.grad may come to another one within: natively that ends the process (docs/defects.md)."""
        return any("Asking.apply(" in line or ("lambda" in line and ("slope(" in line or "bent(" in line)) for line in self.lines)

    # Drawing

    def draw(self, length: int) -> list[str]:
        """A program of about ``length`` lines."""
        for _ in range(2 + self.choose(2)):
            self.add(self.leaf())
        while len(self.lines) < length:
            try:
                line = self.pick(self.grammar)(self)
            except Nothing:
                line = self.leaf()
            self.add(line)
        return self.lines

    def leaf(self) -> str:
        """A new leaf."""
        shape, dtype = self.pick(SHAPES), self.pick(FLOATS) if self.chance(3) else "float32"
        if self.chance(12):
            dtype = self.pick(("int64", "bool"))
        grad = not self.chance(4)
        return f"{self.new()} = make({shape}, '{dtype}', {self.count}, {grad})"

    def add(self, line: str) -> None:
        """Try a line and keep it, or take it back."""
        before = dict(self.scope)
        self.progress.note([*self.lines, line], "none: being drawn")
        error = self._run(line)
        if (error is None or (not self.spoilt and self.chance(3))) and self._tame():
            self.lines.append(line)
        elif error is None or before.keys() != self.scope.keys() or "_" in line or "=" in line or frees(line):
            self.replay()

    def _tame(self) -> bool:
        for value in self.scope.values():
            if isinstance(value, paddle.Tensor) and value._is_initialized() and value.is_floating_point():
                with paddle.no_grad():
                    numbers = value.detach().astype("float64").numpy()
                    grad = value.grad if value.is_leaf else None
                    if grad is not None and grad._is_initialized():
                        numbers = np.concatenate([numbers.ravel(), grad.astype("float64").numpy().ravel()])
                if numbers.size and not np.abs(numbers).max() < LIMIT:
                    return False
        return True


def frees(line: str) -> bool:
    """Whether a line runs a backward that frees what it has walked; of PyLayers, under the tape, every one does."""
    return "backward(" in line or "paddle.grad(" in line


OPTIONS = {
    "compare": (
        "every=2",
        "defer=True",
        "shadow=True",
        "first=1",
        "audit=1",
        "budget=0.5",
        "exclude='linear'",
        "linear_layout='view'",
    ),
    "reference": ("linear_layout='view'", "exclude=['matmul', 'add']", "ops=['matmul', 'linear', 'tanh']"),
}


def schedule(choose: Callable[[int], int], length: int) -> Plan:
    """Modes of both kinds that open and close anywhere, in any order."""
    events: dict[int, list[tuple[str, ...]]] = {}
    kinds = ("compare", "reference") if choose(3) else ("compare",)
    for number in range(1 + choose(3)):
        first, last = sorted((choose(length), choose(length + 1)))
        kind = kinds[choose(len(kinds))]
        options = OPTIONS[kind][choose(len(OPTIONS[kind]))] if choose(2) else ""
        events.setdefault(first, []).append(("open", kind, f"m{number}", options))
        events.setdefault(max(last, first + 1), []).append(("close", f"m{number}"))
    return Plan("schedule", events)
