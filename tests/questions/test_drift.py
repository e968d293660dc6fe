"""How far values drift: every layer, call and output of both, the float64 pair beside it, as table, file and picture."""

import csv
import json
import sys

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ArgumentError, FileError, drift
from padiff_shim.errors import MissingFrameworkError

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
    drifts = drift(port, original, X)
    assert list(by_name(drifts, "layer")) == [
        ("inner", "inner"),
        ("inner, call 2", "inner"),
        ("outer", "outer"),
        ("(the model)", ""),
    ]
    assert [row.paddle for row in drifts.rows if row.kind == "output"] == ["hidden", "logits"]
    assert all(row.substituted.identical and row.substituted.max_abs == 0 for row in drifts.rows)
    assert drifts.headline.startswith("6 of 6 identical on Torch's kernels (largest difference 0)")
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
    row = by_name(drift(port, original, X, weights="as-is"), "output")["logits", "logits"]
    assert row.native.mean_abs == pytest.approx(apart.mean(), rel=1e-5)
    assert row.native.max_abs == pytest.approx(apart.max(), rel=1e-5)
    assert not row.native.identical


def test_what_is_no_rounding_stays_in_float64():
    drifts = drift(*pair(factor=1.5), X)
    assert "apart, and in float64 " in drifts.headline
    assert "it is not rounding; prove names the lines" in drifts.headline
    wrong = by_name(drifts, "output")["logits", "logits"]
    assert wrong.float64.max_abs == pytest.approx(wrong.substituted.max_abs, rel=1e-3)
    assert drifts.largest["float64"].max_abs >= wrong.float64.max_abs


@pytest.mark.bitexact
def test_every_op_call(tmp_path):
    drifts = drift(*pair(), X, calls=True)
    calls = [row for row in drifts.rows if row.kind == "call"]
    assert [row.paddle for row in calls] == ["linear (inner)", "tanh", "linear (inner)", "tanh", "linear (outer)"]
    assert all(row.substituted.identical for row in calls)
    assert all("test_drift.py" in row.site for row in calls)
    assert all(row.float64 is not None for row in calls)


def loss(out):
    return (out["logits"] ** 2).mean()


@pytest.mark.bitexact
def test_gradients_of_hidden_states_inputs_and_parameters():
    drifts = drift(*pair(), X, phase="both", loss=loss)
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
    values, _, gradients = drifts.headline.partition("; gradients: ")
    assert values.startswith("7 of 7 identical")
    assert gradients.startswith("9 of 9 identical on Torch's kernels (largest difference 0)")
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
    rows = {row.name: row for row in drift(port, original, X, weights="as-is", phase="both", loss=loss).rows if row.of_gradient}
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
    drifts = drift(*pair(), X, phase="both", double=False)
    assert {row.kind for row in drifts.rows if row.of_gradient} == {
        f"gradient of {kind}" for kind in ("layer", "input", "parameter")
    }
    assert all(row.substituted.identical for row in drifts.rows)
    assert not any(row.of_gradient for row in drift(*pair(), X).rows)
    assert not drift(*pair(), X).largest_gradients


@pytest.mark.bitexact
def test_every_op_call_beside_gradients():
    drifts = drift(*pair(), X, phase="both", calls=True)
    calls = [row.paddle for row in drifts.rows if row.kind == "call"]
    assert calls[:5] == ["linear (inner)", "tanh", "linear (inner)", "tanh", "linear (outer)"]
    assert all(row.substituted.identical for row in drifts.rows)


def test_without_a_float64_pair():
    drifts = drift(*pair(), X, double=False)
    assert all(row.float64 is None for row in drifts.rows)
    assert "float64" not in drifts.largest
    assert "float64" not in drifts.headline

    class Single(Port):
        def forward(self, x):
            if "float64" in str(x.dtype):
                raise TypeError("only float32")
            return super().forward(x)

    drifts = drift(Single(), pair()[1], X)
    assert all(row.float64 is None for row in drifts.rows)
    assert "only float32" in drifts.notes[0]


def test_other_shapes_are_left_out():
    drifts = drift(*pair(shape=[D, 3]), X)
    assert ("logits", "logits") not in by_name(drifts, "output")
    assert ("hidden", "hidden") in by_name(drifts, "output")


def test_tables(tmp_path):
    drifts = drift(*pair(factor=1.5), X)
    for text in (str(drifts), drifts.markdown()):
        assert drifts.headline in text
        assert "inner, call 2" in text
    json.dumps(drifts.to_dict())
    rows = list(csv.DictReader(drifts.save(tmp_path / "drift.csv").open()))
    assert len(rows) == len(drifts.rows)
    assert float(rows[-1]["native_max_abs"]) == drifts.rows[-1].native.max_abs
    with pytest.raises(FileError, match="cannot be written"):
        drifts.save(tmp_path / "drift.csv" / "again.csv")


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    drifts = drift(*pair(), X)
    assert drifts.save(tmp_path / "drift.png").read_bytes().startswith(b"\x89PNG")
    drawn = drifts.save(tmp_path / "drift.svg").read_text()
    assert drawn.startswith("<?xml")
    with pytest.raises(ArgumentError, match=r"\.png, \.svg, got .*drift\.jpg"):
        drifts.save(tmp_path / "drift.jpg")
    assert drifts.save(tmp_path / "new" / "drift.png").is_file()
    with pytest.raises(FileError, match="cannot be written"):
        drifts.save(tmp_path / "drift.svg" / "again.png")


def test_a_picture_needs_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingFrameworkError, match="pip install matplotlib"):
        drift(*pair(), X, double=False).save(tmp_path / "drift.png")


def test_what_is_refused():
    port, original = pair()
    for arguments, options, words in (
        ((original, port, X), {}, "the Paddle layer comes first"),
        ((port, port, X), {}, "torch_module= is a torch.nn.Module"),
        ((port, original, X), {"weights": "random"}, "weights"),
        ((port, original, X), {"phase": "train"}, "phase"),
        ((port, original, X), {"phase": "both", "loss": 3}, "loss= is a function"),
        ((port, original, X), {"calls": 1}, "calls= is True or False"),
        ((port, original, None), {}, "inputs= is an array"),
    ):
        with pytest.raises(ArgumentError, match=words):
            drift(*arguments, **options)
