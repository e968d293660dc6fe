"""Files that an earlier version wrote: logs of both modes are read as they were, recordings of another form are refused."""

from pathlib import Path

import pytest

import padiff_shim
from padiff_shim.errors import FileError

FILES = Path(__file__).parent / "written_before"


def test_a_log_of_a_comparison():
    run = padiff_shim.load(FILES / "compare")
    assert run.warnings == run.header["warnings"]
    assert "softmax" in run.answer
    assert {call.op for call in run.calls} == set(run.by_op())
    assert run.counts.records == len(run.calls) == 20


def test_a_log_of_a_reference_run():
    run = padiff_shim.load(FILES / "reference")
    assert run.substituted["linear"] == 2
    assert run.backward["layer_norm"] == 1
    assert run.profiles


def test_recordings_of_another_form_are_refused():
    """They say nothing of optimizers' settings, and their operands have digests of another length."""
    with pytest.raises(FileError, match="schema 1 is"):
        padiff_shim.diff(FILES / "recording_full", FILES / "recording_full")
