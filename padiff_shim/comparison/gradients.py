"""The gradients of a compared call: observed on Paddle's own node or replayed, beside Torch's."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import paddle
import torch

from ..dispatch.dtypes import exchanged
from ..dispatch.entry_point import EntryPoint
from ..dispatch.frames import paused
from ..dispatch.operands import CallOperands, each, flat
from ..fault_injection import of_a_change
from ..frameworks.autocast import autocast_off
from ..frameworks.memory import CPU_ALONE, as_operand, hand_over, own, stream_of, to_torch
from ..frameworks.torch_state import autocasting, dispatch_modes, function_modes, inference, put_aside
from ..frameworks.versions import NODE_HOOKS, attribute, grad_node
from ..interrupts import HERE, after_engine, ended, engine_runs, in_its_try, let_pass
from ..runlog.log import LogError
from ..table.signature import parse
from ..tape import paddle_graph
from ..tape.paddle_graph import look_on
from ..tape.twins import TAPE
from . import hooks
from .compared_call import ComparedCall, of_paddle
from .hooks import ALTERED, gather, gathered

# ---- Which of a grad node's gradients belongs to which operand of the call that made it.

Pairs = Sequence[tuple[int, int]]  # (slot of the node, operand)


class Seats:
    """The operands whose gradients a node shows.

    ``slots``: slot -> operand, where that is known; else it follows from how many gradients the node has: it has one for each of
    ``tensors``, the operands that are tensors, or for each parameter. ``needs``: the operands that want one.
    """

    __slots__ = ("_count", "_door", "_known", "_needs", "_slots", "_tensors")

    def __init__(
        self,
        door: EntryPoint,
        needs: Sequence[int],
        *,
        tensors: Sequence[int] = (),
        count: int = 0,
        slots: Mapping[int, int] | None = None,
    ) -> None:
        self._door, self._needs, self._tensors, self._count, self._slots = door, needs, tensors, count, slots
        self._known: dict[int, Pairs | None] = {}

    def of(self, count: int) -> Pairs | None:
        """Of a node with ``count`` gradients; None where that cannot be said."""
        found = self._known.get(count, _UNASKED)
        if found is _UNASKED:
            slots = self._slots if self._slots is not None else self._by_count(count)
            found = None if slots is None else [(slot, operand) for slot, operand in slots.items() if operand in self._needs]
            self._known[count] = found
        return found

    def _by_count(self, count: int) -> Mapping[int, int] | None:
        door, tensors = self._door, self._tensors
        if count > self._count and not door.python:  # optional tensors that the op does not have: as the door's parameters stand
            seats = {name: seat for seat, (aliases, _) in enumerate(parse(door.entry.params)) for name in aliases}
            known = all(door.names[index] in seats for index in tensors)
            return {seats[door.names[index]]: index for index in tensors} if known else None
        if count == self._count:  # numbers were made tensors, absent ones have a place
            return {index: index for index in tensors}
        return dict(enumerate(tensors)) if count == len(tensors) else None


_UNASKED: Any = object()


def watched(subject: ComparedCall, shown: Mapping[int, Any], *, nested: bool) -> list[tuple[Any, Seats, bool]]:
    """The nodes to hook, the seats of each, and whether it is the last to run; none: no way. ``nested``: see :mod:`.watch`."""
    door, place = subject.door, subject.place
    if not NODE_HOOKS or nested or door.op.operands or door.entry.pairs is not None:
        return []
    node = grad_node(next(iter(shown.values())))
    if node is None:
        return []
    if door.python and door.transposed is None:
        slots = _slots(subject, node, shown)
        return [] if slots is None else [(node, Seats(door, subject.inputs.needs, slots=slots), True)]
    if place.seats is None:  # what follows is alike in all calls of the place
        needs = subject.inputs.needs
        tensors = [index for index, side in enumerate(subject.operands) if isinstance(side, torch.Tensor)]
        place.seats = [Seats(door, needs, tensors=tensors, count=len(subject.operands))]
        if door.transposed is not None and len(tensors) > 2:
            # A Linear with bias is two nodes in Paddle: a product, and the bias added to it.
            bias = tensors[-1]
            place.seats.append(Seats(door, needs, slots={1: bias}))
            if any(index in needs for index in tensors[:-1]):
                place.seats.append(Seats(door, needs, tensors=tensors[:-1], count=len(subject.operands)))
    whole, *parts = place.seats
    if not parts or node.name() != "AddGradNode":
        return [(node, whole, True)]
    if len(parts) == 1:
        return [(node, parts[0], True)]
    subject.asks_ahead = True
    return [(node, parts[0], False), (node.next_functions[0], parts[1], True)]


def _slots(subject: ComparedCall, node: Any, shown: Mapping[int, Any]) -> dict[int, int] | None:
    """Slot of the node -> operand, if a Python function made this one node alone: then it leads straight to the operands' nodes."""
    if any(grad_node(one) is not node for one in list(shown.values())[1:]):
        return None
    owners = {index: grad_node(subject.inputs.paddle[index]) for index in subject.inputs.needs}
    found: dict[int, int] = {}
    for slot, following in enumerate(node.next_functions):
        if following is None:
            continue
        owned = [index for index, owner in owners.items() if owner is following]
        if len(owned) != 1 or owned[0] in found.values():
            return None
        found[slot] = owned[0]
    return found if len(found) == len(owners) else None


# ---- Paddle's gradients of one call, as they were observed, beside Torch's.


def let_through(error: Exception) -> None:
    """Raise again what is no failure of a comparison: a signal's, a planted change's, the log's with ``on_log_error="raise"``."""
    if isinstance(error, LogError) or of_a_change(error):
        raise error
    let_pass(error)


def judge_gradients(subject: ComparedCall, incoming: Mapping[int, Any], shown: Mapping[int, Any]) -> dict[int, torch.Tensor]:
    """Judge Paddle's gradients ``{operand: gradient}`` for the incoming ones ``{position: gradient}``.

    An operand that wants a gradient and gets none is judged as one that gets zeros, which is what it comes to; not within a
    paddle.grad, which leaves out what leads to none of its inputs.
    Returns torch's, as Paddle would lay them out, where the program goes on with them.
    """
    comparison, door = subject.comparison, subject.door
    began = 0.0 if subject.key is None else comparison.sampling.clock()
    carried: dict[int, torch.Tensor] = {}
    gradients = _judged(shown)
    try:
        grads = {position: as_operand(grad) for position, grad in incoming.items()}
        first = next(iter(grads.values()))
        if comparison.waits(first):  # Paddle adds other gradients into this memory, whoever holds it
            grads = {position: grad.clone() for position, grad in grads.items()}
        gathers = len(gradients) > 1 and comparison.run.recorder.gather()
        try:
            if CPU_ALONE:
                _judge_each(subject, grads, gradients, carried)
            else:
                with stream_of(first.device):
                    _judge_each(subject, grads, gradients, carried)
        finally:
            if gathers:
                comparison.run.recorder.put()
    except Exception as error:  # comparing must never break the program's backward
        let_through(error)
        comparison.run.warn(f"gradients of a call of {door.op.name!r} were not judged: {type(error).__name__}: {str(error)[:200]}")
    finally:
        if subject.key is not None:
            comparison.sampling.spent(subject.key, comparison.sampling.clock() - began, backward=True)
    return carried


def _judged(shown: Mapping[int, Any]) -> dict[int, Any]:
    """The gradients that are judged, None for one that is missing."""
    judged = {operand: tensor if tensor is not None and tensor._is_initialized() else None for operand, tensor in shown.items()}
    return {operand: tensor for operand, tensor in judged.items() if tensor is not None or not HERE.prunes}


def _judge_each(
    subject: ComparedCall, grads: Mapping[int, torch.Tensor], gradients: Mapping[int, Any], carried: dict[int, torch.Tensor]
) -> None:
    """One by one, in the order of ``gradients``; what is carried on is put into ``carried``."""
    comparison, transposed = subject.comparison, subject.door.transposed
    references = subject.gradients(grads, gradients)
    pairs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for operand, tensor in gradients.items():
        other = references.get(operand)
        if other is None or (tensor is None and not other.any()):
            continue
        mine = torch.zeros_like(other) if tensor is None else to_torch(tensor)
        if operand == transposed and tensor is not None:
            mine = mine.t()
        pairs[operand] = comparison.spoiled_gradient(subject, operand, mine, other)
        if tensor is not None and comparison.carries_torch and mine.shape == other.shape and mine.dtype == other.dtype:
            carried[operand] = other.t().contiguous() if operand == transposed else other
    for operand in pairs:
        comparison.gradient(subject, operand, grads, pairs, missing=gradients[operand] is None)


# ---- Calls whose node cannot be hooked, where the program goes on with Torch's gradients: aliases of their operands have
# hooks.

ALIASED = "gradients of some calls were observed through aliases: sums of three or more gradients may be added in another order"


def of_operands(subject: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with an alias in the place of every operand that wants a gradient."""
    needs = subject.inputs.needs
    givens = [subject.inputs.paddle[index] for index in needs]
    if len({id(given) for given in givens}) < len(givens):
        return args, kwargs  # one tensor twice: an alias would see the sum of both gradients
    with autocast_off():
        aliases = [paddle_graph.alias(given) for given in givens]
    subject.comparison.run.warn(ALIASED)
    for index, alias in zip(needs, aliases):
        paddle_graph.register_silent_hook(alias, _on_alias, subject, index)
    subject.aliased = True
    exchange = {id(given): alias for given, alias in zip(givens, aliases)}
    return exchanged(args, exchange), {key: exchanged(value, exchange) for key, value in kwargs.items()}


def _on_alias(subject: ComparedCall, index: int, grad: Any) -> Any:
    """Hook on the alias of operand ``index``: Paddle's gradient of this call alone."""
    if not subject.incoming or subject.comparison.aside:
        return None
    if subject.altered:
        subject.comparison.unseen(subject, ALTERED, [index])
        return None
    _, create = paddle_graph.backward_options([grad])
    theirs = judge_gradients(subject, subject.incoming, {index: grad})
    if create or index not in theirs or not subject.comparison.carries_torch:
        return None  # under create_graph the program goes on with Paddle's gradient, which has a graph of its own
    return hand_over(own(theirs[index], []))


# ---- Calls whose gradients no node shows: Paddle's op is made once more when the backward has ended, on detached operands.
#
# A Python function may make many nodes, those over lists of tensors cannot take a list back from a hook, those of
# ``_legacy_C_ops``
# never call it, and Paddle 2.6 has no such hook.

CLOSED = "no mode was open during the backward, and this node's gradients can only be computed again after it"


def watch(subject: ComparedCall, shown: Mapping[int, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """See the gradients that come to the results ``shown``."""
    subject.replay = (args, kwargs)
    look_on(shown, _on_result, subject)


def _on_result(subject: ComparedCall, position: int, grad: Any) -> None:
    """Hook on a result: all of a call's gradients are computed again when the backward has ended. Some results have none."""
    if grad is None or not grad._is_initialized() or subject.comparison.aside:
        return
    if not engine_runs():
        subject.comparison.unseen(subject, CLOSED)
        return
    if position in subject.incoming or not subject.incoming:  # a second backward within one engine call is another replay
        subject.incoming = {}
        after_engine(functools.partial(subject.comparison.replay, subject, subject.incoming))
    subject.incoming[position] = grad.detach()


def replay(subject: ComparedCall, incoming: Mapping[int, Any]) -> None:
    """Paddle's gradients of a call, by the same op on detached operands. To be called outside of Paddle's engine."""
    subject.let_go()
    if subject.replay is None:
        return
    args, kwargs = subject.replay
    copies: dict[int, list[tuple[int, Any]]] = {}
    for index in subject.inputs.needs:
        given = subject.inputs.paddle[index]
        copy = given.detach()
        copy.stop_gradient = False
        copies.setdefault(id(given), []).append((index, copy))
    if any(len(copy) > 1 for copy in copies.values()):
        subject.comparison.unseen(subject, "one tensor is two operands of a node that cannot be hooked")
        return
    exchange = {key: copy[0][1] for key, copy in copies.items()}
    written = [subject.inputs.paddle[index] for index in subject.door.overwritten]
    if any(id(tensor) in exchange for tensor in written):
        subject.comparison.unseen(subject, "Paddle's function writes into an operand that wants a gradient")
        return
    exchange.update({id(tensor): tensor.clone() for tensor in written if isinstance(tensor, paddle.Tensor)})
    leaves = [copy[0] for copy in copies.values()]
    outer = gather()  # the program's saved-tensor hooks may stand around the backward, too
    try:
        with paddle.enable_grad(), paused():
            results = subject.door.native(*exchanged(args, exchange), **{k: exchanged(v, exchange) for k, v in kwargs.items()})
            results = of_paddle(subject.door, results)
            outs, grads = [results[position] for position in incoming], list(incoming.values())
            found = paddle.grad(outs, [leaf for _, leaf in leaves], grads, allow_unused=True)
    finally:
        subject.passages = gathered(outer)
    if subject.altered:
        subject.comparison.unseen(subject, ALTERED)
        return
    judge_gradients(subject, incoming, {index: grad for (index, _), grad in zip(leaves, found)})


# ---- The gradients of a compared call, observed on Paddle's own grad node while Paddle's backward runs.
#
# Paddle 3 shows a node's incoming gradients and its results to a *post hook*; nothing in the graph changes, so every gradient and
# the order in which gradients are added stay bit for bit what they are without comparing. Where no node shows all of a call's
# gradients, the call is *replayed* (:mod:`.replayed`), or with ``carry="torch"`` gets *aliases* of its operands
# (:mod:`.aliases`).
#
# Paddle computes many gradients in the memory of the incoming one when nobody else holds it (exp, relu, tanh, add...): a post
# hook
# would then be shown the result as the incoming gradient. A hook on the call's result holds the incoming gradient until the node
# has run.


def hookable(door: EntryPoint) -> bool:
    """Whether Paddle's node shows its gradients to a post hook: those of legacy ops take hooks, and never call them.

    What a Python function does may be many nodes; whether it is one shows when it was called.
    """
    return NODE_HOOKS and not door.op.operands and door.entry.pairs is None and (not door.python or door.transposed is not None)


def before(subject: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for Paddle's call: as they came in, or with aliases where the node cannot be hooked."""
    needs, door = subject.inputs.needs, subject.door
    if not subject.comparison.carries_torch or not needs or door.entry.inplace or subject.aliased:
        return args, kwargs
    if hookable(door) and not subject.lacks:
        return args, kwargs
    return of_operands(subject, args, kwargs)


def between(subject: ComparedCall, result: Any) -> Any:
    """The results for the program where the operands are aliases: one more alias each, behind the hook that sees its gradient.

    The program's own hooks on its results may change their gradients; what the node gets is what they leave.
    """
    if not subject.aliased:
        return result

    count = len(of_paddle(subject.door, result))

    def behind(position: int, one: Any) -> Any:
        if not isinstance(one, paddle.Tensor) or one.stop_gradient or position >= count:
            return one
        paddle_graph.register_silent_hook(one, on_result, subject, position)
        with autocast_off():
            return paddle_graph.alias(one)

    return each(result, behind)


def after(subject: ComparedCall, results: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, nested: bool) -> None:
    """Watch the gradients of the call that Paddle has just made. ``nested``: its results came in containers within one."""
    shown = {
        position: one
        for position, one in enumerate(results)
        if isinstance(one, paddle.Tensor) and not one.stop_gradient and one._is_initialized()
    }
    if not shown:
        return
    # A result would be a ring through Paddle's node (result -> node -> hook -> subject -> result) that no collector sees. What
    # detach gives shares the in-place version.
    operands, torch_side, needs = subject.inputs
    ours = {id(one) for one in shown.values()}
    if not ours.isdisjoint(map(id, operands)):
        operands = [value.detach() if id(value) in ours else value for value in operands]
        subject.inputs = CallOperands(operands, torch_side, needs)
    subject.saved = [(operands[index], operands[index].inplace_version) for index in subject.read]
    if subject.door.op.writes:
        subject.shared = [(one, one.inplace_version) for one in operands if isinstance(one, paddle.Tensor)]
    shown = {place: result for place, result in shown.items() if not place or subject.differentiable(place)}
    subject.shown = {place: (list(result.shape), result.dtype) for place, result in shown.items()}
    if subject.aliased:
        return
    if subject.lacks:  # its node is that of a cast
        subject.comparison.unseen(subject, "Paddle has no kernel for the call, and no gradient of one was seen")
        return
    nodes = watched(subject, shown, nested=nested)
    if nodes:
        if 0 in shown:  # not another one of several: Paddle's ``paddle.grad`` of the first would fail
            _hold(subject, shown[0])
        for node, seats, last in nodes:
            node._register_post_hook(hooks.hold(functools.partial(_on_node, subject, seats, last)))
    elif subject.door.entry.inplace:
        subject.comparison.unseen(subject, "Paddle shows no gradients of this node")
    else:
        watch(subject, shown, args, kwargs)


def _hold(subject: ComparedCall, first: Any) -> None:
    """Hold the gradient that comes to a call's first result, in whose memory Paddle may compute, until its node has run."""
    if attribute(first, TAPE) is None:
        paddle_graph.register_silent_hook(first, on_result, subject, 0)
    else:  # a tensor on the tape, which Paddle has just written into, has hooks of another kind
        first._register_grad_hook(functools.partial(on_result, subject, 0))


class _Handed(threading.local):
    """What a post hook hands to Paddle: one list a thread, because Paddle 3.3.1 never releases the object that a hook returns.

    ``subjects``: calls whose results got gradients in the backward that is running. ``told``: that at its end all is let go.
    """

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.subjects: list[ComparedCall] = []
        self.told: object = None

    def until_engine_ends(self) -> None:
        """Have all that is held let go when the engine has returned: paddle.grad stops where it was asked to, before some nodes."""
        if self.told is not HERE.backward:
            self.told = HERE.backward
            after_engine(self.let_go)

    def let_go(self) -> None:
        """The backward has ended."""
        self.told = None
        self.results.clear()
        while self.subjects:
            self.subjects.pop().let_go()


_HANDED = _Handed()


@in_its_try
def _on_node(subject: ComparedCall, seats: Seats, last: bool, results: tuple[Any, ...], incoming: Sequence[Any]) -> list[Any]:
    """Post hook: ``incoming`` is the gradient of the node's result, ``results`` those of its operands. Raises nothing.

    Paddle reads the list that it gets before any other Python code runs; the list is emptied when the backward has ended.
    """
    try:
        if len(incoming) != 1 or isinstance(incoming[0], list):
            incoming = flat(incoming)  # one list of an op whose results are a list
        retain, _ = paddle_graph.backward_options(incoming)
        handed = _HANDED.results
        handed[:] = _seen(subject, seats, results, incoming, over=last and not retain)
        if engine_runs():
            _HANDED.until_engine_ends()
        else:  # no mode is open: nobody tells when this backward ends
            weakref.finalize(subject, handed.clear).atexit = False
        return handed
    except BaseException as error:
        again = ended(error)
        handed = _HANDED.results
        handed[:] = results
    again = None  # noqa: F841 - dropped where nothing but the end of the hook follows
    return handed


def _seen(subject: ComparedCall, seats: Seats, results: tuple[Any, ...], incoming: Sequence[Any], *, over: bool) -> Sequence[Any]:
    """:func:`_observe`, whatever goes wrong; ``over``: this was the call's last backward."""
    if subject.comparison.aside:
        return results
    sampling = subject.comparison.sampling
    entered = sampling.enter() if sampling.accounts else 0.0
    try:
        if not (function_modes() or dispatch_modes() or inference() or autocasting()):  # disturbed(); a ``with`` takes longer
            return _observe(subject, seats, results, incoming, over=over)
        with put_aside():  # also where no mode is open any more
            return _observe(subject, seats, results, incoming, over=over)
    except Exception as error:
        let_through(error)
        subject.comparison.run.warn(f"gradients of a call were not observed: {type(error).__name__}: {str(error)[:200]}")
        return results
    finally:
        if sampling.accounts:
            sampling.leave(entered)


def _observe(
    subject: ComparedCall, seats: Seats, results: tuple[Any, ...], incoming: Sequence[Any], *, over: bool
) -> Sequence[Any]:
    """Judge what a node shows; the results that Paddle goes on with."""
    comparison = subject.comparison
    subject.incoming = {}
    pairs = seats.of(len(results))
    if pairs is None:
        comparison.unseen(subject, f"Paddle's node has {len(results)} gradients, the op {len(subject.operands)} operands")
        return results
    found = {operand: results[slot] for slot, operand in pairs}
    grads = {
        position: incoming[position]
        for position in subject.shown
        if position < len(incoming) and incoming[position]._is_initialized()
    }
    why = hooks.ALTERED if subject.altered else "" if grads else "Paddle's node shows no incoming gradient"
    for position, grad in grads.items():
        why = why or misfit(subject, position, grad) or _reused(grad, found)
    if why:
        comparison.unseen(subject, why, found)
        return results
    theirs = judge_gradients(subject, grads, found)
    if over and not len(comparison.waiting):
        subject.release()
    if not comparison.carries_torch:
        return results
    carried = list(results)
    for slot, operand in pairs:
        if operand in theirs:
            carried[slot] = _carried(results[slot], theirs[operand], [to_torch(grad) for grad in grads.values()])
    return carried


def _carried(mine: Any, theirs: torch.Tensor, others: Sequence[torch.Tensor]) -> Any:
    """Torch's gradient for the program: a tensor of its own, or the values alone where Paddle's has a graph (create_graph)."""
    if mine.is_leaf:
        gradient = hand_over(own(theirs, others))
        gradient.stop_gradient = mine.stop_gradient
        return gradient
    to_torch(mine).copy_(theirs)
    return mine


def _reused(grad: Any, found: Mapping[int, Any]) -> str:
    """Why the incoming gradient is not shown as it came in; empty if it is."""
    address = grad.data_ptr()
    for tensor in found.values():
        if tensor._is_initialized() and tensor.data_ptr() == address:
            return "Paddle computed the gradient in the memory of the incoming one"
    return ""


def on_result(subject: ComparedCall, position: int, grad: Any) -> None:
    """Hook on a result of a call: keep the incoming gradient until its node has run. Of several results some have none.

    Not one that does not fit the result (a PyLayer may return any): Paddle's kernels write such a gradient into the memory of the
    incoming one, or beyond the end of memory of the right size where somebody holds that.
    """
    if position not in subject.shown or grad is None or not grad._is_initialized() or misfit(subject, position, grad):
        return
    subject.incoming = {**subject.incoming, position: grad}
    if engine_runs():
        _HANDED.subjects.append(subject)
        _HANDED.until_engine_ends()


def misfit(subject: ComparedCall, position: int, grad: Any) -> str:
    """Why ``grad`` cannot be the gradient of a call's result; empty if it can."""
    shape, dtype = subject.shown[position]
    kind = grad.dtype
    if grad.shape == shape and (kind is dtype or kind == dtype):
        return ""
    return f"the incoming gradient is {list(grad.shape)} {grad.dtype}, the result {shape} {dtype}"
