"""A small net in both frameworks with equal weights, its optimizers in both, and what differs while they train."""

from typing import Any, NamedTuple

import numpy as np
import paddle
import torch
from helpers import same

RATE = 0.013  # no number of float32


class Kind(NamedTuple):
    """One optimizer, as a Paddle user writes it and as its Torch twin does."""

    ours: str
    options: dict[str, Any]
    theirs: str
    twin_options: dict[str, Any]
    states: dict[str, str] | None = None  # accumulator -> Torch's state

    @property
    def there(self):
        return hasattr(paddle.optimizer, self.ours)

    def build(self, net, rate=RATE, **more):
        return getattr(paddle.optimizer, self.ours)(learning_rate=rate, parameters=parameters(net), **{**self.options, **more})

    def twin(self, net, rate=RATE, **more):
        return getattr(torch.optim, self.theirs)(list(net.parameters()), lr=rate, **{**self.twin_options, **more})


_ADAM = {"moment1": "exp_avg", "moment2": "exp_avg_sq"}
KINDS = {
    "sgd": Kind("SGD", {}, "SGD", {}),
    "momentum": Kind("Momentum", {"momentum": 0.9}, "SGD", {"momentum": 0.9}, {"velocity": "momentum_buffer"}),
    "nesterov": Kind("Momentum", {"momentum": 0.8, "use_nesterov": True}, "SGD", {"momentum": 0.8, "nesterov": True}),
    "no momentum": Kind("Momentum", {"momentum": 0.0}, "SGD", {}),
    "adam": Kind("Adam", {"beta1": 0.85, "epsilon": 1e-7}, "Adam", {"betas": (0.85, 0.999), "eps": 1e-7}, _ADAM),
    "adamw": Kind("AdamW", {"weight_decay": 0.02}, "AdamW", {"weight_decay": 0.02}, _ADAM),
    "adamax": Kind("Adamax", {}, "Adamax", {}, {"moment": "exp_avg", "inf_norm": "exp_inf"}),
    "adagrad": Kind("Adagrad", {"initial_accumulator_value": 0.1}, "Adagrad", {"eps": 1e-6, "initial_accumulator_value": 0.1}),
    "adadelta": Kind("Adadelta", {"rho": 0.9}, "Adadelta", {"rho": 0.9}, {"_avg_squared_grad": "square_avg"}),
    "rmsprop": Kind("RMSProp", {"rho": 0.9, "epsilon": 1e-8}, "RMSprop", {"alpha": 0.9}, {"mean_square": "square_avg"}),
    "centered": Kind(
        "RMSProp",
        {"rho": 0.9, "epsilon": 1e-8, "momentum": 0.7, "centered": True},
        "RMSprop",
        {"alpha": 0.9, "momentum": 0.7, "centered": True},
    ),
    "rprop": Kind("Rprop", {}, "Rprop", {"step_sizes": (1e-5, 50)}, {"prevs": "prev", "learning_rates": "step_size"}),
    "nadam": Kind("NAdam", {}, "NAdam", {}, _ADAM),
    "radam": Kind("RAdam", {"beta2": 0.9}, "RAdam", {"betas": (0.9, 0.9)}, _ADAM),
}
KINDS = {name: kind for name, kind in KINDS.items() if kind.there}
AMSGRAD = {"adam", "adamw"} if not paddle.__version__.startswith("2.") else set()


def parameters(net):
    """The parameters in their order, or groups of them as they are given."""
    return net if isinstance(net, list) else net.parameters()


def nets(dtype="float32", seed=3):
    """Linear, GELU, LayerNorm, Linear, with no size that is a multiple of another: in Paddle, and as its Torch twin."""
    paddle.seed(seed)
    kinds = (("Linear", 7, 13), ("GELU",), ("LayerNorm", 13), ("Linear", 13, 5))
    ours = paddle.nn.Sequential(*[getattr(paddle.nn, kind)(*sizes) for kind, *sizes in kinds]).to(dtype=dtype)
    twin = torch.nn.Sequential(*[getattr(torch.nn, kind)(*sizes) for kind, *sizes in kinds]).to(getattr(torch, dtype))
    copy(ours, twin)
    return ours, twin


def copy(ours, twin):
    """Give the twin the Paddle net's weights."""
    with torch.no_grad():
        for mine, theirs in zip(ours.parameters(), twin.parameters(), strict=True):
            theirs.copy_(torch.tensor(turned(mine.numpy())))


def turned(values):
    """A matrix as Torch lays it out."""
    return values.T.copy() if values.ndim == 2 else values


def batch(step, dtype="float32"):
    return np.random.default_rng(step).standard_normal((6, 7)).astype(dtype)


def backward(ours, twin, step, dtype="float32"):
    """Both losses, and the gradients."""
    values = batch(step, dtype)
    mine, theirs = (ours(paddle.to_tensor(values)) ** 2).mean(), (twin(torch.tensor(values)) ** 2).mean()
    mine.backward()
    theirs.backward()
    return mine, theirs


def unequal(ours, twin, grads=False):
    """Names of the parameters (or gradients) that are not the twin's to the last bit."""
    pairs = zip(ours.named_parameters(), twin.parameters(), strict=True)
    return [
        name
        for (name, mine), theirs in pairs
        if not same(turned((mine.grad if grads else mine).numpy()), theirs.grad if grads else theirs)
    ]


def stepped(ours, twin, mine, theirs, *, steps=range(5), dtype="float32", before=lambda step: None, after=lambda step: None):
    """Train both; after each step all parameters are equal to the last bit.

    ``before``: called behind the backward, as clipping is; ``after``: called behind the step, as schedules are.
    """
    for step in steps:
        backward(ours, twin, step, dtype)
        before(step)
        mine.step()
        theirs.step()
        assert not unequal(ours, twin), step
        mine.clear_grad()
        theirs.zero_grad()
        after(step)


def accumulator(optimizer, name, param):
    """A Paddle accumulator as Torch lays it out."""
    key = next(key for key in optimizer._accumulators if key.endswith(name) or key.startswith(name))
    return turned(optimizer._accumulators[key][param.name].numpy())
