"""A recording is whole however its program ends, and in every process of it."""

import contextlib
import os
import signal
import textwrap
from unittest.mock import Mock

import forked
import numpy as np
import paddle
import pytest
import torch
from helpers import in_child

import padiff_shim
from padiff_shim.cli.recorded import RecordOptions
from padiff_shim.recording.files import ValueFile
from padiff_shim.recording.reading import merged, read

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def test_an_error_leaves_what_was_computed(tmp_path):
    def program():
        with padiff_shim.record(tmp_path, framework="paddle"):
            paddle.exp(paddle.ones([2]))
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError):
        program()
    recorded = read(tmp_path)[0]
    assert [tensor.name for tensor in merged(recorded.steps()).tensors] == ["exp"]
    assert recorded.ended == "ZeroDivisionError: mine"
    assert padiff_shim.record(tmp_path / "next", framework="paddle").start().stop() is None


@pytest.mark.parametrize(("kind", "framework"), [("SIGINT", "paddle"), pytest.param("SIGKILL", "torch", marks=pytest.mark.slow)])
def test_a_killed_run_is_whole_up_to_its_last_call(kind, framework, tmp_path):
    program = """
        import importlib, signal, sys, padiff_shim
        signal.signal(signal.SIGINT, signal.default_int_handler)
        framework = importlib.import_module(sys.argv[2])
        with padiff_shim.record(sys.argv[1], framework=sys.argv[2]):
            x = framework.ones([64])
            for number in range(10**9):
                x = framework.tanh(x)
                if number == 20:
                    print("running", flush=True)
    """
    with forked.started(["-c", textwrap.dedent(program), tmp_path, framework], dict(os.environ), warm=True) as ended:
        forked.until_printed("running", ended)
        os.kill(ended.process.pid, getattr(signal, kind))
        ended()
    recorded = read(tmp_path)[0]
    assert len(merged(recorded.steps()).tensors) >= 20
    library = {"paddle": paddle, "torch": torch}[framework]
    wanted = library.ones([64])
    for tensor in merged(recorded.steps()).tensors[:20]:
        wanted = library.tanh(wanted)
        assert np.array_equal(tensor.values(), wanted.numpy())
    assert recorded.ended.startswith("KeyboardInterrupt") if kind == "SIGINT" else any("killed" in hole for hole in recorded.holes)


@pytest.mark.parametrize("values", ["full", "fingerprint"])
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_a_run_that_broke_off_lacks_is_no_difference(killed, values, tmp_path):
    for folder, until in (("whole", 9), ("broken", 1)):
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)), torch.ones(2, 3)
        optimizer = torch.optim.AdamW(model.parameters())
        options = {"values": values} if values == "fingerprint" else {"gradients": True, "parameters": True, "states": True}
        with contextlib.suppress(ZeroDivisionError), padiff_shim.record(tmp_path / folder, model, **options):
            for step in range(3):
                hidden = model[0](x)
                if step == until:
                    raise ZeroDivisionError
                model[1](hidden).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    if killed:
        (records,) = (tmp_path / "broken").glob("*.jsonl")
        records.write_bytes(b"".join(records.read_bytes().splitlines(keepends=True)[:-1]))
    difference = padiff_shim.diff(tmp_path / "whole", tmp_path / "broken")
    assert not difference
    assert difference.counts.compared
    assert not difference.counts.differing, difference.answer
    assert any("killed" in hole if killed else "ZeroDivisionError" in hole for hole in difference.holes)


def test_a_forked_child_has_a_file_of_its_own(tmp_path):
    result = in_child(f"""
        import os
        with padiff_shim.record({str(tmp_path)!r}, framework="torch") as recording:
            torch.exp(torch.ones(3))
            if os.fork() == 0:
                recording.note("child", torch.ones(2))
                os._exit(0)
            os.wait()
            torch.tanh(torch.ones(3))
    """)
    assert result.returncode == 0, result.stderr
    recorded = read(tmp_path)[0]
    assert [tensor.name for tensor in merged(recorded.steps()).tensors] == ["exp", "tanh"]
    assert len(recorded.beside) == 1
    assert len(list(tmp_path.glob("records-*.jsonl"))) == 2


def test_what_a_full_disk_has_lost_is_said(tmp_path, monkeypatch):
    recording = padiff_shim.record(tmp_path, framework="torch").start()
    monkeypatch.setattr(ValueFile, "add", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.warns(RuntimeWarning, match="No space left"):
        recording.note("loss", np.ones(3))
    recording.stop()
    assert "No space left" in str(recording)


@pytest.mark.parametrize(("error", "ended"), [(KeyboardInterrupt(), "KeyboardInterrupt"), (SystemExit(0), "closed")])
def test_how_a_program_under_the_command_ended_is_written(error, ended, tmp_path):
    program = RecordOptions(str(tmp_path), framework="torch").opened()
    program.start()
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
    program.ended_by(error)
    program.stop()
    recorded = read(tmp_path)[0]
    assert len(list(recorded.steps())) == 1
    assert recorded.ended == ended
