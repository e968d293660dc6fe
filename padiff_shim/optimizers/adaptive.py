"""Optimizers of Adam's family: Adam, AdamW, Adamax, NAdam, RAdam, Lamb.

Paddle keeps powers of the betas; Torch counts steps, and takes the powers of that. The count is read off Paddle's powers
(`update.Powers`), and the powers go on as Paddle's kernels would leave them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.optim import adam as _adam, adamax as _adamax, adamw as _adamw, nadam as _nadam, radam as _radam

from ..table import reasons
from ..table.reasons import StayNative
from .update import Batch, Item, mu_products, multiply, numbers, powers, single, update


def _exponent(beta: float, power: float, dtype: torch.dtype) -> tuple[int, bool]:
    """The exponent that gave a power of beta, and whether it may be a greater one: the power does not fall any more."""
    step, ended = powers(beta, dtype).exponent(power)
    if step is None:
        raise StayNative(reasons.BETA_POWERS)
    return step, ended


def _powers(b: Batch, name: str) -> Iterable[tuple[float, torch.dtype]]:
    """A power of beta of each parameter, with what it is rounded to."""
    return zip(numbers(b.flat(name)), b.dtypes(name))


def _each(keys: Iterable[Any], find: Callable[[Any], Any]) -> list[Any]:
    """What ``find`` gives for each key, most of which are equal."""
    results: dict[Any, Any] = {}
    keys = list(keys)
    for key in keys:
        if key not in results:
            results[key] = find(key)
    return [results[key] for key in keys]


def _exponents(b: Batch, beta: float, name: str) -> list[tuple[int, bool]]:
    """The exponents of the powers of all parameters."""
    return _each(_powers(b, name), lambda key: _exponent(beta, *key))


def _of_both(first: int, one_ended: bool, other: int, other_ended: bool) -> int:
    """The exponent of both powers, which have to say the same."""
    if first != other and not (one_ended and first < other) and not (other_ended and other < first):
        raise StayNative(reasons.BETA_POWERS)
    return max(first, other)


def _counts(b: Batch, done: Sequence[int]) -> list[torch.Tensor]:
    """Torch's state before an update: how many there were, for each parameter."""
    for item, steps in zip(b.items, done):
        if item.count is None:
            item.count = torch.tensor(float(steps))
        elif item.count.item() != steps:
            item.count.fill_(steps)
    return [item.count for item in b.items]


def _done(b: Batch, beta1: float, beta2: float) -> list[int]:
    """The exponents of the powers of both betas, as the kernel has them."""
    both = zip(_powers(b, "beta1_pow"), _powers(b, "beta2_pow"))
    return _each(both, lambda key: _of_both(*_exponent(beta1, *key[0]), *_exponent(beta2, *key[1])))


def _with_adam(b: Batch, lr: float, decay: float, *, decoupled: bool) -> None:
    done = [power - 1 for power in _done(b, b.beta1, b.beta2)]
    step = _adamw.adamw if decoupled else _adam.adam  # in Torch 2.4 to 2.6 each has a function of its own
    step(
        b.param, b.grad, b.moment1, b.moment2, b.moment2_max if b.amsgrad else [], _counts(b, done),
        amsgrad=bool(b.amsgrad), beta1=b.beta1, beta2=b.beta2, lr=lr, weight_decay=decay, eps=b.epsilon, maximize=False,
        foreach=b.foreach,
    )  # fmt: skip
    multiply(b.flat("beta1_pow"), b.beta1)
    multiply(b.flat("beta2_pow"), b.beta2)


@update(
    "adam_",
    "Adam",
    "param grad lr moment1 moment2 moment2_max+ beta1_pow beta2_pow master skip beta1 beta2 epsilon lazy rows multi_precision "
    "global_powers amsgrad+",
    "param moment1 moment2 moment2_max+ beta1_pow beta2_pow master",
    merged="param grad lr moment1 moment2 moment2_max+ beta1_pow beta2_pow master beta1 beta2 epsilon multi_precision "
    "global_powers amsgrad+",
    twin="torch.optim.Adam",
)
def adam(b: Batch) -> None:
    """Paddle's kernel moves the bias corrections into the learning rate and epsilon: the same, rounded otherwise."""
    _with_adam(b, b.lr, b.decay, decoupled=False)


@update(
    "adamw_",
    "AdamW",
    "param grad lr moment1 moment2 moment2_max+ beta1_pow beta2_pow master skip beta1 beta2 epsilon lr_ratio coefficient "
    "with_decay lazy rows multi_precision global_powers amsgrad+",
    "param moment1 moment2 moment2_max+ beta1_pow beta2_pow master",
    twin="torch.optim.AdamW",
    coupled=False,
)
def adamw(b: Batch) -> None:
    """``lr_ratio`` is the learning rate of a group to Torch."""
    lr = b.lr if b.lr_ratio == 1.0 else b.lr * b.lr_ratio
    _with_adam(b, lr, b.coefficient if b.with_decay else 0, decoupled=True)


def _adamax_of_paddle(b: Batch) -> None:
    """Paddle adds epsilon to the decayed norm, not to the gradient."""
    for param, grad, moment, norm, power in zip(b.param, b.decayed(), b.moment, b.norm, numbers(b.flat("beta1_pow"))):
        moment.lerp_(grad, 1 - b.beta1)
        torch.maximum(norm.mul_(b.beta2).add_(b.epsilon), grad.abs(), out=norm)
        param.addcdiv_(moment, norm, value=-b.lr / (1 - power))


@update(
    "adamax_",
    "Adamax",
    "param grad lr moment norm beta1_pow master beta1 beta2 epsilon multi_precision",
    "param moment norm master",
    paddle=_adamax_of_paddle,
    twin="torch.optim.Adamax",
    differs="Paddle adds epsilon to the decayed norm at every step, Torch to the size of the gradient",
    at_once=True,
)
def adamax(b: Batch) -> None:
    """Torch's definition."""
    done = [step - 1 for step, _ in _exponents(b, b.beta1, "beta1_pow")]
    _adamax.adamax(
        b.param, b.grad, b.moment, b.norm, _counts(b, done),
        eps=b.epsilon, beta1=b.beta1, beta2=b.beta2, lr=b.lr, weight_decay=b.decay, foreach=b.foreach,
    )  # fmt: skip


_MU_BASE = 0.96  # of NAdam's momentum schedule, in both frameworks


def _steps_of_nadam(b: Batch) -> list[int]:
    """How many steps there were. Torch's momentum schedule needs them also when beta's power has gone, which tells no more of them.

    They are counted on then, while the averages are those that the last update has left: a checkpoint from beyond that point
    does not tell how many there were.
    """
    done = []
    for item, (step, ended) in zip(b.items, _exponents(b, single(b.beta2), "beta2_pow")):
        if ended and b.beta2:
            if item.left is None or item.left != _averages(item):
                raise StayNative(reasons.POWER_GONE)
            step = int(item.count.item())
        done.append(step)
    return done


def _averages(item: Item) -> tuple[float, float]:
    """What tells an optimizer's averages from those of another step."""
    return item.tensors["moment1"].sum().item(), item.tensors["moment2"].sum().item()


def _remember_where_powers_end(b: Batch, done: Sequence[int]) -> None:
    """What an update left behind ``done`` steps, where the powers tell no more of the next one."""
    for item, steps, (_, ended) in zip(b.items, done, _exponents(b, single(b.beta2), "beta2_pow")):
        item.left = _averages(item) if ended else None
        item.count = torch.tensor(steps + 1.0) if ended else None


def _nadam_of_paddle(b: Batch) -> None:
    """Paddle keeps the product of the momenta in the parameter's dtype."""
    beta1, beta2, decay = _of_nadam(b)
    root = _MU_BASE**decay
    before = zip(*[numbers(b.flat(name)) for name in ("decay_pow", "beta2_pow", "mu_product")])
    powers_now = [(decay_power * _MU_BASE, beta2_power * beta2, mu) for decay_power, beta2_power, mu in before]
    for (fall, power, product), param, grad, first, second in zip(powers_now, b.param, b.grad, b.moment1, b.moment2):
        grad = grad.add(param, alpha=b.decay) if b.decay else grad
        mu = beta1 * (1.0 - 0.5 * fall**decay)
        following = beta1 * (1.0 - 0.5 * fall**decay * root)
        first.lerp_(grad, 1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        bottom = second.div(1 - power).sqrt_().add_(b.epsilon)
        param.addcdiv_(grad, bottom, value=-b.lr * (1.0 - mu) / (1.0 - product * mu))
        param.addcdiv_(first, bottom, value=-b.lr * following / (1.0 - product * mu * following))
    _go_on_as_nadam(b)


def _of_nadam(b: Batch) -> tuple[float, float, float]:
    """The betas and the momentum's decay as Paddle's kernel takes them."""
    return single(b.beta1), single(b.beta2), single(b.momentum_decay)


def _go_on_as_nadam(b: Batch) -> None:
    """Paddle's powers and products after the update."""
    beta1, beta2, decay = _of_nadam(b)
    falls = multiply(b.flat("decay_pow"), _MU_BASE)
    multiply(b.flat("beta2_pow"), beta2)
    products: dict[float, list[Any]] = {}
    for product, power in zip(b.flat("mu_product"), falls):
        products.setdefault(power, []).append(product)
    for power, flats in products.items():
        multiply(flats, beta1 * (1.0 - 0.5 * power**decay))


@update(
    "nadam_",
    "NAdam",
    "param grad lr decay_pow beta2_pow mu_product moment1 moment2 master beta1 beta2 epsilon momentum_decay multi_precision",
    "param decay_pow beta2_pow mu_product moment1 moment2 master",
    paddle=_nadam_of_paddle,
    twin="torch.optim.NAdam",
    differs="Torch rounds the product of its momenta to float32, for parameters of float64, too "
    "(not where its default dtype is float64)",
)
def nadam(b: Batch) -> None:
    """Torch's products are made again; Paddle's go on as its kernel would leave them."""
    done = _steps_of_nadam(b)
    products = mu_products(b.beta1, b.momentum_decay)
    _nadam.nadam(
        b.param, b.grad, b.moment1, b.moment2, [products.before(steps + 1) for steps in done], _counts(b, done),
        beta1=b.beta1, beta2=b.beta2, lr=b.lr, weight_decay=b.decay, momentum_decay=b.momentum_decay, eps=b.epsilon,
        foreach=b.foreach,
    )  # fmt: skip
    _go_on_as_nadam(b)
    _remember_where_powers_end(b, done)


def _following_rho(beta2: float, rho: float, power: float, dtype: torch.dtype) -> float:
    """In the rounding of the accumulators, which are filled with one number each."""
    rhos, fall = torch.tensor([rho], dtype=dtype), torch.tensor([power], dtype=dtype)
    return float(((rhos * (beta2 - fall) + fall) / (1 - fall)).item())


@update(
    "radam_",
    "RAdam",
    "param grad lr beta1_pow beta2_pow rho moment1 moment2 master beta1 beta2 epsilon multi_precision",
    "param beta1_pow beta2_pow rho moment1 moment2 master",
    twin="torch.optim.RAdam",
)
def radam(b: Batch) -> None:
    """Paddle keeps ``step * beta2 ** step / (1 - beta2 ** step)`` by a recursion, which goes on as its kernel would leave it."""
    beta1, beta2 = single(b.beta1), single(b.beta2)
    _radam.radam(
        b.param, b.grad, b.moment1, b.moment2, _counts(b, _done(b, beta1, beta2)),
        beta1=b.beta1, beta2=b.beta2, lr=b.lr, weight_decay=b.decay, eps=b.epsilon, foreach=b.foreach,
    )  # fmt: skip
    multiply(b.flat("beta1_pow"), beta1)
    multiply(b.flat("beta2_pow"), beta2)
    keys = zip(numbers(b.flat("rho")), numbers(b.flat("beta2_pow")), [rho.dtype for rho in b.rho])
    for rho, following in zip(b.rho, _each(keys, lambda key: _following_rho(beta2, *key))):
        rho.fill_(following)


@update(
    "lamb_",
    "Lamb",
    "param grad lr moment1 moment2 beta1_pow beta2_pow master skip coefficient beta1 beta2 epsilon always_adapt multi_precision",
    "param moment1 moment2 beta1_pow beta2_pow master",
    of="paddle",
    coupled=False,
    differs="Torch has no Lamb",
)
def lamb(b: Batch) -> None:
    """Paddle's formula."""
    adapts = b.coefficient > 0 or b.always_adapt
    powers = zip(numbers(b.flat("beta1_pow")), numbers(b.flat("beta2_pow")))
    for param, grad, moment1, moment2, (first, second) in zip(b.param, b.grad, b.moment1, b.moment2, powers):
        moment1.lerp_(grad, 1 - b.beta1)
        moment2.mul_(b.beta2).addcmul_(grad, grad, value=1 - b.beta2)
        direction = (moment1 / (1 - first)).div_((moment2 / (1 - second)).sqrt_().add_(b.epsilon))
        direction.add_(param, alpha=b.coefficient)
        param.add_(direction, alpha=-b.lr * (_ratio(param, direction) if adapts else 1.0))
    multiply(b.flat("beta1_pow"), b.beta1)
    multiply(b.flat("beta2_pow"), b.beta2)


def _ratio(param: torch.Tensor, direction: torch.Tensor) -> float:
    weight, step = torch.linalg.vector_norm(param).item(), torch.linalg.vector_norm(direction).item()
    return weight / step if weight > 0 and step > 0 else 1.0
