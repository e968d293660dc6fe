"""Right ports that are written otherwise are not accused."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from padiff_shim import prove

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
PORTS = importlib.import_module("zoo.rewritten").PORTS

pytestmark = pytest.mark.bitexact


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PORTS)
def test_the_same_mathematics_in_another_order_is_right(name, seed):
    original, port, shape = PORTS[name]
    torch.manual_seed(seed)
    proof = prove(port(), original(), np.random.default_rng(seed).standard_normal(shape) * 4.0)
    assert proof, str(proof)
    assert not proof.mistakes
