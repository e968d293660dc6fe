"""Lines that a port gets wrong where no argument is to blame, each with the original's: masks and tables, elements that are set,
calls that write in place, another op, a graph that goes on, a dropout too many. What the finding writes is written, and proven.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import padiff_shim


class Lines(NamedTuple):
    """The lines of a port's forward and of its original's; ``layers``: what both have as ``self.n``.

    ``train``: both train; ``both``: gradients are compared, too. ``row``: family, call and arguments in the table of docs/prove.md.
    """

    wrong: str
    original: str
    layers: tuple[str, str] = ("None", "None")
    train: bool = False
    both: bool = False
    row: tuple[str, str, str] = ("", "", "")


_MODULE = """\
import math

import {framework}
import {framework}.nn.functional as F

class Model({framework}.nn.{base}):
    def __init__(self):
        super().__init__()
        self.q, self.k = {framework}.nn.Linear(8, 8), {framework}.nn.Linear(8, 8)
        self.n = {layer}

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        {lines}
"""


def _model(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module.Model()


def _written(file: Path, framework: str, lines: str, layer: str) -> Path:
    base = "Layer" if framework == "paddle" else "Module"
    file.write_text(_MODULE.format(framework=framework, base=base, layer=layer, lines=lines.replace("\n", "\n        ")))
    return file


def steps_to_mend(name: str, folder: Path) -> list[str]:
    """What the first findings write, one proof after the other, until the port is proven.

    Raises:
        ValueError: a finding writes nothing, or does not mend.
    """
    row, plain = LINES[name], name.replace(" ", "_")
    torch.manual_seed(0)
    original = _model(_written(folder / f"original_{plain}.py", "torch", row.original, row.layers[1])).train(row.train)
    file, steps = _written(folder / f"port_{plain}.py", "paddle", row.wrong, row.layers[0]), list[str]()
    x = np.random.default_rng(0).standard_normal((2, 6, 8)).astype("float32")
    for number in range(4):
        port = _model(file)
        port.train() if row.train else port.eval()
        proof = padiff_shim.prove(port, original, x, phase="both" if row.both else "forward")
        if proof and steps:
            return steps
        fix = proof.mistakes[0].fix if proof.mistakes else None
        if fix is None or fix.patch is None:
            break
        steps.append(fix.text)
        text = fix.patch.apply(file.read_text())
        file = folder / f"port_{plain}_{number}.py"  # else one of equal length, of the same second, is the old one
        file.write_text(text)
    raise ValueError(f"{name}: {proof.headline}")


LINES = {
    "tril mask": Lines(
        "s = q @ k.transpose([0, 2, 1])\nreturn F.softmax(s.masked_fill(paddle.tril(paddle.ones([6, 6])) == 0, -1e9), -1) @ x",
        "s = q @ k.mT\nreturn torch.softmax(s.masked_fill(torch.tril(torch.ones(6, 6), 1) == 0, -1e9), -1) @ x",
    ),
    "triu inf": Lines(
        "m = paddle.triu(paddle.full([6, 6], -math.inf), 2)\nreturn F.softmax(q @ k.transpose([0, 2, 1]) + m, -1) @ x",
        "m = torch.triu(torch.full((6, 6), -math.inf), 1)\nreturn torch.softmax(q @ k.mT + m, -1) @ x",
    ),
    "mask bool inverted": Lines(
        "m = paddle.tril(paddle.ones([6, 6], 'bool'))\nreturn F.softmax((q @ k.transpose([0, 2, 1])).masked_fill(m, -1e9), -1)",
        "m = torch.tril(torch.ones(6, 6, dtype=torch.bool))\nreturn torch.softmax((q @ k.mT).masked_fill(~m, -1e9), -1)",
    ),
    "mask of where": Lines(
        "m = paddle.arange(6).unsqueeze(-1) < 3\nreturn paddle.where(m, q, k)",
        "m = torch.arange(6).unsqueeze(-1) < 4\nreturn torch.where(m, q, k)",
    ),
    "mask mul": Lines(
        "m = (paddle.arange(6) < 3).astype('float32').unsqueeze(-1)\nreturn q * m",
        "m = (torch.arange(6) < 4).float().unsqueeze(-1)\nreturn q * m",
    ),
    "mask of values": Lines(
        "return q * (x > 0).astype('float32')",
        "return q * (x >= 0.5).float()",
    ),
    "mask of values less": Lines(
        "return q * (x > 0).astype('float32')",
        "return q * (x < 0).float()",
    ),
    "positions": Lines(
        "p = paddle.arange(6).astype('float32').unsqueeze(-1)\nreturn q + p",
        "p = torch.arange(1, 7).float().unsqueeze(-1)\nreturn q + p",
    ),
    "positions start": Lines(
        "p = paddle.arange(0, 6).astype('float32').unsqueeze(-1)\nreturn q + p",
        "p = torch.arange(1, 7).float().unsqueeze(-1)\nreturn q + p",
    ),
    "linspace": Lines(
        "p = paddle.linspace(0, 1, 8)\nreturn q * p",
        "p = torch.linspace(-1, 1, 8)\nreturn q * p",
    ),
    "to tensor table": Lines(
        "p = paddle.to_tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])\nreturn (q - p) / 2.0",
        "p = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0])\nreturn (q - p) / 2.0",
    ),
    "rope step": Lines(
        "f = 1.0 / (10000.0 ** (paddle.arange(0, 8).astype('float32') / 8))\nreturn q * paddle.cos(x * f)",
        "f = 1.0 / (10000.0 ** (torch.arange(0, 16, 2).float() / 8))\nreturn q * torch.cos(x * f)",
    ),
    "sin cos table": Lines(
        "p = paddle.arange(8).astype('float32')\nreturn q * paddle.sin(p)",
        "p = torch.arange(8).float()\nreturn q * torch.cos(p)",
    ),
    "eye": Lines(
        "return q @ (paddle.eye(8) * 2.0)",
        "return q @ (torch.eye(8) * 3.0)",
    ),
    "set slice value": Lines(
        "h = q * 2.0\nh[:, 0] = 0.0\nreturn h + k",
        "h = q * 2.0\nh[:, 0] = 1.0\nreturn h + k",
    ),
    "set slice index": Lines(
        "h = q * 2.0\nh[:, 0] = 0.0\nreturn h + k",
        "h = q * 2.0\nh[:, -1] = 0.0\nreturn h + k",
    ),
    "set slice tensor": Lines(
        "h = q * 2.0\nh[:, 0] = k[:, 1]\nreturn h + k",
        "h = q * 2.0\nh[:, 0] = k[:, 2]\nreturn h + k",
    ),
    "set slice tensor idx": Lines(
        "h = q * 2.0\nh[:, 0] = k[:, 1]\nreturn h + k",
        "h = q * 2.0\nh[:, 3] = k[:, 1]\nreturn h + k",
    ),
    "set mask value": Lines(
        "h = q * 2.0\nh[x > 0] = 0.0\nreturn h + k",
        "h = q * 2.0\nh[x > 0] = 1.0\nreturn h + k",
    ),
    "set mask mask": Lines(
        "h = q * 2.0\nh[x > 0] = 0.0\nreturn h + k",
        "h = q * 2.0\nh[x > 0.5] = 0.0\nreturn h + k",
    ),
    "set range": Lines(
        "h = q * 2.0\nh[:, 1:3] = 0.0\nreturn h + k",
        "h = q * 2.0\nh[:, 1:4] = 0.0\nreturn h + k",
    ),
    "add inplace": Lines(
        "h = q * 2.0\nh.add_(q)\nreturn h",
        "h = q * 2.0\nh.add_(k)\nreturn h",
    ),
    "iadd": Lines(
        "h = q * 2.0\nh += q\nreturn h",
        "h = q * 2.0\nh += k\nreturn h",
    ),
    "imul number": Lines(
        "h = q * 2.0\nh *= 3\nreturn h",
        "h = q * 2.0\nh *= 2\nreturn h",
    ),
    "isub": Lines(
        "h = q * 2.0\nh -= k\nreturn h",
        "h = q * 2.0\nh += k\nreturn h",
    ),
    "idiv": Lines(
        "h = q * 2.0\nh /= 5.0\nreturn h",
        "h = q * 2.0\nh /= 4.0\nreturn h",
    ),
    "multiply": Lines(
        "h = q * 2.0\nh.multiply_(q)\nreturn h",
        "h = q * 2.0\nh.mul_(k)\nreturn h",
    ),
    "subtract": Lines(
        "h = q * 2.0\nh.subtract_(x)\nreturn h",
        "h = q * 2.0\nh.sub_(k)\nreturn h",
    ),
    "scale": Lines(
        "h = q * 2.0\nh.scale_(2.0)\nreturn h",
        "h = q * 2.0\nh.mul_(3.0)\nreturn h",
    ),
    "clip": Lines(
        "h = q * 2.0\nh.clip_(-0.1, 0.1)\nreturn h",
        "h = q * 2.0\nh.clamp_(-0.2, 0.2)\nreturn h",
    ),
    "clip one": Lines(
        "h = q * 2.0\nh.clip_(-0.1, 0.1)\nreturn h",
        "h = q * 2.0\nh.clamp_(-0.1, 0.2)\nreturn h",
    ),
    "fill": Lines(
        "h = q * 2.0\nh[:, 0].fill_(2.0)\nreturn h+k",
        "h = q * 2.0\nh[:, 0].fill_(3.0)\nreturn h+k",
    ),
    "relu": Lines(
        "h = q * 2.0\nF.relu_(h)\nreturn h",
        "h = q * 2.0\nh.tanh_()\nreturn h",
    ),
    "sum for mean": Lines(
        "return q.sum(1)",
        "return q.mean(1)",
    ),
    "max for mean": Lines(
        "return q.max(1)",
        "return q.mean(1)",
    ),
    "prod for sum": Lines(
        "return q.prod(1)",
        "return q.sum(1)",
    ),
    "max for amin": Lines(
        "return q.max(1)",
        "return q.amin(1)",
    ),
    "relu for gelu": Lines(
        "return F.relu(q)",
        "return F.gelu(q)",
    ),
    "relu for gelu tanh": Lines(
        "return F.relu(q)",
        "return F.gelu(q, approximate='tanh')",
    ),
    "silu for gelu next": Lines(
        "return self.k(F.silu(q))",
        "return self.k(F.gelu(q))",
    ),
    "leaky": Lines(
        "return self.k(F.relu(q))",
        "return self.k(F.leaky_relu(q, 0.2))",
    ),
    "layer relu": Lines(
        "return self.k(self.n(q))",
        "return self.k(self.n(q))",
        layers=("paddle.nn.ReLU()", "torch.nn.GELU()"),
    ),
    "layer relu silu": Lines(
        "return self.k(self.n(q))",
        "return self.k(self.n(q))",
        layers=("paddle.nn.ReLU()", "torch.nn.SiLU()"),
    ),
    "layer leaky": Lines(
        "return self.k(self.n(q))",
        "return self.k(self.n(q))",
        layers=("paddle.nn.ReLU()", "torch.nn.LeakyReLU(0.2)"),
    ),
    "matmul for multiply": Lines(
        "s = q[:, :, :6] @ k[:, :, :6]\nreturn s",
        "s = q[:, :, :6] * k[:, :, :6]\nreturn s",
    ),
    "add for mul": Lines(
        "return q + k",
        "return q * k",
    ),
    "mul for add": Lines(
        "return paddle.multiply(q, k)",
        "return q + k",
    ),
    "div for mul": Lines(
        "return q / (k + 5.0)",
        "return q * (k + 5.0)",
    ),
    "sub for add": Lines(
        "return self.k(q - x)",
        "return self.k(q + x)",
    ),
    "maximum minimum": Lines(
        "return paddle.maximum(q, k)",
        "return torch.minimum(q, k)",
    ),
    "sin cos": Lines(
        "return paddle.sin(q)",
        "return torch.cos(q)",
    ),
    "exp expm1": Lines(
        "return paddle.exp(q)",
        "return torch.expm1(q)",
    ),
    "sigmoid tanh": Lines(
        "return F.sigmoid(q) * k",
        "return torch.tanh(q) * k",
    ),
    "sqrt rsqrt": Lines(
        "return paddle.sqrt(q * q + 1.0)",
        "return torch.rsqrt(q * q + 1.0)",
    ),
    "softmax log": Lines(
        "return F.softmax(q, -1)",
        "return F.log_softmax(q, -1)",
    ),
    "softmax sigmoid": Lines(
        "return F.softmax(q, -1)",
        "return torch.sigmoid(q)",
    ),
    "l1 mse": Lines(
        "return F.l1_loss(q, k)",
        "return F.mse_loss(q, k)",
    ),
    "avg max pool": Lines(
        "return F.avg_pool1d(q, 2, 2)",
        "return F.max_pool1d(q, 2, 2)",
    ),
    "var std": Lines(
        "return q.var(-1)",
        "return q.std(-1)",
    ),
    "cumsum cumprod": Lines(
        "return q.cumsum(1)",
        "return q.cumprod(1)",
    ),
    "abs square": Lines(
        "return q.abs()",
        "return q.square()",
    ),
    "floor round": Lines(
        "return q.floor()*1.0+k",
        "return q.round()*1.0+k",
    ),
    "detach missing": Lines(
        "return q * k",
        "return q.detach() * k",
        both=True,
    ),
    "detach missing arg": Lines(
        "return F.mse_loss(q, k)",
        "return F.mse_loss(q, k.detach())",
        both=True,
    ),
    "detach missing in call": Lines(
        "return self.k(F.relu(q)) + k",
        "return self.k(F.relu(q).detach()) + k",
        both=True,
    ),
    "detach missing stmt": Lines(
        "h = F.relu(q)\nreturn h * k + q",
        "h = F.relu(q).detach()\nreturn h * k + q",
        both=True,
    ),
    "no grad missing": Lines(
        "h = F.relu(q) * 2.0\nreturn h * k + q",
        "with torch.no_grad():\n    h = F.relu(q) * 2.0\nreturn h * k + q",
        both=True,
    ),
    "ste": Lines(
        "h = q.round()\nreturn q + (h - q) + k",
        "h = q.round()\nreturn q + (h - q).detach() + k",
        both=True,
    ),
    "max detach": Lines(
        "h = paddle.exp(q - q.max(-1, keepdim=True))\nreturn h + k",
        "h = torch.exp(q - q.amax(-1, keepdim=True).detach())\nreturn h + k",
        both=True,
    ),
    "dropout extra layer": Lines(
        "return self.k(self.n(q))",
        "return self.k(q)",
        layers=("paddle.nn.Dropout(0.5)", "torch.nn.Dropout(0.5)"),
        train=True,
    ),
    "dropout extra f": Lines(
        "return self.k(F.dropout(q, 0.5))",
        "return self.k(q)",
        train=True,
    ),
    "dropout twice other": Lines(
        "return self.n(self.k(self.n(q)))",
        "return self.k(self.n(q))",
        layers=("paddle.nn.Dropout(0.5)", "torch.nn.Dropout(0.5)"),
        train=True,
    ),
    "dropout missing": Lines(
        "return self.k(q)",
        "return self.k(self.n(q))",
        layers=("paddle.nn.Dropout(0.5)", "torch.nn.Dropout(0.5)"),
        train=True,
    ),
    "dropout missing f": Lines(
        "return self.k(q)",
        "return self.k(F.dropout(q, 0.5, training=self.training))",
        train=True,
    ),
    "noise extra": Lines(
        "return self.k(q + paddle.randn(q.shape))",
        "return self.k(q)",
        train=True,
    ),
    "noise missing": Lines(
        "return self.k(q)",
        "return self.k(q + torch.randn(q.shape))",
        train=True,
    ),
    "noise rand": Lines(
        "return self.k(q + paddle.rand(q.shape))",
        "return self.k(q + torch.randn(q.shape))",
        train=True,
    ),
    "alpha dropout extra": Lines(
        "return self.k(F.alpha_dropout(q, 0.5))",
        "return self.k(q)",
        train=True,
    ),
    "rrelu": Lines(
        "return self.k(F.rrelu(q, training=True))",
        "return self.k(F.leaky_relu(q, 0.2))",
        train=True,
    ),
    "seq relu": Lines(
        "return self.n(q)",
        "return self.n(q)",
        layers=(
            "paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.ReLU())",
            "torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())",
        ),
    ),
    "seq pool": Lines(
        "return self.n(q)",
        "return self.n(q)",
        layers=(
            "paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 4), paddle.nn.ReLU())",
            "torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(approximate='tanh'), torch.nn.Linear(8, 4), torch.nn.ReLU())",
        ),
    ),
    "setitem aug": Lines(
        "h = q * 2.0\nh[:, 0] *= 3.0\nreturn h + k",
        "h = q * 2.0\nh[:, 0] *= 4.0\nreturn h + k",
    ),
    "index put": Lines(
        "h = q * 2.0\nh = paddle.index_put(h, (paddle.to_tensor([0, 1]),), k[0])\nreturn h",
        "h = q * 2.0\nh = h.index_put((torch.tensor([0, 1]),), k[1])\nreturn h",
    ),
    "masked fill": Lines(
        "h = q * 2.0\nh.masked_fill_(x > 0, 0.5)\nreturn h + k",
        "h = q * 2.0\nh.masked_fill_(x > 0.5, 0.5)\nreturn h + k",
    ),
    "scatter": Lines(
        "h = q * 2.0\nreturn paddle.put_along_axis(h, paddle.argmax(x, -1, keepdim=True), 1.0, -1)",
        "h = q * 2.0\nreturn h.scatter(-1, x.argmin(-1, keepdim=True), 1.0)",
    ),
    "set two": Lines(
        "h = q * 2.0\nh[:, 0] = 0.0\nh[:, 1] = 1.0\nreturn h + k",
        "h = q * 2.0\nh[:, 0] = 0.0\nh[:, 2] = 1.0\nreturn h + k",
    ),
    "scaled_dot_product_attention is_causal": Lines(
        "a, b = q.unsqueeze(2), k.unsqueeze(2)\nreturn F.scaled_dot_product_attention(a, b, b).squeeze(2)",
        "return F.scaled_dot_product_attention(q, k, k, is_causal=True)",
        row=("attention", "scaled_dot_product_attention", "is_causal"),
    ),
    "flash_attention causal": Lines(
        "a, b = q.unsqueeze(2), k.unsqueeze(2)\nreturn F.flash_attention.flash_attention(a, b, b)[0].squeeze(2)",
        "return F.scaled_dot_product_attention(q, k, k, is_causal=True)",
        row=("attention", "flash_attention", "causal (is_causal)"),
    ),
    "arange start end step": Lines(
        "return q + paddle.arange(0, 8, 1).astype('float32')",
        "return q + torch.arange(1, 17, 2).float()",
        row=("creation", "arange", "start, end, step"),
    ),
    "full fill_value": Lines(
        "return q * paddle.full([8], 0.5) + k",
        "return q * torch.full([8], 0.25) + k",
        row=("creation", "full", "fill_value"),
    ),
    "cholesky upper": Lines(
        "s = q @ q.transpose([0, 2, 1]) + paddle.eye(6)\nreturn paddle.linalg.cholesky(s, upper=True)",
        "s = q @ q.mT + torch.eye(6)\nreturn torch.linalg.cholesky(s)",
        row=("decomposition", "cholesky", "upper"),
    ),
    "triangular_solve upper": Lines(
        "s = q @ q.transpose([0, 2, 1]) + paddle.eye(6)\nreturn paddle.linalg.triangular_solve(s, k, upper=True)",
        "s = q @ q.mT + torch.eye(6)\nreturn torch.linalg.solve_triangular(s, k, upper=False)",
        row=("decomposition", "triangular_solve", "upper"),
    ),
    "triangular_solve unitriangular": Lines(
        "s = q @ q.transpose([0, 2, 1]) + paddle.eye(6)\nreturn paddle.linalg.triangular_solve(s, k, unitriangular=True)",
        "s = q @ q.mT + torch.eye(6)\nreturn torch.linalg.solve_triangular(s, k, upper=True)",
        row=("decomposition", "triangular_solve", "unitriangular"),
    ),
    "dropout p": Lines(
        "return F.dropout(q, 0.5)",
        "return F.dropout(q, 0.25)",
        train=True,
        row=("dropouts", "dropout", "p"),
    ),
    "dropout mode": Lines(
        "return F.dropout(q, 0.5, mode='downscale_in_infer')",
        "return F.dropout(q, 0.5)",
        train=True,
        row=("dropouts", "dropout", "mode"),
    ),
    "dropout axis": Lines(
        "return F.dropout(q, 0.5, axis=0, training=self.training)",
        "return F.dropout(q, 0.5, training=self.training)",
        train=True,
        row=("dropouts", "dropout", "axis"),
    ),
    "dropout2d p": Lines(
        "return F.dropout2d(q.unsqueeze(1), 0.5)",
        "return F.dropout2d(q.unsqueeze(1), 0.25)",
        train=True,
        row=("dropouts", "dropout2d", "p"),
    ),
    "fft n": Lines(
        "return paddle.fft.fft(q, n=4).real()",
        "return torch.fft.fft(q, n=6).real",
        row=("fft", "fft", "n"),
    ),
    "fft axis": Lines(
        "return paddle.fft.fft(q, axis=1).real()",
        "return torch.fft.fft(q, dim=-1).real",
        row=("fft", "fft", "axis (dim)"),
    ),
    "rfft norm": Lines(
        "return paddle.fft.rfft(q).abs()",
        "return torch.fft.rfft(q, norm='ortho').abs()",
        row=("fft", "rfft", "norm"),
    ),
    "fft2 axes": Lines(
        "return paddle.fft.fft2(q, axes=[0, 1]).real()",
        "return torch.fft.fft2(q).real",
        row=("fft", "fft2", "axes (dim)"),
    ),
    "hfft norm": Lines(
        "return paddle.fft.hfft(q)",
        "return torch.fft.hfft(q, norm='forward')",
        row=("fft", "hfft", "norm"),
    ),
    "send_u_recv reduce_op": Lines(
        "i = paddle.to_tensor([0, 0, 1, 1, 2, 2])\nreturn paddle.geometric.send_u_recv(q[0], paddle.arange(6), i, reduce_op='sum')",
        "i = torch.tensor([0, 0, 1, 1, 2, 2])\nreturn torch.zeros(6, 8).index_reduce(0, i, q[0], 'mean', include_self=False)",
        row=("graph", "send_u_recv", "reduce_op (reduce)"),
    ),
    "SimpleRNN activation": Lines(
        "return self.n(q)[0]",
        "return self.n(q)[0]",
        layers=("paddle.nn.SimpleRNN(8, 5)", "torch.nn.RNN(8, 5, batch_first=True, nonlinearity='relu')"),
        row=("rnn", "SimpleRNN", "activation (nonlinearity)"),
    ),
    "LSTM time_major": Lines(
        "return self.n(q)[0]",
        "return self.n(q)[0]",
        layers=("paddle.nn.LSTM(8, 5, time_major=True)", "torch.nn.LSTM(8, 5, batch_first=True)"),
        row=("rnn", "LSTM", "time_major (batch_first)"),
    ),
    "uniform min max": Lines(
        "return q + paddle.uniform(q.shape, min=-1.0, max=1.0)",
        "return q + torch.rand(q.shape)",
        train=True,
        row=("random", "uniform", "min, max"),
    ),
    "names of a chunk": Lines(
        "b, a = paddle.chunk(q, 2, -1)\nreturn a * F.sigmoid(b)",
        "a, b = q.chunk(2, -1)\nreturn a * torch.sigmoid(b)",
    ),
    "names of three gates": Lines(
        "o, i, f, g = paddle.split(q, 4, -1)\nreturn F.sigmoid(o) * F.tanh(F.sigmoid(f) * k[..., :2] + F.sigmoid(i) * F.tanh(g))",
        "i, f, g, o = q.chunk(4, -1)\nreturn o.sigmoid() * torch.tanh(f.sigmoid() * k[..., :2] + i.sigmoid() * g.tanh())",
    ),
    "names of slices": Lines(
        "a, c, b = q[..., :2], q[..., 2:4], q[..., 4:6]\nreturn a + paddle.exp(b) * c",
        "a, b, c = q[..., :6].split(2, -1)\nreturn a + b.exp() * c",
    ),
    "names of an expression": Lines(
        "s, t = paddle.chunk(F.silu(k), 2, -1)\nreturn q[..., :4] * (1 + t) + s",
        "by, to = torch.nn.functional.silu(k).chunk(2, -1)\nreturn q[..., :4] * (1 + by) + to",
    ),
    "sign of a rotation": Lines(
        "a, b = q[..., 0::2], q[..., 1::2]\nr = paddle.stack([b, -a], -1).flatten(-2)\nreturn (q * 0.8 + r * 0.6) * 0.5 * k",
        "r = torch.stack((-q[..., 1::2], q[..., ::2]), -1).flatten(-2)\nreturn (q * 0.5 * 0.8 + r * 0.5 * 0.6) * k",
    ),
    "shares of a focal loss": Lines(
        "t = (k > 0).astype('float32')\nw = paddle.where(t == 1, paddle.full_like(t, 0.75), paddle.full_like(t, 0.25))\n"
        "return (w * F.sigmoid(q).square() * F.softplus(q)).mean(-1)",
        "t = (k > 0).float()\nw = 0.25 * t + (1 - 0.25) * (1 - t)\n"
        "return (w * torch.nn.functional.softplus(q) * torch.sigmoid(q) ** 2).mean(-1)",
    ),
    "distances from 0 on": Lines(
        "d = (paddle.arange(6).unsqueeze(1) - paddle.arange(6)).astype('float32')\n"
        "return paddle.where(d > 0, paddle.exp(d * -0.3), paddle.zeros([1])) @ q",
        "d = (torch.arange(6)[:, None] - torch.arange(6)).float()\nreturn torch.tril(torch.exp(d * -0.3)) @ q",
    ),
    "another activation of a part": Lines(
        "return 1 - paddle.exp(-F.softplus(q[..., 0]) * 2.5)",
        "r = torch.cat([k, q], -1).reshape(-1, 16)\nreturn 1 - torch.exp(-torch.relu(r[:, 8]) * 2.5).reshape(2, 6)",
    ),
    "biased weights of a choice": Lines(
        "s = F.sigmoid(q)\nb = paddle.arange(8).astype('float32') * 0.2\n_, i = paddle.topk(s + b, 2, axis=-1)\n"
        "w = paddle.take_along_axis(s + b, i, axis=-1)\nreturn w / w.sum(-1, keepdim=True)",
        "s = torch.sigmoid(q)\ni = torch.topk(s + torch.arange(8) * 0.2, 2, -1)[1]\n"
        "w = s.gather(-1, i)\nreturn w / w.sum(-1, keepdim=True)",
    ),
}
