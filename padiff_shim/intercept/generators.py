"""Interception of Paddle's generators: in a mode that draws from Torch's, what a program does to them is done to Torch's as well.

All of ``paddle.seed``, ``get_rng_state``, ``set_rng_state`` and their like, recompute and the tracker of tensor parallelism come
down to the methods of the generators themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.frames import top
from ..errors import ModeError
from ..frameworks import randomness
from ..interrupts import engine_runs
from ..language import logged
from ..patching.patcher import Point
from .locate import calling, point, present

_Method = Callable[..., Any]
_OWNER = "paddle.base.core.Generator"
_UNKNOWN = logged(
    "a state of Paddle's generator was restored that was not saved in a mode with random='torch', or "
    "is a copy of such a state: Torch's generator begins at its seed"
)


def points() -> list[Point]:
    """One point per method that this Paddle has."""
    hooks = {
        "manual_seed": _followed(lambda source, result, seed: source.manual_seed(seed)),
        "seed": _followed(lambda source, seed: source.manual_seed(seed)),
        "get_state": _followed(lambda source, state: randomness.keep(state, source)),
        "set_state": calling(_set_state),
        "register_state_index": calling(_register_state_index),
        "set_state_index": calling(_set_state_index),
    }
    return present(*(point(f"{_OWNER}.{name}", hook) for name, hook in hooks.items()))


def _source(generator: Any) -> Any:
    """Torch's generator that stands for this one here and now."""
    frame = top()
    return None if frame is None or not frame.plan.draws or frame.aside else randomness.counterpart(generator)


def _followed(act: Callable[..., Any]) -> Callable[[Any], _Method]:
    """Makes the hook of a method behind which ``act`` is called: with Torch's generator, what was returned, and the arguments."""

    def hook(original: _Method, generator: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(generator, *args, **kwargs)
        source = _source(generator)
        if source is not None:
            act(source, result, *args, **kwargs)
        return result

    return calling(hook)


def _set_state(original: _Method, generator: Any, state: Any) -> Any:
    source = _source(generator)
    if engine_runs():
        _refuse_other_numbers(generator, source, state)
    result = original(generator, state)
    if source is not None:
        _follow(source, state)
    return result


def _refuse_other_numbers(generator: Any, source: Any, state: Any) -> None:
    """Raise where a replay would draw other numbers than its forward, and give wrong gradients."""
    stands = randomness.counterpart(generator)
    if stands is None or randomness.kept(state) is (source is not None):
        return
    if source is None and randomness.drawn_since(state, stands):
        raise _replayed("Torch", "Paddle")
    if source is not None and randomness.words(state) != randomness.words(generator.get_state()):
        raise _replayed("Paddle", "Torch")


def _replayed(first: str, now: str) -> ModeError:
    return ModeError(
        "this backward runs a forward again (recompute) that drew {first}'s numbers, where it would draw {now}'s numbers now: "
        "open the mode with random='torch' around both, or around neither",
        first=first,
        now=now,
    )


def _follow(source: Any, state: Any) -> None:
    """Put Torch's generator where it was when Paddle handed out this state."""
    frame = top()
    if frame is not None and not randomness.kept(state):
        frame.run.warn(_UNKNOWN)
    randomness.restore(state, source)


def _register_state_index(original: _Method, generator: Any, state: Any) -> Any:
    source, before = _source(generator), generator.get_state_index()
    result = original(generator, state)
    if source is not None:
        randomness.leave(source, before)
        _follow(source, state)
    return result


def _set_state_index(original: _Method, generator: Any, index: int) -> Any:
    source, before = _source(generator), generator.get_state_index()
    result = original(generator, index)
    if source is not None and index != before:
        randomness.leave(source, before)
        randomness.enter(source, index, generator.initial_seed())
    return result
