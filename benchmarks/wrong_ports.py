"""Pairs of the size that people port: right, rounding otherwise, with one and with ten mistakes (`bench_prove.py --wrong`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch
from torch import nn
from zoo import llama

import padiff_shim


class Block(nn.Module):
    """A basic block of ResNet (He et al., 2015), with the names of paddle.vision's."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet18(nn.Module):
    """ResNet-18."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool, self.avgpool, self.fc = nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Linear(512, 1000)
        widths = (64, 64, 128, 256, 512)
        for place, (channels, out) in enumerate(itertools.pairwise(widths), 1):
            blocks = Block(channels, out, 1 if place == 1 else 2), Block(out, out, 1)
            setattr(self, f"layer{place}", nn.Sequential(*blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(self.avgpool(x).flatten(1))


class OtherNorm(llama.PaddleRMSNorm):
    """The norm of the zoo's Llama with another epsilon."""

    def forward(self, x: Any) -> Any:
        return self.weight * (x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Reordered(llama.PaddleRMSNorm):
    """The same in another order of rounding."""

    def forward(self, x: Any) -> Any:
        return (self.weight * x) * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Model(NamedTuple):
    """A port, its original, and the input of both."""

    port: Any
    original: Any
    inputs: np.ndarray


def resnet() -> Model:
    """ResNet-18 of paddle.vision, two images of 64 x 64."""
    images = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype("float32")
    return Model(paddle.vision.models.resnet18(), ResNet18(), images)


def large_llama() -> Model:
    """A Llama of 219 million parameters, two rows of 16 words; its sizes are set in the zoo's module."""
    llama.WORDS = 32000
    llama.D, llama.HEADS, llama.KEYS, llama.LAYERS, llama.HIDDEN, llama.SIZE = 1024, 16, 8, 13, 2816, 64
    tokens = np.random.default_rng(0).integers(0, llama.WORDS, (2, llama.LENGTH))
    model = Model(llama.paddle_model(), llama.torch_model(), tokens)
    padiff_shim.transfer_weights(model.original, model.port)
    return model


def epsilons(count: int) -> Callable[[Any], None]:
    """Other epsilons in so many of the batch norms, the first of them in the middle."""

    def change(port: Any) -> None:
        norms = [layer for layer in port.sublayers() if isinstance(layer, paddle.nn.BatchNorm2D)]
        for layer in norms[len(norms) // 2 :][:count]:
            layer._epsilon = 1e-3

    return change


def norms(kind: type, count: int) -> Callable[[Any], None]:
    """Other norms in so many of the blocks."""

    def change(port: Any) -> None:
        for block in list(port.blocks)[3:][:count]:
            block.norm1.__class__ = kind

    return change


CASES: dict[str, tuple[Callable[[], Model], Callable[[Any], None], str]] = {
    "ResNet-18": (resnet, lambda _: None, "CODE_CORRECT"),
    "ResNet-18, one mistake": (resnet, epsilons(1), "CODE_DIFFERS"),
    "ResNet-18, ten mistakes": (resnet, epsilons(10), "CODE_DIFFERS"),
    "Llama of 219 M": (large_llama, lambda _: None, "CODE_CORRECT"),
    "Llama of 219 M, another order of rounding": (large_llama, norms(Reordered, 1), "CODE_CORRECT_WITHIN_ROUNDING"),
    "Llama of 219 M, one mistake": (large_llama, norms(OtherNorm, 1), "CODE_DIFFERS"),
    "Llama of 219 M, ten mistakes": (large_llama, norms(OtherNorm, 10), "CODE_DIFFERS"),
}
