"""What is known of an optimizer's step while its updates run, one parameter after the other.

Paddle's C functions get a learning rate of float32, and gradients to which L2 decay was added in a rounding of its own. Torch's
optimizers take the number that the program wrote, and add the decay themselves. Both are known to the optimizer alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from paddle.regularizer import L2Decay

from ..frameworks.memory import as_it_lies

_ROUNDED = 2.0**-22  # two roundings to float32, as a ratio


class _Here(threading.local):
    """The step that runs in one thread."""

    now: Pass | None = None


_here = _Here()


class Pass:
    """One pass of an optimizer over (a group of) its parameters."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._base: float | None = None
        self._read: dict[int, tuple[Any, float]] = {}  # tensors of learning rates, and what they hold

    def base(self) -> float:
        """The optimizer's learning rate as its program wrote it, or its schedule computed it."""
        if self._base is None:
            given = self._optimizer._learning_rate
            self._base = float(given() if callable(given) else given)
        return self._base

    def read(self, tensor: Any) -> float:
        """What a tensor with a learning rate holds."""
        known = self._read.get(id(tensor))
        if known is None:
            known = self._read[id(tensor)] = tensor, as_it_lies(tensor).item()
        return known[1]


def learning_rate(tensor: Any, param: Any) -> float:
    """The learning rate of an update: in a step the unrounded number, if that is what the tensor was made of."""
    now = _here.now
    if now is None:
        return float(as_it_lies(tensor).item())
    held = now.read(tensor)
    factor = (getattr(param, "optimize_attr", None) or {}).get("learning_rate", 1.0)
    if not isinstance(factor, (int, float)):
        return held
    exact = now.base() if factor == 1.0 else now.base() * factor
    return exact if abs(exact - held) <= _ROUNDED * abs(exact) else held


def run(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``Optimizer._create_optimization_pass``."""
    outer, _here.now = _here.now, Pass(args[0])
    try:
        return original(*args, **kwargs)
    finally:
        _here.now = outer
        _decays.by_param = {}


class _Decays(threading.local):
    """L2 decay that was not added to gradients yet, by the identity of the parameter."""

    def __init__(self) -> None:
        self.by_param: dict[int, tuple[float, Callable[[], Any]]] = {}


_decays = _Decays()


def put_off(coupled: Callable[[Any], bool], original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``Optimizer.append_regularization_ops``: decay that Torch's optimizer adds by itself is left to it.

    ``coupled`` says of an optimizer whether its updates take the decay of the gradient.
    """
    _decays.by_param = {}
    optimizer, pairs, regularization = _spelled(*args, **kwargs)
    if not coupled(optimizer):
        return original(*args, **kwargs)
    found = []
    for param, grad in pairs:
        own = getattr(param, "regularizer", None)
        chosen = regularization if own is None else own
        if grad is None or type(chosen) is not L2Decay or param.dtype != grad.dtype:
            [(param, grad)] = original(optimizer, [(param, grad)], regularization)
        elif not _adds_it_in_its_kernel(optimizer, own):
            _decays.by_param[id(param)] = chosen._coeff, _adding(original, optimizer, param, grad, regularization)
        found.append((param, grad))
    return found


def _adding(original: Callable[..., Any], optimizer: Any, param: Any, grad: Any, regularization: Any) -> Callable[[], Any]:
    """Paddle's own gradient with the decay in it."""
    return lambda: original(optimizer, [(param, grad)], regularization)[0][1]


def _spelled(optimizer: Any, parameters_and_grads: Any, regularization: Any = None) -> tuple[Any, Any, Any]:
    return optimizer, parameters_and_grads, regularization


def _adds_it_in_its_kernel(optimizer: Any, own: Any) -> bool:
    """Momentum's kernel adds the decay of a parameter itself."""
    return optimizer.type == "momentum" and type(own) is L2Decay


def decay_of(param: Any) -> float:
    """The coefficient of L2 decay that an update of ``param`` has to add."""
    return 0.0 if _here.now is None else _decays.by_param.get(id(param), (0.0, None))[0]


def gradient_with_decay(param: Any, grad: Any) -> Any:
    """The gradient as Paddle's own kernel needs it: with the decay that was put off."""
    _, add = _decays.by_param.get(id(param), (0.0, None))
    return grad if add is None or _here.now is None else add()
