"""Optimizers that follow the gradient, scaled at most by its squares or signs: SGD and Momentum to Adadelta and Rprop."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import adadelta as _adadelta, adagrad as _adagrad, asgd as _asgd, rmsprop as _rmsprop, rprop as _rprop, sgd as _sgd

from ..table import reasons
from ..table.reasons import StayNative
from .update import Batch, update


def _counts(b: Batch) -> list[torch.Tensor]:
    """Torch's state of step counts where nothing is computed with them."""
    for item in b.items:
        if item.count is None:
            item.count = torch.zeros(())
    return [item.count for item in b.items]


def _with_sgd(b: Batch, buffers: list[Any], momentum: float, *, nesterov: bool) -> None:
    _sgd.sgd(
        b.param, b.grad, buffers,
        weight_decay=b.decay, momentum=momentum, lr=b.lr, dampening=0, nesterov=nesterov, maximize=False,
        foreach=b.foreach,
    )  # fmt: skip


@update("sgd_", "SGD", "param lr grad master multi_precision", "param master", twin="torch.optim.SGD")
def sgd(b: Batch) -> None:
    """``param -= lr * grad``."""
    _with_sgd(b, [None] * len(b.items), 0, nesterov=False)


@update(
    "momentum_",
    "Momentum",
    "param grad velocity lr master mu nesterov regularization coefficient multi_precision rescale",
    "param velocity master",
    merged="param grad velocity lr master mu nesterov regularization coefficient multi_precision rescale",
    twin="torch.optim.SGD(momentum=...)",
    velocity="velocity",
)
def momentum(b: Batch) -> None:
    """The velocity begins with the first gradient; Paddle's kernel adds L2 decay to the gradient itself."""
    if b.rescale != 1.0:
        raise StayNative(reasons.RESCALED)
    b.decay = b.coefficient if b.regularization == "l2_decay" else b.decay
    if b.mu == 0:  # Torch keeps no buffer then
        for velocity, grad in zip(b.velocity, b.decayed()):
            velocity.copy_(grad)
        _with_sgd(b, [None] * len(b.items), 0, nesterov=False)
        return
    buffers = [None if item.fresh else velocity for item, velocity in zip(b.items, b.velocity)]
    _with_sgd(b, buffers, b.mu, nesterov=b.nesterov)
    for item, velocity, buffer in zip(b.items, b.velocity, buffers):
        if item.fresh:
            velocity.copy_(buffer)


def _asgd_of_paddle(b: Batch) -> None:
    """The mean of the latest gradients, of ``len(slots)`` batches; ``d`` is their sum, ``n`` counts the steps."""
    for param, grad, total, slots, count in zip(b.param, b.decayed(), b.d, b.y, b.n):
        step = int(count.item())
        oldest = slots[(step - 1) % len(slots)]
        total.sub_(oldest).add_(grad)
        oldest.copy_(grad)
        param.sub_(total, alpha=b.lr / min(step, len(slots)))


def _step_size(b: Batch, step: int, slots: torch.Tensor) -> torch.Tensor:
    """Torch's ``eta`` before a step, in Torch's rounding: the last update left it in all of ``slots``."""
    size = b.lr if step == 1 else slots.view(-1)[0].item()
    if step > 1 and not bool((slots == size).all()):
        raise StayNative(reasons.OTHER_STATE)
    return torch.tensor(size, device=slots.device)


_ASGD = {"lambd": 1e-4, "alpha": 0.75, "t0": 1e6}  # of torch.optim.ASGD, which Paddle has no names for


@update(
    "asgd_",
    "ASGD",
    "param grad lr d y n master multi_precision",
    "param d y master",
    paddle=_asgd_of_paddle,
    twin="torch.optim.ASGD",
    differs="Paddle takes the mean of the gradients of the last batch_num steps, Torch the gradient, with weights that decay and "
    "a step size that falls, and averages the parameters beside",
    made_of={"y": "y", "n": "m"},
    at_once=True,
)
def asgd(b: Batch) -> None:
    """Torch's definition: its average of the parameters stands in ``d``, its step size in ``y``."""
    steps = [int(count.item()) for count in b.n]
    sizes = [_step_size(b, step, slots) for step, slots in zip(steps, b.y)]
    shares = [torch.tensor(1 / max(1, step - 1 - _ASGD["t0"]), device=slots.device) for step, slots in zip(steps, b.y)]
    counts = [torch.tensor(step - 1.0, device=slots.device) for step, slots in zip(steps, b.y)]
    _asgd.asgd(b.param, b.grad, b.d, shares, sizes, counts, lr=b.lr, weight_decay=b.decay, **_ASGD)
    for slots, size in zip(b.y, sizes):
        slots.fill_(size.item())


@update(
    "adagrad_",
    "Adagrad",
    "param grad moment lr master epsilon multi_precision",
    "param moment master",
    legacy="param grad moment lr master param moment master | epsilon multi_precision",
    twin="torch.optim.Adagrad",
)
def adagrad(b: Batch) -> None:
    """``param -= lr * grad / (sqrt(sum of squares) + epsilon)``."""
    _adagrad.adagrad(
        b.param, b.grad, b.moment, _counts(b),
        lr=b.lr, weight_decay=b.decay, lr_decay=0, eps=b.epsilon, maximize=False, foreach=b.foreach,
    )  # fmt: skip


@update(
    "adadelta_",
    "Adadelta",
    "param grad squares updates lr master rho epsilon multi_precision",
    "param squares updates master",
    twin="torch.optim.Adadelta",
)
def adadelta(b: Batch) -> None:
    """Gradients scaled by the ratio of two averages, of squared updates and of squared gradients."""
    _adadelta.adadelta(
        b.param, b.grad, b.squares, b.updates, _counts(b),
        lr=b.lr, rho=b.rho, eps=b.epsilon, weight_decay=b.decay, maximize=False, foreach=b.foreach,
    )  # fmt: skip


def _rmsprop_of_paddle(b: Batch) -> None:
    """Paddle adds epsilon inside of the root, and the learning rate inside of the momentum."""
    means = b.mean if b.centered else [None] * len(b.items)
    for param, grad, squares, moment, mean in zip(b.param, b.decayed(), b.squares, b.moment, means):
        squares.mul_(b.rho).addcmul_(grad, grad, value=1 - b.rho)
        inside = squares
        if mean is not None:
            mean.lerp_(grad, 1 - b.rho)
            inside = squares.addcmul(mean, mean, value=-1)
        moment.mul_(b.momentum).addcdiv_(grad, inside.add(b.epsilon).sqrt_(), value=b.lr)
        param.sub_(moment)


@update(
    "rmsprop_",
    "RMSProp",
    "param squares grad moment lr mean master epsilon rho momentum centered multi_precision",
    "param moment squares mean master",
    paddle=_rmsprop_of_paddle,
    twin="torch.optim.RMSprop",
    differs="Paddle adds epsilon inside of the root, Torch outside; Paddle's momentum sums steps, with their learning rates, and "
    "Torch's directions, without",
)
def rmsprop(b: Batch) -> None:
    """Torch's definition: its momentum stands in Paddle's accumulator."""
    _rmsprop.rmsprop(
        b.param, b.grad, b.squares, b.mean, b.moment, _counts(b),
        lr=b.lr, alpha=b.rho, eps=b.epsilon, weight_decay=b.decay, momentum=b.momentum, centered=b.centered,
        foreach=b.foreach,
    )  # fmt: skip


@update(
    "rprop_",
    "Rprop",
    "param grad prev rates master range etas multi_precision",
    "param prev rates master",
    twin="torch.optim.Rprop",
)
def rprop(b: Batch) -> None:
    """A step of its own for each element, which grows while the gradient keeps its sign."""
    limits, factors = b.range[0].flatten().tolist(), b.etas[0].flatten().tolist()
    _rprop.rprop(
        b.param, b.decayed(), b.prev, b.rates, _counts(b),
        step_size_min=limits[0], step_size_max=limits[1], etaminus=factors[0], etaplus=factors[1], maximize=False,
    )  # fmt: skip
