"""Gathers the ops that the families of ``patches/`` declare, and resolves names that users give."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable

from .errors import unknown
from .op import Op


@functools.cache
def ops() -> dict[str, Op]:
    """All declared ops by name. Refuses an entry point or a name that two ops claim."""
    from . import patches

    found: dict[str, Op] = {}
    claimed: dict[str, str] = {}
    for family in patches.FAMILIES:
        for op in importlib.import_module(f"{patches.__name__}.{family}").OPS:
            if op.name in found:
                raise ValueError(f"op {op.name!r} is declared twice")
            found[op.name] = op
            for entry in op.entries:
                if entry.target in claimed:
                    raise ValueError(f"{entry.target} is claimed by {claimed[entry.target]!r} and by {op.name!r}")
                claimed[entry.target] = op.name
    return found


def families() -> dict[str, tuple[str, ...]]:
    """Family name -> names of its ops."""
    grouped: dict[str, list[str]] = {}
    for op in ops().values():
        grouped.setdefault(op.family, []).append(op.name)
    return {family: tuple(names) for family, names in grouped.items()}


def resolve(names: str | Iterable[str]) -> frozenset[str]:
    """Op and family names, one or several -> op names.

    Raises:
        UnknownNameError: for a name that is neither, with the nearest accepted names.
        TypeError: if ``names`` is not made of strings.
    """
    groups = families()
    selected: set[str] = set()
    for name in [names] if isinstance(names, str) else names:
        if not isinstance(name, str):
            raise TypeError(f"op names are strings, got {name!r}")
        if name in ops():
            selected.add(name)
        elif name in groups:
            selected.update(groups[name])
        else:
            raise unknown("op or family", name, {*groups, *ops()})
    return frozenset(selected)
