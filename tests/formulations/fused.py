"""Composed of several calls, or one call that keeps what lies between in registers."""

from __future__ import annotations

from padiff_shim.proof.bits.formulation import BOTH, FORWARD, FUSED, GRADIENT
from padiff_shim.table.samples import Floats, Ints, Sample

from .declared import Declared, declaring

declare = declaring(FUSED)

FORMULATIONS: tuple[Declared, ...] = (
    declare(
        "GELU by its formula",
        "x",
        "F.gelu(x)",
        "x * 0.5 * (1.0 + paddle.erf(x / math.sqrt(2.0)))",
    ).because("the kernel rounds once, the formula at each step", "paddlenlp transformers/activations.py"),
    declare(
        "GELU by tanh",
        "x",
        "F.gelu(x, approximate=True)",
        "0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * paddle.pow(x, 3.0))))",
        "0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * x * (1.0 + 0.044715 * x * x)))",
    ).because(
        "the kernel rounds once, the formulas at each step and in another order",
        "paddlenlp transformers/activations.py and transformers/bloom/modeling.py",
    ),
    declare(
        "SiLU by its formula",
        "x",
        "F.silu(x)",
        "x * F.sigmoid(x)",
        "x / (1 + paddle.exp(-x))",
    ).because(
        "the kernel rounds once, the formulas at each step; their backward is another formula", "ports of EfficientNet (swish)"
    ),
    declare(
        "sigmoid by its formula",
        "x",
        "F.sigmoid(x)",
        "1 / (1 + paddle.exp(-x))",
        "0.5 * (1 + paddle.tanh(0.5 * x))",
    ).because("the kernel rounds once, the formulas at each step", "ports of TensorFlow"),
    declare(
        "log-sigmoid",
        "x",
        ("F.log_sigmoid(x)", "F.logsigmoid(x)"),
        "paddle.log(F.sigmoid(x))",
        "-F.softplus(-x)",
    ).because("the sigmoid is rounded before its logarithm", "PaddleFormers nn/criterion/dpo_loss.py"),
    declare("SwiGLU by its formula", "x y", "F.silu(x) * y", "x * F.sigmoid(x) * y").because(
        "the kernel of silu rounds once, x * sigmoid(x) twice", "PaddleFormers nn/mlp.py"
    ),
    declare(
        "SwiGLU in float32",
        "x y",
        "F.silu(x) * y",
        '(F.silu(x.astype("float32")) * y.astype("float32")).astype(x.dtype)',
        differs={"bfloat16": BOTH},
    ).because("silu is rounded to 16 bits before the product, or the result alone", "fused SwiGLU of Megatron-LM"),
    declare(
        "GLU",
        "x",
        "F.glu(x)",
        "a, b = x.chunk(2, -1)\na * F.sigmoid(b)",
        samples=(Sample((33, 56)), Sample((5, 6))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": GRADIENT},
    ).because("the kernel rounds to 16 bits once, two calls twice", "Conformer"),
    declare("Mish by its formula", "x", "F.mish(x)", "x * paddle.tanh(F.softplus(x))").because(
        "the kernel rounds once, the formula at each step", "YOLOv4"
    ),
    declare(
        "softplus by its formula",
        "x",
        "F.softplus(x)",
        "paddle.log(1 + paddle.exp(x))",
        "paddle.log1p(paddle.exp(x))",
    ).because("1 + exp(x) is rounded before the logarithm", "Mamba's time steps"),
    declare(
        "softmax by its formula",
        "x",
        "F.softmax(x, -1)",
        "e = paddle.exp(x - x.max(-1, keepdim=True).detach())\ne / e.sum(-1, keepdim=True)",
        "paddle.exp(F.log_softmax(x, -1))",
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because("a kernel multiplies by the reciprocal of the sum or divides, and rounds once to 16 bits", "gpt_oss; ports of JAX"),
    declare(
        "largest score subtracted before a softmax",
        "x",
        "F.softmax(x, -1)",
        "F.softmax(x - x.max(-1, keepdim=True).detach(), -1)",
        differs={"bfloat16": BOTH},
    ).because(
        "the difference is rounded to 16 bits, which the kernel does not do", "transformers models/gpt_oss/modeling_gpt_oss.py:267"
    ),
    declare(
        "log-softmax",
        "x",
        "F.log_softmax(x, -1)",
        "paddle.log(F.softmax(x, -1))",
        "x - paddle.logsumexp(x, -1, keepdim=True)",
    ).because(
        "the probability is rounded before its logarithm, or the log of the sum before the difference", "PaddleFormers nn/criterion"
    ),
    declare(
        "log of a sum of exponentials",
        "x",
        "paddle.logsumexp(x, -1)",
        "paddle.log(paddle.exp(x).sum(-1))",
    ).because("the kernel subtracts the largest element first", "PaddleFormers nn/moe/topk_gate.py (z-loss)"),
    declare(
        "cross entropy by log-sum-exp",
        "x t",
        'F.cross_entropy(x, t, reduction="none")',
        "paddle.logsumexp(x, -1) - paddle.take_along_axis(x, t.unsqueeze(-1), -1).squeeze(-1)",
        "y = x - x.max(-1, keepdim=True).detach()\n"
        "paddle.log(paddle.exp(y).sum(-1)) - paddle.take_along_axis(y, t.unsqueeze(-1), -1).squeeze(-1)",
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because(
        "the log of the sum and the label's logit are rounded apart",
        "Megatron-LM's vocab-parallel cross entropy; PaddleFormers' ParallelCrossEntropy",
    ),
    declare(
        "cross entropy of one-hot labels",
        "x t",
        "F.cross_entropy(x, t)",
        "-(F.one_hot(t, x.shape[-1]).astype(x.dtype) * F.log_softmax(x, -1)).sum(-1).mean()",
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        may_differ={"float32": FORWARD},
    ).because(
        "the mean has other parts: one call divides the sum, two calls average", "PaddleFormers nn/criterion; ports of Keras"
    ),
    declare(
        "mean of a cross entropy",
        "x t",
        "F.cross_entropy(x, t)",
        'F.cross_entropy(x, t, reduction="none").mean()',
        'F.cross_entropy(x, t, reduction="sum") / t.shape[0]',
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        may_differ={"float32": FORWARD},
    ).because(
        "the sum of the losses is divided by the number of labels, or their mean is taken by another kernel",
        "PaddleFormers nn/criterion/sft_loss.py and #4443",
    ),
    declare(
        "cross entropy in float32",
        "x t",
        'F.cross_entropy(x, t).astype("float32")',
        'F.cross_entropy(x.astype("float32"), t)',
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        differs={"bfloat16": BOTH},
    ).because(
        "log-probabilities are rounded to 16 bits, or the logits are widened first", "PaddleFormers nn/criterion/sft_loss.py"
    ),
    declare(
        "binary cross entropy",
        "x y",
        "F.binary_cross_entropy_with_logits(x, y.detach())",
        "F.binary_cross_entropy(F.sigmoid(x), y.detach())",
        "(F.softplus(x) - x * y.detach()).mean()",
        samples=(Sample((33, 57), Floats((33, 57), 0.0, 1.0)), Sample((5, 7), Floats((5, 7), 0.0, 1.0))),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "the probability is rounded before its logarithm, and the backward divides by it", "paddlenlp transformers/distill_utils.py"
    ),
    declare(
        "mean squared error",
        "x y",
        "F.mse_loss(x, y)",
        "((x - y) ** 2).mean()",
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because("the backward multiplies 2 / n first, or last", "PaddleScience's losses"),
    declare(
        "attention in one call",
        "q k v",
        (
            "F.scaled_dot_product_attention(q.transpose([0, 2, 1, 3]), k.transpose([0, 2, 1, 3]), "
            "v.transpose([0, 2, 1, 3])).transpose([0, 2, 1, 3])",
            "F.scaled_dot_product_attention(q, k, v)",
        ),
        "paddle.matmul(F.softmax(paddle.matmul(q, k, transpose_y=True) * q.shape[-1] ** -0.5, -1), v)",
        samples=(Sample((2, 4, 33, 80), (2, 4, 29, 80), (2, 4, 29, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because(
        "one call computes scores and probabilities in blocks and in float32; several calls round each to 16 bits",
        "transformers #41944; PyTorch #128922; PaddleFormers nn/attention",
    ),
    declare(
        "LayerNorm by its formula",
        "x w b",
        "F.layer_norm(x, w.shape, w, b)",
        "m = x.mean(-1, keepdim=True)\n(x - m) / paddle.sqrt(((x - m) ** 2).mean(-1, keepdim=True) + 1e-5) * w + b",
        samples=(Sample((33, 57), (57,), (57,)), Sample((5, 7), (7,), (7,))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because("the kernel keeps float32 and rounds once, the formula at each step", "BERT's ports"),
    declare(
        "RMSNorm in one call",
        "x w",
        ("F.rms_norm(x, w.shape, w, 1e-6)[0]", "F.rms_norm(x, w.shape, w, 1e-6)"),
        'y = x.astype("float32")\n(y * paddle.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).astype(x.dtype) * w',
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": BOTH},
    ).because(
        "one call rounds once to 16 bits, the formula before the weight and behind it",
        "PaddleFormers nn/norm.py:72; lightning-thunder #1713",
    ),
    declare(
        "BatchNorm folded into a scale",
        "x m v w b",
        ("F.batch_norm(x, m, v, w, b, epsilon=1e-5)", "F.batch_norm(x, m.detach(), v.detach(), w, b, eps=1e-5)"),
        "s = w * paddle.rsqrt(v.detach() + 1e-5)\nx * s + (b - m.detach() * s)",
        samples=(
            Sample((33, 24), (24,), Floats((24,), 0.5, 2.0), (24,), (24,)),
            Sample((5, 3), (3,), Floats((3,), 0.5, 2.0), (3,), (3,)),
        ),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because("the scale w * rsqrt(v) and its product with the mean are rounded for themselves", "frozen BatchNorm of DETR"),
    declare(
        "GroupNorm by its formula",
        "x w b",
        ("F.group_norm(x, 4, 1e-5, w, b)", "F.group_norm(x, 4, w, b, 1e-5)"),
        "y = x.reshape([x.shape[0], 4, -1])\n"
        "m = y.mean(-1, keepdim=True)\n"
        "y = (y - m) * paddle.rsqrt(((y - m) ** 2).mean(-1, keepdim=True) + 1e-5)\n"
        "y.reshape(x.shape) * w.unsqueeze(-1) + b.unsqueeze(-1)",
        samples=(Sample((3, 24, 57), (24,), (24,)), Sample((2, 4, 7), (4,), (4,))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because("the kernel folds weight and statistics into one scale, the formula rounds each step", "ports of Stable Diffusion"),
    declare(
        "vectors of length one",
        "x",
        "F.normalize(x, axis=-1)",
        "x / paddle.sqrt((x * x).sum(-1, keepdim=True))",
        "x * paddle.rsqrt((x * x).sum(-1, keepdim=True))",
    ).because(
        "a division, a product with a reciprocal root, and a norm with a lower limit round otherwise",
        "paddlenlp transformers/clap/modeling.py: F.normalize and x / x.norm()",
    ),
)
