"""Paddle's gradients of one call, as they were observed, beside Torch's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..frameworks.memory import CPU_ALONE, as_operand, stream_of, to_torch
from ..planting import of_a_change
from ..postponed import postpone
from ..records.log import LogError
from ..signals import of_a_signal
from .subject import Subject


def judge_gradients(subject: Subject, incoming: Mapping[int, Any], found: Mapping[int, Any]) -> dict[int, torch.Tensor]:
    """Judge Paddle's gradients ``{operand: gradient}`` for the incoming ones ``{position: gradient}``.

    Returns torch's, as Paddle would lay them out, where the program goes on with them.
    """
    comparison, door = subject.comparison, subject.door
    began = 0.0 if subject.key is None else comparison.sampling.clock()
    carried: dict[int, torch.Tensor] = {}
    found = {operand: tensor for operand, tensor in found.items() if tensor is not None and tensor._is_initialized()}
    try:
        grads = {position: as_operand(grad) for position, grad in incoming.items()}
        first = next(iter(grads.values()))
        if comparison.waits(first):  # Paddle adds other gradients into this memory, whoever holds it
            grads = {position: grad.clone() for position, grad in grads.items()}
        gathers = len(found) > 1 and comparison.run.recorder.gather()
        try:
            if CPU_ALONE:
                _judge_each(subject, grads, found, carried)
            else:
                with stream_of(first.device):
                    _judge_each(subject, grads, found, carried)
        finally:
            if gathers:
                comparison.run.recorder.put()
    except LogError as stop:  # the user wants to know: on_log_error="raise"
        postpone(stop)
    except Exception as error:  # comparing must never break the program's backward
        if of_a_signal(error) or of_a_change(error):
            postpone(error)
        else:
            comparison.run.warn(
                f"gradients of a call of {door.op.name!r} were not judged: {type(error).__name__}: {str(error)[:200]}"
            )
    except BaseException as stop:  # Ctrl-C: raised when the backward has ended
        postpone(stop)
    finally:
        if subject.key is not None:
            comparison.sampling.spent(subject.key, comparison.sampling.clock() - began, backward=True)
    return carried


def _judge_each(
    subject: Subject, grads: Mapping[int, torch.Tensor], found: Mapping[int, Any], carried: dict[int, torch.Tensor]
) -> None:
    """One by one, in the order of ``found``; what is carried on is put into ``carried``."""
    comparison, transposed = subject.comparison, subject.door.transposed
    theirs = subject.gradients(grads, found)
    pairs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for operand, tensor in found.items():
        other = theirs.get(operand)
        if other is None:
            continue
        mine = to_torch(tensor)
        if operand == transposed:
            mine = mine.t()
        pairs[operand] = comparison.spoiled_gradient(subject, operand, mine, other)
        if comparison.carries_torch and mine.shape == other.shape and mine.dtype == other.dtype:
            carried[operand] = other.t().contiguous() if operand == transposed else other
    for operand in pairs:
        comparison.gradient(subject, operand, grads, pairs)
