"""Draws random Paddle programs, line by line: each line is tried natively before the next is drawn.

A line that raises is kept now and then (errors must be the same, too); one that makes numbers grow out of hand, or that is not the
same twice, is taken back. ``choose(n)`` gives a number below n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle

from . import prelude
from .execute import Plan
from .progress import Progress
from .words import FLOATS, Nothing, broadcast

SHAPES = ([3, 4], [4, 3], [4, 4], [4], [3, 1], [2, 3, 4], [1, 4], [2, 4, 3], [])
LIMIT = 1e3  # larger numbers would make "equal but for rounding" mean little
ELEMENTS, AXES = 4000, 7  # of a tensor, at most
UNPACKED = 4  # results of one call that get a name each

Kind = Callable[["Program"], "str | None"]


class Program:
    """A program being drawn, with its native state."""

    def __init__(self, choose: Callable[[int], int], progress: Progress, grammar: Sequence[Kind], *, edges: bool = False) -> None:
        self.grammar, self.edges = grammar, edges  # whether there are NaN and infinities
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
        """True once in so many draws."""
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
            self.spoilt = not paddle.is_grad_enabled()  # a defect of Paddle's: "error in a saved tensor hook disables gradients"
            paddle.base.framework._dygraph_tracer()._has_grad = True
            return error
        return None

    # What stands in a line

    def tensors(self, wanted: Callable[[Any], bool] = lambda t: True) -> list[str]:
        """Names of variables that fit; the latest first."""
        names = [n for n, v in self.scope.items() if n[0] == "t" and n[1:].isdigit() and isinstance(v, paddle.Tensor) and wanted(v)]
        return names[::-1]

    def layers(self, wanted: Callable[[Any], bool] = lambda layer: True) -> list[str]:
        """Names of the layers that fit."""
        return [n for n, v in self.scope.items() if n[0] == "p" and n[1:].isdigit() and wanted(v)]

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

    def new(self, letter: str = "t") -> str:
        """A name for a result."""
        self.count += 1
        return f"{letter}{self.count}"

    def dtype(self) -> str:
        """A kind of float."""
        return self.pick(FLOATS) if self.chance(2) else "float32"

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
        tries = 0
        while len(self.lines) < length and tries < 20 * length:
            tries += 1
            try:
                line = self.pick(self.grammar)(self)
            except Nothing:
                line = self.leaf()
            if line is not None:
                self.add(line)
        return self.lines

    def leaf(self) -> str:
        """A new leaf."""
        shape, dtype = self.pick(SHAPES), self.pick(FLOATS) if self.chance(3) else "float32"
        if self.chance(12):
            dtype = self.pick(("int64", "bool"))
        grad = not self.chance(4)
        return f"{self.new()} = make({shape}, '{dtype}', {self.count}, {grad})"

    def make(self, shape: list[int], dtype: str, grad: bool, below: int | None = None) -> str:
        """The name of a leaf of this shape, made in a line of its own; its integers lie ``below`` a limit."""
        name = self.new()
        more = "" if below is None else f", below={below}"
        if self.edges and dtype in FLOATS and not self.chance(3):
            more += ", edges=True"
        self.add(f"{name} = make({shape}, '{dtype}', {self.count}, {grad}{more})")
        if name not in self.scope:
            raise Nothing
        return name

    def add(self, line: str) -> bool:
        """Try a line and keep it, or take it back; returns whether it ran."""
        before = dict(self.scope)
        self.progress.note([*self.lines, line], "none: being drawn")
        error = self._run(line)
        if (error is None or (not self.spoilt and self.chance(3))) and self._tame():
            self.lines.append(line)
            return error is None
        if error is None or before.keys() != self.scope.keys() or "_" in line or "=" in line or frees(line):
            self.replay()
        return False

    def call(self, expression: str, around: str = "") -> None:
        """Try a call and keep it, its results by name; ``around``: the head of a ``with`` statement."""
        self.progress.note([*self.lines, f"{around}{expression}"], "none: being drawn")
        error = self._run(f"{around}result = {expression}")
        if error is not None:
            if not self.spoilt and self.chance(3):
                self.lines.append(f"{around}{self.new()} = {expression}")
            else:
                self.replay()
            return
        result = self.scope.pop("result")
        self.lines.append(f"{around}{self._name(result)} = {expression}")
        if not self._tame():
            self.lines.pop()
            self.replay()

    def _name(self, result: Any) -> str:
        """The target of an assignment of a result, which is made: a name for each of several tensors."""
        parts = tensors_of(result)
        if not parts or len(parts) > UNPACKED:
            name = self.new("n")
            self.scope[name] = result
            return name
        names = [self.new() for _ in parts]
        self.scope.update(zip(names, parts))
        alone = isinstance(result, (list, tuple)) and len(names) == 1
        return ", ".join(names) + "," * alone

    def _tame(self) -> bool:
        for value in self.scope.values():
            if isinstance(value, paddle.Tensor) and value._is_initialized():
                if value.size > ELEMENTS or value.ndim > AXES:
                    return False
                if not self.edges and not all(
                    _small(part) for part in (value, value.grad if value.is_leaf else None) if part is not None
                ):
                    return False
        return True


def tensors_of(result: Any) -> list[paddle.Tensor]:
    """A result that is a tensor, or several; none if there is anything else among them."""
    parts = result if isinstance(result, (list, tuple)) else [result]
    return list(parts) if all(isinstance(part, paddle.Tensor) for part in parts) else []


def _small(tensor: paddle.Tensor) -> bool:
    if not tensor._is_initialized() or not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    with paddle.no_grad():
        shown = tensor.detach()
        numbers = (shown.astype("float64") if str(shown.dtype).endswith("float16") else shown).numpy()
    return not numbers.size or bool(np.abs(numbers).max() < LIMIT)


def frees(line: str) -> bool:
    """Whether a line runs a backward that frees what it has walked; of PyLayers, under the tape, every one does."""
    return "backward(" in line or "paddle.grad(" in line


OPTIONS = {
    "compare": (
        "every=2",
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
