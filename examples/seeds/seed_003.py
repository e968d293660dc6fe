"""Report 003, in float32: Reformer of 2 layers step by step, and of 12 layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import paddle
import torch

from .compare import Case
from .config import Reformer
from .reformer_paddle import ReformerPaddle
from .reformer_torch import STEPS_OF_LAYER, ReformerTorch
from .weights import Draw, build_twins, small_random, trained_like

# The kinds of attention in the 12 layers of the checkpoint that the report loaded (reformer-enwik8).
TWELVE = ("local", "local", "lsh", "local") * 3
STEPS = (
    "embeddings, or the layer before",
    "layer_norm",
    "query",
    "key",
    "value",
    "split heads of query",
    "split heads of key",
    "split heads of value",
    "key / sqrt(head size)",
    "tile(arange)",
    "matmul(query, key^T)",
    "mask",
    "where(mask, ..., -1e9)",
    "logsumexp",
    "exp(query_key_dots - logits)",
    "matmul(attention_probs, value)",
    "merge heads",
    "input of dense",
    "dense",
    "prev_attn_output",
    "prev_attn_output + attn_output",
    "hidden_states",
    "layer_norm(attn_output)",
    "feed-forward dense, relu",
    "feed-forward output dense",
    "hidden_states + feed_forward",
)


def describe(step: Any) -> str:
    """What a numbered step computes; other steps say it themselves."""
    return STEPS[step % STEPS_OF_LAYER] if isinstance(step, int) else ""


def every_step(step: Any) -> bool:
    return True


def hidden_state(step: Any) -> bool:
    """The embeddings, what each layer returns, and what comes after the layers."""
    return step == 0 or not isinstance(step, int) or step % STEPS_OF_LAYER == STEPS_OF_LAYER - 1


def reformer(
    draw: Draw, config: Reformer, wanted: Callable[[Any], bool], dtype: str = "float32", batch: int = 2, seed: int = 0
) -> Case:
    """A forward pass of Reformer, of which the wanted steps are compared."""
    model, twin = build_twins(lambda: ReformerPaddle(config), lambda: ReformerTorch(config), draw, dtype, seed)
    ids = np.random.default_rng(seed).integers(0, config.vocabulary, (batch, config.length))

    def in_paddle(steps):
        with paddle.no_grad():
            model(paddle.to_tensor(ids), steps.only(wanted))

    def in_torch(steps):
        with torch.no_grad():
            twin(torch.from_numpy(ids), steps.only(wanted))

    return Case(in_paddle, in_torch)


def cases() -> dict[str, Callable[[], Case]]:
    """All of this report by title, each built when called."""
    weights = {}
    for attention, wanted in ((("local", "local"), every_step), (TWELVE, hidden_state)):
        for name, draw in {"trained-like": trained_like, "random": small_random}.items():
            build = partial(reformer, draw, Reformer(attention=attention), wanted)
            weights[f"003: Reformer-{len(attention)}, {name}"] = build
    return weights
