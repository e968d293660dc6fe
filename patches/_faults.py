"""What kernels are known to compute instead: formulas for ``op(faults=...)``, each of the op's own formula and its parameters."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Fault

from ._spell import axes

LOWEST = -64.0  # Paddle's CPU softmax: exp(max(x - max, -64))


def single(number: float) -> float:
    """A number as float32 holds it."""
    return float(torch.tensor(number, dtype=torch.float32))


def clip(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Logits as Paddle's softmax sees them. The gradient passes as if they were as they are."""
    low = x.detach().amax(axis, keepdim=True) + LOWEST
    lies = x.nan_to_num(neginf=0.0)
    return torch.where(x.detach() < low, low + (lies - lies.detach()), x)


def clipped(axis: Callable[..., int]) -> dict[str, Fault]:
    """The first operand clipped along the axis that ``axis`` reads from the other arguments."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> Any:
        return own(clip(x, axis(*rest)), *rest)

    return {"clip=-64": Fault(formula)}


def smoothed(share: Callable[..., Any]) -> dict[str, Fault]:
    """Labels smoothed by shares that were computed in float32; ``share`` puts them into the op's arguments."""
    return {"1-epsilon->float32": Fault(share, precision=True)}


def _labels(own: Callable[..., Any], label: torch.Tensor, prior: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    epsilon = single(epsilon)
    kept = single(1.0 - epsilon) * label
    return kept + (single(epsilon / label.shape[-1]) if prior is None else epsilon * prior.detach())


def _shares(own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, weight: Any, ignored: int, *rest: Any) -> torch.Tensor:
    """``cross_entropy`` with smoothed labels, as shares of the classes that Paddle makes beforehand, in float32."""
    reduction, soft, axis, use_softmax, smoothing, counts_all = rest
    if soft or not smoothing:
        raise NotImplementedError("labels that are smoothed")
    at = label.squeeze(axis) if label.ndim == x.ndim else label
    chosen = F.one_hot(at, x.shape[axis]).movedim(-1, axis).bool()
    kept, rest_of = single(1.0 - single(smoothing)), single(smoothing / x.shape[axis])
    shares = torch.where(chosen, torch.full_like(x, single(kept + rest_of)), torch.full_like(x, rest_of)).detach()
    arguments = (shares, weight, ignored, reduction, True, axis, use_softmax, 0.0, counts_all)
    value = own(x, *arguments)
    if weight is not None or not use_softmax:
        return value
    taken = shares_of_one(own, x, *arguments)  # rounded shares do not sum to one, and Paddle's gradient takes it that they do
    return value.detach() + (taken - taken.detach())


SMOOTHED, SMOOTHED_LABELS = smoothed(_labels), smoothed(_shares)


def roots(arguments: Callable[..., tuple[torch.Tensor, float, Any, bool]]) -> dict[str, Fault]:
    """Norms of order p with 1 / p in float32, also where their gradient divides by them, or by them and 1e-12.

    ``arguments``: the tensor, p, the axes and keepdim of the op's own.
    """

    def formula(own: Callable[..., Any], *values: Any, added: float = 0.0) -> torch.Tensor:
        x, p, axis, keepdim = arguments(*values)
        if p in (0.0, 1.0, 2.0, math.inf, -math.inf):
            raise NotImplementedError("orders with kernels of their own")
        order, lies, whole = single(p), x.detach(), axis is None and not keepdim
        norm = lies.abs().pow(order).sum(axis, True).pow(single(1.0 / order))
        scaled = lies.sign() * lies.abs().pow(order - 1) / (norm.pow(order - 1) + added) * (x - lies)
        value = lies.abs().pow(order)
        value = (value.sum() if whole else value.sum(axis, keepdim)).pow(single(1.0 / order))
        return value + (scaled.sum() if whole else scaled.sum(axis, keepdim))

    return {
        "1/p->float32": Fault(formula, precision=True),
        "1/p->float32+1e-12": Fault(functools.partial(formula, added=1e-12), precision=True),
    }


def slope(own: Callable[..., Any], x: torch.Tensor, lower: float, upper: float, is_test: bool) -> torch.Tensor:
    """``rrelu`` in evaluation, with its mean slope in float32."""
    return F.leaky_relu(x, single((single(lower) + single(upper)) / 2))


def shares_of_one(own: Callable[..., Any], x: torch.Tensor, label: torch.Tensor, *rest: Any) -> torch.Tensor:
    """``cross_entropy`` of shares whose gradient is softmax(x) - label, whatever they sum to."""
    weight, _, reduction, soft, axis, use_softmax, smoothing, _ = rest
    if not soft or smoothing or weight is not None or not use_softmax:
        raise NotImplementedError("shares alone")
    values = x.logsumexp(axis) - (label * x).sum(axis)
    return {"mean": values.mean, "sum": values.sum}.get(reduction, lambda: values.unsqueeze(axis))()


def exp_minus_one(alpha: int | None) -> dict[str, Fault]:
    """An exponential branch without expm1, which loses the digits of small numbers. ``alpha``: which argument is its size."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *numbers: float) -> torch.Tensor:
        size = 1.0 if alpha is None else numbers[alpha]
        return torch.where(x > 0, x, size * (x.exp() - 1))

    return {"exp(x)-1": Fault(formula, precision=True, narrow=True)}


def log_of_one_plus(own: Callable[..., Any], x: torch.Tensor, beta: float, threshold: float) -> torch.Tensor:
    """``softplus`` without log1p, which loses the digits of small results."""
    return torch.where(x * beta > threshold, x, (1 + (x * beta).exp()).log() / beta)


def held_mean(
    own: Callable[..., Any], x: torch.Tensor, scale: Any, bias: Any, epsilon: float, groups: int, data_format: str
) -> torch.Tensor:
    """``group_norm`` without a weight, of whose mean the gradient takes no notice."""
    if scale is not None or (data_format[-1] == "C" and x.ndim > 2):
        raise NotImplementedError("without a weight, channels first")
    parts = x.reshape(x.shape[0], groups, -1)
    centred = parts - parts.detach().mean(-1, keepdim=True)
    normed = (centred * (centred.square().mean(-1, keepdim=True) + epsilon).rsqrt()).reshape(x.shape)
    return normed if bias is None else normed + bias.view(-1, *[1] * (x.ndim - 2))


def longer_norm(
    arguments: Callable[..., tuple[torch.Tensor, float, Any, bool]], then: Callable[..., torch.Tensor] | None = None
) -> dict[str, Fault]:
    """Norms of order 2 whose gradient divides by the norm and 1e-12.

    ``arguments`` as for :func:`roots`; ``then``: the op's result, of the norm and the op's own arguments.
    """

    def formula(own: Callable[..., Any], *values: Any) -> torch.Tensor:
        x, p, axis, keepdim = arguments(*values)
        if p != 2.0:
            raise NotImplementedError("order 2")
        norm = torch.linalg.vector_norm(x.detach(), 2.0, axis, True)
        scaled = x.detach() / (norm + 1e-12) * (x - x.detach())
        value = torch.linalg.vector_norm(x.detach(), 2.0, axis, keepdim)
        value = value + (scaled.sum() if axis is None and not keepdim else scaled.sum(axis, keepdim))
        return value if then is None else then(value, *values)

    return {"norm+1e-12": Fault(formula)}


def largest_whole(arguments: Callable[..., tuple[torch.Tensor, float, Any, bool]]) -> dict[str, Fault]:
    """Norms of infinite order whose gradient goes to each of equal elements whole. ``arguments``: as of :func:`roots`."""

    def formula(own: Callable[..., Any], *values: Any) -> torch.Tensor:
        x, p, axis, keepdim = arguments(*values)
        if not math.isinf(p):
            raise NotImplementedError("an infinite order")
        over, lies = axes(axis, x.ndim), x.detach()
        largest = torch.linalg.vector_norm(lies, p, over, True)
        value = largest + (lies.sign() * (lies.abs() == largest) * (x - lies)).sum(over, True)
        return value if keepdim else value.squeeze(over)

    return {"whole-to-each": Fault(formula)}


def by_quantile(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """``erfinv`` by the normal distribution's quantile at (x + 1) / 2, where the digits of a small number are lost."""
    return torch.special.ndtri((x + 1) / 2) / math.sqrt(2.0)


def whole_factor(own: Callable[..., Any], x: torch.Tensor, y: torch.Tensor, upper: bool) -> torch.Tensor:
    """``cholesky_solve`` whose gradient of the factor reads what lies outside of the triangle, too."""
    lies = y.detach()
    change = (y - lies).triu() if upper else (y - lies).tril()
    outer = change.mT @ lies if upper else change @ lies.mT
    solution = own(x, lies, upper)
    return solution - own((outer + outer.mT) @ solution.detach(), lies, upper)


def elementwise(own: Callable[..., Any], weight: torch.Tensor, u: Any, v: Any, dim: int, *rest: Any) -> torch.Tensor:
    """``spectral_norm`` whose gradient takes the sum of the weight for that of its product with the incoming gradient."""
    lies = weight.detach()
    rows = lies.movedim(dim, 0)
    left, right = factors(rows.flatten(1), u.detach(), v.detach(), *rest)
    sigma = torch.dot(left, torch.mv(rows.flatten(1), right))
    share = torch.outer(left, right).reshape(rows.shape).movedim(0, dim) * lies.sum() / sigma
    return own(lies, u, v, dim, *rest) + (1 - share) / sigma * (weight - lies)


def factors(matrix: torch.Tensor, u: torch.Tensor, v: torch.Tensor, steps: int, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two singular vectors after so many steps of the power method from ``u`` and ``v``."""
    for _ in range(steps):
        v = torch.mv(matrix.t(), u)
        v = v / (v.norm() + eps)
        u = torch.mv(matrix, v)
        u = u / (u.norm() + eps)
    return u, v


def quotients(own: Callable[..., Any], x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``prod`` whose gradient divides the product by each element: NaN where that is 0."""
    lies, over = x.detach(), axes(None if reduce_all else axis, x.ndim)
    shares = own(lies, axis, True, reduce_all) / lies * (x - lies)
    return own(lies, axis, keepdim, reduce_all) + (shares.sum(over, keepdim) if over else shares)


def sixth(own: Callable[..., Any], x: torch.Tensor, slope: float, offset: float) -> torch.Tensor:
    """``hardsigmoid`` whose gradient is 1/6 in float32."""
    if (slope, offset) != (0.1666667, 0.5):
        raise NotImplementedError("Torch's own slope")
    lies = x.detach()
    return own(lies, slope, offset) + single(1 / 6) * (lies.abs() < 3) * (x - lies)


def whole_to_each(axis: Callable[..., Any]) -> dict[str, Fault]:
    """Extrema whose gradient goes to each of equal elements whole. ``axis``: reads the axes from the op's arguments."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> torch.Tensor:
        over = axes(axis(x, *rest), x.ndim)
        lies = x.detach()
        value = own(lies, *rest)
        largest = value.reshape([1 if place in over else size for place, size in enumerate(x.shape)])
        return value + ((lies == largest) * (x - lies)).sum(over).reshape(value.shape)

    return {"whole-to-each": Fault(formula)}
