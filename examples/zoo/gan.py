"""A GAN (Radford et al., 2016) of handwritten digits: two networks with BatchNorm, two optimizers."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .handwriting import images
from .tensors import paddle_batch, torch_batch
from .training import Recipe, paddle_optimizer, torch_optimizer

NOISE, BATCH = 16, 16
RECIPE = Recipe("Adam of GANs", rate=2e-4, schedule="cosine", clip=None)


class PaddleGan(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.first = pnn.Sequential(pnn.Linear(NOISE, 64), pnn.BatchNorm1D(64), pnn.ReLU())
        self.generator = pnn.Sequential(
            pnn.Conv2DTranspose(16, 8, 4, 2, 1), pnn.BatchNorm2D(8), pnn.ReLU(), pnn.Conv2DTranspose(8, 1, 4, 2, 1), pnn.Tanh()
        )
        self.critic = pnn.Sequential(
            pnn.Conv2D(1, 8, 4, 2, 1), pnn.LeakyReLU(0.2), pnn.Dropout2D(0.25),
            pnn.Conv2D(8, 16, 4, 2, 1), pnn.BatchNorm2D(16), pnn.LeakyReLU(0.2), pnn.Flatten(), pnn.Linear(64, 1),
        )  # fmt: skip

    def generate(self, noise):
        return self.generator(self.first(noise).reshape([-1, 16, 2, 2]))


class TorchGan(tnn.Module):
    def __init__(self):
        super().__init__()
        self.first = tnn.Sequential(tnn.Linear(NOISE, 64), tnn.BatchNorm1d(64), tnn.ReLU())
        self.generator = tnn.Sequential(
            tnn.ConvTranspose2d(16, 8, 4, 2, 1), tnn.BatchNorm2d(8), tnn.ReLU(), tnn.ConvTranspose2d(8, 1, 4, 2, 1), tnn.Tanh()
        )
        self.critic = tnn.Sequential(
            tnn.Conv2d(1, 8, 4, 2, 1), tnn.LeakyReLU(0.2), tnn.Dropout2d(0.25),
            tnn.Conv2d(8, 16, 4, 2, 1), tnn.BatchNorm2d(16), tnn.LeakyReLU(0.2), tnn.Flatten(), tnn.Linear(64, 1),
        )  # fmt: skip

    def generate(self, noise):
        return self.generator(self.first(noise).reshape([-1, 16, 2, 2]))


paddle_model, torch_model = PaddleGan, TorchGan


def batch(rng):
    return {"real": images(rng, BATCH) * 2 - 1, "noise": rng.standard_normal((BATCH, NOISE))}


def paddle_step(model, real, noise):
    """Both losses in one."""
    made = model.generate(noise)
    scores = model.critic(made)
    return [made, scores], paddle_criticism(model, real, made) + PF.binary_cross_entropy_with_logits(
        scores, paddle.ones_like(scores)
    )


def paddle_criticism(model, real, made):
    """The critic's loss."""
    good, bad = model.critic(real), model.critic(made.detach())
    good = PF.binary_cross_entropy_with_logits(good, paddle.ones_like(good))
    return good + PF.binary_cross_entropy_with_logits(bad, paddle.zeros_like(bad))


def paddle_train(model, batches, on_step):
    makers = [*model.first.parameters(), *model.generator.parameters()]
    making, falling = paddle_optimizer(makers, RECIPE, len(batches))
    judging, sinking = paddle_optimizer(model.critic.parameters(), RECIPE, len(batches))
    for real in batches:
        real = paddle_batch(model, real)["real"]
        made = model.generate(paddle.randn([BATCH, NOISE], dtype=real.dtype))
        loss = paddle_criticism(model, real, made)
        loss.backward()
        judging.step()
        judging.clear_grad()
        scores = model.critic(made)
        PF.binary_cross_entropy_with_logits(scores, paddle.ones_like(scores)).backward()
        making.step()
        making.clear_grad()
        judging.clear_grad()
        falling.step()
        sinking.step()
        on_step(loss)


def torch_step(model, real, noise):
    """Both losses in one."""
    made = model.generate(noise)
    scores = model.critic(made)
    making = TF.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))
    return [made, scores], torch_criticism(model, real, made) + making


def torch_criticism(model, real, made):
    """The critic's loss."""
    good, bad = model.critic(real), model.critic(made.detach())
    good = TF.binary_cross_entropy_with_logits(good, torch.ones_like(good))
    return good + TF.binary_cross_entropy_with_logits(bad, torch.zeros_like(bad))


def torch_train(model, batches, on_step):
    makers = [*model.first.parameters(), *model.generator.parameters()]
    making, falling = torch_optimizer(makers, RECIPE, len(batches))
    judging, sinking = torch_optimizer(model.critic.parameters(), RECIPE, len(batches))
    for real in batches:
        real = torch_batch(model, real)["real"]
        made = model.generate(torch.randn([BATCH, NOISE], dtype=real.dtype))
        loss = torch_criticism(model, real, made)
        judging.zero_grad()
        loss.backward()
        judging.step()
        scores = model.critic(made)
        making.zero_grad()
        TF.binary_cross_entropy_with_logits(scores, torch.ones_like(scores)).backward()
        making.step()
        falling.step()
        sinking.step()
        on_step(loss)
