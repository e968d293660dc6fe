"""``transfer``, ``drift``, ``bitwise``, ``bisect`` and ``record``: status, files, narrow terminals, old encodings."""

import io
import json
import sys

import forked
import numpy as np
import paddle
import pytest
import torch
from rich.cells import cell_len

from padiff_shim.cli import output
from padiff_shim.cli.main import main

pytestmark = pytest.mark.compat

PAIR = """
import paddle
import torch


class Port(paddle.nn.Layer):
    def __init__(self, inner=3, spelling="mul"):
        super().__init__()
        self.up, self.down = paddle.nn.Linear(4, inner), paddle.nn.Linear(inner, 4)
        self.spelling = spelling

    def forward(self, x):
        x = self.down(paddle.tanh(self.up(x)))
        return x * (1 / 3) if self.spelling == "mul" else x / 3


class Original(torch.nn.Module):
    def __init__(self, inner=3):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, inner), torch.nn.Linear(inner, 4)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x))) / 3


def slope(value=0.01):
    x = paddle.zeros([3])
    x.stop_gradient = False
    paddle.nn.functional.leaky_relu(paddle.tanh(x), value).sum().backward()
    return x.grad


def is_bad(result):
    return float(result.max()) > 0.5


x = torch.linspace(-1, 1, 12).reshape(3, 4).numpy()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "pair.py").write_text(PAIR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path[:])
    return tmp_path


def test_weights_go_there_and_back(folder, capsys):
    to_paddle = ["transfer", "--torch", "pair.py:Original", "--paddle", "pair.py:Port"]
    assert main(to_paddle) == 0
    assert "up.weight" in capsys.readouterr().out
    assert [path.name for path in folder.iterdir() if path.suffix == ".pdparams"] == []
    assert main([*to_paddle, "-o", "new/port.pdparams", "--json", "-"]) == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["pairs"]) == 4
    assert "new/port.pdparams written" in shown.err
    to_torch = ["transfer", "--torch", "pair.py:Original", "--paddle", "new/port.pdparams", "--weights", "paddle->torch"]
    assert main([*to_torch, "--output", "back.pt"]) == 0
    port, back = paddle.load("new/port.pdparams"), torch.load("back.pt", weights_only=True)
    assert (back["up.weight"].numpy() == port["up.weight"].numpy().T).all()
    assert (port["down.bias"].numpy() == back["down.bias"].numpy()).all()
    capsys.readouterr()
    assert main([*to_paddle, "--with", "paddle.inner=2", "-o", "other.pdparams", "--markdown", "-"]) == 1
    shown = capsys.readouterr()
    assert "nothing was written" in shown.err
    assert shown.out == ""
    assert not (folder / "other.pdparams").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--torch", "pair.py:Original", "--paddle", "p.pdparams", "-o", "p.pdparams"],
            "--paddle names the model that takes",
        ),
        (["--torch", "none.pt", "--paddle", "pair.py:Port"], "there is no file none.pt"),
        (["--torch", "pair.py:Original", "--paddle", "pair.py:Port", "-o", "p.pt"], "ends with .pdparams, got 'p.pt'"),
        (
            ["--torch", "pair.py:Original", "--paddle", "pair.py:Port", "--weights", "as-is"],
            "Accepted: paddle->torch, torch",
        ),
    ],
)
def test_refused_transfers(words, message, capsys):
    assert main(["transfer", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_drift_is_measured(folder, capsys):
    words = ["prove", "pair.py:Port", "pair.py:Original", "--inputs", "pair.py:x", "--drift", "--with", "paddle.spelling=div"]
    assert main([*words, "--markdown", "new/drift.md"]) == 0
    assert "gradient of parameter" in (folder / "new" / "drift.md").read_text()


@pytest.mark.slow
def test_bits_that_part_are_named_and_mended(folder, capsys):
    words = ["prove", "pair.py:Port", "pair.py:Original", "--inputs", "pair.py:x", "--phase", "forward", "--bits"]
    assert main([*words, "--with", "paddle.spelling=div"]) == 0
    assert main([*words, "--html", "bits.html"]) == 1
    assert "div against mul" in capsys.readouterr().out
    assert "<html" in (folder / "bits.html").read_text()


def test_a_bisection_from_the_command_line(folder, capsys):
    np.save(folder / "wanted.npy", np.full(3, 0.01, "float32"))
    for target in ([], ["--target", "wanted.npy"], ["--target", "pair.py:is_bad"]):
        tolerance = [] if target == ["--target", "pair.py:is_bad"] else ["--atol", "1e-3"]
        assert main(["bisect", "pair.py:slope", *target, *tolerance]) == 0
        assert "leaky_relu" in capsys.readouterr().out
    assert main(["bisect", "pair.py:slope?value=1"]) == 2
    assert "no difference" in capsys.readouterr().err
    assert main(["bisect", "pair.py:x"]) == 2
    assert "pair.py:x is no function" in capsys.readouterr().err


def test_a_program_is_recorded(folder):
    (folder / "train.py").write_text("import sys, torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\nsys.exit(int(sys.argv[1]))\n")
    words = ["-m", "padiff_shim", "record", "--framework", "torch"]
    done = forked.run([*words, "new/rec", "train.py", "3"], cwd=folder, warm=True)
    assert done.returncode == 3, "the program's own status"
    assert "padiff-shim diff new/rec OTHER" in done.stderr
    done = forked.run([*words, "--overwrite", "--quiet", "new/rec", "-m", "train", "0"], cwd=folder, warm=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rec", "--every", "3", "train.py"], "options of padiff-shim come before DIR, got --every"),
        (["--every", "3", "--around", "2", "rec", "pair.py"], "--every and --around exclude each other"),
        (["rec", "none.py"], "the program none.py does not exist"),
    ],
)
def test_refused_recordings(words, message, capsys):
    assert main(["record", *words]) == 2
    assert message in capsys.readouterr().err


COMMANDS = {
    "transfer": ["--torch", "pair.py:Original", "--paddle", "pair.py:Port"],
    "prove --drift --calls": ["pair.py:Port", "pair.py:Original", "--inputs", "pair.py:x"],
    "prove --bits": ["pair.py:Port", "pair.py:Original", "--inputs", "pair.py:x", "--with", "paddle.spelling=div"],
    "bisect": ["pair.py:slope"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_text_for_narrow_terminals_and_old_encodings(name, monkeypatch):
    monkeypatch.setattr(output, "look", lambda stream=None: {"width": 80, "colour": False})
    stream = io.TextIOWrapper(io.BytesIO(), encoding="gbk")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main([*name.split(), *COMMANDS[name]]) == 0
    stream.flush()
    lines = stream.buffer.getvalue().decode("gbk").splitlines()
    assert [line for line in lines if cell_len(line) > 80] == []
    assert stream.errors == "strict"
