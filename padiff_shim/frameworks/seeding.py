"""All random generators of a process at once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import paddle
import torch


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """They begin with ``seed``, and are put back where they stood."""
    states = paddle.get_rng_state(), np.random.get_state(), random.getstate(), torch.get_rng_state()
    paddle.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        paddle.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        torch.set_rng_state(states[3])
