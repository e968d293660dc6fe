"""Torch's global generators, and which of their states belong to which of Paddle's.

Where Torch draws for a Paddle program, what that program does to its generators (seeds them, saves and restores their states, keeps
several states by number for tensor parallelism) is done to Torch's as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import paddle
import torch
from paddle.base import core
from torch.utils.weak import WeakIdKeyDictionary


def generators() -> list[torch.Generator]:
    """Torch's global generators: the CPU's, and those of the CUDA devices as far as Torch uses any."""
    return [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]


def words(state: Any) -> list[str]:
    """A state of Paddle's as it shows itself, without addresses: 2.6 pickles a part of it only."""
    return [word for word in str(state).split() if not word.startswith("0x")]


def paddle_states() -> list[list[str]]:
    """Where the global generators of Paddle's current device stand."""
    return [words(state) for state in paddle.get_rng_state()]


def states() -> list[Any]:
    """Where all global generators stand, Torch's, too."""
    return [*paddle_states(), *(generator.get_state().numpy().tobytes() for generator in generators())]


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """What is drawn from Torch's global generators inside is drawn once more afterwards."""
    states = [(generator, generator.get_state()) for generator in generators()]
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state(state)


_saved = WeakIdKeyDictionary()  # Paddle's state of a generator, as it was handed out -> Torch's at that moment
_indexed: dict[torch.Generator, dict[int, torch.Tensor]] = {}  # Torch's states that belong to numbered ones of Paddle's


def counterpart(generator: Any) -> torch.Generator | None:
    """Torch's global generator of the device whose global generator this is in Paddle; None for a generator of somebody's own."""
    if generator is core.default_cpu_generator():
        return torch.default_generator
    if core.is_compiled_with_cuda():
        for index in range(paddle.device.cuda.device_count()):
            if generator is core.default_cuda_generator(index):
                torch.cuda.init()
                return torch.cuda.default_generators[index]
    return None


def keep(state: Any, source: torch.Generator) -> None:
    """Remember Torch's state beside one that Paddle hands out."""
    _saved[state] = source.get_state()


def kept(state: Any) -> bool:
    """Whether Torch's state is known that belongs to this one of Paddle's."""
    return state in _saved


def drawn_since(state: Any, source: torch.Generator) -> bool:
    """Whether Torch's generator has moved since this state, of which its own is known, was handed out."""
    return not torch.equal(_saved[state], source.get_state())


def restore(state: Any, source: torch.Generator) -> None:
    """Put Torch's generator where it was when Paddle handed out this state; at the state's seed where that is not known."""
    generator = _saved.get(state)
    if generator is None:
        source.manual_seed(state.current_seed())
    else:
        source.set_state(generator)


def leave(source: torch.Generator, index: int) -> None:
    """Paddle is about to use another of its numbered states than this one."""
    _indexed.setdefault(source, {})[index] = source.get_state()


def enter(source: torch.Generator, index: int, seed: int) -> None:
    """Paddle uses this one of its numbered states now; one that is seen for the first time begins at Paddle's seed."""
    generator = _indexed.setdefault(source, {}).get(index)
    if generator is None:
        source.manual_seed(seed)
    else:
        source.set_state(generator)
