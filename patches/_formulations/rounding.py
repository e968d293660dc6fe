"""Where it is rounded: casts, scales, divisions, roots and exponents."""

from __future__ import annotations

from padiff_shim.table.formulation import BOTH, FORWARD, GRADIENT, ROUNDING, Formulation, Spelling, declaring
from padiff_shim.table.samples import Floats, Sample

declare = declaring(ROUNDING)

FORMULATIONS: tuple[Formulation, ...] = (
    declare(
        name="RMSNorm: the cast and the weight",
        operands="x w",
        spellings=(
            Spelling('y = x.astype("float32")\ny = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\ny.astype(x.dtype) * w'),
            Spelling(
                'y = x.astype("float32")\n'
                "y = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\n"
                '(y * w.astype("float32")).astype(x.dtype)'
            ),
        ),
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": BOTH},
        why="the normalised value is rounded to 16 bits before the weight, or only behind it",
        seen="TransformerEngine #1132; transformers #33133 and #30236; PaddleFormers nn/norm.py",
    ),
    declare(
        name="RMSNorm in 16 bits",
        operands="x w",
        spellings=(
            Spelling('y = x.astype("float32")\ny = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\ny.astype(x.dtype) * w'),
            Spelling("x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w"),
        ),
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": BOTH},
        why="squares, their mean and the root are each rounded to 16 bits, or kept in float32",
        seen="transformers #25421; apex #1652",
    ),
    declare(
        name="RMSNorm: multiplied by rsqrt or divided by sqrt",
        operands="x",
        spellings=(
            Spelling("x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)"),
            Spelling("x / paddle.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the reciprocal root is rounded before it multiplies; a division rounds once",
        seen="Llama's reference code against T5's",
    ),
    declare(
        name="norm with the weight of one plus",
        operands="y w",
        spellings=(
            Spelling('(y.astype("float32") * (1.0 + w.astype("float32"))).astype(y.dtype)'),
            Spelling("y * (1.0 + w)"),
            Spelling("y + y * w"),
        ),
        samples=(Sample((33, 57), Floats((57,), -0.3, 0.3)), Sample((5, 7), Floats((7,), -0.3, 0.3))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="1 + w loses digits of a small w in 16 bits; y + y * w rounds the product instead",
        seen="PaddleFormers transformers/gemma3_text/modeling.py",
    ),
    declare(
        name="softmax in float32",
        operands="x",
        spellings=(
            Spelling("F.softmax(x, -1)"),
            Spelling('F.softmax(x.astype("float32"), -1).astype(x.dtype)'),
            Spelling('F.softmax(x, -1, dtype="float32").astype(x.dtype)'),
        ),
        differs={"bfloat16": GRADIENT},
        why="the kernel computes in float32 in any case, but its backward reads probabilities that are rounded to 16 bits",
        seen="PaddleFormers nn/attention/eager_attention.py",
    ),
    declare(
        name="probabilities in float32 beside the values",
        operands="s v",
        spellings=(
            Spelling('paddle.matmul(F.softmax(s.astype("float32"), -1).astype(v.dtype), v)'),
            Spelling('paddle.matmul(F.softmax(s.astype("float32"), -1), v.astype("float32")).astype(v.dtype)'),
        ),
        samples=(Sample((4, 33, 29), (4, 29, 80)), Sample((2, 5, 6), (2, 6, 8))),
        differs={"bfloat16": BOTH},
        why="probabilities are rounded to 16 bits before they meet the values, or not",
        seen="flash attention against eager attention: PyTorch #151912",
    ),
    declare(
        name="mask added in 16 bits",
        operands="s m",
        spellings=(
            Spelling('F.softmax(s.astype("float32") + m.astype("float32"), -1).astype(s.dtype)'),
            Spelling('F.softmax((s + m).astype("float32"), -1).astype(s.dtype)'),
        ),
        samples=(Sample((4, 33, 29), (4, 33, 29)), Sample((2, 5, 6), (2, 5, 6))),
        differs={"bfloat16": BOTH},
        why="the sum of score and mask is rounded to 16 bits before the softmax",
        seen="transformers' eager attention; Megatron-LM's attention_softmax_in_fp32",
    ),
    declare(
        name="scale of attention",
        operands="q k",
        spellings=(
            Spelling("paddle.matmul(q, k, transpose_y=True) * q.shape[-1] ** -0.5"),
            Spelling("paddle.matmul(q * q.shape[-1] ** -0.5, k, transpose_y=True)"),
            Spelling(
                "paddle.matmul(q * q.shape[-1] ** -0.25, k * k.shape[-1] ** -0.25, transpose_y=True)",
                "torch.matmul(q * q.shape[-1] ** -0.25, (k * k.shape[-1] ** -0.25).mT)",
            ),
            Spelling("paddle.matmul(q, k, transpose_y=True) / math.sqrt(q.shape[-1])"),
        ),
        samples=(Sample((2, 4, 33, 80), (2, 4, 33, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="scores are rounded after the scale or before it, and the scale divides or multiplies; both roots round twice",
        seen="PaddleFormers transformers/ofa_utils.py against nn/attention/eager_attention.py; Whisper scales both",
    ),
    declare(
        name="division by a number",
        operands="x c",
        spellings=(
            Spelling("x / c"),
            Spelling("x * (1 / c)"),
        ),
        samples=(Sample((33, 57), 3.0), Sample((5, 7), 49.0)),
        differs={"float32": BOTH},
        why="1 / c is rounded itself",
        seen="PaddleFormers trainer; PyTorch's own div against mul",
    ),
    declare(
        name="division by a tensor",
        operands="x y",
        spellings=(
            Spelling("x / y"),
            Spelling("x * (1 / y)"),
            Spelling("x * paddle.reciprocal(y)"),
        ),
        samples=(Sample((33, 57), Floats((33, 1), 0.5, 2.0)), Sample((5, 7), Floats((5, 1), 0.5, 2.0))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the reciprocal is rounded itself",
        seen="ports of Keras",
    ),
    declare(
        name="one by the root",
        operands="x",
        spellings=(
            Spelling("paddle.rsqrt(x)"),
            Spelling("1 / paddle.sqrt(x)"),
            Spelling("x ** -0.5"),
            Spelling("paddle.sqrt(1 / x)"),
        ),
        samples=(Sample((33, 57), positive=True), Sample((5, 7), positive=True)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="two steps round twice; the power's backward is another formula",
        seen="Llama, T5, Gemma",
    ),
    declare(
        name="rotation in float32",
        operands="q c s",
        spellings=(
            Spelling("a, b = q.chunk(2, -1)\nq * c + paddle.concat([-b, a], -1) * s"),
            Spelling(
                'x, y, z = q.astype("float32"), c.astype("float32"), s.astype("float32")\n'
                "a, b = x.chunk(2, -1)\n"
                "(x * y + paddle.concat([-b, a], -1) * z).astype(q.dtype)"
            ),
        ),
        samples=(
            Sample((4, 33, 80), Floats((33, 80), -1.0, 1.0), Floats((33, 80), -1.0, 1.0)),
            Sample((2, 5, 8), Floats((5, 8), -1.0, 1.0), Floats((5, 8), -1.0, 1.0)),
        ),
        differs={"bfloat16": BOTH},
        why="each product and the sum are rounded to 16 bits, or the result alone",
        seen="PaddleFormers transformers/llama/modeling.py:65; transformers models/llama/modeling_llama.py:166",
    ),
    declare(
        name="router in float32",
        operands="x w",
        spellings=(
            Spelling('F.softmax(F.linear(x, w).astype("float32"), -1)'),
            Spelling(
                'F.softmax(F.linear(x.astype("float32"), w.astype("float32")), -1)',
                "F.softmax(F.linear(x.to(torch.float32), w.to(torch.float32).t().contiguous()), -1)",
            ),
        ),
        samples=(Sample((33, 80), (80, 8)), Sample((5, 8), (8, 4))),
        differs={"bfloat16": BOTH},
        why="the product is rounded to 16 bits before the softmax, or the router computes in float32",
        seen="PaddleFormers nn/moe_deepep/moe_gate.py; Megatron-LM's moe_router_dtype",
    ),
    declare(
        name="choice before or after the softmax",
        operands="x",
        spellings=(
            Spelling("p = paddle.topk(F.softmax(x, -1), 2)[0]\np / p.sum(-1, keepdim=True)"),
            Spelling("F.softmax(paddle.topk(x, 2)[0], -1)"),
        ),
        samples=(Sample((33, 8)), Sample((5, 4))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="another sum of exponentials is divided by, and the division by the sum of the chosen comes behind",
        seen="Qwen3-MoE's norm_topk_prob against Mixtral's",
    ),
    declare(
        name="normalisation of the chosen weights in float64",
        operands="p",
        spellings=(
            Spelling("p / p.sum(-1, keepdim=True)"),
            Spelling('q = p.astype("float64")\n(q / q.sum(-1, keepdim=True)).astype(p.dtype)'),
        ),
        samples=(Sample((33, 8), positive=True), Sample((5, 4), positive=True)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="float64 rounds once at the end",
        seen="routers of PaddleFleet against Megatron-LM",
    ),
    declare(
        name="routing weights in 16 bits",
        operands="y s",
        spellings=(
            Spelling('p = F.softmax(s.astype("float32"), -1)\n(y.astype("float32") * p).astype(y.dtype)'),
            Spelling('p = F.softmax(s.astype("float32"), -1)\ny * p.astype(y.dtype)'),
        ),
        differs={"bfloat16": BOTH},
        why="the routing weight is rounded to 16 bits before it multiplies",
        seen="PaddleFormers transformers/qwen3_moe/modeling.py:347",
    ),
    declare(
        name="routing weight before or behind the second product",
        operands="h p w",
        spellings=(
            Spelling("paddle.matmul(h, w) * p"),
            Spelling("paddle.matmul(h * p, w)"),
        ),
        samples=(Sample((33, 80), Floats((33, 1), 0.0, 1.0), (80, 57)), Sample((5, 8), Floats((5, 1), 0.0, 1.0), (8, 7))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the weight multiplies each operand of a sum, or the sum",
        seen="Megatron-LM's moe_apply_probs_on_input",
    ),
    declare(
        name="residual stream in float32",
        operands="x a m",
        spellings=(
            Spelling("x + a + m"),
            Spelling('(x.astype("float32") + a.astype("float32") + m.astype("float32")).astype(x.dtype)'),
        ),
        differs={"bfloat16": FORWARD},
        why="each sum is rounded to 16 bits, or only the last",
        seen="Megatron-LM's fp32_residual_connection",
    ),
    declare(
        name="soft cap in float32",
        operands="x",
        spellings=(
            Spelling("paddle.tanh(x / 30.0) * 30.0"),
            Spelling('(paddle.tanh(x.astype("float32") / 30.0) * 30.0).astype(x.dtype)'),
        ),
        samples=(Sample((33, 57), within=(-60.0, 60.0)), Sample((5, 7), within=(-60.0, 60.0))),
        differs={"bfloat16": BOTH},
        why="the quotient and the hyperbolic tangent are rounded to 16 bits, or the result alone",
        seen="transformers models/gemma2",
    ),
    declare(
        name="sum in float64",
        operands="x",
        spellings=(
            Spelling("x.sum()"),
            Spelling('x.astype("float64").sum().astype(x.dtype)'),
        ),
        may_differ={"float32": FORWARD},
        why="float64 rounds once at the end",
        seen="Megatron-LM's and PaddleFormers' logging of losses",
    ),
    declare(
        name="mean of 16 bits in float32",
        operands="x",
        spellings=(
            Spelling("((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)"),
            Spelling('y = x.astype("float32")\n((y - y.mean(-1, keepdim=True)) ** 2).mean(-1).astype(x.dtype)'),
        ),
        differs={"bfloat16": BOTH},
        why="mean and differences are rounded to 16 bits, or kept in float32",
        seen="T5 and Gemma norms in ports",
    ),
    declare(
        name="cube",
        operands="x",
        spellings=(
            Spelling("x.pow(3)"),
            Spelling("x * x * x"),
        ),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
        why="the backward of a power is 3 * x ** 2, that of a product adds three parts",
        seen="GELU by tanh: paddlenlp transformers/activations.py",
    ),
    declare(
        name="decay of two steps",
        operands="a b",
        spellings=(
            Spelling("paddle.exp(a) * paddle.exp(b)"),
            Spelling("paddle.exp(a + b)"),
        ),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="each exponential is rounded before the product, or the sum before the exponential",
        seen="Mamba's and RWKV's decays",
    ),
    declare(
        name="number before or behind a product of three",
        operands="x y c",
        spellings=(
            Spelling("c * x * y"),
            Spelling("x * y * c"),
            Spelling("x * (y * c)"),
        ),
        samples=(Sample((33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), 0.7)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="another product is rounded in between",
        seen="focal loss, gates of LSTM",
    ),
    declare(
        name="straight-through estimator",
        operands="x y",
        spellings=(
            Spelling("x + (y - x).detach()"),
            Spelling("y.detach() + (x - x.detach())"),
        ),
        differs={"float32": FORWARD, "bfloat16": FORWARD},
        why="x + (y - x) is rounded twice and is not y",
        seen="transformers models/dac/modeling_dac.py",
    ),
    declare(
        name="mixture of two",
        operands="x y g",
        spellings=(
            Spelling("g * x + (1 - g) * y"),
            Spelling("y + g * (x - y)"),
        ),
        samples=(Sample((33, 57), (33, 57), Floats((33, 57), 0.0, 1.0)), Sample((5, 7), (5, 7), Floats((5, 7), 0.0, 1.0))),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="1 - g is rounded, or the difference is",
        seen="highway and GRU gates",
    ),
    declare(
        name="classifier-free guidance",
        operands="u t c",
        spellings=(
            Spelling("u + c * (t - u)"),
            Spelling("(1 - c) * u + c * t"),
        ),
        samples=(Sample((33, 57), (33, 57), 7.5), Sample((5, 7), (5, 7), 3.0)),
        differs={"float32": BOTH, "bfloat16": BOTH},
        why="the difference is rounded, or both products are",
        seen="diffusers against other samplers",
    ),
    declare(
        name="LayerNorm in float32",
        operands="x w b",
        spellings=(
            Spelling("F.layer_norm(x, w.shape, w, b)"),
            Spelling('F.layer_norm(x.astype("float32"), w.shape, w.astype("float32"), b.astype("float32")).astype(x.dtype)'),
        ),
        samples=(Sample((33, 57), (57,), (57,)), Sample((5, 7), (7,), (7,))),
        may_differ={"bfloat16": GRADIENT},
        why="the backward of the kernel in 16 bits keeps fewer digits of what lies between",
        seen="Megatron-LM's LayerNorm in float32",
    ),
)
