"""Layouts: the same numbers in another order in memory, for which kernels sum in another order."""

from __future__ import annotations

from padiff_shim.proof.bits.formulation import BOTH, FORWARD, GRADIENT, LAYOUT
from padiff_shim.table.samples import Sample

from .declared import Declared, declaring

declare = declaring(LAYOUT)

FORMULATIONS: tuple[Declared, ...] = (
    declare(
        "transposed key of a product",
        "q k",
        ("paddle.matmul(q, k, transpose_y=True)", "torch.matmul(q, k.transpose(-1, -2))"),
        ("paddle.matmul(q, k.transpose([0, 1, 3, 2]).contiguous())", "torch.matmul(q, k.transpose(-1, -2).contiguous())"),
        samples=(Sample((2, 4, 33, 257), (2, 4, 8, 257)), Sample((1, 2, 5, 8), (1, 2, 6, 8))),
        may_differ={"float32": FORWARD},
    ).because(
        "a product has another kernel, with another order of sums, for each layout of its operands",
        "PaddleFormers nn/attention/eager_attention.py and transformers/ofa_utils.py; Paddle #72843",
    ),
    declare(
        "weight of a Linear layer",
        "x w",
        "F.linear(x, w)",
        "paddle.matmul(x, w)",
        samples=(Sample((4, 33, 80), (80, 8)), Sample((2, 5, 8), (8, 6))),
        may_differ={"float32": BOTH},
    ).because(
        "a Torch port holds the weight as [out, in], a product with Paddle's own as [in, out], and the product has another "
        "kernel, with another order of sums, for each layout of its operands",
        "PyTorch #148939; PaddleFormers transformers/tensor_parallel_utils.py",
    ),
    declare(
        "sum over an axis that is not the last in memory",
        "x",
        ("x.transpose([0, 2, 1]).sum(-1)", "x.transpose(1, 2).sum(-1)"),
        ("x.transpose([0, 2, 1]).contiguous().sum(-1)", "x.transpose(1, 2).contiguous().sum(-1)"),
        samples=(Sample((4, 57, 33)), Sample((2, 5, 3))),
        may_differ={"float32": FORWARD},
    ).because(
        "rows that lie together are summed in lanes of a vector, rows that lie apart one after another",
        "Reformer of paddlenlp, transposes around its hashes",
    ),
    declare(
        "mean over an image",
        "x",
        "x.mean([2, 3])",
        ("x.transpose([0, 2, 3, 1]).contiguous().mean([1, 2])", "x.permute(0, 2, 3, 1).contiguous().mean([1, 2])"),
        samples=(Sample((2, 8, 15, 13)), Sample((1, 3, 4, 5))),
        may_differ={"float32": FORWARD},
    ).because(
        "channels that lie last are summed one image point after another, channels that lie first in lanes",
        "paddle.vision's pooling against x.mean([2, 3])",
    ),
    declare(
        "softmax over another axis",
        "x",
        "F.softmax(x, 1)",
        (
            "F.softmax(x.transpose([0, 2, 1]).contiguous(), -1).transpose([0, 2, 1])",
            "F.softmax(x.transpose(1, 2).contiguous(), -1).transpose(1, 2)",
        ),
        samples=(Sample((4, 57, 33)), Sample((2, 5, 3))),
        may_differ={"float32": BOTH, "bfloat16": BOTH},
    ).because(
        "a softmax over the last axis sums in lanes of a vector, one over another axis row by row",
        "PaddleFormers nn/moe_deepep/moe_gate.py",
    ),
    declare(
        "halves of one product",
        "x",
        "n = x.shape[-1] // 2\nF.silu(x[..., :n]) * x[..., n:]",
        "n = x.shape[-1] // 2\nF.silu(x[..., :n].contiguous()) * x[..., n:].contiguous()",
        samples=(Sample((4, 33, 114)), Sample((2, 5, 6))),
        may_differ={"float32": BOTH},
    ).because(
        "the vectorised exponential has other last bits than the scalar one, which takes the ends of rows that lie apart",
        "PaddleFormers nn/mlp.py; docs/measurements.md",
    ),
    declare(
        "channels last",
        "x w",
        "F.conv2d(x, w, padding=1)",
        (
            "F.conv2d(x.transpose([0, 2, 3, 1]).contiguous(), w, padding=1, data_format='NHWC').transpose([0, 3, 1, 2])",
            "F.conv2d(x.contiguous(memory_format=torch.channels_last), w, padding=1)",
        ),
        samples=(Sample((2, 8, 15, 13), (12, 8, 3, 3)), Sample((1, 3, 4, 5), (2, 3, 3, 3))),
        may_differ={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because("another kernel of the convolution sums over channels first", 'paddle.vision with data_format="NHWC"'),
    declare(
        "batch as one matrix",
        "x w",
        "paddle.matmul(x, w)",
        (
            "paddle.bmm(x, w.unsqueeze(0).expand([x.shape[0], w.shape[0], w.shape[1]]))",
            "torch.bmm(x, w.unsqueeze(0).expand(x.shape[0], -1, -1))",
        ),
        samples=(Sample((4, 33, 80), (80, 96)), Sample((2, 5, 8), (8, 6))),
        may_differ={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "the gradient of the weight is one product over all rows, or a product for each sentence and a sum of them",
        "paddlenlp's attention with 3-dimensional weights",
    ),
    declare(
        "product by transposing the result",
        "x w",
        "paddle.matmul(x, w)",
        ("paddle.matmul(w, x, transpose_x=True, transpose_y=True).t()", "torch.matmul(w.t(), x.t()).t()"),
        samples=(Sample((33, 80), (80, 8)), Sample((5, 8), (8, 6))),
        may_differ={"float32": FORWARD},
    ).because(
        "a product has another kernel, with another order of sums, for each layout of its operands",
        "Megatron-LM's column-parallel layers",
    ),
    declare(
        "batched product by transposing the result",
        "x w",
        "paddle.matmul(x, w)",
        (
            "paddle.matmul(w, x, transpose_x=True, transpose_y=True).transpose([0, 2, 1])",
            "torch.matmul(w.mT, x.mT).permute(0, 2, 1)",
        ),
        samples=(Sample((4, 20, 20), (4, 20, 8)), Sample((2, 5, 8), (2, 8, 6))),
        may_differ={"float32": BOTH},
    ).because(
        "a product has another kernel, with another order of sums, for each layout of its operands",
        "attention that computes values by keys",
    ),
    declare(
        "product of heads by transposing the result",
        "x w",
        "paddle.matmul(x, w)",
        (
            "paddle.matmul(w, x, transpose_x=True, transpose_y=True).transpose([0, 1, 3, 2])",
            "torch.matmul(w.mT, x.mT).permute(0, 1, 3, 2)",
        ),
        samples=(Sample((2, 4, 12, 12), (2, 4, 12, 8)), Sample((1, 2, 5, 8), (1, 2, 8, 6))),
        may_differ={"float32": BOTH},
    ).because(
        "a product has another kernel, with another order of sums, for each layout of its operands",
        "attention that computes values by keys",
    ),
    declare(
        "last token alone",
        "x w",
        "paddle.matmul(x, w)[:, -1:]",
        "paddle.matmul(x[:, -1:], w)",
        samples=(Sample((2, 33, 80), (80, 57)), Sample((2, 5, 8), (8, 6))),
        may_differ={"float32": BOTH},
    ).because(
        "a row's products are summed in another order when there are fewer rows: the library takes another kernel",
        "generation with a cache: transformers #25420, litgpt #2165",
    ),
    declare(
        "scores of one query",
        "q k",
        "paddle.matmul(q, k, transpose_y=True)[:, :, -1:]",
        "paddle.matmul(q[:, :, -1:], k, transpose_y=True)",
        samples=(Sample((2, 4, 33, 80), (2, 4, 33, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8))),
        may_differ={"float32": BOTH},
    ).because(
        "a row's products are summed in another order when there are fewer rows: the library takes another kernel",
        "generation with a cache: transformers #25420",
    ),
)
