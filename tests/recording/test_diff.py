"""Two recordings: what differs first and by how much, whatever their lengths, ranks and frameworks, and what is no recording."""

import linecache

import numpy as np
import paddle
import pytest
import torch
from pairs import X, damaged, paddle_run, pair, seeded, torch_run

import padiff_shim
from padiff_shim import ArgumentError, diff

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


@pytest.fixture
def right(tmp_path):
    paddle_run(tmp_path / "right", seeded(), parameters=True, gradients=True)
    return tmp_path / "right"


def test_a_run_is_the_same_as_itself(right, tmp_path):
    paddle_run(tmp_path / "again", seeded(), parameters=True, gradients=True)
    difference = diff(right, tmp_path / "again")
    assert difference
    assert {row.any.kind for row in difference.rows} == {"op", "layer", "parameter", "gradient"}
    assert difference.to_dict()["right"] is True
    assert not difference.surroundings


def test_the_first_difference_has_line_layer_and_size(right, tmp_path):
    port = seeded()
    port.v.bias.set_value(port.v.bias + 2**-10)
    paddle_run(tmp_path / "other", port)
    difference = diff(right, tmp_path / "other")
    assert not difference
    first = difference.first
    assert (first.any.kind, first.any.name, first.any.layer) == ("op", "linear", "v")
    assert "self.v(h)" in linecache.getline(first.a.file, first.a.line)
    mine, yours = first.a.values(), first.b.values()
    assert first.apart.max_abs == np.abs(mine.astype("float64") - yours).max()
    assert first.apart.ulp >= 1
    assert first.apart.different == (mine != yours).sum()
    assert "linear in layer v" in difference.answer
    assert "parameter" in " ".join(difference.notes)
    tolerant = diff(right, tmp_path / "other", atol=1.0)
    assert tolerant
    assert not diff(right, tmp_path / "other", rtol=1e-6)


def test_parameters_and_gradients_are_compared_by_name(right, tmp_path):
    port = seeded()
    port.k.weight.set_value(port.k.weight * 1.5)
    paddle_run(tmp_path / "other", port, parameters=True, gradients=True)
    difference = diff(right, tmp_path / "other")
    assert (difference.first.any.kind, difference.first.any.name) == ("parameter", "k.weight")
    assert [row.any.name for row in difference.differing if row.any.kind == "parameter"] == ["k.weight"]
    assert any(row.any.kind == "gradient" for row in difference.differing)


@pytest.mark.parametrize("swap", [False, True])
def test_another_length_is_aligned(right, tmp_path, swap):
    paddle_run(tmp_path / "other", seeded(doubled=True), gradients=True, parameters=True)
    folders = [right, tmp_path / "other"]
    difference = diff(*(folders[::-1] if swap else folders))
    (alone,) = [row for row in difference.rows if row.apart is None]
    assert alone.any.name == "gelu"
    assert (alone.b is None) is swap
    before = [row for row in difference.compared if row.any.index < alone.any.index]
    assert not any(row.differs for row in before)
    after = [row.any.name for row in difference.differing if row.any.kind == "op"]
    assert after[-3:] == (["gelu", "multiply", "sum"]), "what comes behind stands beside its own"
    assert difference.first is alone or difference.first.any.name == "gelu"


@pytest.mark.bitexact
def test_a_port_under_the_shim_is_the_same_as_its_original(tmp_path):
    original, port = pair()
    torch_run(tmp_path / "torch", original, parameters=True, gradients=True)
    with padiff_shim.reference("torch"):
        paddle_run(tmp_path / "paddle", port, parameters=True, gradients=True)
    difference = diff(tmp_path / "torch", tmp_path / "paddle")
    assert difference, str(difference)
    assert not [row for row in difference.rows if row.apart is None]
    turned = {row.any.name for row in difference.compared if row.apart.layout == "transposed"}
    assert turned == {f"{name}.weight" for name in ("q", "k", "v", "out")}


@pytest.mark.bitexact
def test_a_wrong_port_is_found_across_frameworks(tmp_path):
    original, port = pair(factor=0.25)
    torch_run(tmp_path / "torch", original)
    with padiff_shim.reference("torch"):
        paddle_run(tmp_path / "paddle", port)
    difference = diff(tmp_path / "paddle", tmp_path / "torch")
    assert not difference
    assert difference.first.any.name == "multiply"
    assert "self.factor" in linecache.getline(difference.first.a.file, difference.first.a.line)
    assert "* 0.5" in linecache.getline(difference.first.b.file, difference.first.b.line)


@pytest.mark.bitexact
def test_another_division_into_calls_is_no_difference_across_frameworks(tmp_path):
    x = np.random.default_rng(1).standard_normal((4, 6)).astype("float32")
    with padiff_shim.record(tmp_path / "torch", framework="torch"):
        torch.nn.functional.linear(torch.from_numpy(x), torch.ones(2, 6)).relu()
    with padiff_shim.record(tmp_path / "paddle", framework="paddle"), padiff_shim.reference("torch"):
        held = paddle.to_tensor(x)
        paddle.nn.functional.relu(paddle.nn.functional.linear(held, paddle.ones([6, 2])))
        paddle.exp(held)
    difference = diff(tmp_path / "torch", tmp_path / "paddle")
    assert [row.any.name for row in difference.rows if row.apart is None] == ["exp"]
    assert not difference.differing
    assert not difference, "the last results were not compared"
    assert "last results" in difference.answer


def test_ranks(tmp_path, monkeypatch):
    for folder, ranks in (("two", (0, 1)), ("one", (1,)), ("other", (3,))):
        for rank in ranks:
            monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
            paddle_run(tmp_path / folder, seeded(), x=X + rank, backward=False)
    difference = diff(tmp_path / "two", tmp_path / "one")
    assert difference
    assert {row.rank for row in difference.rows} == {1}
    assert "a: ranks 0 were not compared" in difference.notes
    assert not diff(tmp_path / "two", tmp_path / "one", ranks=(0, 1))
    assert diff(tmp_path / "two", tmp_path / "other").rows
    with pytest.raises(ArgumentError, match="b has no rank 0; it has 1"):
        diff(tmp_path / "two", tmp_path / "one", ranks=0)


def test_steps_of_unequal_number(tmp_path):
    for name, steps in (("three", 3), ("two", 2)):
        layer = seeded()
        optimizer = paddle.optimizer.SGD(parameters=layer.parameters())
        with padiff_shim.record(tmp_path / name, layer):
            for _ in range(steps):
                layer(paddle.to_tensor(X)).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
    difference = diff(tmp_path / "three", tmp_path / "two")
    assert {row.any.step for row in difference.differing} == {2}
    assert all(row.b is None for row in difference.differing)
    assert not any(row.differs for row in difference.compared)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_units_in_the_last_place(dtype, tmp_path):
    for name, step in (("a", 0), ("b", 3)):
        values = torch.tensor([1.0, -2.0, 0.0], dtype=getattr(torch, dtype))
        for _ in range(step):
            values = (
                torch.nextafter(values, torch.full_like(values, 9.0))
                if dtype != "bfloat16"
                else values + torch.tensor([2**-7, 2**-7, 0.0], dtype=torch.bfloat16)
            )
        with padiff_shim.record(tmp_path / name, framework="torch") as recording:
            recording.note("x", values)
    (row,) = diff(tmp_path / "a", tmp_path / "b").rows
    assert row.apart.ulp == 3


def test_no_rank_may_end_before_the_other_run_does(tmp_path, monkeypatch):
    for rank in (0, 1):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
        with padiff_shim.record(tmp_path / "torch", framework="torch"):
            torch.from_numpy(X).relu()
        with padiff_shim.record(tmp_path / "paddle", framework="paddle"):
            paddle.nn.functional.relu(paddle.to_tensor(X))
            paddle.exp(paddle.to_tensor(X)) if rank == 0 else None
    difference = diff(tmp_path / "torch", tmp_path / "paddle")
    assert not difference
    assert "last results" in difference.answer


def test_equal_bytes_of_other_shapes_are_values_of_their_own(tmp_path):
    shapes = [(6,), (2, 3), (3, 2)]
    with padiff_shim.record(tmp_path / "run", framework="torch") as recording:
        for shape in shapes:
            recording.note(str(shape), np.ones(shape))
        recording.note("whole", np.ones(6).view("int64"))
    difference = diff(tmp_path / "run", tmp_path / "run")
    values = {row.any.name: row.a.values() for row in difference.rows}
    assert [values[str(shape)].shape for shape in shapes] == shapes
    assert values["whole"].dtype == np.int64


def test_special_values_and_shapes(tmp_path):
    def noted(folder, **values):
        with padiff_shim.record(tmp_path / folder, framework="torch") as recording:
            for name, value in values.items():
                recording.note(name, np.asarray(value))

    nan, inf = float("nan"), float("inf")
    noted(
        "a",
        nan=[nan, 1.0],
        inf=[inf, 1.0],
        shape=[1.0, 2.0, 3.0],
        dtype=np.float32([1, 2]),
        zero=[0.0],
        whole=[1, 2],
        both=[nan, 1.0],
    )
    noted(
        "b", nan=[nan, 1.0], inf=[2.0, 1.0], shape=[1.0, 2.0], dtype=np.float64([1, 2]), zero=[-0.0], whole=[1, 3], both=[nan, 1.5]
    )
    rows = {row.any.name: row for row in diff(tmp_path / "a", tmp_path / "b").rows}
    assert {name for name, row in rows.items() if row.differs} == {"inf", "shape", "dtype", "zero", "whole", "both"}
    assert (rows["both"].apart.different, rows["both"].apart.max_abs) == (1, 0.5)
    assert rows["inf"].apart.ulp == rows["inf"].apart.max_abs == inf
    assert rows["shape"].apart.how == "shape"
    assert rows["whole"].apart.ulp is None
    assert (rows["dtype"].differs, rows["dtype"].apart.max_abs) == (True, 0)


def test_digests_alone_still_tell_a_size(tmp_path):
    port = seeded()
    paddle_run(tmp_path / "a", port, values="digest")
    paddle_run(tmp_path / "b", port, x=X * 1.5, values="digest")
    difference = diff(tmp_path / "a", tmp_path / "b")
    assert difference.first.apart.how == "sample"
    assert difference.first.apart.max_abs > 0
    assert "of a sample" in difference.answer


def test_other_surroundings_are_listed(right, tmp_path):
    other = damaged(tmp_path / "other", right, lambda lines: [lines[0].replace('"device":"cpu"', '"device":"gpu:0"'), *lines[1:]])
    difference = diff(right, other)
    assert ("device", "cpu", "gpu:0") in difference.surroundings
    assert "gpu:0" in str(difference)
    assert difference, "other surroundings are no difference of values"


@pytest.mark.parametrize("options", [{}, {"values": "digest"}, {"values": "fingerprint"}], ids=["full", "digest", "print"])
def test_a_table_that_one_framework_repeats_along_the_batch_is_equal(options, tmp_path):
    """As position tables of rotary embeddings; and what is passed by name is an input in both."""

    class Table(paddle.nn.Layer):
        def forward(self, x):
            return (paddle.arange(15, dtype="float32").reshape([1, 3, 5]) * self.factor).expand([x.shape[0], 3, 5])

    class Model(paddle.nn.Layer):
        def __init__(self, factor):
            super().__init__()
            self.table = Table()
            self.table.factor = factor

        def forward(self, x):
            return x * self.table(x)

    class TorchTable(torch.nn.Module):
        def forward(self, x):
            return torch.arange(15, dtype=torch.float32).reshape(1, 3, 5) * 1.5

    TorchTable.__name__ = "Table"

    class TorchModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = TorchTable()

        def forward(self, x):
            return x * self.table(x)

    x = np.random.default_rng(0).standard_normal((4, 3, 5)).astype("float32")
    with padiff_shim.record(tmp_path / "torch", framework="torch", **options):
        TorchModel()(x=torch.from_numpy(x))
    for name, factor, values in (("right", 1.5, x), ("wrong", 1.25, x), ("other", 1.5, x[::-1].copy())):
        with padiff_shim.record(tmp_path / name, **options):
            Model(factor)(x=paddle.to_tensor(values))
    rtol = 1e-3 if options else 0.0  # of figures
    assert diff(tmp_path / "right", tmp_path / "torch", rtol=rtol)
    assert diff(tmp_path / "torch", tmp_path / "right", rtol=rtol)
    assert diff(tmp_path / "wrong", tmp_path / "torch", rtol=rtol).first.any.layer == "table"
    assert diff(tmp_path / "other", tmp_path / "torch").origin is not None
