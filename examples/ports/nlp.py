"""Models of paddlenlp 2.8.1 beside transformers' of 4.46.3, tiny."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from . import stand_ins
from .pair import Pair, trained_size

VOCABULARY, LENGTH = 99, 12


def modules() -> tuple[Any, Any]:
    """Both libraries' models; what paddlenlp imports and no model needs is stood in for."""
    stand_ins.install()
    importlib.import_module("paddlenlp.data")  # before its models, which import it in a circle
    return importlib.import_module("paddlenlp.transformers"), importlib.import_module("transformers")


def tokens() -> Any:
    import numpy as np

    return np.random.default_rng(0).integers(3, VOCABULARY - 1, (2, LENGTH))


def both(
    ours: str, theirs: str, our_config: dict[str, Any], their_config: dict[str, Any], inputs: Callable[[], Any] = tokens
) -> Any:
    """The models of these names; configurations are named as the models, with Config in place of Model."""
    paddle_models, torch_models = modules()
    config = getattr(torch_models, theirs.replace("Model", "Config"))(**their_config, attn_implementation="eager")
    original = getattr(torch_models, theirs)(config)
    port_config = getattr(paddle_models, ours.replace("Model", "Config"))(**our_config)
    port = getattr(paddle_models, ours)(port_config)
    port.eval()
    return port, trained_size(original), inputs()


def pair(
    title: str, ours: str, our_config: dict[str, Any], theirs: str = "", their_config: dict[str, Any] | None = None, **more: Any
) -> Pair:
    theirs = theirs or ours.upper().replace("MODEL", "Model")
    inputs = more.pop("inputs", tokens)
    return Pair(
        title,
        "nlp",
        lambda: both(ours, theirs, our_config, {**our_config, **(their_config or {})}, inputs),
        phase="forward",
        **more,
    )


ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
}
DECODER = {key: value for key, value in ENCODER.items() if key != "type_vocab_size"}


def two_sequences() -> Any:
    ids = tokens()
    return lambda side: {"input_ids": as_tensor(side, ids), "decoder_input_ids": as_tensor(side, ids[:, :8])}


def as_tensor(side: str, array: Any) -> Any:
    """An array as a tensor of the framework of this side."""
    module = importlib.import_module(side)
    return module.to_tensor(array) if side == "paddle" else module.tensor(array)


BART = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
}  # fmt: skip
T5 = {
    "vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0,
}  # fmt: skip

CLIP_TEXT = {
    **DECODER,
    "max_position_embeddings": 16,
    "projection_dim": 24,
    "eos_token_id": VOCABULARY - 1,
    "hidden_act": "quick_gelu",
}
CLIP_IMAGES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32, "patch_size": 8,
    "projection_dim": 24, "hidden_act": "quick_gelu",
}  # fmt: skip
CLIP = {"text_config": CLIP_TEXT, "vision_config": CLIP_IMAGES, "projection_dim": 24}
REFORMER = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_attention_heads": 4, "attention_head_size": 8, "feed_forward_size": 64,
    "attn_layers": ["local", "local"], "axial_pos_shape": (4, 3), "axial_pos_embds_dim": (16, 16), "local_attn_chunk_length": 4,
    "max_position_embeddings": 64, "is_decoder": False, "num_hidden_layers": 2,
}  # fmt: skip


def images_and_text() -> Any:
    """Texts that end with their largest token, as CLIP looks for it, and images."""
    import numpy as np

    ids = tokens()
    ids[:, -1] = VOCABULARY - 1
    images = np.random.default_rng(1).standard_normal((2, 3, 32, 32)).astype("float32")
    return lambda side: {"input_ids": as_tensor(side, ids), "pixel_values": as_tensor(side, images)}


PAIRS = (
    pair("BERT", "BertModel", ENCODER, "BertModel"),
    pair("ALBERT", "AlbertModel", {**ENCODER, "embedding_size": 16, "hidden_act": "gelu_new"}, "AlbertModel"),
    pair("RoFormer", "RoFormerModel", {**ENCODER, "embedding_size": 32}, "RoFormerModel"),
    pair("NeZha", "NeZhaModel", {**ENCODER, "use_relative_position": True}, "NezhaModel"),
    pair("GPT", "GPTModel", DECODER, "GPT2Model", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 64}),
    pair("OPT", "OPTModel", {**DECODER, "word_embed_proj_dim": 32}, "OPTModel", {"ffn_dim": 64}),
    pair("Llama", "LlamaModel", DECODER, "LlamaModel"),
    pair("CTRL", "CTRLModel", {"vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 32, "dff": 64, "n_layer": 2, "n_head": 4}),
    pair("T5", "T5Model", T5, "T5Model", inputs=two_sequences),
    pair("Bart", "BartModel", BART, "BartModel", inputs=two_sequences),
    pair("CLIP", "CLIPModel", CLIP, "CLIPModel", inputs=images_and_text),
    pair("Reformer", "ReformerModel", REFORMER, "ReformerModel", backward=False),
)
