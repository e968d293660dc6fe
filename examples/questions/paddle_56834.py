import paddle
import paddle.nn.functional as F

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#56834",
    "softmax of symmetric logits is not symmetric",
    "the same row, shifted: 6e-8 apart on the diagonal, 7.5e-9 beside it",
    "ROUNDING",
    "Rounding: one unit in the last place of 0.46. The kernel chooses where the sum over the row begins, so a shifted row "
    "rounds differently.",
    ("No wrong kernel found", "is allowed"),
    tolerance=9e-7,
    emulated="the order of the sums",
)


def ask():
    place = paddle.arange(8)
    x = 2 * F.one_hot(place, 8) + F.one_hot((place + 1) % 8, 8)
    with testing.planted("softmax", kernels.backwards_softmax), compare("torch", audit=1) as run:
        F.softmax(x, -1)
    return [run]
