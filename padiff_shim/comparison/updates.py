"""An optimizer's update as a compared call: Paddle's kernel beside the optimizer's formula, on copies of the states."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..dispatch.entry_point import EntryPoint
from ..dispatch.operands import CallOperands
from ..dispatch.prepare import NO_CASTS, Prepared
from ..frameworks.memory import HALVES, as_it_lies
from ..numerics import noise
from ..numerics.generic import Variant
from ..numerics.measured import JointFormula, JointResult
from ..numerics.tracing import Traits
from ..optimizers.step_cache import COUNTS, CrossedUpdate
from ..optimizers.update import Batch, Item, Update, single
from ..table.op import Entry, Op
from ..table.reasons import NO_OPTIMIZER, StayNative
from .compared_call import ComparedCall

STEPS = 4.0  # roundings of an element, of which a move of the operands stands for each


class Settings(NamedTuple):
    """What an update computes with besides the tensors of the parameter's shape, which changes from step to step.

    ``states``: numbers in tensors (powers of beta). ``halves``: the dtype of a parameter that is rounded behind the update.
    """

    numbers: Mapping[str, Any]
    rate: float
    states: Mapping[str, torch.Tensor]
    halves: torch.dtype | None

    def in_float32(self) -> Iterator[tuple[str, Settings]]:
        """The same with numbers as kernels have them whose attributes are float32: one of them, or all."""
        narrow = {name: single(value) for name, value in self.numbers.items() if isinstance(value, float)}
        for name, value in narrow.items():
            yield f"{name}->float32", self._replace(numbers={**self.numbers, name: value})
        yield "numbers->float32", self._replace(numbers={**self.numbers, **narrow})

    def __hash__(self) -> int:  # a place is that of all steps
        return hash(Settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in {"lr": self.rate, **self.numbers}.items())


class UpdateFormula(JointFormula):
    """The results of an update, bounded by runs with moved operands and numbers: elements do not mix, and there are few steps."""

    def _of(self, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return list(self._whole(*operands))

    def steps(self, apart: bool) -> tuple[None, None]:
        return None, None

    def moved(self, size: noise.MoveSize, seed: int, apart: bool) -> tuple[list[torch.Tensor], list[Traits]]:
        return self.beside(STEPS * max(size.step, size.sums), seed), [Traits(1.0, False, False)] * len(self.places)


class UpdateResult(JointResult):
    """One of them."""

    smooth = True

    def of(self, operands: Sequence[torch.Tensor]) -> UpdateResult:
        together = self.together
        if operands is together.operands:
            return self
        return UpdateResult(UpdateFormula(together.formula, operands, together.places, 0), self.index)


class UpdateCall(ComparedCall):
    """An update. ``results`` holds its formula."""

    def kernels(self, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self.results is None:
            sizes = sum(out.numel() for out in self.outs)
            self.results = UpdateFormula(self._chosen, self.operands, range(len(self.outs)), sizes)
        kernel = UpdateResult(self.results, position)
        variants = {
            name: Variant(functools.partial(self._other, position, settings), precision=True, wide=True)
            for name, settings in self.attributes[0].in_float32()
        }
        before = (
            0 if self.entry_point.op.results[position] == "master" else position
        )  # with which is computed in place of the parameter
        variants["not-written"] = Variant(lambda *tensors: tensors[before])
        return {"torch_kernel": kernel, "paddle_kernel": None, "operands": self.operands, "variants": variants}

    def _chosen(self, *tensors: torch.Tensor, chosen: Sequence[int]) -> list[torch.Tensor]:
        results = self.run(*tensors)
        return [results[position] for position in chosen]

    def _other(self, position: int, settings: Settings, *tensors: torch.Tensor) -> torch.Tensor:
        return self._run_other(None, *tensors, attributes=(settings,))[position]


class PreparedUpdate(NamedTuple):
    """An update, as :class:`UpdateCall` takes it, and the arguments of its entry_point."""

    entry_point: EntryPoint
    prepared: Prepared
    args: tuple[Any, ...]


def prepared(declared: Update, original: Callable[..., Any], args: Sequence[Any]) -> PreparedUpdate:
    """An update made ready; StayNative for forms that the formula does not know."""
    if declared.made_of:
        raise StayNative(NO_OPTIMIZER)
    names = declared.names(len(args))
    crossed = CrossedUpdate(declared, names, args)
    crossed.take(args[declared.place_of_grad])
    arguments, sides = dict(zip(names, args)), crossed.item.tensors
    param, master = arguments["param"], arguments.get("master") if arguments.get("multi_precision") else None
    shaped = [name for name, side in sides.items() if side.shape == sides["param"].shape and name not in COUNTS and name != "param"]
    inputs = [param if master is None else master, *[arguments[name] for name in shaped], arguments["grad"]]
    rate = declared.place_of_rate
    settings = Settings(
        crossed.numbers,
        0.0 if rate is None else as_it_lies(args[rate]).item(),
        {name: side.clone() for name, side in sides.items() if name not in shaped and name != "param"},
        crossed.written.dtype if crossed.written.dtype in HALVES else None,
    )
    results = (param, *inputs[1:-1], *([] if master is None else [master]))

    def update() -> tuple[Any, ...]:
        original(*args)
        return results

    tensors = [sides["param"], *[sides[name] for name in shaped], crossed.item.grad]
    operands = CallOperands([*inputs, None], [*tensors, torch.ones(_READS, dtype=tensors[0].dtype)], [])
    entry_point = _entry_point(declared, tuple(shaped), with_master=master is not None)
    return PreparedUpdate(entry_point, Prepared(operands, (settings,), NO_CASTS), (update,))


@functools.cache
def _entry_point(declared: Update, shaped: tuple[str, ...], *, with_master: bool) -> EntryPoint:
    """As if it was an entry point: of the parameter, its states of the same shape, the gradient, ones, and the settings."""
    names = ("param", *shaped)
    formula = functools.partial(_updated, declared, names, with_master)
    results = (*names, "master") if with_master else names
    params = " ".join([*names, "grad", "units", "settings"])
    op = Op(declared.name, formula, params, (), tensors=len(names) + 2, results=results, overwrites=names)
    return EntryPoint(op, Entry(f"paddle._C_ops.{declared.function}", params), lambda update: update())


_READS = 16  # of numbers, in one update


class _Number(float):
    """A number of an update, moved where another number is made of it: of 1 - beta few digits are left."""

    moves: Iterator[float]

    def __rsub__(self, other: float) -> float:
        return other - float(self) * next(self.moves)

    def __rmul__(self, other: float) -> float:
        return other * float(self) * next(self.moves)

    def __pow__(self, exponent: float, modulus: None = None) -> float:
        return (float(self) * next(self.moves)) ** exponent


def _updated(declared: Update, names: Sequence[str], with_master: bool, *arguments: Any) -> list[torch.Tensor]:
    """What the parameter and its states are after the update.

    ``units``: ones, and in runs that measure rounding what these are moved to: a kernel rounds the numbers of an update as well.
    """
    *tensors, grad, units, settings = arguments
    moves = itertools.cycle(units.tolist())
    rate = settings.rate * next(moves)  # so that a whole step is moved, also where moves of operands cancel: g / sqrt(g * g)
    moved = type("_Moved", (_Number,), {"moves": moves})
    numbers = {name: moved(value) if isinstance(value, float) else value for name, value in settings.numbers.items()}
    item = Item({name: side.clone() for name, side in (*zip(names, tensors), *settings.states.items())})
    item.grad, item.count = grad, torch.zeros((), dtype=torch.int64)  # a whole number, which no run moves
    with torch.no_grad():
        declared.formula("paddle")[0](Batch([item], numbers, rate, 0.0))
    param, *states = [item.tensors[name] for name in names]
    rounded = param if settings.halves is None or param.dtype is not torch.float32 else param.to(settings.halves)
    return [rounded, *states, *([param] if with_master else [])]
