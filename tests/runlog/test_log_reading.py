"""Logs that are damaged, foreign or hostile: what can be read is read, what was lost is said, and nothing else happens."""

import json
import os
from pathlib import Path

import forked
import pytest
from log_data import END, HEADER, NAME, dumped, filled, lines_of, put, record, wrong

from padiff_shim.runlog.reader import LINE, LogError
from padiff_shim.runs.compare_run import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def salvaged():
    """Load a folder of which something is lost; the run, after the warning was seen."""

    def loaded(folder, match):
        with pytest.warns(RuntimeWarning, match=match):
            return load(folder)

    return loaded


def test_a_torn_last_line_is_passed_over(tmp_path):
    run = filled([record(call) for call in range(3)], folder=tmp_path)
    content = run.recorder.log.path.read_bytes()
    run.recorder.log.path.write_bytes(content[:-40])
    assert [call.call for call in load(tmp_path).calls] == [0, 1]


WRONG_LINES = {
    "broken": b'{"type":"call", broken\n',
    "binary": b"\x00\xff\xfe\n",
    "no table": b"[1,2]\n",
    "a number": b"7\n",
    "no type": b"{}\n",
    "type of another type": b'{"type":["call"]}\n',
    "no verdict": b'{"type":"call","op":"exp"}\n',
    "nested": b'{"type":"call","op":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
    "nested within the recursion limit": dumped(**record(attributes=json.loads("[" * 90 + "]" * 90))),
    "huge number": b'{"type":"call","op":"exp","verdict":"EQUAL","index":1' + b"0" * 5000 + b"}\n",
    "large number": dumped(**record(call=2**70)),
    "longer than any record": dumped(**record(op="x" * (LINE + 5))),
    **{f"{name}={value!r}": dumped(**record(**{name: value})) for name, value in (
        ("op", None), ("op", 3), ("op", ["exp"]), ("verdict", "WRNG"), ("verdict", ["WRONG"]), ("verdict", 9), ("side", {}),
        ("side", "left"), ("step", "one"), ("step", True), ("index", -1), ("shape", 3), ("shape", ["a"]), ("shape", [2**40] * 3),
        ("stats", [1]), ("stats", {"paddle": 3}), ("stats", {"paddle": {"prob": "large"}}), ("stats", {"tolerance": {"atol": []}}),
        ("stats", {"error": "none"}), ("inputs", ["x"]), ("inputs", [{}]), ("inputs", [{"name": 4}]), ("attributes", []),
        ("alternatives", "one"), ("alternatives", [1]), ("modifiers", {}), ("layer", []), ("muted", "no"), ("phase", "sideways"),
    )},
    "event without a text": b'{"type":"event","kind":"warning"}\n',
    "coverage of another type": b'{"type":"end","coverage":{"unchecked_ops":{"exp":3}}}\n',
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_LINES)
def test_a_line_that_is_no_record_is_left_out_and_said(tmp_path, salvaged, name):
    good = lines_of([wrong(0), record(1)])
    run = salvaged(put(tmp_path, HEADER, good[0], WRONG_LINES[name], good[1], END), r"1 line of .* left out \(line 3\)")
    assert [call.call for call in run.calls] == [0, 1]
    assert run.verdicts == {"WRONG": 1, "ROUNDING": 1}
    (lost,) = (warning for warning in run.warnings if "line 3" in warning)
    assert run.warnings == ["a concern", lost]
    assert "line 3" in str(run)
    assert "line 3" in run.markdown()


def test_many_lost_lines_are_counted(tmp_path, salvaged):
    run = salvaged(
        put(tmp_path, HEADER, b"x\n" * 1200, *lines_of([record(5)])), r"1,200 lines .*line 2, 3, 4, 5, 6, 7, 8, 9, \.\.\."
    )
    assert [call.call for call in run.calls] == [5]


def test_a_file_without_a_header_is_left_out_where_others_have_one(tmp_path, salvaged):
    put(tmp_path, HEADER, *lines_of([record(4)]))
    (tmp_path / "calls-rank1-pid2.jsonl").write_bytes(b"")
    (tmp_path / "calls-rank2-pid2.jsonl").write_bytes(b'{"type":"run","schema":99}\n')
    run = salvaged(tmp_path, "left out")
    assert [call.call for call in run.calls] == [4]
    assert [part in " ".join(run.warnings) for part in ("calls-rank1-pid2.jsonl", "schema 99")] == [True, True]


def test_what_cannot_be_loaded_is_said(tmp_path):
    with pytest.raises(LogError, match="no log"):
        load(tmp_path)
    with pytest.raises(LogError, match="does not exist") as caught:
        load(tmp_path / "absent")
    assert isinstance(caught.value, FileNotFoundError)
    for content, message in (
        ('{"type":"run","schema":99}\n', "schema 99"),
        ('{"type":"run","schema":1,"rank":"first"}\n', "rank"),
        ('{"type":"call"}\n', "no event at line 1"),
        ('{"type":"end"}\n', "header"),
        ("", "header"),
    ):
        (tmp_path / NAME).write_text(content)
        with pytest.raises(LogError, match=message):
            load(tmp_path)
    with pytest.raises(LogError, match="is a file: load"):
        load(tmp_path / NAME)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link to a device", "link to nothing"])
def test_only_regular_files_are_read(tmp_path, kind):
    place = tmp_path / NAME
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "device" and (not hasattr(os, "geteuid") or os.geteuid()):
        pytest.skip("only root makes devices")
    elif kind == "device":
        os.mknod(place, 0o20666, os.makedev(1, 5))
    else:
        place.symlink_to("/dev/zero" if "device" in kind else tmp_path / "nothing")
    code = f"import padiff_shim\ntry: padiff_shim.load({str(tmp_path)!r})\nexcept OSError as error: print(type(error), error)"
    done = forked.run(["-c", code])
    assert "LogError" in done.stdout, done
    assert NAME in done.stdout


def test_a_log_that_vanishes_under_a_reader_is_said(tmp_path):
    run = load(put(tmp_path, HEADER, *lines_of([record(1)])))
    (tmp_path / NAME).unlink()
    assert len(run.calls) == 1
    for use in (
        lambda: run.calls[0],
        lambda: list(run.calls),
        lambda: run.calls.filter(step=0),
        lambda: run.save(tmp_path / "r.html"),
    ):
        with pytest.raises(LogError, match="No such file"):
            use()
    assert run.worst(1)[0].call == 1


def test_a_relative_folder_stays_where_it_was_when_it_was_given(tmp_path, monkeypatch):
    put(tmp_path / "log", HEADER, *lines_of([record(1)]))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = load("log")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run.calls[0].call == 1
