"""Where it is rounded: casts, scales, divisions, roots and exponents."""

from __future__ import annotations

from padiff_shim.proof.bits.formulation import BOTH, FORWARD, GRADIENT, ROUNDING
from padiff_shim.table.samples import Floats, Sample

from .declared import Declared, declaring

declare = declaring(ROUNDING)

FORMULATIONS: tuple[Declared, ...] = (
    declare(
        "RMSNorm: the cast and the weight",
        "x w",
        'y = x.astype("float32")\ny = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\ny.astype(x.dtype) * w',
        'y = x.astype("float32")\n'
        "y = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\n"
        '(y * w.astype("float32")).astype(x.dtype)',
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": BOTH},
    ).because(
        "the normalised value is rounded to 16 bits before the weight, or only behind it",
        "TransformerEngine #1132; transformers #33133 and #30236; PaddleFormers nn/norm.py",
    ),
    declare(
        "RMSNorm in 16 bits",
        "x w",
        'y = x.astype("float32")\ny = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\ny.astype(x.dtype) * w',
        "x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w",
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": BOTH},
    ).because(
        "squares, their mean and the root are each rounded to 16 bits, or kept in float32", "transformers #25421; apex #1652"
    ),
    declare(
        "RMSNorm: multiplied by rsqrt or divided by sqrt",
        "x",
        "x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
        "x / paddle.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
    ).because("the reciprocal root is rounded before it multiplies; a division rounds once", "Llama's reference code against T5's"),
    declare(
        "norm with the weight of one plus",
        "y w",
        '(y.astype("float32") * (1.0 + w.astype("float32"))).astype(y.dtype)',
        "y * (1.0 + w)",
        "y + y * w",
        samples=(Sample((33, 57), Floats((57,), -0.3, 0.3)), Sample((5, 7), Floats((7,), -0.3, 0.3))),
    ).because(
        "1 + w loses digits of a small w in 16 bits; y + y * w rounds the product instead",
        "PaddleFormers transformers/gemma3_text/modeling.py",
    ),
    declare(
        "softmax in float32",
        "x",
        "F.softmax(x, -1)",
        'F.softmax(x.astype("float32"), -1).astype(x.dtype)',
        'F.softmax(x, -1, dtype="float32").astype(x.dtype)',
        differs={"bfloat16": GRADIENT},
    ).because(
        "the kernel computes in float32 in any case, but its backward reads probabilities that are rounded to 16 bits",
        "PaddleFormers nn/attention/eager_attention.py",
    ),
    declare(
        "probabilities in float32 beside the values",
        "s v",
        'paddle.matmul(F.softmax(s.astype("float32"), -1).astype(v.dtype), v)',
        'paddle.matmul(F.softmax(s.astype("float32"), -1), v.astype("float32")).astype(v.dtype)',
        samples=(Sample((4, 33, 29), (4, 29, 80)), Sample((2, 5, 6), (2, 6, 8))),
        differs={"bfloat16": BOTH},
    ).because(
        "probabilities are rounded to 16 bits before they meet the values, or not",
        "flash attention against eager attention: PyTorch #151912",
    ),
    declare(
        "mask added in 16 bits",
        "s m",
        'F.softmax(s.astype("float32") + m.astype("float32"), -1).astype(s.dtype)',
        'F.softmax((s + m).astype("float32"), -1).astype(s.dtype)',
        samples=(Sample((4, 33, 29), (4, 33, 29)), Sample((2, 5, 6), (2, 5, 6))),
        differs={"bfloat16": BOTH},
    ).because(
        "the sum of score and mask is rounded to 16 bits before the softmax",
        "transformers' eager attention; Megatron-LM's attention_softmax_in_fp32",
    ),
    declare(
        "scale of attention",
        "q k",
        "paddle.matmul(q, k, transpose_y=True) * q.shape[-1] ** -0.5",
        "paddle.matmul(q * q.shape[-1] ** -0.5, k, transpose_y=True)",
        (
            "paddle.matmul(q * q.shape[-1] ** -0.25, k * k.shape[-1] ** -0.25, transpose_y=True)",
            "torch.matmul(q * q.shape[-1] ** -0.25, (k * k.shape[-1] ** -0.25).mT)",
        ),
        "paddle.matmul(q, k, transpose_y=True) / math.sqrt(q.shape[-1])",
        samples=(Sample((2, 4, 33, 80), (2, 4, 33, 80)), Sample((1, 2, 5, 8), (1, 2, 6, 8))),
    ).because(
        "scores are rounded after the scale or before it, and the scale divides or multiplies; both roots round twice",
        "PaddleFormers transformers/ofa_utils.py against nn/attention/eager_attention.py; Whisper scales both",
    ),
    declare(
        "division by a number",
        "x c",
        "x / c",
        "x * (1 / c)",
        samples=(Sample((33, 57), 3.0), Sample((5, 7), 49.0)),
        differs={"float32": BOTH},
    ).because("1 / c is rounded itself", "PaddleFormers trainer; PyTorch's own div against mul"),
    declare(
        "division by a tensor",
        "x y",
        "x / y",
        "x * (1 / y)",
        "x * paddle.reciprocal(y)",
        samples=(Sample((33, 57), Floats((33, 1), 0.5, 2.0)), Sample((5, 7), Floats((5, 1), 0.5, 2.0))),
    ).because("the reciprocal is rounded itself", "ports of Keras"),
    declare(
        "one by the root",
        "x",
        "paddle.rsqrt(x)",
        "1 / paddle.sqrt(x)",
        "x ** -0.5",
        "paddle.sqrt(1 / x)",
        samples=(Sample((33, 57), positive=True), Sample((5, 7), positive=True)),
    ).because("two steps round twice; the power's backward is another formula", "Llama, T5, Gemma"),
    declare(
        "rotation in float32",
        "q c s",
        "a, b = q.chunk(2, -1)\nq * c + paddle.concat([-b, a], -1) * s",
        'x, y, z = q.astype("float32"), c.astype("float32"), s.astype("float32")\n'
        "a, b = x.chunk(2, -1)\n"
        "(x * y + paddle.concat([-b, a], -1) * z).astype(q.dtype)",
        samples=(
            Sample((4, 33, 80), Floats((33, 80), -1.0, 1.0), Floats((33, 80), -1.0, 1.0)),
            Sample((2, 5, 8), Floats((5, 8), -1.0, 1.0), Floats((5, 8), -1.0, 1.0)),
        ),
        differs={"bfloat16": BOTH},
    ).because(
        "each product and the sum are rounded to 16 bits, or the result alone",
        "PaddleFormers transformers/llama/modeling.py:65; transformers models/llama/modeling_llama.py:166",
    ),
    declare(
        "router in float32",
        "x w",
        'F.softmax(F.linear(x, w).astype("float32"), -1)',
        (
            'F.softmax(F.linear(x.astype("float32"), w.astype("float32")), -1)',
            "F.softmax(F.linear(x.to(torch.float32), w.to(torch.float32).t().contiguous()), -1)",
        ),
        samples=(Sample((33, 80), (80, 8)), Sample((5, 8), (8, 4))),
        differs={"bfloat16": BOTH},
    ).because(
        "the product is rounded to 16 bits before the softmax, or the router computes in float32",
        "PaddleFormers nn/moe_deepep/moe_gate.py; Megatron-LM's moe_router_dtype",
    ),
    declare(
        "choice before or after the softmax",
        "x",
        "p = paddle.topk(F.softmax(x, -1), 2)[0]\np / p.sum(-1, keepdim=True)",
        "F.softmax(paddle.topk(x, 2)[0], -1)",
        samples=(Sample((33, 8)), Sample((5, 4))),
    ).because(
        "another sum of exponentials is divided by, and the division by the sum of the chosen comes behind",
        "Qwen3-MoE's norm_topk_prob against Mixtral's",
    ),
    declare(
        "normalisation of the chosen weights in float64",
        "p",
        "p / p.sum(-1, keepdim=True)",
        'q = p.astype("float64")\n(q / q.sum(-1, keepdim=True)).astype(p.dtype)',
        samples=(Sample((33, 8), positive=True), Sample((5, 4), positive=True)),
    ).because("float64 rounds once at the end", "routers of PaddleFleet against Megatron-LM"),
    declare(
        "routing weights in 16 bits",
        "y s",
        'p = F.softmax(s.astype("float32"), -1)\n(y.astype("float32") * p).astype(y.dtype)',
        'p = F.softmax(s.astype("float32"), -1)\ny * p.astype(y.dtype)',
        differs={"bfloat16": BOTH},
    ).because(
        "the routing weight is rounded to 16 bits before it multiplies", "PaddleFormers transformers/qwen3_moe/modeling.py:347"
    ),
    declare(
        "routing weight before or behind the second product",
        "h p w",
        "paddle.matmul(h, w) * p",
        "paddle.matmul(h * p, w)",
        samples=(Sample((33, 80), Floats((33, 1), 0.0, 1.0), (80, 57)), Sample((5, 8), Floats((5, 1), 0.0, 1.0), (8, 7))),
    ).because("the weight multiplies each operand of a sum, or the sum", "Megatron-LM's moe_apply_probs_on_input"),
    declare(
        "residual stream in float32",
        "x a m",
        "x + a + m",
        '(x.astype("float32") + a.astype("float32") + m.astype("float32")).astype(x.dtype)',
        differs={"bfloat16": FORWARD},
    ).because("each sum is rounded to 16 bits, or only the last", "Megatron-LM's fp32_residual_connection"),
    declare(
        "soft cap in float32",
        "x",
        "paddle.tanh(x / 30.0) * 30.0",
        '(paddle.tanh(x.astype("float32") / 30.0) * 30.0).astype(x.dtype)',
        samples=(Sample((33, 57), within=(-60.0, 60.0)), Sample((5, 7), within=(-60.0, 60.0))),
        differs={"bfloat16": BOTH},
    ).because("the quotient and the hyperbolic tangent are rounded to 16 bits, or the result alone", "transformers models/gemma2"),
    declare("sum in float64", "x", "x.sum()", 'x.astype("float64").sum().astype(x.dtype)', may_differ={"float32": FORWARD}).because(
        "float64 rounds once at the end", "Megatron-LM's and PaddleFormers' logging of losses"
    ),
    declare(
        "mean of 16 bits in float32",
        "x",
        "((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)",
        'y = x.astype("float32")\n((y - y.mean(-1, keepdim=True)) ** 2).mean(-1).astype(x.dtype)',
        differs={"bfloat16": BOTH},
    ).because("mean and differences are rounded to 16 bits, or kept in float32", "T5 and Gemma norms in ports"),
    declare("cube", "x", "x.pow(3)", "x * x * x", differs={"float32": GRADIENT, "bfloat16": GRADIENT}).because(
        "the backward of a power is 3 * x ** 2, that of a product adds three parts",
        "GELU by tanh: paddlenlp transformers/activations.py",
    ),
    declare(
        "decay of two steps",
        "a b",
        "paddle.exp(a) * paddle.exp(b)",
        "paddle.exp(a + b)",
    ).because("each exponential is rounded before the product, or the sum before the exponential", "Mamba's and RWKV's decays"),
    declare(
        "number before or behind a product of three",
        "x y c",
        "c * x * y",
        "x * y * c",
        "x * (y * c)",
        samples=(Sample((33, 57), (33, 57), 0.1), Sample((5, 7), (5, 7), 0.7)),
    ).because("another product is rounded in between", "focal loss, gates of LSTM"),
    declare(
        "straight-through estimator",
        "x y",
        "x + (y - x).detach()",
        "y.detach() + (x - x.detach())",
        differs={"float32": FORWARD, "bfloat16": FORWARD},
    ).because("x + (y - x) is rounded twice and is not y", "transformers models/dac/modeling_dac.py"),
    declare(
        "mixture of two",
        "x y g",
        "g * x + (1 - g) * y",
        "y + g * (x - y)",
        samples=(Sample((33, 57), (33, 57), Floats((33, 57), 0.0, 1.0)), Sample((5, 7), (5, 7), Floats((5, 7), 0.0, 1.0))),
    ).because("1 - g is rounded, or the difference is", "highway and GRU gates"),
    declare(
        "classifier-free guidance",
        "u t c",
        "u + c * (t - u)",
        "(1 - c) * u + c * t",
        samples=(Sample((33, 57), (33, 57), 7.5), Sample((5, 7), (5, 7), 3.0)),
    ).because("the difference is rounded, or both products are", "diffusers against other samplers"),
    declare(
        "LayerNorm in float32",
        "x w b",
        "F.layer_norm(x, w.shape, w, b)",
        'F.layer_norm(x.astype("float32"), w.shape, w.astype("float32"), b.astype("float32")).astype(x.dtype)',
        samples=(Sample((33, 57), (57,), (57,)), Sample((5, 7), (7,), (7,))),
        may_differ={"bfloat16": GRADIENT},
    ).because(
        "the backward of the kernel in 16 bits keeps fewer digits of what lies between", "Megatron-LM's LayerNorm in float32"
    ),
)
