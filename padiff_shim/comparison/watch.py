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

from ..dispatch.containers import each, flat, nested
from ..dispatch.door import Door
from ..dispatch.operands import Inputs
from ..frameworks.memory import autocast_off, hand_over, own, to_torch
from ..frameworks.surroundings import disturbed, put_aside
from ..frameworks.versions import NODE_HOOKS, grad_node
from ..gradients import clean
from ..postponed import after_engine, engine_runs, postpone
from ..records.log import LogError
from ..signals import of_a_signal
from ..table.signature import parse
from . import aliases, packing, posts, replayed
from .gradients import judge_gradients
from .results import of_paddle
from .subject import Subject


def hookable(door: Door) -> bool:
    """Whether Paddle's node shows its gradients to a post hook: those of legacy ops take hooks, and never call them.

    What a Python function does may be many nodes; whether it is one shows when it was called.
    """
    return NODE_HOOKS and not door.op.operands and door.entry.pairs is None and (not door.python or door.transposed is not None)


def before(subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for Paddle's call: as they came in, or with aliases where the node cannot be hooked."""
    needs, door = subject.inputs.needs, subject.door
    if not subject.comparison.carries_torch or not needs or hookable(door) or door.entry.inplace:
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
        one._register_grad_hook(functools.partial(on_result, subject, position))
        with autocast_off():
            return clean.alias(one)

    return each(result, behind)


def after(subject: Subject, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Watch the gradients of the call that Paddle has just made."""
    shown = {
        position: one
        for position, one in enumerate(of_paddle(subject.door, result))
        if isinstance(one, paddle.Tensor) and not one.stop_gradient and one._is_initialized()
    }
    if not shown:
        return
    # A result would be a ring through Paddle's node (result -> node -> hook -> subject -> result) that no collector sees. What
    # detach gives shares the in-place version.
    ours = {id(one) for one in shown.values()}
    operands = [value.detach() if id(value) in ours else value for value in subject.inputs.paddle]
    subject.saved = [(tensor, tensor.inplace_version) for tensor in [operands[index] for index in subject.read]]
    if subject.door.op.writes:
        subject.shared = [(one, one.inplace_version) for one in operands if isinstance(one, paddle.Tensor)]
    subject.inputs = Inputs(operands, subject.inputs.torch, subject.inputs.needs)
    subject.shown = {position: (list(one.shape), one.dtype) for position, one in shown.items()}
    if subject.aliased:
        return
    places = _watched(subject, shown, nested=nested(result))
    if places:
        for position, one in shown.items():
            one._register_grad_hook(functools.partial(on_result, subject, position))
        for node, slots, last in places:
            node._register_post_hook(posts.hold(functools.partial(_on_node, subject, slots, last)))
    elif subject.door.entry.inplace:
        subject.comparison.unseen(subject, "Paddle shows no gradients of this node")
    else:
        replayed.watch(subject, shown, args, kwargs)


def _watched(subject: Subject, shown: Mapping[int, Any], *, nested: bool) -> list[tuple[Any, Any, bool]]:
    """The nodes to hook, which of the operands each one's slots belong to, and whether it is the last to run; none: no way."""
    door = subject.door
    if not NODE_HOOKS or nested or door.op.operands or door.entry.pairs is not None:
        return []
    node = grad_node(next(iter(shown.values())))
    if node is None:
        return []
    if door.python and door.transposed is None:
        slots = _slots(subject, node, shown)
        return [] if slots is None else [(node, slots, True)]
    tensors = [index for index, side in enumerate(subject.operands) if isinstance(side, torch.Tensor)]
    if door.transposed is None or len(tensors) < 3 or node.name() != "AddGradNode":
        return [(node, tensors, True)]
    # A Linear with bias is two nodes in Paddle: a product, and the bias added to it.
    bias, product = tensors.pop(), any(index in subject.inputs.needs for index in tensors)
    added = (node, {1: bias}, not product)
    return [added, (node.next_functions[0], tensors, True)] if product else [added]


def _slots(subject: Subject, node: Any, shown: Mapping[int, Any]) -> dict[int, int] | None:
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


def _places(count: int, tensors: Sequence[int] | Mapping[int, int], subject: Subject) -> dict[int, int] | None:
    """Which of a node's ``count`` results belongs to which operand."""
    if isinstance(tensors, Mapping):
        return dict(tensors)
    operands, door = len(subject.operands), subject.door
    if count > operands and not door.python:  # optional tensors that the op does not have: as the door's parameters stand
        seats = {name: seat for seat, (aliases, _) in enumerate(parse(door.entry.params)) for name in aliases}
        known = all(door.names[index] in seats for index in tensors)
        return {seats[door.names[index]]: index for index in tensors} if known else None
    if count == operands:  # numbers were made tensors, absent ones have a place
        return {index: index for index in tensors}
    return dict(enumerate(tensors)) if count == len(tensors) else None


class _Handed(threading.local):
    """What a post hook hands to Paddle: one list a thread, because Paddle 3.3.1 never releases the object that a hook returns."""

    def __init__(self) -> None:
        self.results: list[Any] = []


_HANDED = _Handed()


def _on_node(subject: Subject, tensors: Any, last: bool, results: tuple[Any, ...], incoming: tuple[Any, ...]) -> list[Any]:
    """Post hook: ``incoming`` is the gradient of the node's result, ``results`` those of its operands. Raises nothing.

    Paddle reads the list that it gets before any other Python code runs; the list is emptied when the backward has ended.
    """
    incoming = tuple(flat(incoming))  # one list of an op whose results are a list
    retain, _ = clean.backward_options(next(grad for grad in incoming if grad._is_initialized()))
    handed = _HANDED.results
    handed[:] = _seen(subject, tensors, results, incoming, over=last and not retain)
    if engine_runs():
        after_engine(handed.clear)
    else:  # no mode is open: nobody tells when this backward ends
        weakref.finalize(subject, handed.clear).atexit = False
    return handed


def _seen(subject: Subject, tensors: Any, results: tuple[Any, ...], incoming: tuple[Any, ...], *, over: bool) -> Sequence[Any]:
    """:func:`_observe`, whatever goes wrong; ``over``: this was the call's last backward."""
    if subject.comparison.aside:
        return results
    sampling = subject.comparison.sampling
    entered = sampling.enter() if sampling.accounts else 0.0
    try:
        if not disturbed():  # asked first: a ``with`` takes longer
            return _observe(subject, tensors, results, incoming, over=over)
        with put_aside():  # also where no mode is open any more
            return _observe(subject, tensors, results, incoming, over=over)
    except Exception as error:
        if isinstance(error, LogError) or of_a_signal(error):
            postpone(error)
        else:
            subject.comparison.run.warn(f"gradients of a call were not observed: {type(error).__name__}: {str(error)[:200]}")
        return results
    except BaseException as stop:  # Ctrl-C: raised when the backward has ended
        postpone(stop)
        return results
    finally:
        if sampling.accounts:
            sampling.leave(entered)


def _observe(subject: Subject, tensors: Any, results: tuple[Any, ...], incoming: tuple[Any, ...], *, over: bool) -> Sequence[Any]:
    """Judge what a node shows; the results that Paddle goes on with."""
    subject.incoming = {}
    places = _places(len(results), tensors, subject)
    if places is None:
        subject.comparison.unseen(subject, f"Paddle's node has {len(results)} gradients, the op {len(subject.operands)} operands")
        return results
    found = {operand: results[slot] for slot, operand in places.items() if operand in subject.inputs.needs}
    grads = {position: incoming[position] for position in subject.shown if position < len(incoming)}
    grads = {position: grad for position, grad in grads.items() if grad._is_initialized()}
    why = packing.ALTERED if subject.altered else "" if grads else "Paddle's node shows no incoming gradient"
    for position, grad in grads.items():
        why = why or misfit(subject, position, grad)
        if not why and any(_same_memory(tensor, grad) for tensor in found.values()):
            why = "Paddle computed the gradient in the memory of the incoming one"
    if why:
        subject.comparison.unseen(subject, why, found)
        return results
    theirs = judge_gradients(subject, grads, found)
    if over and not len(subject.comparison.waiting):
        subject.release()
    if not subject.comparison.carries_torch:
        return results
    carried = list(results)
    for slot, operand in places.items():
        if operand in theirs:
            carried[slot] = _carried(results[slot], theirs[operand], [to_torch(grad) for grad in grads.values()])
    return carried


def _carried(mine: Any, theirs: torch.Tensor, others: Sequence[torch.Tensor]) -> Any:
    """Torch's gradient for the program: a tensor of its own, or the values alone where Paddle's has a graph (create_graph)."""
    if mine.is_leaf:
        return hand_over(own(theirs, others))
    to_torch(mine).copy_(theirs)
    return mine


def _same_memory(one: Any, other: Any) -> bool:
    return bool(one._is_initialized() and one.data_ptr() == other.data_ptr())


def on_result(subject: Subject, position: int, grad: Any) -> None:
    """Hook on a result of a call: keep the incoming gradient until its node has run. Of several results some have none.

    Not one that does not fit the result (a PyLayer may return any): Paddle's kernels write such a gradient into the memory of the
    incoming one, or beyond the end of memory of the right size where somebody holds that.
    """
    if grad is None or not grad._is_initialized() or misfit(subject, position, grad):
        return
    subject.incoming[position] = grad
    if engine_runs():
        after_engine(subject.let_go)  # the node may never run: paddle.grad stops where it was asked to


def misfit(subject: Subject, position: int, grad: Any) -> str:
    """Why ``grad`` cannot be the gradient of a call's result; empty if it can."""
    shape, dtype = subject.shown[position]
    if list(grad.shape) == shape and grad.dtype == dtype:
        return ""
    return f"the incoming gradient is {list(grad.shape)} {grad.dtype}, the result {shape} {dtype}"
