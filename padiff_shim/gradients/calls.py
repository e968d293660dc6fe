"""One call's part in a backward, and which calls a backward comes to.

A call hangs on its node of torch's graph (``metadata``), and nothing of it runs inside of torch's engine: before the engine starts,
one walk over the graph finds the calls and the leaf twins that it will reach. What Paddle would refuse is refused there, before
anything has run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ..frameworks.surroundings import put_aside
from ..records.tally import Tally

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
with put_aside(), torch.enable_grad():  # a mode may be opened for the first time under torch.no_grad()
    _LEAF: Any = type(torch.zeros(1, requires_grad=True).view_as(torch.zeros(1)).grad_fn.next_functions[0][0])


def freed(op: str) -> SystemError:
    """Paddle's error for a second backward without ``retain_graph``."""
    return SystemError(_FREED.format(op=op))


class Call:
    """One call's part in a backward: counted, refused if freed or if what it reads has changed."""

    __slots__ = ("counted", "freed", "op", "renew", "saved", "tally")

    def __init__(
        self, op: str, tally: Tally | None, saved: Sequence[tuple[Any, int]], renew: Callable[[], Any] | None = None
    ) -> None:
        self.op, self.tally, self.saved = op, tally, saved  # saved: (Paddle tensor, its in-place version at forward)
        self.renew = renew  # brings a copy up to date that the backward reads
        self.freed: Any = None  # the backward without ``retain_graph`` that was here
        self.counted: Any = None  # the backward that was counted last

    def behind(self, side: torch.Tensor) -> None:
        """Hang on the node of a result."""
        node: Any = side.grad_fn
        node.metadata[_KEY] = self
        if self.tally is not None and self.tally.clock is not None:
            node.register_prehook(self.tally.clock.passing(self.op))

    def check(self, session: Any) -> None:
        """Raise what Paddle's engine would raise at the call's node."""
        if self.freed is not None and self.freed is not session:
            raise freed(self.op)
        for tensor, version in self.saved:
            if tensor._inplace_version() != version:
                raise RuntimeError(_MODIFIED.format(name=tensor.name, op=self.op, now=tensor.inplace_version, then=version))


def begin(calls: Iterable[Call], session: Any) -> None:
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


def count(calls: Iterable[Call], session: Any) -> None:
    """The backward has run through ``calls``; one that runs through a call in two turns counts once."""
    for call in calls:
        if call.tally is not None and call.counted is not session:
            call.tally.backward[call.op] += 1
            call.counted = session
            if call.tally.clock is not None:
                call.tally.clock.settle()


NESTS = Call("", None, ())  # hangs on the nodes of PyLayers: their backward may run another one (recompute)


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
        calls: dict[Call, None] = {}
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


def between(roots: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> list[Call]:
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
    calls: dict[Call, None] = {}
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
