"""Random numbers: in a mode with ``random="torch"`` drawn from Torch's global generator, in Torch's order.

Each formula is what a Torch author calls. Without that option the draws stay Paddle's.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Entry, c_op, function, op
from padiff_shim.torch_versions import dirichlet_kernel, standard_gamma_kernel

from ._declarations import always, generator

_WHOLE = (torch.int32, torch.int64)


@op("shape mean=0.0 std=1.0 seed=0 dtype=None place=None out=None", tensors=0, random=always)
def gaussian(shape: tuple[int, ...], mean: float, std: float, seed: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.randn``; with another mean and deviation ``torch.normal``."""
    if dtype.is_complex:
        raise NotImplementedError("complex numbers")
    return torch.empty(shape, dtype=dtype, device=device).normal_(mean, std, generator=generator(seed, device))


@op("shape dtype=None min=0.0 max=1.0 seed=0 place=None out=None", tensors=0, random=always)
def uniform(shape: tuple[int, ...], dtype: torch.dtype, low: float, high: float, seed: int, device: torch.device) -> torch.Tensor:
    """``torch.rand``; between other limits ``torch.Tensor.uniform_``."""
    if dtype.is_complex:
        raise NotImplementedError("complex numbers")
    return torch.empty(shape, dtype=dtype, device=device).uniform_(low, high, generator=generator(seed, device))


def _truncated(shape: Any, mean: float, std: float, seed: int, low: Any, high: Any, dtype: Any, place: Any) -> tuple[Any, ...]:
    """Paddle 2.6 names no limits: they are two deviations from the mean."""
    if dtype is None:
        low, high, dtype, place = mean - 2 * std, mean + 2 * std, low, high
    return shape, mean, std, seed, low, high, dtype, place


@op(
    "shape mean std seed low high dtype place",
    c=False,
    tensors=0,
    random=always,
    more_entries=(
        c_op("truncated_gaussian_random", "shape mean std seed low high=None dtype=None place=None", arrange=_truncated),
    ),
)
def truncated_gaussian_random(
    shape: tuple[int, ...],
    mean: float,
    std: float,
    seed: int,
    low: float,
    high: float,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """``torch.nn.init.trunc_normal_``."""
    new = torch.empty(shape, dtype=dtype, device=device)
    return torch.nn.init.trunc_normal_(new, mean, std, low, high, generator=generator(seed, device))


@op("low high shape dtype=None place=None", tensors=0, random=always, legacy="randint: * shape low high seed=0 dtype")
def randint(low: int, high: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.randint``."""
    if dtype not in _WHOLE:
        raise NotImplementedError(f"whole numbers of {dtype}")
    return torch.randint(low, high, shape, dtype=dtype, device=device)


@op("n dtype=None place=None out=None", tensors=0, random=always, legacy="randperm: * n seed=0 dtype")
def randperm(n: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.randperm``."""
    if dtype not in (*_WHOLE, torch.float32, torch.float64):
        raise NotImplementedError(f"a permutation of {dtype}")
    return torch.randperm(n, dtype=dtype, device=device)


def _fresh(x: torch.Tensor) -> torch.Tensor:
    """Somewhere to draw into, with the operand's strides, by which Torch chooses the order of its numbers.

    What overwrites an operand that wants a gradient gives it zeros: that one stays in the graph.
    """
    new = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    return new.copy_(x) if x.requires_grad else new


def _fresh_floats(x: torch.Tensor) -> torch.Tensor:
    """The same where Torch draws whole numbers, too, and Paddle refuses them."""
    if not x.is_floating_point():
        raise NotImplementedError("whole numbers")
    return _fresh(x)


@op("x mean=0.0 std=1.0 seed=0", inplace=True, random=always)
def gaussian_inplace(x: torch.Tensor, mean: float, std: float, seed: int) -> torch.Tensor:
    """``torch.Tensor.normal_``."""
    return _fresh(x).normal_(mean, std, generator=generator(seed, x.device))


@op("x min=-1.0 max=1.0 seed=0 diag_num=0 diag_step=0 diag_val=1.0", inplace=True, random=always)
def uniform_inplace(
    x: torch.Tensor, low: float, high: float, seed: int, diag_num: int, diag_step: int, diag_val: float
) -> torch.Tensor:
    """``torch.Tensor.uniform_``."""
    if diag_num:
        raise NotImplementedError("a diagonal of its own")
    return _fresh(x).uniform_(low, high, generator=generator(seed, x.device))


@op("x lam=1.0", c=False, random=always, more_entries=(c_op("exponential_", "x lam=1.0", inplace=True),))
def exponential(x: torch.Tensor, lam: float) -> torch.Tensor:
    """``torch.Tensor.exponential_``."""
    return _fresh(x).exponential_(lam)


@op("x low high", c=False, random=always, more_entries=(c_op("random", "x low high"), c_op("random_", "x low high", inplace=True)))
def random_inplace(x: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """``torch.Tensor.random_``."""
    return _fresh(x).random_(low, high)


def _overwriting(name: str, params: str) -> Entry:
    """The entry point of a Python function of Paddle that overwrites its tensor by several steps."""
    return function(f"paddle.tensor.{name}", params, inplace=True, seen_below=True)


@op(
    "x p=None",
    c=False,
    random=always,
    gradient=False,
    more_entries=(
        c_op("bernoulli", "x"),
        function("paddle.tensor.random.bernoulli", "x p=None", seen_below=True),
        _overwriting("random.bernoulli_", "x p=0.5"),
    ),
)
def bernoulli(x: torch.Tensor, p: Any) -> torch.Tensor:
    """``torch.bernoulli`` of a tensor of probabilities, or with one for all."""
    return torch.bernoulli(x) if p is None else _fresh_floats(x).bernoulli_(float(p))


@op(
    "x loc=0 scale=1",
    c=False,
    random=always,
    more_entries=(_overwriting("creation.cauchy_", "x loc=0 scale=1"),),
    note="Torch's meaning, Cauchy's distribution; Paddle takes the tangent of normally distributed numbers.",
)
def cauchy(x: torch.Tensor, loc: Any, scale: Any) -> torch.Tensor:
    """``torch.Tensor.cauchy_``."""
    return _fresh(x).cauchy_(float(loc), float(scale))


@op(
    "x probs",
    c=False,
    random=always,
    more_entries=(_overwriting("creation.geometric_", "x probs"),),
    note="Torch's meaning, whole numbers from 1 on; Paddle's are not rounded up to whole ones.",
)
def geometric(x: torch.Tensor, probs: Any) -> torch.Tensor:
    """``torch.Tensor.geometric_``."""
    return _fresh_floats(x).geometric_(float(probs))


@op(
    "mean=1.0 std=2.0 shape=None dtype=None place=None",
    c=False,
    tensors=0,
    random=always,
    more_entries=(function("paddle.tensor.random.log_normal", "mean=1.0 std=2.0 shape=None", seen_below=True),),
)
def log_normal(mean: float, std: float, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.Tensor.log_normal_``."""
    return torch.empty(shape, dtype=dtype, device=device).log_normal_(mean, std)


@op("x mean=1.0 std=2.0", c=False, random=always, more_entries=(_overwriting("random.log_normal_", "x mean=1.0 std=2.0"),))
def log_normal_inplace(x: torch.Tensor, mean: float, std: float) -> torch.Tensor:
    """``torch.Tensor.log_normal_``."""
    return _fresh(x).log_normal_(mean, std)


@op("x num_samples=1 replacement=False", random=always, gradient=False)
def multinomial(x: torch.Tensor, num_samples: Any, replacement: bool) -> torch.Tensor:
    """``torch.multinomial``."""
    return torch.multinomial(x, int(num_samples), replacement)


poisson = op("x", random=always)(torch.poisson)


@op("count prob", random=always, gradient=False)
def binomial(count: torch.Tensor, prob: torch.Tensor) -> torch.Tensor:
    """``torch.binomial``, which counts in the dtype of the probabilities."""
    return torch.binomial(count.to(prob.dtype), prob).long()


standard_gamma = op("x", name="standard_gamma", random=always, gradient=False)(standard_gamma_kernel)


dirichlet = op("x|alpha", name="dirichlet", random=always, gradient=False)(dirichlet_kernel)


@op("x temperature=1.0 hard=False axis=-1", random=always)
def gumbel_softmax(x: torch.Tensor, temperature: float, hard: bool, axis: int) -> torch.Tensor:
    """``torch.nn.functional.gumbel_softmax``."""
    if not temperature > 0 or not isinstance(hard, bool):
        raise NotImplementedError("a temperature that is not positive, or hard= that is no bool")
    return F.gumbel_softmax(x, temperature, hard, dim=axis)
