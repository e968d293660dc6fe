import paddle
import torch

from questions import Question
from questions.training import trained

QUESTION = Question(
    "PaddlePaddle/Paddle#26578",
    "Adam with weight_decay and Adam with L2Decay part",
    "loss 2e-8 apart without decay, 3.8e-3 with `L2Decay(1e-4)` against `weight_decay=1e-4`",
    "CODE_CORRECT",
    "Today both mean the same: the decay is added to the gradient. Ten steps are the original's bit for bit on the same kernels.",
    ("CODE_CORRECT", "training: 10 steps identical bit for bit"),
)


def ours(model):
    decay = paddle.regularizer.L2Decay(1e-4)
    return paddle.optimizer.Adam(0.01, beta1=0.0, beta2=0.99, weight_decay=decay, parameters=model.parameters())


def theirs(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.0, 0.99), weight_decay=1e-4)


def ask():
    return [trained(ours, theirs)]
