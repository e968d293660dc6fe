"""What a recording holds, that the program does not notice it, and that it is whole however the program ends."""

import json
import linecache
import textwrap

import forked
import numpy as np
import paddle
import pytest
import torch
from pairs import D, X, paddle_run, pair, seeded, torch_run

import padiff_shim
from padiff_shim import ArgumentError, FileError, ModeError
from padiff_shim.recording.reading import merged, read

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
NAMES = [
    "layer_norm",
    "linear",
    "linear",
    "matmul",
    "divide",
    "softmax",
    "linear",
    "matmul",
    "linear",
    "add",
    "gelu",
    "multiply",
    "sum",
]


def tensors(folder, kind=None):
    return [tensor for tensor in merged(read(folder)[0].steps()).tensors if kind in (None, tensor.kind)]


def one_step(port, mode=None, folder=None, inside=True):
    """A training step; its output, gradients and new weights."""
    x = paddle.to_tensor(X)
    x.stop_gradient = False
    optimizer = paddle.optimizer.AdamW(parameters=port.parameters())
    recording = padiff_shim.record(folder, port, parameters=True, gradients=True) if folder else None
    modes = [mode() if mode else None, recording]
    opened = [mode for mode in (modes if inside else modes[::-1]) if mode is not None]
    for each in opened:
        each.start()
    out = port(x)
    out.sum().backward()
    gradients = [p.grad.numpy().copy() for p in port.parameters()]
    optimizer.step()
    optimizer.clear_grad()
    for each in opened[::-1]:
        each.stop()
    return [out.numpy(), x.grad.numpy(), *gradients, *(p.numpy() for p in port.parameters())]


@pytest.mark.rows(3)
@pytest.mark.parametrize("inside", [True, False], ids=["recorded inside", "recorded outside"])
@pytest.mark.parametrize("mode", ["native", "reference", "compare"])
@pytest.mark.bitexact
def test_no_bit_changes_and_the_calls_are_written(mode, inside, tmp_path):
    door = {"native": None, "reference": lambda: padiff_shim.reference("torch"), "compare": lambda: padiff_shim.compare("torch")}[
        mode
    ]
    plain = one_step(seeded(), door)
    recorded = one_step(seeded(), door, tmp_path / "run", inside)
    assert all(np.array_equal(before, other) for before, other in zip(plain, recorded))
    recorded_tensors = tensors(tmp_path / "run")
    assert [tensor.name for tensor in recorded_tensors if tensor.kind == "op"] == NAMES
    assert [tensor.layer for tensor in recorded_tensors if tensor.kind == "layer"] == ["norm", "q", "k", "v", "out", ""]
    gradients = [tensor for tensor in recorded_tensors if tensor.kind == "gradient"]
    assert [tensor.name for tensor in gradients] == [name for name, _ in seeded().named_parameters()]
    assert all(np.array_equal(tensor.values(), array) for tensor, array in zip(gradients, recorded[2:]))
    parameters = [tensor for tensor in recorded_tensors if tensor.kind == "parameter"]
    assert len(parameters) == 2 * len(gradients), "before and after the update"
    assert all(
        np.array_equal(tensor.values(), array)
        for tensor, array in zip(parameters[len(gradients) :], recorded[2 + len(gradients) :])
    )


def test_a_reference_run_is_counted_as_without_recording(tmp_path):
    runs = []
    for folder in (None, tmp_path / "run"):
        recording = padiff_shim.record(folder) if folder else None
        port = seeded()
        with padiff_shim.reference("torch", exclude=["softmax"]) as run:
            if recording is not None:
                recording.start()
            port(paddle.to_tensor(X)).sum().backward()
            if recording is not None:
                recording.stop()
        runs.append(run)
    assert runs[0].to_dict()["ops"] == runs[1].to_dict()["ops"]
    assert runs[1].native["softmax"], "what the mode leaves out stays native"


def test_a_record_says_line_layer_and_values(tmp_path):
    _, result = paddle_run(tmp_path, seeded(), backward=False)
    last = tensors(tmp_path, "op")[-1]
    assert (last.name, last.layer, last.shape, last.dtype, last.step) == ("multiply", "", (3, 5, D), "float32", 0)
    assert "pairs.py" in last.file
    assert "self.factor" in linecache.getline(last.file, last.line)
    assert np.array_equal(last.values(), result.numpy())
    assert last.figures["max"] == float(result.numpy().max())


def test_a_torch_module(tmp_path):
    original = pair()[0]
    _, result = torch_run(tmp_path, original, parameters=True, gradients=True)
    assert [tensor.name for tensor in tensors(tmp_path, "op")] == NAMES
    assert [tensor.layer for tensor in tensors(tmp_path, "layer")] == ["norm", "q", "k", "v", "out", ""]
    assert np.array_equal(tensors(tmp_path, "op")[-2].values(), result.detach().numpy())
    assert len(tensors(tmp_path, "gradient")) == len(list(original.parameters()))
    assert not torch.overrides._get_current_function_mode_stack()


def test_a_cudnn_of_another_version_matters_to_no_run_on_a_cpu(tmp_path, monkeypatch):
    """A Torch that is built for CUDA finds it beside other programs, and raises."""

    def other():
        raise RuntimeError("cuDNN version incompatibility")

    monkeypatch.setattr(torch.backends.cudnn, "version", other)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with padiff_shim.record(tmp_path, framework="torch"):
        torch.exp(torch.zeros(3))
    assert read(tmp_path)[0].header["environment"]["torch.cudnn"] == "None"


def test_steps_end_with_an_optimizer_or_when_told(tmp_path):
    layer = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with padiff_shim.record(tmp_path, layer, gradients=True, parameters=True) as recording:
        for _ in range(2):
            loss = layer(torch.ones(3, 4)).sum()
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        recording.next_step()
        recording.note("accuracy", 0.5)
    recorded_tensors = tensors(tmp_path)
    assert [tensor.step for tensor in recorded_tensors if tensor.kind == "layer"] == [0, 1]
    assert [tensor.step for tensor in recorded_tensors if tensor.kind == "gradient"] == [0, 0, 1, 1]
    assert [(tensor.step, tensor.values().item()) for tensor in recorded_tensors if tensor.kind == "note"] == [(2, 0.5)]


@pytest.mark.parametrize("framework", ["paddle", "torch"])
def test_bfloat16_float16_and_what_has_no_values(framework, tmp_path):
    with padiff_shim.record(tmp_path, framework=framework, calls=False) as recording:
        for dtype in ("bfloat16", "float16", "bool", "int64", "complex64"):
            values = np.array([0.0, 1.0, 3.140625], "float32")
            tensor = paddle.to_tensor(values) if framework == "paddle" else torch.from_numpy(values)
            recording.note(dtype, tensor.astype(dtype) if framework == "paddle" else tensor.to(getattr(torch, dtype)))
            recording.note(
                f"one {dtype}", tensor.astype(dtype)[2] if framework == "paddle" else tensor.to(getattr(torch, dtype))[2]
            )
        recording.note("empty", np.zeros((0, 3)))
        recording.note("scalar", np.float64(2))
    by_name = {tensor.name: tensor for tensor in tensors(tmp_path)}
    assert by_name["bfloat16"].dtype == "bfloat16"
    assert by_name["bfloat16"].values().tolist() == [0, 1, 3.140625]
    assert by_name["one bfloat16"].values().tolist() == by_name["one float16"].values().tolist() == 3.140625
    assert by_name["float16"].values().dtype == np.float16
    assert by_name["bool"].values().tolist() == [False, True, True]
    assert by_name["complex64"].values().dtype == np.complex64
    assert by_name["empty"].values().shape == (0, 3)
    assert by_name["scalar"].values().shape == ()


def test_digests_and_a_budget(tmp_path):
    port = seeded()
    paddle_run(tmp_path / "full", port)
    paddle_run(tmp_path / "digest", port, values="digest")
    paddle_run(tmp_path / "budget", port, budget=2000)
    full, digest, budget = (tensors(tmp_path / name) for name in ("full", "digest", "budget"))
    assert [tensor.digest for tensor in full] == [tensor.digest for tensor in digest] == [tensor.digest for tensor in budget]
    assert not list((tmp_path / "digest").glob("values-*"))
    assert all(tensor.values() is None and tensor.sample for tensor in digest)
    assert {tensor.left_out for tensor in budget} == {"", "beyond budget="}
    assert sum(file.stat().st_size for file in (tmp_path / "budget").glob("values-*")) <= 2000
    assert padiff_shim.diff(tmp_path / "full", tmp_path / "digest")
    assert padiff_shim.diff(tmp_path / "full", tmp_path / "budget")


def test_nothing_is_pickled(tmp_path):
    paddle_run(tmp_path, seeded())
    (values,) = tmp_path.glob("values-*.npy")
    with open(values, "rb") as file:
        first = np.load(file, allow_pickle=False)
        assert np.array_equal(first, tensors(tmp_path)[0].values())
    for line in next(tmp_path.glob("records-*.jsonl")).read_text().splitlines():
        json.loads(line)


def test_a_torch_program_is_recorded_and_compared_without_paddle(tmp_path):
    program = f"""
        import sys
        sys.modules["paddle"] = None
        import torch, padiff_shim
        for name in "ab":
            torch.manual_seed(0)
            layer = torch.nn.Linear(4, 2)
            with padiff_shim.record({str(tmp_path)!r} + "/" + name, layer, parameters=True):
                layer(torch.ones(3, 4))
        sys.modules["torch"] = None
        print(padiff_shim.diff({str(tmp_path)!r} + "/a", {str(tmp_path)!r} + "/b").answer)
    """
    result = forked.run(["-c", textwrap.dedent(program)], warm=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("SAME: 4 tensors compared")


def test_a_folder_takes_one_recording_of_a_rank(tmp_path, monkeypatch):
    paddle_run(tmp_path, seeded())
    with pytest.raises(FileError, match="holds a recording of rank 0 already"):
        padiff_shim.record(tmp_path, framework="paddle").start()
    paddle_run(tmp_path, seeded(), overwrite=True, backward=False)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    paddle_run(tmp_path, seeded())
    assert list(read(tmp_path)) == [0, 1]


def test_what_is_refused(tmp_path):
    for options, words in (
        ({"values": "all"}, "values"),
        ({"framework": "jax"}, "framework"),
        ({"model": 3}, "model= is a paddle.nn.Layer or a torch.nn.Module, got 3"),
        ({"model": torch.nn.Linear(1, 1), "framework": "paddle"}, "is a model of torch"),
        ({"parameters": True}, "needs model="),
        ({"budget": -1}, "budget"),
        ({"calls": False, "layers": False}, "nothing would be recorded"),
        ({"calls": 1}, "calls= is True or False"),
    ):
        with pytest.raises(ArgumentError, match=words):
            padiff_shim.record(tmp_path, **options)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file"):
        padiff_shim.record(tmp_path / "file" / "below", framework="paddle").start()
    with padiff_shim.record(tmp_path / "open", framework="paddle") as recording:
        with pytest.raises(ModeError, match="another recording of paddle is open"):
            padiff_shim.record(tmp_path / "second", framework="paddle").start()
        with pytest.raises(ModeError, match="started already"):
            recording.start()
    with pytest.raises(ModeError, match="not open"):
        recording.note("late", 1.0)


def test_a_sparse_tensor_is_recorded_by_what_it_holds(tmp_path):
    """Paddle's own ``numpy()`` of one ends the process."""
    for name, other in (("a", 1.0), ("b", 2.0)):
        sparse = paddle.sparse.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, other], [3, 3])
        with padiff_shim.record(tmp_path / name) as recording:
            paddle.sparse.nn.functional.relu(sparse)
            recording.note("rows", paddle.sparse.sparse_csr_tensor([0, 1, 2, 2], [1, 0], [1.0, other], [3, 3]))
    assert {held.tensor for held in tensors(tmp_path / "a")} == {"indices", "values", "crows", "cols"}
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert {row.any.tensor for row in difference.differing} == {"values"}


def test_sparse_tensors_of_torch(tmp_path):
    for name, other in (("a", 1.0), ("b", 2.0)):
        sparse = torch.tensor([[0.0, 1.0], [other, 0.0]])
        with padiff_shim.record(tmp_path / name, framework="torch") as recording:
            recording.note("places", sparse.to_sparse())
            recording.note("rows", sparse.to_sparse_csr())
            recording.note("blocks", sparse.to_sparse_bsr((1, 1)))
    names = [(held.name, held.tensor) for held in tensors(tmp_path / "a", "note")]
    assert [*names] == [
        ("places", "indices"), ("places", "values"), ("rows", "crows"), ("rows", "cols"), ("rows", "values"), ("blocks", "out"),
    ]  # fmt: skip
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert {row.any.tensor for row in difference.differing} == {"values"}


def test_gradients_of_rows(tmp_path):
    for name, word in (("a", 1), ("b", 2)):
        paddle.seed(0)
        words = paddle.nn.Embedding(5, 3, sparse=True)
        with padiff_shim.record(tmp_path / name, words, gradients=True):
            words(paddle.to_tensor([word, word])).sum().backward()
    assert [held.tensor for held in tensors(tmp_path / "a", "gradient")] == ["rows", "values"]
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert [row.any.tensor for row in difference.differing if row.any.kind == "gradient"] == ["rows"]
