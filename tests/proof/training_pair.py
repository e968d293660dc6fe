"""A port and its original that are trained, with batch norm and dropout, and their optimizers."""

import numpy as np
import paddle
import torch

from padiff_shim import prove

X = np.random.default_rng(0).standard_normal((8, 6))


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
        self.drop = torch.nn.Dropout(0.25)

    def forward(self, x):
        return self.down(self.drop(torch.tanh(self.norm(self.up(x)))))


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = paddle.nn.Linear(6, 8), paddle.nn.BatchNorm1D(8), paddle.nn.Linear(8, 3)
        self.drop = paddle.nn.Dropout(0.25)

    def forward(self, x):
        return self.down(self.drop(paddle.tanh(self.norm(self.up(x)))))


def original():
    torch.manual_seed(0)
    return Original()


def square(output):
    return (output * output).mean()


def ours(name="AdamW", **options):
    return lambda layer: getattr(paddle.optimizer, name)(**{"learning_rate": 0.01, "parameters": layer.parameters(), **options})


def theirs(name="AdamW", **options):
    return lambda module: getattr(torch.optim, name)(module.parameters(), **{"lr": 0.01, **options})


def proven(paddle_optimizer, torch_optimizer, steps=3, port=Port, **more):
    return prove(
        port(), original(), X, phase="train", optimizer=(paddle_optimizer, torch_optimizer), steps=steps, **{"loss": square, **more}
    )


def right(proof):
    return {stage.name: stage.right for stage in proof.stages}
