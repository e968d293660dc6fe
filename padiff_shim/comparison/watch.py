"""The gradients of a compared call, observed on Paddle's own grad node while Paddle's backward runs.

Paddle 3 shows a node's incoming gradient and its results to a *post hook*; nothing in the graph changes, so every gradient and
the order in which gradients are added stay bit for bit what they are without comparing. Paddle 2.6 has no such hook, nodes over
a list of tensors (einsum) cannot return one, and those of ``_legacy_C_ops`` never call it. Such a call is *replayed* when the
backward has ended: Paddle's op once more, on detached operands, and its gradients for the incoming gradient that was seen. With
``carry="torch"`` these calls get aliases of their operands instead (a reshape to the same shape), on which hooks hand torch's
gradients over; Paddle's engine may then add the gradients of a tensor that is used three times or more in another order.

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

from ..dispatch.dtypes import exchanged
from ..dispatch.frames import paused
from ..frameworks.memory import as_operand, autocast_off, hand_over, own, stream_of, to_torch
from ..frameworks.versions import NODE_HOOKS, grad_node
from ..gradients import clean
from ..postponed import after_engine, engine_runs, postpone
from ..records.log import LogError
from . import posts
from .subject import Subject

CLOSED = "no mode was open during the backward, and this node's gradients can only be computed again after it"
ALIASED = "gradients of some calls were observed through aliases: sums of three or more gradients may be added in another order"


def hookable(subject: Subject) -> bool:
    """Whether Paddle's node shows its gradients to a post hook: those of legacy ops take hooks, and never call them."""
    return NODE_HOOKS and not subject.sub.op.operands and subject.sub.entry.pairs is None


def before(subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for Paddle's call: as they came in, or with aliases where the node cannot be hooked."""
    needs = subject.inputs.needs
    if not needs or hookable(subject):
        return args, kwargs
    if not subject.comparison.carries_torch or subject.sub.entry.inplace:
        subject.replay = (args, kwargs)
        return args, kwargs
    givens = [subject.inputs.paddle[index] for index in needs]
    if len({id(given) for given in givens}) < len(givens):
        return args, kwargs  # one tensor twice: an alias would see the sum of both gradients
    with autocast_off():
        aliases = [clean.alias(given) for given in givens]
    subject.comparison.run.warn(ALIASED)
    for index, alias in zip(needs, aliases):
        alias._register_grad_hook(functools.partial(_on_alias, subject, index))
    subject.aliased = True
    exchange = {id(given): alias for given, alias in zip(givens, aliases)}
    return exchanged(args, exchange), {key: exchanged(value, exchange) for key, value in kwargs.items()}


def between(subject: Subject, result: Any) -> Any:
    """The result for the program where the operands are aliases: one more alias, behind the hook that sees the incoming gradient.

    The program's own hooks on its result may change the gradient; what the node gets is what they leave.
    """
    if not subject.aliased or result.stop_gradient:
        return result
    result._register_grad_hook(functools.partial(_on_result, subject))
    with autocast_off():
        return clean.alias(result)


def after(subject: Subject, result: Any) -> None:
    """Hook the node that Paddle has just made."""
    if result.stop_gradient:
        return
    # The result would be a ring through Paddle's node (result -> node -> hook -> subject -> result) that no collector sees. What
    # detach gives shares the in-place version.
    apart = [value.detach() if value is result else value for value in subject.inputs.paddle]
    subject.saved = [(tensor, tensor.inplace_version) for tensor in [apart[index] for index in subject.read]]
    subject.inputs = subject.inputs._replace(paddle=apart)
    subject.shown = list(result.shape), result.dtype
    if subject.replay is not None and not subject.sub.entry.inplace:
        result._register_grad_hook(functools.partial(_on_replayed, subject))
        return
    if subject.aliased:
        return
    node = grad_node(result) if hookable(subject) else None
    if node is None:
        subject.comparison.unseen(subject, "Paddle shows no gradients of this node")
        return
    result._register_grad_hook(functools.partial(_on_result, subject))
    tensors = [index for index, side in enumerate(subject.operands) if isinstance(side, torch.Tensor)]
    if subject.sub.transposed is not None and len(tensors) == 3 and node.name() == "AddGradNode":
        # A Linear with bias is two nodes in Paddle: a product, and the bias added to it.
        bias, product = tensors.pop(), any(index in subject.inputs.needs for index in tensors)
        node._register_post_hook(posts.hold(functools.partial(_on_node, subject, {1: bias}, not product)))
        if not product:
            return  # neither x nor the weight wants a gradient
        node = node.next_functions[0]
    node._register_post_hook(posts.hold(functools.partial(_on_node, subject, tensors, True)))


def _places(count: int, tensors: Sequence[int] | Mapping[int, int], operands: int) -> dict[int, int] | None:
    """Which of a node's ``count`` results belongs to which operand."""
    if isinstance(tensors, Mapping):
        return dict(tensors)
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
    retain, _ = clean.backward_options(incoming[0])
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
        return _observe(subject, tensors, results, incoming, over=over)
    except Exception as error:
        if isinstance(error, LogError):
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
    subject.incoming = None
    places = _places(len(results), tensors, len(subject.operands))
    if places is None:
        subject.comparison.unseen(subject, f"Paddle's node has {len(results)} gradients, the op {len(subject.operands)} operands")
        return results
    found = {operand: results[slot] for slot, operand in places.items() if operand in subject.inputs.needs}
    why = _misfit(subject, incoming[0])
    if not why and any(_same_memory(tensor, incoming[0]) for tensor in found.values()):
        why = "Paddle computed the gradient in the memory of the incoming one"
    if why:
        subject.comparison.unseen(subject, why, found)
        return results
    theirs = judge_gradients(subject, incoming[0], found)
    if over and not len(subject.comparison.waiting):
        subject.release()
    if not subject.comparison.carries_torch:
        return results
    carried = list(results)
    for slot, operand in places.items():
        if operand in theirs:
            carried[slot] = _carried(results[slot], theirs[operand], [to_torch(incoming[0])])
    return carried


def _carried(mine: Any, theirs: torch.Tensor, others: Sequence[torch.Tensor]) -> Any:
    """Torch's gradient for the program: a tensor of its own, or the values alone where Paddle's has a graph (create_graph)."""
    if mine.is_leaf:
        return hand_over(own(theirs, others))
    to_torch(mine).copy_(theirs)
    return mine


def _same_memory(one: Any, other: Any) -> bool:
    return bool(one._is_initialized() and one.data_ptr() == other.data_ptr())


def _on_result(subject: Subject, grad: Any) -> None:
    """Hook on the result of a call: keep the incoming gradient until its node has run.

    Not one that does not fit the result (a PyLayer may return any): Paddle's kernels write such a gradient into the memory of the
    incoming one, or beyond the end of memory of the right size where somebody holds that.
    """
    if _misfit(subject, grad):
        return
    subject.incoming = grad
    if engine_runs():
        after_engine(subject.let_go)  # the node may never run: paddle.grad stops where it was asked to


def _misfit(subject: Subject, grad: Any) -> str:
    """Why ``grad`` cannot be the gradient of a call's result; empty if it can."""
    shape, dtype = subject.shown  # type: ignore[misc]
    if list(grad.shape) == shape and grad.dtype == dtype:
        return ""
    return f"the incoming gradient is {list(grad.shape)} {grad.dtype}, the result {shape} {dtype}"


def _on_replayed(subject: Subject, grad: Any) -> None:
    """Hook on the result of a call whose node cannot be hooked: its gradients are computed again when the backward has ended."""
    if subject.comparison.aside:
        return
    if engine_runs():
        after_engine(functools.partial(subject.comparison.replay, subject, grad.detach()))
    else:
        subject.comparison.unseen(subject, CLOSED)


def replay(subject: Subject, grad: Any) -> None:
    """Paddle's gradients of a call, by the same op on detached operands. To be called outside of Paddle's engine."""
    args, kwargs = subject.replay  # type: ignore[misc]
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
    leaves = [copy[0] for copy in copies.values()]
    with paddle.enable_grad(), paused():
        result = subject.sub.original(*exchanged(args, exchange), **{k: exchanged(v, exchange) for k, v in kwargs.items()})
        shown = result[0] if subject.sub.entry.returns_list else result
        found = paddle.grad([shown], [leaf for _, leaf in leaves], [grad], allow_unused=True)
    judge_gradients(subject, grad, {index: one for (index, _), one in zip(leaves, found) if one is not None})


def _on_alias(subject: Subject, index: int, grad: Any) -> Any:
    """Hook on the alias of operand ``index``: Paddle's gradient of this call alone."""
    if subject.incoming is None or subject.comparison.aside:
        return None
    _, create = clean.backward_options(grad)
    theirs = judge_gradients(subject, subject.incoming, {index: grad})
    if create or index not in theirs or not subject.comparison.carries_torch:
        return None  # under create_graph the program goes on with Paddle's gradient, which has a graph of its own
    return hand_over(own(theirs[index], []))


def judge_gradients(subject: Subject, incoming: Any, found: Mapping[int, Any]) -> dict[int, torch.Tensor]:
    """Judge Paddle's gradients ``{operand: gradient}``; returns torch's, as Paddle would lay them out."""
    comparison, sub = subject.comparison, subject.sub
    began = comparison.sampling.clock()
    carried: dict[int, torch.Tensor] = {}
    found = {operand: tensor for operand, tensor in found.items() if tensor is not None and tensor._is_initialized()}
    try:
        grad = as_operand(incoming)
        waits = comparison.waits(grad)
        if waits:  # Paddle adds other gradients into this memory, whoever holds it
            grad = grad.clone()
        with stream_of(grad):
            theirs = subject.gradients(grad, found)
            for operand, tensor in found.items():
                if operand not in theirs:
                    continue
                mine = to_torch(tensor)
                mine = mine.t() if operand == sub.transposed else mine
                other = theirs[operand]
                comparison.gradient(subject, operand, grad, mine.clone() if waits else mine, other)
                if mine.shape == other.shape and mine.dtype == other.dtype:
                    carried[operand] = other.t().contiguous() if operand == sub.transposed else other
    except LogError as stop:  # the user wants to know: on_log_error="raise"
        postpone(stop)
    except Exception as error:  # comparing must never break the program's backward
        comparison.run.warn(f"gradients of a call of {sub.op.name!r} were not judged: {type(error).__name__}: {str(error)[:200]}")
    except BaseException as stop:  # Ctrl-C: raised when the backward has ended
        postpone(stop)
    finally:
        comparison.sampling.spent(subject.key, comparison.sampling.clock() - began)
    return carried
