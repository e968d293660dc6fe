"""Results lie in Paddle's memory as Paddle lays them: contiguous. Which strides Torch gave them is remembered beside.

Both are needed. Much of Paddle reads memory order (``Tensor.item(i)``, ``as_strided``, ``_slice``, ``strides``, ``view``, custom
kernels), also long after the mode was closed, so a program must find what its own kernels would have left. And the strides of an
operand decide the last bits of Torch's next kernel, so that one must get Torch's.

:func:`hand_over` gives a result to Paddle and remembers; :func:`as_operand` takes a tensor to Torch and lays it out again, which
costs one copy. What is remembered belongs to the *memory* and dies with it, so views of a result (slices, transposes, split axes)
and tensors that took over its storage come back with the strides of the same view in Torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .versions import to_paddle, to_torch


class Block(NamedTuple):
    """Neighbouring axes of a result that lie one behind the other on both sides."""

    size: int
    dense: int  # the step in Paddle's memory, in elements
    stride: int  # the step as Torch laid it


class Layout(NamedTuple):
    """How Torch laid out a result that lies contiguously in Paddle's memory."""

    storage: StorageWeakRef
    itemsize: int
    shape: torch.Size
    strides: tuple[int, ...]
    blocks: tuple[Block, ...]  # from the outermost


layouts: dict[int, Layout] = {}  # by the address of the memory
_room = 64  # how many layouts may be kept before the dead ones are dropped


def hand_over(result: torch.Tensor) -> Any:
    """A Paddle tensor of the result's values, contiguous as Paddle's own results are; shares memory with a contiguous one."""
    if result.is_contiguous():
        return to_paddle(result)
    dense = result.contiguous()
    handed = to_paddle(dense)
    shares = handed.data_ptr() == dense.data_ptr()  # else it was copied: not ours to watch
    if shares and are_distinct(result.shape, result.stride()):
        _remember(dense, result)
    return handed


def _remember(dense: torch.Tensor, result: torch.Tensor) -> None:
    global _room
    if len(layouts) >= _room:
        for address in [address for address, layout in list(layouts.items()) if layout.storage.expired()]:
            layouts.pop(address, None)
        _room = 64 + 2 * len(layouts)
    shape, strides = result.shape, result.stride()
    reference = StorageWeakRef(dense.untyped_storage())
    layouts[dense.data_ptr()] = Layout(reference, dense.element_size(), shape, strides, _blocks(shape, strides))


def as_operand(tensor: Any) -> torch.Tensor:
    """Torch's side of a Paddle tensor with the strides it has in a Torch program: shares memory unless they were remembered."""
    side = to_torch(tensor)
    if not layouts or not side.numel():
        return side
    address = tensor.data_ptr() - tensor.offset
    layout = layouts.get(address)
    if layout is None:
        return side
    if layout.storage.expired():  # somebody else's memory by now
        layouts.pop(address, None)
        return side
    strides = _strides_of(layout, tensor, side)
    if strides is None or strides == side.stride():
        return side
    return torch.empty_strided(side.shape, strides, dtype=side.dtype, device=side.device).copy_(side)


def _strides_of(layout: Layout, tensor: Any, side: torch.Tensor) -> tuple[int, ...] | None:
    """Torch's strides for a view of remembered memory; None where no view of Torch's result has these elements."""
    if side.element_size() != layout.itemsize or tensor.offset % layout.itemsize:
        return None
    if not tensor.offset and side.shape == layout.shape and tensor.is_contiguous():
        return layout.strides
    return _translate(layout.blocks, tuple(side.shape), tuple(tensor.strides), tensor.offset // layout.itemsize)


def _blocks(shape: Sequence[int], strides: Sequence[int]) -> tuple[Block, ...]:
    """The axes of a result, merged where Torch could view them as one."""
    found: list[Block] = []
    dense = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 1:
            continue
        if found and stride == found[-1].size * found[-1].stride:
            found[-1] = found[-1]._replace(size=found[-1].size * size)
        else:
            found.append(Block(size, dense, stride))
        dense *= size
    return tuple(reversed(found))


def _translate(blocks: Sequence[Block], shape: Sequence[int], strides: Sequence[int], offset: int) -> tuple[int, ...] | None:
    """The strides of the view (``shape``, ``strides``, ``offset``) of contiguous memory, in the memory that ``blocks`` describe."""
    offset += sum((size - 1) * stride for size, stride in zip(shape, strides) if stride < 0)
    last = {block: offset // block.dense % block.size for block in blocks}  # the largest index that the view reaches
    translated = []
    for size, stride in zip(shape, map(abs, strides)):
        block = next((block for block in blocks if block.dense <= stride), None)
        if block is None or stride % block.dense:
            return None
        step = stride // block.dense
        last[block] += step * (size - 1)
        translated.append(step * block.stride)
    if any(index >= block.size for block, index in last.items()) or not are_distinct(shape, translated):
        return None
    return tuple(translated)


def are_distinct(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether every element has a place of its own."""
    reach = 0
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape) if size > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True
