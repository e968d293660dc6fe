import paddle

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#35118",
    "LayerNorm differs too much",
    "CPU, `LayerNorm(768)`: 3.3e-6 apart, `isclose(rtol=1e-6)` fails",
    "ROUNDING",
    "Rounding: a variance in one pass, E[x^2] - E[x]^2, against one in two. Both stay within the bound; no kernel reaches "
    "1e-6 relative to elements near 0.",
    ("No wrong kernel found, only rounding", "is allowed"),
    tolerance=1.5e-4,
    emulated="the variance in one pass",
)


def ask():
    paddle.seed(0)
    norm = paddle.nn.LayerNorm(768, epsilon=1e-6)
    norm.weight.set_value(paddle.randn([768]))
    norm.bias.set_value(paddle.randn([768]))
    x = paddle.randn([32, 768])
    with testing.planted("layer_norm", kernels.one_pass_layer_norm), compare("torch", audit=1) as run:
        norm(x)
    return [run]
