"""Mistakes in how a port is trained: optimizers, their settings, learning rates, clipping, gradients that are not cleared."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..text import listed
from ..weights.mapping import Mapping
from .causes import Cause
from .findings import Mistake, Place
from .settings import USUAL, Settings
from .updates import Recipe, Update

_ROUNDED = 1e-9  # of schedules that compute one number in another order
_SHOWN = 3


class _Apart(NamedTuple):
    """A setting that differs, first in one step, and of which parameters."""

    cause: Cause
    text: str
    step: int
    names: list[str]


def faults(
    recipe: Recipe, mapping: Mapping, original: Sequence[Update], port: Sequence[Update], *, clipping: bool, differs: bool = True
) -> list[Mistake]:
    """What the updates of both runs show, step by step.

    Args:
        recipe: where the optimizers were made.
        mapping: whose parameters belong together.
        original, port: what was seen of each step of the original and of the port.
        clipping: whether weights differ, so that clipping and skipped steps are looked at: what has no effect is none.
        differs: whether anything does, so that copies in float32 of weights of 16 bits are.
    """
    pairs = {(pair.torch, pair.paddle) for pair in mapping}
    known = [(one, other) for one, other in sorted(pairs) if any(one in update.settings for update in original)]
    found = [_mistake(recipe, apart, len(known)) for apart in _settings(known, original, port)]
    steps = [_left(original, port), _masters(original, port) if differs else None]
    if clipping:
        steps += [_skipped(original, port), _clip(original, port)]
    return [*found, *(_mistake(recipe, apart, 0) for apart in steps if apart is not None)]


def _settings(pairs: Sequence[tuple[str, str]], theirs: Sequence[Update], ours: Sequence[Update]) -> list[_Apart]:
    if not any(update.settings for update in ours):
        return []
    found: dict[tuple[Cause, str], _Apart] = {}
    told: set[tuple[str, Cause, str]] = set()
    for step, (one, other) in enumerate(zip(theirs, ours)):
        for mine, yours in pairs:
            for cause, word, text in _between(one.settings.get(mine), other.settings.get(yours)):
                if (yours, cause, word) in told:
                    continue
                told.add((yours, cause, word))
                found.setdefault((cause, text), _Apart(cause, text, step, [])).names.append(yours)
    rates = [apart for apart in found.values() if apart.cause is Cause.RATE]
    if rates and (shifted := _shifted(pairs, theirs, ours)):
        found = {key: apart for key, apart in found.items() if apart is not rates[0]}
        found[Cause.RATE, ""] = rates[0]._replace(text=f"{rates[0].text}: the schedule is one step {shifted}")
    return list(found.values())


def _between(mine: Settings | None, yours: Settings | None) -> Iterator[tuple[Cause, str, str]]:
    """(cause, setting, both values) of all that differs for one parameter; nothing if a side is of an unknown kind."""
    if mine is None or mine == {} or yours == {}:
        return
    if yours is None:
        yield Cause.SETTING, "", "is not in the port's optimizer"
        return
    if mine["optimizer"] != yours["optimizer"]:
        yield Cause.OPTIMIZER, "", f"{yours['optimizer']} in place of {mine['optimizer']}"
        return
    for word in sorted({*mine, *yours} - {"optimizer", "decoupled"}):
        one, other = mine.get(word, USUAL.get(word)), yours.get(word, USUAL.get(word))
        if not _equal(one, other):
            yield Cause.RATE if word == "lr" else Cause.SETTING, word, f"{word}={_shown(other)} against {_shown(one)}"
    if mine["weight_decay"] and yours["weight_decay"] and mine.get("decoupled") != yours.get("decoupled"):
        ways = ["apart from the gradient" if given.get("decoupled") else "added to the gradient" for given in (yours, mine)]
        yield Cause.SETTING, "decoupled", f"weight decay is {ways[0]}, in the original {ways[1]}"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other or abs(one - other) <= _ROUNDED * max(abs(one), abs(other))
    return bool(one == other)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _shifted(pairs: Sequence[tuple[str, str]], theirs: Sequence[Update], ours: Sequence[Update]) -> str:
    """Whether the port's learning rates are the original's of the step before or behind."""
    mine = [update.settings.get(pairs[0][0], {}).get("lr") for update in theirs]
    yours = [update.settings.get(pairs[0][1], {}).get("lr") for update in ours]
    if len(mine) < 3 or len({*mine}) < 2:
        return ""
    if all(map(_equal, yours, mine[1:])):
        return "early"
    return "late" if all(map(_equal, yours[1:], mine)) else ""


def _skipped(original_steps: Sequence[Update], port_steps: Sequence[Update]) -> _Apart | None:
    """The first step that one of both makes and the other does not."""
    for step, (original, port) in enumerate(zip(original_steps, port_steps)):
        if original.stepped is port.stepped or None in (original.stepped, port.stepped):
            continue
        made, who, skips = (port, "the port", "the original") if port.stepped else (original, "the original", "the port")
        why = f": gradients hold inf or NaN there ({listed(made.infinite, _SHOWN)})" if made.infinite else ""
        write = "; skip such steps, as paddle.amp.GradScaler.step does" if made.infinite and port.stepped else ""
        return _Apart(Cause.SKIPPED, f"{who} makes step {step + 1}, {skips} does not{why}{write}", 0, [])
    return None


def _left(theirs: Sequence[Update], ours: Sequence[Update]) -> _Apart | None:
    for step, (one, other) in enumerate(zip(theirs, ours)):
        mine, yours = _forgotten(one), _forgotten(other)
        if bool(mine) is not bool(yours):
            left = yours or mine
            who = "the port's" if yours else "the original's"
            return _Apart(
                Cause.CLEARED, f"{who} gradients stay behind the step, the other's do not ({listed(left, _SHOWN)})", step, []
            )
    return None


def _forgotten(update: Update) -> list[str]:
    """Gradients that stay of parameters that are in an optimizer: others it cannot clear."""
    return [name for name in update.left if name in update.settings or not update.settings]


def _clip(theirs: Sequence[Update], ours: Sequence[Update]) -> _Apart | None:
    for step, (one, other) in enumerate(zip(theirs, ours)):
        mine, yours = one.clip, other.clip
        if mine is None and yours is None:
            continue
        if mine is None or yours is None:
            clip, who = (yours, "in the original they are not") if yours else (mine, "in the port they are not")
            assert clip is not None
            write = f" ({mine.write})" if mine else ""
            return _Apart(Cause.CLIPPING, f"gradients are clipped by {clip.by} to {clip.shown}, {who}{write}", step, [])
        if mine.by != yours.by or abs(mine.limit - yours.limit) > max(mine.within, yours.within) * abs(mine.limit):
            against = f"{yours.by} to {yours.shown} against {mine.by} to {mine.shown}"
            text = f"gradients are clipped by {against} ({mine.write})"
            return _Apart(Cause.CLIPPING, text, step, [])
    return None


def _masters(original_steps: Sequence[Update], port_steps: Sequence[Update]) -> _Apart | None:
    """Weights of 16 bits that one side alone updates by copies in float32."""
    for original, port in zip(original_steps, port_steps):
        if port.masters is False and original.masters:
            text = "weights of 16 bits are updated as they are, in the original by copies in float32: write multi_precision=True"
            return _Apart(Cause.SETTING, text, 0, [])
        if original.masters is False and port.masters:
            text = "weights of 16 bits are updated by copies in float32, in the original as they are: write multi_precision=False"
            return _Apart(Cause.SETTING, text, 0, [])
    return None


def _mistake(recipe: Recipe, apart: _Apart, all_of_them: int) -> Mistake:
    text = apart.text
    if apart.names and len(apart.names) < all_of_them:
        text += f" for {len(apart.names)} of {all_of_them} weights ({listed(apart.names, _SHOWN)})"
    text += f" from step {apart.step + 1} on" if apart.step else ""
    theirs, ours = map(_place, recipe.places)
    return Mistake(apart.cause, text, theirs, ours, ("",))


def _place(function: Any) -> Place | None:
    """Where a function of the caller's stands."""
    try:
        code = inspect.unwrap(getattr(function, "func", function)).__code__
    except AttributeError:
        return None
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return Place("", code.co_filename, code.co_firstlineno, line, "makes the optimizer")
