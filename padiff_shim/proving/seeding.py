"""What a run begins with: random generators of both frameworks, NumPy and Python, and the default dtype."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator

import numpy as np
import paddle
import torch


class _Keeping(threading.local):
    """Whether this thread puts all generators back later on."""

    active = False


_KEEPING = _Keeping()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """All random generators are put back where they stood, whatever happens to them: for several runs once."""
    if _KEEPING.active:
        yield
        return
    states = paddle.get_rng_state(), np.random.get_state(), random.getstate(), torch.get_rng_state()
    _KEEPING.active = True
    try:
        yield
    finally:
        _KEEPING.active = False
        paddle.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        torch.set_rng_state(states[3])


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """All random generators begin with ``seed``, and are put back where they stood."""
    with kept():
        paddle.seed(seed)
        _seed_torch(seed)
        np.random.seed(seed)
        random.seed(seed)
        yield


def _seed_torch(seed: int) -> None:
    """As ``torch.manual_seed``, which without any device writes down the whole stack for each kind of them, every time."""
    devices = getattr(torch, "accelerator", None)
    if devices is not None and devices.current_accelerator() is None:
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@contextlib.contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """What a model makes without saying a dtype (a state of zeros) has this one: that of its copy in float64."""
    held = paddle.get_default_dtype(), torch.get_default_dtype()
    paddle.set_default_dtype(name)
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        paddle.set_default_dtype(held[0])
        torch.set_default_dtype(held[1])
