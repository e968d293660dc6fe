"""One call's part in a backward: what it reads, which calls a backward reaches, and the gradients of one call alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from ..dispatch.dtypes import make_room
from ..dispatch.operands import flat
from ..frameworks.memory import version_alone
from ..frameworks.randomness import undrawn
from ..frameworks.torch_state import close_modes, gradients_of, open_modes, put_aside
from ..frameworks.versions import PaddleTensor
from ..runlog.counts import Tally
from ..torch_versions import Dispatching, pop_saved_hooks, push_saved_hooks
from .paddle_graph import LOCAL

# A call hangs on its node of torch's graph (``metadata``), and nothing of it runs inside of torch's engine: before the engine
# starts, one walk over the graph finds the calls and the leaf twins that it will reach. What Paddle would refuse is refused
# there, before anything has run.

_FREED = (
    "(Fatal) The TensorWrappers of {op} do not exist. This may be because:\n"
    "You calculate backward twice for the same subgraph without setting retain_graph=True."
)
_MODIFIED = (
    "(PermissionDenied) Tensor '{name}' used in gradient computation of op '{op}' has been modified by an inplace operation. Its "
    "version is {now} but the expected version is {then}. Please fix your code to void calling an inplace operator after using the "
    "Tensor which will used in gradient computation."
)
_KEY = "padiff_shim"  # in a node's metadata
_numbers = itertools.count()  # of blocks
with put_aside(), torch.enable_grad():  # a mode may be opened for the first time under torch.no_grad()
    _LEAF: Any = type(torch.zeros(1, requires_grad=True).view_as(torch.zeros(1)).grad_fn.next_functions[0][0])


def freed(op: str) -> SystemError:
    """Paddle's error for a second backward without ``retain_graph``."""
    return SystemError(_FREED.format(op=op))


class RecomputedBlock:
    """A block that recompute runs once more in its backward: here for its running statistics and counters alone."""

    __slots__ = ("again", "number", "session")

    def __init__(self, again: Callable[[], Any]) -> None:
        self.again, self.number = again, next(_numbers)
        self.session: Any = None  # the backward in which it ran last


class TapeCall:
    """One call's part in a backward: counted, refused if freed or if what it reads has changed."""

    __slots__ = ("block", "counted", "freed", "op", "renew", "saved", "tally")

    def __init__(
        self, op: str, tally: Tally | None, saved: Sequence[tuple[Any, int]], renew: Callable[[], Any] | None = None
    ) -> None:
        self.op, self.tally, self.saved = op, tally, saved  # saved: (Paddle tensor, its in-place version at forward)
        self.renew = renew  # brings a copy up to date that the backward reads
        self.block = LOCAL.block if saved else None  # which a backward that reads what the call keeps runs once more
        self.freed: Any = None  # the backward without ``retain_graph`` that was here
        self.counted: Any = None  # the backward that was counted last

    def behind(self, side: torch.Tensor) -> None:
        """Hang on the node of a result."""
        node: Any = side.grad_fn
        node.metadata[_KEY] = self
        if self.tally is not None and self.tally.clock is not None:
            node.register_prehook(self.tally.clock.passing(self.op))

    def keep(self, result: PaddleTensor) -> None:
        """Its backward reads the result as well."""
        self.saved, self.block = [*self.saved, (result, result._inplace_version())], LOCAL.block

    def check(self, session: Any) -> None:
        """Raise what Paddle's engine would raise at the call's node."""
        if self.freed is not None and self.freed is not session:
            raise freed(self.op)
        for tensor, version in self.saved:
            if tensor._inplace_version() != version:
                raise RuntimeError(_MODIFIED.format(name=tensor.name, op=self.op, now=tensor.inplace_version, then=version))


def begin(calls: Iterable[TapeCall], session: Any) -> None:
    """A backward is about to run through ``calls``: raise what Paddle would, bring copies up to date, and free what it frees."""
    copies = set()
    for call in calls:
        if call.saved or call.freed is not None:
            call.check(session)
        if call.renew is not None:
            copies.add(call.renew)
    for renew in copies:
        renew()
    if not session.retain:
        for call in calls:
            call.freed, call.saved = session, ()


def run_again(calls: Iterable[TapeCall], session: Any) -> None:
    """The blocks whose calls a backward is about to run through, once in it, in the order in which it comes to them."""
    blocks = {call.block for call in calls if call.block is not None and call.block.session is not session}
    for block in sorted(blocks, key=lambda block: block.number, reverse=True):
        block.session = session
        block.again()


def count(calls: Iterable[TapeCall], session: Any) -> None:
    """The backward has run through ``calls``; one that runs through a call in two turns counts once."""
    for call in calls:
        if call.tally is not None and call.counted is not session:
            call.tally.backward[call.op] += 1
            call.counted = session
            if call.tally.clock is not None:
                call.tally.clock.settle()


NESTS = TapeCall("", None, ())  # hangs on the nodes of PyLayers: their backward may run another one (recompute)


class Walk:
    """What a backward from some tensors comes to.

    Attributes:
        calls: those of substituted ops, each once.
        nests: whether other backwards may run within it.
        leaves: the tensors where torch's graph begins.
    """

    __slots__ = ("calls", "leaves", "nests")

    def __init__(self, roots: Sequence[torch.Tensor]) -> None:
        waiting: list[Any] = list({root.grad_fn: None for root in roots if root.grad_fn is not None})
        seen = set(waiting)
        calls: dict[TapeCall, None] = {}
        self.leaves: list[torch.Tensor] = []
        while waiting:
            node = waiting.pop()
            if type(node) is _LEAF:  # AccumulateGrad
                self.leaves.append(node.variable)
                continue
            call = node.metadata.get(_KEY)
            if call is not None:
                calls[call] = None
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    waiting.append(following)
        self.nests = NESTS in calls
        calls.pop(NESTS, None)
        self.calls = list(calls)


def between(roots: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> list[TapeCall]:
    """The calls on the ways from ``roots`` to ``wanted``: what ``torch.autograd.grad`` runs through."""
    above: dict[Any, list[Any]] = {}
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    walked = set(waiting)
    while waiting:
        node = waiting.pop()
        for following, _ in node.next_functions:
            if following is not None:
                above.setdefault(following, []).append(node)
                if following not in walked:
                    walked.add(following)
                    waiting.append(following)
    waiting = [torch.autograd.graph.get_gradient_edge(side).node for side in wanted]
    calls: dict[TapeCall, None] = {}
    leading: set[Any] = set()
    while waiting:
        for node in above.get(waiting.pop(), ()):
            if node not in leading:
                leading.add(node)
                waiting.append(node)
                call = node.metadata.get(_KEY)
                if call is not None and call is not NESTS:
                    calls[call] = None
    return list(calls)


# ---- What Torch's backward of a call reads: learnt from Torch, not declared.
#
# An in-place change of such a tensor between forward and backward has to raise, as it does in Paddle. Torch's graph holds the
# tensors over memory that Paddle writes without Torch's version counter knowing, so each call keeps Paddle's own versions of what
# is read. What is read depends on which operands want a gradient and which are numbers; it is learnt once for each such
# combination, by a run of the formula whose graph is thrown away. It also depends on how operands lie: of one with strides Torch
# may keep a copy, of others their memory. So an operand counts as read where a copy of it is, whichever came first; Paddle does
# not tell them apart either.


class Reads(NamedTuple):
    """Positions of operands and of results whose memory a backward reads."""

    operands: frozenset[int]
    results: frozenset[int]


LARGE = 2**18  # bytes: to count the writes of a tensor without its memory takes as long as a small kernel


def watched(tensor: PaddleTensor, side: torch.Tensor) -> tuple[Any, int]:
    """What a call keeps of an operand that its backward reads, to notice writes, and the present count of writes.

    Torch's graph holds the memory that it reads. For some operands that is a copy (``matmul``'s of heads), and the original would
    be held beside it.
    """
    return version_alone(tensor) if side.nbytes >= LARGE and not tensor.is_leaf else tensor, tensor._inplace_version()


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def apart(tensor: PaddleTensor, side: torch.Tensor) -> bool:
    """Whether the values of an operand that a backward reads are kept apart from its memory, which may be written to.

    Of a tensor that is not contiguous Paddle keeps a contiguous copy, so a program may fill a buffer column by column from the
    columns before. Torch keeps the memory itself. Views of leaves, such as weights, need no copy: nothing is written into them.
    """
    if side.is_contiguous() or tensor.is_contiguous():
        return False
    base = side._base
    return base is None or not base.is_leaf or tensor._inplace_version() > 0


class _Laid:
    """The values of a tensor that torch's graph keeps, and how it lay."""

    __slots__ = ("stride", "values")

    def __init__(self, values: torch.Tensor) -> None:
        self.values, self.stride = values, values.stride()

    def copy(self) -> None:
        """The graph keeps memory of its own."""
        self.values = self.values.clone(memory_format=torch.contiguous_format)


def keeping_apart(sides: Sequence[torch.Tensor], run: Callable[[], Any], *, results: bool = False) -> Any:
    """``run()``, whose graph keeps copies of what lies in the memory of ``sides``. Its backward reads them as that lay.

    ``results``: and of what lies in the memory of its results.
    """
    memories = {_memory(side) for side in sides}
    laid: list[_Laid] = []

    def pack(tensor: torch.Tensor) -> _Laid:
        packed = _Laid(tensor.detach())  # a result itself would hold its own graph
        if _memory(packed.values) in memories:
            packed.copy()
        elif results:
            laid.append(packed)
        return packed

    out = _hooked(pack, _as_it_lay, run)
    if results:
        memories = {_memory(result) for result in flat(out) if isinstance(result, torch.Tensor)}
        for packed in laid:
            if _memory(packed.values) in memories:
                packed.copy()
    return out


def _as_it_lay(packed: _Laid) -> torch.Tensor:
    values, stride = packed.values, packed.stride
    if values.stride() == stride:
        return values
    distinct = values[tuple([slice(1 if step == 0 else None) for step in stride])]  # of an expanded axis one element
    laid = torch.empty_strided(distinct.shape, stride, dtype=values.dtype, device=values.device).copy_(distinct)
    return laid.expand(values.shape)


_COPIES = frozenset({torch.ops.aten.clone.default, torch.ops.aten._to_copy.default})


def reads(known: dict[Any, Reads], settings: Sequence[Any], sides: Sequence[Any], run: Callable[..., Any]) -> Reads:
    """What the backward of ``run(*sides)`` reads. ``known``: learnt for this op; ``settings``: what else ``run`` depends on."""
    kinds = [(side.requires_grad, side.ndim, side.dtype) if isinstance(side, torch.Tensor) else type(side) for side in sides]
    key = (*kinds, repr(settings)) if settings else tuple(kinds)
    positions = known.get(key)
    if positions is None:
        make_room(known)
        positions = known[key] = _learnt(sides, run)
    return positions


class _CopyNotes(Dispatching):
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
        sources = set(memories)
        for out, original in reversed(self._made):
            if _memory(out) in sources and not out._version:
                sources.add(_memory(original))
        return sources


@torch.enable_grad()
def _learnt(sides: Sequence[Any], run: Callable[..., Any]) -> Reads:
    memories, results = _kept(sides, run)
    if all(not isinstance(side, torch.Tensor) or _memory(side) in memories for side in sides):
        return Reads(frozenset(_among(sides, memories)), results)
    modes = open_modes()
    try:
        with _CopyNotes() as copies:
            copied, _ = _kept(sides, run)
    finally:
        close_modes(modes)
    return Reads(frozenset(_among(sides, memories | copies.originals(copied))), results)


def _kept(sides: Sequence[Any], run: Callable[..., Any]) -> tuple[set[int], frozenset[int]]:
    """The memory of what Torch's graph keeps, and which results are among it."""
    saved: list[torch.Tensor] = []  # the tensors: of one that is freed, another could get the memory
    try:
        with undrawn():
            results = flat(_hooked(saved.append, never_unpacked, lambda: run(*sides)))
        memories = {_memory(tensor) for tensor in saved}
        return memories, frozenset(_among(results, memories))
    finally:
        saved.clear()  # the graph holds its hooks: with its own result among what they keep it would never die


def _hooked(pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor], run: Callable[[], Any]) -> Any:
    """``run()``, whose graph keeps what ``pack`` gives."""
    try:  # nothing comes between: a ``with`` leaves the hooks where a Ctrl-C falls into its beginning
        push_saved_hooks(pack, unpack)
        return run()
    finally:
        pop_saved_hooks()


def _among(tensors: Sequence[Any], memories: set[int]) -> list[int]:
    return [i for i, tensor in enumerate(tensors) if isinstance(tensor, torch.Tensor) and _memory(tensor) in memories]


def never_unpacked(packed: Any) -> Any:
    """For hooks of saved tensors that only look at what is kept."""
    raise AssertionError("this graph is never walked")


# ---- The gradients of one call alone, which compare mode holds against Paddle's.


def gradients(
    results: Sequence[tuple[torch.Tensor, torch.Tensor]], leaves: Sequence[torch.Tensor], *, create_graph: bool = False
) -> list[torch.Tensor]:
    """torch's own gradients of ``leaves``; zeros where the results do not depend on one.

    ``results``: those that have an incoming gradient, and that gradient. Results that torch gives no gradient (indices, running
    statistics) are passed over. A gradient has the shape of its result.
    """
    outs = tuple([out for out, _ in results if out.requires_grad])
    if not outs or not leaves:
        return [torch.zeros_like(leaf) for leaf in leaves]
    grads = tuple([grad if grad.dtype == out.dtype else grad.to(out.dtype) for out, grad in results if out.requires_grad])
    grads_of_leaves = gradients_of(outs, leaves, grads, create_graph=create_graph)
    return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(grads_of_leaves, leaves)]
