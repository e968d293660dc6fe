"""A backward: Paddle's engine and Torch's in turns until both graphs are walked; and ``paddle.grad``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence, Set as AbstractSet
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import paddle
import torch

from ..dispatch import frames
from ..frameworks.memory import stream_of, to_paddle, to_torch
from ..frameworks.torch_state import confine_torch, gradients_of
from ..frameworks.versions import PaddleTensor, attribute, grad_node
from ..interrupts import ends_program, engine_runs, postpone
from ..torch_versions import run_engine, storage_uses
from . import calls, paddle_graph
from .calls import TapeCall, Walk, between
from .hooks import after_hooks
from .paddle_graph import LOCAL, leads_to, leads_to_tape, onlookers_aside, tinies, turn, walked
from .twins import (
    COPY,
    LEAF,
    Arriving,
    GradientPlace,
    alive,
    creation_number,
    deliver,
    frontiers,
    frontiers_live,
    on_stray_gradient,
    taped,
    taped_root,
    twin,
    wrap,
    wrap_apart,
)

# ---- A backward in one thread, and what it begins with.


class Session:
    """A backward in one thread, while it is open: ``with Session(retain=False) as session``."""

    __slots__ = ("answers", "create", "deliveries", "keeps_graph", "noted", "outer", "retain", "retained")

    def __init__(self, *, retain: bool, create: bool = False) -> None:
        self.retain = retain
        self.create = create  # whether gradients have graphs of their own
        self.deliveries: dict[int, Any] = {}  # gradients on their way to leaf twins, by the twin's id: see twins.deliver
        self.keeps_graph = retain  # whether a later turn may come to Torch's graph again
        self.noted: list[tuple[torch.Tensor, torch.Tensor]] = []  # (twin, its gradient)
        self.answers: dict[Hashable, torch.Tensor] = {}  # what hooks made of gradients in this turn: see hooks.after_hooks
        self.retained: set[int] = set()  # ids of tensors whose retained gradient a turn of this backward has begun

    def __enter__(self) -> Session:
        if frames.forked:  # the graph may be the parent's: torch's kernels must not wait for threads that are not there
            confine_torch()
        self.outer, LOCAL.session = LOCAL.session, self
        return self

    def __exit__(self, *_: object) -> None:
        LOCAL.session = self.outer

    def arrived(self, record: Arriving, grad: PaddleTensor) -> None:
        """Paddle's engine has come to a sentinel."""
        side = twin(grad) if self.create and not grad.stop_gradient else to_torch(grad)
        self.noted.append((record.twin, side.clone()))  # Paddle goes on to use the gradient's memory


class native_engine:
    """Inside, Paddle's engine runs for itself: what it reaches is no part of the backward around it."""

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer, LOCAL.session = LOCAL.session, None

    def __exit__(self, *_: object) -> None:
        LOCAL.session = self._outer


def first_gradient(side: torch.Tensor, grad: PaddleTensor) -> torch.Tensor:
    """The gradient that a backward begins with, on Torch's side; a copy, since Torch may hand its memory on."""
    if grad is None:
        return torch.ones_like(side, memory_format=torch.contiguous_format)
    start = to_torch(grad)
    if start.shape != side.shape:
        raise ValueError(f"(InvalidArgument) the gradient has shape {list(grad.shape)}, the tensor {list(side.shape)}")
    return start.clone() if start.dtype is side.dtype else start.to(side.dtype)


def begin(reached: Sequence[TapeCall], session: Session) -> None:
    try:
        calls.begin(reached, session)
    except BaseException as error:
        if not ends_program(error) or not engine_runs():
            raise
        postpone(error)  # natively it arrives when the backward has ended
        calls.begin(reached, session)
    calls.run_again(reached, session)


# ---- A backward: Paddle's engine and Torch's in turns, until both graphs are walked.
#
# The entry points of Paddle's engine (``run_backward``, ``run_partial_grad``) lead here while a mode is open or a tape tensor
# lives. Each turn:
#
#     Paddle's engine over native roots and frontiers; sentinels that it reaches only note their gradient
#     torch's engine once over all twins that are noted; it stops at leaf twins
#     leaves get their gradients through Paddle's engine: accumulation, leaf hooks and reducers run as ever
#
# so a tensor that several ops use is added up by the engine that knows all of them, and a leaf is reached once.


def run_from_stray(record: Arriving, grad: PaddleTensor) -> None:
    """An engine call that was not intercepted has reached a sentinel: Torch's turn follows at once."""
    retain, _ = paddle_graph.backward_options([grad])
    with Session(retain=retain) as session:
        session.arrived(record, grad)
        _turns(session, [], [], paddle_graph.NO_PATH)


on_stray_gradient(run_from_stray)


def run_backward(tensors: Sequence[Any], grads: Sequence[Any], retain_graph: bool, *path: Any) -> Any:
    """``core.eager.run_backward``."""
    if not alive():
        return paddle_graph.run_backward(tensors, grads, retain_graph, *path)
    with Session(retain=retain_graph) as session:
        natives, native_grads = [], []
        for index, tensor in enumerate(tensors):
            grad = grads[index] if grads else None
            record = None if tensor.stop_gradient else taped_root(tensor)
            if record is None:
                twins = attribute(tensor, LEAF)
                for reference in () if twins is None else list(twins.all):
                    side = reference()
                    if side is not None and side._place.frontier:
                        _check_frontier(side._place, session)
                natives.append(tensor)
                native_grads.append(paddle.ones(tensor.shape, tensor.dtype) if grad is None else grad)
            else:
                session.noted.append((record.twin, first_gradient(record.twin, grad)))
        _turns(session, natives, native_grads, path)
    return None


def _turns(session: Session, natives: list[Any], grads: list[Any], path: tuple[Any, ...]) -> None:
    """Both engines in turns. Leaves and frontiers in one call: a leaf that Paddle's own nodes reach, too, gets one gradient.

    So leaves wait while frontiers lead to torch's graph again, and may be reached from there: hooks and reducers see one gradient.
    """
    # A backward that meets Paddle's own nodes alone frees what it walks, as natively: a second one raises. One that comes to
    # torch's graph may come back behind a frontier to what it walked already; torch's calls then keep that they were freed.
    leads = list(map(leads_to_tape, natives)) if natives and frontiers_live() else []
    returns = bool(leads) and (bool(session.noted) or any(leads))
    # Roots that lead to Paddle's own nodes alone go along with what comes there from torch's graph: both walk those nodes once.
    late = [pair for pair, leading in zip(zip(natives, grads), leads) if returns and not leading]
    if late:
        pairs = [pair for pair, leading in zip(zip(natives, grads), leads) if leading]
        natives, grads = [tensor for tensor, _ in pairs], [grad for _, grad in pairs]
    waiting: _Reached = []
    first, beyond, met = True, returns, set[int]()
    _ahead()
    while natives or session.noted or waiting or late:
        if natives:
            if beyond:
                _walked_once(natives, met)
            # The entrances of leaves serve again; and what lies below a frontier may be reached in another turn once more, also by
            # nodes of Paddle's own that a later turn does not begin with.
            paddle_graph.run_backward(natives, grads, session.retain or returns, *path)
        natives, grads, returns = [], [], True
        if session.noted:
            noted, session.noted = session.noted, []
            waiting = _summed(waiting, _torch_turn(session, noted, first))
            first = False
        reached, waiting, last = _due(waiting, late)
        _ahead()
        beyond = bool(late)  # behind the entrances of leaves are the leaves alone
        while reached:  # a gradient that is laid out anew is not kept beside its copy
            side, grad = _next(reached)
            if side._place.frontier:
                beyond = True
                _check_frontier(side._place, session)
            deliver(side, to_paddle(grad), natives, grads)
        if last:
            natives += [tensor for tensor, _ in late]
            grads += [grad for _, grad in late]
            late = []


def _walked_once(natives: Sequence[Any], met: set[int]) -> None:
    """Paddle's engine ends the process where it comes to a PyLayer a second time, also with ``retain_graph``."""
    places = {place for place, node in walked(map(grad_node, natives)) if "PyLayer" in node.name()}
    if not met.isdisjoint(places):
        raise RuntimeError(
            "a backward comes twice, from inside of the mode and from outside, to a PyLayer (or a recomputed block) that was "
            "called outside: Paddle's engine cannot. Call it inside"
        )
    met |= places


_Reached = list[tuple[Any, torch.Tensor]]  # leaf twins with their gradients, from the one that was made first


def _summed(waiting: _Reached, reached: _Reached) -> _Reached:
    """What waits, and what the latest turn came to; a leaf twin that both have gets the sum."""
    if not waiting:
        return reached
    total = {id(side): (side, grad) for side, grad in waiting}
    for side, grad in reached:
        known = total.get(id(side))
        total[id(side)] = side, grad if known is None else known[1] + grad
    return sorted(total.values(), key=lambda pair: creation_number(pair[0]))


def _due(waiting: _Reached, late: Sequence[Any]) -> tuple[_Reached, _Reached, bool]:
    """Which of these Paddle's engine takes now, which wait, and whether roots that are ``late`` go along.

    All at once, but what leads to torch's graph again goes before.
    """
    fronts = [side for side, _ in waiting if side._place.frontier] if frontiers_live() else []
    if not late and (not fronts or len(fronts) == len(waiting)):
        return waiting, [], True
    before = {id(side) for side in fronts if leads_to_tape(side._place.entrance)}
    if not before:
        return waiting, [], True
    return [pair for pair in waiting if id(pair[0]) in before], [pair for pair in waiting if id(pair[0]) not in before], False


def _check_frontier(place: GradientPlace, session: Session) -> None:
    """A frontier is freed by a backward without ``retain_graph``, as Paddle's own node behind it would be."""
    if place.freed is not None and place.freed is not session:
        raise calls.freed(place.entrance.name)
    if not session.retain:
        place.freed = session


def _torch_turn(session: Session, noted: list[tuple[torch.Tensor, torch.Tensor]], first: bool) -> _Reached:
    """Torch's engine over the twins: the leaf twins that it reached, with their gradients, from the one that was made first.

    Taken from the end they are in Torch's own order. ``first``: it is the first turn of this backward.
    """
    roots, grads = zip(*noted)
    walk = Walk(roots)
    begin(walk.calls, session)
    leaves = tuple(sorted(walk.leaves, key=creation_number))
    # Behind a frontier Paddle's engine may come to torch's graph again; that it was freed is kept by each call itself.
    session.keeps_graph = session.retain or frontiers_live()
    # A leaf that a later turn may come to, behind a frontier, is to be given one gradient, and waits.
    alone = first and not any(side._place.frontier for side in leaves if hasattr(side, "_place"))
    session.answers.clear()
    shown = _shown(leaves if walk.nests and alone else ()) if walk.nests or LOCAL.around else _ALONE
    with stream_of(roots[0].device), shown as taken:
        leaf_grads = run_engine(roots, grads, session.keeps_graph, False, leaves, True, accumulate_grad=False)
    calls.count(walk.calls, session)
    reached = [(side, grad) for side, grad in zip(leaves, leaf_grads) if grad is not None and hasattr(side, "_place")]
    return [(side, grad) for side, grad in reached if id(side) not in taken] if taken else reached


_ALONE = nullcontext(frozenset[int]())  # around an engine that no other one runs in, nor around it


@contextmanager
def _shown(leaves: Sequence[torch.Tensor]) -> Iterator[AbstractSet[int]]:
    """Around torch's engine: backwards that run within it find what it has finished of ``leaves``. Gives which of it they took."""
    ready: dict[int, tuple[Any, torch.Tensor]] = {}
    taken: set[int] = set()

    def finished(side: Any, grad: torch.Tensor) -> None:
        if LOCAL.turn is taken:  # else it is that of an engine within, which came to the same leaf
            ready[id(side)] = side, grad

    handles = [side.register_hook(partial(finished, side)) for side in leaves if hasattr(side, "_place")]
    here = ready, taken
    LOCAL.around.append(here)
    with turn(taken):
        try:
            yield taken
        finally:  # it may be gone, where an error left this open
            LOCAL.around = [entry for entry in LOCAL.around if entry is not here]
            for handle in handles:
                handle.remove()


def _ahead() -> None:
    """Leaves get what the backwards around this one have finished before they get anything of this one, as in Torch.

    A weight that a recomputed block and others use would be added up in another order.
    """
    natives: list[Any] = []
    grads: list[Any] = []
    for ready, taken in LOCAL.around:
        while ready:
            key, (side, grad) = ready.popitem()
            taken.add(key)
            laid = _as_weight_lies(side, grad).detach().clone(memory_format=torch.contiguous_format)
            deliver(side, to_paddle(laid), natives, grads)
        if natives:
            paddle_graph.run_backward(natives, grads, True, *paddle_graph.NO_PATH)  # entrances serve again
        natives, grads = [], []


def _as_weight_lies(side: Any, grad: torch.Tensor) -> torch.Tensor:
    """A leaf twin's gradient in the order of Paddle's weight."""
    return grad.t() if side._place.transposed else grad


def _next(reached: _Reached) -> tuple[Any, torch.Tensor]:
    """A leaf twin, taken out of ``reached``, and its gradient as Paddle lays it out, in memory of its own, for accumulation."""
    side, grad = reached.pop()
    laid = _as_weight_lies(side, grad)
    if not laid.is_contiguous() or laid.is_conj() or laid.is_neg():
        return side, laid.clone(memory_format=torch.contiguous_format)
    storage = laid.untyped_storage()
    if laid._is_view():  # what it is a view of would count as a second user; it dies with the last view
        laid = laid.data
        del grad
    # The tensor's own use and that of ``storage``; more where a sum hands one gradient to both of its operands.
    alone = storage_uses(storage._cdata) <= 2 and storage.nbytes() == laid.numel() * laid.element_size()
    return side, laid if alone else laid.clone()


# ---- ``paddle.grad``: gradients of some tensors alone, with a graph of their own under ``create_graph``.
#
# Torch computes the gradients of the inputs' twins and of the frontiers, Paddle what lies behind those; in turns, as above.


def run_partial_grad(outputs: Sequence[Any], inputs: Sequence[Any], *options: Any) -> Any:
    """``core.eager.run_partial_grad``: gradients of the inputs alone."""
    with onlookers_aside(inputs):
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
    odd = any(len({id(tensor) for tensor in tensors}) < len(tensors) for tensors in (inputs, outputs))
    odd = odd or any(tensor.stop_gradient for tensor in inputs)
    same = len(outputs) == len(inputs) == 1 and outputs[0] is inputs[0]  # natively no hook sees that gradient
    if not alive() or odd or same:  # Paddle refuses what is odd
        return paddle_graph.run_partial_grad(outputs, inputs, grads, *options)
    if any(tensor.stop_gradient for tensor in no_grad_vars):
        probe = paddle.ones([1])
        probe.stop_gradient = False
        paddle_graph.run_partial_grad([paddle_graph.alias(probe)], [probe], [], *options)  # some of these Paddle refuses, too
    no_grad_vars = [*no_grad_vars, *[tensor for _, tensor in _outside(no_grad_vars)]]
    search = _Search(inputs, create_graph, no_grad_vars)
    if not any(map(taped_root, outputs)) and search.apart(outputs):  # Paddle prunes what leads elsewhere, and meets no error there
        return paddle_graph.run_partial_grad(outputs, inputs, grads, *options)
    with Session(retain=True, create=create_graph) as session, _cut(no_grad_vars):
        natives, native_grads = [], []
        for index, tensor in enumerate(outputs):
            grad = grads[index] if grads else None
            record = taped_root(tensor)
            if record is None:
                natives.append(tensor)
                native_grads.append(paddle.ones(tensor.shape, tensor.dtype) if grad is None else grad)
            elif create_graph and grad is not None and not grad.stop_gradient:
                session.noted.append((record.twin, twin(grad).clone()))
            else:
                session.noted.append((record.twin, first_gradient(record.twin, grad)))
        while natives or session.noted:
            if natives:
                search.by_paddle(natives, native_grads, only_inputs, no_grad_vars, path)
            noted, session.noted = session.noted, []
            natives, native_grads = search.by_torch(noted) if noted else ([], [])
    return search.result(allow_unused)


class _Turned(torch.autograd.Function):
    """A Linear weight's gradient as Paddle's weight lies, and gradients of it as Torch's: in each program they lie contiguously."""

    @staticmethod
    def forward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.t().clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return _Turned.apply(grad)


@contextmanager
def _cut(tensors: Sequence[Any]) -> Iterator[None]:
    """No gradient passes through these tensors."""

    def zeros(grad: torch.Tensor | None) -> torch.Tensor | None:
        return None if grad is None else torch.zeros_like(grad)  # None: of a result that nothing was made of, beside one that was

    handles = [side.register_hook(zeros) for tensor in tensors for side, _ in _sides(tensor)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _sides(tensor: PaddleTensor) -> list[tuple[torch.Tensor, bool]]:
    """All twins of a tensor, and whether each is transposed."""
    record = taped_root(tensor)
    if record is not None:
        return [(record.hook_side, False)]  # what was made of it before a write in its memory leads to its node, too
    sides = []
    for name in (LEAF, COPY):
        twins = attribute(tensor, name)
        for side in () if twins is None else [ref() for ref in list(twins.all)]:
            if side is not None:
                sides.append((side, name == COPY))
    return sides


def _outside(tensors: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The places in ``tensors`` of views with sentinels, and tensors with the nodes that the views had: see hooks.give_sentinel."""
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
        self.fronts = [side for side in fronts if leads_to([side._place.entrance], ends)]
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
        return not any(self.sides) and not leads_to([side._place.entrance for side in self.fronts], self.inputs)

    def add(self, index: int, grad: PaddleTensor) -> None:
        """Add a contribution to the gradient of an input."""
        total = self.total[index]
        self.total[index] = grad if total is None else self.added(total, grad)

    def added(self, total: Any, grad: PaddleTensor) -> Any:
        """Their sum. Of 16-bit types Paddle's + has no kernel on a CPU, where its engine adds them."""
        return total + grad if self.create else paddle.add_n([total, grad])

    def by_paddle(self, natives: list[Any], grads: list[Any], only_inputs: bool, no_grad_vars: Sequence[Any], path: Any) -> None:
        """Paddle's turn. It prunes what does not lead to inputs, so what sentinels are made of is among them.

        Not where that leads on below the only input, which may be freed.
        """
        sources = tinies()
        inputs = self.places()
        if leads_to(natives, sources, without=inputs if len(self.inputs) == 1 else ()):
            inputs += sources
        results = paddle_graph.run_partial_grad(natives, inputs, grads, True, self.create, only_inputs, True, no_grad_vars, *path)
        for (index, _), grad in zip(self.outside, results[len(self.inputs) :]):
            if grad is not None:
                self.add(index, grad)
        for index, grad in enumerate(results[: len(self.inputs)]):
            record = taped(self.inputs[index])
            if grad is not None and (
                record is None or not record.has_sentinel
            ):  # a sentinel has noted its gradient for Torch, and returns one float
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
            results = gradients_of(roots, wanted, [grad for _, grad in noted], create_graph=self.create)
            calls.count(reached, LOCAL.session)
            for (index, _, transposed), grad in zip(places, results):
                if grad is not None:
                    self.add(index, self._for_paddle(after_hooks(self.answers[index], grad), transposed))
            natives: list[Any] = []
            native_grads: list[Any] = []
            for side, grad in zip(fronts, results[len(places) :]):
                if grad is not None:
                    deliver(side, self._for_paddle(grad, False), natives, native_grads)
        return natives, native_grads

    def _fronts(self, roots: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Those that lead to inputs; not those below an only input, which Paddle prunes."""
        if len(self.inputs) > 1 or not self.fronts or not self.sides[0]:
            return self.fronts
        ends = {edge(side) for side, _ in self.sides[0]}
        open_ = reached_without(ends, [side for side in roots if edge(side) not in ends])
        return [side for side in self.fronts if edge(side) in open_]

    def _for_paddle(self, grad: torch.Tensor, transposed: bool) -> Any:
        """A gradient as Paddle gets it: memory of its own, on the tape under ``create_graph``."""
        if self.create:
            return wrap(_Turned.apply(grad)) if transposed else wrap_apart(grad)
        grad = (grad.t() if transposed else grad).detach()
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


# ---- Where a backward of Torch arrives if some tensors let no gradient through.


def edge(side: torch.Tensor) -> tuple[Any, int]:
    """Where the gradient of a tensor arrives in torch's graph."""
    node, number = torch.autograd.graph.get_gradient_edge(side)[:2]
    return node, number


def reached_without(cuts: set[tuple[Any, int]], roots: Sequence[torch.Tensor]) -> set[tuple[Any, int]]:
    """The edges of torch's graph that a backward from ``roots`` arrives at, ending at ``cuts``."""
    waiting = [edge(side) for side in roots]
    reached, walked = set(waiting), set()
    while waiting:
        node, _ = waiting.pop()
        if node in walked:
            continue
        walked.add(node)
        new = [edge for edge in node.next_functions if edge[0] is not None and edge not in reached and edge not in cuts]
        reached.update(new)
        waiting += new
    return reached


# ---- The reducer of a data-parallel layer, which walks Paddle's graph for parameters without a gradient.
#
# Paddle's graph ends at sentinels, and Torch's begins there. So the reducer's walk also begins at the entrance of each leaf that
# Torch's graph leads to.


def prepare_reducer(original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of ``EagerReducer.prepare_for_backward``, with which the forward of a data-parallel layer ends."""

    @functools.wraps(original)
    def hook(reducer: Any, outputs: Sequence[Any]) -> Any:
        return original(reducer, [*outputs, *entrances_behind(outputs)] if alive() else outputs)

    return hook


def entrances_behind(outputs: Sequence[Any]) -> list[Any]:
    """Tensors from whose nodes Paddle's graph leads on to every leaf and frontier that a backward from ``outputs`` comes to."""
    fronts_and_leaves: dict[int, torch.Tensor] = {}
    roots, natives = [], []
    for tensor in outputs:
        record = None if tensor.stop_gradient else taped(tensor)
        if record is not None:
            roots.append(record.twin)
        elif not tensor.stop_gradient and leads_to_tape(tensor):
            natives.append(tensor)
    with Session(retain=True) as session:
        while roots or natives:
            fronts = []
            for side in Walk(roots).leaves:
                if hasattr(side, "_place") and id(side) not in fronts_and_leaves:
                    fronts_and_leaves[id(side)] = side
                    if side._place.frontier and leads_to_tape(side._place.entrance):
                        fronts.append(side)
            roots, natives = _below(natives, fronts, session), []
    return [side._place.entrance for side in fronts_and_leaves.values()]


def _below(natives: Sequence[Any], fronts: Sequence[torch.Tensor], session: Session) -> list[torch.Tensor]:
    """The twins that Paddle's own nodes lead to; to be seen only by running them, with gradients of zero."""
    starts, grads = list(natives), [paddle.zeros(tensor.shape, tensor.dtype) for tensor in natives]
    for side in fronts:
        deliver(side, to_paddle(torch.zeros_like(side, memory_format=torch.contiguous_format).detach()), starts, grads)
    if not starts:
        return []
    paddle_graph.run_partial_grad(starts, tinies(), grads, True, False, True, True, [], *paddle_graph.NO_PATH)
    noted, session.noted = session.noted, []
    return [twin for twin, _ in noted]
