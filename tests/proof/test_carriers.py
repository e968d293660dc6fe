"""Which calls carry a native difference: the shares add up, and what carries it is what it vanishes with."""

import json

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF

import padiff_shim
from padiff_shim import PadiffShimError, prove

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]
X = np.random.default_rng(0).standard_normal((6, 12)) * 1e-3  # so small that an epsilon counts
EXACT, ROUNDED = 2.0**-17, 1e-5  # Paddle's layer_norm rounds an epsilon to float32


class Original(torch.nn.Module):
    def __init__(self, first=ROUNDED, second=EXACT, drop=0.0):
        super().__init__()
        self.first, self.up, self.drop = torch.nn.LayerNorm(12, first), torch.nn.Linear(12, 24), torch.nn.Dropout(drop)
        self.second, self.down = torch.nn.LayerNorm(24, second), torch.nn.Linear(24, 5)

    def forward(self, x):
        return self.down(self.second(TF.gelu(self.drop(self.up(self.first(x))))))


class Port(paddle.nn.Layer):
    def __init__(self, first=ROUNDED, second=EXACT, drop=0.0):
        super().__init__()
        self.first, self.up = paddle.nn.LayerNorm(12, epsilon=first), paddle.nn.Linear(12, 24)
        self.second, self.down = paddle.nn.LayerNorm(24, epsilon=second), paddle.nn.Linear(24, 5)
        self.drop = paddle.nn.Dropout(drop)

    def forward(self, x):
        return self.down(self.second(PF.gelu(self.drop(self.up(self.first(x))))))


def proven(dtype="float64", **options):
    torch.manual_seed(0)
    return prove(Port(**options).to(dtype=dtype), Original(**options).to(getattr(torch, dtype)), X)


@pytest.mark.parametrize(("first", "second", "layer"), [(ROUNDED, EXACT, "first"), (EXACT, ROUNDED, "second")])
def test_the_layer_that_rounds_its_epsilon_carries_the_difference(first, second, layer):
    """In float64 that difference is there on every machine, and is larger than all rounding."""
    proof = proven(first=first, second=second)
    assert proof
    carried = proof.carriers()
    assert carried.apart > 1e-11
    assert abs(carried.explained - 1) < 1e-3
    row = carried.rows[0]
    assert (row.layer, row.op, row.calls) == (layer, "layer_norm", 1)
    assert abs(row.share - 1) < 1e-3
    assert abs(row.own - 1) < 1e-3
    assert row.kernels > 1e4
    assert row.paddle > 1e4 > 1e2 > row.torch
    assert all(abs(other.share) < 1e-3 for other in carried.rows[1:])


def test_what_carries_the_difference_takes_it_away_on_torchs_kernel():
    """The experiment behind the table: natively, but for the op that it names."""
    proof, port = proven(), Port().to(dtype="float64")
    torch.manual_seed(0)
    padiff_shim.transfer_weights(Original().double(), port)
    x = paddle.to_tensor(X)
    native = port(x).numpy()
    with padiff_shim.reference("torch"):
        shim = port(x).numpy()
    row = proof.carriers().rows[0]
    with padiff_shim.reference("torch", ops=row.op, layers=row.layer):
        mended = port(x).numpy()
    assert np.abs(native - shim).max() == proof.carried.apart
    assert np.abs(mended - shim).max() < 1e-3 * proof.carried.apart


def test_shares_of_rounding_errors_add_up_to_all_of_it():
    """In float32, where each kernel rounds on its own operands; where no kernel differs, nothing carries anything."""
    carried = proven("float32", first=1e-3, second=1e-3).carriers()
    assert carried.explained == (pytest.approx(1.0, abs=0.02) if carried.apart else 0)
    assert bool(carried.rows) is bool(carried.apart)
    assert any(row.kernels for row in carried) is bool(carried.apart)  # somewhere a kernel begins it
    assert all(row.paddle < 100 for row in carried)


def test_a_proof_shows_its_carriers_when_they_were_asked_for():
    proof = proven()
    assert "explained" not in str(proof)
    assert proof.to_dict()["carried"] is None
    carried = proof.carriers()
    assert proof.carriers() is carried
    for shown, name in ((str(proof), "layer_norm"), (proof.markdown(), r"layer\_norm"), (proof.html(), "layer_norm")):
        assert name in shown
        assert "explained: 100.0%" in shown
    data = json.loads(json.dumps(proof.to_dict()))["carried"]
    assert data["rows"][0]["layer"] == "first"


def test_random_numbers_are_torchs_natively_too():
    proof = proven("float32", drop=0.5)
    assert proof
    assert proof.differences["native"] < 1e-3
    assert proof.carriers().explained == (pytest.approx(1.0, abs=0.02) if proof.carried.apart else 0)


def test_carriers_of_a_port_that_cannot_be_run_beside_its_original():
    proof = prove(Port(), Original(), lambda framework: X if framework == "torch" else X + 1)
    with pytest.raises(PadiffShimError, match="INPUTS_DIFFER"):
        proof.carriers()


def test_a_training_tells_its_first_forwards_carriers():
    torch.manual_seed(0)
    proof = prove(Port().to(dtype="float64"), Original().double(), X, phase="train", optimizer="SGD", steps=2)
    assert proof, str(proof)
    assert proof.carriers().rows[0].op == "layer_norm"


class Stepped(torch.nn.Module):
    """A floor as an activation, of a layer whose difference is large enough to jump on every machine."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = torch.nn.LayerNorm(12, ROUNDED), torch.nn.Linear(12, 5)

    def forward(self, x):
        return self.out(torch.floor(torch.sin(self.norm(x) * 1e11) * 3.0))


class PortedSteps(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm, self.out = paddle.nn.LayerNorm(12, epsilon=ROUNDED), paddle.nn.Linear(12, 5)

    def forward(self, x):
        return self.out(paddle.floor(paddle.sin(self.norm(x) * 1e11) * 3.0))


def test_a_step_function_in_the_way_is_named():
    """Paddle#64591: no first order explains what comes of a jump."""
    proof = prove(PortedSteps().to(dtype="float64"), Stepped().double(), X)
    assert proof, str(proof)
    (row,) = proof.carriers().jumps
    assert (row.layer, row.op, row.calls, row.elements) == ("", "floor", 1, X.size)
    assert 0 < row.jumped <= X.size
