"""A backward: Paddle's engine and torch's in turns, until nothing is left.

The doors of Paddle's engine (``run_backward``, ``run_partial_grad``, see :mod:`.partial`) lead here while a mode is open or a tape
tensor lives. Each turn:

    Paddle's engine over native roots and frontiers; sentinels that it reaches only note their gradient
    torch's engine once over all twins that are noted; it stops at leaf twins
    leaves get their gradients through Paddle's engine: accumulation, leaf hooks and reducers run as ever

so a tensor that several ops use is added up by the engine that knows all of them, and a leaf is reached once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import paddle
import torch

from ..frameworks.memory import stream_of, to_paddle
from ..frameworks.torch_engine import run_engine
from ..frameworks.versions import attribute
from . import calls, clean
from .calls import Walk
from .leaves import LEAF, Place, deliver, frontiers_live, numbered
from .local import LOCAL, turn
from .nodes import leads_to_tape, py_layers
from .session import Session, begin, incoming
from .twins import Arriving, alive, rooted, when_one_strays


def strayed(record: Arriving, grad: Any) -> None:
    """A sentinel was reached by an engine call that did not come through our doors: torch's turn at once."""
    retain, _ = clean.backward_options([grad])
    with Session(retain=retain) as session:
        session.arrived(record, grad)
        _turns(session, [], [], clean.NO_PATH)


when_one_strays(strayed)


def run_backward(tensors: Sequence[Any], grads: Sequence[Any], retain_graph: bool, *path: Any) -> Any:
    """``core.eager.run_backward``."""
    if not alive():
        return clean.run_backward(tensors, grads, retain_graph, *path)
    with Session(retain=retain_graph) as session:
        natives, given = [], []
        for index, tensor in enumerate(tensors):
            grad = grads[index] if grads else None
            record = None if tensor.stop_gradient else rooted(tensor)
            if record is None:
                _check_freed(tensor, session)
                natives.append(tensor)
                given.append(paddle.ones(tensor.shape, tensor.dtype) if grad is None else grad)
            else:
                session.noted.append((record.twin, incoming(record.twin, grad)))
        _turns(session, natives, given, path)
    return None


def _turns(session: Session, natives: list[Any], given: list[Any], path: tuple[Any, ...]) -> None:
    """Both engines in turns. Leaves and frontiers in one call: a leaf that Paddle's own nodes reach, too, gets one gradient.

    So leaves wait while frontiers lead to torch's graph again, and may be reached from there: hooks and reducers see one gradient.
    """
    # A backward that meets Paddle's own nodes alone frees what it walks, as natively: a second one raises. One that comes to
    # torch's graph may come back behind a frontier to what it walked already; torch's calls then keep that they were freed.
    leads = list(map(leads_to_tape, natives)) if natives and frontiers_live() else []
    doors = bool(leads) and (bool(session.noted) or any(leads))
    # Roots that lead to Paddle's own nodes alone go along with what comes there from torch's graph: both walk those nodes once.
    late = [pair for pair, leading in zip(zip(natives, given), leads) if doors and not leading]
    if late:
        pairs = [pair for pair, leading in zip(zip(natives, given), leads) if leading]
        natives, given = [tensor for tensor, _ in pairs], [grad for _, grad in pairs]
    held: _Reached = []
    first, beyond, met = True, doors, set[int]()
    _ahead()
    while natives or session.noted or held or late:
        if natives:
            if beyond:
                _walked_once(natives, met)
            # The doors of leaves serve again; and what lies below a frontier may be reached in another turn once more, also by
            # nodes of Paddle's own that a later turn does not begin with.
            clean.run_backward(natives, given, session.retain or doors, *path)
        natives, given, doors = [], [], True
        if session.noted:
            noted, session.noted = session.noted, []
            held = _joined(held, _torch_turn(session, noted, first))
            first = False
        reached, held, last = _due(held, late)
        _ahead()
        beyond = bool(late)  # behind the doors of leaves there is nothing but the leaves
        while reached:  # a gradient that is laid out anew is not kept beside its copy
            side, grad = _next(reached)
            if side._place.frontier:
                beyond = True
                _once(side._place, session)
            deliver(side, to_paddle(grad), natives, given)
        if last:
            natives += [tensor for tensor, _ in late]
            given += [grad for _, grad in late]
            late = []


def _walked_once(natives: Sequence[Any], met: set[int]) -> None:
    """Paddle's engine ends the process where it comes to a PyLayer a second time, also with ``retain_graph``."""
    found = py_layers(natives)
    if not met.isdisjoint(found):
        raise RuntimeError(
            "a backward comes twice, from inside of the mode and from outside, to a PyLayer (or a recomputed block) that was "
            "called outside: Paddle's engine cannot. Call it inside"
        )
    met |= found


_Reached = list[tuple[Any, torch.Tensor]]  # leaf twins with their gradients, from the one that was made first


def _joined(held: _Reached, reached: _Reached) -> _Reached:
    """What waits, and what the latest turn came to; a leaf twin that both have gets the sum."""
    if not held:
        return reached
    total = {id(side): (side, grad) for side, grad in held}
    for side, grad in reached:
        known = total.get(id(side))
        total[id(side)] = side, grad if known is None else known[1] + grad
    return sorted(total.values(), key=lambda one: numbered(one[0]))


def _due(held: _Reached, late: Sequence[Any]) -> tuple[_Reached, _Reached, bool]:
    """Which of these Paddle's engine takes now, which wait, and whether roots that are ``late`` go along.

    All at once, but what leads to torch's graph again goes before.
    """
    fronts = [side for side, _ in held if side._place.frontier] if frontiers_live() else []
    if not late and (not fronts or len(fronts) == len(held)):
        return held, [], True
    before = {id(side) for side in fronts if leads_to_tape(side._place.door)}
    if not before:
        return held, [], True
    return [one for one in held if id(one[0]) in before], [one for one in held if id(one[0]) not in before], False


def _once(place: Place, session: Session) -> None:
    """A frontier is freed by a backward without ``retain_graph``, as Paddle's own node behind it would be."""
    if place.freed is not None and place.freed is not session:
        raise calls.freed(place.door.name)
    if not session.retain:
        place.freed = session


def _check_freed(tensor: Any, session: Session) -> None:
    held = attribute(tensor, LEAF)
    for reference in () if held is None else list(held.all):
        side = reference()
        if side is not None and side._place.frontier:
            _once(side._place, session)


def _torch_turn(session: Session, noted: list[tuple[torch.Tensor, torch.Tensor]], first: bool) -> _Reached:
    """Torch's engine over the twins: the leaf twins that it reached, with their gradients, from the one that was made first.

    Taken from the end they are in Torch's own order. ``first``: it is the first turn of this backward.
    """
    roots, grads = zip(*noted)
    walk = Walk(roots)
    begin(walk.calls, session)
    leaves = tuple(sorted(walk.leaves, key=numbered))
    # Behind a frontier Paddle's engine may come to torch's graph again; that it was freed is kept by each call itself.
    session.keeps = session.retain or frontiers_live()
    # A leaf that a later turn may come to, behind a frontier, is to be given one gradient, and waits.
    alone = first and not any(side._place.frontier for side in leaves if hasattr(side, "_place"))
    session.answers.clear()
    shown = _shown(leaves if walk.nests and alone else ()) if walk.nests or LOCAL.around else _ALONE
    with stream_of(roots[0].device), shown as taken:
        found = run_engine(roots, grads, session.keeps, False, leaves, True, accumulate_grad=False)
    calls.count(walk.calls, session)
    reached = [(side, grad) for side, grad in zip(leaves, found) if grad is not None and hasattr(side, "_place")]
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
            LOCAL.around = [one for one in LOCAL.around if one is not here]
            for handle in handles:
                handle.remove()


def _ahead() -> None:
    """Leaves get what the backwards around this one have finished before they get anything of this one, as in Torch.

    A weight that a recomputed block and others use would be added up in another order.
    """
    natives: list[Any] = []
    given: list[Any] = []
    for ready, taken in LOCAL.around:
        while ready:
            key, (side, grad) = ready.popitem()
            taken.add(key)
            laid = _laid(side, grad).detach().clone(memory_format=torch.contiguous_format)
            deliver(side, to_paddle(laid), natives, given)
        if natives:
            clean.run_backward(natives, given, True, *clean.NO_PATH)  # doors serve again
        natives, given = [], []


def _laid(side: Any, grad: torch.Tensor) -> torch.Tensor:
    """A leaf twin's gradient in the order of Paddle's weight."""
    return grad.t() if side._place.transposed else grad


_uses: Callable[[int], int] = getattr(torch._C, "_storage_Use_Count", lambda storage: 3)  # where torch cannot tell: shared


def _next(reached: _Reached) -> tuple[Any, torch.Tensor]:
    """A leaf twin, taken out of ``reached``, and its gradient as Paddle lays it out, in memory of its own, for accumulation."""
    side, grad = reached.pop()
    laid = _laid(side, grad)
    if not laid.is_contiguous() or laid.is_conj() or laid.is_neg():
        return side, laid.clone(memory_format=torch.contiguous_format)
    storage = laid.untyped_storage()
    if laid._is_view():  # what it is a view of would count as a second user; it dies with the last view
        laid = laid.data
        del grad
    # The tensor's own use and that of ``storage``; more where a sum hands one gradient to both of its operands.
    alone = _uses(storage._cdata) <= 2 and storage.nbytes() == laid.numel() * laid.element_size()
    return side, laid if alone else laid.clone()
