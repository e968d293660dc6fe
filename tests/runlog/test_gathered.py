"""The plain records of one call are written in one go, in their order, and before anything that somebody may act on."""

import json
import threading

import pytest
from log_data import filled, record

from padiff_shim.numerics.difference import equal_stats
from padiff_shim.runlog import compare_logs
from padiff_shim.runlog.encoding import Plain, WrittenFields
from padiff_shim.runlog.reader import LogError

FIELDS = {"op": "linear", "site": "train.py:41 in forward", "layer": "", "phase": "backward", "tensor": "grad:x", "shape": [2, 3]}


def plain(call):
    return Plain({"call": call, "step": 0}, WrittenFields(FIELDS), "EQUAL", "bit for bit equal", equal_stats(6))


@pytest.fixture
def run(tmp_path):
    return filled([], folder=tmp_path)


def calls_on_disk(folder):
    (path,) = compare_logs.files(folder)
    return [json.loads(line)["call"] for line in path.read_bytes().splitlines() if line.startswith(b'{"type":"call"')]


def test_they_are_there_when_the_call_has_ended(run, tmp_path):
    assert run.recorder.gather()
    for call in range(3):
        run.recorder.add_plain(plain(call))
    assert calls_on_disk(tmp_path) == []
    run.recorder.put()
    assert calls_on_disk(tmp_path) == [0, 1, 2]
    run.recorder.add_plain(plain(3))
    assert calls_on_disk(tmp_path) == [0, 1, 2, 3]


def test_a_call_is_one_write(run, monkeypatch):
    writes = []
    monkeypatch.setattr(run.recorder.log, "_put", writes.append)
    run.recorder.gather()
    for call in range(3):
        run.recorder.add_plain(plain(call))
    run.recorder.put()
    assert [line.count(b"\n") for line in writes] == [3]


@pytest.mark.parametrize("other", ["record", "event", "end"])
def test_what_is_written_meanwhile_comes_after_them(run, tmp_path, other):
    """A serious record is on the disk when a callback sees it, and so is what came before it."""
    run.recorder.gather()
    run.recorder.add_plain(plain(0))
    if other == "record":
        run.recorder.add(record(1))
        run.recorder.add_plain(plain(2))
        assert calls_on_disk(tmp_path) == [0, 1]
    elif other == "event":
        run.recorder.add_event("note", "a note")
    else:
        run.recorder.conclude()
    run.recorder.put()
    (path,) = compare_logs.files(tmp_path)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()][1:]
    if other == "record":
        assert [line["index"] for line in lines] == [0, 1, 2]
    else:
        assert [line["type"] for line in lines] == ["call", other]


def test_another_thread_writes_its_own_at_once(run, tmp_path):
    run.recorder.gather()
    run.recorder.add_plain(plain(0))
    gathers = []

    def elsewhere():
        gathers.append(run.recorder.gather())
        run.recorder.add_plain(plain(1))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert gathers == [False]
    assert calls_on_disk(tmp_path) == [0, 1]
    run.recorder.add_plain(plain(2))
    run.recorder.put()
    assert [call.index for call in run.calls] == [0, 1, 2]


def test_what_an_interrupted_call_left_is_written_with_the_next(run, tmp_path):
    run.recorder.gather()
    run.recorder.add_plain(plain(0))
    assert run.recorder.gather()
    run.recorder.add_plain(plain(1))
    run.recorder.put()
    assert calls_on_disk(tmp_path) == [0, 1]


def test_a_forked_child_leaves_them_to_its_parent(run, tmp_path):
    run.recorder.gather()
    run.recorder.add_plain(plain(0))
    run.recorder.after_fork()
    run.recorder.put()
    assert calls_on_disk(tmp_path) == []


def test_a_log_that_cannot_be_written_says_so_at_the_end_of_the_call(tmp_path, monkeypatch):
    run = filled([], folder=tmp_path, on_log_error="raise")

    def full(line):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run.recorder.log, "_put", full)
    run.recorder.gather()
    run.recorder.add_plain(plain(0))
    with pytest.raises(LogError, match="No space"):
        run.recorder.put()
    assert run.counts.records == 1
