"""The versions that the tests were run on: the one list, for ``noxfile.py``, the Makefile, every answer, the defects and the docs.

The fast part of the suite (``make test``) runs on the newest Paddle with every change, and a part of it on the oldest; the whole
suite (``make test-all``, ``make test-compat``) before an issue is closed. ``make test-matrix`` runs the fast part on each Paddle,
``make test-torch`` and ``make test-python`` samples on each Torch and Python: docs/support.md says how much on which. What is
between two of a list, or newer than the last, was not tried.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

PADDLES = ("2.6.2", "3.0.0", "3.1.1", "3.2.2", "3.3.1")
TORCHES = ("2.4.1", "2.6.0", "2.8.0", "2.10.0", "2.13.0", "2.15.0")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
_LISTS = {"Paddle": PADDLES, "Torch": TORCHES, "Python": PYTHONS}
OLDEST = {"Paddle": "2.6", "Torch": "2.4", "Python": "3.10"}  # what is older lacks what is used of it, and is refused


class Untested(NamedTuple):
    """A version that the tests were not run on, with the next older and the next newer one that they were run on."""

    name: str
    version: str
    nearest: tuple[str, ...]


@functools.cache
def numbers(version: str) -> tuple[int, ...]:
    """``"2.13.0+cpu"`` -> ``(2, 13, 0)``."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in release[0].split(".")) if release else ()


def untested(environment: Mapping[str, Any]) -> list[Untested]:
    """What of an installation, or of a run's header, is not in the lists. Names that it lacks do not count.

    Args:
        environment: versions of ``"paddle"``, ``"torch"`` and ``"python"``; ``+cpu`` and Python's last number do not count.
    """
    unknown = []
    for name, versions in _LISTS.items():
        version = str(environment.get(name.lower()) or "").partition("+")[0]
        version = ".".join(version.split(".")[:2]) if name == "Python" else version
        if version and version not in versions:
            older, newer = ([known for known in versions if (numbers(known) < numbers(version)) is side] for side in (True, False))
            unknown.append(Untested(name, version, (*older[-1:], *newer[:1])))
    return unknown


def too_old(environment: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(name, version, the oldest that works) of what is older than that. Paddle 0.0.0 is a development build."""
    old = []
    for name, oldest in OLDEST.items():
        version = str(environment.get(name.lower()) or "")
        if any(numbers(version)) and numbers(version)[:2] < numbers(oldest):
            old.append((name, version, oldest))
    return old
