"""Random numbers that one program draws and the other does not: from there on both streams are shifted, though nothing is wrong.

A draw for a layerdrop of 0 has no effect. So where the draws of both programs are not the same calls, each draw of the port begins
where its partner in the original began.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from types import CodeType
from typing import Any, NamedTuple

import torch

from ..dispatch.site import Site, call_site
from .capture import Onlooker, tensors_in
from .operators import shape_of
from .outcome import Outcome
from .sides import Side


class Draw(NamedTuple):
    """A call that draws random numbers: Torch's op, the shape of what it draws, and its line."""

    name: str
    shape: tuple[int, ...]
    site: Site

    @property
    def call(self) -> tuple[str, tuple[int, ...]]:
        """What has to be equal for two draws to be partners."""
        return self.name, self.shape


class Draws(Onlooker):
    """Within it the draws from Torch's generator are noted; ``begin`` is called before each with its number.

    A draw that begins where the one before it began is that one again: what a backward reads is learnt by a run without effect.
    """

    def __init__(self, begin: Callable[[int], None], until: CodeType | None = None) -> None:
        super().__init__()
        self.draws: list[Draw] = []
        self._begin, self._until = begin, until
        self._state: torch.Tensor | None = None  # of the generator before the last draw

    @classmethod
    def noting(cls, names: Mapping[int, str], layer: Callable[[], str], until: CodeType | None = None) -> Draws:
        """As a run's capture."""
        return cls(lambda number: None, until)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawing = torch.Tag.nondeterministic_seeded in function.tags and (kwargs or {}).get("generator") is None
        if drawing:
            state = torch.get_rng_state()
            if self._state is not None and torch.equal(self._state, state):
                self.draws.pop()
            self._state = state
            self._begin(len(self.draws))
        result = function(*args, **(kwargs or {}))
        if drawing:
            shape = tuple(next((tensor.shape for tensor in tensors_in(result)), ()))
            self.draws.append(Draw(shape_of(function).base, shape, call_site(self._until)))
        return result


class Streams:
    """Both random streams of two programs that do not draw alike.

    Args:
        original, port: the draws of one run of each.
    """

    def __init__(self, original: Sequence[Draw], port: Sequence[Draw]) -> None:
        self._sizes = len(original), len(port)
        matcher = SequenceMatcher(None, [draw.call for draw in original], [draw.call for draw in port], autojunk=False)
        blocks = matcher.get_matching_blocks()
        self._partners = {block.b + at: block.a + at for block in blocks for at in range(block.size)}
        self._states: list[torch.Tensor] = []  # of the generator before each draw of the original's last run
        left = [draw for at, draw in enumerate(original) if at not in self._partners.values()]
        more = [draw for at, draw in enumerate(port) if at not in self._partners]
        self.notes = [
            f"{side} draws random numbers that {other} does not ({len(draws)}, first {draws[0].name} of {list(draws[0].shape)} at "
            f"{draws[0].site.file}:{draws[0].site.line}): both streams were aligned by the other draws"
            for side, other, draws in (("the original", "the port", left), ("the port", "the original", more))
            if draws
        ]

    def of_original(self) -> contextlib.AbstractContextManager[Any]:
        """Around a run of the original."""
        self._states = []
        return Draws(self._noted)

    def of_port(self) -> contextlib.AbstractContextManager[Any]:
        """Around a run of the port behind one of the original's."""
        return Draws(self._aligned)

    def _noted(self, number: int) -> None:
        self._states[number:] = [torch.get_rng_state()]

    def _aligned(self, number: int) -> None:
        """A draw of the port begins where its partner began, if it has one; step by step in a training."""
        step, place = divmod(number, self._sizes[1])
        partner = self._partners.get(place)
        at = None if partner is None else step * self._sizes[0] + partner
        if at is not None and at < len(self._states):
            torch.set_rng_state(self._states[at])


def _draws(outcome: Outcome) -> list[Draw]:
    assert isinstance(outcome.capture, Draws)
    return outcome.capture.draws


def align(original: Side, port: Side) -> list[str]:
    """Align the streams of both from now on, if they draw otherwise; what is to be said of that."""
    for side in (original, port):  # what a forward draws none of, its backward cannot draw again
        if not _draws(side.run_forward(Draws.noting)):
            return []
    draws = [_draws(side.run(Draws.noting)) for side in (original, port)]
    if [draw.call for draw in draws[0]] == [draw.call for draw in draws[1]]:
        return []
    streams = Streams(*draws)
    original.drawing, port.drawing = streams.of_original, streams.of_port
    return streams.notes
