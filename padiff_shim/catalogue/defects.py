"""What was found wrong in Paddle and Torch: each with a program of its own that shows it, without this library.

The entries stand in ``patches/_defects_*.py``; ``tests/catalogue/test_defects.py`` runs every program, and docs/defects.md is
written from them. A program ends without complaint where the defect is not, or no longer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import unknown

SHOWN = "AssertionError"


@dataclass(frozen=True)
class Defect:
    """One defect.

    ``op``: what has it, for people. ``what``: what is wrong. ``size``: how far off the program is, as it was measured.
    ``paddle``, ``torch``: the versions that it was seen on; a version that is not named was looked at and has it not, or was not.
    ``shows``: how the program ends there: the type of an error, ``"SIGSEGV"``, ``"SIGFPE"``, ``"SIGILL"``, ``"SIGABRT"``,
    ``"hangs"``, ``"killed or hangs"``, ``"anything but a TypeError"``.
    ``alone``: the program leaves its process unfit for more. ``by_processor``: vectorised kernels of some processors have it.
    ``known``: the name that the table of known differences has for it. ``shim``: what this library makes of it.
    ``others``: a title -> another last line of the program, that shows the same of something else.
    """

    name: str
    op: str
    what: str
    size: str
    shim: str
    program: str
    paddle: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    shows: str = SHOWN
    alone: bool = False
    by_processor: bool = False
    known: str = ""
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def ends_process(self) -> bool:
        """The program has to run in a process of its own."""
        return self.alone or self.shows != SHOWN

    def programs(self) -> Iterator[tuple[str, str]]:
        """(title, program) of the program and its other forms."""
        yield self.name, self.program
        head = self.program.splitlines()[:-1]
        yield from ((f"{self.name}: {title}", "\n".join((*head, line, ""))) for title, line in self.others.items())


@functools.cache
def defects() -> Mapping[str, Defect]:
    """All of them by name, in the order of docs/defects.md."""
    return {one.name: one for entries in groups().values() for one in entries}


@functools.cache
def groups() -> Mapping[str, tuple[Defect, ...]]:
    """Title of a section -> its defects."""
    from ..patches import (
        _defects_crashes,
        _defects_engine,
        _defects_gradients,
        _defects_memory,
        _defects_mended,
        _defects_precision,
        _defects_ranges,
        _defects_values,
    )

    found = {
        "Gradients": _defects_gradients,
        "Values": _defects_values,
        "Unwritten memory": _defects_memory,
        "Infinities, NaN and the edges of the range": _defects_ranges,
        "Precision": _defects_precision,
        "Crashes, and what is left behind": _defects_crashes,
        "The autograd engine": _defects_engine,
        "Mended in Paddle 3.3.1": _defects_mended,
    }
    return {title: tuple(Defect(**entry) for entry in module.DEFECTS) for title, module in found.items()}


def reproducer(name: str) -> str:
    """The program that shows a defect: plain Paddle or Torch with NumPy, ready for a report to their authors.

    Args:
        name: a title of docs/defects.md, or of one of its other forms: ``"numbers held in float32: celu"``.

    Raises:
        UnknownNameError: for another name; the message names the nearest ones.
    """
    programs = dict(pair for one in defects().values() for pair in one.programs())
    if name not in programs:
        raise unknown("defect", str(name), programs)
    return programs[name]
