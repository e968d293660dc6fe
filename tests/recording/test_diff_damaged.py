"""Recordings that are damaged, made to do harm, or none at all."""

import json
import shutil

import pytest
from pairs import damaged, paddle_run, seeded

from padiff_shim import ArgumentError, FileError, diff
from padiff_shim.errors import MissingFileError

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


@pytest.fixture
def right(tmp_path):
    paddle_run(tmp_path / "right", seeded(), parameters=True, gradients=True)
    return tmp_path / "right"


def test_what_is_damaged_is_told(right, tmp_path):
    torn = damaged(tmp_path / "torn", right, lambda lines: [*lines[:9], lines[9][:40]])
    difference = diff(right, torn)
    assert not difference
    assert any("records-rank0" in hole for hole in difference.holes)
    wrong = damaged(
        tmp_path / "wrong", right, lambda lines: [*lines[:5], "nonsense\n", '{"type":"tensor","shape":"x"}\n', *lines[5:]]
    )
    assert any("2 lines of" in hole and "line 6, 7" in hole for hole in diff(right, wrong).holes)
    entry = json.loads(right.glob("records-*.jsonl").__next__().read_text().splitlines()[1])
    for at in (["../../etc/passwd", 0], ["values-rank0-pid1.npy", -1], "x", [1, 2]):
        line = json.dumps({**entry, "at": at}) + "\n"
        hostile = damaged(tmp_path / "hostile", right, lambda lines, line=line: [lines[0], line, *lines[2:]])
        assert any("1 line of" in hole and "$.at" in hole for hole in diff(right, hostile).holes)
        shutil.rmtree(hostile)


def test_damaged_values_are_an_error(right, tmp_path):
    port = seeded()
    port.norm.weight.set_value(port.norm.weight * 2)
    paddle_run(tmp_path / "other", port, parameters=True)
    (values,) = (tmp_path / "other").glob("values-*.npy")
    held = values.read_bytes()
    for broken in (b"", held[:100], b"\x80\x04" + held[2:], held.replace(b"<f4", b"|O ")):
        values.write_bytes(broken)
        with pytest.raises(FileError, match=r"no array at byte|says"):
            diff(right, tmp_path / "other")
    values.unlink()
    with pytest.raises(FileError, match="missing"):
        diff(right, tmp_path / "other")


def test_what_is_no_recording(right, tmp_path):
    with pytest.raises(MissingFileError, match="does not exist"):
        diff(right, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="holds no recording"):
        diff(tmp_path / "empty", right)
    (tmp_path / "empty" / "calls-rank0-pid1.jsonl").write_text("")
    with pytest.raises(FileError, match=r"padiff_shim\.load reads"):
        diff(tmp_path / "empty", right)
    with pytest.raises(FileError, match="is a file"):
        diff(right, next(right.glob("*.npy")))
    for schema in ("1", "99"):
        lines = (line.replace('"schema":3', f'"schema":{schema}') for line in next(right.glob("*.jsonl")).open())
        other = damaged(tmp_path / schema, right, lambda _, lines=lines: lines)
        with pytest.raises(FileError, match=f"schema {schema} is not read here"):
            diff(right, other)
    foreign = damaged(tmp_path / "foreign", right, lambda lines: ['{"type":"run"}\n', *lines[1:]])
    with pytest.raises(FileError, match="does not begin with the header of a recording"):
        diff(right, foreign)
    with pytest.raises(ArgumentError, match="atol"):
        diff(right, right, atol=-1.0)
