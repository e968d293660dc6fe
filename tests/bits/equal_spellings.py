"""Lines that people take for different, and that are equal bit for bit: rows of docs/formulations.md, each held by a test."""

from padiff_shim.table.formulation import BACKWARD, FUSED, NUMBERS, ROUNDING, TRAINING, Formulation, Spelling, declaring
from padiff_shim.table.samples import Floats, Ints, Sample

EQUAL: tuple[Formulation, ...] = (
    declaring(ROUNDING)(
        name="scale of attention, head size 64",
        operands="q k",
        spellings=(
            Spelling("paddle.matmul(q, k, transpose_y=True) * 0.125"),
            Spelling("paddle.matmul(q * 0.125, k, transpose_y=True)"),
            Spelling("paddle.matmul(q, k, transpose_y=True) / 8.0"),
        ),
        samples=(Sample((2, 4, 33, 64), (2, 4, 33, 64)), Sample((1, 2, 5, 64), (1, 2, 6, 64))),
        why="the scale is a power of two, which moves the exponent and rounds nothing",
        seen="people expect the difference of other head sizes",
    ),
    declaring(ROUNDING)(
        name="rotation of halves",
        operands="q c s",
        spellings=(
            Spelling("a, b = q.chunk(2, -1)\npaddle.concat([a * c - b * s, b * c + a * s], -1)"),
            Spelling(
                "a, b = q.chunk(2, -1)\nq * paddle.concat([c, c], -1) + paddle.concat([-b, a], -1) * paddle.concat([s, s], -1)"
            ),
        ),
        samples=(
            Sample((4, 33, 80), Floats((33, 40), -1.0, 1.0), Floats((33, 40), -1.0, 1.0)),
            Sample((2, 5, 8), Floats((5, 4), -1.0, 1.0), Floats((5, 4), -1.0, 1.0)),
        ),
        why="the products and sums of both are the same pairs",
        seen="PaddleFormers' rotate_half against GPT-NeoX's",
    ),
    declaring(ROUNDING)(
        name="square",
        operands="x",
        spellings=(
            Spelling("x.pow(2)"),
            Spelling("x * x"),
            Spelling("paddle.square(x)"),
        ),
        why="all three are one multiplication",
    ),
    declaring(ROUNDING)(
        name="GELU in float32",
        operands="x",
        spellings=(
            Spelling("F.gelu(x)"),
            Spelling('F.gelu(x.astype("float32")).astype(x.dtype)'),
        ),
        why="the kernel computes in float32 in any case, forward and backward",
        seen="PaddleFormers' activations in float32",
    ),
    declaring(ROUNDING)(
        name="sum of two in float32",
        operands="x y",
        spellings=(
            Spelling("x + y"),
            Spelling('(x.astype("float32") + y.astype("float32")).astype(x.dtype)'),
        ),
        why="an addition of two numbers of 16 bits is computed in float32 and rounded once in any case",
    ),
    declaring(FUSED)(
        name="cross entropy and its parts",
        operands="x t",
        spellings=(
            Spelling("F.cross_entropy(x, t)"),
            Spelling("F.nll_loss(F.log_softmax(x, -1), t)"),
        ),
        samples=(Sample((33, 57), Ints((33,), 0, 57)), Sample((5, 7), Ints((5,), 0, 7))),
        why="cross entropy is defined as these two calls",
    ),
    declaring(FUSED)(
        name="cosine of two vectors",
        operands="x y",
        spellings=(
            Spelling("F.cosine_similarity(x, y, axis=-1)"),
            Spelling("(F.normalize(x, axis=-1) * F.normalize(y, axis=-1)).sum(-1)"),
        ),
        why="the one call divides both vectors first, as well",
    ),
    declaring(FUSED)(
        name="square of a ReLU",
        operands="x",
        spellings=(
            Spelling("F.relu(x).square()"),
            Spelling("F.relu(x) * F.relu(x)"),
        ),
        why="both backwards are 2 * x * g of the same numbers",
    ),
    declaring(FUSED)(
        name="SwiGLU in one call",
        operands="x y",
        spellings=(
            Spelling("F.swiglu(x, y)", "F.silu(x) * y"),
            Spelling("F.silu(x) * y"),
        ),
        why="Paddle's call rounds silu before the product, as two calls do",
        seen="PaddleFormers nn/mlp.py (paddle.incubate.nn.functional.swiglu)",
    ),
    declaring(BACKWARD)(
        name="order of two readers",
        operands="x u v",
        spellings=(
            Spelling("a = x * u\nb = x * v\na, b"),
            Spelling("b = x * v\na = x * u\na, b"),
        ),
        why="two gradients have one sum, whichever comes first",
    ),
    declaring(BACKWARD)(
        name="split or slices",
        operands="x",
        spellings=(
            Spelling(
                "a, b, c = x.split(3, -1)\na * b + c",
                "a, b, c = x.tensor_split(3, -1)\na.contiguous() * b.contiguous() + c.contiguous()",
            ),
            Spelling("n = x.shape[-1] // 3\nx[:, :n] * x[:, n : 2 * n] + x[:, 2 * n :]"),
        ),
        samples=(Sample((33, 57)), Sample((5, 9))),
        why="the parts of a gradient are put side by side, and added to zeros at most",
    ),
    declaring(BACKWARD)(
        name="broadcast scale, expanded before the product",
        operands="x w",
        spellings=(
            Spelling("x * w"),
            Spelling("x * w.expand(x.shape)"),
        ),
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        why="the backward sums over the same rows",
    ),
    declaring(NUMBERS)(
        name="what fills masked places",
        operands="x",
        spellings=(
            Spelling(
                'm = paddle.triu(paddle.ones([33, 33], "bool"), 1)\n'
                'F.softmax(paddle.where(m, paddle.full_like(x, -float("inf")), x), -1)'
            ),
            Spelling(
                'm = paddle.triu(paddle.ones([33, 33], "bool"), 1)\n'
                "F.softmax(paddle.where(m, paddle.full_like(x, -10000.0), x), -1)"
            ),
        ),
        samples=(Sample((4, 33, 33)), Sample((2, 33, 33))),
        why="the exponential of both is 0, if scores are of ordinary size",
        seen="transformers' finfo.min, paddlenlp's -1e4",
    ),
    declaring(TRAINING)(
        name="loss scaled by a power of two",
        operands="x w",
        spellings=(
            Spelling("paddle.grad((paddle.matmul(x, w) ** 2).mean(), w)[0]"),
            Spelling("paddle.grad((paddle.matmul(x, w) ** 2).mean() * 1024.0, w)[0] * (1 / 1024.0)"),
        ),
        samples=(Sample((66, 80), (80, 57)), Sample((6, 8), (8, 7))),
        why="a power of two moves exponents and rounds nothing, as long as nothing overflows or underflows",
        seen="paddle.amp.GradScaler",
    ),
    declaring(TRAINING)(
        name="step with the sign in the number",
        operands="w u lr",
        spellings=(
            Spelling("w - lr * u"),
            Spelling("w + (-lr) * u"),
        ),
        samples=(Sample((33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), 0.3)),
        why="a sign rounds nothing",
    ),
)
