"""An optimizer's step while it runs: its learning rate, the decay it puts off, and updates that wait to be made together.

Paddle's C functions get a learning rate of float32, and gradients to which L2 decay was added in a rounding of its own. Torch's
optimizers take the number that the program wrote, and add the decay themselves. Both are known to the optimizer alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from paddle.regularizer import L2Decay

from ..dispatch.plan import Unlisted
from ..frameworks.windows import on_torchs_side
from ..optimizers.update import Update

_NONE: dict[str, Any] = {}
_NUMBERS = frozenset({int, float})
_ROUNDED = 2.0**-22  # two roundings to float32, as a ratio


class Waiting(NamedTuple):
    """One update of one parameter; in one that is kept the frame, the gradient and the learning rate are None."""

    declared: Update
    other: Unlisted
    frame: Any  # a Frame, or None
    args: tuple[Any, ...]
    lists: dict[str, bool] | None = None  # of a call for several parameters: see Update.lists


class Pass:
    """One pass of an optimizer over (a group of) its parameters."""

    def __init__(self, optimizer: Any, *, collects: bool) -> None:
        self.optimizer = optimizer
        self.collects = collects  # updates may wait: nothing reads in between what they write
        self.waiting: dict[int, Waiting] = {}  # by the identity of the parameter
        self.made: list[tuple[Waiting, Any]] = []  # updates on Torch's side, with what was crossed
        self.whole = True  # no update was native
        self.pairs: list[tuple[Any, Any]] = []  # of updates that are made again: parameters with their gradients
        self.decays: dict[int, tuple[float, Callable[[], Any]]] = {}  # by the identity of the parameter
        self._base: float | None = None
        self._read: dict[int, tuple[Any, float]] = {}  # tensors of learning rates, and what they hold
        self._rates: dict[tuple[int, Any], float] = {}

    def base(self) -> float:
        """The optimizer's learning rate as its program wrote it, or its schedule computed it."""
        if self._base is None:
            given = self.optimizer._learning_rate
            self._base = float(given() if callable(given) else given)
        return self._base

    def read(self, tensor: Any) -> float:
        """What a tensor with a learning rate holds."""
        known = self._read.get(id(tensor))
        if known is None:
            known = self._read[id(tensor)] = tensor, on_torchs_side(tensor, tensor).item()
        return known[1]

    def learning_rate(self, tensor: Any, param: Any) -> float:
        """The learning rate of an update: the unrounded number, if that is what the tensor was made of."""
        factor = (getattr(param, "optimize_attr", None) or _NONE).get("learning_rate", 1.0)
        key = id(tensor), factor
        known = self._rates.get(key)
        if known is None:
            known = self._rates[key] = self._exact(self.read(tensor), factor)
        return known

    def common_rate(self, tensor: Any) -> float:
        """The learning rate of a parameter without a factor; ``tensor``: the optimizer's."""
        return self._exact(self.read(tensor), 1.0)

    @staticmethod
    def factors(params: Sequence[Any]) -> list[float] | None:
        """What the learning rates of these parameters are multiplied by; None where one is no plain number."""
        found = [(getattr(param, "optimize_attr", None) or _NONE).get("learning_rate", 1.0) for param in params]
        plain = _NUMBERS.issuperset(map(type, found)) or all(isinstance(factor, (int, float)) for factor in found)
        return found if plain else None

    def kept_rate(self, common: float, factor: float) -> float | None:
        """The learning rate of an update whose tensor was not made; None where only that tells it."""
        if factor == 1.0:
            return common
        return common * factor if common == self.base() else None

    def decay_of(self, param: Any) -> float:
        """The coefficient of the L2 decay that was put off."""
        known = self.decays.get(id(param))
        return 0.0 if known is None else known[0]

    def given(self, one: Waiting) -> tuple[Any, ...]:
        """The arguments of an update, with what is left out of those that are kept."""
        args, declared = list(one.args), one.declared
        grad = next((grad for param, grad in self.pairs if param is args[0]), None)
        if one.frame is None and grad is not None:
            args[declared.place_of_grad] = grad
            if declared.place_of_rate is not None:
                args[declared.place_of_rate] = self.optimizer._create_param_lr((args[0], grad))
        return tuple(args)

    def _exact(self, held: float, factor: Any) -> float:
        if not isinstance(factor, (int, float)):
            return held
        exact = self.base() if factor == 1.0 else self.base() * factor
        return exact if abs(exact - held) <= _ROUNDED * abs(exact) else held


class _Here(threading.local):
    """The step that runs in one thread, and the decay that was put off for the next one."""

    now: Pass | None = None
    tried: int | None = None  # the identity of an optimizer whose step was found not to be as its last one, before it began
    decays: tuple[Any, dict[int, tuple[float, Callable[[], Any]]]] | None = None


_here = _Here()


def now() -> Pass | None:
    """The pass that runs in this thread."""
    return _here.now


def forget_decays() -> None:
    """No decay is put off for the next pass."""
    _here.decays = None


def tried(optimizer: Any) -> None:
    """The pass that comes next over this optimizer's parameters is not as the last one: nobody has to ask again."""
    _here.tried = id(optimizer)


def take_tried(optimizer: Any) -> bool:
    """Whether that was said of the pass that begins."""
    found, _here.tried = _here.tried, None
    return found == id(optimizer)


def is_paddles(optimizer: Any) -> bool:
    """Whether the optimizer makes its updates as Paddle's own classes do."""
    return str(type(optimizer)._append_optimize_op.__module__).startswith("paddle.optimizer.")


def finishes_as_paddles(optimizer: Any) -> bool:
    """Whether what the optimizer does behind its updates is done by Paddle's own class, and by nothing of this object alone."""
    own = str(type(optimizer)._finish_update.__module__).startswith("paddle.optimizer.")
    return own and "_finish_update" not in vars(optimizer)


def run(make: Callable[[Pass], Any], args: tuple[Any, ...]) -> Any:
    """``Optimizer._create_optimization_pass``, which ``make`` makes."""
    outer, (owner, decays) = _here.now, _here.decays or (None, {})
    here = _here.now = Pass(args[0], collects=is_paddles(args[0]))
    _here.decays = None
    if owner is args[0]:
        here.decays = decays
    try:
        return make(here)
    finally:
        _here.now = outer


def put_off(coupled: bool, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``Optimizer.append_regularization_ops``: decay that Torch's optimizer adds by itself is left to it."""
    _here.decays = None
    optimizer, pairs, regularization = _spelled(*args, **kwargs)
    if not coupled or not is_paddles(optimizer):
        return original(*args, **kwargs)
    leaves = str(type(optimizer)._create_regularization_of_grad.__module__).startswith("paddle.optimizer.")
    if leaves and regularization is None and all(getattr(param, "regularizer", None) is None for param, _ in pairs):
        _here.decays = optimizer, {}
        return list(pairs)
    found, decays = [], {}
    for pair in pairs:
        param, grad = pair
        own = getattr(param, "regularizer", None)
        chosen = regularization if own is None else own
        if chosen is None and leaves:
            pass
        elif grad is None or type(chosen) is not L2Decay or param.dtype != grad.dtype:
            [pair] = original(optimizer, [(param, grad)], regularization)
        elif not _adds_it_in_its_kernel(optimizer, own):
            decays[id(param)] = chosen._coeff, _adding(original, optimizer, param, grad, regularization)
        found.append(pair)
    _here.decays = optimizer, decays
    return found


def _adding(original: Callable[..., Any], optimizer: Any, param: Any, grad: Any, regularization: Any) -> Callable[[], Any]:
    """Paddle's own gradient with the decay in it."""
    return lambda: original(optimizer, [(param, grad)], regularization)[0][1]


def _spelled(optimizer: Any, parameters_and_grads: Any, regularization: Any = None) -> tuple[Any, Any, Any]:
    return optimizer, parameters_and_grads, regularization


def _adds_it_in_its_kernel(optimizer: Any, own: Any) -> bool:
    """Momentum's kernel adds the decay of a parameter itself."""
    return optimizer.type == "momentum" and type(own) is L2Decay
