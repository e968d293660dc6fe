import paddle

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#67238",
    "Precision is lost after the third Conv2D",
    "three stacked convolutions: after the third, of stride 2, no digit of some values agrees",
    "ROUNDING",
    "Rounding: the third convolution adds up 288 products that cancel, so that values near 0 keep no digit. The shadow "
    "stream shows the incoming error.",
    ("No wrong kernel found, only rounding", "amplification x"),
    tolerance=3e-4,
    emulated="the order of the sums",
)


def ask():
    paddle.seed(0)
    conv = paddle.nn.Conv2D
    layers = [conv(1, 32, 3, stride=2, padding=1), conv(32, 32, 3, padding=1), conv(32, 64, 3, stride=2, padding=1)]
    x = paddle.rand([1, 1, 64, 64])
    with testing.planted("conv2d", kernels.backwards_conv2d), compare("torch", audit=1, shadow=True) as run:
        paddle.nn.Sequential(*layers)(x)
    return [*run.amplifications(2), run]
