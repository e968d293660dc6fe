"""The gradients of a compared call: observed on Paddle's own node or replayed, beside Torch's."""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import paddle
import torch

from ..dispatch.dtypes import exchanged_in
from ..dispatch.entry_point import EntryPoint
from ..dispatch.frames import paused
from ..dispatch.operands import CallOperands, each, flat
from ..fault_injection import of_a_change
from ..frameworks.autocast import autocast_off
from ..frameworks.memory import CPU_ALONE, TENSOR_TYPES, as_operand, hand_over, own, stream_of, to_torch
from ..frameworks.torch_state import autocasting, dispatch_modes, function_modes, inference, put_aside
from ..frameworks.versions import NODE_HOOKS, attribute, grad_node
from ..interrupts import HERE, after_engine, ended, ends_program, engine_runs, in_its_try, let_pass, raised_again
from ..runlog.reader import LogError
from ..table.signature import parse
from ..tape import paddle_graph
from ..tape.paddle_graph import look_on
from ..tape.twins import TAPE
from ..text import logged
from .compared_call import ComparedCall, Passage, of_paddle
from .second_derivatives import GradientCall

# ---- Paddle's own grad node, watched while Paddle's backward runs.
#
# Paddle 3 shows a node's incoming gradients and its results to a *post hook*. Nothing in the graph changes, so every gradient, and
# the order in which gradients are added, stays bit for bit what it is without comparing. Where no node shows all gradients of a
# call, the call is *replayed*; with ``carry="torch"`` it gets *aliases* of its operands.
#
# Paddle computes many gradients in the memory of the incoming one when nobody else holds it (exp, relu, tanh, add...), and some
# kernels read it again behind that. A post hook then sees the result as the incoming gradient. So a hook on the call's result
# copies the incoming gradient; if it held the very tensor, the node would compute elsewhere, and not what it computes natively.


def before(subject: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for Paddle's call: as they came in, or with aliases where the node cannot be hooked."""
    needs, entry_point = subject.inputs.needs, subject.entry_point
    if not subject.comparison.carries_torch or not needs or entry_point.entry.inplace or subject.aliased:
        return args, kwargs
    # Nodes of legacy ops take post hooks, and never call them. What a Python function does may be many nodes; whether it is one
    # shows when it was called.
    one_node = (
        not entry_point.op.operands
        and entry_point.entry.pairs is None
        and (not entry_point.python or entry_point.transposed is not None)
    )
    if NODE_HOOKS and one_node and not subject.lacks:
        return args, kwargs
    return of_operands(subject, args, kwargs)


def between(subject: ComparedCall, result: Any) -> Any:
    """The results for the program where the operands are aliases: one more alias each, behind the hook that sees its gradient.

    The program's own hooks on its results may change their gradients; what the node gets is what they leave.
    """
    if not subject.aliased:
        return result

    count = len(of_paddle(subject.entry_point, result))

    def behind(position: int, tensor: Any) -> Any:
        if not isinstance(tensor, paddle.Tensor) or tensor.stop_gradient or position >= count:
            return tensor
        paddle_graph.register_silent_hook(tensor, on_result, subject, position)
        with autocast_off():
            return paddle_graph.alias(tensor)

    return each(result, behind)


def after(subject: ComparedCall, results: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, nested: bool) -> None:
    """Watch the gradients of the call that Paddle has just made. ``nested``: its results came in containers within one."""
    shown = {
        position: result
        for position, result in enumerate(results)
        if isinstance(result, paddle.Tensor) and not result.stop_gradient and result._is_initialized()
    }
    if not shown:
        return
    # A result would be a ring through Paddle's node (result -> node -> hook -> subject -> result) that no collector sees. What
    # detach gives shares the in-place version.
    operands, torch_side, needs = subject.inputs
    shown_ids = {id(result) for result in shown.values()}
    if not shown_ids.isdisjoint(map(id, operands)):
        operands = [value.detach() if id(value) in shown_ids else value for value in operands]
        subject.inputs = CallOperands(operands, torch_side, needs)
    subject.saved = [(operands[index], operands[index].inplace_version) for index in subject.read]
    if subject.entry_point.op.writes:
        subject.shared = [(operand, operand.inplace_version) for operand in operands if isinstance(operand, paddle.Tensor)]
    shown = {place: result for place, result in shown.items() if not place or subject.differentiable(place)}
    subject.shown = {place: (list(result.shape), result.dtype) for place, result in shown.items()}
    if subject.aliased:
        return
    if not subject.entry_point.entry.inplace:
        subject.replay = args, kwargs
    if subject.lacks:  # its node is that of a cast
        subject.comparison.unseen(subject, logged("Paddle has no kernel for the call, and no gradient of one was seen"))
        return
    nodes = nodes_of(subject, shown, nested=nested)
    if nodes:
        if 0 in shown:  # not another one of several: Paddle's ``paddle.grad`` of the first would fail
            _copy_arriving(subject, shown[0])
        for node, seats, last in nodes:
            node._register_post_hook(hold(functools.partial(_on_node, subject, seats, last)))
    elif subject.entry_point.entry.inplace:
        subject.comparison.unseen(subject, logged("Paddle shows no gradients of this node"))
    else:
        look_on(shown, _on_result, subject)
        for node, seats in _inner_nodes(subject, shown):
            subject.inside = True
            node._register_post_hook(hold(functools.partial(_on_node, subject, seats, None)))


def _copy_arriving(subject: ComparedCall, first: Any) -> None:
    """Copy the gradient that comes to a call's first result, in whose memory Paddle may compute."""
    if attribute(first, TAPE) is None:
        paddle_graph.register_silent_hook(first, on_result, subject, 0)
    else:  # a tensor on the tape, which Paddle has just written into, has hooks of another kind
        first._register_grad_hook(functools.partial(on_result, subject, 0))


class _Handed(threading.local):
    """What a post hook hands to Paddle: one list a thread, because Paddle 3.3.1 never releases the object that a hook returns.

    ``subjects``: calls whose results got gradients in the backward that is running. ``backward``: at its end all is let go.
    """

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.subjects: list[ComparedCall] = []
        self.backward: object = None

    def until_engine_ends(self) -> None:
        """Have all that is held let go when the engine has returned: paddle.grad stops where it was asked to, before some nodes."""
        if self.backward is not HERE.backward:
            self.backward = HERE.backward
            after_engine(self.let_go)

    def let_go(self) -> None:
        """The backward has ended."""
        self.backward = None
        self.results.clear()
        while self.subjects:
            self.subjects.pop().let_go()


_HANDED = _Handed()


@in_its_try
def _on_node(
    subject: ComparedCall, seats: Seats, last: bool | None, results: tuple[Any, ...], incoming: Sequence[Any]
) -> list[Any]:
    """Post hook: ``incoming`` is the gradient of the node's result, ``results`` those of its operands. Raises nothing.

    ``last``: no other node of the call follows; None: it is one of many, and the call's gradients are replayed.

    Paddle reads the list that it gets before any other Python code runs; the list is emptied when the backward has ended.
    """
    try:
        if len(incoming) != 1 or isinstance(incoming[0], list):
            incoming = flat(incoming)  # one list of an op whose results are a list
        retain, create = paddle_graph.backward_options(incoming)
        handed = _HANDED.results
        if last is None:
            handed[:] = results
            if create:
                pairs = [(slot, operand) for slot, operand in seats.of(len(results)) or () if slot < len(results)]
                _look_further(subject, subject.incoming, {operand: results[slot] for slot, operand in pairs})
        else:
            handed[:] = _seen(subject, seats, results, incoming, over=last and not retain, create=create)
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


def _seen(
    subject: ComparedCall, seats: Seats, results: tuple[Any, ...], incoming: Sequence[Any], *, over: bool, create: bool
) -> Sequence[Any]:
    """:func:`_observe`, whatever goes wrong; ``over``: this was the call's last backward; ``create``: its results have a graph."""
    if subject.comparison.aside:
        return results
    sampling = subject.comparison.sampling
    entered = sampling.enter() if sampling.accounts else 0.0
    try:
        if not (function_modes() or dispatch_modes() or inference() or autocasting()):  # disturbed(); a ``with`` takes longer
            return _observe(subject, seats, results, incoming, over=over, create=create)
        with put_aside():  # also where no mode is open any more
            return _observe(subject, seats, results, incoming, over=over, create=create)
    except Exception as error:
        let_through(error)
        subject.comparison.run.warn(f"gradients of a call were not observed: {type(error).__name__}: {str(error)[:200]}")
        return results
    finally:
        if sampling.accounts:
            sampling.leave(entered)


def _observe(
    subject: ComparedCall, seats: Seats, results: tuple[Any, ...], incoming: Sequence[Any], *, over: bool, create: bool
) -> Sequence[Any]:
    """Judge what a node shows; the results that Paddle goes on with."""
    comparison = subject.comparison
    copies, subject.incoming = subject.incoming, {}
    pairs = seats.of(len(results))
    if pairs is None:
        comparison.unseen(
            subject,
            logged(
                "Paddle's node has {results} gradients, the op {operands} operands",
                results=len(results),
                operands=len(subject.operands),
            ),
        )
        return results
    gradients = {operand: results[slot] for slot, operand in pairs}
    grads = {
        position: incoming[position]
        for position in subject.shown
        if position < len(incoming) and incoming[position]._is_initialized()
    }
    why = ALTERED if subject.altered else "" if grads else logged("Paddle's node shows no incoming gradient")
    sides: dict[int, torch.Tensor] = {}
    for position, grad in grads.items():
        copy = copies.get(position)
        side = copy.side if isinstance(copy, ArrivedGradient) and copy.is_of(grad) else None
        why = why or misfit(subject, position, grad) or (_reused(grad, gradients) if side is None else "")
        sides[position] = as_operand(grad) if side is None else side
    if why:
        comparison.unseen(subject, why, gradients)
        return results
    references = judge_gradients(subject, sides, gradients)
    if create:
        _look_further(subject, grads, gradients)
    elif over:
        if subject.twice:
            after_engine(subject.release)
        else:
            subject.release()
    if not comparison.carries_torch:
        return results
    carried = list(results)
    for slot, operand in pairs:
        if operand in references:
            carried[slot] = _carried(results[slot], references[operand], list(sides.values()))
    return carried


def _carried(native: Any, reference: torch.Tensor, others: Sequence[torch.Tensor]) -> Any:
    """Torch's gradient for the program: a tensor of its own, or the values alone where Paddle's has a graph (create_graph)."""
    if native.is_leaf:
        gradient = hand_over(own(reference, others))
        gradient.stop_gradient = native.stop_gradient
        return gradient
    to_torch(native).copy_(reference)
    return native


def _look_further(subject: ComparedCall, grads: Mapping[int, Any], gradients: Mapping[int, Any]) -> None:
    """See what comes to a call's gradients, which have a graph of their own. ``grads``: the incoming ones."""
    if subject.further is None or subject.further[0] is not grads:  # of several nodes the first
        subject.further = grads, GradientCall(subject, grads)
        if not engine_runs() or not subject.further[1].replayable:
            subject.comparison.uncounted(subject)
        after_engine(functools.partial(_looked_further, subject))
    if subject.further[1].replayable:
        subject.further[1].look_on(gradients, grads)


def _looked_further(subject: ComparedCall) -> None:
    """The backward that gave a call's gradients a graph has ended; what it noted holds the call."""
    subject.further, subject.twice = None, True


def _reused(grad: Any, gradients: Mapping[int, Any]) -> str:
    """Why the incoming gradient is not shown as it came in; empty if it is."""
    address = grad.data_ptr()
    for tensor in gradients.values():
        if tensor._is_initialized() and tensor.data_ptr() == address:
            return logged("Paddle computed the gradient in the memory of the incoming one")
    return ""


class ArrivedGradient:
    """A copy, on Torch's side, of what has come to a call's result."""

    def __init__(self, grad: Any) -> None:
        self.side, self._place = as_operand(grad).clone(), (grad.data_ptr(), grad.inplace_version)

    def is_of(self, grad: Any) -> bool:
        """Whether this very gradient comes to the node: none that a hook of the program's has put in its place, or changed."""
        return self._place == (grad.data_ptr(), grad.inplace_version)


def on_result(subject: ComparedCall, position: int, grad: Any) -> Any:
    """Hook on a result of a call: keep what the incoming gradient is. Of several results some have none.

    A strided one (behind a transpose) is copied here, as its node would do, which may compute in the memory of that copy.
    """
    _HANDED.results.clear()  # the last node's: what Paddle has read by now, and would not compute in
    aside = subject.comparison.aside  # in a forked child, where Torch's copy could wait for threads that are not there
    if aside or position not in subject.shown or grad is None or not grad._is_initialized() or misfit(subject, position, grad):
        return None
    makes_graph = paddle_graph.backward_options([grad])[1]  # Paddle itself keeps the gradient then; 2.6 goes on adding to it
    strided = not makes_graph and NODE_HOOKS and not grad.is_contiguous()
    if strided:
        grad = grad.contiguous()
    arrived = grad if makes_graph or not NODE_HOOKS else ArrivedGradient(grad)
    subject.incoming = {**subject.incoming, position: arrived}
    if engine_runs():
        _HANDED.subjects.append(subject)
        _HANDED.until_engine_ends()
    return grad if strided else None


def misfit(subject: ComparedCall, position: int, grad: Any) -> str:
    """Why ``grad`` cannot be the gradient of a call's result; empty if it can."""
    shape, dtype = subject.shown[position]
    kind = grad.dtype
    if grad.shape == shape and (kind is dtype or kind == dtype):
        return ""
    return logged(
        "the incoming gradient is {shape} {dtype}, the result {shape2} {dtype2}",
        shape=list(grad.shape),
        dtype=grad.dtype,
        shape2=shape,
        dtype2=dtype,
    )


# ---- Which gradient of a node belongs to which operand of its call.

Pairs = Sequence[tuple[int, int]]  # (slot of the node, operand)


class Seats:
    """The operands whose gradients a node shows.

    ``slots``: slot -> operand, where that is known; else it follows from how many gradients the node has: it has one for each of
    ``tensors``, the operands that are tensors, or for each parameter. ``needs``: the operands that want one.
    """

    def __init__(
        self,
        entry_point: EntryPoint,
        needs: Sequence[int],
        *,
        tensors: Sequence[int] = (),
        count: int = 0,
        slots: Mapping[int, int] | None = None,
    ) -> None:
        self._entry_point, self._needs, self._tensors, self._count, self._slots = entry_point, needs, tensors, count, slots
        self._known: dict[int, Pairs | None] = {}

    def of(self, count: int) -> Pairs | None:
        """Of a node with ``count`` gradients; None where that cannot be said."""
        pairs = self._known.get(count, _UNASKED)
        if pairs is _UNASKED:
            slots = self._slots if self._slots is not None else self._by_count(count)
            pairs = None if slots is None else [(slot, operand) for slot, operand in slots.items() if operand in self._needs]
            self._known[count] = pairs
        return pairs

    def _by_count(self, count: int) -> Mapping[int, int] | None:
        entry_point, tensors = self._entry_point, self._tensors
        if (
            count > self._count and not entry_point.python
        ):  # optional tensors that the op does not have: as the entry_point's parameters stand
            seats = {name: seat for seat, (aliases, _) in enumerate(parse(entry_point.entry.params)) for name in aliases}
            known = all(entry_point.names[index] in seats for index in tensors)
            return {seats[entry_point.names[index]]: index for index in tensors} if known else None
        if count == self._count:  # numbers were made tensors, absent ones have a place
            return {index: index for index in tensors}
        return dict(enumerate(tensors)) if count == len(tensors) else None


_UNASKED: Any = object()


def nodes_of(subject: ComparedCall, shown: Mapping[int, Any], *, nested: bool) -> list[tuple[Any, Seats, bool]]:
    """The nodes to hook, the seats of each, and whether it is the last to run; none: no way. ``nested``: see :func:`after`."""
    entry_point, place = subject.entry_point, subject.place
    if not NODE_HOOKS or nested or entry_point.op.operands or entry_point.entry.pairs is not None:
        return []
    node = grad_node(next(iter(shown.values())))
    if node is None:
        return []
    if (
        entry_point.python and entry_point.transposed is None
    ):  # one node, if the function made that alone: it leads straight to the operands
        alone = paddle_graph.places_of(shown.values()) == {node.node_ptr()}
        straight = sum(following is not None for following in node.next_functions) == len(subject.inputs.needs)
        inner = _inner_nodes(subject, shown) if alone and straight else []
        return [(node, seats, True) for first, seats in inner if first.node_ptr() == node.node_ptr()]
    if place.seats is None:  # what follows is alike in all calls of the place
        needs = subject.inputs.needs
        tensors = [index for index, side in enumerate(subject.operands) if isinstance(side, torch.Tensor)]
        place.seats = [Seats(entry_point, needs, tensors=tensors, count=len(subject.operands))]
        if entry_point.transposed is not None and len(tensors) > 2:
            # A Linear with bias is two nodes in Paddle: a product, and the bias added to it.
            bias = tensors[-1]
            place.seats.append(Seats(entry_point, needs, slots={1: bias}))
            if any(index in needs for index in tensors[:-1]):
                place.seats.append(Seats(entry_point, needs, tensors=tensors[:-1], count=len(subject.operands)))
    whole, *parts = place.seats
    if not parts or node.name() != "AddGradNode":
        return [(node, whole, True)]
    if len(parts) == 1:
        return [(node, parts[0], True)]
    return [(node, parts[0], False), (node.next_functions[0], parts[1], True)]


_INNER = 64  # nodes of one Python function's call
_OF_LISTS = ("AddN", "BroadcastTensors", "Concat", "Einsum", "Meshgrid", "MultiDot", "Stack")  # take no list back from a hook


def _inner_nodes(subject: ComparedCall, shown: Mapping[int, Any]) -> list[tuple[Any, Seats]]:
    """The nodes of a Python function's call that lead to its operands, one for each; none where that is not clear."""
    entry_point, needs = subject.entry_point, subject.inputs.needs
    owners = {node.node_ptr(): index for index in needs if (node := grad_node(subject.inputs.paddle[index])) is not None}
    if not (NODE_HOOKS and entry_point.python) or entry_point.op.operands or len(owners) < len(needs):
        return []
    nodes = []
    for count, (_, node) in enumerate(paddle_graph.walked(map(grad_node, shown.values()), owners)):
        following = [None if other is None else other.node_ptr() for other in node.next_functions]
        slots = {slot: owners.pop(place) for slot, place in enumerate(following) if place in owners}
        if count >= _INNER or (slots and node.name().startswith(_OF_LISTS)):
            return []
        if slots:
            nodes.append((node, Seats(entry_point, needs, slots=slots)))
        if not owners:
            return nodes
    return []


# ---- The verdicts on the gradients of one call.


def let_through(error: Exception) -> None:
    """Raise again what is no failure of a comparison: a signal's, a planted change's, the log's with ``on_log_error="raise"``."""
    if isinstance(error, LogError) or of_a_change(error):
        raise error
    let_pass(error)


def judge_gradients(
    subject: ComparedCall, incoming: Mapping[int, torch.Tensor], shown: Mapping[int, Any]
) -> dict[int, torch.Tensor]:
    """Judge Paddle's gradients ``{operand: gradient}`` for the incoming ones ``{position: gradient}``.

    An operand that wants a gradient and gets none is judged as one that gets zeros, which is what it comes to; not within a
    paddle.grad, which leaves out what leads to none of its inputs.
    Returns torch's, as Paddle would lay them out, where the program goes on with them.
    """
    comparison, entry_point = subject.comparison, subject.entry_point
    began = 0.0 if subject.key is None else comparison.sampling.clock()
    carried: dict[int, torch.Tensor] = {}
    judged = {operand: tensor if tensor is not None and tensor._is_initialized() else None for operand, tensor in shown.items()}
    gradients = {operand: tensor for operand, tensor in judged.items() if tensor is not None or not HERE.prunes}
    try:
        if CPU_ALONE:
            _judge_each(subject, incoming, gradients, carried)
        else:
            with stream_of(next(iter(incoming.values())).device):
                _judge_each(subject, incoming, gradients, carried)
    except Exception as error:  # comparing must never break the program's backward
        let_through(error)
        comparison.run.warn(
            f"gradients of a call of {entry_point.op.name!r} were not judged: {type(error).__name__}: {str(error)[:200]}"
        )
    finally:
        if subject.key is not None:
            comparison.sampling.spent(subject.key, comparison.sampling.clock() - began, backward=True)
    return carried


def _judge_each(
    subject: ComparedCall, grads: Mapping[int, torch.Tensor], gradients: Mapping[int, Any], carried: dict[int, torch.Tensor]
) -> None:
    """One by one, in the order of ``gradients``; what is carried on is put into ``carried``."""
    comparison, transposed = subject.comparison, subject.entry_point.transposed
    references = subject.gradients(grads, gradients)
    pairs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for operand, tensor in gradients.items():
        reference = references.get(operand)
        if reference is None or (tensor is None and not reference.any()):
            continue
        native = torch.zeros_like(reference) if tensor is None else to_torch(tensor)
        if operand == transposed and tensor is not None:
            native = native.t()
        pairs[operand] = comparison.spoiled_gradient(subject, operand, native, reference)
        if tensor is not None and comparison.carries_torch and native.shape == reference.shape and native.dtype == reference.dtype:
            carried[operand] = reference.t().contiguous() if operand == transposed else reference
    for operand in pairs:
        comparison.gradient(subject, operand, grads, pairs, missing=gradients[operand] is None)


# ---- Aliases: for calls whose node cannot be hooked, where the program goes on with Torch's gradients.

ALIASED = logged(
    "gradients of some calls were observed through aliases: sums of three or more gradients may be added in another order"
)
MIXED = logged("a gradient and second derivatives of its call arrive as one sum")


def of_operands(subject: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with an alias in the place of every operand that wants a gradient."""
    needs = subject.inputs.needs
    givens = [subject.inputs.paddle[index] for index in needs]
    if len({id(operand) for operand in givens}) < len(givens):
        return args, kwargs  # one tensor twice: an alias would see the sum of both gradients
    with autocast_off():
        aliases = [paddle_graph.alias(operand) for operand in givens]
    subject.comparison.run.warn(ALIASED)
    subject.replay = args, kwargs
    for index, alias in zip(needs, aliases):
        paddle_graph.register_silent_hook(alias, _on_alias, subject, index)
    subject.aliased = True
    exchange = {id(operand): alias for operand, alias in zip(givens, aliases)}
    return exchanged_in(args, kwargs, exchange)


def _on_alias(subject: ComparedCall, index: int, grad: Any) -> Any:
    """Hook on the alias of operand ``index``: Paddle's gradient of this call alone."""
    if not subject.incoming or subject.comparison.aside:
        return None
    if subject.altered or subject.twice:
        subject.comparison.unseen(subject, ALTERED if subject.altered else MIXED, [index])
        return None
    _, create = paddle_graph.backward_options([grad])
    incoming = {
        place: arrived.side if isinstance(arrived, ArrivedGradient) else as_operand(arrived)
        for place, arrived in subject.incoming.items()
    }
    carried = judge_gradients(subject, incoming, {index: grad})
    if create:
        _look_further(subject, subject.incoming, {index: grad})
    if create or index not in carried or not subject.comparison.carries_torch:
        return None  # under create_graph the program goes on with Paddle's gradient, which has a graph of its own
    return hand_over(own(carried[index], []))


# ---- Replay: for calls whose gradients no node shows. Paddle's op is made again, on detached operands, when the backward has
# ended.
#
# A Python function may make many nodes. Nodes of ops over lists of tensors cannot take a list back from a hook, those of
# ``_legacy_C_ops`` never call it, and Paddle 2.6 has no such hook.

CLOSED = logged("no mode was open during the backward, and this node's gradients can only be computed again after it")


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
    create = paddle_graph.backward_options([grad])[1]
    if create and not subject.inside:
        subject.comparison.uncounted(subject)
    subject.incoming[position] = grad if create else grad.detach()


def replay(subject: ComparedCall, incoming: Mapping[int, Any]) -> None:
    """Paddle's gradients of a call, by the same op on detached operands. To be called outside of Paddle's engine."""
    subject.let_go()
    if subject.replay is None:
        return
    operands = [id(subject.inputs.paddle[index]) for index in subject.inputs.needs]
    if len(set(operands)) < len(operands):
        subject.comparison.unseen(subject, logged("one tensor is two operands of a node that cannot be hooked"))
        return
    if not set(operands).isdisjoint(id(subject.inputs.paddle[index]) for index in subject.entry_point.overwritten):
        subject.comparison.unseen(subject, logged("Paddle's function writes into an operand that wants a gradient"))
        return
    outer = gather()  # the program's saved-tensor hooks may stand around the backward, too
    try:
        with paddle.enable_grad(), paused():
            results, leaves = subject.made_again(*subject.replay)
            outs, grads = [results[position] for position in incoming], list(incoming.values())
            gradients = paddle.grad(outs, leaves, grads, allow_unused=True)
    finally:
        subject.passages = gathered(outer)
    if subject.altered:
        subject.comparison.unseen(subject, ALTERED)
        return
    sides = {position: as_operand(grad) for position, grad in incoming.items()}
    judge_gradients(subject, sides, dict(zip(subject.inputs.needs, gradients)))
    subject.together = None  # it holds the call, which holds it: only Python's collector would free both


# ---- A program's saved-tensor hooks: where Paddle's backward reads other bits than were saved, its kernel is not to blame.
#
# ``paddle.autograd.saved_tensors_hooks``, and with it recompute without reentry, hands each tensor that a node keeps to ``pack``,
# and asks ``unpack`` for it in the backward. A pair of hooks may round (to float16, to eight bits), and a recomputed block may give
# other bits.

ALTERED = logged("what Paddle's backward read is not what was saved: saved_tensors_hooks, or a recomputed block, gave other bits")
Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class _Packed:
    """What Paddle keeps: what the program's hook gave, and the passage; None where nobody gathers."""

    def __init__(self, packed: Any, passage: Passage | None) -> None:
        self.kept, self.passage = packed, passage


class _PackedHere(threading.local):
    """What was packed in this thread since :func:`gather`; None outside of it."""

    def __init__(self) -> None:
        self.passages: list[Passage] | None = None


_PACKED = _PackedHere()


def gather() -> list[Passage] | None:
    """Begin to gather what is packed from here on; gives what :func:`gathered` puts back."""
    outer, _PACKED.passages = _PACKED.passages, []
    return outer


def gathered(outer: list[Passage] | None) -> list[Passage]:
    """What was packed since :func:`gather`."""
    passages, _PACKED.passages = _PACKED.passages, outer
    return passages or []


def watched(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Pair:
    """A pair of hooks that does the same, and notes what comes back with other bits."""

    def packing(tensor: Any) -> _Packed:
        outer, _PACKED.passages = _PACKED.passages, None  # the hook's own calls are no part of the one whose operand this is
        passage = None if outer is None else Passage(_bits(tensor))
        try:
            packed = pack(tensor)
        finally:
            _PACKED.passages = outer
        if outer is not None and passage is not None:
            outer.append(passage)
        return _Packed(packed, passage)

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
    digest = hashlib.blake2b(memory, digest_size=16)
    digest.update(repr((tensor.dtype, tensor.shape, tensor.strides)).encode())
    return digest.digest()


# ---- Paddle drops its post hooks without the GIL, and must never be the last to do so: this module holds them, too.
#
# A node dies wherever its last reference goes: in an in-place op that gives its tensor a new node, in an engine that clears up, in
# the destructor of another node. Paddle runs all this without the GIL, and a Python object that dies there ends the process. So
# each new hook looks at a few of the others, and drops those that nobody else holds. The end of a backward does the same, and
# Python's own collections do it for hooks that outlive their mode (not while a mode is open).
#
# Python prints an exception that leaves a callback of its collector, and goes on. Handlers of signals run where the next Python
# function begins: if that were the callback, a Ctrl-C or a timeout that comes while the collector walks would be lost. So the
# callback is no Python function. It is built of C objects, up to a generator that goes on within its ``try``, and does nothing when
# a collection ends. A signal that comes inside the generator is raised again after it.

_Hooks = deque[Callable[..., Any]]
_turn: _Hooks = deque()  # at which this turn has not looked yet; both in the order in which they were made
_next: _Hooks = deque()  # for the next one: those that were alive, and new ones
_LOOKS = 4  # at hooks for each new one: what is dead is let go after at most half as many calls as there are hooks
_OURS = 2  # references to a hook that nobody else holds: the name below and the argument of getrefcount


def hold(hook: Callable[..., Any]) -> Callable[..., Any]:
    """``hook``, to be registered with a node."""
    if _CALLBACK in gc.callbacks:
        gc.callbacks.remove(_CALLBACK)
    _looked_at(_LOOKS)
    _next.append(hook)
    return hook


def mode_closed() -> None:
    """From now on it is Python's collections that look, until there is a new hook."""
    if _count() and _CALLBACK not in gc.callbacks:
        gc.callbacks.append(_CALLBACK)


def let_go() -> None:
    """Let go of all hooks whose nodes have died; what they kept alive may have held more nodes."""
    while _looked_at(_count()):
        pass


def _count() -> int:
    return len(_turn) + len(_next)


def _looked_at(count: int) -> bool:
    """Look at the next ``count``; whether any was let go."""
    global _turn, _next
    let_any_go = False
    for _ in range(min(count, _count())):
        if not _turn:
            _turn, _next = _next, _turn
        try:
            hook = _turn.pop()
        except IndexError:  # another thread took it
            break
        if sys.getrefcount(hook) > _OURS:
            _next.appendleft(hook)
        else:
            let_any_go = True
    return let_any_go


def _before_collections() -> Generator[object, Any, None]:
    """Goes on whenever Python's collector begins. A collection on request looks at everything; Python's own are frequent."""
    error = None
    while True:
        try:
            waiting, error = [raised_again(error)] if error is not None and ends_program(error) else [None], None
            yield waiting.pop()
            if gc.isenabled() and gc.get_count()[0] > gc.get_threshold()[0]:
                _looked_at(64)
            else:
                let_go()
            if not _count() and gc.callbacks[-1] is _CALLBACK:  # elsewhere the collector would leave out the next one
                gc.callbacks.pop()
        except GeneratorExit:
            return
        except BaseException as raised:
            error = raised


_resumed = _before_collections()
next(_resumed)


class _Collection:
    """Its attributes are the phases of a collection."""

    start = property(_resumed.send)
    stop = None


_CALLBACK = functools.partial(getattr, _Collection())  # the collector passes a phase, and details: here getattr's default
