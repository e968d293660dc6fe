"""The kernels that are judged: both frameworks' own, and honest rearrangements of them that must count as clean."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import paddle
import torch

from padiff_shim.catalogue.registry import ops
from padiff_shim.frameworks.memory import to_paddle, to_torch
from padiff_shim.table import signature

from .problems import Problem

REDUCED = ("sum", "mean", "logsumexp")


def torch_kernel(problem: Problem) -> torch.Tensor:
    """The op's reference, or torch's gradient of it."""
    reference = ops()[problem.op].reference
    if problem.wanted == "out":
        return reference(*problem.values.values())
    leaf = problem.values[problem.wanted].detach().requires_grad_()
    out = reference(*{**problem.values, problem.wanted: leaf}.values())
    return torch.autograd.grad(out, leaf, problem.grad)[0]


@functools.cache
def _door(op: str, tensors: frozenset[str]) -> tuple[Any, tuple[str, ...]]:
    """The op's first entry point in this Paddle that takes these parameters as tensors, and its parameters."""
    for entry in ops()[op].entries:
        if tensors & set(entry.numbers):
            continue
        function = functools.reduce(lambda owner, part: getattr(owner, part, None), entry.target.split(".")[1:], paddle)
        if function is not None:
            return function, tuple(aliases[0] for aliases, _ in signature.parse(entry.params))
    raise LookupError(op)


def paddle_kernel(problem: Problem) -> torch.Tensor:
    """Paddle's own kernel on the same values."""
    arguments: dict[str, Any] = {}
    leaves: dict[str, Any] = {}
    for name, value in problem.values.items():
        if isinstance(value, torch.Tensor):
            turned = value.t() if ops()[problem.op].layouts.get(name) else value
            value = to_paddle(turned.contiguous().clone())
            value.stop_gradient = problem.wanted == "out"
            leaves[name] = value
        arguments[name] = value
    door, names = _door(problem.op, frozenset(leaves))
    number = next((n for n in ("x", "y") if isinstance(arguments.get(n), (int, float))), None)
    if number is not None and problem.op != "pow":  # Paddle's C functions take tensors only: the operators know numbers
        out = {"divide": "__truediv__", "multiply": "__mul__", "add": "__add__", "subtract": "__sub__"}[problem.op]
        if number == "x":
            out = "__r" + out[2:]
        out = getattr(arguments["y" if number == "x" else "x"], out)(arguments[number])
    else:
        out = door(*[arguments[name] for name in names])
    if problem.wanted == "out":
        return to_torch(out.detach()).clone()
    # All gradients are asked for: layer norm's answer is another one where only some are (see padiff_shim.patches._quirks).
    all_of_them = paddle.grad(out, list(leaves.values()), to_paddle(problem.grad.contiguous().clone()))
    gradient = to_torch(all_of_them[list(leaves).index(problem.wanted)].detach()).clone()
    return gradient.t().contiguous() if ops()[problem.op].layouts.get(problem.wanted) else gradient


def _order(rng: np.random.Generator, count: int) -> torch.Tensor:
    return torch.from_numpy(rng.permutation(count))


def permuted(problem: Problem, rng: np.random.Generator) -> torch.Tensor | None:
    """The same sums in another order: the operands permuted along the axis that is summed."""
    v = problem.values
    if problem.op == "linear" and problem.wanted == "out":
        order = _order(rng, v["x"].shape[-1])
        return torch_kernel(problem.change(x=v["x"][..., order], weight=v["weight"][:, order]))
    if problem.op == "linear" and problem.wanted == "weight" and v["x"].ndim == 2:
        order = _order(rng, len(v["x"]))
        return torch_kernel(problem.change(x=v["x"][order], grad=problem.grad[order]))
    if problem.op == "matmul" and problem.wanted == "out":
        order = _order(rng, v["x"].shape[-2 if v["transpose_x"] else -1])
        x = v["x"].index_select(-2 if v["transpose_x"] else -1, order)
        return torch_kernel(problem.change(x=x, y=v["y"].index_select(-1 if v["transpose_y"] else -2, order)))
    if problem.op in REDUCED and problem.wanted == "out" and isinstance(v["axis"], int):
        return torch_kernel(problem.change(x=v["x"].index_select(v["axis"], _order(rng, v["x"].shape[v["axis"]]))))
    if problem.op == "softmax" and problem.wanted == "out":
        order = _order(rng, v["x"].shape[v["axis"]])
        return torch_kernel(problem.change(x=v["x"].index_select(v["axis"], order))).index_select(v["axis"], order.argsort())
    return None


def split(problem: Problem, rng: np.random.Generator) -> torch.Tensor | None:
    """The sum cut into pieces that are added up afterwards (split-k)."""
    v = problem.values
    if problem.wanted == "out" and problem.op == "linear" and v["x"].shape[-1] >= 8:
        cuts = [0, *sorted(rng.choice(np.arange(1, v["x"].shape[-1]), 3, replace=False).tolist()), v["x"].shape[-1]]
        parts = [torch.matmul(v["x"][..., a:b], v["weight"][:, a:b].t()) for a, b in itertools.pairwise(cuts)]
        total = functools.reduce(torch.add, parts)
        return total if v["bias"] is None else total + v["bias"]
    if problem.wanted == "out" and problem.op in ("sum", "mean") and isinstance(v["axis"], int):
        pieces = torch.stack([p.sum(v["axis"]) for p in v["x"].tensor_split(7, v["axis"])])
        total = functools.reduce(torch.add, pieces)
        return total if problem.op == "sum" else total / v["x"].shape[v["axis"]]
    return None


def sequential(problem: Problem, rng: np.random.Generator) -> torch.Tensor | None:
    """One term after the other, in the working precision."""
    v = problem.values
    if problem.wanted == "out" and problem.op in ("sum", "mean") and isinstance(v["axis"], int):
        total = torch.from_numpy(np.cumsum(v["x"].numpy(), axis=v["axis"])).select(v["axis"], -1)
        return total.clone() if problem.op == "sum" else total / v["x"].shape[v["axis"]]
    if problem.wanted == "out" and problem.op == "linear" and v["x"].ndim == 2:
        total = torch.zeros(len(v["x"]), len(v["weight"]), dtype=v["x"].dtype)
        for k in range(v["x"].shape[1]):
            total += v["x"][:, k, None] * v["weight"][None, :, k]
        return total if v["bias"] is None else total + v["bias"]
    return None


def composite(problem: Problem, rng: np.random.Generator) -> torch.Tensor | None:
    """The formula written with simple ops, as users write it: layer norm from means, division by a reciprocal, softmax in steps."""
    v = problem.values
    if problem.wanted != "out":
        return None
    if problem.op == "layer_norm":
        axes = tuple(range(v["begin_norm_axis"], v["x"].ndim))
        centred = v["x"] - v["x"].mean(axes, keepdim=True)
        y = centred / torch.sqrt(centred.pow(2).mean(axes, keepdim=True) + v["epsilon"])
        shape = v["x"].shape[v["begin_norm_axis"] :]
        y = y if v["scale"] is None else y * v["scale"].reshape(shape)
        return y if v["bias"] is None else y + v["bias"].reshape(shape)
    if problem.op == "divide" and isinstance(v["y"], float):
        return v["x"] * torch.tensor(1.0 / v["y"], dtype=v["x"].dtype)
    if problem.op == "softmax":
        e = torch.exp(v["x"] - v["x"].amax(v["axis"], keepdim=True))
        return e / e.sum(v["axis"], keepdim=True)
    if problem.op == "logsumexp" and isinstance(v["axis"], int):
        top = v["x"].amax(v["axis"], keepdim=True)
        return torch.log(torch.exp(v["x"] - top).sum(v["axis"])) + top.squeeze(v["axis"])
    return None


CLEAN = {"permuted": permuted, "split": split, "sequential": sequential, "composite": composite}
