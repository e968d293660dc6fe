"""What to write for a mistake stands at the line that makes the layer, or at the call."""

import ast
import importlib
import linecache
import re
import sys
import textwrap
from dataclasses import asdict

import numpy as np
import paddle
import pytest
import torch
from helpers import sampled
from planting import loaded

from padiff_shim import ProofVerdict, prove
from padiff_shim.dispatch.call_site import CallSite, at_line
from padiff_shim.present.annotations import Patch
from padiff_shim.proof.expressions import statements_of
from padiff_shim.proof.findings import Cause
from padiff_shim.proof.fixes import constructor
from padiff_shim.proof.statements import otherwise


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(6, 6)
        self.norm = torch.nn.LayerNorm(6)

    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(self.up(x)))


class Base(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.norm = paddle.nn.Linear(6, 6), paddle.nn.LayerNorm(6, epsilon=1e-3)


class Port(Base):
    def forward(self, x):
        return paddle.nn.functional.gelu(self.norm(self.up(x)), approximate=True)


class Items(paddle.nn.Sequential):
    def __init__(self, norm_layer=paddle.nn.LayerNorm):
        super().__init__(paddle.nn.ReLU(), norm_layer(6))


class Nested(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.stack = paddle.nn.Sequential(
            paddle.nn.Linear(6, 6),
            paddle.nn.Sequential(paddle.nn.ReLU(), paddle.nn.LayerNorm(6)),
        )
        self.port: Port = Port()
        self.items = Items()
        self.made = [paddle.nn.Linear(2, 2)]
        self.add_sublayer("late", paddle.nn.GELU())


def activation():
    return paddle.nn.Sequential(paddle.nn.Hardswish(), paddle.nn.LayerNorm(6))


Norm = paddle.nn.BatchNorm1D


class Made(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.act = activation()
        self.norm = Norm(6)
        self.linear = self.projection()
        self.linear.act = activation()
        parts = [paddle.nn.GELU()]
        self.parts = paddle.nn.Sequential(*parts)

    def projection(self):
        return paddle.nn.Linear(3, 3)


def test_a_fix_names_the_line_to_change():
    torch.manual_seed(0)
    proof = prove(Port(), Original(), np.random.default_rng(0).standard_normal((4, 6)))
    assert {mistake.fix.text for mistake in proof.mistakes} == {"epsilon=1e-05", "approximate=False"}
    for mistake, fields in zip(proof.mistakes, proof.to_dict()["mistakes"]):
        fix = mistake.fix
        assert fields["fix"] == asdict(fix)
        line = linecache.getline(fix.file, fix.line)
        assert ("epsilon=1e-3" if fix.text == "epsilon=1e-05" else "approximate=True") in line
        assert fix.source in line
        for written in (proof.text(200), proof.markdown(), proof.html()):
            shown = re.sub(r"<[^>]*>|\\", "", written)
            assert fix.text in shown
            assert f"test_fixes.py:{fix.line}" in shown
    assert "     fix    epsilon=1e-05 at " in proof.text(200)


def test_a_layer_that_nobody_constructs_has_no_line():
    proof = prove(paddle.nn.LayerNorm(6, epsilon=1e-3), torch.nn.LayerNorm(6), np.arange(12.0).reshape(2, 6))
    assert str(proof.mistakes[0].fix) == "epsilon=1e-05"


def test_constructors():
    layers = dict(Nested().named_sublayers(include_self=True))
    sources = {path: fix.source for path in layers if (fix := constructor(path, layers))}
    assert sources == {
        "stack": "self.stack = paddle.nn.Sequential(",
        "stack.0": "paddle.nn.Linear(6, 6),",
        "stack.1": "self.stack = paddle.nn.Sequential(",
        "stack.1.0": "paddle.nn.Sequential(paddle.nn.ReLU(), paddle.nn.LayerNorm(6)),",
        "stack.1.1": "paddle.nn.Sequential(paddle.nn.ReLU(), paddle.nn.LayerNorm(6)),",
        "port.up": "self.up, self.norm = paddle.nn.Linear(6, 6), paddle.nn.LayerNorm(6, epsilon=1e-3)",
        "port.norm": "self.up, self.norm = paddle.nn.Linear(6, 6), paddle.nn.LayerNorm(6, epsilon=1e-3)",
        "items.0": "super().__init__(paddle.nn.ReLU(), norm_layer(6))",
        "items.1": "super().__init__(paddle.nn.ReLU(), norm_layer(6))",
        "late": 'self.add_sublayer("late", paddle.nn.GELU())',
    }
    layers = dict(Made().named_sublayers(include_self=True))
    sources = {path: fix.source for path in layers if (fix := constructor(path, layers))}
    within = "return paddle.nn.Sequential(paddle.nn.Hardswish(), paddle.nn.LayerNorm(6))"
    assert sources == {
        **dict.fromkeys(("act", "act.0", "act.1"), within),  # of several LayerNorms of the file that which the function makes
        "norm": "self.norm = Norm(6)",
        "linear.act.0": within,
        "linear": "self.linear = self.projection()",  # Linear is made at several lines
        "parts": "self.parts = paddle.nn.Sequential(*parts)",
        "parts.0": "parts = [paddle.nn.GELU()]",  # of several in the file that in the method
    }


PORT = """\
import paddle
from paddle.nn import functional as F

EPSILON = 1e-3


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = paddle.nn.LayerNorm(6, epsilon=1e-3)
        self.drop = paddle.nn.Dropout(
            0.5,  # Größe
        )
        self.act = paddle.nn.Sigmoid()
        self.last = paddle.nn.LayerNorm(6, epsilon=EPSILON)

    def forward(self, x):
        x = self.drop(F.gelu(self.norm(x), True))
        x = F.softmax(x, axis=0).clip(max=0.9, min=0.2)
        x = paddle.concat([x.mean((0), keepdim=True), F.log_softmax(x, 0).cumsum(0)])
        return self.last(self.act(x))
"""

EDITS = (
    ("(6, epsilon=1e-3)", "(6, epsilon=1e-05)"),
    ("0.5,", "0.25,"),
    ("x), True", "x), False"),
    ("axis=0", "axis=-1"),
    ("log_softmax(x, 0)", "log_softmax(x, -1)"),
    ("min=0.2", "min=0.1"),
    ("paddle.nn.Sigmoid()", "paddle.nn.Tanh()"),
)


class Wanted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = torch.nn.LayerNorm(6), torch.nn.LayerNorm(6)
        self.drop = torch.nn.Dropout(0.25)

    def forward(self, x):
        x = self.drop(torch.nn.functional.gelu(self.norm(x)))
        x = torch.softmax(x, -1).clip(0.1, 0.9)
        x = torch.cat([x.mean(0, keepdim=True), torch.log_softmax(x, 1).cumsum(0)])
        return self.last(x.tanh())


def test_the_changed_line_where_the_call_tells_it(tmp_path, monkeypatch):
    """Every patch, applied, takes its mistake away; what names of the module stand for is left alone in constructors."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python takes a file of one size and second for unchanged
    file, left = tmp_path / "patched_port.py", []
    file.write_text(PORT)
    for _ in range(8):
        linecache.checkcache()
        sys.modules.pop("patched_port", None)
        importlib.invalidate_caches()
        proof = prove(importlib.import_module("patched_port").Port(), Wanted(), np.random.default_rng(0).standard_normal((4, 6)))
        left = [str(mistake.fix) for mistake in proof.mistakes]
        patch = next((mistake.fix.patch for mistake in proof.mistakes if mistake.fix and mistake.fix.patch), None)
        if patch is None:
            break
        file.write_text(patch.apply(file.read_text()))
    changed = PORT
    for old, new in EDITS:
        assert changed.count(old) == 1, old
        changed = changed.replace(old, new)
    assert file.read_text() == changed
    assert left == [f"epsilon=1e-05 at {at_line(str(file), 15)}: self.last = paddle.nn.LayerNorm(6, epsilon=EPSILON)"]


def test_slices_in_brackets_and_names_that_are_made_of_themselves_have_no_words(tmp_path):
    sites = []
    for name, body in {
        "port": "def forward(x, mask):\n    rows = x[:3]\n    return rows * 2 + mask.tile([4])\n",
        "original": "def forward(x, keep):\n    keep = keep + 1\n    rows = x[..., -3:, :]\n    return rows * 2 + keep\n",
    }.items():
        file = tmp_path / f"{name}.py"
        file.write_text(body)
        sites.append(CallSite(str(file), body.count("\n"), "forward"))
    assert [(other.own, other.wanted) for other in otherwise(*sites)] == [("mask.tile([4])", "keep + 1")]


@pytest.mark.parametrize(("old", "new"), [("(", "(("), (")", ") "), ("x", "y"), (",", ";"), ("\n", "\n\n"), ("    ", "")])
def test_a_change_means_the_same_in_its_statements_as_in_the_whole_file(old, new, tmp_path):
    file = tmp_path / "port.py"
    file.write_text(PORT)
    for number, line in enumerate(PORT.splitlines(keepends=True), 1):
        patch = Patch(str(file), number, number, line, line.replace(old, new))
        try:
            whole = ast.dump(ast.parse(patch.apply(PORT))) == ast.dump(ast.parse(PORT))
        except SyntaxError:
            with pytest.raises(SyntaxError):
                statements_of(patch)
        else:
            before, after = (list(map(ast.dump, statements)) for statements in statements_of(patch))
            assert (before == after) is whole, line


IN_PADDLE_3 = re.compile(r"\bpaddle\.(cat|softmax)\b|\.(mT|permute|view)\b|\.transpose\(-?\d")  # none of which Paddle 2.6 has

# A port's lines, the original's; then, where layers are meant, how both make ``self.n``.
LAYER = "self.n(q)"
WRONG = {
    "weights of one call": (
        "F.softmax(q @ k.transpose([0, 2, 1]) * 8**-0.5, axis=1) @ x",
        "F.scaled_dot_product_attention(*(side.unsqueeze(1) for side in (q, k, x))).squeeze(1)",
    ),
    "number": ("q * 0.5 + k", "q * 0.25 + k"),
    "divisor": ("q / 2.0 + k", "q * 0.25 + k"),
    "left number": ("(2.0 - q) * k", "(1.0 - q) * k"),
    "minus": ("q - k", "k - q"),
    "root": ("F.softmax(q @ k.transpose([0, 2, 1]) / math.sqrt(4), -1) @ x", "torch.softmax(q @ k.mT / math.sqrt(8), -1) @ x"),
    "power": ("(q @ k.transpose([0, 2, 1])) * 4**-0.5", "(q @ k.mT) * 8**-0.5"),
    "root of a size": (
        "F.softmax(q @ k.transpose([0, 2, 1]) / math.sqrt(q.shape[1] - 2), -1) @ x",
        "F.scaled_dot_product_attention(q, k, x)",
    ),
    "scale of scores": ("F.softmax(q @ k.transpose([0, 2, 1]) * 0.5, -1) @ x", "F.scaled_dot_product_attention(q, k, x)"),
    "scale of scores in heads": (
        "self.q((F.softmax(paddle.matmul(q.unsqueeze(1), k.unsqueeze(1), transpose_y=True), -1) @ k.unsqueeze(1)).squeeze(1))",
        "self.q(F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), k.unsqueeze(1)).squeeze(1))",
    ),
    "scale of scores that nothing reads": (
        "F.softmax(paddle.matmul(q.unsqueeze(1), k.unsqueeze(1), transpose_y=True), -1) @ k.unsqueeze(1)",
        "F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), k.unsqueeze(1))",
    ),
    "softmax by hand": (
        "paddle.exp(q @ k.transpose([0, 2, 1])) / paddle.exp(q @ k.transpose([0, 2, 1])).sum(1, keepdim=True) @ x",
        "torch.cat([torch.softmax(q @ k.mT, -1)], -1) @ x",
    ),
    "scale of queries": ("F.softmax((q * 0.5) @ k.transpose([0, 2, 1]), -1) @ x", "F.scaled_dot_product_attention(q, k, x)"),
    "times for over": ("q * 0.5", "q / math.sqrt(8)"),
    "scores turned": ("F.softmax(k @ q.transpose([0, 2, 1]), -1) @ x", "torch.softmax(q @ k.mT, -1) @ x"),
    "scores turned in bmm": (
        "F.softmax(paddle.bmm(k, paddle.transpose(q, [0, 2, 1])), -1) @ x",
        "torch.softmax(torch.bmm(q, k.mT), -1) @ x",
    ),
    "scores turned of sdpa": (
        "F.softmax(k @ q.transpose([0, 2, 1]) / math.sqrt(8), -1) @ x",
        "F.scaled_dot_product_attention(q, k, x)",
    ),
    "einsum's result": ("paddle.einsum('bid,bjd->bij', q, k)", "torch.einsum('bid,bjd->bji', q, k)"),
    "einsum's letters": ("paddle.einsum('bid,bjd->bid', q, k)", "torch.einsum('bid,bid->bid', q, k)"),
    "median": ("paddle.median(q, axis=1, mode='avg')", "torch.median(q, 1)[0]"),
    "nanmedian": ("paddle.nanmedian(q, axis=1, mode='avg')", "torch.nanmedian(q, 1)[0]"),
    "lp pool": ("F.lp_pool2d(q.unsqueeze(1), 2.0, 2)", "F.lp_pool2d(q.unsqueeze(1), 2.0, 3)"),
    "over": ("q / (k + 5.0)", "(k + 5.0) / q"),
    "part": ("paddle.split(q, 2, axis=-1)[0]", "torch.chunk(q, 2, -1)[1]"),
    "another layer's name": ("self.k(self.q(x)) + self.q(q)", "self.k(self.q(x)) + self.q(k)"),
    "bound of a loop": ("sum((q * at for at in range(3)), k)", "sum((q * at for at in range(4)), k)"),
    "two names": ("q * k.sin() + k * k.cos()", "q * k.cos() + k * k.sin()"),
    "order of sorting": (
        "paddle.take_along_axis(q, paddle.argsort(k, axis=1, descending=False), 1)",
        "torch.take_along_dim(q, torch.argsort(k, dim=1, descending=True), 1)",
    ),
    "brackets": ("q / 2.0 * 3.0", "q / (2.0 * 3.0)"),
    "brackets of a difference": ("q - k * x", "(q - k) * x"),
    "brackets of two differences": ("q - (k - x)", "q - k - x"),
    "sign of a square": ("(-q) ** 2 * k", "-(q**2) * k"),
    "power of a factor": ("q * 0.7**2 + k", "(q * 0.7) ** 2 + k"),
    "function of a sum": ("F.sigmoid(q * k) + x", "torch.sigmoid(q * k + x)"),
    "function of a part": ("F.sigmoid(q + k) * x", "torch.sigmoid(q) * x + k"),
    "root of a sum": ("q / paddle.sqrt(k * k + 0.5)", "q / (torch.sqrt(k * k) + 0.5)"),
    "layers in another order": ("self.q(self.k(x)) + x", "self.k(self.q(x)) + x"),
    "subtract": ("paddle.subtract(q, k)", "torch.sub(k, q)"),
    "matmul": ("paddle.matmul(q, k, transpose_y=True)", "k @ q.mT"),
    "transpose_y": ("paddle.matmul(q[:, :, :6], k[:, :, :6])", "q[:, :, :6] @ k[:, :, :6].mT"),
    "concat": ("paddle.concat([q, k], -1)", "torch.cat([k, q], -1)"),
    "concat axis": ("paddle.concat([q, k], axis=1)", "torch.cat([q, k], -1)"),
    "stack axis": ("paddle.stack([q, k], axis=1)", "torch.stack([q, k], -1)"),
    "perm": ("q.reshape([2, 6, 2, 4]).transpose([0, 2, 3, 1]) + 1.0", "q.reshape(2, 6, 2, 4).permute(0, 2, 1, 3) + 1.0"),
    "heads": (
        "F.softmax(q.reshape([2, 6, 4, 2]).transpose([0, 2, 1, 3]), 2)",
        "torch.softmax(q.reshape(2, 6, 2, 4).permute(0, 2, 1, 3), 2)",
    ),
    "laid otherwise": ("F.relu(q).transpose([0, 2, 1]).reshape([2, 6, 8])", "F.relu(q)"),
    "sum axis": ("q.sum(1)", "q.sum(-1)"),
    "softmax axis": ("F.softmax(q, axis=1)", "torch.softmax(q, -1)"),
    "cumsum": ("paddle.cumsum(q, axis=1)", "torch.cumsum(q, -1)"),
    "roll": ("paddle.roll(q, shifts=1, axis=1)", "torch.roll(q, 1, 2)"),
    "roll shift": ("paddle.roll(q, shifts=1, axis=1)", "torch.roll(q, -1, 1)"),
    "flip": ("paddle.flip(q, axis=[1])", "torch.flip(q, [2])"),
    "clip": ("paddle.clip(q, min=-0.2, max=0.5)", "torch.clamp(q, -0.2, 0.3)"),
    "where": ("paddle.where(x > 0, q, k)", "torch.where(x > 0, k, q)"),
    "lerp": ("paddle.lerp(q, k, 0.25)", "torch.lerp(q, k, 0.75)"),
    "std": ("paddle.std(q, axis=-1)", "torch.std(q, -1, unbiased=False)"),
    "std of a method": ("self.q(x).std(-1, unbiased=False)", "self.q(x).std(-1)"),
    "var": ("q.var(-1) + k[..., 0]", "q.var(-1, unbiased=False) + k[..., 0]"),
    "repeats": ("q.repeat_interleave(3, 1)", "q.repeat_interleave(2, 1)"),
    "repeats in between": ("q.repeat_interleave(3, 1).cumsum(1)", "q.repeat_interleave(2, 1).cumsum(1)"),
    "repeated axis": ("q.repeat_interleave(2, axis=0)", "q.repeat_interleave(2, dim=1)"),
    "filled": ("q.masked_fill(x > 0, 0.5)", "q.masked_fill(x > 0, 1.5)"),
    "where's number": ("paddle.where(x > 0, q, 0.5)", "torch.where(x > 0, q, -0.5)"),
    "where's tensor": ("paddle.where(x > 0, q, paddle.ones_like(x))", "torch.where(x > 0, q, torch.zeros_like(x))"),
    "index": ("self.k(q[:, -1])", "self.k(q[:, 0])"),
    "index of a variable": ("[self.k(q[:, at]) for at in [2]][0]", "self.k(q[:, 1])"),
    "slice": ("self.k(q[:, :-1])", "self.k(q[:, 1:])"),
    "slice of a channel": ("q[..., 1:3] + k[..., 1:3]", "q[..., 1:3] + k[..., 2:4]"),
    "step": ("self.k(q[:, 1::2])", "self.k(q[:, ::2])"),
    "rows": ("paddle.index_select(q, paddle.to_tensor([1, 2]), 1)", "torch.index_select(q, 1, torch.tensor([1, 3]))"),
    "pos_weight": (
        "F.binary_cross_entropy_with_logits(q, F.sigmoid(x), pos_weight=paddle.to_tensor(2.0))",
        "F.binary_cross_entropy_with_logits(q, torch.sigmoid(x), pos_weight=torch.tensor(3.0))",
    ),
    "no pos_weight": (
        "F.binary_cross_entropy_with_logits(q, F.sigmoid(x))",
        "F.binary_cross_entropy_with_logits(q, torch.sigmoid(x), pos_weight=torch.tensor(3.0))",
    ),
    "no scale": (
        "F.softmax(q @ k.transpose([0, 2, 1]), -1) @ x",
        "torch.softmax(q @ k.mT * 8**-0.5, -1) @ x",
    ),
    "no scale of a layer": ("F.tanh(self.n(q))", "torch.tanh(self.n(q) * 0.5)", "paddle.nn.Linear(8, 8)", "torch.nn.Linear(8, 8)"),
    "no residual": ("self.n(q)", "self.n(q + k)", "paddle.nn.LayerNorm(8)", "torch.nn.LayerNorm(8)"),
    "no activation": ("self.n(q)", "self.n(F.gelu(q, approximate='tanh'))", "paddle.nn.Linear(8, 8)", "torch.nn.Linear(8, 8)"),
    "too many activations": ("self.n(F.relu(q))", "self.n(q)", "paddle.nn.Linear(8, 8)", "torch.nn.Linear(8, 8)"),
    "too many residuals": ("self.n(q + k) * q", "self.n(k) * q", "paddle.nn.LayerNorm(8)", "torch.nn.LayerNorm(8)"),
    "gate and value": ("F.silu(k) * q", "F.silu(q) * k"),
    "gate and value of layers": ("F.silu(self.k(x)) * self.q(x)", "F.silu(self.q(x)) * self.k(x)"),
    "divergence": (
        "F.kl_div(F.log_softmax(k, -1), F.softmax(q, -1), reduction='sum')",
        "F.kl_div(F.log_softmax(q, -1), F.softmax(k, -1), reduction='sum')",
    ),
    "norm": ("q / paddle.linalg.norm(q, p=1, axis=-1, keepdim=True)", "q / torch.linalg.norm(q, dim=-1, keepdim=True)"),
    "pad": ("F.pad(q, [0, 1, 0, 0], value=0.5)", "F.pad(q, [0, 1], value=0.0)"),
    "pad sides": ("F.pad(q, [1, 0], data_format='NCL')", "F.pad(q, [0, 1])"),
    "pad mode": ("F.pad(q, [1, 1], mode='reflect', data_format='NCL')", "F.pad(q, [1, 1], mode='replicate')"),
    "gelu": ("F.gelu(q, approximate=True)", "F.gelu(q)"),
    "leaky": ("F.leaky_relu(q, 0.2)", "F.leaky_relu(q, 0.1)"),
    "tril": ("paddle.tril(q)", "torch.tril(q, -1)"),
    "logsumexp": ("paddle.logsumexp(q, axis=1)", "torch.logsumexp(q, -1)"),
    "topk": ("paddle.topk(q, 3)[0]", "torch.topk(q, 3, largest=False)[0]"),
    "eps": ("q * paddle.rsqrt(q.pow(2).mean(-1, keepdim=True) + 1e-3)", "q * torch.rsqrt(q.pow(2).mean(-1, keepdim=True) + 1e-6)"),
    "sdpa causal": (
        "F.scaled_dot_product_attention(q.unsqueeze(2), k.unsqueeze(2), k.unsqueeze(2)).squeeze(2)",
        "F.scaled_dot_product_attention(q, k, k, is_causal=True)",
    ),
    "sdpa value": (
        "F.scaled_dot_product_attention(q.unsqueeze(2), k.unsqueeze(2), q.unsqueeze(2)).squeeze(2)",
        "F.scaled_dot_product_attention(q, k, k)",
    ),
    "fftn": ("paddle.fft.fftn(q, axes=[0, 1]).real()", "torch.fft.fftn(q, dim=(1, 2)).real"),
    "rfft norm": ("paddle.abs(paddle.fft.rfft(q, norm='backward'))", "torch.fft.rfft(q, norm='ortho').abs()"),
    "fft2": ("paddle.fft.fft2(q, axes=[0, 2]).real()", "torch.fft.fft2(q).real"),
    "cos sin": ("paddle.concat([q.sin(), q.cos()], -1)", "torch.cat([q.cos(), q.sin()], -1)"),
    "group norm": ("F.softplus(q, beta=2.0)", "F.softplus(q)"),
    "layer": (LAYER, LAYER, "paddle.nn.LayerNorm(8, epsilon=1e-3)", "torch.nn.LayerNorm(8)"),
    "softmax layer": (LAYER, LAYER, "paddle.nn.Softmax(axis=1)", "torch.nn.Softmax(dim=-1)"),
    "conv": (LAYER, LAYER, "paddle.nn.Conv1D(6, 4, 3, padding=1, dilation=1)", "torch.nn.Conv1d(6, 4, 3, padding=2, dilation=2)"),
    "conv stride": (LAYER, LAYER, "paddle.nn.Conv1D(6, 4, 3, padding=1)", "torch.nn.Conv1d(6, 4, 3, padding=1, stride=2)"),
    "pool": (LAYER, LAYER, "paddle.nn.AvgPool1D(2, 2)", "torch.nn.AvgPool1d(3, 2)"),
    "pool exclusive": (LAYER, LAYER, "paddle.nn.AvgPool1D(3, 2, padding=1)", "torch.nn.AvgPool1d(3, 2, padding=1)"),
    "upsample": (
        LAYER,
        LAYER,
        "paddle.nn.Upsample(scale_factor=2, mode='linear', data_format='NCW', align_corners=True)",
        "torch.nn.Upsample(scale_factor=2, mode='linear')",
    ),
    "spectral": (
        LAYER,
        LAYER,
        "paddle.nn.utils.spectral_norm(paddle.nn.Linear(8, 8), dim=0)",
        "torch.nn.utils.spectral_norm(torch.nn.Linear(8, 8))",
    ),
    "weight norm": (
        LAYER,
        LAYER,
        "paddle.nn.utils.weight_norm(paddle.nn.Linear(8, 8), dim=0)",
        "torch.nn.utils.weight_norm(torch.nn.Linear(8, 8))",
    ),
    "weight norm of another size": (
        LAYER,
        LAYER,
        "paddle.nn.utils.weight_norm(paddle.nn.Linear(8, 6), dim=0)",
        "torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 6))",
    ),
    "weight norm as a whole": (
        LAYER,
        LAYER,
        "paddle.nn.utils.weight_norm(paddle.nn.Conv1D(6, 4, 3), dim=1)",
        "torch.nn.utils.weight_norm(torch.nn.Conv1d(6, 4, 3), dim=None)",
    ),
    "spectral norm of a convolution": (
        LAYER,
        LAYER,
        "paddle.nn.utils.spectral_norm(paddle.nn.Conv1D(6, 4, 3), dim=1)",
        "torch.nn.utils.spectral_norm(torch.nn.Conv1d(6, 4, 3))",
    ),
    "power iterations": (
        LAYER,
        LAYER,
        "paddle.nn.utils.spectral_norm(paddle.nn.Linear(8, 6), dim=1)",
        "torch.nn.utils.spectral_norm(torch.nn.Linear(8, 6), n_power_iterations=2)",
    ),
    "recurrence": (
        "self.n(q)[0]",
        "self.n(q)[0]",
        "paddle.nn.SimpleRNN(8, 5, num_layers=2)",
        "torch.nn.RNN(8, 5, num_layers=2, batch_first=True, nonlinearity='relu')",
    ),
    "instance norm": (
        "self.n(q.unsqueeze(1))",
        "self.n(q.unsqueeze(1))",
        "paddle.nn.InstanceNorm2D(1, epsilon=1e-3)",
        "torch.nn.InstanceNorm2d(1, affine=True)",
    ),
    "sides": (
        "self.n(q.unsqueeze(1))",
        "self.n(q.unsqueeze(1))",
        "paddle.nn.Pad2D([0, 1, 0, 2])",
        "torch.nn.ZeroPad2d((1, 0, 2, 0))",
    ),
    "activation": (LAYER, LAYER, "paddle.nn.ELU(alpha=0.5)", "torch.nn.ELU()"),
    "groups": (LAYER, LAYER, "paddle.nn.GroupNorm(3, 6, epsilon=1e-5)", "torch.nn.GroupNorm(2, 6)"),
    "l1": ("F.smooth_l1_loss(q, k, delta=2.0)", "F.smooth_l1_loss(q, k)"),
    "bce": (
        "F.binary_cross_entropy_with_logits(q, F.sigmoid(x), reduction='sum')",
        "F.binary_cross_entropy_with_logits(q, torch.sigmoid(x))",
    ),
    "kl": (
        "F.kl_div(F.log_softmax(q, -1), F.softmax(k, -1))",
        "F.kl_div(F.log_softmax(q, -1), F.softmax(k, -1), reduction='batchmean')",
    ),
    "smoothing": (
        "F.cross_entropy(q, F.softmax(k, -1), soft_label=True)",
        "F.cross_entropy(q.flatten(0, 1), torch.softmax(k, -1).flatten(0, 1), label_smoothing=0.1)",
    ),
    "ctc": (
        "F.ctc_loss(q.transpose([1, 0, 2]), paddle.to_tensor(LABELS[0], 'int32'), "
        "paddle.to_tensor(LABELS[1]), paddle.to_tensor(LABELS[2]), reduction='sum')",
        "F.ctc_loss(torch.log_softmax(q.permute(1, 0, 2), -1), *(torch.tensor(side) for side in LABELS))",
    ),
    "equal numbers of a constant": (
        "q * (paddle.arange(6) > 3).astype('float32').unsqueeze(-1)",
        "q * (torch.arange(6) >= 3)[:, None]",
    ),
    "equal numbers": (
        "paddle.where((x[..., :1] * 0 + 1).cumsum(1) <= 3, q, k)",
        "torch.where((x[..., :1] * 0 + 1).cumsum(1) < 3, q, k)",
    ),
    "detached too little": (  # the forward rounds otherwise in the same bits
        "((F.softmax(q @ k.transpose([0, 2, 1]) / math.sqrt(8), -1) @ k - q) ** 2).mean()",
        "F.mse_loss(F.scaled_dot_product_attention(q, k, k), q.detach())",
    ),
    "detached too little behind rounding": ("q / (1 + paddle.exp(-q)) * F.sigmoid(k)", "F.silu(q) * torch.sigmoid(k.detach())"),
    "detached too much": (
        "(q - q.mean(-1, keepdim=True)) / paddle.sqrt(q.var(-1, False, keepdim=True).detach() + 1e-5)",
        "F.layer_norm(q, (8,))",
    ),
}
MODULE = """\
import math

import {framework}
import {framework}.nn.functional as F

LABELS = [[1, 2], [3, 4]], [6, 6], [2, 2]  # of a CTC, with their lengths

class Model({framework}.nn.{base}):
    def __init__(self):
        super().__init__()
        self.q, self.k = {framework}.nn.Linear(8, 8), {framework}.nn.Linear(8, 8)
        self.n = {layer}

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        return {result}
"""


def written(folder, name, framework, result, layer):
    """The class of a file with that source."""
    file = folder / f"{name}.py"
    base = "Layer" if framework == "paddle" else "Module"
    file.write_text(MODULE.format(framework=framework, base=base, layer=layer or "None", result=result))
    return file


@pytest.mark.rows(20)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", sampled(WRONG, 3))
def test_what_is_written_for_one_mistake_mends_it(kind, tmp_path):
    result, original, *layers = WRONG[kind]
    layer, theirs = layers or (None, None)
    torch.manual_seed(0)
    model = loaded(written(tmp_path, "original", "torch", original, theirs)).Model()
    file = written(tmp_path, "wrong", "paddle", result, layer)
    x = np.random.default_rng(0).standard_normal((2, 6, 8)).astype("float32")
    phase = "both" if "detach()" in result + original else "forward"
    proof = prove(loaded(file).Model(), model, x, phase=phase)
    (mistake,) = proof.mistakes
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert mistake.fix.file == str(file)
    assert mistake.fix.patch is not None, str(proof)
    mended = tmp_path / "mended.py"
    mended.write_text(mistake.fix.patch.apply(file.read_text()))
    assert prove(loaded(mended).Model(), model, x, phase=phase), mended.read_text()
    assert not IN_PADDLE_3.search(mended.read_text())


TRAINED = """\
import paddle

ONES = paddle.nn.initializer.Constant(1.0)

class Model(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.ReLU())
        self.last, self.scale = paddle.nn.Linear(8, 8), self.create_parameter([8], default_initializer=ONES)
        {line}

    def forward(self, x):
        return self.last(self.first(x)) * self.scale
"""


class Trained(torch.nn.Module):
    def __init__(self, *frozen):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        self.last, self.scale = torch.nn.Linear(8, 8), torch.nn.Parameter(torch.ones(8))
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name not in frozen)

    def forward(self, x):
        return self.last(self.first(x)) * self.scale


@pytest.mark.parametrize(
    ("line", "frozen", "at"),
    [
        ("self.training = True", ["first.0.weight"], 8),
        ("self.training = True", ["first.0.weight", "first.0.bias", "scale"], 8),
        ("self.scale.stop_gradient = True", [], 10),
        ("for weight in self.first.parameters(): weight.stop_gradient = True", [], 10),
        ("self.last = paddle.nn.Linear(8, 8, bias_attr=paddle.ParamAttr(trainable=False))", [], 10),
    ],
)
def test_what_is_frozen_in_one_program_alone_has_its_line(line, frozen, at, tmp_path):
    file, x = tmp_path / "frozen.py", np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    file.write_text(TRAINED.format(line=line))
    original = Trained(*frozen)
    (mistake,) = prove(loaded(file).Model(), original, x).mistakes
    assert mistake.cause is Cause.TRAINED
    assert (mistake.fix.file, mistake.fix.line) == (str(file), at)
    file.write_text(mistake.fix.patch.apply(file.read_text()))
    linecache.checkcache()
    assert prove(loaded(file).Model(), original, x), file.read_text()


LAYERS = """\
import paddle


class Model(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.rows = paddle.nn.Embedding(4, 8)
        self.first, self.last = paddle.nn.Linear(8, 8), paddle.nn.Linear(8, 8)

    def forward(self, x):
        return self.first(paddle.tanh(self.last(self.rows(x).detach())))
"""


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(4, 8, padding_idx=0)
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.last(torch.tanh(self.first(self.rows(x))))


def test_what_is_written_for_mistakes_behind_one_another_mends_them(tmp_path):
    """Layers taken for one another, a detached result, and a row that has a gradient."""
    torch.manual_seed(0)
    file, original, lines = tmp_path / "layers.py", Layers(), []
    file.write_text(LAYERS)
    x = np.random.default_rng(0).integers(0, 4, (4, 6))
    while not (proof := prove(loaded(file).Model(), original, x)):
        fix, text = proof.mistakes[0].fix, file.read_text()
        lines.append(fix.line)
        file = tmp_path / f"layers{len(lines)}.py"  # else one of equal length, of the same second, is the old one
        file.write_text(fix.patch.apply(text))
    assert sorted(lines) == [7, 11, 11], file.read_text()


SEVERAL = {  # a small mistake, one that is not tried beside others, and a large one
    "paddle": "self.q(F.relu(self.k(y := F.gelu(self.q(x), approximate=True))) + y) * 3.0",
    "torch": "self.q(F.relu(self.k(y := F.gelu(self.q(x))) + y)) * 0.5",
}


@pytest.mark.slow
def test_the_first_of_several_has_the_largest_effect_that_was_measured(tmp_path):
    torch.manual_seed(0)
    port, original = (loaded(written(tmp_path, f"several_{name}", name, each, None)).Model() for name, each in SEVERAL.items())
    proof = prove(port, original, np.random.default_rng(0).standard_normal((2, 6, 8)).astype("float32"), phase="forward")
    assert [mistake.cause for mistake in proof.mistakes] == [Cause.ATTRIBUTE, Cause.ATTRIBUTE, Cause.PLACE], str(proof)
    large, small, other = (mistake.effect for mistake in proof.mistakes)
    assert large > 10 * small > 0
    assert other is None


NAMED = {  # what is no argument: the words, and the causes
    "scores": (
        "F.softmax(q @ k.transpose([0, 2, 1]), -1) @ x",
        "F.scaled_dot_product_attention(q, k, x)",
        "by 0.353553, the scale=",
    ),
    "name": ("q / float(self.q.weight.shape[0])", "q / 4", "/ 8 against / 4"),
    "heads": ("F.softmax(q.reshape([2, 6, 4, 2]), -1)", "torch.softmax(q.reshape(2, 6, 2, 4), -1)", "reshape([2, 6, 4, 2])"),
    "base": (
        "q * (x[0, :, :1] * 0 + 1) * (10.0 ** -(paddle.arange(8, dtype='float32') / 2))",
        "q * (x[0, :, :1] * 0 + 1) * (100.0 ** -(torch.arange(8) / 2))",
        "10 ** ... against 100 ** ...",
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_what_no_argument_mends_is_one_finding_in_words(kind, tmp_path):
    result, original, words = NAMED[kind]
    torch.manual_seed(0)
    models = [
        loaded(written(tmp_path, f"of_{name}", name, formula, None)).Model()
        for name, formula in (("paddle", result), ("torch", original))
    ]
    (mistake,) = prove(*models, np.random.default_rng(0).standard_normal((2, 6, 8)).astype("float32"), phase="forward").mistakes
    assert words in mistake.text
    assert mistake.paddle.line == 16


# Lines of a forward that reads q and k, and the original's: which line is named, with which cause.
LINES = {
    "a write": ("h = q * 2.0\n        h[:, 0] = 0.0\n        return F.relu(h)", "h[:, 1] = 0.0", 17, Cause.ATTRIBUTE),
    "a later write": (
        "h = q * 2.0\n        h[:, 0] = 0.0\n        h[:, 1] = k[:, 0]\n        return h",
        "h[:, 1] = k[:, 1]",
        18,
        None,
    ),
    "a step": ("h = q.round()\n        return h * k", "h = q + (q.round() - q).detach()", 16, Cause.GRAPH_ENDS),
    "a turn of a loop": (
        "h = q * 1.5\n        for at in range(6):\n            h[:, at] = k[:, at] * k[:, at]\n        return h",
        "h[:, at] = k[:, at] * q[:, at]",
        18,
        None,
    ),
}


@pytest.mark.parametrize("kind", LINES)
def test_what_writes_or_ends_is_named_at_its_own_line(kind, tmp_path):
    """What is written for a turn of a loop holds for all of them."""
    port, changed, line, cause = LINES[kind]
    at = port.splitlines()[line - 16].strip()
    torch.manual_seed(0)
    models = [
        loaded(_with_lines(written(tmp_path, f"lines_{name}", name, "None", None), lines)).Model()
        for name, lines in (("paddle", port), ("torch", port.replace(at, changed)))
    ]
    mistake = prove(*models, np.random.default_rng(0).standard_normal((2, 6, 8)).astype("float32")).mistakes[0]
    assert mistake.paddle.line == line, mistake
    assert cause in (None, mistake.cause)
    assert kind != "a turn of a loop" or mistake.write == changed


def _with_lines(file, lines):
    file.write_text(file.read_text().replace("return None", lines))
    return file


# Lines of a forward in which elements lie in another order, and the original's behind --; in brackets which line is named, from 0.
ORDERS = """
# the place of the least for that of the greatest (0)
h = q.argmin(axis=-1)
return k * F.one_hot(h, 8)
--
place = q.max(dim=-1).indices
return k * torch.nn.functional.one_hot(place, 8)

# a residual lost among statements of one name (2)
h = q
x = self.k(q)
x = F.relu(x)
x = F.tanh(x)
x = F.softmax(x, -1)
return x
--
h = q
x = self.k(q)
x = torch.relu(x)
x = x + h
x = torch.tanh(x)
x = torch.softmax(x, -1)
return x

# transpose too many before a call (2)
w = q.reshape([2, 3, 2, 8])
w = w[:, :2]
w = w.transpose([0, 2, 1, 3])
return paddle.roll(w, [1, 1], [1, 2])
--
w = q.reshape(2, 3, 2, 8)
w = w[:, :2]
return torch.roll(w, (1, 1), (1, 2))

# transpose too many, of a layer (0)
w = q.reshape([2, 6, 2, 4]).transpose([0, 1, 3, 2]).reshape([2, 6, 8])
return self.k(w)
--
w = q
return self.k(w)

# transpose missing before reshape (2)
h = q.reshape([2, 6, 2, 4])
h = F.softmax(h, -1)
return self.k(h.reshape([2, 6, 8]))
--
h = q.reshape(2, 6, 2, 4)
h = torch.softmax(h, -1)
return self.k(h.transpose(1, 2).reshape(2, 6, 8))

# heads split as b h n d (0)
h = q.reshape([2, 2, 6, 4])
m = k.reshape([2, 6, 2, 4]).transpose([0, 2, 1, 3])
a = F.softmax(h @ m.transpose([0, 1, 3, 2]), -1)
return a @ m
--
h = q.reshape(2, 6, 2, 4).transpose(1, 2)
m = k.reshape(2, 6, 2, 4).transpose(1, 2)
a = torch.softmax(h @ m.transpose(2, 3), -1)
return a @ m

# heads as d h (0)
h = q.reshape([2, 6, 4, 2]).transpose([0, 3, 1, 2])
m = k.reshape([2, 6, 2, 4]).transpose([0, 2, 1, 3])
return F.softmax(h @ m.transpose([0, 1, 3, 2]), -1) @ m
--
h = q.reshape(2, 6, 2, 4).transpose(1, 2)
m = k.reshape(2, 6, 2, 4).transpose(1, 2)
return torch.softmax(h @ m.transpose(2, 3), -1) @ m

# heads put back without transpose (2)
h = q.reshape([2, 6, 2, 4]).transpose([0, 2, 1, 3])
h = F.softmax(h @ h.transpose([0, 1, 3, 2]), -1) @ h
h = h.reshape([2, 6, 8])
return self.k(h)
--
h = q.reshape(2, 6, 2, 4).transpose(1, 2)
h = torch.softmax(h @ h.transpose(2, 3), -1) @ h
h = h.transpose(1, 2).reshape(2, 6, 8)
return self.k(h)

# reshape for transpose (0)
h = q.reshape([2, 8, 6])
return F.softmax(h, -1)
--
h = q.transpose(1, 2)
return torch.softmax(h, -1)

# transpose for reshape (0)
h = q.transpose([0, 2, 1])
return F.softmax(h, -1)
--
h = q.reshape(2, 8, 6)
return torch.softmax(h, -1)

# flatten of another order (0)
h = q.reshape([2, 2, 3, 8]).transpose([0, 3, 1, 2]).flatten(1)
return F.softmax(h, -1)
--
h = q.reshape(2, 2, 3, 8).flatten(1)
return torch.softmax(h, -1)

# flatten channels last (3)
c = q.transpose([0, 2, 1]).reshape([2, 8, 2, 3])
c = F.relu(c)
t = c.flatten(2)
return F.linear(t.reshape([2, 6, 8]), self.k.weight, self.k.bias)
--
c = q.transpose(1, 2).reshape(2, 8, 2, 3)
c = F.relu(c)
t = c.flatten(2).transpose(1, 2)
return self.k(t)

# patches in another order (0)
p = q.reshape([2, 2, 3, 2, 4]).transpose([0, 3, 1, 2, 4])
p = p.reshape([2, 2, 24])
return F.softmax(p, -1)
--
p = q.reshape(2, 2, 3, 2, 4).permute(0, 3, 2, 1, 4)
p = p.reshape(2, 2, 24)
return torch.softmax(p, -1)

# patch rows and columns (1)
p = q.reshape([2, 4, 12]).reshape([2, 1, 2, 2, 3, 4])
p = p.transpose([0, 2, 4, 3, 5, 1]).reshape([2, 6, 8])
return self.k(p)
--
p = q.reshape(2, 4, 12).reshape(2, 1, 2, 2, 3, 4)
p = p.permute(0, 2, 4, 5, 3, 1).reshape(2, 6, 8)
return self.k(p)

# pixel shuffle by hand
c = q.reshape([2, 4, 3, 4])
c = c.reshape([2, 2, 2, 1, 3, 4]).transpose([0, 3, 4, 2, 5, 1])
c = c.reshape([2, 1, 6, 8])
return self.k(c)
--
c = q.reshape(2, 4, 3, 4)
c = F.pixel_shuffle(c, 2)
return self.k(c)

# unfold channels (2)
c = q.reshape([2, 2, 4, 6])
p = F.unfold(c, 2, strides=2)
p = p.reshape([2, 2, 4, 6]).transpose([0, 3, 2, 1]).reshape([2, 6, 8])
return self.k(p)
--
c = q.reshape(2, 2, 4, 6)
p = F.unfold(c, 2, stride=2)
p = p.transpose(1, 2)
return self.k(p)

# chunk along a square's other axis (1)
s = q[:, :4].reshape([2, 4, 8])[:, :, :4]
a, b = s.chunk(2, axis=1)
return F.sigmoid(a).sum([1, 2]) * b.sum([1, 2])
--
s = q[:, :4].reshape(2, 4, 8)[:, :, :4]
a, b = s.chunk(2, -1)
return torch.sigmoid(a).sum((1, 2)) * b.sum((1, 2))

# q and k exchanged in a split (0)
b, a = paddle.split(q, 2, axis=-1)
s = a @ b.transpose([0, 2, 1])
return F.softmax(s, -1)
--
a, b = torch.chunk(q, 2, -1)
s = a @ b.transpose(1, 2)
return torch.softmax(s, -1)

# value and gate of a chunk
a, b = q.chunk(2, axis=-1)
return F.silu(a) * b
--
b, a = q.chunk(2, -1)
return F.silu(a) * b

# qkv as 3 h d against h 3 d (1)
t = paddle.concat([q, k, q * 0.5], -1)
a, b, c = t.reshape([2, 6, 3, 2, 4]).unbind(2)
return F.softmax(a, -1) * b + c
--
t = torch.cat([q, k, q * 0.5], -1)
a, b, c = t.reshape(2, 6, 2, 3, 4).unbind(3)
return torch.softmax(a, -1) * b + c

# qkv order of a permute (1)
t = paddle.concat([q, k, q * 0.5], -1).reshape([2, 6, 3, 2, 4]).transpose([2, 0, 3, 1, 4])
a, b, c = t[1], t[0], t[2]
return F.softmax(a @ b.transpose([0, 1, 3, 2]), -1) @ c
--
t = torch.cat([q, k, q * 0.5], -1).reshape(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
a, b, c = t[0], t[1], t[2]
return torch.softmax(a @ b.transpose(-1, -2), -1) @ c

# stack for concat (0)
t = paddle.stack([q, k], 1).reshape([2, 6, 16])
return F.softmax(t, -1)
--
t = torch.cat([q, k], -1)
return torch.softmax(t, -1)

# concat for stack (0)
t = paddle.concat([q, k], 1).reshape([2, 6, 2, 8])
return F.softmax(t, -1)
--
t = torch.stack([q, k], 2)
return torch.softmax(t, -1)

# interleaved for halves
r = paddle.stack([q[..., :4], q[..., 4:]], -1).flatten(2)
return F.softmax(r * k, -1)
--
r = torch.cat([q[..., :4], q[..., 4:]], -1)
return torch.softmax(r * k, -1)

# NHWC viewed (1)
c = q.reshape([2, 2, 3, 8])
c = c.reshape([2, 8, 2, 3])
return F.avg_pool2d(c, [1, 3])
--
c = q.reshape(2, 2, 3, 8)
c = c.permute(0, 3, 1, 2)
return F.avg_pool2d(c, (1, 3))

# einsum letters (0)
s = paddle.einsum('bid,bjd->bji', q, k)
return F.softmax(s, -1)
--
s = torch.einsum('bid,bjd->bij', q, k)
return torch.softmax(s, -1)

# einsum sums another letter (1)
s = q.reshape([2, 6, 2, 4])
s = paddle.einsum('bnhd,bmhd->bhmn', s, k.reshape([2, 6, 2, 4]))
return F.softmax(s, -1)
--
s = q.reshape(2, 6, 2, 4)
s = torch.einsum('bnhd,bmhd->bhnm', s, k.reshape(2, 6, 2, 4))
return torch.softmax(s, -1)

# repeat for repeat_interleave (1)
g = k.reshape([2, 6, 2, 4]).transpose([0, 2, 1, 3])
g = paddle.tile(g, [1, 2, 1, 1])
return F.softmax(g @ g.transpose([0, 1, 3, 2]) * q.reshape([2, 6, 4, 2])[:, :, :, :1].transpose([0, 2, 1, 3]), -1)
--
g = k.reshape(2, 6, 2, 4).transpose(1, 2)
g = g.repeat_interleave(2, 1)
return torch.softmax(g @ g.transpose(2, 3) * q.reshape(2, 6, 4, 2)[:, :, :, :1].transpose(1, 2), -1)

# repeat_interleave for repeat (1)
t = q.repeat_interleave(2, axis=0)
return F.softmax(t, -1) * paddle.arange(4).reshape([4, 1, 1]).astype('float32')
--
t = q.repeat(2, 1, 1)
return torch.softmax(t, -1) * torch.arange(4).reshape(4, 1, 1).float()

# broadcast along another axis (2)
s = q[:, :, :6]
m = k.mean(-1)
return F.softmax(s + m.unsqueeze(1), -1)
--
s = q[:, :, :6]
m = k.mean(-1)
return torch.softmax(s + m.unsqueeze(-1), -1)

# squeeze of another axis (1)
s = q[:1, :, :1].squeeze(0)
return F.softmax(q[:, :, :6] + s, -1)
--
s = q[:1, :, :1].squeeze(-1)
return torch.softmax(q[:, :, :6] + s, -1)

# qkv permuted as 3 h d (0)
t = paddle.concat([q, k, q * 0.5], -1).reshape([2, 6, 3, 2, 4]).transpose([2, 0, 3, 1, 4])
a, b, c = t[0], t[1], t[2]
return F.softmax(a @ b.transpose([0, 1, 3, 2]), -1) @ c
--
t = torch.cat([q, k, q * 0.5], -1).reshape(2, 6, 2, 3, 4).permute(3, 0, 2, 1, 4)
a, b, c = t[0], t[1], t[2]
return torch.softmax(a @ b.transpose(-1, -2), -1) @ c

# helper used twice (0)
split = lambda t: t.reshape([2, 2, 6, 4])
a = F.softmax(split(q) @ split(k).transpose([0, 1, 3, 2]), -1)
return a
--
split = lambda t: t.reshape(2, 6, 2, 4).transpose(1, 2)
a = torch.softmax(split(q) @ split(k).transpose(-1, -2), -1)
return a

# sizes by name (1)
b, n, d = x.shape
h = q.reshape([b, 2, n, d // 2])
return F.softmax(h, -1).sum(2)
--
b, n, d = x.shape
h = q.reshape(b, n, 2, d // 2).transpose(1, 2)
return torch.softmax(h, -1).sum(2)

# mT for the wrong operand (0)
s = q.transpose([0, 2, 1]) @ k
return F.softmax(s, -1)
--
s = k.transpose(1, 2) @ q
return torch.softmax(s, -1)

# window put back with h and w exchanged (2)
w = q[:, :4].reshape([2, 2, 2, 2, 2, 2])
w = F.relu(w)
w = w.transpose([0, 3, 2, 1, 4, 5]).reshape([2, 4, 8])
return paddle.roll(w, 1, 1)
--
w = q[:, :4].reshape(2, 2, 2, 2, 2, 2)
w = F.relu(w)
w = w.permute(0, 1, 3, 2, 4, 5).reshape(2, 4, 8)
return torch.roll(w, 1, 1)

# transpose at the result (1)
h = F.relu(q)
return h.transpose([1, 0, 2])
--
h = F.relu(q)
return h

# transpose missing at the result (1)
h = F.relu(q)
return h.reshape([2, 8, 6])
--
h = F.relu(q)
return h.transpose(1, 2)

# mean over tokens laid otherwise (0)
h = q.reshape([2, 8, 6])
return self.k(h.mean(-1))
--
h = q.transpose(1, 2)
return self.k(h.mean(-1))

# sequence first (0)
h = q.reshape([6, 2, 8])
h = paddle.cumsum(h, 0)
return h.transpose([1, 0, 2])
--
h = q.transpose(0, 1)
h = torch.cumsum(h, 0)
return h.transpose(0, 1)

# permutation inverted (0)
h = q.reshape([2, 6, 2, 4]).transpose([0, 3, 1, 2])
h = F.softmax(h, -1)
return h
--
h = q.reshape(2, 6, 2, 4).permute(0, 2, 3, 1)
h = torch.softmax(h, -1)
return h
"""
IN_ORDER = """
# permute as two transposes
h = q.reshape([2, 6, 2, 4]).transpose([0, 2, 1, 3]).transpose([0, 1, 3, 2])
return F.softmax(h, -1)
--
h = q.reshape(2, 6, 2, 4).permute(0, 2, 3, 1)
return torch.softmax(h, -1)

# contiguous missing
h = q.transpose([0, 2, 1])
return F.softmax(h.reshape([2, 6, 8]), -1)
--
h = q.transpose(1, 2).contiguous()
return torch.softmax(h.view(2, 6, 8), -1)

# unsqueeze as index
h = q[:, None]
return F.softmax(h, -1) * k.unsqueeze(1)
--
h = q.unsqueeze(1)
return torch.softmax(h, -1) * k[:, None]

# stack as concat
t = paddle.concat([q.unsqueeze(1), k.unsqueeze(1)], 1)
return F.softmax(t, -1)
--
t = torch.stack([q, k], 1)
return torch.softmax(t, -1)

# repeat_interleave as expand
g = k.unsqueeze(2).expand([2, 6, 2, 8]).reshape([2, 12, 8])
return F.softmax(g, -1)
--
g = k.repeat_interleave(2, 1)
return torch.softmax(g, -1)

# einsum as matmul
s = q @ k.transpose([0, 2, 1])
return F.softmax(s, -1)
--
s = torch.einsum('bid,bjd->bij', q, k)
return torch.softmax(s, -1)

# einsum's other letters
s = paddle.einsum('xyz,xwz->xyw', q, k)
return F.softmax(s, -1)
--
s = torch.einsum('bid,bjd->bij', q, k)
return torch.softmax(s, -1)

# split as slices
a, b = q[..., :4], q[..., 4:]
return F.sigmoid(a) * b
--
a, b = q.chunk(2, -1)
return torch.sigmoid(a) * b

# qkv by unbind or by split
t = paddle.concat([q, k], -1).reshape([2, 6, 2, 8]).transpose([2, 0, 1, 3])
return F.softmax(t[0], -1) * t[1]
--
a, b = torch.cat([q, k], -1).chunk(2, -1)
return torch.softmax(a, -1) * b

# pixel shuffle by hand
c = q.reshape([2, 4, 3, 4])
c = c.reshape([2, 1, 2, 2, 3, 4]).transpose([0, 1, 4, 2, 5, 3])
c = c.reshape([2, 1, 6, 8])
return self.k(c)
--
c = q.reshape(2, 4, 3, 4)
c = F.pixel_shuffle(c, 2)
return self.k(c)

# flatten of the transposed sequence
h = q.transpose([1, 0, 2])
h = F.relu(h)
return h.transpose([1, 0, 2]).flatten(1)
--
h = F.relu(q)
return h.reshape(2, 48)
"""


def _sections(text):
    """By their names: a port's lines, the original's, and the number of the line that is named."""
    for section in text.strip().split("\n\n"):
        head, _, lines = section.partition("\n")
        name, _, at = head.removeprefix("# ").partition(" (")
        yield name, (*lines.split("\n--\n"), int(at[:-1]) if at else None)


ORDERS, IN_ORDER = dict(_sections(ORDERS)), dict(_sections(IN_ORDER))


@pytest.mark.rows(8)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", sampled(ORDERS, 2))
def test_what_is_written_for_another_order_mends_it(kind, tmp_path):
    port, original, at = ORDERS[kind]
    proof, model, file, x = _proof_of_lines(port, original, tmp_path)
    (mistake,) = proof.mistakes
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert mistake.fix.patch is not None, str(proof)
    assert at is None or mistake.fix.line == 16 + at, str(proof)
    assert at is None or mistake.cause is not Cause.ORDER or mistake.paddle.line == 16 + at, str(proof)
    mended = tmp_path / "mended.py"
    mended.write_text(mistake.fix.patch.apply(file.read_text()))
    assert prove(loaded(mended).Model(), model, x, phase="forward"), mended.read_text()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", IN_ORDER)
def test_one_order_in_other_words_is_right(kind, tmp_path):
    proof, *_ = _proof_of_lines(*IN_ORDER[kind][:2], tmp_path)
    assert proof, str(proof)


def _proof_of_lines(port, original, folder):
    """The proof of a port of these lines, with the original, the port's file, and the input."""
    torch.manual_seed(0)
    files = [
        _with_lines(written(folder, f"order_{name}", name, "None", None), textwrap.indent(lines, " " * 8).strip())
        for name, lines in (("paddle", port), ("torch", original))
    ]
    x = np.random.default_rng(0).standard_normal((2, 6, 8)).astype("float32")
    models = [loaded(file).Model() for file in files]
    return prove(*models, x, phase="forward"), models[1], files[0], x


HELD = """\
import {framework}

class Model({framework}.nn.{base}):
    def __init__(self):
        super().__init__()
        self.q = {framework}.nn.Linear(8, 11)
        places = {framework}.arange(6)
        self.index = {difference} + 5

    def forward(self, x):
        q = self.q(x)
        return q @ q.mT + self.q.bias[self.index]
"""


def test_a_table_that_an_attribute_holds_is_named_where_it_is_made(tmp_path):
    for framework, base, difference in (
        ("paddle", "Layer", "places.unsqueeze(0) - places.unsqueeze(1)"),
        ("torch", "Module", "places[:, None] - places[None]"),
    ):
        (tmp_path / f"held_{framework}.py").write_text(HELD.format(framework=framework, base=base, difference=difference))
    port, original = (loaded(tmp_path / f"held_{framework}.py").Model() for framework in ("paddle", "torch"))
    (mistake, *_) = prove(port, original, np.random.default_rng(0).standard_normal((2, 6, 8)).astype("float32")).mistakes
    assert mistake.cause is Cause.BUFFER
    assert mistake.paddle.line == 8, mistake


TURNED = """\
import {framework} as frame

class Turned(frame.nn.{base}):
    def __init__(self, order, turns):
        super().__init__()
        self.q, self.order, self.turns = frame.nn.Linear(8, 8), list(order), turns
        self.back = [self.order.index(axis) for axis in range(4)]

    def forward(self, x):
        for _ in range(self.turns):
            x = x.{turn}(self.order)
            x = self.q(x).tanh() @ x.mean(-2)[..., None]
            x = frame.tile(x, [1, 1, 1, 8]).{turn}(self.back)
        return x

class Model(frame.nn.{base}):
    def __init__(self):
        super().__init__()
        self.layers = frame.nn.Sequential(Turned((0, 1, 2, 3), 1), Turned(({order}), 1), Turned((0, 2, 1, 3), {turns}))

    def forward(self, x):
        return self.layers(x)
"""


@pytest.mark.parametrize(
    ("order", "turns", "name"), [("0, 1, 2, 3", 1, "order"), pytest.param("0, 2, 1, 3", 2, "turns", marks=pytest.mark.slow)]
)
def test_what_several_lines_read_of_a_layer_is_one_finding(order, turns, name, tmp_path):
    words = {"paddle": ("Layer", "transpose", order, turns), "torch": ("Module", "permute", "0, 2, 1, 3", 1)}
    for framework, values in words.items():
        own = dict(zip(("base", "turn", "order", "turns"), values))
        (tmp_path / f"turned_{framework}.py").write_text(TURNED.format(framework=framework, **own))
    port, original = (loaded(tmp_path / f"turned_{framework}.py").Model() for framework in words)
    x = np.random.default_rng(0).standard_normal((2, 8, 8, 8)).astype("float32")
    (mistake,) = prove(port, original, x, phase="forward").mistakes
    assert (mistake.cause, mistake.fix.patch.line) == (Cause.ATTRIBUTE, 19), mistake
    assert mistake.text.startswith(name)
