"""Composed of several calls, or one call that keeps what lies between in registers."""

from __future__ import annotations

from padiff_shim.table.formulation import BOTH, FORWARD, FUSED, GRADIENT, Formulation, Spelling
from padiff_shim.table.samples import Floats, Ints, Sample

FORMULATIONS: tuple[Formulation, ...] = (
    Formulation(
        name="GELU by its formula",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.gelu(x)", "F.gelu(x)"),
            Spelling("x * 0.5 * (1.0 + paddle.erf(x / math.sqrt(2.0)))", "x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formula at each step",
        seen="paddlenlp transformers/activations.py",
    ),
    Formulation(
        name="GELU by tanh",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.gelu(x, approximate=True)", 'F.gelu(x, approximate="tanh")'),
            Spelling(
                "0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * paddle.pow(x, 3.0))))",
                "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))",
            ),
            Spelling(
                "0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * x * (1.0 + 0.044715 * x * x)))",
                "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * x * (1.0 + 0.044715 * x * x)))",
            ),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formulas at each step and in another order",
        seen="paddlenlp transformers/activations.py and transformers/bloom/modeling.py",
    ),
    Formulation(
        name="SiLU by its formula",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.silu(x)", "F.silu(x)"),
            Spelling("x * F.sigmoid(x)", "x * torch.sigmoid(x)"),
            Spelling("x / (1 + paddle.exp(-x))", "x / (1 + torch.exp(-x))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formulas at each step; their backward is another formula",
        seen="ports of EfficientNet (swish)",
    ),
    Formulation(
        name="sigmoid by its formula",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.sigmoid(x)", "torch.sigmoid(x)"),
            Spelling("1 / (1 + paddle.exp(-x))", "1 / (1 + torch.exp(-x))"),
            Spelling("0.5 * (1 + paddle.tanh(0.5 * x))", "0.5 * (1 + torch.tanh(0.5 * x))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formulas at each step",
        seen="ports of TensorFlow",
    ),
    Formulation(
        name="log-sigmoid",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.log_sigmoid(x)", "F.logsigmoid(x)"),
            Spelling("paddle.log(F.sigmoid(x))", "torch.log(torch.sigmoid(x))"),
            Spelling("-F.softplus(-x)", "-F.softplus(-x)"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the sigmoid is rounded before its logarithm",
        seen="PaddleFormers nn/criterion/dpo_loss.py",
    ),
    Formulation(
        name="SwiGLU by its formula",
        cause=FUSED,
        operands="x y",
        spellings=(
            Spelling("F.silu(x) * y", "F.silu(x) * y"),
            Spelling("x * F.sigmoid(x) * y", "x * torch.sigmoid(x) * y"),
        ),
        samples=(Sample((33, 57), (33, 57)), Sample((5, 7), (5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel of silu rounds once, x * sigmoid(x) twice",
        seen="PaddleFormers nn/mlp.py",
    ),
    Formulation(
        name="SwiGLU in float32",
        cause=FUSED,
        operands="x y",
        spellings=(
            Spelling("F.silu(x) * y", "F.silu(x) * y"),
            Spelling(
                '(F.silu(x.astype("float32")) * y.astype("float32")).astype(x.dtype)',
                "(F.silu(x.to(torch.float32)) * y.to(torch.float32)).to(x.dtype)",
            ),
        ),
        samples=(Sample((33, 57), (33, 57)), Sample((5, 7), (5, 7))),
        differs={"bfloat16": BOTH},
        why="silu is rounded to 16 bits before the product, or the result alone",
        seen="fused SwiGLU of Megatron-LM",
    ),
    Formulation(
        name="GLU",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.glu(x)", "F.glu(x)"),
            Spelling("a, b = x.chunk(2, -1)\na * F.sigmoid(b)", "a, b = x.chunk(2, -1)\na * torch.sigmoid(b)"),
        ),
        samples=(Sample((33, 56)), Sample((5, 6))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": GRADIENT},
        why="the kernel rounds to 16 bits once, two calls twice",
        seen="Conformer",
    ),
    Formulation(
        name="Mish by its formula",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.mish(x)", "F.mish(x)"),
            Spelling("x * paddle.tanh(F.softplus(x))", "x * torch.tanh(F.softplus(x))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel rounds once, the formula at each step",
        seen="YOLOv4",
    ),
    Formulation(
        name="softplus by its formula",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.softplus(x)", "F.softplus(x)"),
            Spelling("paddle.log(1 + paddle.exp(x))", "torch.log(1 + torch.exp(x))"),
            Spelling("paddle.log1p(paddle.exp(x))", "torch.log1p(torch.exp(x))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="1 + exp(x) is rounded before the logarithm",
        seen="Mamba's time steps",
    ),
    Formulation(
        name="softmax by its formula",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.softmax(x, -1)", "F.softmax(x, -1)"),
            Spelling(
                "e = paddle.exp(x - x.max(-1, keepdim=True).detach())\ne / e.sum(-1, keepdim=True)",
                "e = torch.exp(x - x.amax(-1, keepdim=True).detach())\ne / e.sum(-1, keepdim=True)",
            ),
            Spelling("paddle.exp(F.log_softmax(x, -1))", "torch.exp(F.log_softmax(x, -1))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="a kernel multiplies by the reciprocal of the sum or divides, and rounds once to 16 bits",
        seen="gpt_oss; ports of JAX",
    ),
    Formulation(
        name="largest score subtracted before a softmax",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.softmax(x, -1)", "F.softmax(x, -1)"),
            Spelling("F.softmax(x - x.max(-1, keepdim=True).detach(), -1)", "F.softmax(x - x.amax(-1, keepdim=True).detach(), -1)"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"bfloat16": BOTH},
        why="the difference is rounded to 16 bits, which the kernel does not do",
        seen="transformers models/gpt_oss/modeling_gpt_oss.py:267",
    ),
    Formulation(
        name="log-softmax",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.log_softmax(x, -1)", "F.log_softmax(x, -1)"),
            Spelling("paddle.log(F.softmax(x, -1))", "torch.log(F.softmax(x, -1))"),
            Spelling("x - paddle.logsumexp(x, -1, keepdim=True)", "x - torch.logsumexp(x, -1, keepdim=True)"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the probability is rounded before its logarithm, or the log of the sum before the difference",
        seen="PaddleFormers nn/criterion",
    ),
    Formulation(
        name="log of a sum of exponentials",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("paddle.logsumexp(x, -1)", "torch.logsumexp(x, -1)"),
            Spelling("paddle.log(paddle.exp(x).sum(-1))", "torch.log(torch.exp(x).sum(-1))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the kernel subtracts the largest element first",
        seen="PaddleFormers nn/moe/topk_gate.py (z-loss)",
    ),
    Formulation(
        name="cross entropy by log-sum-exp",
        cause=FUSED,
        operands="x t",
        spellings=(
            Spelling('F.cross_entropy(x, t, reduction="none")', 'F.cross_entropy(x, t, reduction="none")'),
            Spelling(
                "paddle.logsumexp(x, -1) - paddle.take_along_axis(x, t.unsqueeze(-1), -1).squeeze(-1)",
                "torch.logsumexp(x, -1) - torch.gather(x, -1, t.unsqueeze(-1)).squeeze(-1)",
            ),
            Spelling(
                "y = x - x.max(-1, keepdim=True).detach()\n"
                "paddle.log(paddle.exp(y).sum(-1)) - paddle.take_along_axis(y, t.unsqueeze(-1), -1).squeeze(-1)",
                "y = x - x.amax(-1, keepdim=True).detach()\n"
                "torch.log(torch.exp(y).sum(-1)) - torch.gather(y, -1, t.unsqueeze(-1)).squeeze(-1)",
            ),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="the log of the sum and the label's logit are rounded apart",
        seen="Megatron-LM's vocab-parallel cross entropy; PaddleFormers' ParallelCrossEntropy",
    ),
    Formulation(
        name="cross entropy of one-hot labels",
        cause=FUSED,
        operands="x t",
        spellings=(
            Spelling("F.cross_entropy(x, t)", "F.cross_entropy(x, t)"),
            Spelling(
                "-(F.one_hot(t, x.shape[-1]).astype(x.dtype) * F.log_softmax(x, -1)).sum(-1).mean()",
                "-(F.one_hot(t, x.shape[-1]).to(x.dtype) * F.log_softmax(x, -1)).sum(-1).mean()",
            ),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        may_differ={"float32": FORWARD},
        why="the mean has other parts: one call divides the sum, two calls average",
        seen="PaddleFormers nn/criterion; ports of Keras",
    ),
    Formulation(
        name="mean of a cross entropy",
        cause=FUSED,
        operands="x t",
        spellings=(
            Spelling("F.cross_entropy(x, t)", "F.cross_entropy(x, t)"),
            Spelling('F.cross_entropy(x, t, reduction="none").mean()', 'F.cross_entropy(x, t, reduction="none").mean()'),
            Spelling('F.cross_entropy(x, t, reduction="sum") / t.shape[0]', 'F.cross_entropy(x, t, reduction="sum") / t.shape[0]'),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        may_differ={"float32": FORWARD},
        why="the sum of the losses is divided by the number of labels, or their mean is taken by another kernel",
        seen="PaddleFormers nn/criterion/sft_loss.py and #4443",
    ),
    Formulation(
        name="cross entropy in float32",
        cause=FUSED,
        operands="x t",
        spellings=(
            Spelling('F.cross_entropy(x, t).astype("float32")', "F.cross_entropy(x, t).to(torch.float32)"),
            Spelling('F.cross_entropy(x.astype("float32"), t)', "F.cross_entropy(x.to(torch.float32), t)"),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        differs={"bfloat16": BOTH},
        why="log-probabilities are rounded to 16 bits, or the logits are widened first",
        seen="PaddleFormers nn/criterion/sft_loss.py",
    ),
    Formulation(
        name="binary cross entropy",
        cause=FUSED,
        operands="x y",
        spellings=(
            Spelling("F.binary_cross_entropy_with_logits(x, y.detach())", "F.binary_cross_entropy_with_logits(x, y.detach())"),
            Spelling("F.binary_cross_entropy(F.sigmoid(x), y.detach())", "F.binary_cross_entropy(torch.sigmoid(x), y.detach())"),
            Spelling("(F.softplus(x) - x * y.detach()).mean()", "(F.softplus(x) - x * y.detach()).mean()"),
        ),
        samples=(Sample((33, 57), Floats((33, 57), 0.0, 1.0)), Sample((5, 7), Floats((5, 7), 0.0, 1.0))),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
        why="the probability is rounded before its logarithm, and the backward divides by it",
        seen="paddlenlp transformers/distill_utils.py",
    ),
    Formulation(
        name="mean squared error",
        cause=FUSED,
        operands="x y",
        spellings=(
            Spelling("F.mse_loss(x, y)", "F.mse_loss(x, y)"),
            Spelling("((x - y) ** 2).mean()", "((x - y) ** 2).mean()"),
        ),
        samples=(Sample((33, 57), (33, 57)), Sample((5, 7), (5, 7))),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
        why="the backward multiplies 2 / n first, or last",
        seen="PaddleScience's losses",
    ),
    Formulation(
        name="attention in one call",
        cause=FUSED,
        operands="q k v",
        spellings=(
            Spelling(
                "F.scaled_dot_product_attention(q.transpose([0, 2, 1, 3]), k.transpose([0, 2, 1, 3]), "
                "v.transpose([0, 2, 1, 3])).transpose([0, 2, 1, 3])",
                "F.scaled_dot_product_attention(q, k, v)",
            ),
            Spelling(
                "paddle.matmul(F.softmax(paddle.matmul(q, k, transpose_y=True) * q.shape[-1] ** -0.5, -1), v)",
                "torch.matmul(F.softmax(torch.matmul(q, k.mT) * q.shape[-1] ** -0.5, -1), v)",
            ),
        ),
        samples=(Sample((2, 4, 33, 80), (2, 4, 29, 80), (2, 4, 29, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="one call computes scores and probabilities in blocks and in float32; several calls round each to 16 bits",
        seen="transformers #41944; PyTorch #128922; PaddleFormers nn/attention",
    ),
    Formulation(
        name="LayerNorm by its formula",
        cause=FUSED,
        operands="x w b",
        spellings=(
            Spelling("F.layer_norm(x, w.shape, w, b)", "F.layer_norm(x, w.shape, w, b)"),
            Spelling(
                "m = x.mean(-1, keepdim=True)\n(x - m) / paddle.sqrt(((x - m) ** 2).mean(-1, keepdim=True) + 1e-5) * w + b",
                "m = x.mean(-1, keepdim=True)\n(x - m) / torch.sqrt(((x - m) ** 2).mean(-1, keepdim=True) + 1e-5) * w + b",
            ),
        ),
        samples=(Sample((33, 57), (57,), (57,)), Sample((5, 7), (7,), (7,))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="the kernel keeps float32 and rounds once, the formula at each step",
        seen="BERT's ports",
    ),
    Formulation(
        name="RMSNorm in one call",
        cause=FUSED,
        operands="x w",
        spellings=(
            Spelling("F.rms_norm(x, w.shape, w, 1e-6)[0]", "F.rms_norm(x, w.shape, w, 1e-6)"),
            Spelling(
                'y = x.astype("float32")\n(y * paddle.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).astype(x.dtype) * w',
                "y = x.to(torch.float32)\n(y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w",
            ),
        ),
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": BOTH},
        why="one call rounds once to 16 bits, the formula before the weight and behind it",
        seen="PaddleFormers nn/norm.py:72; lightning-thunder #1713",
    ),
    Formulation(
        name="BatchNorm folded into a scale",
        cause=FUSED,
        operands="x m v w b",
        spellings=(
            Spelling("F.batch_norm(x, m, v, w, b, epsilon=1e-5)", "F.batch_norm(x, m.detach(), v.detach(), w, b, eps=1e-5)"),
            Spelling(
                "s = w * paddle.rsqrt(v.detach() + 1e-5)\nx * s + (b - m.detach() * s)",
                "s = w * torch.rsqrt(v.detach() + 1e-5)\nx * s + (b - m.detach() * s)",
            ),
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
    Formulation(
        name="GroupNorm by its formula",
        cause=FUSED,
        operands="x w b",
        spellings=(
            Spelling("F.group_norm(x, 4, 1e-5, w, b)", "F.group_norm(x, 4, w, b, 1e-5)"),
            Spelling(
                "y = x.reshape([x.shape[0], 4, -1])\n"
                "m = y.mean(-1, keepdim=True)\n"
                "y = (y - m) * paddle.rsqrt(((y - m) ** 2).mean(-1, keepdim=True) + 1e-5)\n"
                "y.reshape(x.shape) * w.unsqueeze(-1) + b.unsqueeze(-1)",
                "y = x.reshape(x.shape[0], 4, -1)\n"
                "m = y.mean(-1, keepdim=True)\n"
                "y = (y - m) * torch.rsqrt(((y - m) ** 2).mean(-1, keepdim=True) + 1e-5)\n"
                "y.reshape(x.shape) * w.unsqueeze(-1) + b.unsqueeze(-1)",
            ),
        ),
        samples=(Sample((3, 24, 57), (24,), (24,)), Sample((2, 4, 7), (4,), (4,))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="the kernel folds weight and statistics into one scale, the formula rounds each step",
        seen="ports of Stable Diffusion",
    ),
    Formulation(
        name="vectors of length one",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.normalize(x, axis=-1)", "F.normalize(x, dim=-1)"),
            Spelling("x / paddle.sqrt((x * x).sum(-1, keepdim=True))", "x / torch.sqrt((x * x).sum(-1, keepdim=True))"),
            Spelling("x * paddle.rsqrt((x * x).sum(-1, keepdim=True))", "x * torch.rsqrt((x * x).sum(-1, keepdim=True))"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="a division, a product with a reciprocal root, and a norm with a lower limit round otherwise",
        seen="paddlenlp transformers/clap/modeling.py: F.normalize and x / x.norm()",
    ),
    Formulation(
        name="cross entropy and its parts",
        cause=FUSED,
        operands="x t",
        spellings=(
            Spelling("F.cross_entropy(x, t)", "F.cross_entropy(x, t)"),
            Spelling("F.nll_loss(F.log_softmax(x, -1), t)", "F.nll_loss(F.log_softmax(x, -1), t)"),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        equal=("float32", "bfloat16"),
        why="cross entropy is defined as these two calls",
    ),
    Formulation(
        name="cosine of two vectors",
        cause=FUSED,
        operands="x y",
        spellings=(
            Spelling("F.cosine_similarity(x, y, axis=-1)", "F.cosine_similarity(x, y, dim=-1)"),
            Spelling(
                "(F.normalize(x, axis=-1) * F.normalize(y, axis=-1)).sum(-1)",
                "(F.normalize(x, dim=-1) * F.normalize(y, dim=-1)).sum(-1)",
            ),
        ),
        samples=(Sample((33, 57), (33, 57)), Sample((5, 7), (5, 7))),
        equal=("float32", "bfloat16"),
        why="the one call divides both vectors first, as well",
    ),
    Formulation(
        name="square of a ReLU",
        cause=FUSED,
        operands="x",
        spellings=(
            Spelling("F.relu(x).square()", "F.relu(x).square()"),
            Spelling("F.relu(x) * F.relu(x)", "F.relu(x) * F.relu(x)"),
        ),
        samples=(Sample((33, 57)), Sample((5, 7))),
        equal=("float32", "bfloat16"),
        why="both backwards are 2 * x * g of the same numbers",
    ),
    Formulation(
        name="SwiGLU in one call",
        cause=FUSED,
        operands="x y",
        spellings=(
            Spelling("F.swiglu(x, y)", "F.silu(x) * y"),
            Spelling("F.silu(x) * y", "F.silu(x) * y"),
        ),
        samples=(Sample((33, 57), (33, 57)), Sample((5, 7), (5, 7))),
        equal=("float32", "bfloat16"),
        why="Paddle's call rounds silu before the product, as two calls do",
        seen="PaddleFormers nn/mlp.py (paddle.incubate.nn.functional.swiglu)",
    ),
)
