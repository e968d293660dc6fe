"""Results in Chinese hold no English but names: what is not translated is seen here."""

import io
import re
import sys
from collections import Counter

import numpy as np
import paddle
import pytest
import torch
from rich.cells import cell_len

import padiff_shim
from padiff_shim.cli.main import main
from padiff_shim.dispatch.call_site import CallSite
from padiff_shim.errors import PadiffShimError
from padiff_shim.proof.agreement import first_difference
from padiff_shim.questions.bisect import Bisection, Unit
from padiff_shim.questions.doctor import examine
from padiff_shim.text import reader
from padiff_shim.weights.files import read_file

# Of things that have one name in every language: frameworks, verdicts, ops, layers, operands, dtypes, devices, packages.
_NAMES = """
dropout paddle torch Paddle Torch Tensor numpy python cpu linear out grad gelu drift report True False None layer
norm mean softmax bias weight scale LayerNorm Linear GELU WRONG ROUNDING EQUAL NaN ULP atol rtol dtype float step
emb head MiB ulp shape RIGHT multiply forward CODE CORRECT DIFFERS DIFFERENT SAME eps epsilon write native pytest
AdamW Markdown approximate tanh none main Linux axis dim size adamw embedding Embedding loss token div mul return
generate
rank cores paddlepaddle output prove argument add exp PASSED FAILED GOOD HARM cuda
"""
NAMES = frozenset(re.findall(r"\w+", _NAMES))
CODE = re.compile(r"\S+\.py(:\d+)?( 的 [\w<>]+)?|/\S+|\S*[_=.()\[\]{}<>#]\S*|\b\w*\d\w*\b")


PORT, ORIGINAL, X = paddle.nn.LayerNorm(8), torch.nn.LayerNorm(8), np.eye(8)


def english(text, known=""):
    """Lines with English words that are not in ``known`` (of the machine), and these words."""
    for line in text.splitlines():
        words = set(re.findall(r"[A-Za-z]{3,}", CODE.sub(" ", line))) - NAMES - set(re.findall(r"\w+", known))
        if words and not line.startswith("命令："):
            yield line.strip(), sorted(words)


ERRORS = {
    "order": lambda _: padiff_shim.prove(ORIGINAL, PORT, X),
    "phase": lambda _: padiff_shim.prove(PORT, ORIGINAL, X, phase="step"),
    "optimizer": lambda _: padiff_shim.prove(PORT, ORIGINAL, X, optimizer="AdamW"),
    "word": lambda _: padiff_shim.compare("torch", on_mismatch="stop"),
    "backend": lambda _: padiff_shim.reference("jax"),
    "op": lambda _: padiff_shim.reference("torch", ops=["softmaxx"]).__enter__(),
    "nothing": lambda _: padiff_shim.reference("torch", ops=[]).__enter__(),
    "layers": lambda _: padiff_shim.compare("torch", layers=3),
    "inputs": lambda _: padiff_shim.prove(PORT, ORIGINAL, object()),
    "tolerance": lambda folder: padiff_shim.diff(folder, folder, atol=-1),
    "folder": lambda folder: padiff_shim.diff(folder / "a", folder / "b"),
    "recording": lambda folder: padiff_shim.diff(folder, folder),
    "log": lambda folder: padiff_shim.load(folder),
    "record": lambda folder: padiff_shim.record(folder, every=0),
    "weights": lambda _: padiff_shim.transfer_weights(ORIGINAL, torch.nn.Linear(2, 2)),
    "rules": lambda _: padiff_shim.transfer_weights(ORIGINAL, PORT, rules=[("norm.*", 3)]),
    "file": lambda folder: read_file(_damaged(folder / "weights.pdparams")),
    "bisect": lambda _: padiff_shim.bisect(3, target=1.0),
    "drift": lambda _: padiff_shim.prove(ORIGINAL, PORT, X, phase="forward").drift(),
    "plan": lambda _: padiff_shim.compare("torch", budget="much"),
}


# Small words, without which there is no English sentence.
PROSE = re.compile(
    r"\b(?:the|of|is|are|was|an|and|not|no|got|it|from|for|that|which|cannot|has|with|unknown|accepted)\b", re.IGNORECASE
)


def _damaged(path):
    path.write_bytes(b"no pickle")
    return path


@pytest.mark.parametrize("name", ERRORS)
def test_errors_hold_no_english(name, tmp_path):
    with pytest.raises(PadiffShimError) as raised:
        ERRORS[name](tmp_path)
    with reader("zh"):
        text = (
            str(raised.value.args[0]).partition("：ValueError")[0].replace(str(tmp_path), "")
        )  # behind it stands what Python says
    assert re.search("[\u4e00-\u9fff]", text)
    assert not PROSE.findall(text), text


def test_names_of_inputs_settings_and_lines_are_chinese_too():
    """In the gradients of a drift, in a report and its settings, in doctor's, and at the lines of a bisection."""
    proof = padiff_shim.prove(PORT, ORIGINAL, X.astype("float32"))
    with reader("zh"):
        texts = [str(proof.drift()), str(proof.report()), str(examine())]
        for text in texts:
            assert not re.search(r"\b(input|system|device)\b", text)
        row = ("input 0", np.ones(2), np.zeros(2))
        for of_gradients in (False, True):
            assert re.match(r"输入 0( 的梯度)?：", str(first_difference([row], of_gradients=of_gradients)))
        place = "layer", "relu", CallSite("port.py", 5, "f")
        for unit in (Unit("relu", "layer", 0, Counter([place])), Unit("", "layer", 0, Counter([place]))):
            text = str(Bisection("calls", "paddle", [unit], 3))
            assert "port.py:5 的 f" in text
            assert " in " not in text


LINES = {
    "prove --inputs 2x4": "要么给出 PADDLE 和 TORCH",
    "prove a.py:x b.py:y": "缺少选项 '--inputs'",
    "prove --nope a b": "没有选项 '--nope'",
    "proof": "没有命令 'proof'",
    "gate x --margin much": "'--margin' 的值无效",
    "diff a b c": "多余的参数（c）",
    "record --lang zh --every 0 x y.py": "'--every' 的值无效",
    "log nowhere --saved": "不存在",
    "audit --ops softmaxx": "'softmax'",
    "prove nowhere.py:x nowhere.py:y --inputs z.npy": "文件 nowhere.py 不存在",
}


@pytest.mark.parametrize("line", LINES)
def test_command_lines_are_refused_in_chinese(line, monkeypatch, capsys):
    monkeypatch.setenv("PADIFF_SHIM_LANG", "en")  # --lang stands above it, and is taken back after the test
    assert main([*line.split(), *(() if line.startswith("run") else ("--lang", "zh"))]) == 2
    errors = capsys.readouterr().err
    assert LINES[line] in errors
    assert "Usage" not in errors
    assert not PROSE.findall(errors), errors


def test_every_help_has_chinese_headings(monkeypatch, capsys):
    from padiff_shim.cli.app import COMMANDS

    monkeypatch.setenv("PADIFF_SHIM_LANG", "zh")
    monkeypatch.setenv("COLUMNS", "80")
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        written = capsys.readouterr().out
        assert written.startswith("用法: padiff-shim")
        assert max(map(cell_len, written.splitlines())) <= 80
        assert not re.search("Usage|Options|default|required", re.sub(r"\w+\.\w+|--\S+", "", written)), written


@pytest.mark.parametrize("encoding", ["gbk", "latin-1", "ascii"])
def test_no_encoding_of_the_output_breaks_a_command_in_chinese(encoding, monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_LANG", "zh")
    for line, status, words in (("audit --ops softmaxx", 2, ""), ("prove --help", 0, "用法")):
        written = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
        assert main(line.split()) == status
        sys.stdout.flush()
        if encoding == "gbk":
            assert words in written.getvalue().decode("gbk")
