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
    ``alone``: it is one finding, and one change mends it.
    """

    wrong: str
    original: str
    layers: tuple[str, str] = ("None", "None")
    train: bool = False
    both: bool = False
    row: tuple[str, str, str] = ("", "", "")
    alone: bool = False


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
        if row.alone and (steps or len(proof.mistakes) != 1):
            break
        fix = proof.mistakes[0].fix if proof.mistakes else None
        if fix is None or fix.patch is None:
            break
        steps.append(fix.text)
        text = fix.patch.apply(file.read_text())
        file = folder / f"port_{plain}_{number}.py"  # else one of equal length, of the same second, is the old one
        file.write_text(text)
    raise ValueError(f"{name}: {proof.headline}")


_LAYER = "return self.n(q)"
LINES = {
    "residual of a loop": Lines(
        "for layer in (self.q, self.k):\n    x = layer(x)\nreturn F.gelu(x)",
        "for layer in (self.q, self.k):\n    rest = x\n    x = layer(x)\n    x = x + rest\nreturn F.gelu(x)",
        alone=True,
    ),
    "residual of an earlier line": Lines(
        "q = self.n(q)\nrest = q\nq = F.relu(q)\nq = rest + q\nq = q + self.k(q)\nreturn q",
        "rest = q\nq = self.n(q)\nq, h = F.relu(q), None\nq = rest + q\nh = self.k(q)\nq = q + h\nreturn q",
        layers=("paddle.nn.LayerNorm(8)", "torch.nn.LayerNorm(8)"),
        alone=True,
    ),
    "relu in another place": Lines(
        "h = F.relu(self.n(q))\nreturn self.k(h) + x",
        "h = self.n(q)\nreturn F.relu(self.k(h)) + x",
        layers=("paddle.nn.LayerNorm(8)", "torch.nn.LayerNorm(8)"),
        alone=True,
    ),
    "scale beside fused attention": Lines(
        "s = q @ k.transpose([0, 2, 1])\nreturn F.softmax(s, -1) @ x",
        "return F.scaled_dot_product_attention(q, k, x)",
        alone=True,
    ),
    "residual taken too late": Lines(
        "q = F.gelu(q)\nrest = q\nreturn self.k(q) + rest",
        "rest = q\nq = F.gelu(q)\nreturn self.k(q) + rest",
        alone=True,
    ),
    "statements in another order": Lines(
        "h = F.gelu(q)\nh = self.n(h)\nreturn h + k",
        "h = self.n(q)\nh = F.gelu(h)\nreturn h + k",
        layers=("paddle.nn.LayerNorm(8)", "torch.nn.LayerNorm(8)"),
        alone=True,
    ),
    "number handed to a layer's maker": Lines(
        "return self.n(q)",
        "return self.n(q)",
        layers=("(lambda n: paddle.nn.LeakyReLU(n))(0.1)", "(lambda n: torch.nn.LeakyReLU(n))(0.3)"),
        alone=True,
    ),
    "index in another place": Lines(
        "i = x[0, :, 0].argsort()\nreturn paddle.index_select(q, i // 2, axis=1)",
        "i = x[0, :, 0].argsort()\nreturn torch.index_select(q, 1, i)",
        alone=True,
    ),
    "quotient of a product": Lines(
        "h = (q / 2 * 3 + 0.5).clip(0, 1)\nreturn h * k",
        "s = q.div(2 * 3).add(0.5).clamp(0, 1)\nreturn s * k",
        alone=True,
    ),
    "activation of both": Lines(
        "return self.n(q) * self.n(k)",
        "return self.n(q) * self.n(k)",
        layers=("paddle.nn.ReLU()", "torch.nn.SiLU()"),
        alone=True,
    ),
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
    "LayerNorm eps": Lines(_LAYER, _LAYER, ("paddle.nn.LayerNorm(8, epsilon=1e-3)", "torch.nn.LayerNorm(8)"), alone=True),
    "BatchNorm1D eps": Lines(_LAYER, _LAYER, ("paddle.nn.BatchNorm1D(6, epsilon=1e-2)", "torch.nn.BatchNorm1d(6)"), alone=True),
    "GroupNorm groups": Lines(_LAYER, _LAYER, ("paddle.nn.GroupNorm(3, 6)", "torch.nn.GroupNorm(2, 6)"), alone=True),
    "InstanceNorm2D eps": Lines(
        "return self.n(q.reshape([1, 2, 6, 8]))",
        "return self.n(q.reshape([1, 2, 6, 8]))",
        ("paddle.nn.InstanceNorm2D(2, epsilon=1e-2)", "torch.nn.InstanceNorm2d(2, affine=True)"),
        alone=True,
    ),
    "Conv1D padding": Lines(_LAYER, _LAYER, ("paddle.nn.Conv1D(6, 4, 3)", "torch.nn.Conv1d(6, 4, 3, padding=1)"), alone=True),
    "Conv1D stride": Lines(_LAYER, _LAYER, ("paddle.nn.Conv1D(6, 4, 3)", "torch.nn.Conv1d(6, 4, 3, stride=2)"), alone=True),
    "Conv1D dilation2": Lines(
        _LAYER,
        _LAYER,
        ("paddle.nn.Conv1D(6, 4, 3, padding=2, dilation=1)", "torch.nn.Conv1d(6, 4, 3, padding=2, dilation=2)"),
        alone=True,
    ),
    "Conv2D padding": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.Conv2D(2, 4, 3, padding=2)", "torch.nn.Conv2d(2, 4, 3, padding=1)"),
        alone=True,
    ),
    "Conv2D padding_mode": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.Conv2D(2, 4, 3, padding=1)", "torch.nn.Conv2d(2, 4, 3, padding=1, padding_mode='reflect')"),
        alone=True,
    ),
    "Conv2D stride": Lines(
        "return self.n(q.unsqueeze(0)).mean([2, 3])",
        "return self.n(q.unsqueeze(0)).mean([2, 3])",
        ("paddle.nn.Conv2D(2, 4, 3, padding=1, stride=1)", "torch.nn.Conv2d(2, 4, 3, padding=1, stride=2)"),
        alone=True,
    ),
    "Conv1DTranspose output_padding": Lines(
        _LAYER,
        _LAYER,
        (
            "paddle.nn.Conv1DTranspose(6, 4, 3, stride=2, padding=1)",
            "torch.nn.ConvTranspose1d(6, 4, 3, stride=2, padding=1, output_padding=1)",
        ),
        alone=True,
    ),
    "Conv2DTranspose padding": Lines(
        "return self.n(q.unsqueeze(0))[..., :9, :9]",
        "return self.n(q.unsqueeze(0))[..., :9, :9]",
        ("paddle.nn.Conv2DTranspose(2, 4, 3, stride=2, padding=0)", "torch.nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1)"),
        alone=True,
    ),
    "MaxPool1D stride": Lines(_LAYER, _LAYER, ("paddle.nn.MaxPool1D(2, stride=1)", "torch.nn.MaxPool1d(2, stride=2)"), alone=True),
    "MaxPool2D padding": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.MaxPool2D(3, stride=2, padding=0)", "torch.nn.MaxPool2d(3, stride=2, padding=1)"),
        alone=True,
    ),
    "MaxPool2D ceil": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.MaxPool2D(3, stride=2)", "torch.nn.MaxPool2d(3, stride=2, ceil_mode=True)"),
        alone=True,
    ),
    "AvgPool2D exclusive": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.AvgPool2D(3, stride=2, padding=1)", "torch.nn.AvgPool2d(3, stride=2, padding=1)"),
        alone=True,
    ),
    "AdaptiveAvgPool2D size": Lines(
        "return self.n(q.unsqueeze(0)).mean([2, 3])",
        "return self.n(q.unsqueeze(0)).mean([2, 3])",
        ("paddle.nn.AdaptiveAvgPool2D(3)", "torch.nn.AdaptiveAvgPool2d(2)"),
        alone=True,
    ),
    "AdaptiveMaxPool1D size": Lines(
        _LAYER, _LAYER, ("paddle.nn.AdaptiveMaxPool1D(3)", "torch.nn.AdaptiveMaxPool1d(2)"), alone=True
    ),
    "Softmax axis": Lines(_LAYER, _LAYER, ("paddle.nn.Softmax()", "torch.nn.Softmax(dim=1)"), alone=True),
    "LogSoftmax axis": Lines(_LAYER, _LAYER, ("paddle.nn.LogSoftmax(axis=2)", "torch.nn.LogSoftmax(dim=1)"), alone=True),
    "GELU approximate": Lines(_LAYER, _LAYER, ("paddle.nn.GELU()", "torch.nn.GELU(approximate='tanh')"), alone=True),
    "LeakyReLU slope": Lines(_LAYER, _LAYER, ("paddle.nn.LeakyReLU()", "torch.nn.LeakyReLU(0.2)"), alone=True),
    "ELU alpha": Lines(_LAYER, _LAYER, ("paddle.nn.ELU()", "torch.nn.ELU(0.5)"), alone=True),
    "Softplus beta": Lines(_LAYER, _LAYER, ("paddle.nn.Softplus()", "torch.nn.Softplus(2.0)"), alone=True),
    "Hardtanh max": Lines(_LAYER, _LAYER, ("paddle.nn.Hardtanh(-0.2, 0.1)", "torch.nn.Hardtanh(-0.2, 0.2)"), alone=True),
    "Upsample mode": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.Upsample(scale_factor=2, mode='bilinear')", "torch.nn.Upsample(scale_factor=2, mode='nearest')"),
        alone=True,
    ),
    "Upsample align": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        (
            "paddle.nn.Upsample(scale_factor=2, mode='bilinear', align_corners=False)",
            "torch.nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)",
        ),
        alone=True,
    ),
    "Pad2D mode": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.Pad2D(1, mode='constant')", "torch.nn.ReplicationPad2d(1)"),
        alone=True,
    ),
    "GRU time_major": Lines(
        "return self.n(q)[0]",
        "return self.n(q)[0]",
        ("paddle.nn.GRU(8, 5, time_major=True)", "torch.nn.GRU(8, 5, batch_first=True)"),
        alone=True,
    ),
    "LocalResponseNorm size": Lines(
        "return self.n(q.unsqueeze(0))",
        "return self.n(q.unsqueeze(0))",
        ("paddle.nn.LocalResponseNorm(5)", "torch.nn.LocalResponseNorm(3)"),
        alone=True,
    ),
    "TransformerEncoderLayer act": Lines(
        _LAYER,
        _LAYER,
        (
            "paddle.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)",
            "torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation='gelu')",
        ),
        alone=True,
    ),
    "TransformerEncoderLayer norm_first": Lines(
        _LAYER,
        _LAYER,
        (
            "paddle.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)",
            "torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)",
        ),
        alone=True,
    ),
    "MSELoss reduction": Lines(
        "return self.n(q, k)", "return self.n(q, k)", ("paddle.nn.MSELoss()", "torch.nn.MSELoss(reduction='sum')"), alone=True
    ),
    "MultiHeadAttention num_heads": Lines(
        "return self.n(q, q, q)",
        "return self.n(q, q, q)[0]",
        ("paddle.nn.MultiHeadAttention(8, 4)", "torch.nn.MultiheadAttention(8, 2, batch_first=True)"),
        alone=True,
    ),
    "TransformerEncoderLayer nhead": Lines(
        _LAYER,
        _LAYER,
        (
            "paddle.nn.TransformerEncoderLayer(8, 4, 16, dropout=0.0)",
            "torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)",
        ),
        alone=True,
    ),
    "LSTM state": Lines(
        "h, c = paddle.ones([1, 2, 5]), paddle.zeros([1, 2, 5])\nreturn self.n(q, (h, c))[0]",
        "h, c = torch.zeros(1, 2, 5), torch.zeros(1, 2, 5)\nreturn self.n(q, (h, c))[0]",
        ("paddle.nn.LSTM(8, 5)", "torch.nn.LSTM(8, 5, batch_first=True)"),
        alone=True,
    ),
    "argmin": Lines("return F.one_hot(q.argmin(-1), 8) * k", "return F.one_hot(q.argmax(-1), 8) * k", alone=True),
    "quantile q": Lines("return paddle.quantile(q, 0.5, axis=-1)", "return torch.quantile(q, 0.75, -1)", alone=True),
    "diag_embed offset": Lines("return paddle.diag_embed(q[0])", "return torch.diag_embed(q[0], offset=1)", alone=True),
    "repeat_interleave for repeat": Lines(
        "return self.k(paddle.repeat_interleave(q, 2, 1))", "return self.k(q.repeat(1, 2, 1))", alone=True
    ),
    "logspace base": Lines("return q * paddle.logspace(0, 1, 8, base=2.0)", "return q * torch.logspace(0, 1, 8)", alone=True),
    "CosineSimilarity axis": Lines(
        "return self.n(q, k)",
        "return self.n(q, k)",
        ("paddle.nn.CosineSimilarity(axis=1)", "torch.nn.CosineSimilarity(dim=-1)"),
        alone=True,
    ),
    "BCEWithLogitsLoss reduction": Lines(
        "return self.n(q, F.softmax(k, -1))",
        "return self.n(q, torch.softmax(k, -1))",
        ("paddle.nn.BCEWithLogitsLoss()", "torch.nn.BCEWithLogitsLoss(reduction='sum')"),
        alone=True,
    ),
    "CrossEntropyLoss ignore": Lines(
        "return self.n(q.transpose([0, 2, 1]).transpose([0, 2, 1]), x.argmax(-1))",
        "return self.n(q.mT, x.argmax(-1))",
        ("paddle.nn.CrossEntropyLoss()", "torch.nn.CrossEntropyLoss(ignore_index=1)"),
        alone=True,
    ),
    "CrossEntropyLoss smoothing": Lines(
        "return self.n(q, x.argmax(-1))",
        "return self.n(q.mT, x.argmax(-1))",
        ("paddle.nn.CrossEntropyLoss()", "torch.nn.CrossEntropyLoss(label_smoothing=0.1)"),
        alone=True,
    ),
    "CrossEntropyLoss weight": Lines(
        "return self.n(q, x.argmax(-1))",
        "return self.n(q.mT, x.argmax(-1))",
        ("paddle.nn.CrossEntropyLoss()", "torch.nn.CrossEntropyLoss(weight=torch.arange(1.0, 9.0))"),
        alone=True,
    ),
    "softmax axis": Lines("return F.softmax(q, axis=1)", "return torch.softmax(q, -1)", alone=True),
    "topk largest": Lines(
        "v, i = paddle.topk(q, 3, axis=-1)\nreturn v * 2.0",
        "v, i = torch.topk(q, 3, -1, largest=False)\nreturn v * 2.0",
        alone=True,
    ),
    "topk k": Lines("return paddle.topk(q, 2, axis=-1)[0].sum(-1)", "return torch.topk(q, 3, -1)[0].sum(-1)", alone=True),
    "topk axis": Lines("return paddle.topk(q, 3, axis=-1)[0]", "return torch.topk(q, 3, 1)[0]", alone=True),
    "sort descending": Lines(
        "return paddle.sort(q, axis=-1, descending=False)", "return torch.sort(q, -1, descending=True)[0]", alone=True
    ),
    "sort axis": Lines("return paddle.sort(q, axis=-1)", "return torch.sort(q, 1)[0]", alone=True),
    "argsort descending": Lines(
        "return paddle.take_along_axis(k, paddle.argsort(q, axis=-1, descending=False), -1)",
        "return k.gather(-1, q.argsort(-1, descending=True))",
        alone=True,
    ),
    "cumsum axis": Lines("return q.cumsum(axis=-1)", "return q.cumsum(1)", alone=True),
    "cumprod dim": Lines("return q.cumprod(-1)", "return q.cumprod(1)", alone=True),
    "cummax axis": Lines("return paddle.cummax(q, axis=-1)[0]", "return q.cummax(1)[0]", alone=True),
    "pad value": Lines("return F.pad(q, [1, 1], value=0.0, data_format='NCL')", "return F.pad(q, [1, 1], value=1.0)", alone=True),
    "pad mode": Lines(
        "return F.pad(q, [1, 1], mode='constant', data_format='NCL')", "return F.pad(q, [1, 1], mode='reflect')", alone=True
    ),
    "pad order": Lines("return F.pad(q, [1, 0], data_format='NCL')", "return F.pad(q, [0, 1])", alone=True),
    "interpolate mode": Lines(
        "return F.interpolate(q.unsqueeze(0), scale_factor=2, mode='bilinear')",
        "return F.interpolate(q.unsqueeze(0), scale_factor=2, mode='nearest')",
        alone=True,
    ),
    "interpolate align": Lines(
        "return F.interpolate(q.unsqueeze(0), size=[12, 16], mode='bilinear', align_corners=False)",
        "return F.interpolate(q.unsqueeze(0), size=[12, 16], mode='bilinear', align_corners=True)",
        alone=True,
    ),
    "gather axis": Lines("return paddle.gather(q, paddle.to_tensor([2, 0, 1]), axis=2)", "return q[:, [2, 0, 1]]", alone=True),
    "index_select axis": Lines(
        "return paddle.index_select(q, paddle.to_tensor([2, 0, 1]), axis=2)",
        "return torch.index_select(q, 1, torch.tensor([2, 0, 1]))",
        alone=True,
    ),
    "take_along_axis": Lines(
        "i = paddle.argsort(q, 1)[:, :, :]\nreturn paddle.take_along_axis(k, i, axis=2)",
        "i = q.argsort(1)\nreturn k.gather(1, i)",
        alone=True,
    ),
    "put_along_axis reduce": Lines(
        "h = k * 1.0\nreturn paddle.put_along_axis(h, q.argmax(-1, keepdim=True), 2.0, -1, reduce='assign')",
        "h = k * 1.0\nreturn h.scatter_add(-1, q.argmax(-1, keepdim=True), torch.full((2, 6, 1), 2.0))",
        alone=True,
    ),
    "scatter overwrite": Lines(
        "return paddle.scatter(k[0], paddle.to_tensor([1, 1, 2]), q[0, :3], overwrite=True)",
        "return k[0].index_fill(0, torch.tensor([1, 2]), 0.0).index_add(0, torch.tensor([1, 1, 2]), q[0, :3])",
        alone=True,
    ),
    "clip min": Lines("return q.clip(-0.1, 0.3)", "return q.clamp(-0.2, 0.3)", alone=True),
    "clip max": Lines("return q.clip(max=0.3)", "return q.clamp(max=0.2)", alone=True),
    "clip none": Lines("return q.clip(-0.2)", "return q.clamp(-0.2, 0.3)", alone=True),
    "mse_loss reduction": Lines(
        "return F.mse_loss(q, F.softmax(k, -1), reduction='mean')",
        "return F.mse_loss(q, torch.softmax(k, -1), reduction='sum')",
        alone=True,
    ),
    "l1_loss reduction": Lines(
        "return F.l1_loss(q, F.softmax(k, -1), reduction='mean')",
        "return F.l1_loss(q, torch.softmax(k, -1), reduction='sum')",
        alone=True,
    ),
    "binary_cross_entropy_with_logits reduction": Lines(
        "return F.binary_cross_entropy_with_logits(q, F.softmax(k, -1), reduction='mean')",
        "return F.binary_cross_entropy_with_logits(q, torch.softmax(k, -1), reduction='sum')",
        alone=True,
    ),
    "kl batchmean": Lines(
        "return F.kl_div(q, F.softmax(k, -1), reduction='mean')",
        "return F.kl_div(q, torch.softmax(k, -1), reduction='batchmean')",
        alone=True,
    ),
    "bce pos_weight": Lines(
        "return F.binary_cross_entropy_with_logits(q, F.sigmoid(k))",
        "return F.binary_cross_entropy_with_logits(q, torch.sigmoid(k), pos_weight=torch.full((8,), 2.0))",
        alone=True,
    ),
    "bce weight": Lines(
        "return F.binary_cross_entropy_with_logits(q, F.sigmoid(k))",
        "return F.binary_cross_entropy_with_logits(q, torch.sigmoid(k), weight=torch.arange(8.0))",
        alone=True,
    ),
    "ce weight": Lines(
        "return F.cross_entropy(q, x.argmax(-1))",
        "return F.cross_entropy(q.mT, x.argmax(-1), weight=torch.arange(1.0, 9.0))",
        alone=True,
    ),
    "ce ignore": Lines(
        "return F.cross_entropy(q, x.argmax(-1))", "return F.cross_entropy(q.mT, x.argmax(-1), ignore_index=0)", alone=True
    ),
    "ce smoothing": Lines(
        "return F.cross_entropy(q, x.argmax(-1), label_smoothing=0.2)",
        "return F.cross_entropy(q.mT, x.argmax(-1), label_smoothing=0.1)",
        alone=True,
    ),
    "ce reduction": Lines(
        "return F.cross_entropy(q, x.argmax(-1), reduction='mean')",
        "return F.cross_entropy(q.mT, x.argmax(-1), reduction='sum')",
        alone=True,
    ),
    "ce soft": Lines(
        "return F.cross_entropy(q, F.softmax(k, -1), soft_label=True, axis=1)",
        "return F.cross_entropy(q.mT, torch.softmax(k, -1).mT)",
        alone=True,
    ),
    "nll ignore": Lines(
        "return F.nll_loss(F.log_softmax(q[0], -1), x[0].argmax(-1), ignore_index=-100)",
        "return F.nll_loss(torch.log_softmax(q[0], -1), x[0].argmax(-1), ignore_index=3)",
        alone=True,
    ),
    "smooth_l1 delta": Lines("return F.smooth_l1_loss(q, k, delta=1.0)", "return F.huber_loss(q, k, delta=0.5)", alone=True),
    "cosine axis": Lines("return F.cosine_similarity(q, k, axis=1)", "return F.cosine_similarity(q, k, dim=-1)", alone=True),
    "normalize axis": Lines("return F.normalize(q, axis=1)", "return F.normalize(q, dim=-1)", alone=True),
    "normalize p": Lines("return F.normalize(q, p=1, axis=-1)", "return F.normalize(q, p=2, dim=-1)", alone=True),
    "one_hot classes": Lines(
        "return F.one_hot(x.argmax(-1), 9).sum(1) + k.sum(1)[:, 0].unsqueeze(-1)",
        "return F.one_hot(x.argmax(-1), 8).sum(1) + k.sum(1)[:, 0].unsqueeze(-1)",
        alone=True,
    ),
    "leaky slope": Lines("return F.leaky_relu(q, 0.1)", "return F.leaky_relu(q, 0.2)", alone=True),
    "softplus threshold": Lines("return F.softplus(q, beta=1)", "return F.softplus(q, beta=1, threshold=0.2)", alone=True),
    "hardtanh": Lines("return F.hardtanh(q)", "return F.hardtanh(q, -0.2, 0.2)", alone=True),
    "glu axis": Lines("return F.glu(q, axis=1)", "return F.glu(q, dim=-1)", alone=True),
    "einsum": Lines("return paddle.einsum('bjd,bid->bij', q, k)", "return torch.einsum('bid,bjd->bij', q, k)", alone=True),
    "einsum out": Lines("return paddle.einsum('bid,bjd->bij', q, k)", "return torch.einsum('bid,bjd->bji', q, k)", alone=True),
    "roll shifts": Lines("return paddle.roll(q, -1, axis=1)", "return torch.roll(q, 1, 1)", alone=True),
    "roll axis": Lines("return paddle.roll(q, 1, axis=2)", "return torch.roll(q, 1, 1)", alone=True),
    "flip axis": Lines("return paddle.flip(q, axis=[2])", "return torch.flip(q, [1])", alone=True),
    "rot90 k": Lines("return paddle.rot90(q, -1, [1, 2])", "return torch.rot90(q, 1, (1, 2))", alone=True),
    "tril diag": Lines("return paddle.tril(q)", "return torch.tril(q, 1)", alone=True),
    "triu diag": Lines("return paddle.triu(q, 0)", "return torch.triu(q, 1)", alone=True),
    "arange end": Lines("return q + paddle.arange(0, 16, 2, dtype='float32')", "return q + torch.arange(8).float()", alone=True),
    "linspace stop": Lines("return q * paddle.linspace(0, 2, 8)", "return q * torch.linspace(0, 1, 8)", alone=True),
    "split sections": Lines(
        "a, b = paddle.split(q, [4, 4], -1)\nreturn a.sum(-1) * b.mean(-1)",
        "a, b = q.split([2, 6], -1)\nreturn a.sum(-1) * b.mean(-1)",
        alone=True,
    ),
    "split axis": Lines(
        "a, b = paddle.split(q, 2, 1)\nreturn a.sum([1, 2]) * b.mean([1, 2])",
        "a, b = q.split(4, -1)\nreturn a.sum((1, 2)) * b.mean((1, 2))",
        alone=True,
    ),
    "chunk axis": Lines(
        "a, b = paddle.chunk(q, 2, 1)\nreturn a.sum([1, 2]) * b.mean([1, 2])",
        "a, b = q.chunk(2, -1)\nreturn a.sum((1, 2)) * b.mean((1, 2))",
        alone=True,
    ),
    "concat axis": Lines("return paddle.concat([q, k], 2)", "return torch.cat([q, k], 1)", alone=True),
    "concat order": Lines("return paddle.concat([k, q], -1)", "return torch.cat([q, k], -1)", alone=True),
    "stack axis": Lines("return paddle.stack([q, k], axis=2)", "return torch.stack([q, k], 1)", alone=True),
    "unfold stride": Lines(
        "return F.unfold(q.unsqueeze(0), 3, strides=1)", "return F.unfold(q.unsqueeze(0), 3, stride=2)", alone=True
    ),
    "unfold padding": Lines("return F.unfold(q.unsqueeze(0), 3)", "return F.unfold(q.unsqueeze(0), 3, padding=1)", alone=True),
    "unfold dilation": Lines(
        "return F.unfold(q.unsqueeze(0), 2, dilations=1)", "return F.unfold(q.unsqueeze(0), 2, dilation=2)", alone=True
    ),
    "grid_sample align": Lines(
        "return F.grid_sample(k.unsqueeze(1), q[:, :, :2].reshape([2, 3, 2, 2]), align_corners=True)",
        "return F.grid_sample(k.unsqueeze(1), q[:, :, :2].reshape([2, 3, 2, 2]), align_corners=False)",
        alone=True,
    ),
    "grid_sample mode": Lines(
        "return F.grid_sample(k.unsqueeze(1), q[:, :, :2].reshape([2, 3, 2, 2]), mode='bilinear', align_corners=False)",
        "return F.grid_sample(k.unsqueeze(1), q[:, :, :2].reshape([2, 3, 2, 2]), mode='nearest', align_corners=False)",
        alone=True,
    ),
    "grid_sample padding": Lines(
        "return F.grid_sample(k.unsqueeze(1), q[:, :, :2].reshape([2, 3, 2, 2]) * 3.0, padding_mode='zeros', align_corners=False)",
        "return F.grid_sample(k.unsqueeze(1), q[:, :, :2].reshape([2, 3, 2, 2]) * 3.0, padding_mode='border', align_corners=False)",
        alone=True,
    ),
    "lerp weight": Lines("return paddle.lerp(q, k, 0.7)", "return torch.lerp(q, k, 0.3)", alone=True),
    "lerp swapped": Lines("return paddle.lerp(k, q, 0.3)", "return torch.lerp(q, k, 0.3)", alone=True),
    "addmm alpha": Lines(
        "return paddle.addmm(k[0, :, :6], q[0], k[0].t(), alpha=1.0)",
        "return torch.addmm(k[0, :, :6], q[0], k[0].t(), alpha=2.0)",
        alone=True,
    ),
    "addmm beta": Lines(
        "return paddle.addmm(k[0, :, :6], q[0], k[0].t(), beta=1.0)",
        "return torch.addmm(k[0, :, :6], q[0], k[0].t(), beta=0.5)",
        alone=True,
    ),
    "norm p": Lines("return paddle.linalg.norm(q, p=2, axis=-1)", "return torch.linalg.norm(q, 1, -1)", alone=True),
    "var unbiased": Lines("return q.var(-1, unbiased=False)", "return q.var(-1)", alone=True),
    "var correction": Lines(
        "m = q.mean(-1, keepdim=True)\nv = q.var(-1, keepdim=True)\nreturn (q - m) / (v + 1e-5).sqrt()",
        "m = q.mean(-1, keepdim=True)\nv = q.var(-1, keepdim=True, correction=0)\nreturn (q - m) / (v + 1e-5).sqrt()",
        alone=True,
    ),
    "mean axis": Lines("return q.mean(-1)", "return q.mean(1)", alone=True),
    "sum keepdim": Lines(
        "return q / q.sum(-1, keepdim=True) + q.sum(2, keepdim=True)",
        "return q / q.sum(-1, keepdim=True) + q.sum(1, keepdim=True)",
        alone=True,
    ),
    "max axis": Lines("return q.max(-1)", "return q.max(1)[0]", alone=True),
    "amax axis": Lines("return q - q.amax(1, keepdim=True)", "return q - q.amax(-1, keepdim=True)", alone=True),
    "logsumexp axis": Lines("return paddle.logsumexp(q, 1)", "return torch.logsumexp(q, -1)", alone=True),
    "quantile axis": Lines("return paddle.quantile(q, 0.25, axis=1)", "return torch.quantile(q, 0.25, -1)", alone=True),
    "diff axis": Lines("return paddle.diff(q, axis=-1)", "return torch.diff(q, dim=1)", alone=True),
    "diff n": Lines("return paddle.diff(q, n=1, axis=-1)", "return torch.diff(q, n=2, dim=-1)", alone=True),
    "repeat_interleave": Lines("return paddle.repeat_interleave(q, 2, axis=2)", "return q.repeat_interleave(2, 1)", alone=True),
    "tile": Lines("return paddle.tile(q, [1, 1, 2])", "return q.repeat(1, 2, 1)", alone=True),
    "transpose": Lines("return q.transpose([1, 2, 0])", "return q.permute(0, 2, 1)", alone=True),
    "reshape": Lines(
        "return q.reshape([2, 6, 4, 2]).transpose([0, 2, 1, 3])", "return q.reshape(2, 6, 2, 4).transpose(1, 2)", alone=True
    ),
    "squeeze unsq axis": Lines(
        "return q[:, :6, :6] * k[:, :, 0].unsqueeze(2)", "return q[:, :6, :6] * k[:, :, 0].unsqueeze(1)", alone=True
    ),
    "pow op": Lines("return q ** 3", "return q ** 2", alone=True),
    "rsub": Lines("return 1.0 - q", "return 2.0 - q", alone=True),
    "sub swapped": Lines("return k - q", "return q - k", alone=True),
    "div swapped": Lines("return (k + 5.0) / q", "return q / (k + 5.0)", alone=True),
    "slice end": Lines("return q[:, 0:3] * 2.0", "return q[:, 1:4] * 2.0", alone=True),
    "slice last": Lines("return q[:, 0] * 2.0", "return q[:, -1] * 2.0", alone=True),
    "select axis": Lines("return q[:, :, 1] * 2.0", "return q[:, :, 0] * 2.0", alone=True),
    "slice half": Lines(
        "h = q.shape[-1] // 2\nreturn paddle.concat([-q[..., :h], q[..., :h]], -1)",
        "h = q.shape[-1] // 2\nreturn torch.cat([-q[..., h:], q[..., :h]], -1)",
        alone=True,
    ),
    "where swapped": Lines("return paddle.where(x > 0, k, q)", "return torch.where(x > 0, q, k)", alone=True),
    "where value": Lines(
        "return paddle.where(x > 0, q, paddle.full_like(q, -2.0))",
        "return torch.where(x > 0, q, torch.full_like(q, -1.0))",
        alone=True,
    ),
    "masked_fill value": Lines("return q.masked_fill(x > 0, -2.0)", "return q.masked_fill(x > 0, -1.0)", alone=True),
    "masked_fill missing score": Lines(
        "s = q @ k.transpose([0, 2, 1])\nm = paddle.tril(paddle.ones([6, 6])) == 0\nreturn F.softmax(s, -1) @ x",
        "s = q @ k.mT\nm = torch.tril(torch.ones(6, 6)) == 0\ns = s.masked_fill(m, -1e9)\nreturn torch.softmax(s, -1) @ x",
        alone=True,
    ),
    "conv1d padding": Lines(
        "return F.conv1d(q, k[:, :6, :3].reshape([2, 6, 3]), padding=2)",
        "return F.conv1d(q, k[:, :6, :3].reshape(2, 6, 3), padding=1)",
        alone=True,
    ),
    "avg_pool1d exclusive": Lines("return F.avg_pool1d(q, 3, 2, padding=1)", "return F.avg_pool1d(q, 3, 2, padding=1)", alone=True),
    "max_pool2d stride": Lines(
        "return F.max_pool2d(q.unsqueeze(0), 2, 1)", "return F.max_pool2d(q.unsqueeze(0), 2, 2)", alone=True
    ),
    "adaptive": Lines("return F.adaptive_avg_pool1d(q, 2)", "return F.adaptive_avg_pool1d(q, 4)", alone=True),
    "layer_norm eps": Lines("return F.layer_norm(q, [8], epsilon=1e-3)", "return F.layer_norm(q, [8], eps=1e-5)", alone=True),
    "layer_norm shape": Lines("return F.layer_norm(q, [6, 8])", "return F.layer_norm(q, [8])", alone=True),
    "rms manual eps": Lines(
        "return q * paddle.rsqrt(q.pow(2).mean(-1, keepdim=True) + 1e-2)",
        "return q * torch.rsqrt(q.pow(2).mean(-1, keepdim=True) + 1e-6)",
        alone=True,
    ),
    "pixel_shuffle": Lines(
        "return F.pixel_shuffle(q.reshape([2, 12, 2, 2]), 1)", "return F.pixel_shuffle(q.reshape(2, 12, 2, 2), 2)", alone=True
    ),
    "cross swap": Lines(
        "return paddle.cross(k[..., :3], q[..., :3], axis=-1)", "return torch.cross(q[..., :3], k[..., :3], dim=-1)", alone=True
    ),
    "cdist p": Lines("return paddle.cdist(q, k, p=2.0)", "return torch.cdist(q, k, p=1.0)", alone=True),
    "dropout training": Lines(
        "return self.k(F.dropout(q, 0.5))", "return self.k(F.dropout(q, 0.5, training=self.training))", alone=True
    ),
    "gumbel": Lines("return F.log_softmax(q / 0.7, -1)", "return torch.log_softmax(q / 0.5, -1)", alone=True),
    "matmul transpose_x": Lines(
        "return paddle.matmul(q[:, :, :6], k[:, :, :6])", "return q[:, :, :6].mT @ k[:, :, :6]", alone=True
    ),
    "searchsorted right": Lines(
        "s = paddle.sort(q, -1)\nreturn k * paddle.searchsorted(s, s * 1.0, right=False).astype('float32')",
        "s = torch.sort(q, -1)[0]\nreturn k * torch.searchsorted(s, s * 1.0, right=True).float()",
        alone=True,
    ),
    "bucketize": Lines(
        "b = paddle.to_tensor([-1.0, 0.0, 1.0])\nreturn k * paddle.bucketize(paddle.round(q), b, right=False).astype('float32')",
        "b = torch.tensor([-1.0, 0.0, 1.0])\nreturn k * torch.bucketize(torch.round(q), b, right=True).float()",
        alone=True,
    ),
    "nan_to_num": Lines(
        "return paddle.nan_to_num(paddle.log(q), nan=0.0)",
        "return torch.nan_to_num(torch.log(q), nan=0.5, neginf=None)",
        alone=True,
    ),
    "round decimals": Lines("return k + paddle.round(q)", "return k + torch.round(q, decimals=1)", alone=True),
    "affine theta": Lines(
        "return F.affine_grid(q[:, :2, :3], [2, 1, 4, 4], align_corners=True)",
        "return F.affine_grid(q[:, :2, :3], [2, 1, 4, 4], align_corners=False)",
        alone=True,
    ),
    "temporal shift": Lines(
        "return F.channel_shuffle(q.reshape([2, 4, 3, 4]), 4)", "return F.channel_shuffle(q.reshape(2, 4, 3, 4), 2)", alone=True
    ),
    "label_smooth": Lines(
        "return q * F.label_smooth(F.softmax(k, -1), epsilon=0.2)", "return q * (torch.softmax(k, -1) * 0.9 + 0.1 / 8)", alone=True
    ),
    "tensordot": Lines(
        "return paddle.tensordot(q, k[0, :, :6].unsqueeze(-1), [[1], [1]])",
        "return torch.tensordot(q, k[0, :, :6].unsqueeze(-1), [[1], [0]])",
        alone=True,
    ),
    "logit eps": Lines("return paddle.logit(F.sigmoid(q), eps=0.3)", "return torch.logit(torch.sigmoid(q), eps=0.4)", alone=True),
    "kron swapped": Lines("return paddle.kron(k[0], q[0])", "return torch.kron(q[0], k[0])", alone=True),
    "unbind axis": Lines("a = paddle.unbind(q, 2)[0]\nreturn a * 2.0", "a = q.unbind(1)[0]\nreturn a * 2.0", alone=True),
    "triplet margin": Lines(
        "return F.triplet_margin_loss(q, k, x, margin=1.0)", "return F.triplet_margin_loss(q, k, x, margin=0.5)", alone=True
    ),
    "bool minimum": Lines(
        "return paddle.minimum(q, paddle.full_like(q, 0.1))", "return torch.minimum(q, torch.full_like(q, 0.3))", alone=True
    ),
    "stft hop": Lines(
        "return paddle.signal.stft(q.reshape([2, 48]), 16, hop_length=4).abs()",
        "return torch.stft(q.reshape(2, 48), 16, hop_length=8, return_complex=True).abs()",
        alone=True,
    ),
    "stft center": Lines(
        "return paddle.signal.stft(q.reshape([2, 48]), 16, hop_length=8, center=False).abs()",
        "return torch.stft(q.reshape(2, 48), 16, hop_length=8, return_complex=True).abs()",
        alone=True,
    ),
}
