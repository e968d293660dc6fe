"""A program's traceback as Python alone would show it: without this library's frames.

A call that Paddle refuses comes to it through our hooks, on Torch's kernels or beside them. Neither the hooks' frames nor what was
tried before is the program's. What is left whole is an error of this library, or one that Torch raised below it: our frames are the
news there.
"""

from __future__ import annotations

import os
import re
from types import FunctionType, TracebackType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCHS = os.sep + "torch" + os.sep
# What Paddle's C++ raises names its kind first, or its own source file at the end.
_PADDLES = re.compile(
    r"\((InvalidArgument|NotFound|OutOfRange|AlreadyExists|ResourceExhausted|PreconditionNotMet|PermissionDenied|ExecutionTimeout"
    r"|Unimplemented|Unavailable|Fatal|External|InvalidType)\) |.*\(at /paddle/",
    re.DOTALL,
)


def tidy(error: BaseException) -> None:
    """Take our frames out of ``error`` and of what it was raised from, or beside."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _without_ours(one)
            waiting += [one.__cause__, one.__context__]


def _without_ours(error: BaseException) -> TracebackType | None:
    frames = []
    place = error.__traceback__
    while place is not None:
        frames.append(place)
        place = place.tb_next
    through = isinstance(error, KeyboardInterrupt) or bool(_PADDLES.match(str(error)))  # it only came through us
    kept: list[TracebackType] = []
    ours: list[TracebackType] = []  # those since the last one of somebody else
    for place in frames:
        torchs = _TORCHS in place.tb_frame.f_code.co_filename
        if _is_ours(place) or (torchs and ours and through):
            ours.append(place)
            continue
        if torchs:
            kept += ours
        kept.append(place)
        ours = []
    if not kept or not through:
        kept += ours
    for place, after in zip(kept, [*kept[1:], None]):
        place.tb_next = after
    return kept[0] if kept else None


def _is_ours(place: TracebackType) -> bool:
    """Whether a frame is a hook's, or that of the code which stands in for a function of Paddle's (its constant is the hook)."""
    code = place.tb_frame.f_code
    return code.co_filename.startswith(_OURS) or any(type(constant) is FunctionType for constant in code.co_consts)
