import paddle
import torch

from padiff_shim import compare, testing
from questions import Question, kernels

QUESTION = Question(
    "PaddlePaddle/Paddle#35498",
    "LayerNorm's gradient differs on a GPU",
    "a row of two nearly equal values: gradient -21.4 on a GPU, -0.0014 on the CPU; outputs -0.8428 and -0.8454",
    "WRONG",
    "A true defect of that GPU kernel (fixed since): no rounding explains a gradient of 21, though the row is ill-conditioned.",
    ("Paddle's gradient of layer_norm (x)", "is wrong", "rounding explains"),
    emulated="the reported output and gradient",
)
REPORTED = torch.tensor([-21.41206169, 21.41332817])


def ask():
    x = paddle.to_tensor([[[[-1.83965693, -1.82964566]]]], stop_gradient=False)
    norm = paddle.nn.LayerNorm((1, 1, 2), epsilon=1e-5)
    output = testing.planted("layer_norm", kernels.one_pass_layer_norm)
    gradient = testing.planted("layer_norm", lambda g, name, *_: REPORTED if name == "x" else g, gradients=True)
    with output, gradient, compare("torch") as run:
        norm(x).sum().backward()
    return [run]
