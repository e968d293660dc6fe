"""A variational autoencoder (Kingma and Welling, 2014); the noise is drawn, or an input."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .training import Recipe

RECIPE = Recipe("Adam", rate=1e-3, schedule="cosine", clip=None)
DRAWN = ("noise",)  # by the training itself


class PaddleVae(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = pnn.Linear(64, 48)
        self.mean = pnn.Linear(48, 8)
        self.logvar = pnn.Linear(48, 8)
        self.decode1 = pnn.Linear(8, 48)
        self.decode2 = pnn.Linear(48, 64)

    def forward(self, x, noise=None):
        hidden = PF.relu(self.hidden(x))
        mean, logvar = self.mean(hidden), self.logvar(hidden)
        noise = paddle.randn(mean.shape, mean.dtype) if noise is None else noise
        z = mean + noise * paddle.exp(0.5 * logvar)
        return PF.sigmoid(self.decode2(PF.relu(self.decode1(z)))), mean, logvar


class TorchVae(tnn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = tnn.Linear(64, 48)
        self.mean = tnn.Linear(48, 8)
        self.logvar = tnn.Linear(48, 8)
        self.decode1 = tnn.Linear(8, 48)
        self.decode2 = tnn.Linear(48, 64)

    def forward(self, x, noise=None):
        hidden = TF.relu(self.hidden(x))
        mean, logvar = self.mean(hidden), self.logvar(hidden)
        noise = torch.randn_like(mean) if noise is None else noise
        z = mean + noise * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.decode2(TF.relu(self.decode1(z)))), mean, logvar


paddle_model, torch_model = PaddleVae, TorchVae


def batch(rng):
    return {"images": rng.random((16, 64)), "noise": rng.standard_normal((16, 8))}


def paddle_step(model, images, noise=None):
    decoded, mean, logvar = model(images, noise)
    reconstruction = PF.binary_cross_entropy(decoded, images, reduction="sum")
    divergence = -0.5 * paddle.sum(1 + logvar - mean.pow(2) - logvar.exp())
    return [decoded, mean, logvar], reconstruction + divergence


def torch_step(model, images, noise=None):
    decoded, mean, logvar = model(images, noise)
    reconstruction = TF.binary_cross_entropy(decoded, images, reduction="sum")
    divergence = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
    return [decoded, mean, logvar], reconstruction + divergence
