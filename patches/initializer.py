"""Initial values of parameters: in a mode with ``random="torch"`` those of ``torch.nn.init``, from Torch's global generator.

A parameter has Paddle's shape, the weight of a Linear [in, out], and which of its sizes count as incoming is Paddle's meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import init

from padiff_shim.table.op import Op, function, op

from ._declarations import always, generator


def _initializer(place: str, arrange: Callable[..., tuple[Any, ...]], params: str) -> Callable[[Callable[..., Any]], Op]:
    """A decorator: the op behind the method by which an initializer fills a parameter."""

    def arranged(initializer: Any, var: Any, block: Any) -> tuple[Any, ...]:
        seed = getattr(initializer, "_seed", 0) or initializer._check_block(block).program.random_seed
        return (var, seed, *arrange(initializer, var))

    entry = function(f"paddle.nn.initializer.{place}", "self var block=None", arrange=arranged, fills=True, seen_below=True)
    return op(f"var seed {params}", c=False, tensors=0, random=always, more_entries=(entry,))


def _source(seed: int, var: torch.Tensor) -> torch.Generator | None:
    """From where a parameter's numbers come."""
    if var.is_complex():
        raise NotImplementedError("complex numbers")
    return generator(seed, var.device)


def _fans(initializer: Any, var: Any) -> tuple[float, float]:
    """Incoming and outgoing connections, as Paddle counts them."""
    incoming, outgoing = initializer._compute_fans(var)
    given_in, given_out = initializer._fan_in, getattr(initializer, "_fan_out", None)
    fans = (incoming if given_in is None else given_in), (outgoing if given_out is None else given_out)
    return float(fans[0]), float(fans[1])


def _drawn(var: torch.Tensor, seed: int, std: float, *, uniform: bool) -> torch.Tensor:
    """Numbers of this deviation: ``xavier_*_`` and ``kaiming_*_`` end so, both."""
    if uniform:
        bound = math.sqrt(3.0) * std
        return var.uniform_(-bound, bound, generator=_source(seed, var))
    return var.normal_(0, std, generator=_source(seed, var))


@_initializer("uniform.UniformInitializer.forward", lambda own, var: (own._low, own._high), "low high")
def init_uniform(var: torch.Tensor, seed: int, low: float, high: float) -> torch.Tensor:
    """``torch.nn.init.uniform_``."""
    return init.uniform_(var, low, high, generator=_source(seed, var))


@_initializer("normal.NormalInitializer.forward", lambda own, var: (own._mean, own._std_dev), "mean std")
def init_normal(var: torch.Tensor, seed: int, mean: float, std: float) -> torch.Tensor:
    """``torch.nn.init.normal_``."""
    return init.normal_(var, mean, std, generator=_source(seed, var))


def _limits(own: Any, var: Any) -> tuple[Any, ...]:
    """Paddle 2.6 knows no other limits than two deviations from the mean."""
    mean, std = own._mean, own._std_dev
    return mean, std, getattr(own, "_a", mean - 2 * std), getattr(own, "_b", mean + 2 * std)


@_initializer("normal.TruncatedNormalInitializer.forward", _limits, "mean std low high")
def init_truncated_normal(var: torch.Tensor, seed: int, mean: float, std: float, low: float, high: float) -> torch.Tensor:
    """``torch.nn.init.trunc_normal_``."""
    return init.trunc_normal_(var, mean, std, low, high, generator=_source(seed, var))


@_initializer(
    "xavier.XavierInitializer.forward",
    lambda own, var: (*_fans(own, var), getattr(own, "_gain", 1.0), own._uniform),
    "incoming outgoing gain uniform",
)
def init_xavier(var: torch.Tensor, seed: int, incoming: float, outgoing: float, gain: float, uniform: bool) -> torch.Tensor:
    """``torch.nn.init.xavier_uniform_`` and ``xavier_normal_``."""
    if not incoming or not outgoing:
        raise NotImplementedError("nothing is connected")
    return _drawn(var, seed, gain * math.sqrt(2.0 / (incoming + outgoing)), uniform=uniform)


def _kaiming(own: Any, var: Any) -> tuple[Any, ...]:
    incoming, outgoing = _fans(own, var)
    fan = outgoing if getattr(own, "_mode", "fan_in") == "fan_out" else incoming
    return fan, own._nonlinearity, own._negative_slope, own._uniform


@_initializer("kaiming.MSRAInitializer.forward", _kaiming, "fan nonlinearity slope uniform")
def init_kaiming(var: torch.Tensor, seed: int, fan: float, nonlinearity: str, slope: float, uniform: bool) -> torch.Tensor:
    """``torch.nn.init.kaiming_uniform_`` and ``kaiming_normal_``."""
    if not fan:
        raise NotImplementedError("nothing is connected")
    return _drawn(var, seed, init.calculate_gain(nonlinearity, slope) / math.sqrt(fan), uniform=uniform)


@_initializer("orthogonal.Orthogonal.__call__", lambda own, var: (own._gain,), "gain")
def init_orthogonal(var: torch.Tensor, seed: int, gain: float) -> torch.Tensor:
    """``torch.nn.init.orthogonal_``."""
    return init.orthogonal_(var, gain, generator=_source(seed, var))


# Initial weights by Torch's definition (``definitions="torch"``): Paddle's layer -> how Torch fills its parameters. "fan-in": by a
# uniform distribution, as many connections come in; "transposed": the same of a Linear, whose weight lies transposed in Torch;
# "first": by the connections of the first operand alone; "normal": by N(0, 1).
LAYERS = {
    "Linear": "transposed",
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), "fan-in"),
    "Embedding": "normal",
    "Bilinear": "first",
}


def first_bound(incoming: int) -> float:
    """``torch.nn.init.kaiming_uniform_`` with a slope of sqrt(5), as layers of Torch call it for their weight."""
    return float(math.sqrt(3.0) * (init.calculate_gain("leaky_relu", math.sqrt(5)) / math.sqrt(incoming)))


def other_bound(incoming: int) -> float:
    """What layers of Torch draw their bias between."""
    return 1 / math.sqrt(incoming)
