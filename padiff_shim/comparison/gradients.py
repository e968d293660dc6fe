"""Paddle's gradients of one call, as they were observed, beside Torch's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..frameworks.memory import CPU_ALONE, as_operand, stream_of, to_torch
from ..planting import of_a_change
from ..postponed import HERE
from ..records.log import LogError
from ..signals import let_pass
from .subject import Subject


def let_through(error: Exception) -> None:
    """Raise again what is no failure of a comparison: a signal's, a planted change's, the log's with ``on_log_error="raise"``."""
    if isinstance(error, LogError) or of_a_change(error):
        raise error
    let_pass(error)


def judge_gradients(subject: Subject, incoming: Mapping[int, Any], shown: Mapping[int, Any]) -> dict[int, torch.Tensor]:
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
    subject: Subject, grads: Mapping[int, torch.Tensor], gradients: Mapping[int, Any], carried: dict[int, torch.Tensor]
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
