"""``reference(profile=True)`` and ``reference(log=...)``: what a run notes of layers, lines and times, and keeps."""

import json
import os

import numpy as np
import paddle
import pytest

import padiff_shim
from padiff_shim.runlog import reference_log

pytestmark = pytest.mark.compat


class Block(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.down = paddle.nn.Linear(4, 8), paddle.nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(paddle.nn.functional.gelu(self.up(x)))


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.blocks = paddle.nn.LayerList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return paddle.nn.functional.dropout(x, 0.25)  # draws from Paddle's generator: stays native


def trained(**options):
    """Losses and parameters of a short training, and its run."""
    paddle.seed(3)
    model = Net()
    optimizer = paddle.optimizer.AdamW(0.1, parameters=model.parameters())
    x = paddle.to_tensor(np.linspace(-1, 1, 24, dtype="float32").reshape(6, 4))
    losses = []
    with padiff_shim.reference("torch", **options) as run:
        for _ in range(3):
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(loss.item())
    return losses, [parameter.numpy() for parameter in model.parameters()], run


@pytest.mark.bitexact
def test_a_profile_changes_no_bit_and_no_count():
    losses, parameters, run = trained()
    again, profiled, noted = trained(profile=True)
    assert again == losses
    assert all(result.tobytes() == other.tobytes() for result, other in zip(parameters, profiled))
    assert noted.to_dict()["ops"] == run.to_dict()["ops"]
    assert run.to_dict()["profile"] is None


def test_calls_are_noted_by_layer_and_line():
    run = trained(profile=True)[2]
    places = run.to_dict()["profile"]["places"]
    calls = {(place["part"], place["op"], place["layer"]): place["calls"] for place in places}
    for layer in ("blocks.0.up", "blocks.1.down"):
        assert calls["reference", "linear", layer] == calls["backward", "linear", layer] == 3
    assert calls["reference", "gelu", "blocks.1"] == 3
    assert {place["site"] for place in places if place["op"] == "gelu"} == {
        other["site"] for other in places if other["op"] == "add"
    }
    assert all("test_profile.py:" in place["site"] for place in places if place["op"])
    forward = {op: counts["substituted"] for op, counts in run.to_dict()["ops"].items() if op not in run.optimizers}
    for op, number in forward.items():
        assert sum(place["calls"] for place in places if (place["part"], place["op"]) == ("reference", op)) == number
    native = [line for line in run.to_dict()["lines"] if line["op"] == "dropout"]
    assert native
    assert all(line["calls"] == 3 and "in forward" in line["site"] for line in native)


def test_times_add_up_to_less_than_the_mode_was_open():
    run = trained(profile=True)[2]
    profile = run.to_dict()["profile"]
    assert profile["threads"] == 1
    assert 0 < sum(place["seconds"] for place in profile["places"]) <= profile["seconds"] + 1e-6 * len(profile["places"])
    parts = {place["part"] for place in profile["places"]}
    assert {"reference", "native", "backward", "optimizer"} <= parts


def test_lines_are_noted_without_a_profile():
    run = trained()[2]
    lines = [line for line in run.to_dict()["lines"] if line["op"] == "dropout"]
    assert lines
    assert all("test_profile.py:" in line["site"] and line["layer"] == "" for line in lines)


def test_a_log_holds_the_run(tmp_path):
    run = trained(profile=True, log=tmp_path / "log")[2]
    read = padiff_shim.load(tmp_path / "log")
    assert read.to_dict() == run.to_dict()
    assert str(read) == str(run)
    assert read.markdown() == run.markdown()


def test_a_log_in_a_relative_folder_stays_where_it_was_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mode = padiff_shim.reference("torch", log="log")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    with mode:
        paddle.ones([2]).exp()
    assert padiff_shim.load(tmp_path / "log").substituted == {"exp": 1}


def test_two_runs_of_a_process_have_a_log_each_and_are_added_up(tmp_path):
    for _ in range(2):
        with padiff_shim.reference("torch", log=tmp_path):
            paddle.ones([2]).exp()
    assert len(reference_log.files(tmp_path)) == 2
    run = padiff_shim.load(tmp_path)
    assert (run.substituted, run.processes) == ({"exp": 2}, 2)


def test_runs_that_are_made_before_either_is_opened_have_a_log_each(tmp_path):
    modes = [padiff_shim.reference("torch", log=tmp_path) for _ in range(2)]
    for mode, op in zip(modes, ("exp", "tanh")):
        with mode:
            getattr(paddle.ones([2]), op)()
    assert padiff_shim.load(tmp_path).substituted == {"exp": 1, "tanh": 1}


def test_a_run_that_cannot_be_kept_says_so_and_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    mode = padiff_shim.reference("torch", log=tmp_path / "file" / "log")
    with pytest.warns(RuntimeWarning, match="cannot be written"), mode as run:
        paddle.ones([2]).exp()
    assert run.substituted == {"exp": 1}
    assert any("cannot be written" in warning for warning in run.warnings)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_no_log(tmp_path):
    mode = padiff_shim.reference("torch", log=tmp_path)
    mode.start()
    child = os.fork()
    if not child:
        try:
            mode.stop()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    (path,) = reference_log.files(tmp_path)
    assert reference_log.read(path)["ended"] is False, "what the parent wrote on the way"
    mode.stop()
    assert reference_log.files(tmp_path) == [path]
    assert reference_log.read(path)["ended"] is True


@pytest.mark.parametrize("natively", [(), (2,)], ids=["nothing before", "a native call before"])
def test_the_first_backward_is_kept_however_soon_it_ends(natively, tmp_path, monkeypatch):
    monkeypatch.setattr("padiff_shim.runs.run._EVERY", 1000.0)
    x = paddle.ones([2])
    x.stop_gradient = False
    with padiff_shim.reference("torch", log=tmp_path) as run:
        for number in natively:
            paddle.randn([number])
        assert bool(run.native) is bool(natively)
        x.exp().sum().backward()
        (path,) = reference_log.files(tmp_path)
        assert reference_log.read(path)["ops"]["exp"]["substituted"] == 1


def test_what_another_thread_writes_on_the_way_does_not_undo_the_end(tmp_path, monkeypatch):
    """A thread that is about to keep what is counted so far, while the mode closes."""
    mode = padiff_shim.reference("torch", log=tmp_path)
    run = mode.start()
    paddle.ones([2]).exp()
    monkeypatch.setattr(run, "_due", 0.0)
    mode.stop()
    run.on_the_way()
    (path,) = reference_log.files(tmp_path)
    assert reference_log.read(path)["ended"] is True
    assert padiff_shim.load(tmp_path).warnings == []


BROKEN = [
    b"",
    b"[]",
    b'{"type": "reference", "ops": {"exp": {"substituted": -1}}}',
    b'{"type": "reference", "ops": {"exp": 3}}',
    b'{"type": "reference", "ops": {"exp": {"native": {"why": "x"}}}}',
    b'{"type": "reference", "lines": [{"op": 3}]}',
    b'{"type": "reference", "profile": {"seconds": NaN}}',
    b'{"type": "reference", "profile": {"places": [{"part": "elsewhere", "op": "exp"}]}}',
    b'{"type": "reference", "warnings": "one"}',
    b'{"type": "reference", "ops": {"exp": {"substituted": 99999999999999999999999}}}',
    b"[" * 100_000,
    b"\xff\xfe",
]


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_log_is_refused(content, tmp_path):
    (tmp_path / "reference-rank0-pid1.json").write_bytes(content)
    with pytest.raises(padiff_shim.LogError, match="is no log of a reference run"):
        padiff_shim.load(tmp_path)


def test_beside_a_good_log_it_is_left_out_with_a_warning(tmp_path):
    with padiff_shim.reference("torch", log=tmp_path):
        paddle.ones([2]).exp()
    (tmp_path / "reference-rank7-pid1.json").write_text("{")
    with pytest.warns(RuntimeWarning, match="left out"):
        run = padiff_shim.load(tmp_path)
    assert run.substituted == {"exp": 1}
    assert any("left out" in warning for warning in run.warnings)


def test_a_log_may_hold_little(tmp_path):
    (tmp_path / "reference-rank0-pid1.json").write_text(
        json.dumps({"type": "reference", "profile": {"seconds": "inf", "places": []}})
    )
    run = padiff_shim.load(tmp_path)
    assert run.seconds == 0
    assert str(run)


def test_a_folder_without_logs_is_named(tmp_path):
    with pytest.raises(padiff_shim.LogError, match="holds no log"):
        padiff_shim.load(tmp_path)
    with pytest.raises(padiff_shim.LogError, match="does not exist"):
        padiff_shim.load(tmp_path / "none")


def test_a_comparison_takes_no_profile():
    with pytest.raises(padiff_shim.PadiffShimError, match="profile= belongs to reference"):
        padiff_shim.reference("torch", compare=True, profile=True)
