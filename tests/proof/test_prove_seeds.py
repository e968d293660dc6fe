"""The accuracy cases that users reported are right ports: proven with all gradients, small here, whole in `make demo-prove`."""

import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import thinned

from padiff_shim import ProofVerdict, prove

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import demo_prove_seeds as demo
from seeds.config import Ctrl

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]
NARROW = Ctrl(layers=12, width=64, feed_forward=128, vocabulary=128)
SMALL = {
    "ctrl-float32": lambda: demo.ctrl("float32", NARROW, (2, 16)),
    "ctrl-float64": lambda: demo.ctrl("float64", NARROW, (2, 16)),
    "reformer-2": demo.PAIRS["reformer-2"],
    "reformer-12": demo.PAIRS["reformer-12"],
}


def proven(pair):
    row = demo.proven(pair)
    assert row.proof.verdict is ProofVerdict.CODE_CORRECT, str(row.proof)
    assert row.proof.differences["shim"] == 0
    assert all(layer.identical for layer in row.proof.layers)
    shown = demo.cells(row)
    assert shown[3] == "CODE_CORRECT"
    assert int(shown[5]) == sum(1 for _ in pair.port.parameters())
    assert bool(row.carriers) == (pair.dtype == "float32")
    assert ("%" in row.carriers) == (bool(row.native) and pair.dtype == "float32")
    return row


@pytest.mark.parametrize("name", thinned(SMALL, "reformer-2"))
def test_a_reported_case_is_proven(name):
    assert len(proven(SMALL[name]()).proof.layers) > 12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ctrl-float32", "ctrl-float64", "minilm-float32"])
def test_the_whole_model_is_proven(name):
    if missing := demo.lacking(["minilm"] if "minilm" in name else []):
        pytest.skip(missing)
    proven(demo.PAIRS[name]())


def test_a_wrong_weight_among_twelve_layers_is_named():
    pair = SMALL["ctrl-float32"]()
    weight = pair.port.model.layers[7].linear1.weight
    weight.set_value(weight * np.float32(1.0 + 1e-6))
    proof = prove(pair.port, pair.original, pair.inputs, weights="as-is")
    assert proof.verdict is ProofVerdict.WEIGHTS_DIFFER
    assert "layers.7.linear1.weight" in proof.reason
