"""Grouping: one product or several, and sums in other parts."""

from __future__ import annotations

from padiff_shim.proof.bits.formulation import BOTH, FORWARD, GRADIENT, GROUPING
from padiff_shim.table.samples import Bools, Floats, Sample

from .declared import Declared, declaring

declare = declaring(GROUPING)

FORMULATIONS: tuple[Declared, ...] = (
    declare(
        "fused projection of queries, keys and values",
        "x wq wk wv",
        "paddle.matmul(x, wq), paddle.matmul(x, wk), paddle.matmul(x, wv)",
        "paddle.matmul(x, paddle.concat([wq, wk, wv], 1)).split([wq.shape[1], wk.shape[1], wv.shape[1]], -1)",
        samples=(Sample((4, 33, 80), (80, 96), (80, 32), (80, 32)), Sample((2, 5, 8), (8, 6), (8, 2), (8, 2))),
        differs={"bfloat16": GRADIENT},
        may_differ={"float32": GRADIENT},
    ).because(
        "the gradient of the common operand is one sum over all columns, or three sums that are rounded and then added",
        "PaddleFormers transformers/qwen2/modeling.py; vllm-omni #4262; torchtitan #2878",
    ),
    declare(
        "fused gate and up projection",
        "x wg wu",
        "F.silu(paddle.matmul(x, wg)) * paddle.matmul(x, wu)",
        "g, u = paddle.matmul(x, paddle.concat([wg, wu], 1)).chunk(2, -1)\nF.silu(g) * u",
        samples=(Sample((4, 33, 80), (80, 57), (80, 57)), Sample((2, 5, 8), (8, 6), (8, 6))),
        differs={"bfloat16": GRADIENT},
        may_differ={"float32": BOTH},
    ).because(
        "the gradient of the common operand is one sum over all columns, or two sums that are rounded and then added",
        "PaddleFormers nn/mlp.py, transformers models/phi3",
    ),
    declare(
        "bias in the product",
        "x w b",
        "F.linear(x, w, b)",
        "F.linear(x, w) + b",
        samples=(Sample((4, 33, 80), (80, 96), (96,)), Sample((2, 5, 8), (8, 6), (6,))),
        may_differ={"bfloat16": FORWARD},
    ).because("one call adds the bias before it rounds to 16 bits, two calls round twice", "Megatron-LM's skip_bias_add"),
    declare(
        "addmm",
        "x w b",
        "paddle.addmm(b, x, w)",
        "b + paddle.matmul(x, w)",
        samples=(Sample((33, 80), (80, 96), (33, 96)), Sample((5, 8), (8, 6), (5, 6))),
        may_differ={"bfloat16": FORWARD},
    ).because("one call adds before it rounds to 16 bits, two calls round twice", "GPT-2's Conv1D of transformers"),
    declare(
        "baddbmm",
        "m q k",
        "paddle.baddbmm(m, q, k, beta=1.0, alpha=0.1)",
        "paddle.bmm(q, k) * 0.1 + m",
        samples=(Sample((4, 33, 29), (4, 33, 80), (4, 80, 29)), Sample((2, 5, 6), (2, 5, 8), (2, 8, 6))),
        may_differ={"float32": BOTH, "bfloat16": BOTH},
    ).because(
        "one call scales and adds before it rounds, or with a fused multiply-add; several calls round each step",
        "paddlenlp transformers/bloom/modeling.py",
    ),
    declare(
        "mean",
        "x",
        "x.mean(-1)",
        "x.sum(-1) / x.shape[-1]",
        "x.sum(-1) * (1 / x.shape[-1])",
        "(x / x.shape[-1]).sum(-1)",
        differs={"float32": BOTH, "bfloat16": FORWARD},
    ).because(
        "a mean divides before it rounds to 16 bits; 1 / n is rounded itself; terms that are divided first are rounded one by one",
        "PaddleFormers nn/moe_deepep/moe_loss.py",
    ),
    declare(
        "masked mean",
        "x m",
        "paddle.masked_select(x, m).mean()",
        "(x * m.astype(x.dtype)).sum() / m.astype(x.dtype).sum()",
        samples=(Sample((33, 57), Bools((33, 57))), Sample((5, 7), Bools((5, 7)))),
        may_differ={"float32": FORWARD},
    ).because(
        "the chosen elements are summed together, or with zeros between them in other lanes",
        "PaddleFormers nn/criterion/sft_loss.py and #4443",
    ),
    declare(
        "sum in two steps", "x", "x.sum()", "x.sum(-1).sum()", differs={"bfloat16": FORWARD}, may_differ={"float32": FORWARD}
    ).because("rows are summed and rounded, then their sums", "Megatron-LM's loss over a sequence"),
    declare("mean of means", "x", "x.mean()", "x.mean(-1).mean()", may_differ={"float32": BOTH}).because(
        "rows are averaged and rounded, then their means", "PaddleFormers nn/criterion"
    ),
    declare(
        "variance",
        "x",
        "x.var(-1, unbiased=False)",
        "((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)",
        "(x * x).mean(-1) - x.mean(-1) ** 2",
    ).because(
        "squares of differences are summed, or the difference of two sums is rounded: the last loses digits",
        "StyleGAN's and BatchNorm's ports",
    ),
    declare(
        "order of three factors",
        "a b c",
        "paddle.matmul(paddle.matmul(a, b), c)",
        "paddle.matmul(a, paddle.matmul(b, c))",
        samples=(Sample((33, 20), (20, 57), (57, 24)), Sample((5, 3), (3, 7), (7, 4))),
    ).because("another product is rounded in between", "linear attention; MLA with absorbed weights in DeepSeek"),
    declare(
        "merged low-rank adapter",
        "x w a b",
        "paddle.matmul(x, w) + paddle.matmul(paddle.matmul(x, a), b)",
        "paddle.matmul(x, w + paddle.matmul(a, b))",
        samples=(Sample((33, 80), (80, 57), (80, 8), (8, 57)), Sample((5, 8), (8, 7), (8, 2), (2, 7))),
    ).because(
        "the merged weight is rounded before the product, the adapter's result behind it", "paddlenlp peft/lora/lora_layers.py"
    ),
    declare(
        "residuals of parallel blocks", "x a m", "x + a + m", "x + (a + m)", differs={"float32": FORWARD, "bfloat16": FORWARD}
    ).because("a sum of three is rounded in another order", "transformers models/gpt_neox"),
    declare(
        "bias and residual",
        "x w b r",
        "F.linear(x, w, b) + r",
        "F.linear(x, w) + (b + r)",
        samples=(Sample((4, 33, 80), (80, 96), (96,), (4, 33, 96)), Sample((2, 5, 8), (8, 6), (6,), (2, 5, 6))),
        differs={"float32": FORWARD, "bfloat16": FORWARD},
    ).because("a sum of three is rounded in another order", "Megatron-LM's bias_dropout_add"),
    declare(
        "sum over chosen experts",
        "y p",
        "(y * p.unsqueeze(-1)).sum(1)",
        "paddle.matmul(p.unsqueeze(1), y).squeeze(1)",
        "z = y * p.unsqueeze(-1)\nz[:, 0] + z[:, 1] + z[:, 2] + z[:, 3]",
        samples=(Sample((33, 4, 57), Floats((33, 4), 0.0, 1.0)), Sample((5, 4, 7), Floats((5, 4), 0.0, 1.0))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": GRADIENT},
    ).because(
        "a sum keeps float32 inside, a chain of additions rounds each to 16 bits, a product sums in its own order",
        "PaddleFormers nn/experts.py; vLLM #15045; mlx-lm #938",
    ),
    declare(
        "row-parallel product",
        "x w",
        "paddle.matmul(x, w)",
        "n = w.shape[0] // 2\npaddle.matmul(x[:, :n], w[:n]) + paddle.matmul(x[:, n:], w[n:])",
        samples=(Sample((33, 80), (80, 57)), Sample((5, 8), (8, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
    ).because(
        "each part is rounded before they are added, as over two ranks",
        "Megatron-LM's RowParallelLinear; PaddleFormers transformers/mc2_parallel_linear.py",
    ),
    declare(
        "heads one by one in the output projection",
        "y w",
        "paddle.matmul(y.flatten(1), w.flatten(0, 1))",
        "paddle.einsum('shd,hdm->shm', y, w).sum(1)",
        samples=(Sample((33, 4, 24), (4, 24, 57)), Sample((5, 2, 3), (2, 3, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
    ).because("each head's part is rounded before they are added", "einsum attention of Mesh-TensorFlow ports"),
    declare(
        "convolution of patches",
        "x w",
        (
            "F.conv2d(x, w, stride=w.shape[-1]).flatten(2).transpose([0, 2, 1])",
            "F.conv2d(x, w, stride=w.shape[-1]).flatten(2).transpose(1, 2)",
        ),
        (
            "paddle.matmul(F.unfold(x, w.shape[-1], w.shape[-1]).transpose([0, 2, 1]), w.flatten(1).t())",
            "torch.matmul(F.unfold(x, w.shape[-1], stride=w.shape[-1]).transpose(1, 2), w.flatten(1).t())",
        ),
        samples=(Sample((2, 3, 32, 32), (57, 3, 8, 8)), Sample((1, 2, 4, 4), (5, 2, 2, 2))),
        may_differ={"float32": FORWARD},
    ).because("a convolution sums over the patch in another order than a product of rows", "ViT's patch embedding"),
    declare(
        "1 x 1 convolution",
        "x w",
        "F.conv2d(x, w)",
        "paddle.matmul(w.flatten(1), x.flatten(2)).reshape([x.shape[0], w.shape[0], x.shape[2], x.shape[3]])",
        samples=(Sample((2, 40, 15, 13), (57, 40, 1, 1)), Sample((1, 2, 4, 3), (5, 2, 1, 1))),
        may_differ={"float32": GRADIENT},
    ).because("a convolution sums over channels in another order than a product, and its backward as well", "ports of ConvNeXt"),
    declare(
        "causal depthwise convolution",
        "x w",
        "F.conv1d(x, w, padding=2, groups=x.shape[1])[:, :, : x.shape[2]]",
        "y = F.pad(x, [2, 0])\n"
        "n = x.shape[2]\n"
        "y[:, :, :n] * w[:, :, 0] + y[:, :, 1 : n + 1] * w[:, :, 1] + y[:, :, 2:] * w[:, :, 2]",
        samples=(Sample((2, 24, 57), (24, 1, 3)), Sample((1, 4, 7), (4, 1, 3))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because(
        "a chain of products and additions rounds each step, the convolution once",
        "PaddleFormers transformers/qwen3_next/modeling.py; transformers models/mamba",
    ),
    declare(
        "running sum",
        "x",
        "paddle.cumsum(x, -1)",
        "paddle.matmul(x, paddle.triu(paddle.ones([x.shape[-1]] * 2, x.dtype)))",
        may_differ={"float32": BOTH},
    ).because(
        "a running sum adds one after another, a product with ones in lanes", "Mamba-2's and gated linear attention's chunks"
    ),
    declare(
        "batched product or one for each",
        "x w",
        "paddle.bmm(x, w)",
        "paddle.stack([paddle.mm(x[i], w[i]) for i in range(2)])",
        samples=(Sample((2, 33, 80), (2, 80, 1)), Sample((2, 5, 8), (2, 8, 7))),
        may_differ={"float32": FORWARD},
    ).because("the batched call has another kernel for thin products", "PaddleFormers nn/experts.py"),
    declare(
        "length of a vector",
        "x",
        "paddle.linalg.norm(x, 2, -1)",
        "(x * x).sum(-1).sqrt()",
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because("the norm's kernel squares and sums in wider numbers or other lanes", "PaddleFormers' ClipGradByGlobalNorm"),
)
