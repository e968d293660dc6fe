"""Optimizers, clipping, and accumulation over micro-batches and ranks."""

from __future__ import annotations

from padiff_shim.proof.bits.formulation import BOTH, FORWARD, TRAINING
from padiff_shim.table.samples import Floats, Ints, Sample

from .declared import Declared, declaring

declare = declaring(TRAINING)

FORMULATIONS: tuple[Declared, ...] = (
    declare(
        "global norm of several gradients",
        "a b c",
        "paddle.linalg.norm(paddle.stack([paddle.linalg.norm(g.flatten(), 2) for g in (a, b, c)]), 2)",
        "paddle.sqrt(paddle.stack([(g * g).sum() for g in (a, b, c)]).sum())",
        "paddle.linalg.norm(paddle.concat([g.flatten() for g in (a, b, c)]), 2)",
        samples=(Sample((33, 57), (57,), (57, 24)), Sample((5, 7), (7,), (7, 4))),
        differs={"bfloat16": BOTH},
        may_differ={"float32": BOTH},
    ).because(
        "squares are summed over all elements, or norms are rounded and squared again",
        "PyTorch #133406; PaddleFormers trainer/trainer.py (ClipGradByGlobalNorm)",
    ),
    declare(
        "clipped gradient",
        "g n c",
        "g * (c / n)",
        "g * c / n",
        "g / (n / c)",
        samples=(Sample((33, 57), Floats((1,), 3.0, 9.0), 0.7), Sample((5, 7), Floats((1,), 3.0, 9.0), 1.5)),
    ).because(
        "the quotient is rounded first, or the product", "torch.nn.utils.clip_grad_norm_ against paddle.nn.ClipGradByGlobalNorm"
    ),
    declare(
        "decoupled weight decay",
        "w u lr wd",
        "w * (1 - lr * wd) - lr * u",
        "w - lr * (u + wd * w)",
        "w - lr * wd * w - lr * u",
        samples=(Sample((33, 57), (33, 57), 0.001, 0.1), Sample((5, 7), (5, 7), 0.01, 0.3)),
        differs={"float32": BOTH, "bfloat16": FORWARD},
    ).because(
        "1 - lr * wd is rounded, or the decay is a term of the sum",
        "torch.optim.AdamW against AdamW of transformers and paddle.optimizer",
    ),
    declare(
        "moving average",
        "m g b",
        "m * b + g * (1 - b)",
        "m + (g - m) * (1 - b)",
        ("paddle.lerp(m, g, 1 - b)", "torch.lerp(m, g, torch.full([], 1 - b, dtype=m.dtype))"),
        samples=(Sample((33, 57), (33, 57), 0.9), Sample((5, 7), (5, 7), 0.99)),
    ).because(
        "1 - b multiplies the gradient or the difference; a number of lerp is rounded to the tensors' dtype",
        "Adam's first moment: torch.optim against optax; EMA of diffusers",
    ),
    declare(
        "second moment",
        "v g b",
        "v * b + (1 - b) * (g * g)",
        "v * b + (1 - b) * g * g",
        "v + (g * g - v) * (1 - b)",
        samples=(Sample(Floats((33, 57), 0.5, 2.0), (33, 57), 0.999), Sample(Floats((5, 7), 0.5, 2.0), (5, 7), 0.95)),
    ).because(
        "the gradient is squared first, or multiplied by 1 - b first", "torch.optim.Adam (addcmul) against paddle.optimizer.Adam"
    ),
    declare(
        "bias corrections of Adam",
        "m v lr",
        "lr * (m / (1 - 0.9**3)) / (paddle.sqrt(v / (1 - 0.999**3)) + 1e-8)",
        "(lr / (1 - 0.9**3)) * (m / (paddle.sqrt(v) / math.sqrt(1 - 0.999**3) + 1e-8))",
        "(lr * math.sqrt(1 - 0.999**3) / (1 - 0.9**3)) * m / (paddle.sqrt(v) + 1e-8 * math.sqrt(1 - 0.999**3))",
        samples=(Sample((33, 57), Floats((33, 57), 0.5, 2.0), 0.001), Sample((5, 7), Floats((5, 7), 0.5, 2.0), 0.01)),
    ).because(
        "the corrections divide the moments, or the learning rate and epsilon",
        "torch.optim.Adam against paddle.optimizer.Adam and TensorFlow's",
    ),
    declare(
        "root of Adam's corrected second moment",
        "v c",
        "paddle.sqrt(v) / math.sqrt(c)",
        "paddle.sqrt(v / c)",
        samples=(Sample(Floats((33, 57), 0.5, 2.0), 0.003), Sample(Floats((5, 7), 0.5, 2.0), 0.3)),
    ).because("the quotient is rounded before the root, or behind it", "torch.optim.Adam against Adam as its paper writes it"),
    declare(
        "Adam's step with decoupled decay",
        "w m d lr wd c",
        "w * (1 - lr * wd) + (-lr / c) * m / d",
        "w - lr * ((m / c) / d + wd * w)",
        "w - lr * ((m / c) / d) - lr * wd * w",
        "w * (1 - lr * wd) - lr * ((m / c) / d)",
        samples=(
            Sample((33, 57), (33, 57), Floats((33, 57), 0.5, 2.0), 0.001, 0.1, 0.271),
            Sample((5, 7), (5, 7), Floats((5, 7), 0.5, 2.0), 0.01, 0.3, 0.19),
        ),
    ).because(
        "the learning rate and the correction multiply the moment, or the quotient; the decay is a factor or a term",
        "torch.optim.AdamW against AdamW as its paper writes it",
    ),
    declare(
        "Adam's step",
        "w m d lr c",
        "w + (-lr / c) * m / d",
        "w - lr * ((m / c) / d)",
        "w - lr / c * (m / d)",
        "w - lr * (m / c) / d",
        samples=(
            Sample((33, 57), (33, 57), Floats((33, 57), 0.5, 2.0), 0.001, 0.271),
            Sample((5, 7), (5, 7), Floats((5, 7), 0.5, 2.0), 0.01, 0.19),
        ),
    ).because(
        "the learning rate and the correction multiply the moment, or the quotient",
        "torch.optim.Adam against Adam as its paper writes it",
    ),
    declare(
        "weight updated in 16 bits or in float32",
        "w u lr",
        "w - lr * u",
        '(w.astype("float32") - lr * u.astype("float32")).astype(w.dtype)',
        samples=(Sample((33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), 0.3)),
        differs={"bfloat16": FORWARD},
    ).because("lr * u is rounded to 16 bits before it is subtracted", "multi_precision=True of paddle.optimizer"),
    declare(
        "gradient of micro-batches",
        "x w",
        "paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0]",
        "a, b = x.chunk(2, 0)\n"
        "g = paddle.grad((paddle.matmul(a, w) ** 2).mean() / 2, w)[0]\n"
        "g + paddle.grad((paddle.matmul(b, w) ** 2).mean() / 2, w)[0]",
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
    ).because(
        "each micro-batch's gradient is rounded before they are added",
        "gradient_accumulation_steps: transformers #24725, huggingface/blog #2414",
    ),
    declare(
        "loss or gradient divided by the number of micro-batches",
        "x w",
        "paddle.grad((paddle.matmul(x, w) ** 2).mean() / 3, w)[0]",
        "paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0] / 3",
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
    ).because("1 / n is rounded at the beginning of the backward, or the gradient at its end", "LaTeX-OCR #148"),
    declare(
        "loss scaled by a number that is no power of two",
        "x w",
        "paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0]",
        "paddle.grad((paddle.matmul(x, w) ** 2).mean() * 1000.0, w)[0] / 1000.0",
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
    ).because("the scale is rounded in each step of the backward", "static loss scales of 1000"),
    declare(
        "gradients accumulated in 16 bits or in float32",
        "a b c d",
        "a + b + c + d",
        '(a.astype("float32") + b.astype("float32") + c.astype("float32") + d.astype("float32")).astype(a.dtype)',
        differs={"bfloat16": FORWARD},
    ).because(
        "each addition is rounded to 16 bits, or the sum alone",
        "main_grad of PaddleFormers (transformers/fp8_utils.py) and Megatron-LM",
    ),
    declare(
        "order of a sum over ranks",
        "a b c d",
        "a + b + c + d",
        "(a + b) + (c + d)",
        differs={"float32": FORWARD, "bfloat16": FORWARD},
    ).because("a ring adds one rank after another, a tree adds pairs", "all-reduce by a ring or a tree: nccl #855 and #1055"),
    declare(
        "mean over ranks", "a b c", "(a + b + c) / 3", "a / 3 + b / 3 + c / 3", differs={"float32": FORWARD, "bfloat16": FORWARD}
    ).because("the sum is divided, or each rank's gradient before the sum", "DistributedDataParallel of Torch divides first"),
    declare(
        "momentum with the learning rate inside",
        "w m g lr",
        "w - lr * (m * 0.9 + g)",
        "w - (lr * 0.9 * m + lr * g)",
        samples=(Sample((33, 57), (33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), (5, 7), 0.3)),
    ).because("the learning rate multiplies the sum, or each term", "Caffe's and TensorFlow's SGD against Torch's"),
    declare(
        "loss of a sequence in parts",
        "x t",
        'F.cross_entropy(x, t, reduction="sum") / t.shape[0]',
        "n = t.shape[0] // 2\n"
        '(F.cross_entropy(x[:n], t[:n], reduction="sum") + F.cross_entropy(x[n:], t[n:], reduction="sum")) / '
        "t.shape[0]",
        samples=(Sample((66, 57), Ints((66,), 0, 57)), Sample((6, 7), Ints((6,), 0, 7))),
        may_differ={"float32": FORWARD, "bfloat16": FORWARD},
    ).because("the parts are rounded before they are added", "chunked cross entropy: PaddleFormers nn/criterion/loss_utils.py"),
)
