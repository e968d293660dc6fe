"""The log on disk: what survives a kill, forks, threads, full disks; lines as JSON."""

import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import warnings

import pytest
from helpers import PATIENCE
from hypothesis import given, strategies as st
from log_data import filled, record

from padiff_shim.runlog import compare_logs, writer as writer_module
from padiff_shim.runlog.encoding import encode, numeric
from padiff_shim.runlog.reader import LogError
from padiff_shim.runlog.writer import LogWriter
from padiff_shim.runs.compare_run import CompareRun, load


def records_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


NUMBERS = st.none() | st.integers(-(2**60), 2**60) | st.floats() | st.booleans() | st.sampled_from(["float64", '50 % "of"', ""])
STATS = st.dictionaries(
    st.text(max_size=8),
    NUMBERS | st.lists(NUMBERS, max_size=2) | st.dictionaries(st.text(max_size=3), NUMBERS, max_size=3),
    max_size=5,
)


def alike(ours, theirs):
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(alike(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(theirs, float):
        return (math.isnan(ours) and math.isnan(theirs)) or ours == pytest.approx(theirs, rel=1e-8, abs=5e-324)
    return ours == theirs and type(ours) is type(theirs)


@given(STATS)
def test_a_line_is_strict_json_and_gives_the_figures_back(stats):
    line = encode({"type": "call", "layer": "a\nb\ud800", "stats": stats})
    assert line.count(b"\n") == 1
    back = json.loads(line, parse_constant=pytest.fail)
    assert back["layer"] == "a\nb\ud800"
    assert alike(numeric(back["stats"]), stats)


def test_numpy_scalars_are_numbers():
    np = pytest.importorskip("numpy")
    stats = {"a": np.float32(0.5), "b": np.float64(0.25), "c": np.int64(3), "d": np.longdouble("0.1")}
    expected = {"a": 0.5, "b": 0.25, "c": 3, "d": 0.1}
    assert json.loads(encode({"stats": stats}))["stats"] == expected
    odd = {"e": np.longdouble("nan"), "f": np.array([1, 2]), "g": np.bool_(True), "h": np.float16("inf")}
    decoded = json.loads(encode({"stats": {**stats, **odd}, "other": np.float32(0.5)}))
    assert decoded == {"stats": {**expected, "e": "nan", "f": [1, 2], "g": True, "h": "inf"}, "other": 0.5}


def test_the_header_comes_first_and_the_name_says_whose_it_is(tmp_path):
    writer = LogWriter(tmp_path / "new" / "folder", {"rank": 3, "backend": "torch"})
    writer.write(record())
    assert writer.path.name == f"calls-rank3-pid{os.getpid()}.jsonl"
    header, call = records_of(writer.path)
    assert (header["type"], header["schema"], header["rank"], header["pid"]) == ("run", 1, 3, os.getpid())
    assert call["op"] == "linear"


def test_a_second_run_of_one_process_gets_a_file_of_its_own(tmp_path):
    names = [LogWriter(tmp_path, {}).path.name for _ in range(3)]
    assert len(set(names)) == 3
    assert [path.name for path in compare_logs.files(tmp_path)] == names


def test_records_after_the_end_are_appended(tmp_path):
    run = filled([record()], folder=tmp_path)
    run.recorder.close()
    run.recorder.add(record(1))
    run.recorder.close()
    (path,) = compare_logs.files(tmp_path)
    assert [line["type"] for line in records_of(path)] == ["run", "call", "end", "call", "end"]
    assert records_of(path)[-1]["records"] == 2


@pytest.mark.parametrize("rest", [1, 20, 200])
def test_a_line_that_was_being_written_is_left_out_without_a_word(tmp_path, rest):
    """A program that is ended in the middle of one leaves all others; what is said is that the log was not closed."""
    run = filled([record(0), record(1), record(2)], folder=tmp_path)
    whole = run.recorder.log.path.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / run.recorder.log.path.name).write_bytes(whole[: -min(rest, last - 1)])
    torn = load(tmp_path / "torn")
    assert len(torn.calls) == 2
    assert [text for text in torn.warnings if "no record" in text] == []


@pytest.mark.parametrize("there", [0, 1])
def test_a_rank_without_a_log_is_said(tmp_path, there):
    LogWriter(tmp_path, {"rank": there, "ranks": 2, "backend": "torch"}).write(record())
    assert ["2", f"{1 - there}"] in [re.findall(r"\d+", warning) for warning in load(tmp_path).warnings]


CHILD = """
import sys
sys.path[:0] = {path!r}
from log_data import filled, record
run = filled([], folder={folder!r})
for call in range(10**9):
    run.recorder.add(record(call))
    print(call, flush=True)
"""


def test_a_kill_loses_nothing_that_was_added(tmp_path):
    path = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__))]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(path=path, folder=str(tmp_path))], stdout=subprocess.PIPE, text=True
    )
    try:
        for _ in range(200):
            child.stdout.readline()
    finally:
        child.send_signal(signal.SIGKILL)
        output = child.stdout.read().split()
        child.wait()
    assert child.returncode == -signal.SIGKILL
    last = int(output[-1]) if output and output[-1].isdigit() else 199
    run = load(tmp_path)
    assert last >= 199
    assert len(run.calls) >= last
    assert [call.call for call in run.calls] == list(range(len(run.calls)))
    assert run.coverage()["checked_calls"] == len(run.calls)


def test_threads_share_one_file_and_one_numbering(tmp_path):
    run = filled([], folder=tmp_path)
    threads = [threading.Thread(target=lambda: [run.recorder.add(record()) for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [call.index for call in run.calls] == list(range(800))
    assert run.counts.records == 800


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_to_a_file_of_its_own(tmp_path):
    run = filled([record(0)], folder=tmp_path)
    held, go_on = threading.Event(), threading.Event()

    def hold():
        with run.recorder.log.lock:
            held.set()
            go_on.wait()

    thread = threading.Thread(target=hold)  # the child inherits a lock that nobody there will release
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            run.recorder.add(record(77))
            status = int(run.counts.records != 1)
        finally:
            os._exit(status)
    go_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    run.recorder.add(record(1))
    assert [call.call for call in run.calls] == [0, 1]
    (other,) = (path for path in compare_logs.files(tmp_path) if path != run.recorder.log.path)
    header, call = records_of(other)
    assert (header["pid"], header["parent"], call["call"]) == (child, os.getpid(), 77)
    assert len(load(tmp_path).calls) == 3


class Full:
    """A file on a disk with room for so many bytes."""

    def __init__(self, room):
        self.room, self.content = room, b""

    def at(self, path):
        path.touch()
        return self

    def write(self, line):
        taken = line[: self.room]
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(taken)
        self.content += taken
        return len(taken)

    def close(self):
        pass


def test_a_disk_that_fills_up_is_told_once_and_the_run_goes_on(tmp_path, monkeypatch):
    disk = Full(4000)
    monkeypatch.setattr(writer_module, "_create", disk.at)
    run = filled([], folder=tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in range(20):
            run.recorder.add(record(call))
    (warning,) = (
        warned for warned in caught if warned.category is RuntimeWarning
    )  # an unclosed file of another test may warn as well
    assert "No space left" in str(warning.message)
    assert str(tmp_path) in str(warning.message)
    assert warning.message.args[0] in run.warnings
    assert run.counts.records == 20
    assert run.verdicts == {"ROUNDING": 20}
    run.recorder.close()
    # What had room is readable, and the line that was torn is passed over.
    (tmp_path / "calls-rank0-pid1.jsonl").write_bytes(disk.content)
    assert not disk.content.endswith(b"\n")
    assert 1 <= len(load(tmp_path).calls) < 20


def test_a_disk_that_fills_up_raises_where_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "_create", Full(4000).at)
    run = filled([], folder=tmp_path, on_log_error="raise")
    with pytest.raises(LogError, match="No space left"):
        fill(run)
    assert run.counts.records > 1


def fill(run):
    for call in range(20):
        run.recorder.add(record(call))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("action", ["warn", "raise"])
def test_a_full_device(tmp_path, monkeypatch, action):

    def full(path):
        path.symlink_to("/dev/full")
        return path.open("wb", buffering=0)

    monkeypatch.setattr(writer_module, "_create", full)
    if action == "raise":
        with pytest.raises(LogError, match="No space left"):
            filled([], folder=tmp_path, on_log_error=action)
        return
    with pytest.warns(RuntimeWarning, match="No space left"):
        run = filled([record()], folder=tmp_path, on_log_error=action)
    assert run.verdicts == {"ROUNDING": 1}


@pytest.mark.parametrize("action", ["warn", "raise"])
def test_a_folder_that_cannot_be_made(tmp_path, action):
    (tmp_path / "file").write_text("no folder")
    run = CompareRun(folder=tmp_path / "file" / "log", on_log_error=action)
    if action == "raise":
        with pytest.raises(LogError, match="cannot be started"):
            run.begin({}, {})
        return
    with pytest.warns(RuntimeWarning, match="cannot be started"):
        run.begin({}, {})
    run.recorder.add(record())
    assert len(run.calls) == 0
    assert run.worst(1)[0].op == "linear"
    assert "cannot be started" in str(run)


def test_a_read_only_file_system(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(writer_module, "_create", refuse)
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        run = filled([record()], folder=tmp_path)
    assert (run.counts.records, len(run.calls)) == (1, 0)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.warns(RuntimeWarning, match="Permission denied"):
        run = filled([record()], folder=tmp_path)
    assert run.counts.records == 1
