import paddle

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#35123",
    "Linear differs much from Torch's where the numbers are large",
    "CPU: 1.2e-4 apart, `isclose(rtol=1e-6)` fails; inputs and weights N(0, 1), inputs times 10",
    "ROUNDING",
    "Rounding on both sides: float32 holds sums of 768 products of that size no more exactly. No two right kernels "
    "promise 1e-6 relative.",
    ("No wrong kernel found, only rounding", "is allowed"),
    tolerance=0.13,
    emulated="the order of the sums",
)


def ask():
    paddle.seed(0)
    linear = paddle.nn.Linear(768, 768)
    linear.weight.set_value(paddle.randn([768, 768]))
    x = paddle.randn([32, 768]) * 10
    with testing.planted("linear", kernels.backwards_linear), compare("torch", audit=1) as run:
        linear(x)
    return [run]
