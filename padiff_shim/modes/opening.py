"""From options to a mode, whichever it is."""

from __future__ import annotations

from typing import Any

from . import compare, reference
from .options import CompareOptions, ModeOptions, ReferenceOptions, Setting, by_torchs_definition, owing, remark, selection


def opened(options: ModeOptions, owed: dict[str, Setting]) -> Any:
    """The mode of these options, whose run says what it owes to settings from outside."""
    with owing(owed):
        if isinstance(options, CompareOptions):
            made: Any = compare.opened(options)
        else:
            assert isinstance(options, ReferenceOptions)
            made = reference.opened(options)
    remark(made.run, owed)
    return made


def looked_up(options: ModeOptions, owed: dict[str, Setting]) -> None:
    """Look up what can only be looked up with both frameworks there, and open nothing.

    Raises:
        UnknownNameError: an op, family or definition that there is not.
        BackendError: a framework is missing.
    """
    with owing(owed):
        selection(options, opener="compare" if isinstance(options, CompareOptions) else "reference")
        if isinstance(options, ReferenceOptions):
            by_torchs_definition(options.definitions)
