import paddle

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#34763",
    "Linear is far off on an RTX 3090",
    "1.2e-3 apart on an RTX 3090, 2.1e-6 on an RTX 2060, same script",
    "PRECISION_MODE",
    "One side multiplies in TF32 there, which a 2060 does not have. Nothing is wrong in the port: switch TF32 off, or "
    "allow for it.",
    ("Paddle's linear", "computes in a lower precision than its dtype", "tf32-inputs", "NVIDIA_TF32_OVERRIDE=0"),
    emulated="TF32 inputs of the product",
)


def ask():
    paddle.seed(0)
    linear, x = paddle.nn.Linear(768, 768), paddle.randn([64, 768])
    with testing.planted("linear", kernels.tf32_linear), compare("torch") as run:
        linear(x)
    return [run]
