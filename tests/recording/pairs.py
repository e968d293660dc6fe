"""A small Transformer block in both frameworks, and how one of them is recorded."""

import shutil

import numpy as np
import paddle
import paddle.nn.functional as PF
import torch
import torch.nn.functional as TF

import padiff_shim

D = 8
X = np.random.default_rng(0).standard_normal((3, 5, D)).astype("float32")


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(D)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        scores = torch.matmul(self.q(h), self.k(h).transpose(-1, -2)) / D**0.5
        x = x + self.out(torch.matmul(torch.softmax(scores, dim=-1), self.v(h)))
        return TF.gelu(x) * 0.5


class Port(paddle.nn.Layer):
    """The same; ``factor`` 0.5 is right, ``doubled`` calls gelu twice."""

    def __init__(self, factor=0.5, doubled=False):
        super().__init__()
        self.factor, self.doubled = factor, doubled
        self.norm = paddle.nn.LayerNorm(D)
        self.q, self.k, self.v, self.out = (paddle.nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        scores = paddle.matmul(self.q(h), self.k(h), transpose_y=True) / D**0.5
        x = x + self.out(paddle.matmul(PF.softmax(scores, axis=-1), self.v(h)))
        if self.doubled:
            x = PF.gelu(x)
        return PF.gelu(x) * self.factor


def pair(**wrong):
    """Both with equal weights."""
    torch.manual_seed(0)
    original, port = Original(), Port(**wrong)
    padiff_shim.transfer_weights(original, port)
    return original, port


def seeded(**wrong):
    """The port with the same weights each time."""
    return pair(**wrong)[1]


def paddle_run(folder, port, x=X, backward=True, **options):
    """Record a forward and a backward of the port."""
    with padiff_shim.record(folder, port, **options) as recording:
        result = port(paddle.to_tensor(x))
        if backward:
            result.sum().backward()
    return recording, result


def torch_run(folder, original, x=X, **options):
    """The same of the original."""
    with padiff_shim.record(folder, original, **options) as recording:
        result = original(torch.from_numpy(x))
        result.sum().backward()
    return recording, result


def damaged(folder, source, change):
    """A copy of a recording with other lines."""
    shutil.copytree(source, folder)
    (path,) = folder.glob("records-*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(change(lines)))
    return folder
