"""``padiff-shim run`` around programs of several processes: each rank is in the mode, and nothing of the program changes."""

import json
import re
import subprocess
import sys

import pytest
import ranks
from helpers import PATIENCE, ROOT

import padiff_shim
from padiff_shim import load

pytestmark = pytest.mark.compat
RANK = str(ROOT / "tests" / "rank_plain.py")
TITLE = "Paddle's calls on torch's kernels"

# A launcher that is none of Paddle's: through a shell, and it never imports Paddle itself.
LAUNCHER = """
import json, os, subprocess, sys

environments = json.load(open(sys.argv[1]))
started = []
for number, one in enumerate(environments):
    with open(f"rank.{number}", "wb") as out:
        command = ["sh", "-c", 'exec "$@"', "sh", sys.executable, *sys.argv[2:]]
        started.append(subprocess.Popen(command, env={**os.environ, **one}, stdout=out, stderr=subprocess.STDOUT))
sys.exit(max(abs(one.wait()) for one in started))
"""


def ended(arguments, folder, number=0, **variables):
    """(exit status, output, errors, what each of ``number`` ranks wrote)."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=ranks.environment(PYTHONWARNINGS="ignore", GLOG_minloglevel="2", **variables), cwd=folder,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr, [(folder / f"rank.{rank}").read_text() for rank in range(number)]


def launched(word, folder, options=None, number=2):
    """The ranks, natively, or under ``padiff-shim run`` with these options."""
    (folder / "launcher.py").write_text(LAUNCHER)
    environments = [{name: value for name, value in rank.items() if name.startswith("PADDLE_")} for rank in ranks.ranks(number)]
    (folder / "ranks.json").write_text(json.dumps(environments))
    shim = [] if options is None else ["-m", "padiff_shim", "run", *options]
    return ended([*shim, "launcher.py", "ranks.json", RANK, word], folder, number)


def losses(outputs):
    """By rank."""
    by_rank = [[line for line in text.splitlines() if line.startswith("rank ")] for text in outputs]
    assert all(len(lines) == 3 for lines in by_rank), outputs
    return by_rank


def substituted(table):
    return {name: int(count) for name, count in re.findall(r"│ (\w+) +│ +(\d+) │", table)}


@pytest.mark.slow
@pytest.mark.bitexact
def test_reference_is_that_of_a_with_statement_in_the_script(tmp_path):
    status, _, err, outputs = launched("with", tmp_path)
    assert status == 0, outputs
    options = ["--optimizer", "torch", "--json", "all.json", "--log", "log", "--html", "page.html"]
    inherited = launched("train", tmp_path, options)
    assert inherited[:2] == (0, ""), inherited
    assert losses(inherited[3]) == losses(outputs)
    assert [text.splitlines()[-1] for text in inherited[3]] == ["[]", "[]"], "what a rank starts runs natively"
    err = inherited[2]
    assert err.startswith("padiff-shim: ranks 0, 1 took part\n")
    assert err.count(TITLE) == 1
    counted = json.loads((tmp_path / "all.json").read_text())["ops"]
    assert (counted["gelu"]["substituted"], counted["gelu"]["backward"]) == (6, 6), "three steps of two ranks"
    assert substituted(err)["gelu"] == 6
    logs = [path.name[: len("reference-rank0")] for path in sorted((tmp_path / "log").iterdir())]
    assert logs == ["reference-rank0", "reference-rank1"]
    assert counted == load(tmp_path / "log").to_dict()["ops"]
    assert "</html>" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_a_comparison_has_a_log_of_each_rank(tmp_path):
    plain = launched("raise", tmp_path)
    assert plain[0] == 1, plain
    result = launched("raise", tmp_path, ["--compare", "--log", "log", "--html", "page.html", "--markdown", "notes.md"])
    assert result[:2] == plain[:2]
    assert result[3] == plain[3], "what the ranks wrote, tracebacks and all, is as natively"
    assert "ValueError: of rank 1" in result[3][1]
    logs = sorted(path.name for path in (tmp_path / "log").glob("*.jsonl"))
    assert [name[: len("calls-rank0")] for name in logs] == ["calls-rank0", "calls-rank1"]
    run = padiff_shim.load(tmp_path / "log")
    assert run.replicas.steps == 3
    assert run.header["command"].endswith(
        f"run --compare --log log --html page.html --markdown notes.md launcher.py ranks.json {RANK} raise"
    )
    assert (tmp_path / "notes.md").read_text() == run.markdown()
    assert "</html>" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--compare", "--log", "log")], ids=["reference", "compare"])
def test_a_rank_that_is_killed(options, tmp_path):
    status, _, err, outputs = launched("killed", tmp_path, options)
    assert status == 9, outputs
    losses(outputs)
    text = " ".join(err.split())
    if options:
        assert "rank 1" in text
        run = padiff_shim.load(tmp_path / "log")
        assert {call.log[: len("calls-rank0")] for call in run.calls} == {"calls-rank0", "calls-rank1"}
    else:
        assert "rank 1" in text
        assert "reference-rank1-pid" in text, "the remark of what it had written on the way"
        assert 3 < substituted(err)["gelu"] <= 6, "those of rank 0, and some of rank 1"


@pytest.mark.slow
def test_spawn(tmp_path):
    status, out, err, _ = ended(["-m", "padiff_shim", "run", "--compare", "--log", "log", RANK, "spawn"], tmp_path)
    assert status == 0, err
    assert "no rank took part" not in err
    assert sorted(line.partition(" loss ")[0] for line in out.splitlines()) == [
        f"rank {n} step {k}" for n in (0, 1) for k in range(3)
    ]
    assert "padiff-shim: ranks 0, 1 took part" in err
    assert len(list((tmp_path / "log").glob("calls-rank[01]-*.jsonl"))) == 2, (
        "the process that spawns computes nothing, and leaves no log"
    )


@pytest.mark.slow
def test_launch(tmp_path):
    options = ["--nproc_per_node=2", "--backend=gloo", "--log_dir=ranks"]
    shim = ["-m", "padiff_shim", "run", "--optimizer", "torch", "--log", "log"]
    status, _, err, _ = ended([*shim, "-m", "paddle.distributed.launch", *options, RANK, "raise"], tmp_path)
    assert status == 1
    assert "padiff-shim: ranks 0, 1 took part" in err
    assert substituted(err)["gelu"] == 6
    assert "ValueError: of rank 1" in (tmp_path / "ranks" / "workerlog.1").read_text()
    assert len(list((tmp_path / "log").iterdir())) == 2, "the launcher computes nothing, and leaves no log"


@pytest.mark.slow
def test_a_launcher_of_which_no_rank_took_part_says_so(tmp_path):
    """Ranks that read no PYTHONPATH."""
    (tmp_path / "rank.sh").write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -c "import paddle"\n')
    (tmp_path / "rank.sh").chmod(0o755)
    options = ["--nproc_per_node=1", "--log_dir=ranks"]
    done = ended(["-m", "padiff_shim", "run", "-m", "paddle.distributed.launch", *options, tmp_path / "rank.sh"], tmp_path)
    assert done[0] == 0, done
    assert "padiff-shim: no rank took part: either none imported paddle, or their Python was started with -E, -I or -S" in done[2]


REFUSED = {
    "in the rank": "import paddle\npaddle.matmul(paddle.ones([2, 3]), paddle.ones([2, 3]))\n",
    "in a thread of it": """
import threading
import paddle
thread = threading.Thread(target=paddle.matmul, args=(paddle.ones([2, 3]), paddle.ones([2, 3])))
thread.start()
thread.join()
raise SystemExit(1)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("where", REFUSED)
@pytest.mark.parametrize("mode", ["--reference", "--compare"])
def test_a_ranks_traceback_is_its_own(mode, where, tmp_path):
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    (tmp_path / "rank.py").write_text(REFUSED[where])
    (tmp_path / "ranks.json").write_text(json.dumps([{"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "1"}]))
    arguments = ["launcher.py", "ranks.json", "rank.py"]
    status, _, _, (plain,) = ended(arguments, tmp_path, 1)
    assert status == 1
    assert "ValueError: (InvalidArgument)" in plain
    status, _, err, (outputs,) = ended(["-m", "padiff_shim", "run", mode, "--all-threads", *arguments], tmp_path, 1)
    assert (status, outputs) == (1, plain)
    assert "padiff-shim: rank 0 took part" in err


@pytest.mark.slow
def test_without_inheritance(tmp_path):
    status, _, err, outputs = launched("raise", tmp_path, ["--no-inherit"])
    assert status == 1, outputs
    assert len(err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.bitexact
def test_four_ranks(tmp_path):
    status, _, _, outputs = launched("with", tmp_path, number=4)
    assert status == 0, outputs
    inherited = launched("train", tmp_path, ["--optimizer", "torch"], number=4)
    assert inherited[0] == 0, inherited
    assert losses(inherited[3]) == losses(outputs)
    assert "padiff-shim: ranks 0, 1, 2, 3 took part" in inherited[2]
    assert substituted(inherited[2])["gelu"] == 12
