"""Optimizers of Adam's family: Adam, AdamW, Adamax, NAdam, RAdam.

Paddle keeps powers of the betas; Torch counts steps, and takes the powers of that. The count is read off Paddle's powers
(:mod:`.counts`), and the powers go on as Paddle's kernels would leave them.
"""

from __future__ import annotations

import torch
from torch.optim import adam as _adam
from torch.optim import adamax as _adamax
from torch.optim import nadam as _nadam
from torch.optim import radam as _radam

from ..table import reasons
from ..table.reasons import StayNative
from .counts import mu_products, powers
from .update import Step, update


def _number(tensor: torch.Tensor) -> float:
    """The number that a tensor is filled with: NAdam and RAdam keep their powers in the shape of the parameter."""
    return float(tensor.view(-1)[0].item() if tensor.numel() > 1 else tensor.item())


def _exponent(beta: float, power: torch.Tensor) -> tuple[int, bool]:
    """The exponent that gave a power of beta, and whether it may be a greater one: the power does not fall any more."""
    known = powers(beta, power.dtype)
    value = _number(power)
    step = known.step(value)
    if step is None:
        raise StayNative(reasons.BETA_POWERS)
    return step, known.ended(value)


def _steps(s: Step) -> int:
    """Which update this is, counted from 0; both powers have to say the same."""
    first, first_ended = _exponent(s.beta1, s.beta1_pow)
    second, second_ended = _exponent(s.beta2, s.beta2_pow)
    if first != second and not (first_ended and first < second) and not (second_ended and second < first):
        raise StayNative(reasons.BETA_POWERS)
    return max(first, second)


def _go_on(s: Step) -> None:
    """Paddle's powers after the update."""
    s.beta1_pow.mul_(s.beta1)
    s.beta2_pow.mul_(s.beta2)


def _state(step: int) -> list[torch.Tensor]:
    """Torch's state before an update: how many there were."""
    return [torch.tensor(float(step))]


def _with_adam(s: Step, lr: float, decay: float, *, decoupled: bool) -> None:
    _adam.adam(
        [s.param], [s.grad], [s.moment1], [s.moment2], [s.moment2_max] if s.amsgrad else [], _state(_steps(s) - 1),
        decoupled_weight_decay=decoupled, amsgrad=s.amsgrad, beta1=s.beta1, beta2=s.beta2, lr=lr, weight_decay=decay, eps=s.epsilon,
        maximize=False,
    )  # fmt: skip
    _go_on(s)


@update(
    "adam_",
    "Adam",
    "param grad lr moment1 moment2 moment2_max+ beta1_pow beta2_pow master skip beta1 beta2 epsilon lazy rows multi_precision "
    "global_powers amsgrad+",
    "param moment1 moment2 moment2_max+ beta1_pow beta2_pow master",
    twin="torch.optim.Adam",
)
def adam(s: Step) -> None:
    """Paddle's kernel moves the bias corrections into the learning rate and epsilon: the same, rounded otherwise."""
    _with_adam(s, s.lr, s.decay, decoupled=False)


@update(
    "adamw_",
    "AdamW",
    "param grad lr moment1 moment2 moment2_max+ beta1_pow beta2_pow master skip beta1 beta2 epsilon lr_ratio coefficient "
    "with_decay lazy rows multi_precision global_powers amsgrad+",
    "param moment1 moment2 moment2_max+ beta1_pow beta2_pow master",
    twin="torch.optim.AdamW",
    coupled=False,
)
def adamw(s: Step) -> None:
    """``lr_ratio`` is the learning rate of a group to Torch."""
    lr = s.lr if s.lr_ratio == 1.0 else s.lr * s.lr_ratio
    _with_adam(s, lr, s.coefficient if s.with_decay else 0, decoupled=True)


def _adamax_of_paddle(s: Step) -> None:
    """Paddle adds epsilon to the decayed norm, not to the gradient."""
    grad = s.decayed()
    s.moment.lerp_(grad, 1 - s.beta1)
    torch.maximum(s.norm.mul_(s.beta2).add_(s.epsilon), grad.abs(), out=s.norm)
    s.param.addcdiv_(s.moment, s.norm, value=-s.lr / (1 - _number(s.beta1_pow)))


@update(
    "adamax_",
    "Adamax",
    "param grad lr moment norm beta1_pow master beta1 beta2 epsilon multi_precision",
    "param moment norm master",
    paddle=_adamax_of_paddle,
    twin="torch.optim.Adamax",
    differs="Paddle adds epsilon to the decayed norm at every step, Torch to the size of the gradient",
)
def adamax(s: Step) -> None:
    """Torch's definition; Paddle's optimizer takes its power on by itself."""
    step, _ = _exponent(s.beta1, s.beta1_pow)
    _adamax.adamax(
        [s.param], [s.grad], [s.moment], [s.norm], _state(step - 1),
        eps=s.epsilon, beta1=s.beta1, beta2=s.beta2, lr=s.lr, weight_decay=s.decay,
    )  # fmt: skip


_MU_BASE = 0.96  # of NAdam's momentum schedule, in both frameworks


@update(
    "nadam_",
    "NAdam",
    "param grad lr decay_pow beta2_pow mu_product moment1 moment2 master beta1 beta2 epsilon momentum_decay multi_precision",
    "param decay_pow beta2_pow mu_product moment1 moment2 master",
    twin="torch.optim.NAdam",
)
def nadam(s: Step) -> None:
    """Torch's momentum schedule needs the count also when beta's power has gone: then there is none to be read."""
    step, ended = _exponent(s.beta2, s.beta2_pow)
    if ended and s.beta2:
        raise StayNative(reasons.POWER_GONE)
    _nadam.nadam(
        [s.param], [s.grad], [s.moment1], [s.moment2], [mu_products(s.beta1, s.momentum_decay).before(step + 1)], _state(step),
        beta1=s.beta1, beta2=s.beta2, lr=s.lr, weight_decay=s.decay, momentum_decay=s.momentum_decay, eps=s.epsilon,
    )  # fmt: skip
    s.decay_pow.mul_(_MU_BASE)
    s.beta2_pow.mul_(s.beta2)
    s.mu_product.mul_(s.beta1 * (1.0 - 0.5 * _number(s.decay_pow) ** s.momentum_decay))


@update(
    "radam_",
    "RAdam",
    "param grad lr beta1_pow beta2_pow rho moment1 moment2 master beta1 beta2 epsilon multi_precision",
    "param beta1_pow beta2_pow rho moment1 moment2 master",
    twin="torch.optim.RAdam",
)
def radam(s: Step) -> None:
    """Paddle keeps ``step * beta2 ** step / (1 - beta2 ** step)`` by a recursion, which goes on as its kernel would leave it."""
    _radam.radam(
        [s.param], [s.grad], [s.moment1], [s.moment2], _state(_steps(s)),
        beta1=s.beta1, beta2=s.beta2, lr=s.lr, weight_decay=s.decay, eps=s.epsilon,
    )  # fmt: skip
    _go_on(s)
    power = s.beta2_pow
    s.rho.copy_((s.rho * (s.beta2 - power) + power) / (1 - power))
