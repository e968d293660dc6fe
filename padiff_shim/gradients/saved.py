"""What Torch's backward of a call reads: asked of Torch, not declared.

An in-place change of such a tensor between forward and backward has to raise, as it does in Paddle. Torch's graph holds the tensors
over memory that Paddle writes without Torch's version counter knowing, so each call keeps Paddle's own versions of what is read.
What is read depends on which operands want a gradient and which are numbers; it is learnt once for each such combination, by a run
of the formula whose graph is thrown away. It also depends on how operands lie: of one with strides Torch may keep a copy, of others
their memory. So an operand counts as read where a copy of it is, whichever came first; Paddle does not tell them apart either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..dispatch.containers import flat
from ..dispatch.kinds import make_room
from ..frameworks.randomness import undrawn
from ..frameworks.surroundings import Dispatching, close_modes, open_modes
from ..frameworks.versions import version_alone


class Reads(NamedTuple):
    """Positions of operands and of results whose memory a backward reads."""

    operands: frozenset[int]
    results: frozenset[int]


LARGE = 2**18  # bytes: to count the writes of a tensor without its memory takes as long as a small kernel


def watched(tensor: Any, side: torch.Tensor) -> tuple[Any, int]:
    """What a call keeps of an operand that its backward reads, to know of writes, and its present count.

    Torch's graph holds the memory that it reads itself. Of some operands that is a copy (``matmul``'s of heads), and what it was
    copied from would be held beside it.
    """
    return version_alone(tensor) if side.nbytes >= LARGE and not tensor.is_leaf else tensor, tensor._inplace_version()


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def apart(tensor: Any, side: torch.Tensor) -> bool:
    """Whether an operand that a backward reads is to be kept apart from its memory, which may be written to.

    Of what does not lie contiguous Paddle keeps a contiguous copy, so a program may fill a buffer column by column from the columns
    before. Torch keeps the memory itself. Not of views of leaves, such as weights, which nothing is written into.
    """
    if side.is_contiguous() or tensor.is_contiguous():
        return False
    base = side._base
    return base is None or not base.is_leaf or tensor._inplace_version() > 0


class _Laid(NamedTuple):
    """The values of a tensor, and how it lay."""

    values: torch.Tensor
    stride: tuple[int, ...]


def keeping_apart(sides: Sequence[torch.Tensor], run: Callable[[], Any]) -> Any:
    """``run()``, whose graph keeps copies of what lies in the memory of ``sides``. Its backward reads them as that lay."""
    memories = {_memory(side) for side in sides}

    def pack(tensor: torch.Tensor) -> torch.Tensor | _Laid:
        values = tensor.detach()  # a result itself would hold its own graph
        return (
            _Laid(values.clone(memory_format=torch.contiguous_format), values.stride()) if _memory(values) in memories else values
        )

    return _hooked(pack, _as_it_lay, run)


def _as_it_lay(packed: torch.Tensor | _Laid) -> torch.Tensor:
    if isinstance(packed, torch.Tensor):
        return packed
    values, stride = packed
    distinct = values[tuple([slice(1 if step == 0 else None) for step in stride])]  # of an expanded axis one element
    laid = torch.empty_strided(distinct.shape, stride, dtype=values.dtype, device=values.device).copy_(distinct)
    return laid.expand(values.shape)


_push_hooks: Callable[..., None] = torch._C._autograd._push_saved_tensors_default_hooks
_pop_hooks: Callable[[], None] = torch._C._autograd._pop_saved_tensors_default_hooks
_COPIES = frozenset({torch.ops.aten.clone.default, torch.ops.aten._to_copy.default})


def reads(known: dict[Any, Reads], told: Sequence[Any], sides: Sequence[Any], run: Callable[..., Any]) -> Reads:
    """What the backward of ``run(*sides)`` reads. ``known``: learnt for this op so far; ``told``: what else ``run`` depends on."""
    kinds = [(side.requires_grad, side.ndim, side.dtype) if isinstance(side, torch.Tensor) else type(side) for side in sides]
    key = (*kinds, repr(told)) if told else tuple(kinds)
    found = known.get(key)
    if found is None:
        make_room(known)
        found = known[key] = _learnt(sides, run)
    return found


class _Copying(Dispatching):
    """Notes what is copied."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[tuple[torch.Tensor, torch.Tensor]] = []  # the tensors: of one that is freed, another could get the memory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One step."""
        out = func(*args, **(kwargs or {}))
        if func in _COPIES and out.dtype is args[0].dtype:  # what was cast is another value, of which Paddle keeps that
            self._made.append((out, args[0]))
        return out

    def originals(self, memories: set[int]) -> set[int]:
        """These memories, and those that they were copied from and not written since."""
        found = set(memories)
        for out, given in reversed(self._made):
            if _memory(out) in found and not out._version:
                found.add(_memory(given))
        return found


@torch.enable_grad()
def _learnt(sides: Sequence[Any], run: Callable[..., Any]) -> Reads:
    memories, results = _kept(sides, run)
    if all(not isinstance(side, torch.Tensor) or _memory(side) in memories for side in sides):
        return Reads(frozenset(_among(sides, memories)), results)
    modes = open_modes()
    try:
        with _Copying() as copies:
            copied, _ = _kept(sides, run)
    finally:
        close_modes(modes)
    return Reads(frozenset(_among(sides, memories | copies.originals(copied))), results)


def _kept(sides: Sequence[Any], run: Callable[..., Any]) -> tuple[set[int], frozenset[int]]:
    """The memory of what Torch's graph keeps, and which results are among it."""
    kept: list[torch.Tensor] = []  # the tensors: of one that is freed, another could get the memory
    try:
        with undrawn():
            results = flat(_hooked(kept.append, never_unpacked, lambda: run(*sides)))
        memories = {_memory(tensor) for tensor in kept}
        return memories, frozenset(_among(results, memories))
    finally:
        kept.clear()  # the graph holds its hooks: with its own result among what they keep it would never die


def _hooked(pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor], run: Callable[[], Any]) -> Any:
    """``run()``, whose graph keeps what ``pack`` gives."""
    try:  # nothing comes between: a ``with`` leaves the hooks where a Ctrl-C falls into its beginning
        _push_hooks(pack, unpack)
        return run()
    finally:
        _pop_hooks()


def _among(tensors: Sequence[Any], memories: set[int]) -> list[int]:
    return [i for i, tensor in enumerate(tensors) if isinstance(tensor, torch.Tensor) and _memory(tensor) in memories]


def never_unpacked(packed: Any) -> Any:
    """For hooks of saved tensors that only look at what is kept."""
    raise AssertionError("this graph is never walked")
