"""Every option and argument of every command, with values that nobody means: a sentence and a documented exit status, no traceback.

The options are those that click declares, so that a new one is tried as well.
"""

import contextlib
import io
import os
import subprocess
import sys

import click
import forked
import numpy as np
import paddle
import pytest
from helpers import EVERY, PATIENCE, ROOT, thinned

import padiff_shim
from padiff_shim.cli import app, output
from padiff_shim.cli.main import main

PAIR = """
import numpy as np
import paddle
import torch

batch = np.ones((2, 3), "float32")
rules = []


def port(width=3):
    return paddle.nn.Linear(width, 2)


def original(width=3):
    return torch.nn.Linear(width, 2)
"""
# fmt: off
NUMBERS = ["-1", "nan", "-inf", "1e400", "1.5", "5:2:0", "900%", "²", "", str(10**30), "9" * 5000, "\udcff"]
WORDS = [
    "-1", "²", "5:2:0", "900%", "=", "x=y=z", ":", "a:b", "..:x", "é", "**", "[", "{0}", ",", "--", "pair.py:", "pair.py:missing",
    "binary.py:x", "latin.py:x", "", " ", "9" * 5000, "\udcff\udcfe", "a" * 999 + ".py:x",
]
FILES = [
    "", "/", "folder", "folder.json", "missing/file", "a/" * 3000, "a" * 9999, "/dev/null/x", "\udcff.json", "binary.json",
    "binary.npy", "binary.pt", "binary.pdparams", "binary.toml", "utf16.json", "empty.npz", "empty.toml", "empty.pdparams",
]
# fmt: on
ENDINGS = ("json", "toml", "npy", "npz", "pt", "pdparams")
PROVEN = ["pair.py:port", "pair.py:original", "--inputs", "pair.py:batch", "--phase", "forward"]
BASES = {
    "doctor": [],
    "run": ["nothing.py"],
    "prove": PROVEN,
    "transfer": ["--torch", "pair.py:original", "--paddle", "pair.py:port"],
    "bisect": ["nothing.py"],
    "log": ["log"],
    "record": ["recording", "nothing.py"],
    "diff": ["here", "there"],
    "audit": ["--ops", "pow"],
    "gate": ["log", "--baseline", "base.json"],
}
MODES = {name: "--reference" if "reference" in getattr(parameter, "section", "") else "--compare"
         for parameter in app.app.get_command(None, "run").params for name in [parameter.name]}  # fmt: skip
PROGRAMS = [(name, part) for name in ("run", "record") for part in ("program_name", "arguments")]  # whose errors are Python's
SLOW = ("audit", "bisect", "prove", "record", "run")
TAKEN = [
    pytest.param(
        name,
        parameter,
        id=f"{name} {parameter.name}",
        marks=pytest.mark.slow if name in ("audit", "record", "run") else (),
    )
    for name in app.COMMANDS
    for parameter in app.app.get_command(None, name).params
    if not getattr(parameter, "is_flag", False)
    and parameter.name not in ("program_name", "arguments", "program")  # Python's errors
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(folder):
    """The files that a command may read, as they were: another value may have named one of them as its output."""
    (folder / "pair.py").write_text(PAIR)
    (folder / "nothing.py").write_text("")
    for ending in (*ENDINGS, "py"):
        (folder / f"binary.{ending}").write_bytes(np.random.default_rng(0).integers(0, 256, 300, "uint8").tobytes())
        (folder / f"empty.{ending}").write_bytes(b"")
        (folder / f"utf16.{ending}").write_bytes('{"é": 1}'.encode("utf-16"))
    (folder / "latin.py").write_bytes('x = "é"'.encode("latin-1"))
    for name in ("folder", "folder.json"):
        (folder / name).mkdir(exist_ok=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A log, two recordings and a baseline."""
    folder = tmp_path_factory.mktemp("runs")
    layer, x = paddle.nn.Linear(3, 2), paddle.ones([2, 3])
    with padiff_shim.compare("torch", log=str(folder / "log"), progress=False):
        layer(x).sum().backward()
    for name in ("here", "there"):
        with padiff_shim.record(str(folder / name)):
            layer(x)
    assert main(["gate", str(folder / "log"), "--baseline", str(folder / "base.json"), "--update"]) == 0
    return folder


def line(name, parameter, value, runs):
    """The command line with that value."""
    base = [str(runs / word) if word in ("log", "here", "there", "base.json") else word for word in BASES[name]]
    if isinstance(parameter, click.Option):
        spelling = parameter.opts[-1]
        words = [f"{spelling}={value}"] if spelling.startswith("--") else [spelling, value]
        return [name, *([MODES[parameter.name]] if name == "run" else []), *words, *base]
    places = [other.name for other in app.app.get_command(None, name).params if isinstance(other, click.Argument)]
    place = places.index(parameter.name)
    return [name, *base[:place], value, *base[place + 1 :]]


def answer(words):
    if words[0] in ("run", "record"):  # the program's process is the command's
        done = forked.run(["-m", "padiff_shim", *words], warm=True)
        return done.returncode, done.stdout, done.stderr
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    return status, out.getvalue(), err.getvalue()


@pytest.mark.rows(20)
@pytest.mark.parametrize(("name", "parameter"), TAKEN)
def test_a_sentence_and_no_traceback(name, parameter, folder, runs, monkeypatch):
    kind = parameter.type
    numeric = isinstance(kind, (click.types.IntParamType, click.types.FloatParamType))
    values = NUMBERS if numeric else FILES if isinstance(kind, output.Target) else [*WORDS, *FILES]
    step = 12 if name in SLOW else 1 if EVERY else 5
    for value in values[len(parameter.name) % step :: step]:  # other values for another option
        fill(folder)
        environment = dict(os.environ)
        status, out, err = answer(line(name, parameter, value, runs))
        for variable in set(os.environ) - set(environment):
            monkeypatch.delenv(variable)
        os.chdir(folder)
        assert status in (0, 1, 2), (value, err)
        assert "Traceback" not in out + err, (value, err[-2000:])
        assert status != 2 or err.strip(), value


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([*PROVEN, "--seed", str(2**64)], "prove"),
        (["--compare", "--steps", "5:2:0", "nothing.py"], "run"),
        (["--compare", "--budget", "900%", "nothing.py"], "run"),
        ([*PROVEN, "--layer-map", "="], "prove"),
        ([*PROVEN, "--report", "/"], "prove"),
        ([*PROVEN, "--bits", "--drift"], "prove"),
        ([*PROVEN, "--apply"], "prove"),
        ([*PROVEN, "--calls"], "prove"),
        ([*PROVEN, "--dtype", "float32", "--dtype", "float64"], "prove"),
    ],
)
def test_what_has_no_meaning_is_refused(words, what, folder, capsys):
    fill(folder)
    status, _, err = answer([what, *words])
    assert status == 2
    assert len(err.strip().splitlines()) == 1


def test_numbers_up_to_63_bits_are_seeds(folder):
    fill(folder)
    assert answer(["prove", *PROVEN, "--seed", str(2**63 - 1)])[0] == 0


@pytest.mark.rows(1)
@pytest.mark.parametrize("name", thinned(dict.fromkeys(["doctor", "log", "diff"]), "log", "diff"))
def test_a_closed_standard_output_is_no_traceback(name, runs, folder):
    fill(folder)
    base = [str(runs / word) if word in ("log", "here", "there") else word for word in BASES[name]]
    command = [sys.executable, "-m", "padiff_shim", name, *base]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    for closed in (">&-", "| true") if name == "diff" else (">&-",):
        line = ["bash", "-o", "pipefail", "-c", f'"$@" {closed}', "bash", *command]
        done = subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        assert "Traceback" not in done.stderr, (closed, done.stderr)
        assert done.returncode in ((0, 141) if closed == "| true" else (0,)), "no answer, and not the answer no"
