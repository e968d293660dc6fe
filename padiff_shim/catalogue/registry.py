"""The ops that ``patches/`` declares, and the meaning of users' names for them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ..arguments import names as listed
from ..errors import OPS_LISTED, UnknownNameError, unknown
from ..language import tr
from ..table.op import AUTOCAST, Op


@functools.cache
def families() -> dict[str, tuple[str, ...]]:
    """{family: names of its ops}; the families are the modules of ``patches/``."""
    return {family: tuple(op.name for op in declared) for family, declared in _declared().items()}


@functools.cache
def ops() -> dict[str, Op]:
    """All declared ops by name."""
    return {op.name: op for declared in _declared().values() for op in declared}


INITIAL_WEIGHTS = "initial_weights"  # in definitions=: those of layers without an initializer
BESIDE_OPS = (INITIAL_WEIGHTS, AUTOCAST)  # words of definitions= that are no names of ops
OPTIMIZERS = "optimizers"  # the family of the updates and clippers


@functools.cache
def optimizers() -> frozenset[str]:
    """Names of the optimizers' updates and of the clippers, which ``ops=`` and ``exclude=`` accept like names of ops."""
    from ..optimizers.update import CLIPPERS, updates  # imports Torch

    return frozenset(CLIPPERS.values()) | {update.name for update in updates().values()}


@functools.cache
def _declared() -> dict[str, list[Op]]:
    """The ops of every family, in the order of their declarations."""
    from .. import patches

    declared: dict[str, list[Op]] = {}
    for family in sorted(module.name for module in pkgutil.iter_modules(patches.__path__) if not module.name.startswith("_")):
        module = importlib.import_module(f"{patches.__name__}.{family}")
        declared[family] = gather(vars(module), family)
    return declared


def gather(names: Mapping[str, Any], family: str) -> list[Op]:
    """The ops among a family module's names. Raises ValueError if an op is bound to another name than its own."""
    declared = {name: value for name, value in names.items() if isinstance(value, Op)}
    for name, op in declared.items():
        if name.rstrip("_") != op.name:
            raise ValueError(f"op {op.name!r} stands in family {family!r} as {name!r}: give it name={name.rstrip('_')!r}")
    return list(declared.values())


def resolve(names: str | Iterable[str], argument: str = "ops") -> frozenset[str]:
    """The names of the ops that one or several names of ops, families, optimizers and clippers mean.

    Raises:
        UnknownNameError: there is no such name; the message has the nearest names, or why the op runs natively.
        ArgumentError: ``names`` holds something else than strings.

    Example:
        >>> from padiff_shim.catalogue.registry import resolve
        >>> sorted(resolve("linear")), len(resolve(["fft", "relu"]))
        (['linear'], 4)
    """
    groups = families()
    selected: set[str] = set()
    for name in listed(argument, names):
        if name in ops():
            selected.add(name)
        elif name == OPTIMIZERS or name in optimizers():
            selected.update(optimizers() if name == OPTIMIZERS else {name})
        elif name in groups:
            selected.update(groups[name])
        else:
            raise _refused(name, argument, {*groups, *ops(), *optimizers(), OPTIMIZERS})
    return frozenset(selected)


def _refused(name: str, argument: str, accepted: set[str]) -> UnknownNameError:
    """The error for an unknown name: the op's name here, or why it runs natively."""
    # A layer's class may be meant: "Conv2D" is "conv2d", "BatchNorm2D" is "batch_norm".
    words = re.sub(r"(?<=[A-Za-z0-9])(?=[A-Z][a-z])", "_", name).lower()
    for spelling in dict.fromkeys((name, name.lower(), words, re.sub(r"_?[123]d$", "", words))):
        called = "" if spelling == name else tr(", here {spelling},", spelling=repr(spelling))
        if spelling in accepted:
            return UnknownNameError(
                "unknown op or family {name}: it is called {spelling} here", name=repr(name), spelling=repr(spelling)
            )
        if why := stays_native(spelling):
            return UnknownNameError(
                "{argument}= takes ops that have a torch reference; {name}{called} runs on Paddle's kernel: {why}",
                argument=argument,
                name=repr(name),
                called=called,
                why=why,
            )
    return unknown(tr("op or family"), name, accepted, OPS_LISTED)


def stays_native(name: str) -> str:
    """Why calls of Paddle's op ``name`` always run on Paddle's kernel; ``""`` if there is no such op, or it has a formula."""
    from ..patches import _unsubstituted

    if name in ops() or name.rstrip("_") in optimizers():
        return ""
    if name in _unsubstituted.EXACT:
        return "it rounds nothing, so it is exact in both frameworks"
    paddle = sys.modules.get("paddle")  # callers that use names of Paddle have imported it
    namespaces = [getattr(paddle, "_C_ops", None), getattr(getattr(paddle, "nn", None), "functional", None)]
    known = name in _unsubstituted.NATIVE or any(
        callable(getattr(namespace, name, None)) for namespace in namespaces if not name.startswith("_")
    )
    return _unsubstituted.reason(name).text if known else ""
