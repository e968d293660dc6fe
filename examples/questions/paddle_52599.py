import paddle

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#52599",
    "Conv2D of many channels cannot be aligned",
    "`Conv2D(2048, 256, 1)`: 1.9e-4 apart; reprod_log asks for 1e-5",
    "ROUNDING",
    "Rounding: a 1x1 convolution of 2048 channels adds up 2048 products. Two right kernels may differ by more than 1e-5.",
    ("No wrong kernel found, only rounding", "is allowed"),
    tolerance=1.1e-3,
    emulated="the order of the sums",
)


def ask():
    paddle.seed(0)
    conv, x = paddle.nn.Conv2D(2048, 256, 1), paddle.rand([1, 2048, 14, 25])
    with testing.planted("conv2d", kernels.backwards_conv2d), compare("torch", audit=1) as run:
        conv(x)
    return [run]
