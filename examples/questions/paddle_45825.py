import torch
from demo_prove import PaddleStep, TorchStep
from zoo.pairs import build

from padiff_shim import prove
from questions import Question

QUESTION = Question(
    "PaddlePaddle/Paddle#45825",
    "Gradients of a ResNet's downsample layers differ",
    "outputs and loss agree; gradients of `downsample` are 1e-4 apart, all others below 1e-5",
    "CODE_CORRECT",
    "The port is not the cause: with its loss each gradient of the ResNet, those of downsample included, is the original's bit "
    "for bit on the same kernels.",
    ("CODE_CORRECT", "gradients identical bit for bit"),
)


def ask():
    pair = build("resnet", "float32")
    images = torch.from_numpy(pair.arrays["images"])
    with torch.no_grad():
        for _ in range(20):
            pair.torch(images)  # running statistics such as training leaves them
    port, original = PaddleStep(pair.paddle, pair.module), TorchStep(pair.torch, pair.module)
    port.eval()
    return [prove(port, original.eval(), dict(pair.arrays))]
