import paddle
import torch

from padiff_shim import compare, prove, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/PaddleScience#868",
    "Forward alignment of Paddle and Torch has an error",
    'equal weights and inputs: 6.7e-4 apart on an A100 and a 3060; a layer-by-layer tool says "linear"',
    "PRECISION_MODE",
    "The port is proven right; its Linears carry the rounding of TF32 on one of the two GPUs, which is the cause.",
    ("CODE_CORRECT", "Paddle's linear", "computes in a lower precision than its dtype", "tf32-inputs"),
    emulated="TF32 inputs of the products",
)


def ask():
    paddle.seed(0)
    torch.manual_seed(0)
    port, original = (
        nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 256)) for nn in (paddle.nn, torch.nn)
    )
    x = paddle.randn([128, 64])
    proof = prove(port, original, x, phase="forward")
    with testing.planted("linear", kernels.tf32_linear), compare("torch") as run:
        port(x)
    return [proof, run]
