"""Optimizers, clipping, and accumulation over micro-batches and ranks."""

from __future__ import annotations

from padiff_shim.table.formulation import BOTH, FORWARD, TRAINING, Formulation, Spelling, declaring
from padiff_shim.table.samples import Floats, Ints, Sample

declare = declaring(TRAINING)

FORMULATIONS: tuple[Formulation, ...] = (
    declare(
        name="global norm of several gradients",
        operands="a b c",
        spellings=(
            Spelling("paddle.linalg.norm(paddle.stack([paddle.linalg.norm(g.flatten(), 2) for g in (a, b, c)]), 2)"),
            Spelling("paddle.sqrt(paddle.stack([(g * g).sum() for g in (a, b, c)]).sum())"),
            Spelling("paddle.linalg.norm(paddle.concat([g.flatten() for g in (a, b, c)]), 2)"),
        ),
        samples=(Sample((33, 57), (57,), (57, 24)), Sample((5, 7), (7,), (7, 4))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
        why="squares are summed over all elements, or norms are rounded and squared again",
        seen="PyTorch #133406; PaddleFormers trainer/trainer.py (ClipGradByGlobalNorm)",
    ),
    declare(
        name="clipped gradient",
        operands="g n c",
        spellings=(
            Spelling("g * (c / n)"),
            Spelling("g * c / n"),
            Spelling("g / (n / c)"),
        ),
        samples=(Sample((33, 57), Floats((1,), 3.0, 9.0), 0.7), Sample((5, 7), Floats((1,), 3.0, 9.0), 1.5)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the quotient is rounded first, or the product",
        seen="torch.nn.utils.clip_grad_norm_ against paddle.nn.ClipGradByGlobalNorm",
    ),
    declare(
        name="decoupled weight decay",
        operands="w u lr wd",
        spellings=(
            Spelling("w * (1 - lr * wd) - lr * u"),
            Spelling("w - lr * (u + wd * w)"),
            Spelling("w - lr * wd * w - lr * u"),
        ),
        samples=(Sample((33, 57), (33, 57), 0.001, 0.1), Sample((5, 7), (5, 7), 0.01, 0.3)),
        differs={"float32": BOTH, "bfloat16": FORWARD},
        why="1 - lr * wd is rounded, or the decay is a term of the sum",
        seen="torch.optim.AdamW against AdamW of transformers and paddle.optimizer",
    ),
    declare(
        name="moving average",
        operands="m g b",
        spellings=(
            Spelling("m * b + g * (1 - b)"),
            Spelling("m + (g - m) * (1 - b)"),
            Spelling("paddle.lerp(m, g, 1 - b)", "torch.lerp(m, g, torch.full([], 1 - b, dtype=m.dtype))"),
        ),
        samples=(Sample((33, 57), (33, 57), 0.9), Sample((5, 7), (5, 7), 0.99)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="1 - b multiplies the gradient or the difference; a number of lerp is rounded to the tensors' dtype",
        seen="Adam's first moment: torch.optim against optax; EMA of diffusers",
    ),
    declare(
        name="second moment",
        operands="v g b",
        spellings=(
            Spelling("v * b + (1 - b) * (g * g)"),
            Spelling("v * b + (1 - b) * g * g"),
            Spelling("v + (g * g - v) * (1 - b)"),
        ),
        samples=(Sample(Floats((33, 57), 0.5, 2.0), (33, 57), 0.999), Sample(Floats((5, 7), 0.5, 2.0), (5, 7), 0.95)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the gradient is squared first, or multiplied by 1 - b first",
        seen="torch.optim.Adam (addcmul) against paddle.optimizer.Adam",
    ),
    declare(
        name="bias corrections of Adam",
        operands="m v lr",
        spellings=(
            Spelling("lr * (m / (1 - 0.9**3)) / (paddle.sqrt(v / (1 - 0.999**3)) + 1e-8)"),
            Spelling("(lr / (1 - 0.9**3)) * (m / (paddle.sqrt(v) / math.sqrt(1 - 0.999**3) + 1e-8))"),
            Spelling("(lr * math.sqrt(1 - 0.999**3) / (1 - 0.9**3)) * m / (paddle.sqrt(v) + 1e-8 * math.sqrt(1 - 0.999**3))"),
        ),
        samples=(Sample((33, 57), Floats((33, 57), 0.5, 2.0), 0.001), Sample((5, 7), Floats((5, 7), 0.5, 2.0), 0.01)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the corrections divide the moments, or the learning rate and epsilon",
        seen="torch.optim.Adam against paddle.optimizer.Adam and TensorFlow's",
    ),
    declare(
        name="root of Adam's corrected second moment",
        operands="v c",
        spellings=(
            Spelling("paddle.sqrt(v) / math.sqrt(c)"),
            Spelling("paddle.sqrt(v / c)"),
        ),
        samples=(Sample(Floats((33, 57), 0.5, 2.0), 0.003), Sample(Floats((5, 7), 0.5, 2.0), 0.3)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the quotient is rounded before the root, or behind it",
        seen="torch.optim.Adam against Adam as its paper writes it",
    ),
    declare(
        name="Adam's step with decoupled decay",
        operands="w m d lr wd c",
        spellings=(
            Spelling("w * (1 - lr * wd) + (-lr / c) * m / d"),
            Spelling("w - lr * ((m / c) / d + wd * w)"),
            Spelling("w - lr * ((m / c) / d) - lr * wd * w"),
            Spelling("w * (1 - lr * wd) - lr * ((m / c) / d)"),
        ),
        samples=(
            Sample((33, 57), (33, 57), Floats((33, 57), 0.5, 2.0), 0.001, 0.1, 0.271),
            Sample((5, 7), (5, 7), Floats((5, 7), 0.5, 2.0), 0.01, 0.3, 0.19),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the learning rate and the correction multiply the moment, or the quotient; the decay is a factor or a term",
        seen="torch.optim.AdamW against AdamW as its paper writes it",
    ),
    declare(
        name="Adam's step",
        operands="w m d lr c",
        spellings=(
            Spelling("w + (-lr / c) * m / d"),
            Spelling("w - lr * ((m / c) / d)"),
            Spelling("w - lr / c * (m / d)"),
            Spelling("w - lr * (m / c) / d"),
        ),
        samples=(
            Sample((33, 57), (33, 57), Floats((33, 57), 0.5, 2.0), 0.001, 0.271),
            Sample((5, 7), (5, 7), Floats((5, 7), 0.5, 2.0), 0.01, 0.19),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the learning rate and the correction multiply the moment, or the quotient",
        seen="torch.optim.Adam against Adam as its paper writes it",
    ),
    declare(
        name="weight updated in 16 bits or in float32",
        operands="w u lr",
        spellings=(
            Spelling("w - lr * u"),
            Spelling('(w.astype("float32") - lr * u.astype("float32")).astype(w.dtype)'),
        ),
        samples=(Sample((33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), 0.3)),
        differs={"bfloat16": FORWARD},
        why="lr * u is rounded to 16 bits before it is subtracted",
        seen="multi_precision=True of paddle.optimizer",
    ),
    declare(
        name="gradient of micro-batches",
        operands="x w",
        spellings=(
            Spelling("paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0]"),
            Spelling(
                "a, b = x.chunk(2, 0)\n"
                "g = paddle.grad((paddle.matmul(a, w) ** 2).mean() / 2, w)[0]\n"
                "g + paddle.grad((paddle.matmul(b, w) ** 2).mean() / 2, w)[0]"
            ),
        ),
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
        why="each micro-batch's gradient is rounded before they are added",
        seen="gradient_accumulation_steps: transformers #24725, huggingface/blog #2414",
    ),
    declare(
        name="loss or gradient divided by the number of micro-batches",
        operands="x w",
        spellings=(
            Spelling("paddle.grad((paddle.matmul(x, w) ** 2).mean() / 3, w)[0]"),
            Spelling("paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0] / 3"),
        ),
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
        why="1 / n is rounded at the beginning of the backward, or the gradient at its end",
        seen="LaTeX-OCR #148",
    ),
    declare(
        name="loss scaled by a number that is no power of two",
        operands="x w",
        spellings=(
            Spelling("paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0]"),
            Spelling("paddle.grad((paddle.matmul(x, w) ** 2).mean() * 1000.0, w)[0] / 1000.0"),
        ),
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
        why="the scale is rounded in each step of the backward",
        seen="static loss scales of 1000",
    ),
    declare(
        name="gradients accumulated in 16 bits or in float32",
        operands="a b c d",
        spellings=(
            Spelling("a + b + c + d"),
            Spelling('(a.astype("float32") + b.astype("float32") + c.astype("float32") + d.astype("float32")).astype(a.dtype)'),
        ),
        differs={"bfloat16": FORWARD},
        why="each addition is rounded to 16 bits, or the sum alone",
        seen="main_grad of PaddleFormers (transformers/fp8_utils.py) and Megatron-LM",
    ),
    declare(
        name="order of a sum over ranks",
        operands="a b c d",
        spellings=(
            Spelling("a + b + c + d"),
            Spelling("(a + b) + (c + d)"),
        ),
        differs={"float32": FORWARD, "bfloat16": FORWARD},
        why="a ring adds one rank after another, a tree adds pairs",
        seen="all-reduce by a ring or a tree: nccl #855 and #1055",
    ),
    declare(
        name="mean over ranks",
        operands="a b c",
        spellings=(
            Spelling("(a + b + c) / 3"),
            Spelling("a / 3 + b / 3 + c / 3"),
        ),
        differs={"float32": FORWARD, "bfloat16": FORWARD},
        why="the sum is divided, or each rank's gradient before the sum",
        seen="DistributedDataParallel of Torch divides first",
    ),
    declare(
        name="momentum with the learning rate inside",
        operands="w m g lr",
        spellings=(
            Spelling("w - lr * (m * 0.9 + g)"),
            Spelling("w - (lr * 0.9 * m + lr * g)"),
        ),
        samples=(Sample((33, 57), (33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), (5, 7), 0.3)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the learning rate multiplies the sum, or each term",
        seen="Caffe's and TensorFlow's SGD against Torch's",
    ),
    declare(
        name="loss of a sequence in parts",
        operands="x t",
        spellings=(
            Spelling('F.cross_entropy(x, t, reduction="sum") / t.shape[0]'),
            Spelling(
                "n = t.shape[0] // 2\n"
                '(F.cross_entropy(x[:n], t[:n], reduction="sum") + F.cross_entropy(x[n:], t[n:], reduction="sum")) / '
                "t.shape[0]"
            ),
        ),
        samples=(Sample((66, 57), Ints((66,), 0, 57)), Sample((6, 7), Ints((6,), 0, 7))),
        may_differ={"float32": FORWARD, "bfloat16": FORWARD},
        why="the parts are rounded before they are added",
        seen="chunked cross entropy: PaddleFormers nn/criterion/loss_utils.py",
    ),
)
