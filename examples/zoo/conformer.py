"""A speech encoder: Whisper's stem (Radford et al., 2022), and blocks of the Conformer (Gulati et al., 2020)."""

import math

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

BANDS, FRAMES, D, HEADS, LAYERS, KERNEL = 20, 32, 16, 2, 2, 7


class PaddleFeed(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = pnn.LayerNorm(D), pnn.Linear(D, 4 * D), pnn.Linear(4 * D, D)

    def forward(self, x):
        return self.down(PF.silu(self.up(self.norm(x))))


class PaddleConvolution(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.norm, self.bn = pnn.LayerNorm(D), pnn.BatchNorm1D(D)
        self.widen, self.narrow = pnn.Conv1D(D, 2 * D, 1), pnn.Conv1D(D, D, 1)
        self.depthwise = pnn.Conv1D(D, D, KERNEL, padding=KERNEL // 2, groups=D)

    def forward(self, x):
        x = PF.glu(self.widen(self.norm(x).transpose([0, 2, 1])), axis=1)
        return self.narrow(PF.silu(self.bn(self.depthwise(x)))).transpose([0, 2, 1])


class PaddleBlock(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.feed1, self.convolution, self.feed2 = PaddleFeed(), PaddleConvolution(), PaddleFeed()
        self.norm1, self.norm2 = pnn.LayerNorm(D), pnn.LayerNorm(D)
        self.q, self.v, self.out = (pnn.Linear(D, D) for _ in range(3))
        self.k = pnn.Linear(D, D, bias_attr=False)

    def attend(self, x):
        shape = [x.shape[0], x.shape[1], HEADS, D // HEADS]
        q, k, v = (part(x).reshape(shape).transpose([0, 2, 1, 3]) for part in (self.q, self.k, self.v))
        weights = PF.softmax(paddle.matmul(q, k, transpose_y=True) * (D // HEADS) ** -0.5, axis=-1)
        return self.out(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).flatten(2))

    def forward(self, x):
        x = x + 0.5 * self.feed1(x)
        x = x + self.attend(self.norm1(x))
        x = x + self.convolution(x)
        return self.norm2(x + 0.5 * self.feed2(x))


class PaddleConformer(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = pnn.Conv1D(BANDS, D, 3, padding=1), pnn.Conv1D(D, D, 3, stride=2, padding=1)
        self.blocks = pnn.Sequential(*(PaddleBlock() for _ in range(LAYERS)))

    def forward(self, spectrum):
        x = PF.gelu(self.conv2(PF.gelu(self.conv1(spectrum)))).transpose([0, 2, 1])
        rates = paddle.exp(-math.log(10000.0) / (D // 2 - 1) * paddle.arange(D // 2, dtype="float32"))
        angles = paddle.arange(x.shape[1], dtype="float32").unsqueeze(-1) * rates
        return self.blocks(x + paddle.concat([paddle.sin(angles), paddle.cos(angles)], axis=1))


class TorchFeed(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = tnn.LayerNorm(D), tnn.Linear(D, 4 * D), tnn.Linear(4 * D, D)

    def forward(self, x):
        return self.down(TF.silu(self.up(self.norm(x))))


class TorchConvolution(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.bn = tnn.LayerNorm(D), tnn.BatchNorm1d(D)
        self.widen, self.narrow = tnn.Conv1d(D, 2 * D, 1), tnn.Conv1d(D, D, 1)
        self.depthwise = tnn.Conv1d(D, D, KERNEL, padding=KERNEL // 2, groups=D)

    def forward(self, x):
        x = TF.glu(self.widen(self.norm(x).transpose(1, 2)), dim=1)
        return self.narrow(TF.silu(self.bn(self.depthwise(x)))).transpose(1, 2)


class TorchBlock(tnn.Module):
    def __init__(self):
        super().__init__()
        self.feed1, self.convolution, self.feed2 = TorchFeed(), TorchConvolution(), TorchFeed()
        self.norm1, self.norm2 = tnn.LayerNorm(D), tnn.LayerNorm(D)
        self.q, self.v, self.out = (tnn.Linear(D, D) for _ in range(3))
        self.k = tnn.Linear(D, D, bias=False)

    def attend(self, x):
        shape = [x.shape[0], x.shape[1], HEADS, D // HEADS]
        q, k, v = (part(x).reshape(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        weights = TF.softmax(torch.matmul(q, k.mT) * (D // HEADS) ** -0.5, dim=-1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + 0.5 * self.feed1(x)
        x = x + self.attend(self.norm1(x))
        x = x + self.convolution(x)
        return self.norm2(x + 0.5 * self.feed2(x))


class TorchConformer(tnn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = tnn.Conv1d(BANDS, D, 3, padding=1), tnn.Conv1d(D, D, 3, stride=2, padding=1)
        self.blocks = tnn.Sequential(*(TorchBlock() for _ in range(LAYERS)))

    def forward(self, spectrum):
        x = TF.gelu(self.conv2(TF.gelu(self.conv1(spectrum)))).transpose(1, 2)
        rates = torch.exp(-math.log(10000.0) / (D // 2 - 1) * torch.arange(D // 2, dtype=torch.float32))
        angles = torch.arange(x.shape[1], dtype=torch.float32).unsqueeze(-1) * rates
        return self.blocks(x + torch.cat([torch.sin(angles), torch.cos(angles)], dim=1))


paddle_model, torch_model = PaddleConformer, TorchConformer


def batch(rng):
    return {"spectrum": rng.standard_normal((2, BANDS, FRAMES))}
