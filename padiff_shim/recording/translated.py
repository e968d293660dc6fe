"""Under which names of the op table a function of Torch is known: learnt by running the table's formulas on their own samples."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from ..catalogue.registry import ops
from ..table.op import Op

_REFLECTED = frozenset({"rsub", "radd", "rmul", "rdiv", "rtruediv", "rpow", "rmatmul", "rfloordiv", "rmod"})
_IN_PLACE = frozenset("i" + name[1:] for name in _REFLECTED)
_SPELT = {"truediv": "div", "mm": "matmul", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg"}
# What a formula needs beside the function that it stands for.
_BESIDE = frozenset({
    "get", "detach", "reshape", "long", "float", "to", "int", "ne", "all", "any", "bool", "is_floating_point", "is_contiguous",
    "contiguous", "movedim", "broadcast_tensors", "transpose", "flatten", "squeeze", "unsqueeze", "numel", "min", "eq", "invert",
    "pad", "ones_like", "tensor", "tolist", "unbind", "t", "flip", "tril", "triu", "where", "clone",
})  # fmt: skip
_MOST = 3  # samples of an op that are tried


class _Names(TorchFunctionMode):
    """The names of the functions that are called within it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found.append(plain(function))
        return function(*args, **(kwargs or {}))


def plain(function: Any) -> str:
    """A function's name without what tells in-place, operator and reflected forms apart: ``__rsub__`` is ``sub``."""
    name = getattr(function, "__name__", str(function)).strip("_")
    name = name[1:] if name in _REFLECTED or name in _IN_PLACE else name
    return _SPELT.get(name, name)


@functools.cache
def _learnt() -> dict[str, tuple[str, ...]]:
    """Torch's name -> names of ops whose formula is that function alone, or that beside movements."""
    sure: defaultdict[str, list[str]] = defaultdict(list)
    likely: defaultdict[str, list[str]] = defaultdict(list)
    for op in ops().values():
        if op.random is not None:
            continue
        for names in _called(op):
            core = [name for name in names if name not in _BESIDE]
            into = sure if len(names) == 1 else likely
            main = names if len(names) == 1 else core
            if len(main) == 1 and op.name not in into[main[0]]:
                into[main[0]].append(op.name)
    return {name: tuple(dict.fromkeys([*sure[name], *likely[name]])) for name in [*sure, *likely]}


def _called(op: Op) -> list[list[str]]:
    """The functions that the op's formula calls, for each of some samples that Torch takes."""
    found = []
    for sample in op.samples[:_MOST]:
        try:
            arrays = sample.arrays(np.random.default_rng(0), "float32")
            tensors = [torch.tensor(one) if isinstance(one, np.ndarray) else one for one in arrays]
            for place, name in enumerate(op.names[: len(tensors)]):
                if op.layouts and name in op.layouts and tensors[place] is not None:
                    tensors[place] = tensors[place].t()
            with torch.no_grad(), _Names() as names:
                op(*op.arguments(sample, tensors))
        except Exception:  # a sample in words of Paddle's: others may do
            continue
        found.append(names.found)
    return found


@functools.cache
def names(name: str) -> tuple[str, ...]:
    """The table's names for a function of Torch (by its :func:`plain` name), the likeliest first; its own where there are none."""
    found = _learnt().get(name, ())
    known = (name,) if name in ops() else ()
    return tuple(dict.fromkeys([*known, *found])) or (name,)


@functools.cache
def moves(name: str) -> bool:
    """Whether the function takes or arranges elements and computes none, by the table."""
    found = names(name)
    table = ops()
    return found[0] in table and all(table[one].exact for one in found if one in table)
