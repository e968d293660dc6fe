"""A language model of PaddleFormers and its original of transformers, small, for `make demo-align` and docs/prove.md."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from ports import stand_ins
from ports.pair import trained_size

SETTINGS = {
    "vocab_size": 320, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 64, "head_dim": 16, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "tie_word_embeddings": False,
}  # fmt: skip
TOKENS = np.random.default_rng(0).integers(3, 320, (2, 24))
TARGETS = TOKENS[:, 1:].reshape(-1)


def original() -> Any:
    """Qwen3 of transformers, with weights of the size of trained ones."""
    import torch

    torch.set_num_threads(1)  # as many as Paddle's, so that every run sums in one order
    stand_ins.declare_operators()
    module = importlib.import_module("transformers.models.qwen3.modeling_qwen3")
    torch.manual_seed(0)
    return trained_size(module.Qwen3ForCausalLM(module.Qwen3Config(**SETTINGS, attn_implementation="eager")))


def port(*, fused: bool = False) -> Any:
    """Qwen3 of PaddleFormers; its RMSNorm in the steps of the original's."""
    stand_ins.install()
    configuration = importlib.import_module("paddleformers.transformers.qwen3.configuration")
    modeling = importlib.import_module("paddleformers.transformers.qwen3.modeling")
    config = configuration.Qwen3Config(**SETTINGS)
    config.fuse_rms_norm = fused
    layer = modeling.Qwen3ForCausalLMDeprecated(config)
    layer.eval()
    return layer


def fused_port() -> Any:
    """The same with PaddleFormers' default: one kernel for an RMSNorm."""
    return port(fused=True)


def inputs(framework: str) -> dict[str, Any]:
    """Two sentences of 24 tokens."""
    return {"input_ids": TOKENS, **({"return_dict": True} if framework == "paddle" else {})}


def _paddle_loss(output: Any) -> Any:
    import paddle

    logits = output.logits[:, :-1].astype("float32").flatten(0, 1)
    return paddle.nn.functional.cross_entropy(logits, paddle.to_tensor(TARGETS))


def _torch_loss(output: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(output.logits[:, :-1].float().flatten(0, 1), torch.from_numpy(TARGETS))


losses = (_paddle_loss, _torch_loss)
