"""A backward: Paddle's engine and torch's in turns, until nothing is left.

The doors of Paddle's engine (``run_backward``, ``run_partial_grad``) lead here while a mode is open or a tape
tensor lives. Each turn:

    Paddle's engine over native roots and frontiers; sentinels that it reaches only note their gradient
    torch's engine once over all twins that are noted; it stops at leaf twins
    leaves get their gradients through Paddle's engine: accumulation, leaf hooks and reducers run as ever

so a tensor that several ops use is added up by the engine that knows all of them, and a leaf is reached once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import paddle
import torch

from ..dispatch import frames
from ..frameworks.memory import confine_torch, stream_of, to_paddle, to_torch
from ..frameworks.versions import attribute
from . import clean
from .edges import edge, reached_without
from .twins import COPY, LEAF, LOCAL, Taped, alive, freed, frontiers, taped, tinies, twin, wrap


class Session:
    """One backward in one thread."""

    __slots__ = ("keeps", "noted", "partial", "retain")

    def __init__(self, *, retain: bool, partial: bool) -> None:
        self.retain, self.partial = retain, partial
        self.keeps = retain  # whether a later turn may come to torch's graph again
        self.noted: list[tuple[torch.Tensor, torch.Tensor]] = []  # (twin, its gradient)

    def arrived(self, record: Taped, grad: Any) -> None:
        """Paddle's engine has come to a sentinel."""
        self.noted.append((record.twin, to_torch(grad).clone()))  # Paddle goes on to use the gradient's memory


@contextmanager
def _session(*, retain: bool, partial: bool = False) -> Iterator[Session]:
    if frames.forked:  # the graph may be the parent's: torch's kernels must not wait for threads that are not there
        confine_torch()
    outer, reached = LOCAL.session, LOCAL.reached
    LOCAL.session, LOCAL.reached = Session(retain=retain, partial=partial), []
    try:
        yield LOCAL.session
    finally:
        LOCAL.session, LOCAL.reached = outer, reached


@contextmanager
def native() -> Iterator[None]:
    """Paddle's engine runs for itself inside: what it reaches is no part of the backward around it."""
    outer, LOCAL.session = LOCAL.session, None
    try:
        yield
    finally:
        LOCAL.session = outer


def strayed(record: Taped, grad: Any) -> None:
    """A sentinel was reached by an engine call that did not come through our doors: torch's turn at once."""
    retain, _ = clean.backward_options(grad)
    with _session(retain=retain) as session:
        session.arrived(record, grad)
        _turns(session, [], [], clean.NO_PATH)


def run_backward(tensors: Sequence[Any], grads: Sequence[Any], retain_graph: bool, *path: Any) -> Any:
    """``core.eager.run_backward``."""
    if not alive():
        return clean.run_backward(tensors, grads, retain_graph, *path)
    with _session(retain=retain_graph) as session:
        natives, given = [], []
        for index, tensor in enumerate(tensors):
            grad = grads[index] if grads else None
            record = None if tensor.stop_gradient else taped(tensor)
            if record is None:
                _check_freed(tensor, session)
                natives.append(tensor)
                given.append(paddle.ones(tensor.shape, tensor.dtype) if grad is None else grad)
            else:
                session.noted.append((record.twin, _incoming(record.twin, grad)))
        _turns(session, natives, given, path)
    return None


def _incoming(side: torch.Tensor, grad: Any) -> torch.Tensor:
    """The gradient that a backward begins with; a copy, for torch may hand its memory on."""
    if grad is None:
        return torch.ones_like(side, memory_format=torch.contiguous_format)
    if list(grad.shape) != list(side.shape):
        raise ValueError(f"(InvalidArgument) the gradient has shape {list(grad.shape)}, the tensor {list(side.shape)}")
    return to_torch(grad).to(side.dtype, copy=True)


def _turns(session: Session, natives: list[Any], given: list[Any], path: tuple[Any, ...]) -> None:
    """Both engines in turns. Leaves and frontiers in one call: a leaf that Paddle's own nodes reach, too, gets one gradient."""
    # A backward whose roots are Paddle's own alone frees what it walks, as natively: a second one raises.
    doors = bool(natives and session.noted and frontiers())
    while natives or session.noted:
        if natives:
            # The doors of leaves serve again; and what lies below a frontier may be reached in another turn once more, also by
            # nodes of Paddle's own that a later turn does not begin with.
            clean.run_backward(natives, given, session.retain or doors, *path)
        natives, given, doors = [], [], True
        if session.noted:
            noted, session.noted = session.noted, []
            memories: set[int] = set()
            for side, grad in _torch_turn(session, noted):
                _once(side, session)
                if (memory := grad.untyped_storage().data_ptr()) in memories:
                    grad = grad.clone()  # a sum hands one gradient to both of its operands
                memories.add(memory)
                natives.append(side._door)
                given.append(to_paddle(_laid_out(grad, side._transposed)))


def _once(side: torch.Tensor, session: Session) -> None:
    """A frontier is freed by a backward without ``retain_graph``, as Paddle's own node behind it would be."""
    if not side._frontier:
        return
    if side._freed is not None and side._freed is not session:
        raise freed(side._door.name)
    if not session.retain:
        side._freed = session


def _check_freed(tensor: Any, session: Session) -> None:
    held = attribute(tensor, LEAF)
    for reference in () if held is None else list(held.all):
        side = reference()
        if side is not None:
            _once(side, session)


def _torch_turn(session: Session, noted: list[tuple[torch.Tensor, torch.Tensor]]) -> list[tuple[Any, torch.Tensor]]:
    """Torch's engine over the twins: the leaf twins that it reached, with their gradients."""
    # Behind a frontier Paddle's engine may come to torch's graph again; that it was freed is kept by each call itself.
    session.keeps = session.retain or bool(frontiers())
    with torch.enable_grad(), stream_of(noted[0][0]):
        try:
            torch.autograd.backward([side for side, _ in noted], [grad for _, grad in noted], retain_graph=session.keeps)
        finally:
            found, LOCAL.reached = LOCAL.reached, []
    return found


def _laid_out(grad: torch.Tensor, transposed: bool) -> torch.Tensor:
    """A leaf's gradient as Paddle lays it out."""
    return (grad.t() if transposed else grad).detach().contiguous()


def run_partial_grad(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    grads: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
    only_inputs: bool,
    allow_unused: bool,
    no_grad_vars: Sequence[Any],
    *path: Any,
) -> Any:
    """``core.eager.run_partial_grad``: gradients of the inputs alone."""
    options = (retain_graph, create_graph, only_inputs, allow_unused, no_grad_vars, *path)
    odd = len({id(tensor) for tensor in inputs}) < len(inputs) or any(tensor.stop_gradient for tensor in inputs)
    if not alive() or odd:  # Paddle refuses what is odd
        return clean.run_partial_grad(outputs, inputs, grads, *options)
    if any(tensor.stop_gradient for tensor in no_grad_vars):
        probe = paddle.ones([1])
        probe.stop_gradient = False
        clean.run_partial_grad([clean.alias(probe)], [probe], [], *options)  # some of these Paddle refuses, too
    with _session(retain=True, partial=True) as session, _cut(no_grad_vars):
        natives, given = [], []
        for index, tensor in enumerate(outputs):
            grad = grads[index] if grads else None
            record = taped(tensor)
            if record is None:
                natives.append(tensor)
                given.append(paddle.ones(tensor.shape, tensor.dtype) if grad is None else grad)
            elif create_graph and grad is not None and not grad.stop_gradient:
                session.noted.append((record.twin, twin(grad).clone()))
            else:
                session.noted.append((record.twin, _incoming(record.twin, grad)))
        search = _Search(inputs, create_graph, no_grad_vars)
        while natives or session.noted:
            if natives:
                search.by_paddle(natives, given, only_inputs, no_grad_vars, path)
            noted, session.noted = session.noted, []
            natives, given = search.by_torch(noted) if noted else ([], [])
    return search.result(allow_unused)


@contextmanager
def _cut(tensors: Sequence[Any]) -> Iterator[None]:
    """No gradient passes through these tensors."""
    handles = [side.register_hook(torch.zeros_like) for tensor in tensors for side, _ in _sides(tensor)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _sides(tensor: Any) -> list[tuple[torch.Tensor, bool]]:
    """All twins of a tensor, and whether each is transposed."""
    record = taped(tensor)
    if record is not None:
        return [(record.twin, False)]
    found = []
    for name in (LEAF, COPY):
        held = attribute(tensor, name)
        for side in () if held is None else [ref() for ref in list(held.all)]:
            if side is not None:
                found.append((side, name == COPY))
    return found


class _Search:
    """The gradients of some inputs, gathered over the turns."""

    def __init__(self, inputs: Sequence[Any], create: bool, no_grad_vars: Sequence[Any]) -> None:
        self.inputs, self.create = inputs, create
        self.cuts = {edge(side) for tensor in no_grad_vars for side, _ in _sides(tensor)}
        self.total: list[Any] = [None] * len(inputs)
        self.fronts = frontiers()
        fronts = {id(side) for side in self.fronts}  # those come back through Paddle
        self.sides = [[(s, t) for s, t in _sides(tensor) if id(s) not in fronts] for tensor in inputs]
        self.seen: set[int] = set()

    def add(self, index: int, grad: Any) -> None:
        """One more contribution to the gradient of an input."""
        self.total[index] = grad if self.total[index] is None else self.total[index] + grad

    def by_paddle(self, natives: list[Any], given: list[Any], only_inputs: bool, no_grad_vars: Sequence[Any], path: Any) -> None:
        """Paddle's turn. It prunes what does not lead to inputs, so what sentinels are made of is among them."""
        found = clean.run_partial_grad(
            natives, [*self.inputs, *tinies()], given, True, self.create, only_inputs, True, no_grad_vars, *path
        )
        for index, grad in enumerate(found[: len(self.inputs)]):
            if grad is not None:
                self.add(index, grad)

    def by_torch(self, noted: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[list[Any], list[Any]]:
        """Torch's turn; what it reaches of Paddle's own graph."""
        places = [(index, side, transposed) for index, sides in enumerate(self.sides) for side, transposed in sides]
        if self.cuts:  # behind them there is no gradient, which is not a gradient of zero
            reached = reached_without(self.cuts, [side for side, _ in noted])
            places = [place for place in places if edge(place[1]) in reached]
        wanted = [side for _, side, _ in places] + self.fronts
        if not wanted:
            return [], []
        with torch.enable_grad(), stream_of(noted[0][0]):
            found = torch.autograd.grad(
                [side for side, _ in noted],
                wanted,
                [grad for _, grad in noted],
                retain_graph=True,
                create_graph=self.create,
                allow_unused=True,
            )
            for (index, _, transposed), grad in zip(places, found):
                if grad is not None:
                    self.add(index, self._given(grad, transposed))
            doors = [(side._door, self._given(g, False)) for side, g in zip(self.fronts, found[len(places) :]) if g is not None]
        return [door for door, _ in doors], [grad for _, grad in doors]

    def _given(self, grad: torch.Tensor, transposed: bool) -> Any:
        """A gradient as Paddle gets it: memory of its own, on the tape under ``create_graph``."""
        grad = grad.t() if transposed else grad
        if self.create:
            return wrap(grad.clone(memory_format=torch.contiguous_format))
        grad = grad.detach()
        if grad.data_ptr() in self.seen or grad._is_view() or not grad.is_contiguous():
            grad = grad.clone(memory_format=torch.contiguous_format)
        self.seen.add(grad.data_ptr())
        return to_paddle(grad)

    def result(self, allow_unused: bool) -> list[Any]:
        """What ``paddle.grad`` returns."""
        for index, grad in enumerate(self.total):
            if grad is None and not allow_unused:
                raise ValueError(
                    f"(InvalidArgument) The {index}-th input does not appear in the backward graph. Please check the input tensor "
                    "or set allow_unused=True to get None result."
                )
        return self.total
