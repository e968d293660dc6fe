"""Torch's optimizers on lists: the operations of ``torch.optim``'s functions for single tensors, in their order.

``step`` is the number of the step that is made, as Torch counts it. All is written in place, in the memory of parameters and state.
What is made in between is dropped before the next part makes its own, which gets the same memory then, still in the cache.
"""

from __future__ import annotations

from typing import Any

import torch

from .counts import mu_products
from .lists import lists
from .update import Batch


def sgd(b: Batch, step: float) -> None:
    """One operation without decay: nothing is gained by going from parameter to parameter."""
    if not b.decay:
        torch._foreach_add_(b.param, b.grad, alpha=-b.lr)
        return
    for on, param, grad in lists(b, "param", "grad"):
        on.add_(param, _decayed(on, b, param, grad), alpha=-b.lr)


def momentum(b: Batch, step: float) -> None:
    """A velocity that is fresh begins with the gradient."""
    for fresh in (True, False):
        items = [item for item in b.items if item.fresh is fresh]
        if items:
            _momentum(b.of(items), fresh)


def _momentum(b: Batch, fresh: bool) -> None:
    for on, param, grad, velocity in lists(b, "param", "grad", "velocity"):
        grad = _decayed(on, b, param, grad)
        if fresh:
            on.copy_(velocity, grad)
        else:
            on.mul_(velocity, b.mu)
            on.add_(velocity, grad, alpha=1)
        direction = on.add(grad, velocity, alpha=b.mu) if b.nesterov else velocity
        on.add_(param, direction, alpha=-b.lr)


def adagrad(b: Batch, step: float) -> None:
    for on, param, grad, moment in lists(b, "param", "grad", "moment"):
        grad = _decayed(on, b, param, grad)
        on.addcmul_(moment, grad, grad, value=1)
        on.addcdiv_(param, grad, _root(on, moment, b.epsilon), value=-b.lr)


def adadelta(b: Batch, step: float) -> None:
    for on, param, grad, squares, updates in lists(b, "param", "grad", "squares", "updates"):
        grad = _decayed(on, b, param, grad)
        _average(on, squares, grad, b.rho)
        bottom, delta = on.add(squares, b.epsilon), on.add(updates, b.epsilon)
        on.sqrt_(bottom)
        on.sqrt_(delta)
        on.div_(delta, bottom)
        on.mul_(delta, grad)
        _average(on, updates, delta, b.rho)
        on.add_(param, delta, alpha=-b.lr)
        del bottom, delta


def rmsprop(b: Batch, step: float) -> None:
    names = ("mean",) if b.centered else ()
    for on, param, grad, squares, moment, *mean in lists(b, "param", "grad", "squares", "moment", *names):
        grad = _decayed(on, b, param, grad)
        _average(on, squares, grad, b.rho)
        if mean:
            on.lerp_(mean[0], grad, 1 - b.rho)
            bottom = on.addcmul(squares, mean[0], mean[0], value=-1)
            on.sqrt_(bottom)
            on.add_(bottom, b.epsilon)
        else:
            bottom = _root(on, squares, b.epsilon)
        if b.momentum > 0:
            on.mul_(moment, b.momentum)
            on.addcdiv_(moment, grad, bottom)
            on.add_(param, moment, alpha=-b.lr)
        else:
            on.addcdiv_(param, grad, bottom, value=-b.lr)
        del bottom


def adam(b: Batch, step: float, lr: float, decay: float, decoupled: bool) -> None:
    """``decoupled``: AdamW."""
    size, root = lr / (1 - b.beta1**step), (1 - b.beta2**step) ** 0.5
    names = ("moment2_max",) if b.amsgrad else ()
    for on, param, grad, first, second, *largest in lists(b, "param", "grad", "moment1", "moment2", *names):
        if decay and decoupled:
            on.mul_(param, 1 - lr * decay)
        elif decay:
            grad = on.add(grad, param, alpha=decay)
        on.lerp_(first, grad, 1 - b.beta1)
        _average(on, second, grad, b.beta2)
        if largest:
            on.maximum_(largest[0], second)
            second = largest[0]
        bottom = on.sqrt(second)
        on.div_(bottom, root)
        on.add_(bottom, b.epsilon)
        on.addcdiv_(param, first, bottom, value=-size)
        del bottom


def adamax(b: Batch, step: float) -> None:
    size = b.lr / (1 - b.beta1**step)
    for on, param, grad, moment, norm in lists(b, "param", "grad", "moment", "norm"):
        grad = _decayed(on, b, param, grad)
        on.lerp_(moment, grad, 1 - b.beta1)
        on.mul_(norm, b.beta2)
        height = on.abs(grad)
        on.add_(height, b.epsilon)
        on.maximum_(norm, height)
        del height
        on.addcdiv_(param, moment, norm, value=-size)


def nadam(b: Batch, step: float) -> None:
    """The product of momenta is rounded to float32, as in Torch's state."""
    below = 1 - b.beta2**step
    now, following = [b.beta1 * (1.0 - 0.5 * 0.96 ** (count * b.momentum_decay)) for count in (step, step + 1)]
    product = mu_products(b.beta1, b.momentum_decay).before(int(step) + 1).item()
    by_grad, by_moment = -b.lr * (1.0 - now) / (1.0 - product), -b.lr * following / (1.0 - product * following)
    for on, param, grad, first, second in lists(b, "param", "grad", "moment1", "moment2"):
        grad = _decayed(on, b, param, grad)
        on.lerp_(first, grad, 1 - b.beta1)
        _average(on, second, grad, b.beta2)
        bottom = on.div(second, below)
        on.sqrt_(bottom)
        on.add_(bottom, b.epsilon)
        on.addcdiv_(param, grad, bottom, value=by_grad)
        on.addcdiv_(param, first, bottom, value=by_moment)
        del bottom


def radam(b: Batch, step: float) -> None:
    """While the approximated average is short, the second moment is not used."""
    below = 1 - b.beta2**step
    longest = 2 / (1 - b.beta2) - 1
    length = longest - 2 * step * (b.beta2**step) / below
    for on, param, grad, first, second in lists(b, "param", "grad", "moment1", "moment2"):
        grad = _decayed(on, b, param, grad)
        on.lerp_(first, grad, 1 - b.beta1)
        _average(on, second, grad, b.beta2)
        direction = on.div(first, 1 - b.beta1**step)
        on.mul_(direction, b.lr)
        if length > 5.0:
            rate = _root(on, second, b.epsilon)
            on.reciprocal_(rate)
            on.mul_(rate, below**0.5)
            on.mul_(direction, rate)
            on.mul_(direction, _rectified(length, longest))
            del rate
        on.add_(param, direction, alpha=-1.0)
        del direction


def _rectified(length: float, longest: float) -> float:
    return float(((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5)


def _decayed(on: Any, b: Batch, param: Any, grad: Any) -> Any:
    """Gradients with their L2 decay."""
    return on.add(grad, param, alpha=b.decay) if b.decay else grad


def _average(on: Any, squares: Any, values: Any, kept: float) -> None:
    """A running average of squares."""
    on.mul_(squares, kept)
    on.addcmul_(squares, values, values, value=1 - kept)


def _root(on: Any, squares: Any, epsilon: float) -> Any:
    """``sqrt(squares) + epsilon``."""
    found = on.sqrt(squares)
    on.add_(found, epsilon)
    return found
