"""``padiff-shim prove`` and ``doctor``: as a new user would try them."""

import io
import json
import sys

import numpy as np
import pytest

from padiff_shim.cli.main import main
from padiff_shim.cli.program import called, load
from padiff_shim.errors import ArgumentError, FileError

pytestmark = pytest.mark.compat

PORT = """
import paddle
from parts import WIDTH


class Port(paddle.nn.Layer):
    def __init__(self, approximate={approximate}):
        super().__init__()
        self.up, self.down = paddle.nn.Linear(4, WIDTH), paddle.nn.Linear(WIDTH, 4)
        self.approximate = approximate

    def forward(self, x):
        return x + self.down(paddle.nn.functional.gelu(self.up(x), approximate=self.approximate))
"""
ORIGINAL = """
import numpy as np
import torch
from parts import WIDTH


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, WIDTH), torch.nn.Linear(WIDTH, 4)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


model = Original()
values = np.linspace(-1, 1, 12).reshape(3, 4)


def batch():
    return values


def per_framework(name):
    return {"x": values if name in ("paddle", "torch") else None}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A port and an original in folders of their own, each with a module ``parts`` beside it, and inputs."""
    for folder, name, text in (("ours", "model.py", PORT.format(approximate=False)), ("theirs", "model.py", ORIGINAL)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
        (tmp_path / folder / "parts.py").write_text(f"WIDTH = 6\nWHOSE = {folder!r}\n")
    (tmp_path / "ours" / "wrong.py").write_text(PORT.format(approximate=True))
    values = np.linspace(-1, 1, 12).reshape(3, 4)
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "named.npz", x=values)
    np.savez(tmp_path / "placed.npz", values)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path[:])  # the command adds the folders of what it loads
    return tmp_path


INPUTS = ["x.npy", "named.npz", "placed.npz", "theirs/model.py:batch", "theirs/model.py:values", "theirs/model.py:per_framework"]


@pytest.mark.parametrize("inputs", INPUTS)
def test_a_right_port_is_proven(inputs, files, capsys):
    assert main(["prove", "ours/model.py:Port", "theirs/model.py:Original", "--inputs", inputs]) == 0
    assert capsys.readouterr().out.startswith("CODE_CORRECT")


def test_a_wrong_port_is_told_and_written_down(files, capsys):
    written = ["--html", "a/proof.html", "--markdown", "proof.md", "--json", "proof.json"]
    assert main(["prove", "ours/wrong.py:Port", "theirs/model.py:model", "--inputs", "x.npy", *written]) == 1
    output = capsys.readouterr().out
    assert output.startswith("CODE_DIFFERS: another attribute: approximate=True against False (write approximate=False)")
    assert "wrong.py:13" in output.splitlines()[0]
    assert json.loads((files / "proof.json").read_text())["right"] is False
    assert "approximate" in (files / "proof.md").read_text()
    assert "approximate" in (files / "a" / "proof.html").read_text()
    assert main(["prove", "ours/wrong.py:Port", "theirs/model.py:model", "--inputs", "x.npy", "--markdown", "-"]) == 1
    assert capsys.readouterr().out.partition("\n")[0] == (files / "proof.md").read_text().partition("\n")[0]
    assert not (files / "-").exists()


def test_rules_are_loaded(files, capsys):
    """A list as ``rules=`` takes it: here one that is right, and one that gives the port another weight."""
    rules = "right = [('up.weight', lambda value: value.t())]\nwrong = [('up.weight', lambda value: value.t() * 2)]\n"
    (files / "layouts.py").write_text(rules)
    command = ["prove", "ours/model.py:Port", "theirs/model.py:Original", "--inputs", "x.npy", "--phase", "forward", "--rules"]
    assert main([*command, "layouts.py:right"]) == 0
    assert main([*command, "layouts.py:wrong"]) == 1
    assert "up.weight" in capsys.readouterr().out


def test_each_file_has_the_modules_beside_it(files):
    assert load("ours/parts.py:WHOSE", "X") == "ours"
    assert load("theirs/parts.py:WHOSE", "X") == "theirs"
    ours, theirs = load("ours/model.py:Port", "X"), load("theirs/model.py:Original", "X")
    assert ours.__module__ != theirs.__module__


def test_siblings_of_one_name_are_imported_by_their_own_side(files):
    """A sibling that has the other file's name, one that only a constructor imports, and one of both kinds for inputs."""
    (files / "theirs" / "sizes.py").write_text("WHOSE = 'theirs'\n")
    (files / "theirs" / "late.py").write_text("def made():\n    from sizes import WHOSE\n    return WHOSE\n")
    (files / "ours" / "sizes.py").write_text("WHOSE = 'ours'\n")
    (files / "ours" / "run.py").write_text("from late import made\nfrom model import Port\n")
    (files / "ours" / "late.py").write_text("def made():\n    from sizes import WHOSE\n    return WHOSE\n")
    load("theirs/model.py:Original", "X")
    words = ["theirs/late.py:made", "ours/run.py:made", "theirs/late.py:made"]
    assert [called(load(word, "X"), word) for word in words] == ["theirs", "ours", "theirs"]
    assert load("ours/run.py:Port", "X").__name__ == "Port"


def test_files_of_packages_of_one_name_import_from_their_own(files):
    for folder in ("ours", "theirs"):
        (files / folder / "nets").mkdir()
        (files / folder / "nets" / "__init__.py").write_text("from .port import made\n")
        (files / folder / "nets" / "port.py").write_text("def made():\n    from .sizes import WHOSE\n    return WHOSE\n")
        (files / folder / "nets" / "sizes.py").write_text(f"WHOSE = {folder!r}\n")
    words = ["ours/nets/port.py:made", "theirs/nets/port.py:made", "ours/nets/__init__.py:made"]
    assert [called(load(word, "X"), word) for word in words] == ["ours", "theirs", "ours"]


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("model.py", ArgumentError, r"PADDLE is file.py:name or package.module:name, got 'model.py'"),
        ("none.py:build", FileError, "none.py does not exist"),
        ("ours/model.py:Prot", ArgumentError, "Did you mean 'Port'"),
    ],
)
def test_what_cannot_be_loaded_is_told(word, error, message, files):
    with pytest.raises(error, match=message):
        load(word, "PADDLE")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--inputs", "none.npy"], "the file of --inputs none.npy cannot be read"),
        (["--inputs", "x.npy", "--weights", "none"], "unknown weights 'none'"),
        (["--inputs", "x.npy", "--layer-map", "a"], "TORCH=PADDLE, got 'a'"),
        ([], "--inputs"),
    ],
)
def test_what_cannot_be_proven_is_a_usage_error(options, message, files, capsys):
    assert main(["prove", "ours/model.py:Port", "theirs/model.py:Original", *options]) == 2
    assert message in capsys.readouterr().err


def test_pickles_are_not_loaded(files, capsys):
    np.save(files / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert main(["prove", "ours/model.py:Port", "theirs/model.py:Original", "--inputs", "objects.npy"]) == 2
    assert "allow_pickle" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ doctor


def test_doctor_says_how_it_stands(capsys):
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    assert "✓ Paddle -> Torch: the same memory" in output
    assert "torch.num_threads" in output


def test_doctor_as_data(capsys):
    assert main(["doctor", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["right"] is True


def test_doctor_fails_in_ci_where_something_is_wrong(monkeypatch, capsys):
    from padiff_shim.frameworks import memory, settings

    monkeypatch.setattr(settings, "concerns", lambda switches: ["a switch"])
    assert main(["doctor"]) == 0
    assert main(["doctor", "--strict"]) == 1
    monkeypatch.setattr(memory, "to_torch", lambda tensor: 1 / 0)
    assert main(["doctor"]) == 1
    assert "✗ Paddle -> Torch: ZeroDivisionError" in capsys.readouterr().out


def test_a_training_is_proven(files, capsys):
    words = ["prove", "ours/model.py:Port", "theirs/model.py:Original", "--inputs", "x.npy"]
    assert main([*words, "--train", "AdamW", "--steps", "2", "--dtype", "float64"]) == 0
    assert "2 steps" in capsys.readouterr().out
    assert main([*words, "--bits", "--steps", "2"]) == 2
    assert "belong to phase='train'" in capsys.readouterr().err
    assert main([*words, "--bits", "--train", "AdamW", "--steps", "2"]) == 0
    assert "updates" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["gbk", "latin-1", "ascii"])
def test_no_encoding_ends_a_command(encoding, files, monkeypatch):
    """A sign that the encoding lacks ended a proof with 1, which says that the port is wrong."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    words = ["prove", "ours/model.py:Port", "theirs/model.py:Original", "--inputs", "x.npy", "--phase", "forward"]
    assert main(words) == main([*words, "--format", "markdown"]) == main([*words, "--markdown", "-"]) == 0
    stream.flush()
    text = stream.buffer.getvalue().decode(encoding)
    assert "+ forward" in text
    assert (" │ " if encoding == "gbk" else " | ") in text
    assert "\\u" not in text
    assert stream.errors == "strict"


def test_an_error_of_the_users_is_no_answer(files, capsys):
    """Exit status 1 would say that the port is wrong."""
    (files / "raises.py").write_text("1 / 0\n")
    (files / "empty.npy").write_bytes(b"")
    assert main(["prove", "raises.py:Port", "theirs/model.py:Original", "--inputs", "x.npy"]) == 2
    shown = capsys.readouterr().err
    assert "raises.py" in shown
    assert "ZeroDivisionError" in shown
    assert "padiff_shim/cli" not in shown
    assert main(["prove", "ours/model.py:Port", "theirs/model.py:Original", "--inputs", "empty.npy"]) == 2
    assert "empty.npy" in capsys.readouterr().err


def test_a_seed_makes_the_models_first_weights_too(files, capsys):
    """Without it no number of an answer could be had again."""
    (files / "theirs" / "plain.py").write_text(ORIGINAL.replace("model = Original()\n", ""))
    command = ["prove", "ours/wrong.py:Port", "theirs/plain.py:Original", "--inputs", "x.npy", "--phase", "forward", "--seed"]
    texts = []
    for seed in "334":
        assert main([*command, seed]) == 1
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


def test_an_error_of_the_original_has_no_frames_of_ours(files, capsys):
    broken = ORIGINAL.replace("self.up(x)", "self.up(x.reshape(-1, 5))")
    (files / "theirs" / "broken.py").write_text(broken)
    assert main(["prove", "ours/model.py:Port", "theirs/broken.py:Original", "--inputs", "x.npy"]) == 2
    error = capsys.readouterr().err
    assert "broken.py:" in error.splitlines()[0]
    assert "padiff_shim/" not in error
    assert "click/" not in error
