import numpy as np
import paddle
import torch

from padiff_shim import prove
from questions import Question

QUESTION = Question(
    "PaddlePaddle/X2Paddle#609",
    "A converted AlexNet gives other results: is this reasonable?",
    "mean difference 2e-7 of the outputs",
    "CODE_CORRECT",
    "Yes. On the same kernels the converted model gives the original's bits, so only the kernels differ.",
    ("CODE_CORRECT", "forward: identical bit for bit"),
)


def alexnet(nn, conv, pool):
    layers = [conv(3, 64, 11, 4, 2), nn.ReLU(), pool(3, 2), conv(64, 192, 5, padding=2), nn.ReLU(), pool(3, 2)]
    layers += [conv(192, 384, 3, padding=1), nn.ReLU(), conv(384, 256, 3, padding=1), nn.ReLU()]
    layers += [conv(256, 256, 3, padding=1), nn.ReLU(), pool(3, 2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(), nn.Linear(9216, 512), nn.ReLU(), nn.Linear(512, 1000)).eval()


def ask():
    paddle_nn, torch_nn = paddle.nn, torch.nn
    port = paddle_nn.Sequential(alexnet(paddle_nn, paddle_nn.Conv2D, paddle_nn.MaxPool2D))
    original = torch_nn.Sequential(alexnet(torch_nn, torch_nn.Conv2d, torch_nn.MaxPool2d))
    image = np.random.default_rng(13).random((1, 3, 224, 224))
    return [prove(port, original, image, phase="forward")]
