"""Lines that people take for different, and that are equal bit for bit: rows of docs/formulations.md, each held by a test."""

from functools import partial

from formulations.declared import Declared, declaring

from padiff_shim.proof.bits.formulation import BACKWARD, FUSED, NUMBERS, ROUNDING, TRAINING
from padiff_shim.table.samples import Floats, Ints, Sample


def equal(cause):
    """Declares formulations of a cause that have the same bits."""
    return partial(declaring(cause), differs={})


EQUAL: tuple[Declared, ...] = (
    equal(ROUNDING)(
        "scale of attention, head size 64",
        "q k",
        "paddle.matmul(q, k, transpose_y=True) * 0.125",
        "paddle.matmul(q * 0.125, k, transpose_y=True)",
        "paddle.matmul(q, k, transpose_y=True) / 8.0",
        samples=(Sample((2, 4, 33, 64), (2, 4, 33, 64)), Sample((1, 2, 5, 64), (1, 2, 6, 64))),
    ).because(
        "the scale is a power of two, which moves the exponent and rounds nothing",
        "people expect the difference of other head sizes",
    ),
    equal(ROUNDING)(
        "rotation of halves",
        "q c s",
        "a, b = q.chunk(2, -1)\npaddle.concat([a * c - b * s, b * c + a * s], -1)",
        "a, b = q.chunk(2, -1)\nq * paddle.concat([c, c], -1) + paddle.concat([-b, a], -1) * paddle.concat([s, s], -1)",
        samples=(
            Sample((4, 33, 80), Floats((33, 40), -1.0, 1.0), Floats((33, 40), -1.0, 1.0)),
            Sample((2, 5, 8), Floats((5, 4), -1.0, 1.0), Floats((5, 4), -1.0, 1.0)),
        ),
    ).because("the products and sums of both are the same pairs", "PaddleFormers' rotate_half against GPT-NeoX's"),
    equal(ROUNDING)("square", "x", "x.pow(2)", "x * x", "paddle.square(x)").because("all three are one multiplication"),
    equal(ROUNDING)("GELU in float32", "x", "F.gelu(x)", 'F.gelu(x.astype("float32")).astype(x.dtype)').because(
        "the kernel computes in float32 in any case, forward and backward", "PaddleFormers' activations in float32"
    ),
    equal(ROUNDING)("sum of two in float32", "x y", "x + y", '(x.astype("float32") + y.astype("float32")).astype(x.dtype)').because(
        "an addition of two numbers of 16 bits is computed in float32 and rounded once in any case"
    ),
    equal(FUSED)(
        "cross entropy and its parts",
        "x t",
        "F.cross_entropy(x, t)",
        "F.nll_loss(F.log_softmax(x, -1), t)",
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
    ).because("cross entropy is defined as these two calls"),
    equal(FUSED)(
        "cosine of two vectors",
        "x y",
        "F.cosine_similarity(x, y, axis=-1)",
        "(F.normalize(x, axis=-1) * F.normalize(y, axis=-1)).sum(-1)",
    ).because("the one call divides both vectors first, as well"),
    equal(FUSED)("square of a ReLU", "x", "F.relu(x).square()", "F.relu(x) * F.relu(x)").because(
        "both backwards are 2 * x * g of the same numbers"
    ),
    equal(FUSED)("SwiGLU in one call", "x y", ("F.swiglu(x, y)", "F.silu(x) * y"), "F.silu(x) * y").because(
        "Paddle's call rounds silu before the product, as two calls do",
        "PaddleFormers nn/mlp.py (paddle.incubate.nn.functional.swiglu)",
    ),
    equal(BACKWARD)("order of two readers", "x u v", "a = x * u\nb = x * v\na, b", "b = x * v\na = x * u\na, b").because(
        "two gradients have one sum, whichever comes first"
    ),
    equal(BACKWARD)(
        "split or slices",
        "x",
        (
            "a, b, c = x.split(3, -1)\na * b + c",
            "a, b, c = x.tensor_split(3, -1)\na.contiguous() * b.contiguous() + c.contiguous()",
        ),
        "n = x.shape[-1] // 3\nx[:, :n] * x[:, n : 2 * n] + x[:, 2 * n :]",
        samples=(Sample((33, 57)), Sample((5, 9))),
    ).because("the parts of a gradient are put side by side, and added to zeros at most"),
    equal(BACKWARD)(
        "broadcast scale, expanded before the product",
        "x w",
        "x * w",
        "x * w.expand(x.shape)",
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
    ).because("the backward sums over the same rows"),
    equal(NUMBERS)(
        "what fills masked places",
        "x",
        'm = paddle.triu(paddle.ones([33, 33], "bool"), 1)\nF.softmax(paddle.where(m, paddle.full_like(x, -float("inf")), x), -1)',
        'm = paddle.triu(paddle.ones([33, 33], "bool"), 1)\nF.softmax(paddle.where(m, paddle.full_like(x, -10000.0), x), -1)',
        samples=(Sample((4, 33, 33)), Sample((2, 33, 33))),
    ).because("the exponential of both is 0, if scores are of ordinary size", "transformers' finfo.min, paddlenlp's -1e4"),
    equal(TRAINING)(
        "loss scaled by a power of two",
        "x w",
        "paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0]",
        "paddle.grad((paddle.matmul(x, w) ** 2).mean() * 1024.0, w)[0] * (1 / 1024.0)",
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
    ).because(
        "a power of two moves exponents and rounds nothing, as long as nothing overflows or underflows", "paddle.amp.GradScaler"
    ),
    equal(TRAINING)(
        "step with the sign in the number",
        "w u lr",
        "w - lr * u",
        "w + (-lr) * u",
        samples=(Sample((33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), 0.3)),
    ).because("a sign rounds nothing"),
)
