import paddle
import torch

from questions import Question
from questions.training import trained

QUESTION = Question(
    "PaddlePaddle/Paddle#36746",
    "Adamax cannot be aligned",
    "forward and loss agree; after the first step the loss is 1e-5 apart, and ten times as much after each further step",
    "CODE_CORRECT",
    "The port is right. Paddle defines Adamax differently: it adds epsilon to the decayed norm at every step, Torch to "
    "the size of the "
    'gradient. `reference(optimizer="torch")` trains by Torch\'s.',
    ("CODE_CORRECT", "Paddle adds epsilon to the decayed norm at every step, Torch to the size of the gradient"),
)


def ours(model):
    return paddle.optimizer.Adamax(0.01, parameters=model.parameters())


def theirs(model):
    return torch.optim.Adamax(model.parameters(), lr=0.01)


def ask():
    return [trained(ours, theirs)]
