"""Language models of PaddleFormers 1.2.0 with their default configurations, beside transformers' of 5.3.0: tiny, for `demo_llm.py`.

A :class:`Wording` is a step that a port writes otherwise than its original. With the original's step written as the port's it shows
whether it is the whole reason of a difference.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import stand_ins
from .mistakes import Mistake, plant
from .nlp import tokens
from .pair import CORRECT, DIFFERS, Pair, trained_size

SIZES = {
    "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "tie_word_embeddings": False,
}  # fmt: skip
HEADS = {**SIZES, "head_dim": 8}
ROUTED = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
SHARED = {**ROUTED, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}
# DeepSeek V3's checkpoints say the scoring and the scaling of positions; the two libraries' defaults of these are not the same.
DEEPSEEK = {
    **SIZES, **SHARED, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8, "v_head_dim": 8, "n_group": 2, "topk_group": 1, "scoring_func": "sigmoid",
    "topk_method": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 2.5,
    "rope_scaling": {
        "type": "yarn", "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 16,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Wording:
    """A step that the port writes otherwise.

    Attributes:
        meaning: what the port does, and what its original does.
        port, original: a module of either library, and the beginning of its line.
        write: exchanges the original's step for the port's, in a model; or the port's wrong line, which is mended.
        dtypes: those in which it makes a difference.
    """

    meaning: str
    port: tuple[str, str]
    original: tuple[str, str]
    write: Callable[[Any], None] | Mistake
    dtypes: tuple[str, ...] = ("bfloat16",)

    def __str__(self) -> str:
        return f"{self.meaning}: {_place(*self.port)}, {_place(*self.original)}"


def _place(module: str, line: str) -> str:
    """The place of a line as people quote it: ``paddleformers/nn/norm.py:72``."""
    path = inspect.getsourcefile(importlib.import_module(module))
    assert path is not None, module
    numbers = [number for number, text in enumerate(Path(path).read_text("utf-8").splitlines(), 1) if text.strip().startswith(line)]
    if not numbers:
        raise ValueError(f"{path} has no line {line!r}")
    return f"{module.replace('.', '/')}.py:{numbers[0]}"


@dataclass(frozen=True)
class Decoder:
    """A pair of language models.

    Attributes:
        family: the name of the modules of both.
        port, config: class names in PaddleFormers; the original's are the same without ``Deprecated``.
        wordings: what the port writes otherwise.
        note: what the demo had to do for this pair.
        cast: of a model that is made in bfloat16, the parameters of float32 that are cast, too, by the end of their names.
    """

    title: str
    family: str
    port: str
    config: str
    settings: dict[str, Any]
    wordings: tuple[Wording, ...] = ()
    note: str = ""
    cast: str = ""

    def build(self, dtype: str, wordings: tuple[Wording, ...] = ()) -> tuple[Any, Any]:
        """(port, original) in a dtype as their libraries make them, with equal weights of trained size.

        Args:
            wordings: those that the original is written with.
        """
        original = self._original(dtype)
        for wording in wordings:
            if isinstance(wording.write, Mistake):
                plant(wording.write)
            else:
                wording.write(original)
        port = self._port(dtype)
        import padiff_shim

        padiff_shim.transfer_weights(original, port)
        return port, original

    def _original(self, dtype: str) -> Any:
        # transformers goes first: PaddleFormers tells it that there is no Torch.
        stand_ins.declare_operators()
        module = importlib.import_module(f"transformers.models.{self.family}.modeling_{self.family}")
        import torch

        config = getattr(module, self.config)(**self.settings, attn_implementation="eager", experts_implementation="eager")
        default = torch.get_default_dtype()
        torch.manual_seed(0)  # what the library draws itself stays in vectors (sinks)
        torch.set_default_dtype(getattr(torch, dtype))
        try:
            original = getattr(module, self.port.removesuffix("Deprecated"))(config)
        finally:
            torch.set_default_dtype(default)
        return trained_size(original)

    def _port(self, dtype: str) -> Any:
        stand_ins.install()
        import paddle

        import padiff_shim

        configuration = importlib.import_module(f"paddleformers.transformers.{self.family}.configuration")
        models = importlib.import_module(f"paddleformers.transformers.{self.family}.modeling")
        default = paddle.get_default_dtype()
        with padiff_shim.reference("torch"):  # a CPU's Paddle draws no numbers of bfloat16
            paddle.set_default_dtype(dtype)
            try:
                port = getattr(models, self.port)(getattr(configuration, self.config)(**self.settings))
            finally:
                paddle.set_default_dtype(default)
        for name, layer in port.named_sublayers():
            if self.cast and name.endswith(self.cast):
                layer.to(dtype=dtype)
        port.eval()
        return port


def _classes(original: Any, ending: str) -> list[Any]:
    """The classes of a model's module whose names end so."""
    return [kind for name, kind in vars(sys.modules[type(original).__module__]).items() if name.endswith(ending)]


def _norms(original: Any) -> None:
    """All RMS norms as Torch's, which rounds once."""
    import torch

    def forward(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)

    for kind in _classes(original, "RMSNorm"):
        kind.forward = forward


def norm(family: str, line: str = "return self.weight * hidden_states.to(input_dtype)") -> Wording:
    """The default norm of PaddleFormers, of which the original is a norm of this family."""
    return Wording(
        "the port's fused norm rounds once, the original's before and after the weight (fuse_rms_norm=False writes it so)",
        ("paddleformers.nn.norm", "return fused_rms_norm_ext("),
        (f"transformers.models.{family}.modeling_{family}", line),
        _norms,
    )


def _rotation(original: Any) -> None:
    """A rotation in float32."""
    module = sys.modules[type(original).__module__]

    def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> tuple[Any, Any]:
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        turned = [x.float() * cos + module.rotate_half(x).float() * sin for x in (q, k)]
        return turned[0].to(q.dtype), turned[1].to(k.dtype)

    module.apply_rotary_pos_emb = apply_rotary_pos_emb


ROTATION = Wording(
    "the port rotates in float32, the original in bfloat16",
    ("paddleformers.transformers.llama.modeling", 'q_embed = (q.astype("float32") * cos)'),
    ("transformers.models.llama.modeling_llama", "q_embed = (q * cos)"),
    _rotation,
)


def _products_in_one(original: Any) -> None:
    """Queries, keys and values in one product, by groups, and gate and values of an MLP."""
    import torch
    import torch.nn.functional as F

    def rows(self: Any, name: str) -> Any:
        """Weights or biases, for each group those of its heads of q, of k and of v."""
        parts = [getattr(projection, name) for projection in (self.q_proj, self.k_proj, self.v_proj)]
        if parts[0] is None:
            return None
        groups = self.k_proj.out_features // self.head_dim
        return torch.cat([part.reshape(groups, -1, *part.shape[1:]) for part in parts], 1).flatten(0, 1)

    def attending(forward: Any) -> Any:
        def attend(self: Any, hidden_states: Any, *arguments: Any, **options: Any) -> Any:
            groups = self.k_proj.out_features // self.head_dim
            together = F.linear(hidden_states, rows(self, "weight"), rows(self, "bias"))
            heads = together.view(*hidden_states.shape[:-1], groups, -1)
            sizes = [self.q_proj.out_features // groups, self.head_dim, self.head_dim]
            for projection, part in zip((self.q_proj, self.k_proj, self.v_proj), heads.split(sizes, -1)):
                made = part.reshape(*hidden_states.shape[:-1], -1, self.head_dim)
                projection.forward = lambda _, made=made: made
            try:
                return forward(self, hidden_states, *arguments, **options)
            finally:
                for projection in (self.q_proj, self.k_proj, self.v_proj):
                    del projection.forward

        return attend

    def gated(self: Any, x: Any) -> Any:
        gate, up = F.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight])).chunk(2, -1)
        return self.down_proj(self.act_fn(gate) * up)

    for kind in _classes(original, "Attention"):
        kind.forward = attending(kind.forward)
    for kind in _classes(original, "MLP"):
        kind.forward = gated


def in_one(family: str) -> Wording:
    """Joint projections of PaddleFormers, of which the original's lie apart."""
    return Wording(
        "the port has q, k and v in one product, and gate and values in one: gradients of their operand are summed in another "
        "order, and silu rounds rows that lie apart otherwise",
        (f"paddleformers.transformers.{family}.modeling", "mix_layer = self.qkv_proj(hidden_states)"),
        (f"transformers.models.{family}.modeling_{family}", "query_states = self.q"),
        _products_in_one,
        ("float32", "bfloat16"),
    )


def _rounded_weights(original: Any) -> None:
    """A router whose weights are rounded to the dtype of what is routed."""
    (kind,) = _classes(original, "TopKRouter")
    routed = kind.forward

    def forward(self: Any, hidden_states: Any) -> Any:
        logits, scores, indices = routed(self, hidden_states)
        return logits, scores.to(hidden_states.dtype), indices

    kind.forward = forward


ROUNDED_WEIGHTS = Wording(
    "the port rounds the routing weights to bfloat16, the original's stay in float32, the dtype of its softmax",
    ("paddleformers.transformers.qwen3_moe.modeling", "routing_weights = routing_weights.to(hidden_states.dtype)"),
    ("transformers.models.qwen3_moe.modeling_qwen3_moe", "router_top_value = router_top_value.to(router_logits.dtype)"),
    _rounded_weights,
)


def _by_token(original: Any, *, joint: bool) -> None:
    """Experts that take their tokens in the order of the sentences, and add up in the dtype of the routing weights."""
    import torch
    import torch.nn.functional as F

    def forward(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        total = torch.zeros_like(hidden_states, dtype=top_k_weights.dtype)
        chosen = F.one_hot(top_k_index, num_classes=self.num_experts).permute(2, 0, 1)
        for expert, mask in enumerate(chosen):
            tokens, places = torch.where(mask)
            if not tokens.numel():
                continue
            state, weight = hidden_states[tokens], self.gate_up_proj[expert]
            if joint:
                gate, up = F.linear(state, weight).chunk(2, -1)
            else:
                gate, up = (F.linear(state, part) for part in weight.chunk(2))
            output = F.linear(self.act_fn(gate) * up, self.down_proj[expert])
            total.index_add_(0, tokens, output * top_k_weights[tokens, places].unsqueeze(-1))
        return total.to(hidden_states.dtype)

    (kind,) = _classes(original, "NaiveMoe")
    kind.forward = forward


def by_token(family: str, *, joint: bool) -> Wording:
    """The experts of DeepSeek V3 and GLM4-MoE."""
    return Wording(
        "an expert's tokens come in the order of the sentences, in the original by their rank among the k: sums over them have "
        "another order; outputs are added up in float32, in the original in the model's dtype"
        + ("" if joint else "; gate and values of an expert are two products, in the original one"),
        (f"paddleformers.transformers.{family}.modeling", "token_indices, weight_indices = paddle.where(mask)"),
        (f"transformers.models.{family}.modeling_{family}", "top_k_pos, token_idx = torch.where("),
        functools.partial(_by_token, joint=joint),
        ("float32", "bfloat16"),
    )


def _wide_router(original: Any) -> None:
    """The router's weight in float32."""
    kinds = tuple(_classes(original, "TopkRouter"))
    for layer in original.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.data.float()


def wide_router(family: str) -> Wording:
    """The router of DeepSeek V3 and GLM4-MoE."""
    return Wording(
        "the port's router has its weight in float32, the original in bfloat16",
        (f"paddleformers.transformers.{family}.modeling", "_keep_in_fp32_modules = ["),
        (f"transformers.models.{family}.modeling_{family}", "self.weight = nn.Parameter(torch.empty((self.n_routed_experts"),
        _wide_router,
    )


def _expanded_first(original: Any) -> None:
    """A rotation of keys that the heads share which is made for each head."""
    module = sys.modules[type(original).__module__]
    rotate = module.apply_rotary_pos_emb_interleave

    def apply_rotary_pos_emb_interleave(q: Any, k: Any, *arguments: Any, **options: Any) -> Any:
        heads = k.transpose(1, 2).expand(-1, -1, q.shape[1], -1).transpose(1, 2)
        return rotate(q, heads, *arguments, **options)

    module.apply_rotary_pos_emb_interleave = apply_rotary_pos_emb_interleave


EXPANDED_FIRST = Wording(
    "the port expands the shared keys to all heads before it rotates them, the original afterwards: their gradient is summed "
    "after the rotation's",
    ("paddleformers.transformers.deepseek_v3.modeling", "k_pe = k_pe.reshape([-1, seq_len, 1, self.qk_rope_head_dim]).expand("),
    ("transformers.models.deepseek_v3.modeling_deepseek_v3", "k_rot = k_rot.expand("),
    _expanded_first,
    ("float32", "bfloat16"),
)

_OSS = "paddleformers.transformers.gpt_oss.modeling"
TRANSPOSED = Wording(
    "a mistake of the port in evaluation: transpose([0, 1]) leaves the routing weights as they are",
    (_OSS, "next_states * routing_weights.transpose([0, 1]).reshape((num_experts, batch_size, -1))"),
    ("transformers.models.gpt_oss.modeling_gpt_oss", "weighted_output = out * routing_weights["),
    Mistake(
        "mended",
        "gpt_oss",
        _OSS,
        "routing_weights.transpose([0, 1]).reshape((num_experts, batch_size, -1))",
        "routing_weights.transpose([1, 0]).reshape((num_experts, batch_size, -1))",
        "",
    ),
    ("float32", "bfloat16"),
)


def _all_experts(original: Any) -> None:
    """Experts of gpt_oss that each see every token in evaluation, and in training make products with a batch of one matrix."""
    import torch

    def forward(self: Any, hidden_states: Any, router_indices: Any, routing_weights: Any) -> Any:
        weights = torch.zeros(len(hidden_states), self.num_experts, dtype=routing_weights.dtype)
        weights = weights.scatter(1, router_indices, routing_weights)
        if not self.training:
            states = hidden_states.repeat(self.num_experts, 1).reshape(self.num_experts, -1, self.hidden_size)
            gated = self._apply_gate(torch.bmm(states, self.gate_up_proj) + self.gate_up_proj_bias[:, None])
            outputs = torch.bmm(gated, self.down_proj) + self.down_proj_bias[:, None]
            return (outputs * weights.t().unsqueeze(-1)).sum(0)
        total = torch.zeros_like(hidden_states)
        chosen = torch.nn.functional.one_hot(router_indices, num_classes=self.num_experts).permute(2, 1, 0)
        for expert in chosen.sum((-1, -2)).nonzero():
            _, tokens = torch.where(chosen[expert[0]])
            gated = self._apply_gate(hidden_states[tokens] @ self.gate_up_proj[expert] + self.gate_up_proj_bias[expert])
            outputs = gated @ self.down_proj[expert] + self.down_proj_bias[expert]
            total = torch.index_add(total, 0, tokens, outputs[0] * weights[tokens, expert, None])
        return total

    (kind,) = _classes(original, "GptOssExperts")
    kind.forward = forward


ALL_EXPERTS = Wording(
    "in evaluation each of the port's experts sees every token, and their outputs are summed; in the original each its own",
    (_OSS, "gate_up = paddle.bmm(hidden_states, self.gate_up_proj)"),
    ("transformers.models.gpt_oss.modeling_gpt_oss", "gate_up = current_state @ self.gate_up_proj[expert_idx]"),
    _all_experts,
    ("float32", "bfloat16"),
)


def _plain_softmax(original: Any) -> None:
    """Attention with a sink of which the largest score is not subtracted before the softmax."""
    import torch

    module = sys.modules[type(original).__module__]

    def eager_attention_forward(
        layer: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float, dropout: float = 0.0, **_: Any
    ) -> Any:
        key, value = (module.repeat_kv(states, layer.num_key_value_groups) for states in (key, value))
        scores = torch.matmul(query, key.transpose(2, 3)) * scaling
        scores = scores if attention_mask is None else scores + attention_mask
        sinks = layer.sinks.reshape(1, -1, 1, 1).expand(query.shape[0], -1, query.shape[-2], -1)
        weights = torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1]
        return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights

    module.eager_attention_forward = eager_attention_forward


PLAIN_SOFTMAX = Wording(
    "the original subtracts the largest score before its softmax, the port does not",
    ("paddleformers.nn.attention.eager_attention", "probs = nn.functional.softmax(combined_logits"),
    ("transformers.models.gpt_oss.modeling_gpt_oss", "combined_logits = combined_logits - combined_logits.max("),
    _plain_softmax,
    ("float32", "bfloat16"),
)


def _masks_by_position(original: Any) -> None:
    """Masks that know the positions, in which packed sentences begin at 0 again."""
    module = sys.modules[type(original).__module__]
    (kind,) = _classes(original, "GptOssModel")
    run = kind.forward

    def forward(self: Any, *arguments: Any, position_ids: Any = None, **options: Any) -> Any:
        plain = {name: getattr(module, name) for name in ("create_causal_mask", "create_sliding_window_causal_mask")}
        for name, make in plain.items():
            setattr(module, name, functools.partial(make, position_ids=position_ids))
        try:
            return run(self, *arguments, position_ids=position_ids, **options)
        finally:
            for name, make in plain.items():
                setattr(module, name, make)

    kind.forward = forward


MASKS = Wording(
    "a mistake of the original: its masks do not know the positions, and the sentences of a packed row attend to each other",
    ("paddleformers.transformers.gpt_oss.modeling", "attn_mask_startend_row_indices=attn_mask_startend_row_indices"),
    ("transformers.models.gpt_oss.modeling_gpt_oss", "mask_kwargs = {"),
    _masks_by_position,
    ("float32", "bfloat16"),
)

DECODERS = (
    Decoder("Llama", "llama", "LlamaForCausalLM", "LlamaConfig", HEADS, (norm("llama"), ROTATION)),
    Decoder("Qwen2", "qwen2", "Qwen2ForCausalLMDeprecated", "Qwen2Config", SIZES, (norm("qwen2"), in_one("qwen2"))),
    Decoder("Qwen3", "qwen3", "Qwen3ForCausalLMDeprecated", "Qwen3Config", HEADS, (norm("qwen3"), in_one("qwen3"))),
    Decoder(
        "Qwen3-MoE",
        "qwen3_moe",
        "Qwen3MoeForCausalLMDeprecated",
        "Qwen3MoeConfig",
        {**HEADS, **ROUTED, "num_experts": 4},
        (norm("qwen3_moe"), in_one("qwen3_moe"), ROUNDED_WEIGHTS),
        note="its router is made in float32, which Paddle's linear refuses beside bfloat16: it is cast",
        cast="mlp.gate",
    ),
    Decoder("Phi3", "phi3", "Phi3ForCausalLM", "Phi3Config", SIZES, (norm("phi3"),)),
    Decoder(
        "gpt_oss",
        "gpt_oss",
        "GptOssForCausalLM",
        "GptOssConfig",
        {**HEADS, "num_local_experts": 4, "num_experts_per_tok": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        (TRANSPOSED, ALL_EXPERTS, PLAIN_SOFTMAX, MASKS),
    ),
    Decoder(
        "DeepSeek V3",
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        DEEPSEEK,
        (norm("deepseek_v3"), by_token("deepseek_v3", joint=False), EXPANDED_FIRST, wide_router("deepseek_v3")),
        note="with the scoring and the rope_scaling of its checkpoints: the port's own defaults end in KeyError 'factor'. It "
        "generates nothing: its rotation squeezes the length of one token away",
    ),
    Decoder(
        "GLM4-MoE",
        "glm4_moe",
        "Glm4MoeForCausalLMDeprecated",
        "Glm4MoeConfig",
        {**HEADS, **SHARED},
        (norm("glm4_moe"), in_one("glm4_moe"), by_token("glm4_moe", joint=True), wide_router("glm4_moe")),
    ),
)

PAIRS = tuple(
    Pair(
        f"{decoder.title} (whole)",
        "formers",
        lambda decoder=decoder: (*decoder.build("float32"), tokens()),
        expected=DIFFERS if decoder.title == "gpt_oss" else CORRECT,
        reason="routing_weights.transpose([0, 1]) leaves the axes as they are" if decoder.title == "gpt_oss" else "",
    )
    for decoder in DECODERS
)
