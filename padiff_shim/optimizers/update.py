"""The words of an optimizer: one declaration says which C function of Paddle's makes its update, and what Torch has for it.

A formula computes in place on the tensors of a :class:`Step`. ``torch`` is Torch's definition, its own functional optimizer.
``paddle`` is Paddle's where that is another one (an epsilon inside of a root); without it both define the same, up to rounding, and
Torch's function serves for both.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..table import reasons
from ..table.reasons import StayNative

_FAMILIES = ("adaptive", "descent", "scaled")  # modules of this room that declare updates
CLIPPERS = {  # class in paddle.nn -> what a run counts it by; see clipping.py
    "ClipGradByGlobalNorm": "clip_grad_by_global_norm",
    "ClipGradByNorm": "clip_grad_by_norm",
}


class Step:
    """One update of one parameter: the arguments of Paddle's C function by name, its tensors as Torch's over the same memory.

    ``param`` is what is updated: the master weight if there is one. ``grad`` has its dtype. ``lr`` is the number that the program
    wrote, not the float32 that Paddle makes of it. ``decay`` is the coefficient of L2 decay that belongs to the gradient, which
    Paddle would have added to it before.
    """

    param: Any
    grad: Any
    lr: float
    decay: float
    fresh: bool  # no update of ours was made with these accumulators, and they are zero

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        raise StayNative(reasons.MISSING, name=name)

    def decayed(self) -> Any:
        """The gradient with its L2 decay."""
        return self.grad.add(self.param, alpha=self.decay) if self.decay else self.grad


Formula = Callable[[Step], None]


@dataclass(frozen=True)
class Update:
    """One C function of ``paddle._C_ops`` that updates a parameter in place.

    Attributes:
        name: what a run counts it by.
        door: the C function's name.
        optimizer: the class in ``paddle.optimizer``.
        params: the C function's parameters, in order; ``+`` marks those that Paddle 2.6 does not have.
        results: the parameters that it returns.
        torch: Torch's definition, or None where Torch has no such optimizer.
        paddle: Paddle's definition, if it is another one.
        twin: Torch's optimizer in words.
        differs: how the definitions differ, in words.
        coupled: whether ``torch`` adds L2 decay to the gradient, as Paddle's regularizers do.
        velocity: the accumulator that Torch begins with the first gradient, and Paddle with zero.
    """

    name: str
    door: str
    optimizer: str
    params: str
    results: str
    torch: Formula | None = None
    paddle: Formula | None = None
    twin: str = ""
    differs: str = ""
    coupled: bool = True
    velocity: str = ""

    def formula(self, definition: str) -> tuple[Formula, str]:
        """What computes the update, and whose definition it is; where Torch has none, Paddle's."""
        chosen = self.torch if definition == "torch" or self.paddle is None else self.paddle
        if chosen is None:
            chosen = self.paddle
        if chosen is None:
            raise ValueError(f"update {self.name!r} has no formula")
        return chosen, "torch" if chosen is self.torch else "paddle"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, in the spelling of the Paddle version that has so many. Raises StayNative for any other."""
        for names in self._spellings:
            if len(args) + len(kwargs) == len(names) and not set(kwargs) - set(names[len(args) :]):
                return dict(zip(names, args), **kwargs)
        raise StayNative(reasons.UPDATE_FORM, count=len(args) + len(kwargs))

    @functools.cached_property
    def _spellings(self) -> tuple[tuple[str, ...], ...]:
        words = self.params.split()
        return tuple(w.rstrip("+") for w in words), tuple(w for w in words if not w.endswith("+"))


@functools.cache
def updates() -> dict[str, Update]:
    """All declared updates by the name of their C function."""
    found: dict[str, Update] = {}
    for family in _FAMILIES:
        module = importlib.import_module(f"{__package__}.{family}")
        for one in vars(module).values():
            if isinstance(one, Update):
                found[one.door] = one
    return found


def update(door: str, optimizer: str, params: str, results: str, **words: Any) -> Callable[[Formula], Update]:
    """Declare an update: decorates Torch's definition, or Paddle's with ``of="paddle"``."""
    of = words.pop("of", "torch")

    def declared(formula: Formula) -> Update:
        words[of] = formula
        return Update(door.rstrip("_"), door, optimizer, params, results, **words)

    return declared
