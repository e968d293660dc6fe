"""A detector of one stage (YOLOv5's head): two scales, the smaller one enlarged and joined, boxes decoded by anchors."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

D, CLASSES, SIDE = 8, 3, 32
ANCHORS = (((4.0, 6.0), (8.0, 5.0)), ((12.0, 16.0), (24.0, 14.0)))  # width and height, of each scale
STRIDES = (4, 8)


class PaddleConv(pnn.Layer):
    def __init__(self, channels, width, kernel, stride=1):
        super().__init__()
        self.conv = pnn.Conv2D(channels, width, kernel, stride, kernel // 2, bias_attr=False)
        self.bn = pnn.BatchNorm2D(width, momentum=0.97, epsilon=1e-3)

    def forward(self, x):
        return PF.silu(self.bn(self.conv(x)))


class PaddleDetector(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.stem, self.down1, self.down2 = PaddleConv(3, D, 3, 2), PaddleConv(D, 2 * D, 3, 2), PaddleConv(2 * D, 4 * D, 3, 2)
        self.narrow, self.join = PaddleConv(4 * D, 2 * D, 1), PaddleConv(4 * D, 2 * D, 3)
        self.heads = pnn.LayerList([pnn.Conv2D(width, 2 * (5 + CLASSES), 1) for width in (2 * D, 4 * D)])

    def decode(self, x, anchors, stride):
        batch, _, height, width = x.shape
        x = PF.sigmoid(x.reshape([batch, 2, 5 + CLASSES, height, width]).transpose([0, 1, 3, 4, 2]))
        y, x_places = paddle.meshgrid(paddle.arange(height, dtype=x.dtype), paddle.arange(width, dtype=x.dtype))
        places = paddle.stack([x_places, y], axis=-1)
        centre = (x[..., :2] * 2 - 0.5 + places) * stride
        size = (x[..., 2:4] * 2) ** 2 * paddle.to_tensor(anchors, dtype=x.dtype).reshape([1, 2, 1, 1, 2])
        return paddle.concat([centre, size, x[..., 4:]], axis=-1).reshape([batch, -1, 5 + CLASSES])

    def forward(self, image):
        fine = self.down1(self.stem(image))
        coarse = self.down2(fine)
        fine = self.join(paddle.concat([PF.interpolate(self.narrow(coarse), scale_factor=2, mode="nearest"), fine], axis=1))
        maps = zip(self.heads, (fine, coarse), ANCHORS, STRIDES)
        return paddle.concat([self.decode(head(x), anchors, stride) for head, x, anchors, stride in maps], axis=1)


class TorchConv(tnn.Module):
    def __init__(self, channels, width, kernel, stride=1):
        super().__init__()
        self.conv = tnn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        self.bn = tnn.BatchNorm2d(width, momentum=0.03, eps=1e-3)

    def forward(self, x):
        return TF.silu(self.bn(self.conv(x)))


class TorchDetector(tnn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.down1, self.down2 = TorchConv(3, D, 3, 2), TorchConv(D, 2 * D, 3, 2), TorchConv(2 * D, 4 * D, 3, 2)
        self.narrow, self.join = TorchConv(4 * D, 2 * D, 1), TorchConv(4 * D, 2 * D, 3)
        self.heads = tnn.ModuleList([tnn.Conv2d(width, 2 * (5 + CLASSES), 1) for width in (2 * D, 4 * D)])

    def decode(self, x, anchors, stride):
        batch, _, height, width = x.shape
        x = torch.sigmoid(x.reshape(batch, 2, 5 + CLASSES, height, width).permute(0, 1, 3, 4, 2))
        y, x_places = torch.meshgrid(torch.arange(height, dtype=x.dtype), torch.arange(width, dtype=x.dtype), indexing="ij")
        places = torch.stack([x_places, y], dim=-1)
        centre = (x[..., :2] * 2 - 0.5 + places) * stride
        size = (x[..., 2:4] * 2) ** 2 * torch.tensor(anchors, dtype=x.dtype).reshape(1, 2, 1, 1, 2)
        return torch.cat([centre, size, x[..., 4:]], dim=-1).reshape(batch, -1, 5 + CLASSES)

    def forward(self, image):
        fine = self.down1(self.stem(image))
        coarse = self.down2(fine)
        fine = self.join(torch.cat([TF.interpolate(self.narrow(coarse), scale_factor=2, mode="nearest"), fine], dim=1))
        maps = zip(self.heads, (fine, coarse), ANCHORS, STRIDES)
        return torch.cat([self.decode(head(x), anchors, stride) for head, x, anchors, stride in maps], dim=1)


paddle_model, torch_model = PaddleDetector, TorchDetector


def batch(rng):
    return {"image": rng.standard_normal((2, 3, SIDE, SIDE))}
