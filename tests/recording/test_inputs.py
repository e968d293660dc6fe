"""Two runs that were given other data, or began with other weights: from which step and batch on."""

import random

import numpy as np
import paddle
import pytest
import torch
from pairs import X, paddle_run, pair, seeded, torch_run

import padiff_shim
from padiff_shim.recording.reading import merged, read

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def trained(folder, batches, seed=1, epsilon=1e-5, recorded=True, body=None):
    """A model that takes one step with each batch of (numbers, labels)."""
    paddle.seed(seed)
    model = body or paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.LayerNorm(16, epsilon=epsilon), paddle.nn.Linear(16, 2))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    with padiff_shim.record(folder, model if recorded else None):
        for numbers, labels in batches:
            paddle.nn.functional.cross_entropy(model(paddle.to_tensor(numbers)), paddle.to_tensor(labels)).backward()
            optimizer.step()
            optimizer.clear_grad()


def data(folder):
    """The inputs of a run that are no weights."""
    return [tensor for tensor in merged(read(folder)[0].steps()).inputs if tensor.tensor != "weight"]


def origin(difference):
    """(step, batch, call, tensor, layer) of the first input that differs."""
    first = difference.origin.any
    step = [row for row in difference.inputs if row.any.step == first.step and row.any.name == first.name]
    return first.step, step.index(difference.origin), first.name, first.tensor, first.layer


def batches(count=3, rows=4):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal((rows, 8)).astype("float32"), rng.integers(0, 2, rows)) for _ in range(count)]


def test_a_forgotten_seed_of_the_order_of_the_data(tmp_path):
    def train(folder, seeded_all):
        random.seed(1)
        paddle.seed(1)
        if seeded_all:
            np.random.seed(1)  # else forgotten: the sampler draws from NumPy
        x, y = paddle.linspace(-1, 1, 512).reshape([64, 8]), paddle.arange(64) % 2
        loader = paddle.io.DataLoader(paddle.io.TensorDataset([x, y]), batch_size=16, shuffle=True)
        trained(folder, [(a.numpy(), b.numpy()) for a, b in loader])

    np.random.seed(5)
    for name, seeded_all in (("a", False), ("b", False), ("c", True), ("d", True)):
        train(tmp_path / name, seeded_all)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert origin(difference) == (0, 0, "linear", "x", "0")
    assert "another order" in difference.answer
    assert "transposed" not in str(difference)
    assert padiff_shim.diff(tmp_path / "c", tmp_path / "d")


@pytest.mark.parametrize("recorded", [True, False], ids=["with the model", "without"])
def test_from_which_step_on(recorded, tmp_path):
    right = batches()
    other = [*right[:2], (right[2][0] + 1, right[2][1])]
    trained(tmp_path / "a", right, recorded=recorded)
    trained(tmp_path / "b", other, recorded=recorded)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert origin(difference) == (2, 0, "linear", "x", "0")
    assert "another order" not in difference.answer
    assert any(row.any.tensor == "weight" for row in difference.inputs) is recorded
    assert difference.origin.apart.max_abs == pytest.approx(1)


@pytest.mark.parametrize("bad", "ab")
def test_infinite_data_of_one_run_alone(bad, tmp_path):
    for name in "ab":
        model = seeded()
        with padiff_shim.record(tmp_path / name, model, values="fingerprint") as recording:
            for number in range(3):
                model(paddle.to_tensor(np.full_like(X, np.inf) if (name, number) == (bad, 1) else X))
                recording.next_step()
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert (difference.origin.any.step, difference.reason) == (1, None), "neither other samples nor a layer"


def test_from_which_batch_on_where_nothing_is_trained(tmp_path):
    for name, changed in (("a", None), ("b", 2)):
        model = seeded()
        with padiff_shim.record(tmp_path / name, model):
            for number in range(4):
                model(paddle.to_tensor(X + number + (number == changed)))
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert origin(difference) == (0, 2, "layer_norm", "x", "norm")


def test_a_buffer_that_is_filled_anew(tmp_path):
    for name, changed in (("a", None), ("b", 1)):
        model, held = seeded(), paddle.to_tensor(X)
        with padiff_shim.record(tmp_path / name, model):
            for number in range(3):
                held.set_value(X + number + (number == changed))
                model(held)
    assert origin(padiff_shim.diff(tmp_path / "a", tmp_path / "b"))[:2] == (0, 1)


def test_labels_alone(tmp_path):
    right = batches()
    trained(tmp_path / "a", right)
    trained(tmp_path / "b", [right[0], (right[1][0], 1 - right[1][1]), right[2]])
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert origin(difference)[:4] == (1, 0, "cross_entropy", "label")


def test_numbers_of_words(tmp_path):
    for name, word in (("a", 3), ("b", 4)):
        paddle.seed(0)
        model = paddle.nn.Sequential(paddle.nn.Embedding(9, 4), paddle.nn.Linear(4, 2))
        with padiff_shim.record(tmp_path / name, model):
            model(paddle.to_tensor([[1, 2, word]]))
    assert origin(padiff_shim.diff(tmp_path / "a", tmp_path / "b")) == (0, 0, "embedding", "x", "0")


def test_weights_that_differ_from_the_start(tmp_path):
    trained(tmp_path / "a", batches())
    trained(tmp_path / "b", batches(), seed=2)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    weights = [row for row in difference.inputs if row.any.tensor == "weight"]
    assert [row.any.name for row in weights if row.differs] == ["0.weight", "2.weight"]
    assert difference.origin is weights[0]


def test_another_program_on_the_same_inputs(tmp_path):
    trained(tmp_path / "a", batches())
    trained(tmp_path / "b", batches(), epsilon=1e-3)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert difference.origin is None
    assert "inputs differ" not in difference.answer
    assert [row for row in difference.inputs if row.differs] == []


def test_another_program_before_other_inputs(tmp_path):
    right = batches()
    trained(tmp_path / "a", right)
    trained(tmp_path / "b", [right[0], (right[1][0] + 1, right[1][1]), right[2]], epsilon=1e-3)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert difference.origin is None, "the program differed before the input did"
    assert difference.first.any.name == "layer_norm"
    assert "inputs differ" not in difference.answer


def test_an_input_that_changes_nothing(tmp_path):
    for name, other in (("a", 1.0), ("b", 2.0)):
        with padiff_shim.record(tmp_path / name):
            paddle.ones([3]) * paddle.to_tensor(other) * 0.0
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert [row.any.step for row in difference.inputs if row.differs] == [0]
    assert not difference.rows[-1].differs


def test_a_torch_program(tmp_path):
    for name, moved in (("a", 0.0), ("b", 1.0)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with padiff_shim.record(tmp_path / name, model):
            for step, (numbers, _) in enumerate(batches()):
                model(torch.tensor(numbers + (moved if step == 1 else 0.0), dtype=torch.float32)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert origin(difference) == (1, 0, "linear", "[0]", "0")
    assert len(data(tmp_path / "a")) == 3, "no weight, buffer or view is data"


@pytest.mark.bitexact
def test_across_frameworks(tmp_path):
    original, port = pair()
    torch_run(tmp_path / "torch", original)
    with padiff_shim.reference("torch"):
        paddle_run(tmp_path / "paddle", port, x=X + 1)
        paddle_run(tmp_path / "same", port)
    difference = padiff_shim.diff(tmp_path / "torch", tmp_path / "paddle")
    assert origin(difference)[:3] == (0, 0, "layer_norm")
    assert padiff_shim.diff(tmp_path / "torch", tmp_path / "same")


def test_what_a_run_makes_is_no_input(tmp_path):
    model = seeded()
    optimizer = paddle.optimizer.AdamW(parameters=model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1))
    with padiff_shim.record(tmp_path, model):
        for _ in range(2):
            x = paddle.to_tensor(X)
            loss = (model(x.reshape([15, 8])[:, :].unsqueeze(0)) * 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
    batch, next_batch = data(tmp_path)
    assert (batch.name, batch.step, batch.shape) == ("reshape", 0, X.shape)
    assert (next_batch.name, next_batch.step, next_batch.shape) == ("reshape", 1, X.shape)
    assert batch.sample
    assert batch.values() is None, "an input is recognised, and not kept"


COMPUTED = {
    "a mask of a vocabulary": lambda model, x: x * ((x >= -1) & (x < 2) & ~(x == 7) | (x != x)).astype("float32"),
    "detached": lambda model, x: model(x).detach() * 2,
    "its data": lambda model, x: model(x).data * 2,
    "a gradient": lambda model, x: [model(x).sum().backward(), model.weight.grad / 3][1],
    "a gradient that is asked for": lambda model, x: paddle.grad(model(x).sum(), [model.weight])[0] * 3,
    "a weight, detached": lambda model, x: model(x) + model.weight.detach().sum(),
    "whole numbers": lambda model, x: paddle.shard_index((model(x) > 0).astype("int64").reshape([-1, 1]), 4, 2, 0) * 2,
}


@pytest.mark.parametrize("computed", COMPUTED.values(), ids=COMPUTED)
def test_what_operators_and_methods_make_is_no_input(computed, tmp_path):
    model, before = paddle.nn.Linear(4, 4), dict(vars(paddle.Tensor))
    x = paddle.to_tensor(X[0, :, :4].copy())
    with padiff_shim.record(tmp_path, model):
        computed(model, x)
    assert [tensor.shape for tensor in data(tmp_path)] == [(5, 4)], "the data alone"
    assert all(vars(paddle.Tensor)[name] is value for name, value in before.items())


def test_detached_data_are_data(tmp_path):
    model = paddle.nn.Linear(4, 4)
    with padiff_shim.record(tmp_path, model):
        model(paddle.to_tensor(X[0, :, :4].copy()).detach())
    assert [tensor.name for tensor in data(tmp_path)] == ["linear"]
