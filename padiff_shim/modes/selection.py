"""What the options that all modes share select."""

from __future__ import annotations

import functools
from typing import Any

from ..arguments import one_of
from ..catalogue.registry import BESIDE_OPS, ops as all_ops, optimizers, resolve
from ..errors import ArgumentError, UnknownNameError, unknown
from ..patterns import LayerFilter
from ..text import joined, tr
from .environment import frameworks
from .options import WHOSE, ModeOptions

BACKENDS = ("torch",)


def _check_backend(backend: Any, door: str) -> None:
    """The first argument; for a model or a function, a common slip, the error says what to write."""
    if isinstance(backend, str) or not callable(backend):
        if not isinstance(backend, str) or backend not in BACKENDS:
            raise unknown("backend", backend, BACKENDS)
        return
    kind = f"padiff_shim.{door}"
    if hasattr(backend, "named_sublayers"):
        use = tr('call the model inside `with {door}("torch") as run:`', door=kind)
    else:
        use = tr('write `@{door}("torch")` above the function, or call it inside `with {door}("torch") as run:`', door=kind)
    name = getattr(backend, "__qualname__", type(backend).__qualname__)
    raise ArgumentError(
        "backend= is the name of a framework, {backends}, got {name}: {use}",
        backends=joined(" or ", map(repr, BACKENDS)),
        name=name,
        use=use,
    )


def selection(options: ModeOptions, *, door: str) -> tuple[frozenset[str], LayerFilter | None]:
    """What all modes look up: the enabled ops and the layer filter (or None)."""
    _check_backend(options.backend, door)
    frameworks()
    enabled = _everything() if options.ops is None else resolve(options.ops, "ops")
    if options.exclude:
        enabled -= resolve(options.exclude, "exclude")
    if not enabled:
        raise UnknownNameError("no op is left to substitute: ops= selects nothing, or exclude= takes away everything it selects")
    return enabled, None if options.layers is None else LayerFilter(options.layers)


@functools.cache
def _everything() -> frozenset[str]:
    return frozenset(all_ops()) | optimizers()


@functools.cache
def _differing() -> tuple[str, ...]:
    return (*(name for name, op in all_ops().items() if op.definition is not None), *BESIDE_OPS)


def by_torchs_definition(definitions: list[str]) -> frozenset[str]:
    """Names of the ops that ``definitions=`` wants computed as Torch defines them."""
    chosen = [one_of("definitions", name, (*WHOSE, *_differing())) for name in definitions]
    if "torch" in chosen:
        return frozenset(_differing())
    return frozenset(chosen) - {WHOSE[0]}
