"""Many parameters in one call: the operations of Torch's optimizers on lists of tensors.

On a CPU Torch's own functions go from parameter to parameter in Python, which takes the time where parameters are small.
``torch._foreach_*`` call the very same kernels there, once for each tensor of a list, without Python in between. So small
parameters are gathered into lists. Large ones come one by one: their memory is still in the cache when the next operation reads it.

That this has the bits of Torch's function is tried before it is used, for each of its branches: another version of Torch may order
its operations otherwise, or have other kernels for lists. Where the bits are others, Torch's function is called. So it is in
float16 and bfloat16: lists round numbers to the dtype of the tensors, which shows with some numbers alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .update import Batch, Item

_LARGE = 1 << 15  # elements: of float32, the five tensors of an update are 640 KiB
_STEPS = (0, 1, 9, 2000)  # done before those that are tried: the bias corrections' beginning, RAdam's branches
_SHAPES = ((_LARGE + 37,), (3, 7), (40, 30), (5,), ())

_HALVES = frozenset({torch.float16, torch.bfloat16})
_EXACT = 1 << 24  # below it float32 has each whole number

_OPERATIONS = (
    "abs",
    "add",
    "add_",
    "addcdiv_",
    "addcmul",
    "addcmul_",
    "copy_",
    "div",
    "div_",
    "lerp_",
    "mul_",
    "reciprocal_",
    "sqrt",
    "sqrt_",
)


def _maximum_(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.maximum(one, other, out=one)


ONE = SimpleNamespace(maximum_=_maximum_, **{name: getattr(torch.Tensor, name) for name in _OPERATIONS})  # on a tensor
MANY = SimpleNamespace(**{name: getattr(torch, f"_foreach_{name}") for name in ("maximum_", *_OPERATIONS)})  # on lists of them

Whole = Callable[..., None]  # (batch, how many steps each of its parameters has made, words)
OnLists = Callable[..., None]  # (batch, the number of this step, words)


class Core:
    """What an update computes: ``whole`` calls Torch's function, ``on_lists`` is made of `lists`."""

    def __init__(self, whole: Whole, on_lists: OnLists) -> None:
        self._whole, self._on_lists = whole, on_lists
        self._same: dict[Any, bool] = {}

    def __call__(self, b: Batch, done: Sequence[int], *words: Any) -> None:
        """Make the update behind ``done`` steps of each parameter."""
        if not self._has_its_bits(b, words) or not _lie_apart(b):
            self._whole(b, done, *words)
            return
        for steps, part in _parts(b, done):
            self._on_lists(part, _following(steps), *words)

    def _has_its_bits(self, b: Batch, words: tuple[Any, ...]) -> bool:
        """Whether lists give the bits of Torch's function, in the branches that these numbers take."""
        param = b.items[0].tensors["param"]
        if param.device.type != "cpu" or param.dtype in _HALVES:  # elsewhere Torch's own functions take lists
            return False
        key = param.dtype, b.branches(), *[bool(word) for word in words]
        known = self._same.get(key)
        if known is None:
            known = self._same[key] = all(self._is_same_behind(steps, b, words) for steps in _STEPS)
        return known

    def _is_same_behind(self, steps: int, b: Batch, words: tuple[Any, ...]) -> bool:
        ours, theirs = _sample(b), _sample(b)
        self._on_lists(ours, _following(steps), *words)
        self._whole(theirs, [steps] * len(theirs.items), *words)
        return all(
            _bits(mine.tensors[name]) == _bits(tensor)
            for mine, item in zip(ours.items, theirs.items)
            for name, tensor in item.tensors.items()
        )


def lists(b: Batch, *names: str) -> Iterator[list[Any]]:
    """All parameters in parts: `ONE` or `MANY`, and a tensor or a list of them for each name (``grad`` among them)."""
    for on, items, kept in b.gathered.once(names, lambda: _laid_out(b.items, names)):
        if on is ONE:
            yield [ONE, *[items.grad if tensor is None else tensor for tensor in kept]]
        else:
            yield [MANY, *[[item.grad for item in items] if tensors is None else tensors for tensors in kept]]


def _laid_out(items: Sequence[Item], names: Sequence[str]) -> list[tuple[Any, Any, list[Any]]]:
    """The parts: `ONE` and a parameter or `MANY` and several, with what belongs to each name; None where it is the gradient's."""
    parts: list[tuple[Any, Any, list[Any]]] = []
    small: list[Item] = []
    gathered = 0

    def kept(take: Callable[[str], Any]) -> list[Any]:
        return [None if name == "grad" else take(name) for name in names]

    def close() -> None:
        nonlocal small, gathered
        if small:
            together = small
            parts.append((MANY, together, kept(lambda name: [item.tensors[name] for item in together])))
        small, gathered = [], 0

    for item in items:
        count = item.tensors["param"].numel()
        if count > _LARGE:
            parts.append((ONE, item, kept(item.tensors.__getitem__)))
            continue
        small.append(item)
        gathered += count
        if gathered > _LARGE:
            close()
    close()
    return parts


def _parts(b: Batch, done: Sequence[int]) -> list[tuple[int, Batch]]:
    """The parameters by the number of their steps."""
    if len(set(done)) == 1:
        return [(done[0], b)]
    found: dict[int, list[Item]] = {}
    for item, steps in zip(b.items, done):
        found.setdefault(steps, []).append(item)
    return [(steps, b.of(items)) for steps, items in found.items()]


def _lie_apart(b: Batch) -> bool:
    """Whether no two parameters have memory in common: the one's update is over then before the other's begins."""

    def found() -> bool:
        extents = sorted(extent for item in b.items for extent in item.extents)
        return all(one[1] <= other[0] for one, other in itertools.pairwise(extents))

    return b.gathered.once("apart", found)


def _following(steps: int) -> float:
    """The number of the next step as Torch counts it: in float32."""
    return float(steps + 1) if 0 <= steps < _EXACT else float(np.float32(steps) + np.float32(1))


def _sample(b: Batch) -> Batch:
    """Parameters of several sizes with any values, and with what else belongs to an update of ``b``."""
    first, rng = b.items[0].tensors, torch.Generator().manual_seed(0)
    param = first["param"]
    items = []
    for shape in _SHAPES:
        tensors = {}
        for name, one in first.items():
            if one.shape == param.shape:
                values = torch.randn(shape, generator=rng, dtype=torch.float64)
                tensors[name] = (values if name == "param" else values.abs()).to(one.dtype)
            else:
                tensors[name] = one.clone()
        item = Item(tensors)
        item.grad = torch.randn(shape, generator=rng, dtype=torch.float64).to(param.dtype)
        items.append(item)
    return b.of(items)


def _bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
