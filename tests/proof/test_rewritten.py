"""Right ports that are written otherwise are not accused."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from padiff_shim import prove
from padiff_shim.frameworks import weight_copies

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
PORTS = importlib.import_module("zoo.rewritten").PORTS

pytestmark = pytest.mark.bitexact


def test_a_proof_lays_weights_out_as_the_original_does(monkeypatch):
    """Also where no product needs a copy of its weight: a backward of another form was taken for a missing product."""
    monkeypatch.setattr(weight_copies, "_known", {})
    monkeypatch.setattr(weight_copies, "WORTH", 0)
    original, port, shape = PORTS["attention in one call"]
    torch.manual_seed(0)
    proof = prove(port(), original(), np.random.default_rng(0).standard_normal(shape) * 4.0)
    assert proof, str(proof)
    assert not weight_copies._known


@pytest.mark.rows(3)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PORTS)
def test_the_same_mathematics_in_another_order_is_right(name, seed):
    original, port, shape = PORTS[name]
    torch.manual_seed(seed)
    proof = prove(port(), original(), np.random.default_rng(seed).standard_normal(shape) * 4.0)
    assert proof, str(proof)
    assert not proof.mistakes
