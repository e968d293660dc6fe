"""The workers of an audit: what dies or hangs is replaced and told of, and nothing that was found is lost."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import pytest
from helpers import PATIENCE, ROOT

from padiff_shim.auditing import audit as auditing
from padiff_shim.auditing.pool import Pool
from padiff_shim.auditing.report import CRASH, UNJUDGED, OpReport, findings
from padiff_shim.errors import ArgumentError, FileError, PadiffShimError, UnknownNameError

HERE = Path(__file__).parent
SHORT = 2  # seconds, for what hangs; anything else that the worker does takes a tenth of one


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """The worker of these tests can be imported by a worker process."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def run(names, folder, *, device="", seconds=PATIENCE, case_seconds=PATIENCE, count=1):
    reports = {}
    pool = Pool(folder, device, seconds, case_seconds, module="a_worker")
    pool.run(names, count, lambda report: reports.__setitem__(report.name, report), lambda name: None)
    return reports, pool


def test_ops_are_shared_among_the_workers(tmp_path):
    reports, pool = run(["a", "b", "c"], tmp_path, count=2)
    assert sorted(reports) == ["a", "b", "c"]
    assert all(report.verdicts == {"EQUAL": 3} and not report.deaths for report in reports.values())
    assert pool.environment == {"paddle": "0", "device": ""}


def test_an_op_goes_on_behind_the_case_that_killed_its_worker(tmp_path):
    reports, _ = run(["dies", "a"], tmp_path)
    death = {"case": "dies: sample 1, plain, float32", "how": "SIGSEGV", "script": "dies_ends_1.py", "alone": "SIGABRT"}
    assert reports["dies"].deaths == [death]
    assert reports["dies"].judged == 3, "the cases behind it were run"
    assert reports["a"].judged == 3
    (finding,) = findings(reports.values())
    assert (finding.kind, finding.op, finding.side, finding.verdict) == (CRASH, "dies", "paddle", "SIGSEGV")


def test_a_call_that_does_not_end_is_ended(tmp_path):
    reports, _ = run(["hangs"], tmp_path, case_seconds=SHORT)
    assert [death["how"] for death in reports["hangs"].deaths] == [f"no end within {SHORT} s"]
    assert reports["hangs"].judged == 3
    (finding,) = findings(reports.values())
    assert (finding.kind, finding.side) == (UNJUDGED, ""), "Paddle's kernel alone comes back: nobody is accused"


def test_an_op_has_a_time_limit_and_what_it_leaves_is_said(tmp_path):
    reports, _ = run(["hangs", "a"], tmp_path, seconds=SHORT)
    assert [death["how"] for death in reports["hangs"].deaths] == ["time limit of the op"]
    assert reports["hangs"].untried == {"its time was over": 1}
    assert reports["a"].judged == 3


def test_an_op_whose_calls_all_end_the_process_is_given_up_and_what_is_left_is_said(tmp_path):
    reports, _ = run(["doomed", "a"], tmp_path)
    doomed = reports["doomed"]
    assert [death["case"].rpartition(" ")[2] for death in doomed.deaths] == ["0", "2", "3", "4"], (
        "the row begins behind a call that ended"
    )
    assert [*doomed.untried.values()] == [4]
    assert OpReport(**json.loads(json.dumps(asdict(doomed)))) == doomed
    assert reports["a"].judged == 3


def test_a_worker_that_cannot_start(tmp_path):
    with pytest.raises(PadiffShimError, match=r"\(exit status 3\); see what this says: .* -m a_worker 1 'none'"):
        run(["a"], tmp_path, device="none")


def test_a_device_that_there_is_not(tmp_path):
    with pytest.raises(PadiffShimError, match=r"^nothing can be audited on the device 'tpu': ValueError: devices are cpu and gpu"):
        run(["a"], tmp_path, device="tpu")


PROGRAM = """
    import functools, signal, sys
    from padiff_shim.auditing import audit, pool
    signal.signal(signal.SIGINT, signal.default_int_handler)
    audit.Pool = functools.partial(pool.Pool, module="a_worker")
    audit.chosen = lambda patterns: patterns
    found = audit.audit(sys.argv[2].split(","), folder=sys.argv[1], resume="resume" in sys.argv, defects=False, workers=1)
    print(found.complete, sorted(found.reports))
"""


def audited(folder, names, *options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE)))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder), names, *options],
        capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False,
    )  # fmt: skip


def test_what_was_done_before_a_ctrl_c_is_kept_and_gone_on_with(tmp_path):
    done = audited(tmp_path, "a,b,interrupts,c")
    assert done.stdout == "False ['a', 'b']\n", done.stderr
    lines = (tmp_path / auditing.LINES).read_text().splitlines()
    assert [json.loads(line)["report"]["name"] for line in lines] == ["a", "b"]
    with (tmp_path / auditing.LINES).open("a") as out:
        out.write('{"environment": ')  # the process ended while a line was written
    again = audited(tmp_path, "a,b,c", "resume")
    assert again.stdout == "True ['a', 'b', 'c']\n", again.stderr
    assert audited(tmp_path, "a").returncode
    assert "holds an audit already" in audited(tmp_path, "a").stderr


def test_another_version_does_not_go_on_with_an_audit(tmp_path):
    line = {"environment": {"paddle": "1"}, "seconds": 1, "report": asdict(OpReport("a"))}
    (tmp_path / auditing.LINES).write_text(json.dumps(line) + "\n")
    done = audited(tmp_path, "a,b", "resume")
    assert "holds an audit of {'paddle': '1'}" in done.stderr


def test_ops_are_chosen_by_name_family_and_pattern():
    assert auditing.chosen(["softmax", "*pool2d*"])[0] == "softmax"
    assert {"avg_pool2d", "softmax"} <= set(auditing.chosen(["softmax", "avg_pool*"])) | {"avg_pool2d"}
    assert "layer_norm" in auditing.chosen("norm")
    with pytest.raises(UnknownNameError):
        auditing.chosen("sofmax")
    with pytest.raises(ArgumentError, match="matches no op"):
        auditing.chosen("zz*")


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        auditing.audit("relu", folder=tmp_path / "file" / "audit")
