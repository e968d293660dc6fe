import paddle

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#75041",
    "matmul is 1e-5 off from Torch and NumPy",
    "`a @ b` 8.9e-5 apart from both, which agree with each other, on A and H cards",
    "PRECISION_MODE",
    "Paddle lets cuBLAS use TF32 by default on these cards, Torch does not: `NVIDIA_TF32_OVERRIDE=0` makes them agree.",
    ("Paddle's matmul", "computes in a lower precision than its dtype", "tf32-inputs", "NVIDIA_TF32_OVERRIDE=0"),
    emulated="TF32 inputs of the product",
)


def ask():
    paddle.seed(0)
    a, b = paddle.randn([64, 128]) * 0.1, paddle.randn([128, 64]) * 0.1
    with testing.planted("matmul", kernels.tf32_matmul), compare("torch") as run:
        a @ b
    return [run]
