import paddle
import torch

from questions import Question
from questions.training import trained

QUESTION = Question(
    "PaddlePaddle/Paddle#36781",
    "Adadelta cannot be aligned",
    "forward agrees, training does not; with Adam in its place it does",
    "CODE_DIFFERS",
    "Different defaults: a learning rate of 0.001 against 1, a rho of 0.95 against 0.9. (Paddle 2.2 left the rate out "
    "altogether.) With "
    "Torch's numbers today's Adadelta is Torch's, bit for bit.",
    ("CODE_CORRECT", "another learning rate: lr=0.001 against 1", "rho=0.95 against 0.9"),
)


def ours(model):
    return paddle.optimizer.Adadelta(parameters=model.parameters())


def mended(model):
    return paddle.optimizer.Adadelta(1.0, epsilon=1e-6, rho=0.9, parameters=model.parameters())


def theirs(model):
    return torch.optim.Adadelta(model.parameters())


def ask():
    return [trained(mended, theirs), trained(ours, theirs)]
