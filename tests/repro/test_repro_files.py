"""Saved operands as files: damaged ones, foreign ones, and layouts that do not fit what was saved."""

import io
import json
import os
import re
import zipfile

import forked
import numpy as np
import pytest
from test_repro_hostile import ARRAY, CALLS, LOG, laid_out, save

from padiff_shim.errors import ArgumentError, FileError, PadiffShimError
from padiff_shim.repro import script as repro_script
from padiff_shim.runlog import inputs
from padiff_shim.runlog.inputs import strided_view

MADE, ARRAYS = CALLS["linear"]
INDEX = {"index": 0}


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ([7], [1]),
        ([2, 3], [4, 1]),
        ([2], [6]),
        ([2, 2], [3, 3]),
        ([2**40], [1]),
        ([2**61, 2], [0, 6]),
        ([6], [-1]),
        ([-1], [1]),
        ([2, 3], [1]),
        ([6.0], [1]),
        ([True], [1]),
        (["6"], [1]),
        ([1] * 40, [1] * 40),
        (6, 1),
        ({"a": 1}, {"a": 1}),
        (None, None),
    ],
    ids=str,
)
def test_a_layout_that_does_not_fit_the_array_is_refused(tmp_path, shape, strides):
    layout = {**laid_out(ARRAYS), "x": {"shape": shape, "strides": strides}}
    save(tmp_path, MADE, layout, ARRAYS)
    with pytest.raises(FileError, match="cannot be read"):
        inputs.load_inputs(tmp_path, INDEX, LOG)


def test_layouts_that_fit_are_those_that_numpy_makes():
    flat = np.arange(12.0)
    for array in (flat.reshape(3, 4).T, flat[::5], flat.reshape(3, 4)[:, :0], np.broadcast_to(flat, (3, 12)), flat[:1].reshape(())):
        strides = [stride // 8 for stride in array.strides]
        np.testing.assert_array_equal(strided_view(flat, list(array.shape), strides), array)


def test_a_script_checks_the_layout_again(tmp_path):
    """Its data is a file of its own, which somebody may exchange."""
    script = repro_script.write(*CALLS["sum"], tmp_path / "show.py")
    with np.load(script.with_suffix(".npz")) as file:
        content = dict(file)
    layout = json.loads(str(content["layout"]))
    layout["paddle"]["strides"] = [10**6, 1]
    np.savez(script.with_suffix(".npz"), **{**content, "layout": np.array(json.dumps(layout))})
    done = forked.run([script])
    assert re.search("ValueError: shape .* reaches beyond the 6 numbers", done.stderr), done.stderr


class Boom:
    def __reduce__(self):
        return os.system, ("echo owned > owned",)


HUGE = {"descr": "<f4", "fortran_order": False, "shape": (10**13,)}
WRITTEN = {  # what is damaged -> the member of the file, and what writes it anew
    "pickled": ("x.npy", lambda file: np.save(file, np.array([Boom()], dtype=object))),
    "huge": ("x.npy", lambda file: np.lib.format.write_array_header_1_0(file, HUGE)),
    "text": ("x.npy", lambda file: np.save(file, np.array(["a", "b"]))),
    "complex": ("x.npy", lambda file: np.save(file, np.ones(6, np.complex64))),
    "nested": ("layout.npy", lambda file: np.save(file, np.array("[" * 100_000))),
}


def damaged(path, how):
    content = path.read_bytes()
    if how == "torn":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        path.write_bytes(content.replace(np.arange(6, dtype=np.float32).tobytes(), b"\xff" * 24, 1))
    elif how == "an array alone":
        with path.open("wb") as file:
            np.save(file, ARRAY)
    else:
        damage_member(path, how)


def damage_member(path, how):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if how == "no layout":
        del members["layout.npy"]
    else:
        member, write = WRITTEN[how]
        content = io.BytesIO()
        write(content)
        members[member] = content.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


HOW = ("torn", "empty", "flipped", "an array alone", *WRITTEN, "no layout")


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_file_is_refused(tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path, MADE, laid_out(ARRAYS), ARRAYS)
    damaged(path, how)
    with pytest.raises(FileError, match=re.escape(path.name)):
        inputs.load_inputs(tmp_path, INDEX, LOG)
    assert not (tmp_path / "owned").exists()


def test_a_file_that_unpacks_to_very_much_is_refused(tmp_path, monkeypatch):
    path = save(tmp_path, MADE, laid_out(ARRAYS), ARRAYS)
    monkeypatch.setattr(inputs, "_LARGEST", path.stat().st_size // 2)
    with pytest.raises(FileError, match="more than"):
        inputs.load_inputs(tmp_path, INDEX, LOG)


def test_a_pipe_in_place_of_a_file_is_no_file(tmp_path):
    os.mkfifo(tmp_path / f"{LOG}-0.npz")
    with pytest.raises(PadiffShimError, match="were not saved"):
        inputs.load_inputs(tmp_path, INDEX, LOG)


def test_odd_names_beside_the_operands_do_not_matter(tmp_path):
    save(tmp_path, MADE, laid_out(ARRAYS), ARRAYS)
    for name in (f"{LOG}-one.npz", f"{LOG}-.npz", f"{LOG}-²3.npz", "x.npz"):
        (tmp_path / name).touch()
    with pytest.raises(PadiffShimError, match=r"saved ones: 0\)"):
        inputs.load_inputs(tmp_path, {"index": 7}, LOG)


@pytest.mark.parametrize("changes", [{"op": "exp"}, {"tensor": "grad:x"}, {"phase": "backward"}], ids=str)
def test_operands_of_another_record_are_refused(tmp_path, changes):
    save(tmp_path, MADE, laid_out(ARRAYS), ARRAYS)
    with pytest.raises(FileError, match="another record"):
        inputs.load_inputs(tmp_path, {**INDEX, **changes}, LOG)


@pytest.mark.parametrize(("log", "index"), [("../x", 0), ("a/b", 0), ("", 0), ("..", 0), (LOG, "0/../../x"), (LOG, None)])
def test_no_name_leads_out_of_the_folder(tmp_path, log, index):
    with pytest.raises(ArgumentError, match="name of a log"):
        inputs.load_inputs(tmp_path, {"index": index}, log)
    with pytest.raises(ArgumentError, match="name of a log"):
        inputs.save_inputs(tmp_path, {"index": index}, {}, log)


@pytest.mark.parametrize("path", ["show.npz", "show.NPZ", "", ".", "a\0b", 3, None, b"show.py", "folder"])
def test_the_script_is_a_file_of_its_own(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ArgumentError, match="path= is "):
        repro_script.write(MADE, ARRAYS, path)


def test_a_script_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot be written"):
        repro_script.write(MADE, ARRAYS, tmp_path / "file" / "show.py")


def test_arrays_of_other_things_than_numbers_are_not_saved(tmp_path):
    with pytest.raises(ArgumentError, match="not of numbers"):
        inputs.save_inputs(tmp_path, INDEX, {"x": np.array([Boom()], dtype=object)}, LOG)
