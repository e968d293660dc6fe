"""Models of PaddleFormers 1.2.0 beside transformers' of 5.3.0, tiny."""

from __future__ import annotations

import importlib
from typing import Any

from . import stand_ins
from .nlp import VOCABULARY, tokens
from .pair import DIFFERS, Pair, trained_size

LLAMA = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 64, "head_dim": 8, "pad_token_id": 0,
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def both(module: str, name: str, config_name: str, config: dict[str, Any], their_name: str = "") -> tuple[Any, Any, Any]:
    """The models of this name with the same configuration."""
    # transformers goes first: PaddleFormers tells it that there is no Torch, and it asks for versions of what is stood in for.
    stand_ins.declare_operators()
    family = module.removesuffix("_text")
    theirs = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    their_config = getattr(theirs, config_name)(**config, attn_implementation="eager")
    original = getattr(theirs, their_name or name)(their_config)
    stand_ins.install()
    port_config = getattr(importlib.import_module(f"paddleformers.transformers.{module}.configuration"), config_name)
    models = importlib.import_module(f"paddleformers.transformers.{module}.modeling")
    settings = port_config(**config)
    settings._attn_implementation = "eager"
    settings.fuse_rms_norm = False  # there is no such kernel on a CPU
    port = getattr(models, name)(settings)
    port.eval()
    return port, trained_size(original), tokens()


def pair(title: str, module: str, name: str, config: dict[str, Any], their_name: str = "", **more: Any) -> Pair:
    config_name = {"gemma3_text": "Gemma3TextConfig"}.get(module, name.replace("Model", "Config"))
    return Pair(title, "formers", lambda: both(module, name, config_name, config, their_name), phase="forward", **more)


PAIRS = (
    pair("Llama (PaddleFormers)", "llama", "LlamaModel", LLAMA),
    pair("Qwen2", "qwen2", "Qwen2Model", {key: value for key, value in LLAMA.items() if key != "head_dim"}),
    pair("Qwen3", "qwen3", "Qwen3Model", LLAMA),
    pair("Qwen3-MoE", "qwen3_moe", "Qwen3MoeModel", {**LLAMA, **EXPERTS}),
    pair(
        "gpt_oss",
        "gpt_oss",
        "GptOssModel",
        {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2, "rope_parameters": ROPE},
        expected=DIFFERS,
        reason="routing_weights.transpose([0, 1]) leaves the axes as they are: the original swaps them",
    ),
    pair(
        "Gemma3",
        "gemma3_text",
        "Gemma3TextModel",
        LLAMA,
        expected=DIFFERS,
        reason="one rotary embedding for all layers: the original has one for each kind of attention",
    ),
)
