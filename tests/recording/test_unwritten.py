"""What a kernel leaves unwritten holds whatever lay in memory: declared in the op table, and in no recording.

Found by running every call twice, in memory that was filled with two different bytes (``tests/recording/poisoned.py``).
"""

import json
import os
import platform
import re
from pathlib import Path

import forked
import pytest
from helpers import ROOT, has_defect
from padiff_shim.patches import _unsubstituted

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.recording.reading import merged, read

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that fills memory"),
]
PROGRAM = Path(__file__).with_name("poisoned.py")
BYTES = ("85", "170")
# Ops whose results, or gradients, a program sees and no kernel writes: these are Paddle's defects.
DEFECTS = {
    "amax": "amax of no elements returns unwritten memory",
    "amin": "amax of no elements returns unwritten memory",
    "argmax": "argmax of no elements returns unwritten memory",
    "argmin": "argmax of no elements returns unwritten memory",
    "bilinear": "bmm over an empty axis returns unwritten memory",
    "bmm": "bmm over an empty axis returns unwritten memory",
    "dot": "mv and dot over an empty axis return unwritten memory",
    "expand_as": "expand_as of an empty axis crashes",
    "gather": "gather from an empty tensor reads unwritten memory",
    "gather_nd": "gather from an empty tensor reads unwritten memory",
    "masked_fill": "masked_fill gradient of the value is wrong",
    "matmul": "matmul over an empty axis returns unwritten memory",
    "multi_dot": "mv and dot over an empty axis return unwritten memory",
    "mv": "mv and dot over an empty axis return unwritten memory",
    "triangular_solve": "triangular_solve gradient reads unwritten memory",
}


def unwritten(folder, part, *, record=False):
    """(case, result) of what differs by the byte that lay in memory, and how many cases were compared."""
    answers = []
    for byte in BYTES:
        file = folder / f"{part}-{byte}"
        arguments = [part, byte, file, *([folder / byte] if record else [])]
        run = forked.run([PROGRAM, *arguments], PYTHONPATH=f"{ROOT}{os.pathsep}{ROOT / 'tests'}", warm=True)
        assert run.returncode == 0, run.stderr
        answers.append(dict(map(json.loads, file.read_text().splitlines())))
    first, second = answers
    assert first.keys() == second.keys()
    compared = [case for case in first if first[case] is not None and second[case] is not None]
    differing = {(case, name) for case in compared for name in first[case] if first[case][name] != second[case][name]}
    return differing, len(compared)


def declared(case):
    """Places of the results that the call of a case may leave unwritten."""
    door, _, name = case.partition("(")[0].rpartition(".")
    return ops()[name].unwritten_places if door == "C" and name in ops() else _unsubstituted.UNWRITTEN.get(name, frozenset())


@pytest.fixture(scope="module")
def unlisted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unlisted")
    return folder, *unwritten(folder, "unlisted", record=True)


@pytest.mark.avx512
def test_what_is_left_unwritten_is_declared(unlisted):
    _, differing, compared = unlisted
    assert compared > 100
    assert [(case, place) for case, place in differing if int(place) not in declared(case)] == []


@pytest.mark.avx512
def test_what_is_declared_is_left_unwritten(unlisted):
    _, differing, _ = unlisted
    seen = {(case.partition("(")[0], place) for case, place in differing}
    batch_norms = {(f"{door}.batch_norm", place) for door in "CL" for place in "34"}
    assert seen == batch_norms | ({("C.fake_quantize_range_abs_max", "2")} if IS_3 else set())


@pytest.mark.avx512
def test_recordings_of_equal_runs_are_equal(unlisted):
    folder, _, _ = unlisted
    difference = padiff_shim.diff(*(folder / byte for byte in BYTES))
    assert difference, difference
    assert not any("damaged" in note for note in difference.notes)
    results = [tensor.tensor for tensor in merged(read(folder / BYTES[0])[0].steps()).tensors if tensor.name == "batch_norm"]
    assert {"[0]", "[1]", "[2]"} == set(results)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["table", "empty", "alone"], ids=["table", "without elements", "one gradient alone"])
def test_whatever_else_is_unwritten_is_a_defect_of_paddles(part, tmp_path):
    differing, compared = unwritten(tmp_path, part)
    assert compared > 800
    names = {re.split("[: ]", case)[0] for case, _ in differing}
    assert [name for name in names if name not in DEFECTS or not has_defect(DEFECTS[name])] == []
