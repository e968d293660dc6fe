"""A program's traceback as Python alone would show it: without this library's frames.

A call that Paddle refuses comes to it through our hooks, on Torch's kernels or beside them. Neither the hooks' frames nor what was
tried before is the program's. What is left whole is an error of this library, or one that Torch raised below it: our frames are the
news there. Paddle writes frames into messages, too: into those of errors in a hook or a PyLayer, and of what ``to_static`` refuses.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from types import FunctionType, TracebackType

_LIBRARY = __name__.partition(".")[0]
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BEGUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")  # what stands above it are ours, and runpy
_TORCHS = os.sep + "torch" + os.sep
# What Paddle's C++ raises names its kind first, or its own source file at the end.
_PADDLES = re.compile(
    r"\((InvalidArgument|NotFound|OutOfRange|AlreadyExists|ResourceExhausted|PreconditionNotMet|PermissionDenied|ExecutionTimeout"
    r"|Unimplemented|Unavailable|Fatal|External|InvalidType)\) |.*\(at /paddle/",
    re.DOTALL,
)
# A frame in a message: of C++ ("  /a/file.py(12): name"), innermost first, and of Python ('  File "/a/file.py", line 12, in name').
_LISTED = re.compile(r"\s+(?P<file>\S.*)\(\d+\): \S+$")
_SHOWN = re.compile(r'(?P<indent>\s*)File "(?P<file>.+)", line \d+, in .+$')


def tidy(error: BaseException) -> None:
    """Take our frames out of ``error`` and of what it was raised from, or beside."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _without_ours(one)
            said = one.args[0] if one.args and type(one.args[0]) is str else ""
            if said != (theirs := "\n".join(_said(said.split("\n")))):
                one.args = (theirs, *one.args[1:])
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
    """Whether a frame is a hook's, a formula's, or that of the code which stands in for a function of Paddle's (its constant is the
    hook)."""
    code, module = place.tb_frame.f_code, str(place.tb_frame.f_globals.get("__name__"))
    ours = code.co_filename.startswith(_OURS) or module == _LIBRARY or module.startswith(_LIBRARY + ".")
    return ours or any(type(constant) is FunctionType for constant in code.co_consts)


def _said(lines: list[str]) -> Iterator[str]:
    """The lines of a message without those of our frames."""
    at = 0
    while at < len(lines):
        if (listed := _LISTED.match(lines[at])) is not None:
            below = at
            while listed is not None:
                at += 1
                listed = _LISTED.match(lines[at]) if at < len(lines) else None
            yield from _listed(lines[below:at])
        elif (shown := _SHOWN.match(lines[at])) is not None and _of_ours(shown["file"]):
            at += 1
            while at < len(lines) and lines[at].startswith(shown["indent"] + " "):  # the line itself, and its marks
                at += 1
            at += at < len(lines) and not lines[at].strip()
        else:
            yield lines[at]
            at += 1


def _listed(frames: list[str]) -> Iterator[str]:
    """Of frames from the innermost on. Between ours stand those of Torch's engine, and above our first one those that began it."""
    files = [frame.strip().rpartition("(")[0] for frame in frames]
    for place, (frame, file) in enumerate(zip(frames, files)):
        if file == _BEGUN:
            return
        above = files[place + 1] if place + 1 < len(files) else ""
        if not (_of_ours(file) or (_TORCHS in file and _of_ours(above))):
            yield frame


def _of_ours(file: str) -> bool:
    patches = getattr(sys.modules.get(f"{_LIBRARY}.patches"), "__file__", None)
    return file.startswith(_OURS if patches is None else (_OURS, os.path.dirname(patches) + os.sep, "<shortcut for "))
