"""Report 002, in float32: CTRL drifts little with random weights and much with trained ones."""

from __future__ import annotations

from collections.abc import Callable

from .compare import Case
from .config import Ctrl
from .seed_000 import ctrl_cases


def cases(config: Ctrl | None = None) -> dict[str, Callable[[], Case]]:
    """All of this report by title, each built when called."""
    return ctrl_cases("002", "float32", config or Ctrl())
