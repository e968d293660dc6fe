"""What ``padiff-shim run`` puts into the environment for ranks changes nothing for processes that are none. No Paddle here: a
module of that name stands in its place. With Paddle: tests/distributed/test_run_ranks.py."""

import json
import os
import subprocess
import sys

import pytest
from helpers import PATIENCE, ROOT

from padiff_shim.cli import ranks
from padiff_shim.cli.bootstrap import sitecustomize
from padiff_shim.errors import ArgumentError
from padiff_shim.modes import options as mode_options
from padiff_shim.modes.options import CompareOptions, ReferenceOptions, as_data, from_data

pytestmark = pytest.mark.compat

# Starts whatever its arguments say, and shows what came of it.
STARTER = "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)\n"
WORLD = """
import sys
sys.stdout.write("%s %s %s\\n" % (sys.path, sys.argv, [n for n in sorted(sys.modules) if "padiff" in n or "customize" in n]))
sys.stdout.write("%s %s\\n" % (sys.meta_path[-1], __import__("os").environ.get("CHAINED")))
1 / 0
"""
PADDLE = "import sys\nsys.stdout.write('Paddle begins\\n')\n"


def ended(arguments, folder, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    for name in ("PADDLE_TRAINER_ID", "RANK"):
        if name not in variables:
            environment.pop(name, None)
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def both(arguments, folder, **variables):
    """A program that starts ``python arguments``: natively, and under ``padiff-shim run``; both must be the same."""
    (folder / "starter.py").write_text(STARTER)
    plain = ended([sys.executable, "starter.py", *arguments], folder, **variables)
    shim = [sys.executable, "-m", "padiff_shim", "run", "--quiet", "starter.py", *arguments]
    assert ended(shim, folder, **variables) == plain
    return plain


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "how", [["world.py", "--x"], ["-m", "world"], ["-c", WORLD], ["-E", "world.py"], ["-I", "world.py"]], ids=str
)
def test_a_process_that_never_imports_paddle(how, tmp_path):
    (tmp_path / "world.py").write_text(WORLD)
    status, out, err = both(how, tmp_path)
    assert (status, b"padiff" in out.replace(str(ROOT).encode(), b"")) == (1, False), out
    assert b"ZeroDivisionError" in err


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "theirs",
    ["import os\nos.environ['CHAINED'] = __name__ + __file__\n", "1 / 0\n", "import nothing_of_this_name\n"],
    ids=["works", "fails", "lacks"],
)
def test_the_users_own_sitecustomize_is_run(theirs, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(theirs)
    (tmp_path / "world.py").write_text(WORLD)
    _, out, err = both(["world.py"], tmp_path, PYTHONPATH=os.pathsep.join([str(ROOT), str(tmp_path / "site")]))
    assert (b"sitecustomize" + str(tmp_path).encode() in out) == theirs.startswith("import os"), out
    assert (b"Error in sitecustomize" in err) == (not theirs.startswith("import os")), err


@pytest.mark.rows(1)
@pytest.mark.parametrize("text", [PADDLE, PADDLE + "import not_there\n", PADDLE + "sys.exit(3)\n"], ids=["works", "fails", "exits"])
def test_a_process_that_is_no_rank_imports_paddle_as_ever(text, tmp_path):
    (tmp_path / "paddle.py").write_text(text)
    (tmp_path / "world.py").write_text(
        "try:\n    import paddle\nexcept ImportError as error:\n    print(error)\nimport paddle, sys\n"
        "print(type(paddle.__loader__), paddle.__spec__.loader is paddle.__loader__)\n"
        "print([name for name in sys.modules if name.startswith('padiff')])\n"
    )
    (tmp_path / "starter.py").write_text(STARTER)
    plain = ended([sys.executable, "starter.py", "world.py"], tmp_path)
    output = ended([sys.executable, "-m", "padiff_shim", "run", "--quiet", "starter.py", "world.py"], tmp_path)
    assert output[:2] == plain[:2]
    assert output[2].splitlines()[-1:] == plain[2].splitlines()[-1:]
    assert plain[1].startswith(b"Paddle begins")


def test_a_rank_of_which_the_python_lacks_something_says_so(tmp_path):
    (tmp_path / "paddle.py").write_text(PADDLE)
    (tmp_path / "world.py").write_text("import sys\nsys.modules['wrapt'] = None\nimport paddle\nprint('gone on')\n")
    (tmp_path / "starter.py").write_text(STARTER.replace("import", "import os\nos.environ['PADDLE_TRAINER_ID'] = '0'\nimport", 1))
    status, out, err = ended([sys.executable, "-m", "padiff_shim", "run", "--quiet", "starter.py", "world.py"], tmp_path)
    assert (status, out) == (2, b"Paddle begins\n")
    assert b"cannot enter the mode: " in err
    assert b"wrapt" in err
    assert b"Traceback" not in err


def test_a_run_inside_of_a_rank_is_its_own(tmp_path):
    """The process of a run that is itself a rank: what it starts has the same variables, and is none."""
    (tmp_path / "paddle.py").write_text(PADDLE)
    (tmp_path / "world.py").write_text("import paddle, sys\nprint([name for name in sys.modules if name.startswith('padiff')])\n")
    status, out, _ = both(["world.py"], tmp_path, PADDLE_TRAINER_ID="1")
    assert (status, out) == (0, b"Paddle begins\n[]\n")


@pytest.fixture
def exported(monkeypatch, tmp_path):
    for name in ("PADDLE_TRAINER_ID", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", "a" + os.pathsep + "b")
    monkeypatch.setenv(mode_options.RUN, "")
    options = CompareOptions(
        ops="linear", steps=slice(10, 20), ranks=range(0, 8, 2), log=tmp_path, budget="10%", layers="encoder.*"
    )
    owed = {"steps": mode_options.Setting(slice(10, 20), "PADIFF_SHIM_STEPS")}
    run = ranks.Inheritance.of(options, owed, "padiff-shim run", str(tmp_path))
    run.export()
    return run, options


def test_what_is_exported_is_what_is_taken(exported):
    run, options = exported
    data = json.loads(os.environ[mode_options.RUN])
    taken = ranks.Inheritance.taken(data)
    assert taken == run
    assert CompareOptions(**{name: from_data(value) for name, value in taken.options.items()}) == options
    assert from_data(taken.owed["steps"][0]) == slice(10, 20)
    ranks.withdraw()
    assert mode_options.RUN not in os.environ
    assert os.environ["PYTHONPATH"] == "a" + os.pathsep + "b"


def test_exported_twice_is_exported_once(exported, monkeypatch):
    before = os.environ["PYTHONPATH"]
    exported[0].export()
    assert os.environ["PYTHONPATH"] == before
    monkeypatch.delenv("PYTHONPATH")
    exported[0].export()
    ranks.withdraw()
    assert "PYTHONPATH" not in os.environ


def test_another_version_is_refused(exported):
    data = json.loads(os.environ[mode_options.RUN])
    with pytest.raises(ArgumentError, match="this rank has"):
        ranks.Inheritance.taken({**data, "version": "9.9"})


def test_the_variable_is_no_setting(exported):
    assert sitecustomize.VARIABLE == mode_options.RUN
    assert mode_options.outside(ReferenceOptions) == {}


def test_a_name_like_it_is_refused(monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_RUNS", "1")
    with pytest.raises(ArgumentError, match="unknown setting 'PADIFF_SHIM_RUNS'"):
        mode_options.outside(ReferenceOptions)


@pytest.mark.parametrize(
    "value", [None, True, 3, 0.5, "10%", ["a", "b"], slice(1, None), range(0, 9, 3), [slice(3), range(2)]], ids=str
)
def test_values_of_options_as_data(value):
    assert from_data(json.loads(json.dumps(as_data(value)))) == value


def test_notes_are_read_by_rank(tmp_path):
    place = str(tmp_path / "notes")
    assert ranks.read_notes(place) == []
    for rank, pid in ((1, 7), (0, 9)):
        ranks.Note(rank, pid, log="x").leave(place)
    ranks.Note(1, 7, log="x", counted={"ops": {}}).leave(place)
    assert [(note.rank, note.counted) for note in ranks.read_notes(place)] == [(0, None), (1, {"ops": {}})]
