"""How the zoo is trained, in Paddle and in Torch: the same script twice, as users of either write it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import paddle
import torch

from .tensors import paddle_batch, torch_batch


class Recipe(NamedTuple):
    """The update rule, its learning rate and schedule, weight decay, and the global norm to which gradients are clipped."""

    optimizer: str = "AdamW"
    rate: float = 1e-3
    schedule: str = "warmup"
    decay: float = 0.0
    clip: float | None = 1.0


def warmup(steps: int) -> Any:
    """A tenth of the steps up, then a cosine down, as a factor of the learning rate."""
    up = max(1, steps // 10)
    return lambda step: (step + 1) / up if step < up else 0.5 * (1 + math.cos(math.pi * (step - up) / max(1, steps - up)))


def paddle_optimizer(parameters: Any, recipe: Recipe, steps: int) -> tuple[Any, Any]:
    """Paddle's optimizer and its schedule."""
    schedules = {
        "warmup": lambda: paddle.optimizer.lr.LambdaDecay(recipe.rate, warmup(steps)),
        "cosine": lambda: paddle.optimizer.lr.CosineAnnealingDecay(recipe.rate, T_max=steps),
        "halving": lambda: paddle.optimizer.lr.StepDecay(recipe.rate, step_size=max(1, steps // 4), gamma=0.5),
        "milestone": lambda: paddle.optimizer.lr.MultiStepDecay(recipe.rate, [steps * 2 // 3], gamma=0.1),
    }
    rules = paddle.optimizer
    optimizers = {
        "SGD": rules.SGD,
        "Momentum": partial(rules.Momentum, momentum=0.9),
        "Nesterov": partial(rules.Momentum, momentum=0.9, use_nesterov=True),
        "RMSProp": partial(rules.RMSProp, rho=0.9, epsilon=1e-6, momentum=0.9),
        "Adam": rules.Adam,
        "Adam of GANs": partial(rules.Adam, beta1=0.5, beta2=0.9),
        "AdamW": rules.AdamW,
    }
    parameters = list(parameters)
    schedule = schedules[recipe.schedule]()
    clip = None if recipe.clip is None else paddle.nn.ClipGradByGlobalNorm(recipe.clip)
    decay = recipe.decay or None
    words = {"multi_precision": True} if in_halves(parameters) and recipe.optimizer != "RMSProp" else {}  # which has none
    return optimizers[recipe.optimizer](schedule, parameters=parameters, weight_decay=decay, grad_clip=clip, **words), schedule


def torch_optimizer(parameters: Any, recipe: Recipe, steps: int) -> tuple[Any, Any]:
    """Torch's optimizer and its schedule."""
    schedules = {
        "warmup": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, warmup(steps)),
        "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps),
        "halving": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, step_size=max(1, steps // 4), gamma=0.5),
        "milestone": lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [steps * 2 // 3], gamma=0.1),
    }
    rules = torch.optim
    optimizers = {
        "SGD": rules.SGD,
        "Momentum": partial(rules.SGD, momentum=0.9),
        "Nesterov": partial(rules.SGD, momentum=0.9, nesterov=True),
        "RMSProp": partial(rules.RMSprop, alpha=0.9, eps=1e-6, momentum=0.9),
        "Adam": rules.Adam,
        "Adam of GANs": partial(rules.Adam, betas=(0.5, 0.9)),
        "AdamW": rules.AdamW,
    }
    weights = list(parameters)
    masters = [weight.detach().float() for weight in weights] if in_halves(weights) and recipe.optimizer != "RMSProp" else weights
    optimizer = optimizers[recipe.optimizer](masters, lr=recipe.rate, weight_decay=recipe.decay)
    schedule = schedules[recipe.schedule](optimizer)
    return optimizer if masters is weights else Masters(optimizer, masters, weights), schedule


class Masters:
    """An optimizer of float32 copies of weights of 16 bits, as Paddle's ``multi_precision=True``; Torch's programs write it so."""

    def __init__(self, optimizer: Any, masters: list[torch.Tensor], weights: list[torch.Tensor]) -> None:
        self._optimizer, self._masters, self._weights = optimizer, masters, weights

    def step(self) -> None:
        for master, weight in zip(self._masters, self._weights):
            master.grad = None if weight.grad is None else weight.grad.float()
        self._optimizer.step()
        with torch.no_grad():
            for master, weight in zip(self._masters, self._weights):
                weight.copy_(master)

    def zero_grad(self) -> None:
        for weight in self._weights:
            weight.grad = None


def in_halves(parameters: Any) -> bool:
    """Whether a model's parameters are of 16 bits."""
    return str(parameters[0].dtype).endswith("float16")


def paddle_train(module: Any, model: Any, batches: list[dict], on_step: Any) -> None:
    """Train the Paddle half on one batch after the other; ``on_step(loss)`` after each update."""
    optimizer, schedule = paddle_optimizer(model.parameters(), module.RECIPE, len(batches))
    for batch in batches:
        _, loss = module.paddle_step(model, **paddle_batch(model, batch))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        on_step(loss)


def torch_train(module: Any, model: Any, batches: list[dict], on_step: Any) -> None:
    """Train the Torch half on one batch after the other; ``on_step(loss)`` after each update."""
    optimizer, schedule = torch_optimizer(model.parameters(), module.RECIPE, len(batches))
    for batch in batches:
        _, loss = module.torch_step(model, **torch_batch(model, batch))
        optimizer.zero_grad()
        loss.backward()
        if module.RECIPE.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), module.RECIPE.clip)
        optimizer.step()
        schedule.step()
        on_step(loss)
