"""Calls whose gradients no node shows: Paddle's op is made once more when the backward has ended, on detached operands.

A Python function may make many nodes, those over lists of tensors cannot take a list back from a hook, those of ``_legacy_C_ops``
never call it, and Paddle 2.6 has no such hook.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import paddle

from ..dispatch.dtypes import exchanged
from ..dispatch.frames import paused
from ..gradients.onlookers import look_on
from ..postponed import after_engine, engine_runs
from .gradients import judge_gradients
from .packing import ALTERED, gather, gathered
from .results import of_paddle
from .subject import Subject

CLOSED = "no mode was open during the backward, and this node's gradients can only be computed again after it"


def watch(subject: Subject, shown: Mapping[int, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """See the gradients that come to the results ``shown``."""
    subject.replay = (args, kwargs)
    look_on(shown, _on_result, subject)


def _on_result(subject: Subject, position: int, grad: Any) -> None:
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


def replay(subject: Subject, incoming: Mapping[int, Any]) -> None:
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
