"""Composed of several calls, or one call that keeps what lies between in registers."""

from __future__ import annotations

from padiff_shim.table.formulation import BOTH, FORWARD, FUSED, GRADIENT, Formulation, Spelling, declaring
from padiff_shim.table.samples import Floats, Ints, Sample

declare = declaring(FUSED)

FORMULATIONS: tuple[Formulation, ...] = (
    declare(
        name="GELU by its formula",
        operands="x",
        spellings=(
            Spelling("F.gelu(x)"),
            Spelling("x * 0.5 * (1.0 + paddle.erf(x / math.sqrt(2.0)))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formula at each step",
        seen="paddlenlp transformers/activations.py",
    ),
    declare(
        name="GELU by tanh",
        operands="x",
        spellings=(
            Spelling("F.gelu(x, approximate=True)"),
            Spelling("0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * paddle.pow(x, 3.0))))"),
            Spelling("0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * x * (1.0 + 0.044715 * x * x)))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formulas at each step and in another order",
        seen="paddlenlp transformers/activations.py and transformers/bloom/modeling.py",
    ),
    declare(
        name="SiLU by its formula",
        operands="x",
        spellings=(
            Spelling("F.silu(x)"),
            Spelling("x * F.sigmoid(x)"),
            Spelling("x / (1 + paddle.exp(-x))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formulas at each step; their backward is another formula",
        seen="ports of EfficientNet (swish)",
    ),
    declare(
        name="sigmoid by its formula",
        operands="x",
        spellings=(
            Spelling("F.sigmoid(x)"),
            Spelling("1 / (1 + paddle.exp(-x))"),
            Spelling("0.5 * (1 + paddle.tanh(0.5 * x))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formulas at each step",
        seen="ports of TensorFlow",
    ),
    declare(
        name="log-sigmoid",
        operands="x",
        spellings=(
            Spelling("F.log_sigmoid(x)", "F.logsigmoid(x)"),
            Spelling("paddle.log(F.sigmoid(x))"),
            Spelling("-F.softplus(-x)"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the sigmoid is rounded before its logarithm",
        seen="PaddleFormers nn/criterion/dpo_loss.py",
    ),
    declare(
        name="SwiGLU by its formula",
        operands="x y",
        spellings=(
            Spelling("F.silu(x) * y"),
            Spelling("x * F.sigmoid(x) * y"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel of silu rounds once, x * sigmoid(x) twice",
        seen="PaddleFormers nn/mlp.py",
    ),
    declare(
        name="SwiGLU in float32",
        operands="x y",
        spellings=(
            Spelling("F.silu(x) * y"),
            Spelling('(F.silu(x.astype("float32")) * y.astype("float32")).astype(x.dtype)'),
        ),
        differs={"bfloat16": BOTH},
        why="silu is rounded to 16 bits before the product, or the result alone",
        seen="fused SwiGLU of Megatron-LM",
    ),
    declare(
        name="GLU",
        operands="x",
        spellings=(
            Spelling("F.glu(x)"),
            Spelling("a, b = x.chunk(2, -1)\na * F.sigmoid(b)"),
        ),
        samples=(Sample((33, 56)), Sample((5, 6))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": GRADIENT},
        why="the kernel rounds to 16 bits once, two calls twice",
        seen="Conformer",
    ),
    declare(
        name="Mish by its formula",
        operands="x",
        spellings=(
            Spelling("F.mish(x)"),
            Spelling("x * paddle.tanh(F.softplus(x))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formula at each step",
        seen="YOLOv4",
    ),
    declare(
        name="softplus by its formula",
        operands="x",
        spellings=(
            Spelling("F.softplus(x)"),
            Spelling("paddle.log(1 + paddle.exp(x))"),
            Spelling("paddle.log1p(paddle.exp(x))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="1 + exp(x) is rounded before the logarithm",
        seen="Mamba's time steps",
    ),
    declare(
        name="softmax by its formula",
        operands="x",
        spellings=(
            Spelling("F.softmax(x, -1)"),
            Spelling("e = paddle.exp(x - x.max(-1, keepdim=True).detach())\ne / e.sum(-1, keepdim=True)"),
            Spelling("paddle.exp(F.log_softmax(x, -1))"),
        ),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="a kernel multiplies by the reciprocal of the sum or divides, and rounds once to 16 bits",
        seen="gpt_oss; ports of JAX",
    ),
    declare(
        name="largest score subtracted before a softmax",
        operands="x",
        spellings=(
            Spelling("F.softmax(x, -1)"),
            Spelling("F.softmax(x - x.max(-1, keepdim=True).detach(), -1)"),
        ),
        differs={"bfloat16": BOTH},
        why="the difference is rounded to 16 bits, which the kernel does not do",
        seen="transformers models/gpt_oss/modeling_gpt_oss.py:267",
    ),
    declare(
        name="log-softmax",
        operands="x",
        spellings=(
            Spelling("F.log_softmax(x, -1)"),
            Spelling("paddle.log(F.softmax(x, -1))"),
            Spelling("x - paddle.logsumexp(x, -1, keepdim=True)"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the probability is rounded before its logarithm, or the log of the sum before the difference",
        seen="PaddleFormers nn/criterion",
    ),
    declare(
        name="log of a sum of exponentials",
        operands="x",
        spellings=(
            Spelling("paddle.logsumexp(x, -1)"),
            Spelling("paddle.log(paddle.exp(x).sum(-1))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel subtracts the largest element first",
        seen="PaddleFormers nn/moe/topk_gate.py (z-loss)",
    ),
    declare(
        name="cross entropy by log-sum-exp",
        operands="x t",
        spellings=(
            Spelling('F.cross_entropy(x, t, reduction="none")'),
            Spelling("paddle.logsumexp(x, -1) - paddle.take_along_axis(x, t.unsqueeze(-1), -1).squeeze(-1)"),
            Spelling(
                "y = x - x.max(-1, keepdim=True).detach()\n"
                "paddle.log(paddle.exp(y).sum(-1)) - paddle.take_along_axis(y, t.unsqueeze(-1), -1).squeeze(-1)"
            ),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="the log of the sum and the label's logit are rounded apart",
        seen="Megatron-LM's vocab-parallel cross entropy; PaddleFormers' ParallelCrossEntropy",
    ),
    declare(
        name="cross entropy of one-hot labels",
        operands="x t",
        spellings=(
            Spelling("F.cross_entropy(x, t)"),
            Spelling("-(F.one_hot(t, x.shape[-1]).astype(x.dtype) * F.log_softmax(x, -1)).sum(-1).mean()"),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        may_differ={"float32": FORWARD},
        why="the mean has other parts: one call divides the sum, two calls average",
        seen="PaddleFormers nn/criterion; ports of Keras",
    ),
    declare(
        name="mean of a cross entropy",
        operands="x t",
        spellings=(
            Spelling("F.cross_entropy(x, t)"),
            Spelling('F.cross_entropy(x, t, reduction="none").mean()'),
            Spelling('F.cross_entropy(x, t, reduction="sum") / t.shape[0]'),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        may_differ={"float32": FORWARD},
        why="the sum of the losses is divided by the number of labels, or their mean is taken by another kernel",
        seen="PaddleFormers nn/criterion/sft_loss.py and #4443",
    ),
    declare(
        name="cross entropy in float32",
        operands="x t",
        spellings=(
            Spelling('F.cross_entropy(x, t).astype("float32")'),
            Spelling('F.cross_entropy(x.astype("float32"), t)'),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        differs={"bfloat16": BOTH},
        why="log-probabilities are rounded to 16 bits, or the logits are widened first",
        seen="PaddleFormers nn/criterion/sft_loss.py",
    ),
    declare(
        name="binary cross entropy",
        operands="x y",
        spellings=(
            Spelling("F.binary_cross_entropy_with_logits(x, y.detach())"),
            Spelling("F.binary_cross_entropy(F.sigmoid(x), y.detach())"),
            Spelling("(F.softplus(x) - x * y.detach()).mean()"),
        ),
        samples=(Sample((33, 57), Floats((33, 57), 0.0, 1.0)), Sample((5, 7), Floats((5, 7), 0.0, 1.0))),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
        why="the probability is rounded before its logarithm, and the backward divides by it",
        seen="paddlenlp transformers/distill_utils.py",
    ),
    declare(
        name="mean squared error",
        operands="x y",
        spellings=(
            Spelling("F.mse_loss(x, y)"),
            Spelling("((x - y) ** 2).mean()"),
        ),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
        why="the backward multiplies 2 / n first, or last",
        seen="PaddleScience's losses",
    ),
    declare(
        name="attention in one call",
        operands="q k v",
        spellings=(
            Spelling(
                "F.scaled_dot_product_attention(q.transpose([0, 2, 1, 3]), k.transpose([0, 2, 1, 3]), "
                "v.transpose([0, 2, 1, 3])).transpose([0, 2, 1, 3])",
                "F.scaled_dot_product_attention(q, k, v)",
            ),
            Spelling("paddle.matmul(F.softmax(paddle.matmul(q, k, transpose_y=True) * q.shape[-1] ** -0.5, -1), v)"),
        ),
        samples=(Sample((2, 4, 33, 80), (2, 4, 29, 80), (2, 4, 29, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="one call computes scores and probabilities in blocks and in float32; several calls round each to 16 bits",
        seen="transformers #41944; PyTorch #128922; PaddleFormers nn/attention",
    ),
    declare(
        name="LayerNorm by its formula",
        operands="x w b",
        spellings=(
            Spelling("F.layer_norm(x, w.shape, w, b)"),
            Spelling("m = x.mean(-1, keepdim=True)\n(x - m) / paddle.sqrt(((x - m) ** 2).mean(-1, keepdim=True) + 1e-5) * w + b"),
        ),
        samples=(Sample((33, 57), (57,), (57,)), Sample((5, 7), (7,), (7,))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="the kernel keeps float32 and rounds once, the formula at each step",
        seen="BERT's ports",
    ),
    declare(
        name="RMSNorm in one call",
        operands="x w",
        spellings=(
            Spelling("F.rms_norm(x, w.shape, w, 1e-6)[0]", "F.rms_norm(x, w.shape, w, 1e-6)"),
            Spelling('y = x.astype("float32")\n(y * paddle.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).astype(x.dtype) * w'),
        ),
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": BOTH},
        why="one call rounds once to 16 bits, the formula before the weight and behind it",
        seen="PaddleFormers nn/norm.py:72; lightning-thunder #1713",
    ),
    declare(
        name="BatchNorm folded into a scale",
        operands="x m v w b",
        spellings=(
            Spelling("F.batch_norm(x, m, v, w, b, epsilon=1e-5)", "F.batch_norm(x, m.detach(), v.detach(), w, b, eps=1e-5)"),
            Spelling("s = w * paddle.rsqrt(v.detach() + 1e-5)\nx * s + (b - m.detach() * s)"),
        ),
        samples=(
            Sample((33, 24), (24,), Floats((24,), 0.5, 2.0), (24,), (24,)),
            Sample((5, 3), (3,), Floats((3,), 0.5, 2.0), (3,), (3,)),
        ),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="the scale w * rsqrt(v) and its product with the mean are rounded for themselves",
        seen="frozen BatchNorm of DETR",
    ),
    declare(
        name="GroupNorm by its formula",
        operands="x w b",
        spellings=(
            Spelling("F.group_norm(x, 4, 1e-5, w, b)", "F.group_norm(x, 4, w, b, 1e-5)"),
            Spelling(
                "y = x.reshape([x.shape[0], 4, -1])\n"
                "m = y.mean(-1, keepdim=True)\n"
                "y = (y - m) * paddle.rsqrt(((y - m) ** 2).mean(-1, keepdim=True) + 1e-5)\n"
                "y.reshape(x.shape) * w.unsqueeze(-1) + b.unsqueeze(-1)"
            ),
        ),
        samples=(Sample((3, 24, 57), (24,), (24,)), Sample((2, 4, 7), (4,), (4,))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="the kernel folds weight and statistics into one scale, the formula rounds each step",
        seen="ports of Stable Diffusion",
    ),
    declare(
        name="vectors of length one",
        operands="x",
        spellings=(
            Spelling("F.normalize(x, axis=-1)"),
            Spelling("x / paddle.sqrt((x * x).sum(-1, keepdim=True))"),
            Spelling("x * paddle.rsqrt((x * x).sum(-1, keepdim=True))"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="a division, a product with a reciprocal root, and a norm with a lower limit round otherwise",
        seen="paddlenlp transformers/clap/modeling.py: F.normalize and x / x.norm()",
    ),
)
