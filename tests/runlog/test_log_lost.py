"""A log that is taken away while it is written: said at the next write, and nothing is written where nobody looks."""

import os
import shutil
import warnings

import pytest
from log_data import filled, record

from padiff_shim.runlog.compare_logs import files
from padiff_shim.runlog.reader import LogError
from padiff_shim.runlog.writer import LogWriter
from padiff_shim.runs.compare_run import CompareRun, load


def removed(folder, path):
    shutil.rmtree(folder)


def file_removed(folder, path):
    path.unlink()


def moved(folder, path):
    folder.rename(folder.with_name("moved"))


def replaced(folder, path):
    path.rename(folder / "kept.jsonl")
    path.write_bytes(b"somebody else's\n")


def folder_in_its_place(folder, path):
    path.unlink()
    path.mkdir()


def file_in_the_folders_place(folder, path):
    shutil.rmtree(folder)
    folder.write_text("no folder any more")


TAKEN = (removed, file_removed, moved, replaced, folder_in_its_place, file_in_the_folders_place)


@pytest.mark.parametrize("take", TAKEN, ids=lambda take: take.__name__)
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed before"])
def test_the_next_write_says_so(tmp_path, take, closed):
    run = filled([record(0), record(1)], folder=tmp_path / "log")
    if closed:
        run.recorder.close()
    path = run.recorder.log.path
    take(tmp_path / "log", path)
    with pytest.warns(RuntimeWarning, match="removed, moved or replaced") as caught:
        run.recorder.add(record(2))
    assert str(path) in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once
        run.recorder.add(record(3))
        run.recorder.close()
    assert run.verdicts == {"ROUNDING": 4}, "what is counted needs no log"
    assert len(run.calls) == 0
    assert "removed, moved or replaced" in str(run)
    assert not path.is_file() or path.read_bytes() == b"somebody else's\n", "nothing was made anew in its place"
    with pytest.raises(LogError, match="removed, moved or replaced"):
        run.copy_log(tmp_path / "kept")


def test_closing_says_so_too(tmp_path):
    run = filled([record(0)], folder=tmp_path / "log")
    removed(tmp_path / "log", None)
    with pytest.warns(RuntimeWarning, match="removed, moved or replaced"):
        run.recorder.close()


@pytest.mark.parametrize("take", TAKEN, ids=lambda take: take.__name__)
def test_the_next_write_raises_where_that_is_asked_for(tmp_path, take):
    run = filled([record(0)], folder=tmp_path / "log", on_log_error="raise")
    take(tmp_path / "log", run.recorder.log.path)
    with pytest.raises(LogError, match="removed, moved or replaced"):
        run.recorder.add(record(1))
    assert run.counts.records == 2


def test_a_temporary_folder_that_is_cleaned_away_is_said(tmp_path):
    run = filled([record(0)])
    shutil.rmtree(run.recorder.folder)
    with pytest.warns(RuntimeWarning, match="removed, moved or replaced"):
        run.recorder.add(record(1))


def test_a_log_that_was_moved_holds_what_was_written_before(tmp_path):
    run = filled([record(0), record(1)], folder=tmp_path / "log")
    moved(tmp_path / "log", None)
    with pytest.warns(RuntimeWarning, match="removed, moved or replaced"):
        run.recorder.add(record(2))
    assert [call.call for call in load(tmp_path / "moved").calls] == [0, 1]


def test_operands_are_not_saved_beside_a_log_that_is_gone(tmp_path):
    run = filled([record(0)], folder=tmp_path / "log")
    removed(tmp_path / "log", None)
    with pytest.warns(RuntimeWarning, match="removed, moved or replaced"):
        run.recorder.add(record(1))
    run.recorder.save_inputs({"index": 1}, {})
    assert not (tmp_path / "log").exists()


def test_records_that_are_there_until_the_log_goes_are_said_to_be_missing(tmp_path):
    run = filled([record(0)], folder=tmp_path / "log")
    removed(tmp_path / "log", None)
    with pytest.raises(LogError, match="No such file"):
        len(run.calls)


def test_a_relative_folder_is_that_of_the_moment_when_it_was_given(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = CompareRun(folder="log")
    monkeypatch.chdir(tmp_path / "elsewhere")
    run.begin({}, {})
    run.recorder.add(record(0))
    monkeypatch.chdir(tmp_path)
    run.recorder.add(record(1))
    run.recorder.save_inputs({"index": 1}, {})
    run.recorder.close()
    assert sorted(os.listdir(tmp_path / "log")) == [run.recorder.log.path.name, "inputs"]
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [call.call for call in run.calls] == [0, 1]
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run.copy_log("kept") == tmp_path / "elsewhere" / "kept"
    assert len(load("kept").calls) == 2


def test_a_working_directory_that_is_gone_is_said(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    with pytest.raises(LogError, match="working directory is gone"):
        CompareRun(folder="log")
    with pytest.raises(LogError, match="working directory is gone"):
        load("log")


def test_a_folder_that_may_not_be_looked_into_is_written_on(tmp_path, monkeypatch):
    """Only what is known to be gone is: the file itself can still be written."""
    writer = LogWriter(tmp_path, {})

    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("padiff_shim.runlog.writer._identity", refuse)
    assert writer.write(record(0))
    assert len(files(tmp_path)) == 1
