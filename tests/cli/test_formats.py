"""``--format`` and ``--sarif``, and the workflow of examples/ci, whose commands the command line understands."""

import json
import shlex
import subprocess

import log_data
import numpy as np
import pytest
import yaml
from helpers import ROOT

from padiff_shim.cli import app
from padiff_shim.cli.main import main

CI = ROOT / "examples" / "ci"
PAIR = """
import paddle
import torch


class Port(paddle.nn.Layer):
    def forward(self, x, approximate=True):
        return paddle.nn.functional.gelu(x, approximate=approximate)


class Original(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.setenv("PADIFF_SHIM_LANG", "en")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def places(path):
    (run,) = json.loads(path.read_text())["runs"]
    located = [(result["ruleId"], result["level"], result["locations"][0]["physicalLocation"]) for result in run["results"]]
    return [(rule, level, place["artifactLocation"]["uri"], place["region"]["startLine"]) for rule, level, place in located]


@pytest.mark.compat
def test_a_mistake_stands_at_its_line(folder, capsys):
    (folder / "pair.py").write_text(PAIR)
    np.save(folder / "x.npy", np.linspace(-2, 2, 12))
    words = ["prove", "pair.py:Port", "pair.py:Original", "--inputs", "x.npy"]
    assert main([*words, "--format", "github", "--sarif", "proof.sarif", "--markdown", "proof.md"]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("::error file=pair.py,line=8,title=CODE_DIFFERS")
    assert "the original: pair.py:13" in first
    assert last.startswith("::error title=padiff-shim::CODE_DIFFERS: ")
    assert places(folder / "proof.sarif") == [("CODE_DIFFERS: another attribute", "error", "pair.py", 8)]
    assert main([*words, "--format", "markdown"]) == 1
    assert capsys.readouterr().out == (folder / "proof.md").read_text()
    assert main([*words, "--sarif", "-"]) == 1
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "proof.sarif").read_text())


@pytest.mark.compat
def test_a_mistake_in_two_dtypes_stands_there_once(folder, capsys):
    (folder / "pair.py").write_text(PAIR)
    np.save(folder / "x.npy", np.linspace(-2, 2, 12))
    words = ["prove", "pair.py:Port", "pair.py:Original", "--inputs", "x.npy", "--dtype", "float32", "--dtype", "float64"]
    assert main([*words, "--report", "align.md", "--sarif", "proof.sarif"]) == 1
    assert places(folder / "proof.sarif") == [("CODE_DIFFERS: another attribute", "error", "pair.py", 8)]
    assert (folder / "align.md").read_text().count("float32, float64: ") == 1


def test_findings_of_a_comparison_stand_at_their_lines(folder, capsys):
    (folder / "train.py").write_text("pass\n")
    elsewhere = log_data.wrong(1, verdict="LOW_ACCURACY", prob=2.0, site="none.py:3 in f")
    worse = [log_data.wrong(site="train.py:41 in forward"), elsewhere]
    log_data.put(folder / "log", log_data.HEADER, *log_data.lines_of(worse), log_data.END)
    log_data.put(folder / "clean", log_data.HEADER, *log_data.lines_of([log_data.record()]), log_data.END)
    assert main(["log", "log", "--format", "github", "--sarif", "log.sarif"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("::Paddle's linear")[0] for line in lines] == [
        "::error file=train.py,line=41,title=WRONG",
        "::warning title=LOW_ACCURACY",
        "::error title=padiff-shim",
    ]
    assert places(folder / "log.sarif") == [("WRONG", "error", "train.py", 41)]
    assert main(["log", "clean", "--format", "github"]) == 0
    assert capsys.readouterr().out.startswith("::notice title=padiff-shim::")
    assert main(["gate", "clean", "--baseline", "b.jsonl", "--update", "--format", "github"]) == 0
    assert capsys.readouterr().out.startswith("::notice title=padiff-shim::UPDATED: b.jsonl")
    assert main(["gate", "log", "--baseline", "b.jsonl", "--format", "github"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("::error file=train.py,line=41,title=gate%3A WRONG::linear out")
    assert lines[-1].startswith("::error title=padiff-shim::FAILED")


def scripts():
    """What the steps of the workflow run."""
    content = yaml.safe_load((CI / "port.yml").read_text())
    assert content["permissions"]["security-events"] == "write"
    return [step["run"] for job in content["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_workflow_is_understood():
    """Each of its command lines is parsed."""
    lines = [shlex.split(line, comments=True) for script in scripts() for line in script.splitlines()]
    commands = [words[1:] for words in lines if words[0] == "padiff-shim"]
    assert [name for name, *_ in commands] == ["prove", "run", "log", "gate"]
    for name, *words in commands:
        with app.app.get_command(None, name).make_context(name, words):
            pass


def test_the_comment_is_filled(folder):
    """By the workflow's own line."""
    (script,) = [script for script in scripts() if "comment.md" in script]
    (fill,) = [line for line in script.splitlines() if line.startswith("sed")]
    (folder / ".github" / "padiff").mkdir(parents=True)
    (folder / ".github" / "padiff" / "comment.md").write_text((CI / "comment.md").read_text())
    (folder / "proof.md").write_text("**CODE_CORRECT**\n\n| a | b |\n")
    subprocess.run(["sh", "-ec", fill], cwd=folder, check=True)
    template = (CI / "comment.md").read_text()
    assert (folder / "comment.md").read_text() == template.replace("{{proof}}\n", "**CODE_CORRECT**\n\n| a | b |\n")
