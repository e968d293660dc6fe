"""A Wasserstein GAN with gradient penalty (Gulrajani et al., 2017) of handwritten digits: a gradient of a gradient."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .handwriting import images
from .tensors import paddle_batch, torch_batch
from .training import Recipe, paddle_optimizer, torch_optimizer

NOISE, BATCH = 8, 8
RECIPE = Recipe("Adam of GANs", rate=1e-3, schedule="halving", clip=None)
DRAWN = ("fake", "mix")  # by the training itself


class PaddleCritic(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = pnn.Conv2D(1, 8, 4, 2, 1)
        self.conv2 = pnn.Conv2D(8, 16, 4, 2, 1)
        self.head = pnn.Linear(64, 1)

    def forward(self, x):
        x = PF.leaky_relu(self.conv1(x), 0.2)
        x = PF.leaky_relu(self.conv2(x), 0.2)
        return self.head(paddle.reshape(x, [BATCH, -1]))


class PaddleWgan(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.critic = PaddleCritic()
        self.generator = pnn.Sequential(pnn.Linear(NOISE, 32), pnn.ReLU(), pnn.Linear(32, 64), pnn.Sigmoid())

    def forward(self, dtype):
        return self.generator(paddle.randn([BATCH, NOISE], dtype=dtype)).reshape([BATCH, 1, 8, 8])


class TorchCritic(tnn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = tnn.Conv2d(1, 8, 4, 2, 1)
        self.conv2 = tnn.Conv2d(8, 16, 4, 2, 1)
        self.head = tnn.Linear(64, 1)

    def forward(self, x):
        x = TF.leaky_relu(self.conv1(x), 0.2)
        x = TF.leaky_relu(self.conv2(x), 0.2)
        return self.head(torch.reshape(x, [BATCH, -1]))


class TorchWgan(tnn.Module):
    def __init__(self):
        super().__init__()
        self.critic = TorchCritic()
        self.generator = tnn.Sequential(tnn.Linear(NOISE, 32), tnn.ReLU(), tnn.Linear(32, 64), tnn.Sigmoid())

    def forward(self, dtype):
        return self.generator(torch.randn([BATCH, NOISE], dtype=dtype)).reshape([BATCH, 1, 8, 8])


paddle_model, torch_model = PaddleWgan, TorchWgan


def batch(rng):
    return {"real": images(rng, BATCH), "fake": rng.random((BATCH, 1, 8, 8)), "mix": rng.random((BATCH, 1, 1, 1))}


def paddle_step(model, real, fake, mix):
    """The critic's loss."""
    between = mix * real + (1 - mix) * fake
    between.stop_gradient = False
    score = model.critic(between)
    (gradient,) = paddle.grad(score, between, paddle.ones_like(score), create_graph=True)
    norm = paddle.norm(paddle.reshape(gradient, [BATCH, -1]), p=2, axis=1)
    penalty = ((norm - 1) ** 2).mean()
    return [score, gradient], model.critic(fake).mean() - model.critic(real).mean() + 10 * penalty


def paddle_train(model, batches, on_step):
    """Two steps of the critic, then one of the generator."""
    judging, sinking = paddle_optimizer(model.critic.parameters(), RECIPE, len(batches))
    making, falling = paddle_optimizer(model.generator.parameters(), RECIPE, len(batches))
    for place, real in enumerate(batches):
        real = paddle_batch(model, real)["real"]
        mix = paddle.rand([BATCH, 1, 1, 1], dtype=real.dtype)
        _, loss = paddle_step(model, real, model(real.dtype).detach(), mix)
        loss.backward()
        judging.step()
        judging.clear_grad()
        if place % 2 == 0:
            (-model.critic(model(real.dtype)).mean()).backward()
            making.step()
            making.clear_grad()
            judging.clear_grad()
        sinking.step()
        falling.step()
        on_step(loss)


def torch_step(model, real, fake, mix):
    """The critic's loss."""
    between = mix * real + (1 - mix) * fake
    between.requires_grad_()
    score = model.critic(between)
    (gradient,) = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True)
    norm = torch.norm(torch.reshape(gradient, [BATCH, -1]), p=2, dim=1)
    penalty = ((norm - 1) ** 2).mean()
    return [score, gradient], model.critic(fake).mean() - model.critic(real).mean() + 10 * penalty


def torch_train(model, batches, on_step):
    """Two steps of the critic, then one of the generator."""
    judging, sinking = torch_optimizer(model.critic.parameters(), RECIPE, len(batches))
    making, falling = torch_optimizer(model.generator.parameters(), RECIPE, len(batches))
    for place, real in enumerate(batches):
        real = torch_batch(model, real)["real"]
        mix = torch.rand([BATCH, 1, 1, 1], dtype=real.dtype)
        _, loss = torch_step(model, real, model(real.dtype).detach(), mix)
        judging.zero_grad()
        loss.backward()
        judging.step()
        if place % 2 == 0:
            making.zero_grad()
            (-model.critic(model(real.dtype)).mean()).backward()
            making.step()
        sinking.step()
        falling.step()
        on_step(loss)
