import paddle
import torch

from questions import Question
from questions.training import trained

QUESTION = Question(
    "PaddlePaddle/Paddle#42979",
    "AdamW's results are not Torch's",
    "the same parameters and gradients, different weights after a step",
    "CODE_CORRECT",
    "Today both decay the weights first and then update them: with the same numbers ten steps are equal bit for bit "
    "on the same kernels.",
    ("CODE_CORRECT", "training: 10 steps identical bit for bit"),
)


def ours(model):
    return paddle.optimizer.AdamW(0.01, weight_decay=0.1, parameters=model.parameters())


def theirs(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)


def ask():
    return [trained(ours, theirs)]
