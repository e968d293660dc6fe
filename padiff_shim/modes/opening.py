"""From options to a mode, whichever it is."""

from __future__ import annotations

from typing import Any

from . import compare, reference
from .options import CompareOptions, Options, ReferenceOptions
from .settings import Setting, remark


def opened(options: Options, owed: dict[str, Setting]) -> Any:
    """The mode of these options, whose run says what it owes to settings from outside."""
    if isinstance(options, CompareOptions):
        made: Any = compare.opened(options)
    else:
        assert isinstance(options, ReferenceOptions)
        made = reference.opened(options)
    remark(made.run, owed)
    return made
