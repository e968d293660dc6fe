"""Many parameters in one call: Torch's optimizers on lists of tensors, where that has the bits of one parameter after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .update import Batch, Item

# On a CPU Torch's own functions go from parameter to parameter in Python, which takes the time where parameters are small. With
# ``foreach=True`` they call the very same kernels there, once for each tensor of a list, without Python in between. So small
# parameters are gathered into lists. Large ones come one by one: their memory is still in the cache when the next operation reads
# it.
#
# That lists have the bits of the single way is tried before they are used, for each branch of a function: some are ordered
# otherwise (NAdam's and RAdam's in Torch 2.13), and another version of Torch may order others so. It is tried in float64, too,
# which shows in which order numbers are computed, and on parameters that are no larger than a step, which show a step's last bits.
# In float16 and bfloat16 lists round numbers to the dtype of the tensors, which shows with some numbers alone: there they are not
# used.

_LARGE = 1 << 15  # elements: of float32, the five tensors of an update are 640 KiB
_STEPS = (0, 1, 9, 2000)  # done before those that are tried: the bias corrections' beginning, RAdam's branches
_SHAPES = ((3, 7), (40, 30), (5,), ())

_HALVES = frozenset({torch.float16, torch.bfloat16})

Function = Callable[..., None]  # (batch, how many steps each of its parameters has made, words; foreach), by a function of Torch's


class Core:
    """What an update computes, by Torch's function."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._same: dict[Any, bool] = {}

    def __call__(self, b: Batch, done: Sequence[int], *words: Any) -> None:
        """Make the update behind ``done`` steps of each parameter."""
        if b.items[0].tensors["param"].is_cuda:  # there Torch takes lists by itself
            self._function(b, done, *words, foreach=None)
            return
        lists = list(_lists(b.items)) if len(b.items) > 1 else []
        # Of parameters that have no memory in common the one's update is over before the other's begins.
        extents = sorted(extent for item in b.items for extent in item.extents) if lists else []
        lie_apart = all(extent[1] <= other[0] for extent, other in itertools.pairwise(extents))
        if not lists or not lie_apart or not self._has_its_bits(b, words):
            self._function(b, done, *words, foreach=False)
            return
        gathered = {place for places in lists for place in places}
        others = [place for place in range(len(b.items)) if place not in gathered]
        for places, foreach in (*zip(lists, itertools.repeat(True)), *([(others, False)] if others else [])):
            self._function(b.of([b.items[place] for place in places]), [done[place] for place in places], *words, foreach=foreach)

    def _has_its_bits(self, b: Batch, words: tuple[Any, ...]) -> bool:
        """Whether lists give the bits of the single way, in the branches that these numbers take."""
        param = b.items[0].tensors["param"]
        if param.dtype in _HALVES:
            return False
        key = param.dtype, b.branches(), *[bool(word) for word in words]
        known = self._same.get(key)
        if known is None:
            known = self._same[key] = all(
                self._is_same_behind(steps, b, words, dtype) for steps in _STEPS for dtype in {param.dtype, torch.float64}
            )
        return known

    def _is_same_behind(self, steps: int, b: Batch, words: tuple[Any, ...], dtype: torch.dtype) -> bool:
        on_lists, singly = _sample(b, dtype), _sample(b, dtype)
        for sample, foreach in ((on_lists, True), (singly, False)):
            self._function(sample, [steps] * len(sample.items), *words, foreach=foreach)
        return all(
            _bits(item_on_lists.tensors[name]) == _bits(tensor)
            for item_on_lists, item in zip(on_lists.items, singly.items)
            for name, tensor in item.tensors.items()
        )


def _lists(items: Sequence[Item]) -> Iterator[list[int]]:
    """The places of small parameters, in lists of about so many elements as stay in the cache."""
    gathered: list[int] = []
    elements = 0
    for place, item in enumerate(items):
        count = item.tensors["param"].numel()
        if count > _LARGE:
            continue
        gathered.append(place)
        elements += count
        if elements > _LARGE:
            yield gathered
            gathered, elements = [], 0
    if gathered:
        yield gathered


def _sample(b: Batch, dtype: torch.dtype) -> Batch:
    """Parameters of several sizes with any values, and with what else belongs to an update of ``b``."""
    first, rng = b.items[0].tensors, torch.Generator().manual_seed(0)
    shaped = [name for name, tensor in first.items() if tensor.shape == first["param"].shape]
    items = []
    for size, shape in itertools.product((1.0, b.lr), _SHAPES):
        drawn = {name: torch.randn(shape, generator=rng, dtype=torch.float64) for name in [*shaped, "grad"]}
        tensors = {name: drawn[name].abs().to(dtype) if name in shaped else tensor.clone() for name, tensor in first.items()}
        item = Item({**tensors, "param": (drawn["param"] * size).to(dtype)})
        item.grad = drawn["grad"].to(dtype)
        items.append(item)
    return b.of(items)


def _bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
