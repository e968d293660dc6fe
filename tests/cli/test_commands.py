"""The command line: its commands are found, teach by example, and end with the documented exit status."""

import io
import json
import os
import re
import subprocess
import sys

import click
import forked
import numpy as np
import paddle
import pytest
from click.testing import CliRunner
from helpers import PATIENCE, ROOT

import padiff_shim
from padiff_shim.cli import app, output
from padiff_shim.cli.main import main

pytestmark = pytest.mark.compat


def padiff(*arguments, cwd, check=True, **env):
    """``python -m padiff_shim ...`` in a process of its own."""
    done = forked.run(["-m", "padiff_shim", *arguments], cwd=cwd, warm=True, **{"COLUMNS": "100", **env})
    assert not check or done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done


def test_help_names_every_command_without_a_framework(tmp_path):
    code = "import sys; from padiff_shim.cli.main import main; main(['--help']); print({'paddle', 'torch'} & set(sys.modules))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert all(f"\n  {name} " in done.stdout for name in app.COMMANDS)
    assert done.stdout.endswith("set()\n")
    assert "..." not in done.stdout.partition("Commands:")[2].partition("Examples:")[0], "a short help is cut"


@pytest.mark.parametrize("name", app.COMMANDS)
def test_each_command_has_examples_that_it_understands(name):
    """Its options and arguments are parsed; nothing is carried out."""
    result = CliRunner().invoke(app.app, [name, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert not [line for line in result.output.splitlines() if len(line) > 80]
    lines = result.output.replace("\\\n", " ").splitlines()
    examples = [line.partition("#")[0].partition("|")[0].split() for line in lines if "  padiff-shim " in line]
    assert examples
    for words in examples:
        assert words[:2] == ["padiff-shim", name]
        with app.app.get_command(None, name).make_context(name, words[2:]):
            pass


@pytest.mark.parametrize("name", app.COMMANDS)
def test_each_command_is_explained_in_chinese(name, monkeypatch):
    """The help of the command and of each option, also of those whose help has words in it."""
    monkeypatch.setenv("PADIFF_SHIM_LANG", "zh")
    command = app.app.get_command(None, name)
    with app.translated_help(command):
        texts = [command.help, *(option.help for option in command.params if isinstance(option, click.Option))]
    assert not [text for text in texts if text and not re.search("[\u4e00-\u9fff]", text)]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["recrod"], "Did you mean record"),
        (["compare", "x.py"], "Did you mean run --compare"),
        (["doctor", "--jsn", "x"], "--json"),
        (["prove", "x.py:A", "x.py:B"], ".npy"),
    ],
)
def test_a_usage_error_tells_what_is_meant(words, meant, capsys):
    assert main(words) == 2
    assert meant in capsys.readouterr().err


def test_what_the_library_refuses_is_one_line(tmp_path, capsys):
    assert main(["log", str(tmp_path / "none")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("padiff-shim: ")
    assert message.count("\n") == 1


def test_without_click_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "click", None)
    assert main(["--help"]) == 2
    assert "pip install click" in capsys.readouterr().err


WITHOUT = """
import importlib.abc, sys

class NotThere(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("paddle", "torch"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotThere())
from padiff_shim.cli.main import main
for command in COMMANDS:
    print(command, main(command.split()))
"""


def test_without_frameworks_each_command_says_what_to_install(tmp_path):
    """Of those that need one."""
    (tmp_path / "p.py").write_text("def build(): pass\n")
    np.save(tmp_path / "x.npy", np.ones(2))
    built = "p.py:build p.py:build --inputs x.npy"
    commands = ["doctor", "audit", "bisect p.py:build", "transfer --torch p.py:build --paddle p.py:build", f"prove {built}"]
    code = WITHOUT.replace("COMMANDS", repr(commands))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines() == [f"{command} 2" for command in commands], done.stderr
    assert done.stderr.count("Install it: pip install paddlepaddle==3.3.1 torch==2.13.0") == len(commands)


def test_a_program_without_its_framework_ends_as_it_would(tmp_path):
    (tmp_path / "train.py").write_text("import paddle\n")
    code = WITHOUT.partition("for command")[0] + "import sys\nsys.exit(main(['record', 'folder', 'train.py']))\n"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert "ModuleNotFoundError: No module named 'paddle'" in done.stderr
    assert "pip install paddlepaddle" in done.stderr


def test_an_unknown_op_names_the_nearest(capsys):
    assert main(["audit", "--ops", "layer_nrm"]) == 2
    message = capsys.readouterr().err
    assert "'layer_norm'" in message
    assert "docs/ops.md lists them" in message
    assert len(message) < 200, "not three hundred names"


@pytest.mark.parametrize(
    "words",
    [
        ("prove", "port.py:build", "original.py:build", "--inputs", "x.npy"),
        ("diff", "here", "there"),
        ("log", "log"),
        ("gate", "log", "--baseline", "b.jsonl"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--markdown", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"padiff-shim: {tmp_path} cannot be written: it is a folder\n"


def test_a_baseline_that_cannot_be_written_is_refused_first(log, tmp_path, capsys):
    assert main(["gate", str(log), "--baseline", str(tmp_path), "--update"]) == 2
    assert "the baseline" in capsys.readouterr().err


def test_an_audit_that_cannot_be_kept_is_refused_first(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["audit", "--ops", "expm1", "--folder", str(tmp_path / "file" / "audit")]) == 2
    assert "the folder of the audit" in capsys.readouterr().err


def test_python_m_and_its_version(tmp_path):
    assert padiff("--version", cwd=tmp_path).stdout.startswith("padiff_shim ")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The log of a comparison in which one of two products was made wrong."""
    folder = tmp_path_factory.mktemp("log")
    x = paddle.ones([3, 4])
    fault = padiff_shim.testing.planted("matmul", lambda out, *_: out * 1.01)
    with padiff_shim.compare("torch", log=folder, ops="matmul"):
        x @ x.t()
        with fault:
            x @ x.t()
    return folder


def test_report_shows_the_summary(log, capsys):
    assert main(["log", str(log)]) == 0
    assert "Worst calls" in capsys.readouterr().out


def test_report_writes_files(log, tmp_path, capsys):
    page, notes = tmp_path / "new" / "page.html", tmp_path / "notes.md"
    assert main(["log", str(log), "--html", str(page), "--markdown", str(notes), "--json", "-"]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert notes.read_text() == padiff_shim.load(log).markdown()
    assert json.loads(capsys.readouterr().out)["verdicts"] == padiff_shim.load(log).verdicts


def test_repro_lists_what_was_saved(log, capsys):
    assert main(["log", str(log), "--saved"]) == 0
    assert capsys.readouterr().out.startswith("1: ")


@pytest.mark.parametrize(("columns", "longest"), [("80", 80), ("", None)], ids=["a terminal", "a pipe"])
def test_repro_lists_within_the_width(columns, longest, log, monkeypatch, capsys):
    """In a pipe a call is one line."""
    monkeypatch.setenv("COLUMNS", columns)
    main(["log", str(log), "--saved"])
    lines = capsys.readouterr().out.splitlines()
    assert sum(not line.startswith(" ") for line in lines) == len(padiff_shim.load(log).kept())
    assert (max(map(len, lines)) <= longest) if longest else not any(line.startswith(" ") for line in lines)


@pytest.mark.parametrize("word", ["worst", "first", "1"])
def test_repro_writes_a_script(word, log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["log", str(log), "--repro", word]) == 0
    assert "matmul" in (tmp_path / f"repro-{word}.py").read_text()
    assert f"repro-{word}.py written" in capsys.readouterr().out


@pytest.mark.parametrize(("word", "message"), [("0", "were not saved"), ("9", "below 2, "), ("wurst", "'worst' or 'first'")])
def test_repro_refuses_what_there_is_not(word, message, log, capsys):
    assert main(["log", str(log), "--repro", word]) == 2
    assert message in capsys.readouterr().err


def test_repro_of_a_clean_run_has_nothing_to_show(tmp_path, capsys):
    with padiff_shim.compare("torch", log=tmp_path):
        paddle.ones([3]).sum()
    assert main(["log", str(tmp_path), "--saved"]) == 1
    assert "no operands were saved" in capsys.readouterr().err


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Folders of two runs of one line that differ in a number."""
    folders = [tmp_path_factory.mktemp(name) / "run" for name in ("a", "b")]
    for folder, number in zip(folders, (2.0, 3.0)):
        with padiff_shim.record(folder):
            paddle.ones([3]) * number
    return list(map(str, folders))


def test_diff_says_where_two_recordings_part(recordings, tmp_path, capsys):
    first, second = recordings
    assert main(["diff", first, first]) == 0
    assert "SAME" in capsys.readouterr().out
    notes = tmp_path / "notes.md"
    assert main(["diff", first, second, "--markdown", str(notes), "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out) == padiff_shim.diff(first, second).to_dict()
    assert notes.read_text() == padiff_shim.diff(first, second).markdown()
    assert main(["diff", first, second, "--html", str(tmp_path / "page.html")]) == 1
    assert capsys.readouterr().out.strip() == padiff_shim.diff(first, second).answer
    assert main(["diff", first, second, "--atol", "1", "--ranks", "0,0"]) == 0


@pytest.mark.parametrize(("arguments", "message"), [(["--ranks", "x"], "--ranks takes"), (["--atol", "-1"], "atol=")])
def test_diff_refuses_what_it_cannot_take(arguments, message, recordings, capsys):
    assert main(["diff", *recordings, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_diff_needs_two_recordings(recordings, tmp_path, capsys):
    assert main(["diff", recordings[0], str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["run", "--help"]], ids=" ".join)
def test_a_full_standard_output_is_told_in_one_line(arguments):
    command = [sys.executable, "-m", "padiff_shim", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert done.stderr == "padiff-shim: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)],
    ids=str,
)
def test_colours_are_those_of_the_terminal(variables, coloured, monkeypatch):
    for name, value in {"TERM": "xterm", "NO_COLOR": "", **variables}.items():
        monkeypatch.setenv(name, value)

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert output.look(Terminal()) == {"width": 80, "colour": coloured}
    assert output.look(io.StringIO()) == {"width": None, "colour": False}
