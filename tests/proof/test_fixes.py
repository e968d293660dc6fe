"""What to write for a mistake stands at the line that makes the layer, or at the call."""

import importlib
import linecache
import re
import sys
from dataclasses import asdict

import numpy as np
import paddle
import torch

from padiff_shim import prove
from padiff_shim.dispatch.call_site import at_line
from padiff_shim.proof.fixes import constructor


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


class Nested(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.stack = paddle.nn.Sequential(
            paddle.nn.Linear(6, 6),
            paddle.nn.Sequential(paddle.nn.ReLU(), paddle.nn.LayerNorm(6)),
        )
        self.port: Port = Port()
        self.made = [paddle.nn.Linear(2, 2)]
        self.add_sublayer("late", paddle.nn.GELU())


def activation():
    return paddle.nn.Sequential(paddle.nn.Hardswish())


Norm = paddle.nn.BatchNorm1D


class Made(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.act = activation()
        self.norm = Norm(6)
        self.linear = self.projection()
        self.linear.act = activation()

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
    }
    layers = dict(Made().named_sublayers(include_self=True))
    sources = {path: fix.source for path in layers if (fix := constructor(path, layers))}
    hardswish = "return paddle.nn.Sequential(paddle.nn.Hardswish())"
    assert sources == {"act.0": hardswish, "norm": "self.norm = Norm(6)", "linear.act.0": hardswish}
    assert "linear" in layers, "Linear is made at several lines: none is named"


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
    ("min=0.2", "min=0.1"),
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
    """Every patch, applied, takes its mistake away; what names stand for, and what could be meant by two calls, is left alone."""
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
    lines = {number: f"{at_line(str(file), number)}" for number in (14, 15, 20)}
    assert sorted(left) == sorted(
        [
            f"{lines[14]}: self.act = paddle.nn.Sigmoid()",
            f"epsilon=1e-05 at {lines[15]}: self.last = paddle.nn.LayerNorm(6, epsilon=EPSILON)",
            f"axis=-1 at {lines[20]}",
        ]
    )
