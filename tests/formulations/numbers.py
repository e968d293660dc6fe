"""Numbers: the dtype of a scalar, and how constants and tables are made."""

from __future__ import annotations

from padiff_shim.proof.bits.formulation import BOTH, FORWARD, GRADIENT, NUMBERS
from padiff_shim.table.samples import Floats, Ints, Sample

from .declared import Declared, declaring

declare = declaring(NUMBERS)

FORMULATIONS: tuple[Declared, ...] = (
    declare(
        "number as a tensor of the model's dtype",
        "x c",
        "x * c",
        "x * paddle.full([], c, x.dtype)",
        "x * paddle.full([1], c, x.dtype)",
        samples=(Sample((33, 57), 55.42562584220407), Sample((5, 7), 0.1)),
        differs={"bfloat16": BOTH},
    ).because(
        "the number is rounded to 16 bits before it multiplies",
        "PaddleFormers transformers/gemma3_text/modeling.py:56; transformers #29402",
    ),
    declare(
        "frequencies of a rotation",
        "t base",
        't.unsqueeze(-1) * (1.0 / base ** (paddle.arange(0, 80, 2, dtype="float32") / 80))',
        't.unsqueeze(-1) * base ** -(paddle.arange(0, 80, 2, dtype="float32") / 80)',
        't.unsqueeze(-1) * paddle.exp(paddle.arange(0, 80, 2, dtype="float32") * (-math.log(base) / 80))',
        samples=(Sample(Floats((33,), 0.0, 512.0), 10000.0), Sample(Floats((5,), 0.0, 9.0), 500000.0)),
        differs={"float32": BOTH, "bfloat16": FORWARD},
    ).because(
        "a power, a reciprocal and an exponential are each rounded to float32 otherwise",
        "PaddleFormers transformers/qwen3_vl/modeling.py:126; ports of fairseq",
    ),
    declare(
        "angles in the model's dtype",
        "x",
        'f = paddle.arange(33, dtype="float32").unsqueeze(-1) / (paddle.arange(57, dtype="float32") + 1)\n'
        "x * paddle.cos(f).astype(x.dtype)",
        "f = paddle.arange(33, dtype=x.dtype).unsqueeze(-1) / (paddle.arange(57, dtype=x.dtype) + 1)\nx * paddle.cos(f)",
        samples=(Sample((33, 57)), Sample((2, 33, 57))),
        differs={"bfloat16": BOTH},
    ).because(
        "positions and frequencies are rounded to 16 bits before the cosine",
        "gpt-neox #1003; transformers #29285 and #29496; Megatron-LM #744",
    ),
    declare(
        "cosines in the model's dtype",
        "x f",
        'x * paddle.cos(f.astype("float32")).astype(x.dtype)',
        '(x.astype("float32") * paddle.cos(f.astype("float32"))).astype(x.dtype)',
        differs={"bfloat16": BOTH},
    ).because(
        "the cosine is rounded to 16 bits before it multiplies",
        "PaddleFormers transformers/llama/modeling.py; TransformerEngine #1245",
    ),
    declare(
        "angles by a product or a multiplication",
        "t f",
        "t.unsqueeze(-1) * f",
        "paddle.matmul(t.unsqueeze(-1), f.unsqueeze(0))",
        "paddle.einsum('i,j->ij', t, f)",
        samples=(
            Sample(Floats((33,), 0.0, 512.0), Floats((40,), 0.0, 1.0)),
            Sample(Floats((5,), 0.0, 9.0), Floats((4,), 0.0, 1.0)),
        ),
        may_differ={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "the gradients of positions and frequencies are products of rows, or sums",
        "PaddleFormers transformers/qwen3_vl/modeling.py (outer) against paddleocr_vl (matmul)",
    ),
    declare(
        "cosine of joined halves",
        "f",
        "paddle.cos(paddle.concat([f, f], -1))",
        "c = paddle.cos(f)\npaddle.concat([c, c], -1)",
        samples=(Sample((33, 57), within=(0.0, 512.0)), Sample((5, 7), within=(0.0, 9.0))),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "the halves' gradients are added before or behind the multiplication by the sine",
        "rotary tables of paddlenlp and transformers",
    ),
    declare(
        "steps of a schedule",
        "x",
        'x * paddle.linspace(0.0, 1.0, 57, dtype="float32").astype(x.dtype)',
        'x * (paddle.arange(57, dtype="float32") / 56).astype(x.dtype)',
        'x * (paddle.arange(57, dtype="float32") * (1 / 56)).astype(x.dtype)',
        samples=(Sample((33, 57)), Sample((5, 57))),
        differs={"float32": BOTH},
    ).because(
        "linspace multiplies a rounded step from either end, a range is divided or multiplied by a rounded reciprocal",
        "stochastic depth: transformers models/swin; paddlenlp transformers/clap",
    ),
    declare(
        "noise schedule by products or logarithms",
        "b",
        "paddle.cumprod(1 - b, -1)",
        "paddle.exp(paddle.cumsum(paddle.log(1 - b), -1))",
        "paddle.exp(paddle.cumsum(paddle.log1p(-b), -1))",
        samples=(Sample((33, 57), within=(0.0001, 0.02)), Sample((5, 7), within=(0.0001, 0.02))),
    ).because(
        "a running product rounds each factor, a running sum of logarithms each term", "diffusers against score-based samplers"
    ),
    declare(
        "table made in float64",
        "x",
        'x * paddle.exp(paddle.arange(57, dtype="float32") * (-math.log(10000.0) / 57)).astype(x.dtype)',
        'x * paddle.exp(paddle.arange(57, dtype="float64") * (-math.log(10000.0) / 57)).astype(x.dtype)',
        samples=(Sample((33, 57)), Sample((5, 57))),
        differs={"float32": BOTH},
    ).because(
        "the exponential is rounded from float64, or computed in float32",
        "sinusoidal positions: NumPy's float64 against paddle.arange",
    ),
    declare(
        "slopes of positions (ALiBi)",
        "x",
        (
            'x + paddle.pow(paddle.full([1], 2.0 ** (-8 / 12), "float32"), paddle.arange(1, 13, dtype="float32")).astype(x.dtype)',
            "x + torch.pow(torch.full([1], 2.0 ** (-8 / 12), dtype=torch.float32), torch.arange(1, 13, "
            "dtype=torch.float32)).to(x.dtype)",
        ),
        (
            'x + paddle.to_tensor([2.0 ** (-8 / 12 * i) for i in range(1, 13)], dtype="float32").astype(x.dtype)',
            "x + torch.tensor([2.0 ** (-8 / 12 * i) for i in range(1, 13)], dtype=torch.float32).to(x.dtype)",
        ),
        samples=(Sample((33, 12)), Sample((5, 12))),
        differs={"float32": FORWARD},
    ).because(
        "the power is computed in float32, or in float64 and rounded",
        "paddlenlp transformers/llama (build_alibi_tensor); transformers models/bloom",
    ),
    declare(
        "label smoothing",
        "x t c",
        "F.cross_entropy(x, t, label_smoothing=c)",
        "p = F.log_softmax(x, -1)\n(1 - c) * F.nll_loss(p, t) - c * p.mean()",
        samples=(Sample((33, 57), Ints((33,), 0, 57), 0.1), Sample((5, 7), Ints((5,), 0, 7), 0.3)),
        differs={"float32": GRADIENT},
    ).because(
        "the loss in one call weights the log-probabilities of all classes otherwise", "paddlenlp transformers/glm/modeling.py:866"
    ),
)
