"""Gathers the ops that the families of ``patches/`` declare, and resolves names that users give."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterable

from ..arguments import names as listed
from ..errors import UnknownNameError, unknown
from ..table.op import Op


@functools.cache
def ops() -> dict[str, Op]:
    """All declared ops by name. Refuses an entry point or a name that two ops claim."""
    from .. import patches

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


def resolve(names: str | Iterable[str], argument: str = "ops") -> frozenset[str]:
    """Op and family names, one or several -> op names.

    Raises:
        UnknownNameError: for a name that is neither, with the nearest accepted names, or why that op runs natively.
        ArgumentError: if ``names`` is not made of strings.
    """
    groups = families()
    selected: set[str] = set()
    for name in listed(argument, names):
        if name in ops():
            selected.add(name)
        elif name in groups:
            selected.update(groups[name])
        else:
            raise _refused(name, argument, {*groups, *ops()})
    return frozenset(selected)


def _refused(name: str, argument: str, accepted: set[str]) -> UnknownNameError:
    """The error for a name that selects nothing: what the op is called here, or why it runs natively."""
    for spelling in dict.fromkeys((name, *_spellings(name))):
        called = "" if spelling == name else f", here {spelling!r},"
        if spelling in accepted:
            return UnknownNameError(f"unknown op or family {name!r}: it is called {spelling!r} here")
        if why := stays_native(spelling):
            return UnknownNameError(
                f"{argument}= takes ops that have a torch reference; {name!r}{called} runs on Paddle's kernel: {why}"
            )
    return unknown("op or family", name, accepted)


def _spellings(name: str) -> tuple[str, ...]:
    """Names of ops that a layer's class may mean: ``"Conv2D"``: ``"conv2d"``; ``"BatchNorm2D"``, in the end: ``"batch_norm"``."""
    words = re.sub(r"(?<=[A-Za-z0-9])(?=[A-Z][a-z])", "_", name).lower()
    return name.lower(), words, re.sub(r"_?[123]d$", "", words)


def stays_native(name: str) -> str:
    """Why calls of Paddle's op ``name`` always run on Paddle's kernel; ``""`` if Paddle has no such op, or we have its formula."""
    from ..patches import _unsubstituted

    if name in ops():
        return ""
    if name in _unsubstituted.EXACT:
        return "it rounds nothing, so it is exact in both frameworks"
    paddle = sys.modules.get("paddle")  # whoever asks has imported it, or names of Paddle mean nothing here
    doors = [getattr(paddle, "_C_ops", None), getattr(getattr(paddle, "nn", None), "functional", None)]
    known = name in _unsubstituted.NATIVE or any(callable(getattr(door, name, None)) for door in doors if not name.startswith("_"))
    return _unsubstituted.reason(name).text if known else ""
