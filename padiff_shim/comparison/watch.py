"""The gradients of a compared call, observed on Paddle's own grad node while Paddle's backward runs.

Paddle 3 shows a node's incoming gradients and its results to a *post hook*; nothing in the graph changes, so every gradient and
the order in which gradients are added stay bit for bit what they are without comparing. Where no node shows all of a call's
gradients, the call is *replayed* (:mod:`.replayed`), or with ``carry="torch"`` gets *aliases* of its operands (:mod:`.aliases`).

Paddle computes many gradients in the memory of the incoming one when nobody else holds it (exp, relu, tanh, add...): a post hook
would then be shown the result as the incoming gradient. A hook on the call's result holds the incoming gradient until the node
has run.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import paddle
import torch

from ..dispatch.containers import each, flat
from ..dispatch.door import Door
from ..dispatch.operands import Inputs
from ..frameworks.memory import autocast_off, hand_over, own, to_torch
from ..frameworks.surroundings import autocasting, dispatch_modes, function_modes, inference, put_aside
from ..frameworks.versions import NODE_HOOKS, attribute
from ..gradients import clean
from ..gradients.twins import TAPE
from ..postponed import HERE, after_engine, ended, engine_runs
from ..signals import in_its_try
from . import aliases, packing, posts, replayed
from .gradients import judge_gradients, let_through
from .results import of_paddle
from .seats import Seats, watched
from .subject import Subject


def hookable(door: Door) -> bool:
    """Whether Paddle's node shows its gradients to a post hook: those of legacy ops take hooks, and never call them.

    What a Python function does may be many nodes; whether it is one shows when it was called.
    """
    return NODE_HOOKS and not door.op.operands and door.entry.pairs is None and (not door.python or door.transposed is not None)


def before(subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for Paddle's call: as they came in, or with aliases where the node cannot be hooked."""
    needs, door = subject.inputs.needs, subject.door
    if not subject.comparison.carries_torch or not needs or door.entry.inplace or subject.aliased:
        return args, kwargs
    if hookable(door) and not subject.lacks:
        return args, kwargs
    return aliases.of_operands(subject, args, kwargs)


def between(subject: Subject, result: Any) -> Any:
    """The results for the program where the operands are aliases: one more alias each, behind the hook that sees its gradient.

    The program's own hooks on its results may change their gradients; what the node gets is what they leave.
    """
    if not subject.aliased:
        return result

    count = len(of_paddle(subject.door, result))

    def behind(position: int, one: Any) -> Any:
        if not isinstance(one, paddle.Tensor) or one.stop_gradient or position >= count:
            return one
        clean.register_silent_hook(one, on_result, subject, position)
        with autocast_off():
            return clean.alias(one)

    return each(result, behind)


def after(subject: Subject, results: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, nested: bool) -> None:
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
        subject.inputs = Inputs(operands, torch_side, needs)
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
            node._register_post_hook(posts.hold(functools.partial(_on_node, subject, seats, last)))
    elif subject.door.entry.inplace:
        subject.comparison.unseen(subject, "Paddle shows no gradients of this node")
    else:
        replayed.watch(subject, shown, args, kwargs)


def _hold(subject: Subject, first: Any) -> None:
    """Hold the gradient that comes to a call's first result, in whose memory Paddle may compute, until its node has run."""
    if attribute(first, TAPE) is None:
        clean.register_silent_hook(first, on_result, subject, 0)
    else:  # a tensor on the tape, which Paddle has just written into, has hooks of another kind
        first._register_grad_hook(functools.partial(on_result, subject, 0))


class _Handed(threading.local):
    """What a post hook hands to Paddle: one list a thread, because Paddle 3.3.1 never releases the object that a hook returns.

    ``subjects``: calls whose results got gradients in the backward that is running. ``told``: that at its end all is let go.
    """

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.subjects: list[Subject] = []
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
def _on_node(subject: Subject, seats: Seats, last: bool, results: tuple[Any, ...], incoming: Sequence[Any]) -> list[Any]:
    """Post hook: ``incoming`` is the gradient of the node's result, ``results`` those of its operands. Raises nothing.

    Paddle reads the list that it gets before any other Python code runs; the list is emptied when the backward has ended.
    """
    try:
        if len(incoming) != 1 or isinstance(incoming[0], list):
            incoming = flat(incoming)  # one list of an op whose results are a list
        retain, _ = clean.backward_options(incoming)
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


def _seen(subject: Subject, seats: Seats, results: tuple[Any, ...], incoming: Sequence[Any], *, over: bool) -> Sequence[Any]:
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


def _observe(subject: Subject, seats: Seats, results: tuple[Any, ...], incoming: Sequence[Any], *, over: bool) -> Sequence[Any]:
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
    why = packing.ALTERED if subject.altered else "" if grads else "Paddle's node shows no incoming gradient"
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


def on_result(subject: Subject, position: int, grad: Any) -> None:
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


def misfit(subject: Subject, position: int, grad: Any) -> str:
    """Why ``grad`` cannot be the gradient of a call's result; empty if it can."""
    shape, dtype = subject.shown[position]
    kind = grad.dtype
    if grad.shape == shape and (kind is dtype or kind == dtype):
        return ""
    return f"the incoming gradient is {list(grad.shape)} {grad.dtype}, the result {shape} {dtype}"
