"""Layouts: the same numbers in another order in memory, for which kernels sum in another order."""

from __future__ import annotations

from padiff_shim.table.formulation import BOTH, FORWARD, GRADIENT, LAYOUT, Formulation, Spelling, declaring
from padiff_shim.table.samples import Sample

declare = declaring(LAYOUT)

FORMULATIONS: tuple[Formulation, ...] = (
    declare(
        name="transposed key of a product",
        operands="q k",
        spellings=(
            Spelling("paddle.matmul(q, k, transpose_y=True)", "torch.matmul(q, k.transpose(-1, -2))"),
            Spelling(
                "paddle.matmul(q, k.transpose([0, 1, 3, 2]).contiguous())", "torch.matmul(q, k.transpose(-1, -2).contiguous())"
            ),
        ),
        samples=(Sample((2, 4, 33, 257), (2, 4, 8, 257)), Sample((1, 2, 5, 8), (1, 2, 6, 8))),
        may_differ={"float32": FORWARD},
        why="a product has another kernel, with another order of sums, for each layout of its operands",
        seen="PaddleFormers nn/attention/eager_attention.py and transformers/ofa_utils.py; Paddle #72843",
    ),
    declare(
        name="weight of a Linear layer",
        operands="x w",
        spellings=(
            Spelling("F.linear(x, w)"),
            Spelling("paddle.matmul(x, w)"),
        ),
        samples=(Sample((4, 33, 80), (80, 8)), Sample((2, 5, 8), (8, 6))),
        may_differ={"float32": BOTH},
        why="a Torch port holds the weight as [out, in], a product with Paddle's own as [in, out], and the "
        "product has another kernel, with another order of sums, for each layout of its operands",
        seen="PyTorch #148939; PaddleFormers transformers/tensor_parallel_utils.py",
    ),
    declare(
        name="sum over an axis that is not the last in memory",
        operands="x",
        spellings=(
            Spelling("x.transpose([0, 2, 1]).sum(-1)", "x.transpose(1, 2).sum(-1)"),
            Spelling("x.transpose([0, 2, 1]).contiguous().sum(-1)", "x.transpose(1, 2).contiguous().sum(-1)"),
        ),
        samples=(Sample((4, 57, 33)), Sample((2, 5, 3))),
        may_differ={"float32": FORWARD},
        why="rows that lie together are summed in lanes of a vector, rows that lie apart one after another",
        seen="Reformer of paddlenlp, transposes around its hashes",
    ),
    declare(
        name="mean over an image",
        operands="x",
        spellings=(
            Spelling("x.mean([2, 3])"),
            Spelling("x.transpose([0, 2, 3, 1]).contiguous().mean([1, 2])", "x.permute(0, 2, 3, 1).contiguous().mean([1, 2])"),
        ),
        samples=(Sample((2, 8, 15, 13)), Sample((1, 3, 4, 5))),
        may_differ={"float32": FORWARD},
        why="channels that lie last are summed one image point after another, channels that lie first in lanes",
        seen="paddle.vision's pooling against x.mean([2, 3])",
    ),
    declare(
        name="softmax over another axis",
        operands="x",
        spellings=(
            Spelling("F.softmax(x, 1)"),
            Spelling(
                "F.softmax(x.transpose([0, 2, 1]).contiguous(), -1).transpose([0, 2, 1])",
                "F.softmax(x.transpose(1, 2).contiguous(), -1).transpose(1, 2)",
            ),
        ),
        samples=(Sample((4, 57, 33)), Sample((2, 5, 3))),
        may_differ={"float32": BOTH, "bfloat16": BOTH},
        why="a softmax over the last axis sums in lanes of a vector, one over another axis row by row",
        seen="PaddleFormers nn/moe_deepep/moe_gate.py",
    ),
    declare(
        name="halves of one product",
        operands="x",
        spellings=(
            Spelling("n = x.shape[-1] // 2\nF.silu(x[..., :n]) * x[..., n:]"),
            Spelling("n = x.shape[-1] // 2\nF.silu(x[..., :n].contiguous()) * x[..., n:].contiguous()"),
        ),
        samples=(Sample((4, 33, 114)), Sample((2, 5, 6))),
        may_differ={"float32": BOTH},
        why="the vectorised exponential has other last bits than the scalar one, which takes the ends of rows that lie apart",
        seen="PaddleFormers nn/mlp.py; docs/measurements.md",
    ),
    declare(
        name="channels last",
        operands="x w",
        spellings=(
            Spelling("F.conv2d(x, w, padding=1)"),
            Spelling(
                "F.conv2d(x.transpose([0, 2, 3, 1]).contiguous(), w, padding=1, data_format='NHWC').transpose([0, 3, 1, 2])",
                "F.conv2d(x.contiguous(memory_format=torch.channels_last), w, padding=1)",
            ),
        ),
        samples=(Sample((2, 8, 15, 13), (12, 8, 3, 3)), Sample((1, 3, 4, 5), (2, 3, 3, 3))),
        may_differ={"float32": GRADIENT, "bfloat16": GRADIENT},
        why="another kernel of the convolution sums over channels first",
        seen='paddle.vision with data_format="NHWC"',
    ),
    declare(
        name="batch as one matrix",
        operands="x w",
        spellings=(
            Spelling("paddle.matmul(x, w)"),
            Spelling(
                "paddle.bmm(x, w.unsqueeze(0).expand([x.shape[0], w.shape[0], w.shape[1]]))",
                "torch.bmm(x, w.unsqueeze(0).expand(x.shape[0], -1, -1))",
            ),
        ),
        samples=(Sample((4, 33, 80), (80, 96)), Sample((2, 5, 8), (8, 6))),
        may_differ={"float32": GRADIENT, "bfloat16": GRADIENT},
        why="the gradient of the weight is one product over all rows, or a product for each sentence and a sum of them",
        seen="paddlenlp's attention with 3-dimensional weights",
    ),
    declare(
        name="product by transposing the result",
        operands="x w",
        spellings=(
            Spelling("paddle.matmul(x, w)"),
            Spelling("paddle.matmul(w, x, transpose_x=True, transpose_y=True).t()", "torch.matmul(w.t(), x.t()).t()"),
        ),
        samples=(Sample((33, 80), (80, 8)), Sample((5, 8), (8, 6))),
        may_differ={"float32": FORWARD},
        why="a product has another kernel, with another order of sums, for each layout of its operands",
        seen="Megatron-LM's column-parallel layers",
    ),
    declare(
        name="batched product by transposing the result",
        operands="x w",
        spellings=(
            Spelling("paddle.matmul(x, w)"),
            Spelling(
                "paddle.matmul(w, x, transpose_x=True, transpose_y=True).transpose([0, 2, 1])",
                "torch.matmul(w.mT, x.mT).permute(0, 2, 1)",
            ),
        ),
        samples=(Sample((4, 20, 20), (4, 20, 8)), Sample((2, 5, 8), (2, 8, 6))),
        may_differ={"float32": BOTH},
        why="a product has another kernel, with another order of sums, for each layout of its operands",
        seen="attention that computes values by keys",
    ),
    declare(
        name="product of heads by transposing the result",
        operands="x w",
        spellings=(
            Spelling("paddle.matmul(x, w)"),
            Spelling(
                "paddle.matmul(w, x, transpose_x=True, transpose_y=True).transpose([0, 1, 3, 2])",
                "torch.matmul(w.mT, x.mT).permute(0, 1, 3, 2)",
            ),
        ),
        samples=(Sample((2, 4, 12, 12), (2, 4, 12, 8)), Sample((1, 2, 5, 8), (1, 2, 8, 6))),
        may_differ={"float32": BOTH},
        why="a product has another kernel, with another order of sums, for each layout of its operands",
        seen="attention that computes values by keys",
    ),
    declare(
        name="last token alone",
        operands="x w",
        spellings=(
            Spelling("paddle.matmul(x, w)[:, -1:]"),
            Spelling("paddle.matmul(x[:, -1:], w)"),
        ),
        samples=(Sample((2, 33, 80), (80, 57)), Sample((2, 5, 8), (8, 6))),
        may_differ={"float32": BOTH},
        why="a row's products are summed in another order when there are fewer rows: the library takes another kernel",
        seen="generation with a cache: transformers #25420, litgpt #2165",
    ),
    declare(
        name="scores of one query",
        operands="q k",
        spellings=(
            Spelling("paddle.matmul(q, k, transpose_y=True)[:, :, -1:]"),
            Spelling("paddle.matmul(q[:, :, -1:], k, transpose_y=True)"),
        ),
        samples=(Sample((2, 4, 33, 80), (2, 4, 33, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8))),
        may_differ={"float32": BOTH},
        why="a row's products are summed in another order when there are fewer rows: the library takes another kernel",
        seen="generation with a cache: transformers #25420",
    ),
)
