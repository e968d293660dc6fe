from demo_prove import PaddleStep, TorchStep
from zoo.pairs import build

from padiff_shim import prove
from questions import Question

QUESTION = Question(
    "PaddlePaddle/Paddle#48596",
    "The loss agrees with Torch's, some gradients do not",
    "ResNet-50 in training mode: equal loss, `conv1.weight`'s gradient 0.08 apart",
    "CODE_CORRECT",
    "BatchNorm in training amplifies rounding on the way back. Neither model nor definition differs: all gradients "
    "are equal on the same kernels.",
    ("CODE_CORRECT", "gradients identical bit for bit"),
)


def ask():
    pair = build("resnet", "float32")
    port, original = PaddleStep(pair.paddle, pair.module), TorchStep(pair.torch, pair.module)
    return [prove(port, original, dict(pair.arrays))]
