"""A folder with several runs: the last is read, and the others are named; a full disk, and a log that is not whole."""

import errno
import json
import os

import forked
import pytest
from log_data import filled, lines_of, record, wrong

import padiff_shim
from padiff_shim.runlog.compare_logs import files
from padiff_shim.runs.gate import gate

CALL = "import padiff_shim, paddle\nwith padiff_shim.{mode}('torch', log={log!r}): paddle.exp(paddle.zeros([2]))"


def written(folder, pid, created, *, seconds=1.0, session="", calls=(), rank=0, parent=None):
    """A log as a process would have written it."""
    header = {
        "type": "run",
        "schema": 1,
        "rank": rank,
        "pid": pid,
        "created": created,
        "environment": {},
        "command": f"python {pid}.py",
    }
    header |= {"session": session} if session else {}
    header |= {"parent": parent} if parent else {}
    lines = [json.dumps(header).encode() + b"\n", *lines_of(calls)]
    lines.append(json.dumps({"type": "end", "calls": 1, "records": 1, "seconds": seconds, "coverage": {}}).encode() + b"\n")
    folder.mkdir(exist_ok=True)
    (folder / f"calls-rank{rank}-pid{pid}.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("session", ["", "of its own"])
def test_a_second_run_is_not_merged(tmp_path, session):
    written(tmp_path, 9, "2026-01-31T12:00:00+00:00", calls=[wrong(1)], session=session and "first")
    written(tmp_path, 5, "2026-01-31T12:00:05+00:00", calls=[record(2)], session=session and "second")
    with pytest.warns(RuntimeWarning, match="earlier runs"):
        run = padiff_shim.load(tmp_path)
    assert [call.call for call in run.calls] == [2]
    (remark,) = (warning for warning in run.warnings if "earlier runs" in warning)
    assert "calls-rank0-pid9.jsonl" in remark
    assert "python 9.py" in remark


def test_processes_of_one_run_are_merged(tmp_path):
    written(tmp_path, 9, "2026-01-31T12:00:00+00:00", seconds=60, calls=[record(1)])
    written(tmp_path, 5, "2026-01-31T12:00:05+00:00", calls=[record(2)])  # at the same time
    written(tmp_path, 7, "2026-01-31T12:02:00+00:00", calls=[record(3)], parent=9)
    written(tmp_path, 3, "2026-01-31T12:00:01+00:00", calls=[record(4)], rank=1)
    assert sorted(call.call for call in padiff_shim.load(tmp_path).calls) == [1, 2, 3, 4]


@pytest.mark.rows(1)
@pytest.mark.parametrize("mode", ["compare", "reference"])
def test_programs_one_after_the_other(tmp_path, mode):
    log = str(tmp_path / "log")
    for _ in range(2):
        forked.run(["-c", CALL.format(mode=mode, log=log)]).check_returncode()
    with pytest.warns(RuntimeWarning, match="also holds 1 log of earlier runs"):
        run = padiff_shim.load(log)
    assert len(run.calls) == 1 if mode == "compare" else run.substituted == {"exp": 1}


def test_a_full_disk_is_called_that(tmp_path, monkeypatch):
    run = filled([record(1)], folder=tmp_path / "log")
    writer = run.recorder.log

    def full(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writer, "_put", full)
    with pytest.warns(RuntimeWarning, match="the disk is full"):
        run.recorder.add(record(2))
    again = padiff_shim.load(tmp_path / "log")
    assert [call.call for call in again.calls] == [1]
    assert "its disk was full" in again.header["stopped"]
    assert len(again.warnings) == 1


def test_an_incomplete_log_is_no_baseline(tmp_path):
    run = filled([record(1)], folder=tmp_path / "log")
    run.recorder.close()
    (path,) = files(tmp_path / "log")
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b'{"type":"end"')])
    baseline = tmp_path / "baseline.jsonl"
    result = gate(tmp_path / "log", baseline, update=True)
    assert (result.passed, result.updated, result.refused, baseline.exists()) == (False, False, True, False)
    path.write_bytes(content)
    assert gate(tmp_path / "log", baseline, update=True).updated


def test_calls_are_read_one_by_one(tmp_path):
    run = filled([record(call) for call in range(50)], folder=tmp_path)
    calls = iter(run.calls)
    assert next(calls).call == 0
    first = run.calls[0].to_dict()
    first["inputs"][0]["name"] = "changed"
    assert next(run.calls.records())["inputs"][0]["name"] == "x", "a record's table is a copy"
