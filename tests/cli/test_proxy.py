"""``padiff-shim prove --proxy``: Torch's source, imported as Paddle by ``paddle.compat``, against itself."""

import sys

import pytest
import torch

from padiff_shim.cli.main import main

SOURCE = """
import torch
import torch.nn.functional as F
from parts import Scale
from torch import nn


class Net(nn.Module):
    def __init__(self, wide=8):
        super().__init__()
        self.up, self.down, self.scale = nn.Linear(4, wide), nn.Linear(wide, 4), Scale()

    def forward(self, x):
        return torch.softmax(x + self.scale(self.down(F.gelu(self.up(x)))), dim=-1)


class Lacking(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.norm(x))


class Late(Net):
    def forward(self, x):
        return torch.addcmul(x, x, x)
"""
PARTS = """
import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.by
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "parts.py").write_text(PARTS)
    package = tmp_path / "packed"
    (package / "blocks").mkdir(parents=True)
    (package / "__init__.py").write_text("from .models import Net, Lacking\nfrom .only_torch import compiled\n")
    (package / "only_torch.py").write_text("import torch\n\ncompiled = torch.compile(lambda x: x)\n")
    (package / "blocks" / "__init__.py").write_text("from .scale import scale\n")
    (package / "blocks" / "scale.py").write_text(f"{PARTS}\n\ndef scale():\n    return Scale()\n")
    (package / "models.py").write_text(SOURCE.replace("from parts import Scale", "from .blocks import scale as Scale"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path[:])
    for name in ("net", "parts"):  # those of other tests' folders
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.rows(2)
@pytest.mark.parametrize("word", ["net.py:Net?wide=6", "net:Net", "packed/models.py:Net", "packed.models:Net", "packed:Net"])
def test_torchs_source_is_proven_as_paddle(word, source, capsys):
    assert main(["prove", "--proxy", word, "--inputs", "2x4"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("CODE_CORRECT")
    assert "torch.nn.BatchNorm2d (" in captured.err  # what another model of the file needs
    assert sys.modules["torch"] is torch


@pytest.mark.rows(1)
@pytest.mark.parametrize("word", ["net.py:Lacking", "packed.models:Lacking", "packed:Lacking"])
def test_what_paddle_lacks_is_listed_with_its_lines(word, source, capsys):
    assert main(["prove", "--proxy", word, "--inputs", "2x3x4x4"]) == 2
    error = capsys.readouterr().err
    file = "net.py" if word.startswith("net") else "models.py"
    norm, relu = (
        1 + SOURCE.splitlines().index(f"        self.{line}")
        for line in ("norm = nn.BatchNorm2d(3)", "relu = nn.ReLU(inplace=True)")
    )
    assert f"AttributeError at {file}:{norm}" in error
    assert f"torch.nn.BatchNorm2d: {file}:{norm}" in error
    assert f"torch.nn.ReLU(inplace=): {file}:{relu}" in error
    assert sys.modules["torch"] is torch


def test_what_a_forward_lacks_is_listed_in_front_of_its_error(source, capsys):
    assert main(["prove", "--proxy", "net.py:Late", "--inputs", "2x4"]) == 2
    line = 1 + SOURCE.splitlines().index("        return torch.addcmul(x, x, x)")
    assert f"torch.addcmul (net.py:{line})" in capsys.readouterr().err


@pytest.mark.slow
def test_a_second_command_of_one_process_is_not_moved(source, capsys):
    for _ in range(2):
        assert main(["prove", "--proxy", "net.py:Net", "--inputs", "2x4"]) == 0
    assert main(["prove", "net.py:Net", "net.py:Net", "--inputs", "2x4"]) == 2
    assert "paddle_layer= is a paddle.nn.Layer, got a Net" in capsys.readouterr().err  # both are Torch's again


def test_a_paddle_without_proxy_says_so(source, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "paddle.compat.proxy", None)
    assert main(["prove", "--proxy", "net.py:Net", "--inputs", "2x4"]) == 2
    assert capsys.readouterr().err.startswith("padiff-shim: --proxy")


@pytest.mark.parametrize("words", [["net.py:Net"], [], ["net.py:Net", "net.py:Net", "--proxy", "net.py:Net"]])
def test_it_takes_a_pair_or_a_proxy(words, source, capsys):
    assert main(["prove", *words, "--inputs", "2x4"]) == 2
    assert "--proxy TORCH" in capsys.readouterr().err
