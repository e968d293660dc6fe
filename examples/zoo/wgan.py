"""The critic of a Wasserstein GAN with gradient penalty (Gulrajani et al., 2017): a gradient of a gradient."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF


class PaddleCritic(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = pnn.Conv2D(1, 8, 4, 2, 1)
        self.conv2 = pnn.Conv2D(8, 16, 4, 2, 1)
        self.head = pnn.Linear(256, 1)

    def forward(self, x):
        x = PF.leaky_relu(self.conv1(x), 0.2)
        x = PF.leaky_relu(self.conv2(x), 0.2)
        return self.head(paddle.reshape(x, [8, -1]))


class TorchCritic(tnn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = tnn.Conv2d(1, 8, 4, 2, 1)
        self.conv2 = tnn.Conv2d(8, 16, 4, 2, 1)
        self.head = tnn.Linear(256, 1)

    def forward(self, x):
        x = TF.leaky_relu(self.conv1(x), 0.2)
        x = TF.leaky_relu(self.conv2(x), 0.2)
        return self.head(torch.reshape(x, [8, -1]))


paddle_model, torch_model = PaddleCritic, TorchCritic


def batch(rng):
    return {
        "real": rng.standard_normal((8, 1, 16, 16)),
        "fake": rng.standard_normal((8, 1, 16, 16)),
        "mix": rng.random((8, 1, 1, 1)),
    }


def paddle_step(model, real, fake, mix):
    between = mix * real + (1 - mix) * fake
    between.stop_gradient = False
    score = model(between)
    (gradient,) = paddle.grad(score, between, paddle.ones_like(score), create_graph=True)
    norm = paddle.norm(paddle.reshape(gradient, [8, -1]), p=2, axis=1)
    penalty = ((norm - 1) ** 2).mean()
    return [score, gradient], model(fake).mean() - model(real).mean() + 10 * penalty


def torch_step(model, real, fake, mix):
    between = mix * real + (1 - mix) * fake
    between.requires_grad_()
    score = model(between)
    (gradient,) = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True)
    norm = torch.norm(torch.reshape(gradient, [8, -1]), p=2, dim=1)
    penalty = ((norm - 1) ** 2).mean()
    return [score, gradient], model(fake).mean() - model(real).mean() + 10 * penalty
