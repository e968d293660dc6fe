"""``paddle.grad``: gradients of some tensors alone, with a graph of their own under ``create_graph``.

Torch is asked for the twins of the inputs and for the frontiers, Paddle for what lies behind those; in turns, as in
:mod:`.backward`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import paddle
import torch

from ..frameworks.memory import stream_of, to_paddle
from ..frameworks.torch_engine import gradients_of
from ..frameworks.versions import attribute
from . import calls, clean
from .calls import between
from .edges import edge, reached_without
from .leaves import COPY, LEAF, deliver, frontiers
from .local import LOCAL, tinies, turn
from .nodes import leads_to, leads_to_tape
from .onlookers import aside
from .session import Session, begin, incoming
from .twins import alive, rooted, taped, twin, wrap
from .watching import heard


def run_partial_grad(outputs: Sequence[Any], inputs: Sequence[Any], *options: Any) -> Any:
    """``core.eager.run_partial_grad``: gradients of the inputs alone."""
    with aside(inputs):
        return _run(outputs, inputs, *options)


def _run(
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
    options = (retain_graph, create_graph, only_inputs, allow_unused, no_grad_vars, *path)
    odd = len({id(tensor) for tensor in inputs}) < len(inputs) or any(tensor.stop_gradient for tensor in inputs)
    same = len(outputs) == len(inputs) == 1 and outputs[0] is inputs[0]  # natively no hook sees that gradient
    if not alive() or odd or same:  # Paddle refuses what is odd
        return clean.run_partial_grad(outputs, inputs, grads, *options)
    if any(tensor.stop_gradient for tensor in no_grad_vars):
        probe = paddle.ones([1])
        probe.stop_gradient = False
        clean.run_partial_grad([clean.alias(probe)], [probe], [], *options)  # some of these Paddle refuses, too
    no_grad_vars = [*no_grad_vars, *[tensor for _, tensor in _outside(no_grad_vars)]]
    search = _Search(inputs, create_graph, no_grad_vars)
    if not any(map(rooted, outputs)) and search.apart(outputs):  # Paddle prunes what leads elsewhere, and meets no error there
        return clean.run_partial_grad(outputs, inputs, grads, *options)
    with Session(retain=True, create=create_graph) as session, _cut(no_grad_vars):
        natives, given = [], []
        for index, tensor in enumerate(outputs):
            grad = grads[index] if grads else None
            record = rooted(tensor)
            if record is None:
                natives.append(tensor)
                given.append(paddle.ones(tensor.shape, tensor.dtype) if grad is None else grad)
            elif create_graph and grad is not None and not grad.stop_gradient:
                session.noted.append((record.twin, twin(grad).clone()))
            else:
                session.noted.append((record.twin, incoming(record.twin, grad)))
        while natives or session.noted:
            if natives:
                search.by_paddle(natives, given, only_inputs, no_grad_vars, path)
            noted, session.noted = session.noted, []
            natives, given = search.by_torch(noted) if noted else ([], [])
    return search.result(allow_unused)


@contextmanager
def _cut(tensors: Sequence[Any]) -> Iterator[None]:
    """No gradient passes through these tensors."""
    handles = [side.register_hook(_zeros) for tensor in tensors for side, _ in _sides(tensor)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _zeros(grad: torch.Tensor | None) -> torch.Tensor | None:
    return None if grad is None else torch.zeros_like(grad)  # None: of a result that nothing was made of, beside one that was


def _sides(tensor: Any) -> list[tuple[torch.Tensor, bool]]:
    """All twins of a tensor, and whether each is transposed."""
    record = rooted(tensor)
    if record is not None:
        return [(record.heard, False)]  # what was made of it before a write in its memory leads to its node, too
    found = []
    for name in (LEAF, COPY):
        held = attribute(tensor, name)
        for side in () if held is None else [ref() for ref in list(held.all)]:
            if side is not None:
                found.append((side, name == COPY))
    return found


def _outside(tensors: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Where in ``tensors`` views have been given sentinels, with what has the nodes that they had: see seats.seat."""
    for index, tensor in enumerate(tensors):
        record = taped(tensor)
        if record is not None and record.outside is not None:
            yield index, record.outside


class _Search:
    """The gradients of some inputs, gathered over the turns."""

    def __init__(self, inputs: Sequence[Any], create: bool, no_grad_vars: Sequence[Any]) -> None:
        self.inputs, self.create = inputs, create
        self.cuts = {edge(side) for tensor in no_grad_vars for side, _ in _sides(tensor)}
        self.total: list[Any] = [None] * len(inputs)
        fronts = frontiers()
        through = {id(side) for side in fronts}  # those come back through Paddle
        records = [taped(tensor) for tensor in inputs]
        self.answers = [None if record is None else record.answers for record in records]
        self.outside = list(_outside(inputs))
        self.sides = [[(s, t) for s, t in _sides(tensor) if id(s) not in through] for tensor in inputs]
        ends = [*self.places(), *tinies()]
        self.fronts = [side for side in fronts if leads_to([side._place.door], ends)]
        self.seen: set[int] = set()

    def places(self) -> list[Any]:
        """The inputs, as Paddle's engine comes to them."""
        return [*self.inputs, *[tensor for _, tensor in self.outside]]

    def apart(self, outputs: Sequence[Any]) -> bool:
        """Whether what leads from some native outputs to the inputs is Paddle's graph alone."""
        if self.outside:
            return False
        if not any(map(leads_to_tape, outputs)):
            return True
        return not any(self.sides) and not leads_to([side._place.door for side in self.fronts], self.inputs)

    def add(self, index: int, grad: Any) -> None:
        """One more contribution to the gradient of an input."""
        total = self.total[index]
        self.total[index] = grad if total is None else self.added(total, grad)

    def added(self, total: Any, grad: Any) -> Any:
        """Their sum. Of 16-bit types Paddle's + has no kernel on a CPU, where its engine adds them."""
        return total + grad if self.create else paddle.add_n([total, grad])

    def by_paddle(self, natives: list[Any], given: list[Any], only_inputs: bool, no_grad_vars: Sequence[Any], path: Any) -> None:
        """Paddle's turn. It prunes what does not lead to inputs, so what sentinels are made of is among them.

        Not where that leads on below the only input, which may be freed.
        """
        sources = tinies()
        inputs = self.places()
        if leads_to(natives, sources, without=inputs if len(self.inputs) == 1 else ()):
            inputs += sources
        found = clean.run_partial_grad(natives, inputs, given, True, self.create, only_inputs, True, no_grad_vars, *path)
        for (index, _), grad in zip(self.outside, found[len(self.inputs) :]):
            if grad is not None:
                self.add(index, grad)
        for index, grad in enumerate(found[: len(self.inputs)]):
            record = taped(self.inputs[index])
            if grad is not None and (record is None or not record.seated):  # a sentinel has told Torch, and gives back one float
                self.add(index, grad)

    def by_torch(self, noted: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[list[Any], list[Any]]:
        """Torch's turn; what it reaches of Paddle's own graph."""
        places = [(index, side, transposed) for index, sides in enumerate(self.sides) for side, transposed in sides]
        if self.cuts:  # behind them there is no gradient, which is not a gradient of zero
            open_ = reached_without(self.cuts, [side for side, _ in noted])
            places = [place for place in places if edge(place[1]) in open_]
        roots = [side for side, _ in noted]
        fronts = self._fronts(roots)
        wanted = [side for _, side, _ in places] + fronts
        if not wanted:
            return [], []
        reached = between(roots, wanted)
        begin(reached, LOCAL.session)
        LOCAL.session.answers.clear()
        with torch.enable_grad(), stream_of(roots[0].device), turn(self):
            found = gradients_of(roots, wanted, [grad for _, grad in noted], create_graph=self.create)
            calls.count(reached, LOCAL.session)
            for (index, _, transposed), grad in zip(places, found):
                if grad is not None:
                    self.add(index, self._given(heard(self.answers[index], grad), transposed))
            natives: list[Any] = []
            given: list[Any] = []
            for side, grad in zip(fronts, found[len(places) :]):
                if grad is not None:
                    deliver(side, self._given(grad, False), natives, given)
        return natives, given

    def _fronts(self, roots: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Those that lead to inputs; not those below an only input, which Paddle prunes."""
        if len(self.inputs) > 1 or not self.fronts or not self.sides[0]:
            return self.fronts
        ends = {edge(side) for side, _ in self.sides[0]}
        open_ = reached_without(ends, [side for side in roots if edge(side) not in ends])
        return [side for side in self.fronts if edge(side) in open_]

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
