"""Equal mathematics whose bits differ: one module for each cause, with ``FORMULATIONS`` as data."""

import functools
import importlib

from .declared import CAUSES


@functools.cache
def formulations():
    """All of them by name, those of one cause together, in the order of the causes."""
    gathered = {}
    for cause in CAUSES:
        for declared in importlib.import_module(f"{__name__}.{cause}").FORMULATIONS:
            assert gathered.setdefault(declared.name, declared) is declared, f"{declared.name!r} is declared twice"
    return gathered
