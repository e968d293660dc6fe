"""Paddle's own kernel on the same values in float32, where it has none in 16 bits and nothing is rounded: moves, choices, draws.

Values go there and back as steps of Torch's graph, where a gradient is wanted (:mod:`padiff_shim.dispatch.raised`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..dispatch.frames import top
from ..dispatch.raised import dtype_of_call, in_float32, is_of_one_dtype, is_sound, lacks
from ..frameworks.memory import as_operand, torch_dtype
from ..gradients import inplace, islands
from ..gradients.calls import Call
from ..gradients.twins import twin
from ..signals import let_pass
from .moves import recast
from .results import overwritten

NAMES: set[str] = set()  # ops of which a kernel was missing
_lacking: set[tuple[str, str]] = set()  # the same with the dtype


def is_for(name: str, error: Exception, args: Any, kwargs: dict[str, Any], place: int | None = None) -> bool:
    """Whether a native call failed for want of a kernel in the dtype of all its floats; :func:`made` then knows of it.

    ``place``: of the argument that the op writes into; none that Paddle refuses to write.
    """
    let_pass(error)
    dtype = lacks(name, error, args, kwargs)
    if not dtype or _is_refused(args, place):
        return False
    NAMES.add(name)
    _lacking.add((name, dtype))
    return True


def made(name: str, make: Callable[..., Any], args: Any, kwargs: dict[str, Any], place: int | None = None) -> Any:
    """``make(*args, **kwargs)``, which calls the native op ``name``; in float32 where Paddle has no kernel in the operands' dtype.

    Args:
        place: of the argument that the op writes into.

    Raises:
        RuntimeError: Paddle's own, where there is no kernel and other floats are among the operands, or a leaf would be written.
    """
    dtype = dtype_of_call(args, kwargs)
    known = (name, dtype) in _lacking and is_sound(name, args, kwargs)
    if not known or not is_of_one_dtype(args, kwargs, dtype) or _is_refused(args, place):
        try:
            return make(*args, **kwargs)
        except RuntimeError as error:
            if not is_for(name, error, args, kwargs, place):
                raise
    result, wide = in_float32(make, args, kwargs, dtype, recast)
    frame = top()
    if frame is not None:
        frame.tally.lacking[name.strip("_"), dtype] += 1
    if place is None:
        return result
    target = args[place]
    values, half = wide[id(target)], torch_dtype(target.dtype)
    assert half is not None
    if values.stop_gradient or not islands.recording():
        overwritten(target, as_operand(values).to(half))._bump_inplace_version()
    else:
        with torch.enable_grad():
            inplace.write(Call("cast", None, []), target, twin(values).to(half), reads_result=False)
    return target if result is values else result


def _is_refused(args: Any, place: int | None) -> bool:
    return place is not None and islands.recording() and inplace.refused(args[place])
