"""Files that a user names: written whole, and tried out without a trace."""

import os
import subprocess
import sys
import textwrap

import pytest
from helpers import ROOT

from padiff_shim.errors import FileError
from padiff_shim.files import replace, try_file, try_folder, write

pytestmark = pytest.mark.compat


def test_what_is_replaced_is_there_before_or_after(tmp_path):
    target = tmp_path / "new" / "note.json"
    replace(target, "one")
    assert replace(target, "two \udc80") == target
    assert target.read_text() == "two \\udc80"
    assert os.listdir(target.parent) == ["note.json"]


def test_what_cannot_be_replaced_leaves_nothing(tmp_path):
    (tmp_path / "note").mkdir()
    with pytest.raises(FileError, match=r"the log .*note cannot be written: "):
        replace(tmp_path / "note", "text", "the log ")
    assert os.listdir(tmp_path) == ["note"]


def test_trying_leaves_everything_as_it_was(tmp_path):
    (tmp_path / "old").write_text("text")
    before = os.stat(tmp_path / "old")
    for name in ("old", "new", "folder/new"):
        try_file(tmp_path / name)
        assert write(tmp_path / name, "text").is_file()
        assert name == "old" or not os.remove(tmp_path / name)
    try_folder(tmp_path / "logs" / "monday")
    assert sorted(os.listdir(tmp_path)) == ["folder", "old"]
    try_file(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "text"
    assert os.stat(tmp_path / "old").st_ino == before.st_ino


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    try_file(tmp_path / "pipe")


@pytest.mark.parametrize("path", ["file/below", "file/far/below", ".", "/proc/none"])
def test_what_cannot_be_written_is_told(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=f"the page {path} cannot be written: "):
        try_file(path, "the page ")
    if path != ".":
        with pytest.raises(FileError, match="cannot be written"):
            try_folder(path)


FULL = """
    import resource, signal, sys
    from padiff_shim.errors import FileError
    from padiff_shim.files import write
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    for name in ("new.html", "old.html"):
        try:
            write(name, "x" * 5000, "the page ")
        except FileError as error:
            print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_full_disk_leaves_no_half_of_a_file_and_what_was_there(tmp_path):
    (tmp_path / "old.html").write_text("yesterday's" * 50)
    words = [sys.executable, "-c", textwrap.dedent(FULL)]
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"the page {name} cannot be written: File too large" for name in ("new.html", "old.html")]
    assert os.listdir(tmp_path) == ["old.html"]
    assert (tmp_path / "old.html").read_text() == "yesterday's" * 50
