"""A U-Net (Ronneberger et al., 2015) with group normalisation; one step up is a transposed convolution, one an interpolation."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .training import Recipe

RECIPE = Recipe("Adam", rate=2e-3, schedule="halving")


class PaddleDouble(pnn.Layer):
    def __init__(self, channels, width):
        super().__init__()
        self.conv1 = pnn.Conv2D(channels, width, 3, padding=1)
        self.norm1 = pnn.GroupNorm(4, width)
        self.conv2 = pnn.Conv2D(width, width, 3, padding=1)
        self.norm2 = pnn.GroupNorm(4, width)

    def forward(self, x):
        x = PF.silu(self.norm1(self.conv1(x)))
        return PF.silu(self.norm2(self.conv2(x)))


class PaddleUNet(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.down1 = PaddleDouble(1, 8)
        self.down2 = PaddleDouble(8, 16)
        self.middle = PaddleDouble(16, 32)
        self.drop = pnn.Dropout2D(0.1)
        self.up2 = pnn.Conv2DTranspose(32, 16, 2, 2)
        self.merge2 = PaddleDouble(32, 16)
        self.narrow = pnn.Conv2D(16, 8, 1)
        self.merge1 = PaddleDouble(16, 8)
        self.head = pnn.Conv2D(8, 1, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(PF.max_pool2d(first, 2))
        x = self.drop(self.middle(PF.avg_pool2d(second, 2)))
        x = self.merge2(paddle.concat([second, self.up2(x)], axis=1))
        x = self.narrow(PF.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))
        return self.head(self.merge1(paddle.concat([first, x], axis=1)))


class TorchDouble(tnn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.conv1 = tnn.Conv2d(channels, width, 3, padding=1)
        self.norm1 = tnn.GroupNorm(4, width)
        self.conv2 = tnn.Conv2d(width, width, 3, padding=1)
        self.norm2 = tnn.GroupNorm(4, width)

    def forward(self, x):
        x = TF.silu(self.norm1(self.conv1(x)))
        return TF.silu(self.norm2(self.conv2(x)))


class TorchUNet(tnn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = TorchDouble(1, 8)
        self.down2 = TorchDouble(8, 16)
        self.middle = TorchDouble(16, 32)
        self.drop = tnn.Dropout2d(0.1)
        self.up2 = tnn.ConvTranspose2d(32, 16, 2, 2)
        self.merge2 = TorchDouble(32, 16)
        self.narrow = tnn.Conv2d(16, 8, 1)
        self.merge1 = TorchDouble(16, 8)
        self.head = tnn.Conv2d(8, 1, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(TF.max_pool2d(first, 2))
        x = self.drop(self.middle(TF.avg_pool2d(second, 2)))
        x = self.merge2(torch.cat([second, self.up2(x)], dim=1))
        x = self.narrow(TF.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))
        return self.head(self.merge1(torch.cat([first, x], dim=1)))


paddle_model, torch_model = PaddleUNet, TorchUNet


def batch(rng):
    return {"images": rng.standard_normal((2, 1, 32, 32)), "masks": (rng.random((2, 1, 32, 32)) < 0.5).astype("float64")}


def paddle_step(model, images, masks):
    logits = model(images)
    return [logits], PF.binary_cross_entropy_with_logits(logits, masks)


def torch_step(model, images, masks):
    logits = model(images)
    return [logits], TF.binary_cross_entropy_with_logits(logits, masks)
