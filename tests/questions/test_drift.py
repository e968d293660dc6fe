"""How far values drift: every layer, call and output of both, the float64 pair beside it, as table, file and picture."""

import csv

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ArgumentError, FileError, PadiffShimError

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
D = 8
X = np.random.default_rng(0).standard_normal((3, D)).astype("float32")


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(D, D), torch.nn.Linear(D, D)

    def forward(self, x):
        for _ in range(2):
            x = torch.tanh(self.inner(x))
        return {"hidden": x, "logits": self.outer(x)}


class Port(paddle.nn.Layer):
    def __init__(self, factor=1.0, shape=None):
        super().__init__()
        self.factor, self.shape = factor, shape
        self.inner, self.outer = paddle.nn.Linear(D, D), paddle.nn.Linear(D, D)

    def forward(self, x):
        for _ in range(2):
            x = paddle.tanh(self.inner(x))
        x = x * self.factor if self.factor != 1.0 else x
        return {"hidden": x, "logits": self.outer(x) if self.shape is None else self.outer(x).reshape(self.shape)}


def pair(**wrong):
    torch.manual_seed(0)
    return Port(**wrong), Original()


def by_name(drifts, kind):
    return {(row.name, row.torch): row for row in drifts.rows if row.kind == kind}


@pytest.mark.bitexact
def test_a_right_port_is_identical_and_drifts_by_rounding_alone():
    port, original = pair()
    before = [parameter.numpy().copy() for parameter in port.parameters()]
    drifts = padiff_shim.prove(port, original, X, phase="forward").drift()
    assert list(by_name(drifts, "layer")) == [
        ("inner", "inner"),
        ("inner, call 2", "inner"),
        ("outer", "outer"),
        ("(the model)", ""),
    ]
    assert [row.paddle for row in drifts.rows if row.kind == "output"] == ["hidden", "logits"]
    assert all(row.substituted.identical and row.substituted.max_abs == 0 for row in drifts.rows)
    assert all(row.float64.max_abs < 1e-13 for row in drifts.rows)
    assert all(row.native.max_abs < 1e-5 for row in drifts.rows)
    assert all(np.array_equal(array, other.numpy()) for array, other in zip(before, port.parameters())), (
        "nothing of the caller's changed"
    )


def test_the_figures_are_those_of_the_arrays():
    port, original = pair(factor=1.5)
    padiff_shim.transfer_weights(original, port)
    with torch.no_grad():
        theirs = original(torch.from_numpy(X))["logits"].double().numpy()
    apart = np.abs(port(paddle.to_tensor(X))["logits"].numpy().astype("float64") - theirs)
    row = by_name(padiff_shim.prove(port, original, X, weights="as-is", phase="forward").drift(), "output")["logits", "logits"]
    assert row.native.mean_abs == pytest.approx(apart.mean(), rel=1e-5)
    assert row.native.max_abs == pytest.approx(apart.max(), rel=1e-5)
    assert not row.native.identical


def test_what_is_no_rounding_stays_in_float64():
    drifts = padiff_shim.prove(*pair(factor=1.5), X, phase="forward").drift()
    wrong = by_name(drifts, "output")["logits", "logits"]
    assert wrong.float64.max_abs == pytest.approx(wrong.substituted.max_abs, rel=1e-3)
    assert drifts.largest["float64"].max_abs >= wrong.float64.max_abs


@pytest.mark.bitexact
def test_every_op_call(tmp_path):
    drifts = padiff_shim.prove(*pair(), X, phase="forward").drift(calls=True)
    calls = [row for row in drifts.rows if row.kind == "call"]
    assert [row.paddle for row in calls] == ["linear (inner)", "tanh", "linear (inner)", "tanh", "linear (outer)"]
    assert all(row.substituted.identical for row in calls)
    assert all("test_drift.py" in row.site for row in calls)
    assert all(row.float64 is not None for row in calls)


def loss(out):
    return (out["logits"] ** 2).mean()


@pytest.mark.bitexact
def test_gradients_of_hidden_states_inputs_and_parameters():
    drifts = padiff_shim.prove(*pair(), X, phase="both", loss=loss).drift()
    kinds = [row.kind for row in drifts.rows if row.of_gradient]
    assert kinds == ["gradient of layer"] * 4 + ["gradient of input"] + ["gradient of parameter"] * 4
    assert [row.name for row in drifts.rows if row.kind == "gradient of layer"] == [
        "(the model)",
        "outer",
        "inner, call 2",
        "inner",
    ]
    assert list(by_name(drifts, "gradient of input")) == [("input 0", "input 0")]
    assert {name for name, _ in by_name(drifts, "gradient of parameter")} == {
        f"{layer}.{name}" for layer in ("inner", "outer") for name in ("weight", "bias")
    }
    assert all(row.substituted.identical for row in drifts.rows)
    assert all(row.float64.max_abs < 1e-13 for row in drifts.rows)
    assert drifts.largest_gradients["substituted"].identical
    for text in (str(drifts), drifts.markdown()):
        assert "gradient of parameter" in text
    assert "gradient of outer.weight" in drifts.text(100)


def test_the_figures_of_gradients_are_those_of_the_arrays():
    port, original = pair(factor=1.5)
    padiff_shim.transfer_weights(original, port)
    original.zero_grad()
    x, y = torch.from_numpy(X).requires_grad_(), paddle.to_tensor(X, stop_gradient=False)
    loss(original(x)).backward()
    loss(port(y)).backward()
    rows = {
        row.name: row
        for row in padiff_shim.prove(port, original, X, weights="as-is", phase="both", loss=loss).drift().rows
        if row.of_gradient
    }
    for name, ours, theirs in (
        ("inner.weight", port.inner.weight.grad.numpy().T, original.inner.weight.grad.numpy()),
        ("outer.bias", port.outer.bias.grad.numpy(), original.outer.bias.grad.numpy()),
        ("input 0", y.grad.numpy(), x.grad.numpy()),
    ):
        apart = np.abs(ours.astype("float64") - theirs)
        assert rows[name].native.max_abs == pytest.approx(apart.max(), rel=1e-3), name
        assert rows[name].native.mean_abs == pytest.approx(apart.mean(), rel=1e-3), name
        assert rows[name].float64.max_abs == pytest.approx(apart.max(), rel=1e-3), "no rounding"


def test_gradients_without_a_loss_begin_alike_and_the_forward_alone_has_none():
    drifts = padiff_shim.prove(*pair(), X, phase="both").drift()
    assert {row.kind for row in drifts.rows if row.of_gradient} == {
        f"gradient of {kind}" for kind in ("layer", "input", "parameter")
    }
    assert all(row.substituted.identical for row in drifts.rows)
    assert not any(row.of_gradient for row in padiff_shim.prove(*pair(), X, phase="forward").drift().rows)
    assert not padiff_shim.prove(*pair(), X, phase="forward").drift().largest_gradients


def test_without_a_float64_pair():
    class Single(Port):
        def forward(self, x):
            if "float64" in str(x.dtype):
                raise TypeError("only float32")
            return super().forward(x)

    drifts = padiff_shim.prove(Single(), pair()[1], X, phase="forward").drift()
    assert all(row.float64 is None for row in drifts.rows)
    assert "float64" not in drifts.largest
    assert "only float32" in drifts.notes[0]


def test_other_shapes_are_left_out():
    drifts = padiff_shim.prove(*pair(shape=[D, 3]), X, phase="forward").drift()
    assert ("logits", "logits") not in by_name(drifts, "output")
    assert ("hidden", "hidden") in by_name(drifts, "output")


def test_tables(tmp_path):
    drifts = padiff_shim.prove(*pair(factor=1.5), X, phase="forward").drift()
    assert "inner, call 2" in drifts.markdown()
    rows = list(csv.DictReader(drifts.save(tmp_path / "drift.csv").open()))
    assert len(rows) == len(drifts.rows)
    assert float(rows[-1]["native_max_abs"]) == drifts.rows[-1].native.max_abs
    with pytest.raises(FileError, match="cannot be written"):
        drifts.save(tmp_path / "drift.csv" / "again.csv")


def test_what_is_refused():
    proof = padiff_shim.prove(*pair(), X, phase="forward")
    with pytest.raises(ArgumentError, match="calls= is True or False"):
        proof.drift(calls=1)
    unequal = padiff_shim.prove(*pair(), lambda framework: X if framework == "paddle" else 2 * X)
    with pytest.raises(PadiffShimError, match="INPUTS_DIFFER"):
        unequal.drift()


def test_views_of_one_proof_leave_each_other_as_they_are():
    """In any order they say what each says alone; the models' copies begin each run alike."""
    port, original = pair(factor=1.5)
    proof = padiff_shim.prove(port, original, X, loss=loss)
    rows = proof.drift().rows
    proof.carriers(), proof.report(), proof.bits()
    assert proof.drift().rows == rows
    alone = padiff_shim.prove(port, original, X, loss=loss).report()
    assert proof.report().dtypes[0].rows == alone.dtypes[0].rows
