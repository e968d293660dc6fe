"""Calls whose node cannot be hooked, where the program goes on with Torch's gradients: aliases of their operands have hooks."""

from __future__ import annotations

from typing import Any

from ..dispatch.dtypes import exchanged
from ..frameworks.memory import autocast_off, hand_over, own
from ..gradients import clean
from .gradients import judge_gradients
from .packing import ALTERED
from .subject import Subject

ALIASED = "gradients of some calls were observed through aliases: sums of three or more gradients may be added in another order"


def of_operands(subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with an alias in the place of every operand that wants a gradient."""
    needs = subject.inputs.needs
    givens = [subject.inputs.paddle[index] for index in needs]
    if len({id(given) for given in givens}) < len(givens):
        return args, kwargs  # one tensor twice: an alias would see the sum of both gradients
    with autocast_off():
        aliases = [clean.alias(given) for given in givens]
    subject.comparison.run.warn(ALIASED)
    for index, alias in zip(needs, aliases):
        clean.register_silent_hook(alias, _on_alias, subject, index)
    subject.aliased = True
    exchange = {id(given): alias for given, alias in zip(givens, aliases)}
    return exchanged(args, exchange), {key: exchanged(value, exchange) for key, value in kwargs.items()}


def _on_alias(subject: Subject, index: int, grad: Any) -> Any:
    """Hook on the alias of operand ``index``: Paddle's gradient of this call alone."""
    if not subject.incoming or subject.comparison.aside:
        return None
    if subject.altered:
        subject.comparison.unseen(subject, ALTERED, [index])
        return None
    _, create = clean.backward_options([grad])
    theirs = judge_gradients(subject, subject.incoming, {index: grad})
    if create or index not in theirs or not subject.comparison.carries_torch:
        return None  # under create_graph the program goes on with Paddle's gradient, which has a graph of its own
    return hand_over(own(theirs[index], []))
