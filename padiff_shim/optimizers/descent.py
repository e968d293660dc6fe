"""Optimizers that follow the gradient, scaled at most by its own squares: SGD, Momentum, Adagrad, Adadelta, RMSProp."""

from __future__ import annotations

import torch
from torch.optim import adadelta as _adadelta
from torch.optim import adagrad as _adagrad
from torch.optim import rmsprop as _rmsprop
from torch.optim import sgd as _sgd

from ..table import reasons
from ..table.reasons import StayNative
from .update import Step, Update, update


def _no_steps() -> list[torch.Tensor]:
    """Torch's state of a step count where nothing is computed with it."""
    return [torch.zeros(())]


@update("sgd_", "SGD", "param lr grad master multi_precision", "param master", twin="torch.optim.SGD")
def sgd(s: Step) -> None:
    """``param -= lr * grad``."""
    _sgd.sgd(
        [s.param], [s.grad], [None],
        weight_decay=s.decay, momentum=0, lr=s.lr, dampening=0, nesterov=False, maximize=False,
    )  # fmt: skip


@update(
    "momentum_",
    "Momentum",
    "param grad velocity lr master mu nesterov regularization coefficient multi_precision rescale",
    "param velocity master",
    twin="torch.optim.SGD(momentum=...)",
    velocity="velocity",
)
def momentum(s: Step) -> None:
    """The velocity begins with the first gradient; Paddle's kernel adds L2 decay to the gradient itself."""
    if s.rescale != 1.0:
        raise StayNative(reasons.RESCALED)
    decay = s.coefficient if s.regularization == "l2_decay" else s.decay
    if s.mu == 0:  # Torch keeps no buffer then
        s.velocity.copy_(s.grad.add(s.param, alpha=decay) if decay else s.grad)
        s.param.add_(s.velocity, alpha=-s.lr)
        return
    buffers = [None if s.fresh else s.velocity]
    _sgd.sgd(
        [s.param], [s.grad], buffers,
        weight_decay=decay, momentum=s.mu, lr=s.lr, dampening=0, nesterov=s.nesterov, maximize=False,
    )  # fmt: skip
    if s.fresh:
        s.velocity.copy_(buffers[0])


@update(
    "adagrad_", "Adagrad", "param grad moment lr master epsilon multi_precision", "param moment master", twin="torch.optim.Adagrad"
)
def adagrad(s: Step) -> None:
    """``param -= lr * grad / (sqrt(sum of squares) + epsilon)``."""
    _adagrad.adagrad(
        [s.param], [s.grad], [s.moment], _no_steps(),
        lr=s.lr, weight_decay=s.decay, lr_decay=0, eps=s.epsilon, maximize=False,
    )  # fmt: skip


@update(
    "adadelta_",
    "Adadelta",
    "param grad squares updates lr master rho epsilon multi_precision",
    "param squares updates master",
    twin="torch.optim.Adadelta",
)
def adadelta(s: Step) -> None:
    """Gradients scaled by the ratio of two averages, of squared updates and of squared gradients."""
    _adadelta.adadelta(
        [s.param], [s.grad], [s.squares], [s.updates], _no_steps(),
        lr=s.lr, rho=s.rho, eps=s.epsilon, weight_decay=s.decay, maximize=False,
    )  # fmt: skip


def _rmsprop_of_paddle(s: Step) -> None:
    """Paddle adds epsilon inside of the root, and the learning rate inside of the momentum."""
    grad = s.decayed()
    s.squares.mul_(s.rho).addcmul_(grad, grad, value=1 - s.rho)
    inside = s.squares
    if s.centered:
        s.mean.lerp_(grad, 1 - s.rho)
        inside = s.squares.addcmul(s.mean, s.mean, value=-1)
    s.moment.mul_(s.momentum).addcdiv_(grad, inside.add(s.epsilon).sqrt_(), value=s.lr)
    s.param.sub_(s.moment)


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
def rmsprop(s: Step) -> None:
    """Torch's definition: its momentum stands in Paddle's accumulator."""
    _rmsprop.rmsprop(
        [s.param], [s.grad], [s.squares], [s.mean], [s.moment], _no_steps(),
        lr=s.lr, alpha=s.rho, eps=s.epsilon, weight_decay=s.decay, momentum=s.momentum, centered=s.centered,
    )  # fmt: skip


__all__ = ["Update", "adadelta", "adagrad", "momentum", "rmsprop", "sgd"]
