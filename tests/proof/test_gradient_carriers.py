"""Which calls carry the native difference of gradients: a backward that is wrong is named, one that only passes it on is not."""

import copy
import csv
import json

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF

from padiff_shim import ArgumentError, PadiffShimError, prove
from padiff_shim.errors import FileError
from padiff_shim.proof.attribution import RecordingPlan

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]
X = np.random.default_rng(0).standard_normal((6, 12))
FAULT = 1e-3  # far above float32's rounding, and small enough for a first order


class Original(torch.nn.Module):
    def __init__(self, drop=0.0):
        super().__init__()
        self.norm, self.up, self.drop = torch.nn.LayerNorm(12), torch.nn.Linear(12, 24), torch.nn.Dropout(drop)
        self.act, self.down = torch.nn.GELU(), torch.nn.Linear(24, 5)

    def forward(self, x):
        h = self.norm(x)
        return self.down(TF.silu(self.act(self.drop(self.up(h)))) * TF.softmax(self.up(h * h), dim=-1))


class Port(paddle.nn.Layer):
    def __init__(self, drop=0.0):
        super().__init__()
        self.norm, self.up, self.drop = paddle.nn.LayerNorm(12), paddle.nn.Linear(12, 24), paddle.nn.Dropout(drop)
        self.act, self.down = paddle.nn.GELU(), paddle.nn.Linear(24, 5)

    def forward(self, x):
        h = self.norm(x)
        return self.down(PF.silu(self.act(self.drop(self.up(h)))) * PF.softmax(self.up(h * h), axis=-1))


def proven(**options):
    torch.manual_seed(0)
    return prove(Port(**options.pop("model", {})), Original(), X, **options)


def wrong(native, *, forward=1.0, backward=1.0):
    """A native kernel that returns `forward` of its result, and `backward` of the right gradients."""

    class Wrong(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, made):
            return made * forward

        @staticmethod
        def backward(ctx, gradient):
            return gradient * backward

    return lambda *args, **kwargs: Wrong.apply(native(*args, **kwargs))


@pytest.fixture
def planting(monkeypatch):
    """Make Paddle's kernel of an op wrong wherever it is called for what carries a difference."""

    def plant(op, **how):
        call = RecordingPlan.call

        def spoiled(self, door, *rest):
            if door.op.name == op:
                door = copy.copy(door)
                door.native = wrong(door.native, **how)
            return call(self, door, *rest)

        monkeypatch.setattr(RecordingPlan, "call", spoiled)

    return plant


@pytest.mark.parametrize(("op", "layer"), [("silu", ""), ("gelu", "act"), ("layer_norm", "norm"), ("softmax", "")])
def test_a_wrong_backward_is_named(planting, op, layer):
    proof = proven()
    assert proof, str(proof)
    planting(op, backward=1 + FAULT)
    carried = proof.carriers("gradients")
    assert carried.explained == pytest.approx(1, abs=0.02)
    row = carried.rows[0]
    assert (row.layer, row.op, row.part, row.calls) == (layer, op, "backward", 1)
    assert row.own == pytest.approx(1, abs=0.02)
    assert row.share == pytest.approx(1, abs=0.02)
    assert row.paddle > 1e3 > 1e2 > row.torch  # FAULT in unit roundoffs of float32
    assert all(abs(other.own) < 0.02 for other in carried.rows[1:])
    assert max(gradient.apart for gradient in carried.gradients) == carried.apart


def test_a_wrong_forward_is_named_and_not_the_backwards_that_pass_it_on(planting):
    proof = proven()
    planting("silu", forward=1 + FAULT, backward=1 + FAULT)  # right for what the forward computes
    carried = proof.carriers("gradients")
    assert {(row.op, row.part) for row in carried if abs(row.own) > 0.02} == {("silu", "forward"), ("silu", "backward")}
    assert carried.explained == pytest.approx(1, abs=0.02)


def test_without_a_fault_what_carries_is_rounding():
    carried = proven().carriers("gradients")
    assert carried.explained == (pytest.approx(1, abs=0.05) if carried.apart else 0)
    assert all(max(row.paddle, row.torch) < 100 for row in carried)


def test_one_gradient_by_its_name(planting):
    proof = proven()
    planting("gelu", backward=1 + FAULT)
    assert not any((row.op, row.part) == ("gelu", "backward") for row in proof.carriers("down.weight")), "that lies before it"
    of_weight = proof.carriers("up.weight")
    assert (of_weight.rows[0].op, of_weight.rows[0].part) == ("gelu", "backward")
    assert [gradient.name for gradient in of_weight.gradients] == ["up.weight"]
    assert of_weight.gradients[0].share == pytest.approx(1)
    of_input = proof.carriers("input 0")
    assert of_input.rows[0].op == "gelu"
    assert of_input.apart > 0
    assert list(proof.carried_gradients) == ["down.weight", "up.weight", "input 0"]


def test_a_training_tells_its_first_steps(planting):
    proof = proven(phase="train", optimizer="SGD", steps=2, loss=lambda out: (out**2).mean())
    assert proof, str(proof)
    planting("layer_norm", backward=1 + FAULT)
    assert (proof.carriers("gradients").rows[0].op, proof.carried_gradients["gradients"].rows[0].part) == ("layer_norm", "backward")


def test_dropout_draws_alike_in_all_runs(planting):
    torch.manual_seed(0)
    proof = prove(Port(drop=0.5), Original(drop=0.5), X)
    assert proof, str(proof)
    planting("gelu", backward=1 + FAULT)
    carried = proof.carriers("gradients")
    assert (carried.rows[0].op, carried.rows[0].part) == ("gelu", "backward")
    assert carried.explained == pytest.approx(1, abs=0.05)


def test_it_is_shown_everywhere(planting, tmp_path):
    proof = proven()
    planting("gelu", backward=1 + FAULT)
    carried = proof.carriers("gradients")
    assert proof.carriers("gradients") is carried
    for shown in (str(proof), proof.markdown(), proof.html()):
        assert f"{carried.explained:.1%}" in shown
        assert "gelu, backward" in shown
        assert "up.weight" in shown
    data = json.loads(json.dumps(proof.to_dict()))["carried_gradients"]["gradients"]
    assert data["rows"][0]["part"] == "backward"
    assert data["gradients"][0]["name"] == carried.gradients[0].name
    rows = list(csv.DictReader(carried.save(tmp_path / "carried.csv").open()))
    assert len(rows) == len(carried.rows) + len(carried.gradients)
    assert float(rows[0]["own"]) == carried.rows[0].own
    assert (rows[-1]["part"], float(rows[-1]["apart"])) == ("gradient", carried.gradients[-1].apart)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        carried.save(tmp_path / "file" / "carried.csv")


def test_what_is_refused():
    with pytest.raises(PadiffShimError, match="phase='forward' has no backward"):
        proven(phase="forward").carriers("gradients")
    proof = proven()
    with pytest.raises(
        ArgumentError, match=r'of= is "outputs", "gradients" or the name of one of them \(norm.weight.*got \'wrong\''
    ):
        proof.carriers("wrong")
    with pytest.raises(ArgumentError, match='of= is "outputs", "gradients" or the name of one, got 3'):
        proof.carriers(3)
    differing = prove(Port(), Original(), lambda framework: X if framework == "torch" else X + 1)
    with pytest.raises(PadiffShimError, match="INPUTS_DIFFER"):
        differing.carriers("gradients")
