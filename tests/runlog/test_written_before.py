"""Files that an earlier version wrote are read as they were: logs of both modes, and recordings of both frameworks."""

from pathlib import Path

import padiff_shim
from padiff_shim.recording.reading import read

FILES = Path(__file__).parent / "written_before"


def test_a_log_of_a_comparison():
    run = padiff_shim.load(FILES / "compare")
    assert run.warnings == run.header["warnings"]
    assert run.answer.startswith("The first NaN comes in with x of softmax")
    assert {call.op for call in run.calls} == set(run.by_op())
    assert run.counts.records == len(run.calls) == 20


def test_a_log_of_a_reference_run():
    run = padiff_shim.load_reference(FILES / "reference")
    assert run.substituted["linear"] == 2
    assert run.backward["layer_norm"] == 1
    assert run.profiles


def test_recordings():
    full, torch = read(FILES / "recording_full")[0], read(FILES / "recording_torch")[0]
    assert len(full.tensors) == 62
    assert full.tensors[0].values() is not None
    assert torch.framework == "torch"
    difference = padiff_shim.diff(FILES / "recording_full", FILES / "recording_other")
    assert difference.first.a.name == "layer_norm"
    assert difference.counts.differing == 48
    assert padiff_shim.diff(FILES / "recording_full", FILES / "recording_full")
    assert not padiff_shim.diff(FILES / "recording_torch", FILES / "recording_full").holes
