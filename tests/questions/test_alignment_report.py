"""The alignment report: what it compares, what it says was not compared, and a conclusion that says no more than that."""

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import paddle
import pytest
import torch
from helpers import classes

import padiff_shim
from padiff_shim import AlignmentVerdict, ArgumentError
from padiff_shim.cli.main import main
from padiff_shim.recording.provenance import origin

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
WORDS, D = 12, 8
TOKENS = np.random.default_rng(0).integers(0, WORDS, (2, 5))
TARGETS = TOKENS[:, 1:].reshape(-1)
DTYPES = ("float32", "bfloat16")
LOSSES = (
    lambda out: paddle.nn.functional.cross_entropy(out[:, :-1].flatten(0, 1), paddle.to_tensor(TARGETS)),
    lambda out: torch.nn.functional.cross_entropy(out[:, :-1].flatten(0, 1), torch.from_numpy(TARGETS)),
)


def original_block(self, x):
    return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class OriginalModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = torch.nn.Embedding(WORDS, D), torch.nn.Linear(D, WORDS)
        self.blocks = torch.nn.ModuleList(OriginalBlock() for _ in range(2))

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def generate(self, tokens, max_new_tokens, **_):
        for _ in range(max_new_tokens):
            tokens = torch.cat([tokens, self(tokens)[:, -1:].argmax(-1)], 1)
        return tokens


def port_block(self, x):
    return x + self.down(paddle.nn.functional.gelu(self.up(self.norm(x)), approximate=self.approximate))


PortBlock, OriginalBlock = classes(
    port_block, original_block, norm=("LayerNorm", D), up=("Linear", D, 2 * D), down=("Linear", 2 * D, D)
)


class PortModel(paddle.nn.Layer):
    def __init__(self, approximate=False, *, last=True):
        super().__init__()
        self.last = last
        self.words, self.head = paddle.nn.Embedding(WORDS, D), paddle.nn.Linear(D, WORDS)
        self.blocks = paddle.nn.LayerList(PortBlock(approximate=approximate) for _ in range(2))

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def generate(self, tokens, max_new_tokens, **_):
        begun = tokens.shape[1]
        for _ in range(max_new_tokens):
            logits = self(tokens)[:, -1:] if self.last else self(tokens)[:, :1]
            tokens = paddle.concat([tokens, logits.argmax(-1)], 1)
        return tokens[:, begun:], None


@pytest.mark.bitexact
def test_a_right_port(tmp_path):
    alignment = padiff_shim.prove(
        PortModel(), OriginalModel(), TOKENS, loss=LOSSES, phase="train", optimizer="AdamW", steps=3
    ).report(dtypes=["bfloat16"], tokens=4)
    assert alignment.verdict is AlignmentVerdict.RIGHT
    assert "float32, bfloat16 (3 training steps)" in alignment.headline
    assert not alignment.unchecked
    first, half = alignment.dtypes
    names = ["words", "blocks.0", "blocks.1", "head", "output"]
    for aligned in (first, half):
        assert [row.name for row in aligned.forward][:5] == names
        assert [row.name for row in aligned.parts] == ["blocks.0.norm", "blocks.0.up", "blocks.0.down"]
        assert len(aligned.gradients) == 15
        assert aligned.losses["torch"] == aligned.losses["substituted"] == aligned.proof.training[0].shim_loss
        assert all(row.substituted.identical for row in aligned.rows)
        assert all(row.float64.max_abs < 1e-14 for row in aligned.rows if row not in aligned.states)
        assert [(row.kernels, row.same, row.first) for row in aligned.generated if row.kernels == "substituted"] == [
            ("substituted", 8, None)
        ]
        assert [row.loss for row in aligned.proof.training] == [row.shim_loss for row in aligned.proof.training]
        assert len({name for name, *_ in aligned.hashes}) == len(aligned.hashes) > 5
        assert all(len(original) == 32 and original == kernels for _, original, kernels, _ in aligned.hashes)
        assert "loss" in {name for name, *_ in aligned.hashes}
        assert {row.paddle.rpartition(" ")[2] for row in aligned.states} == {"moment1", "moment2"}
        assert len(aligned.states) == 30
        assert all(row.substituted.identical for row in aligned.states)
    natively = [row for row in first.forward if row.native.max_abs]
    assert all(0 < row.native.relative_mean < 1e-5 for row in natively)
    text, page = (alignment.save(tmp_path / f"align.{suffix}") for suffix in ("md", "html"))
    assert text.read_text()
    assert "<polyline" in page.read_text()
    assert json.loads(json.dumps(alignment.to_dict()))["right"] is True


def test_a_wrong_port_is_wrong_at_its_line_in_all_dtypes_once():
    alignment = padiff_shim.prove(PortModel(approximate=True), OriginalModel(), TOKENS, loss=LOSSES).report(
        dtypes=["bfloat16"], tokens=0
    )
    assert alignment.verdict is AlignmentVerdict.WRONG
    assert "test_alignment_report.py:" in alignment.answer
    assert "approximate" in alignment.answer
    findings = next(part for part in alignment.document().parts if hasattr(part, "findings")).findings
    assert [finding.text.partition(":")[0] for finding in findings] == ["float32, bfloat16"]
    assert set(alignment.unchecked) == {"training", "generation"}


def test_what_cannot_be_compared_is_named():
    port, original = paddle.nn.Linear(D, D), torch.nn.Linear(D, D)
    alignment = padiff_shim.prove(port, original, np.eye(D), phase="train", optimizer="AdamW", steps=2).report()
    assert {what: "=" in why for what, why in alignment.unchecked.items()} == {"loss": True, "generation": True}
    unequal = padiff_shim.prove(port, original, np.eye(D), weights="as-is", phase="train", optimizer="AdamW", steps=10).report()
    assert unequal.verdict is AlignmentVerdict.NOT_KNOWN
    assert set(unequal.unchecked) == {"anything"}
    assert "not compared: anything" in str(unequal)


@pytest.mark.bitexact
def test_tokens_that_differ_behind_equal_bits_are_no_right_port():
    alignment = padiff_shim.prove(PortModel(last=False), OriginalModel(), TOKENS).report(tokens=6)
    assert alignment.dtypes[0].proof.verdict
    assert alignment.verdict is AlignmentVerdict.NOT_KNOWN
    assert "token" in alignment.answer


def test_a_generation_that_fails_is_not_compared():
    def fails(*_):
        raise RuntimeError("no cache")

    alignment = padiff_shim.prove(PortModel(), OriginalModel(), TOKENS).report(
        generate=(fails, lambda model, arguments, tokens: TOKENS)
    )
    assert "RuntimeError: no cache" in alignment.unchecked["generation"]


def test_the_report_of_a_large_model_fits_into_a_pull_request():
    alignment = padiff_shim.prove(
        PortModel(), OriginalModel(), TOKENS, loss=LOSSES, phase="train", optimizer="AdamW", steps=2
    ).report(dtypes=["bfloat16"], tokens=0)
    for aligned in alignment.dtypes:
        gradients = [replace(row, paddle=f"{row.paddle} {n}") for n in range(40) for row in aligned.gradients]
        aligned.rows = [row for row in aligned.rows if not row.of_gradient] + gradients
        aligned.proof.training = aligned.proof.training * 200
    markdown, page = alignment.markdown(), alignment.html()
    assert len(markdown) < 65_536
    assert "560 more" in markdown
    assert page.count("blocks.1.down.weight 39") == 2


@pytest.mark.bitexact
def test_a_proof_reports_itself():
    proof = padiff_shim.prove(PortModel(), OriginalModel(), TOKENS, loss=LOSSES, phase="train", optimizer="SGD", steps=2)
    report = proof.report(tokens=3)
    assert report.verdict is AlignmentVerdict.RIGHT
    assert [aligned.dtype for aligned in report.dtypes] == ["float32"]
    assert [row.step for row in report.dtypes[0].proof.training] == [0, 1]
    assert not report.unchecked


@pytest.mark.bitexact
def test_a_dtype_in_which_nothing_runs_is_not_known():
    class Port(paddle.nn.Linear):
        def forward(self, x):
            return super().forward(paddle.linalg.qr(x)[1])

    class Original(torch.nn.Linear):
        def forward(self, x):
            return super().forward(torch.linalg.qr(x)[1])

    alignment = padiff_shim.prove(Port(D, D), Original(D, D), np.eye(D) + 1).report(dtypes=["bfloat16"])
    assert alignment.dtypes[0].proof.verdict
    assert alignment.verdict is AlignmentVerdict.NOT_KNOWN
    assert "anything in bfloat16" in alignment.unchecked
    with pytest.raises(Exception, match=r"(?i)bfloat16|not implemented"):
        padiff_shim.prove(Port(D, D), Original(D, D), np.eye(D) + 1, dtype="bfloat16").report()


def test_arguments_are_checked():
    proof = padiff_shim.prove(PortModel(), OriginalModel(), TOKENS, phase="forward")
    with pytest.raises(ArgumentError, match="dtypes="):
        proof.report(dtypes="float32")
    with pytest.raises(ArgumentError, match="float31"):
        proof.report(dtypes=["float31"])
    with pytest.raises(ArgumentError, match="generate="):
        proof.report(generate=print)


def test_the_commit_of_a_model(tmp_path, monkeypatch):
    (tmp_path / "committed_port.py").write_text("import torch\n\n\nclass Committed(torch.nn.Module):\n    pass\n")

    def git(*words):
        subprocess.run(
            ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True
        )

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "port")
    monkeypatch.syspath_prepend(tmp_path)
    import committed_port  # type: ignore[import-not-found]

    model = committed_port.Committed()
    assert origin(model).startswith("Committed in ")
    assert not origin(model).endswith("changes")
    (tmp_path / "committed_port.py").write_text("# changed\n")
    assert origin(model).endswith(" with uncommitted changes")
    del sys.modules["committed_port"]


PAIR = """
import numpy as np
import paddle
import torch

original = torch.nn.LayerNorm(4)


def port():
    return paddle.nn.LayerNorm(4, epsilon={epsilon})


def batch():
    return np.arange(8.0).reshape(2, 4)
"""


@pytest.mark.bitexact
def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path[:])
    (tmp_path / "right_pair.py").write_text(PAIR.format(epsilon=1e-5))
    (tmp_path / "wrong_pair.py").write_text(PAIR.format(epsilon=1e-3))

    def run(name, *words):
        models = [f"{name}.py:port", f"{name}.py:original", "--inputs", f"{name}.py:batch"]
        return main(["prove", *models, "--train", "AdamW", *words])

    assert run("right_pair", "--report", "align.md", "--dtype", "float32", "--dtype", "bfloat16") == 0
    assert capsys.readouterr().out.startswith("CODE_CORRECT: ")
    assert (tmp_path / "align.html").exists()
    assert "RIGHT: " in (tmp_path / "align.md").read_text()
    assert run("wrong_pair", "--report", "-") == 1
    assert capsys.readouterr().out.startswith("**WRONG: ")


def test_a_proof_that_leaves_something_open_says_so():
    alignment = padiff_shim.prove(PortModel(approximate=True), OriginalModel(), TOKENS).report(tokens=0)
    assert "not known" not in alignment.answer
    alignment.dtypes[0].proof.complete = False
    assert alignment.answer.startswith(f"WRONG: {alignment.dtypes[0].proof.reason}; ")
    assert alignment.answer.endswith("not known")


def test_command_configuration_weights_and_batches_are_posted(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    port, original = PortModel(), OriginalModel()
    original.config = {"hidden_size": D, "layers": 2}
    original.name_or_path = str(tmp_path)

    def batches(framework, step):
        return (TOKENS + step) % WORDS

    options = {"loss": LOSSES, "phase": "train", "optimizer": "SGD", "steps": 2}
    report = padiff_shim.prove(port, original, batches, **options).report(tokens=0)
    rows = report.environment
    assert "python" in rows["command"]
    assert json.loads(rows["configuration of OriginalModel"])["hidden_size"] == D
    assert hashlib.sha256(b"weights").hexdigest() in rows["weights"]
    assert rows["inputs"].endswith("each step")
    random = padiff_shim.prove(port, original, TOKENS, weights="random").report(tokens=0)
    assert random.environment["weights"] == "random, seed 0"
    for value in (hashlib.sha256(b"weights").hexdigest(), report.dtypes[0].hashes[0][1]):
        assert value in report.html().replace("<wbr>", "")


def test_a_gradient_that_alone_differs_is_wrong_and_says_what_is_equal():
    class Detached(PortBlock):
        def forward(self, x):
            return x + self.down(paddle.nn.functional.gelu(self.up(self.norm(x.detach()))))

    port = PortModel()
    port.blocks = paddle.nn.LayerList(Detached() for _ in range(2))
    report = padiff_shim.prove(port, OriginalModel(), TOKENS, loss=LOSSES).report(tokens=2)
    assert report.verdict is AlignmentVerdict.WRONG
    assert re.search("gradients alone.*forward, loss, generation", report.answer)
    wrong = padiff_shim.prove(PortModel(approximate=True), OriginalModel(), TOKENS, loss=LOSSES).report(tokens=0)
    assert "alone" not in wrong.answer
