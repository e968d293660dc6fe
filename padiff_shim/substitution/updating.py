"""An optimizer's update of a parameter, answered by Torch: in place, in the parameter's and the accumulators' own memory.

Nothing announces the write, as natively: neither counts Paddle's version. What is computed with the parameter next compares or
reads its memory (weight copies, leaf twins).
"""

from __future__ import annotations

from typing import Any

import torch

from ..dispatch.frames import Frame
from ..dispatch.plan import Unlisted
from ..frameworks.memory import TENSOR_TYPES, as_it_lies, grad_tracer, stream_of
from ..frameworks.versions import attribute, set_attribute
from ..optimizers.update import Step, Update, updates
from ..table import reasons
from ..table.reasons import StayNative
from ..table.signature import REFUSALS, refused
from . import passes

_SEEN = "_padiff_seen"  # attribute of accumulators that an update of ours has written
_NUMBERS = frozenset({"beta1", "beta2", "epsilon", "momentum", "coefficient"})  # which Paddle also takes as tensors
_UNUSED = frozenset({"lr", "master", "skip", "global_powers"})


def named(other: Unlisted) -> Update | None:
    """What is declared for a C function."""
    return updates().get(other.name)


def coupled(optimizer: Any) -> bool:
    """Whether an optimizer is Paddle's own, and its update is declared to take L2 decay."""
    declared = updates().get(f"{getattr(optimizer, 'type', '')}_")
    append = type(optimizer)._append_optimize_op
    return declared is not None and declared.coupled and append.__module__.startswith("paddle.optimizer.")


def update(declared: Update, frame: Frame, definition: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute one update with Torch; what Paddle's function would return. Raises StayNative, with nothing written."""
    given = declared.bind(args, kwargs)
    step = _step(declared, given)
    formula, of = declared.formula(definition)
    with torch.no_grad(), stream_of(step.param):
        try:
            formula(step)
        except REFUSALS as error:
            raise refused(error) from None
        if step.param is not step.written:
            step.written.copy_(step.param)
    if declared.velocity:
        set_attribute(given[declared.velocity], _SEEN, True)
    frame.tally.substituted[declared.name] += 1
    frame.tally.definitions[declared.name, of] += 1
    return tuple(given[name.rstrip("+")] for name in declared.results.split() if name.rstrip("+") in given)


def native(declared: Update, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Paddle's own update, with the decay that was left to Torch."""
    try:
        given = declared.bind(args, kwargs)
    except StayNative:
        return original(*args, **kwargs)
    given["grad"] = passes.gradient_with_decay(given["param"], given["grad"])
    return original(*given.values())


def _step(declared: Update, given: dict[str, Any]) -> Step:
    """The arguments on Torch's side, checked: nothing may fail once something is written."""
    if grad_tracer() is None:
        raise StayNative(reasons.STATIC)
    if given.get("skip") is not None:
        raise StayNative(reasons.SKIPPED_BY_TENSOR)
    if given.get("global_powers"):
        raise StayNative(reasons.SHARED_POWERS)
    sides = {name: _side(name, value) for name, value in given.items() if name not in _UNUSED}
    written = sides["param"]
    master = given.get("master") if given.get("multi_precision") else None
    sides["param"] = written if master is None else as_it_lies(master)
    _check(sides, written)
    sides["grad"] = sides["grad"].to(sides["param"].dtype)
    missing = {word.rstrip("+"): None for word in declared.params.split() if word.endswith("+")}
    return Step(
        **{**missing, **sides},
        written=written,
        lr=passes.learning_rate(given["lr"], given["param"]),
        decay=passes.decay_of(given["param"]),
        fresh=bool(declared.velocity) and _fresh(given[declared.velocity], sides[declared.velocity]),
    )


def _side(name: str, value: Any) -> Any:
    if type(value) not in TENSOR_TYPES:
        return value
    side = as_it_lies(value)
    return side.item() if name in _NUMBERS else side


def _fresh(accumulator: Any, side: torch.Tensor) -> bool:
    """Whether no update was made with an accumulator: then Torch has none yet."""
    return attribute(accumulator, _SEEN) is None and not bool(side.any())


def _check(sides: dict[str, Any], written: torch.Tensor) -> None:
    param, grad = sides["param"], sides["grad"]
    for name, side in sides.items():
        if not isinstance(side, torch.Tensor):
            continue
        if not side.is_contiguous():
            raise StayNative(reasons.STATE_LAYOUT)
        if side.shape == param.shape and name != "grad" and side.dtype is not param.dtype:
            raise StayNative(reasons.STATE_DTYPE, param=str(param.dtype)[6:], other=str(side.dtype)[6:])
    if not param.numel():
        raise StayNative(reasons.EMPTY)
    if grad.shape != param.shape or grad.device != param.device:
        raise StayNative(reasons.STATE_LAYOUT)
    if grad.dtype is not param.dtype and param is written:
        raise StayNative(reasons.STATE_DTYPE, param=str(param.dtype)[6:], other=str(grad.dtype)[6:])
