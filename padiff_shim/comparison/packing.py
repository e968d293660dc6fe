"""A program's saved-tensor hooks: where Paddle's backward reads other bits than what was saved, its kernel is not to blame.

``paddle.autograd.saved_tensors_hooks``, and with it recompute without reentry, hands each tensor that a node keeps to ``pack`` and
asks ``unpack`` for it in the backward. A pair may round (to float16, to eight bits), and a recomputed block may come out otherwise.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

import torch

from ..frameworks.memory import TENSOR_TYPES, stream_of, to_torch
from ..signals import let_pass

ALTERED = "what Paddle's backward read is not what was saved: saved_tensors_hooks, or a recomputed block, gave other bits"
Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class Passage:
    """One tensor on its way through a pair of hooks. ``altered``: it came back with other bits."""

    __slots__ = ("altered", "bits")

    def __init__(self, bits: bytes) -> None:
        self.bits, self.altered = bits, False


class _Packed:
    """What Paddle keeps: what the program's hook gave, and the passage; None where nobody gathers."""

    __slots__ = ("kept", "passage")

    def __init__(self, kept: Any, passage: Passage | None) -> None:
        self.kept, self.passage = kept, passage


class _Here(threading.local):
    """What was packed in this thread since somebody began to gather; None where nobody does."""

    def __init__(self) -> None:
        self.passages: list[Passage] | None = None


HERE = _Here()


def gather() -> list[Passage] | None:
    """Begin to gather what is packed from here on; gives what :func:`gathered` puts back."""
    outer, HERE.passages = HERE.passages, []
    return outer


def gathered(outer: list[Passage] | None) -> list[Passage]:
    """What was packed since :func:`gather`."""
    found, HERE.passages = HERE.passages, outer
    return found or []


def watched(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Pair:
    """A pair of hooks that does the same, and notes what comes back with other bits."""

    def packing(tensor: Any) -> _Packed:
        outer, HERE.passages = HERE.passages, None  # the hook's own calls are no part of the one whose operand this is
        passage = None if outer is None else Passage(_bits(tensor))
        try:
            kept = pack(tensor)
        finally:
            HERE.passages = outer
        if outer is not None and passage is not None:
            outer.append(passage)
        return _Packed(kept, passage)

    def unpacking(packed: _Packed) -> Any:
        tensor, passage = unpack(packed.kept), packed.passage
        if passage is not None and not passage.altered:
            passage.altered = _bits(tensor) != passage.bits
        return tensor

    return packing, unpacking


def _bits(tensor: Any) -> bytes:
    """What tells a tensor from another one: dtype, layout and values. Paddle reads what is unpacked as what was saved lay."""
    if type(tensor) not in TENSOR_TYPES or not tensor._is_initialized():
        return b""
    try:
        side = to_torch(tensor).detach()
        with stream_of(side.device):
            memory = side.contiguous().view(-1).view(torch.uint8).cpu().numpy()
    except Exception as error:  # what Torch has no twin for is not watched: comparing must never break the program
        let_pass(error)
        return b""
    found = hashlib.blake2b(memory, digest_size=16)
    found.update(repr((tensor.dtype, tensor.shape, tensor.strides)).encode())
    return found.digest()
