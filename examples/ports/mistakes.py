"""Mistakes that people make in ports, each planted into a real one: a line of a library's source is another one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType


@dataclass(frozen=True)
class Mistake:
    """A wrong line. ``pair``: of :data:`.registry.PAIRS`. ``words``: what the first finding has to say of it."""

    name: str
    pair: str
    module: str
    right: str
    wrong: str
    words: str


def plant(mistake: Mistake) -> None:
    """From now on the module is imported with the wrong line; the file stays as it is.

    Raises:
        ValueError: it is imported already, or has no such line.
    """
    if mistake.module in sys.modules:
        raise ValueError(f"{mistake.module} is imported already")
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if fullname != mistake.module:
            return original(self, fullname)
        path = self.get_filename(fullname)
        source = Path(path).read_text("utf-8")
        if mistake.right not in source:
            raise ValueError(f"{path} has no line {mistake.right!r}")
        return self.source_to_code(source.replace(mistake.right, mistake.wrong, 1).encode(), path)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


RESNET, BERT, LLAMA = "paddle.vision.models.resnet", "paddlenlp.transformers.bert.modeling", "paddlenlp.transformers.llama.modeling"
T5, QWEN3 = "paddlenlp.transformers.t5.modeling", "paddleformers.transformers.qwen3.modeling"
MISTAKES = (
    Mistake(
        "a pooling rounds up", "ResNet-18", RESNET, "stride=2, padding=1)", "stride=2, padding=1, ceil_mode=True)", "ceil_mode"
    ),
    Mistake("a ReLU is missing", "ResNet-18", RESNET, "out = self.relu(out)", "pass", "the original calls relu"),
    Mistake("the residual is missing", "ResNet-18", RESNET, "out += identity", "pass", "the original calls add(alpha=1)"),
    Mistake("the pooling at the end", "ResNet-18", RESNET, "nn.AdaptiveAvgPool2D", "nn.AdaptiveMaxPool2D", "in place of"),
    Mistake(
        "a smaller padding",
        "ResNet-18",
        RESNET,
        "            padding=3,",
        "            padding=2,",
        "padding=[2, 2] against [3, 3] (write padding=[3, 3])",
    ),
    Mistake(
        "swish for hardswish",
        "MobileNetV3 small",
        "paddle.vision.models.mobilenetv3",
        "self.activation_layer = nn.Hardswish",
        "self.activation_layer = nn.Swish",
        "silu in place of hardswish",
    ),
    Mistake(
        "sigmoid for hardsigmoid",
        "MobileNetV3 small",
        "paddle.vision.models.mobilenetv3",
        "scale_activation=nn.Hardsigmoid",
        "scale_activation=nn.Sigmoid",
        "sigmoid in place of hardsigmoid",
    ),
    Mistake("epsilon of all norms", "BERT", BERT, "= self.config.layer_norm_eps", "= 1e-5", "epsilon=1e-05 against eps=1e-12"),
    Mistake(
        "positions begin at 1",
        "BERT",
        BERT,
        "position_ids = seq_length - ones",
        "position_ids = seq_length",
        "holds 1 at [0, 0] against 0",
    ),
    Mistake(
        "types of tokens left out",
        "BERT",
        BERT,
        "input_embedings + position_embeddings + token_type_embeddings",
        "input_embedings + position_embeddings",
        "the original calls add(alpha=1) here, the port does not",
    ),
    Mistake("the last token is pooled", "BERT", BERT, "hidden_states[:, 0]", "hidden_states[:, -1]", "index=-1 against 0"),
    Mistake(
        "a rotation the other way",
        "Llama",
        LLAMA,
        "paddle.concat([-x2, x1]",
        "paddle.concat([x2, -x1]",
        "end=4 against the end, start=0 against 4",
    ),
    Mistake("epsilon of a root", "Llama", LLAMA, "= config.rms_norm_eps", "= 1e-5", "1e-05 against 1e-06"),
    Mistake(
        "gate and values exchanged",
        "Llama",
        LLAMA,
        "swiglu(self.gate_proj(x), self.up_proj(x))",
        "swiglu(self.up_proj(x), self.gate_proj(x))",
        "and the other way round",
    ),
    Mistake("the scale of scores", "Llama", LLAMA, "query_states / math.sqrt(head_dim)", "query_states / head_dim", "against / "),
    Mistake(
        "an offset of positions",
        "OPT",
        "paddlenlp.transformers.opt.modeling",
        "position_ids + self.offset)",
        "position_ids + self.offset - 1)",
        "holds 1 at [0, 0] against 2",
    ),
    Mistake("buckets of distances", "T5", T5, "max_exact = num_buckets // 2", "max_exact = num_buckets // 4", "against"),
    Mistake(
        "scores are scaled",
        "T5",
        T5,
        "scores += position_bias",
        "scores = scores * 0.5 + position_bias",
        "the port calls mul(other=0.5) here, the original does not",
    ),
    Mistake(
        "a norm for another one",
        "Qwen3",
        QWEN3,
        "key_states = self.k_norm(key_states)",
        "key_states = self.q_norm(key_states)",
        "k_norm",
    ),
    Mistake("a sign of a rotation", "Qwen3", QWEN3, "k_embed = (k * cos) + (", "k_embed = (k * cos) - (", "sub"),
    Mistake(
        "the axis of weights",
        "GPT",
        "paddlenlp.transformers.gpt.modeling",
        "weights = F.softmax(product)",
        "weights = F.softmax(product, axis=-2)",
        "axis=-2 against dim=-1",
    ),
    Mistake(
        "a table of positions",
        "CTRL",
        "paddlenlp.transformers.ctrl.modeling",
        "out[:, 0:sentinel] = paddle.sin(embeddings)",
        "out[:, 0:sentinel] = paddle.cos(embeddings)",
        "pos_encoding.weight",
    ),
    Mistake(
        "another activation",
        "OPT",
        "paddlenlp.transformers.opt.modeling",
        "self.activation = getattr(F, activation)",
        "self.activation = F.gelu",
        "gelu(approximate='none') in place of relu",
    ),
    Mistake(
        "no offset of positions",
        "Bart",
        "paddlenlp.transformers.bart.modeling",
        "positions + self.offset",
        "positions",
        "holds 0 at [0, 0] against 2",
    ),
    Mistake(
        "scores are not scaled",
        "Llama (PaddleFormers)",
        "paddleformers.nn.attention.eager_attention",
        "key.transpose(2, 3)) * scaling",
        "key.transpose(2, 3))",
        "the original calls mul(other=0.3535533905932738) here, the port does not",
    ),
    Mistake("distances the other way", "T5", T5, "relative_position > 0", "relative_position < 0", "holds 1 at [0, 1] against 17"),
    Mistake(
        "cosines and sines exchanged",
        "Qwen2",
        "paddleformers.transformers.qwen2.modeling",
        "k_embed = (k * cos) + (rotate_half(k) * sin)",
        "k_embed = (k * sin) + (rotate_half(k) * cos)",
        "and the other way round",
    ),
    Mistake(
        "a sum for a mean", "Llama", LLAMA, "hidden_states.pow(2).mean(-1,", "hidden_states.pow(2).sum(-1,", "in place of mean"
    ),
    Mistake("ReLU for tanh", "BERT", BERT, "self.activation = nn.Tanh()", "self.activation = nn.ReLU()", "relu in place of tanh"),
    Mistake(
        "residuals left out",
        "MobileNetV2",
        "paddle.vision.models.mobilenetv2",
        "self.use_res_connect = self.stride == 1 and inp == oup",
        "self.use_res_connect = False",
        "the original calls add(alpha=1) here, the port does not",
    ),
)
