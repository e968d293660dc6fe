"""The answer of a comparison in one sentence, and what can be done about it."""

import json
import re

import numpy as np
import paddle
import pytest
import torch
from log_data import filled, record, wrong

import padiff_shim
from padiff_shim import testing
from padiff_shim.report.compare import brief, headline, status
from padiff_shim.runlog.counts import Counts
from padiff_shim.runlog.words import figure

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def tf32(x):
    bits = x.contiguous().view(torch.int32)
    return (bits + (0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)


def product(out, x, weight, bias, *_):
    return torch.nn.functional.linear(tf32(x), tf32(weight), bias)


def compared(change, *, side="paddle", gradients=False):
    rng = np.random.default_rng(0)
    layer = paddle.nn.Linear(256, 16)
    layer.weight.set_value(rng.standard_normal((256, 16)).astype("float32"))
    x = paddle.to_tensor(rng.standard_normal((32, 256)).astype("float32"))
    with testing.planted("linear", change, side=side, gradients=gradients), padiff_shim.compare("torch", audit=1) as run:
        layer(x).sum().backward()
    return run


@pytest.mark.parametrize("side", ["paddle", "torch"])
def test_tf32_says_whose_it_is_and_how_it_is_turned_off(side):
    run = compared(product, side=side)
    worst = run.worst(1)[0]
    assert (str(worst.verdict), str(worst.side), worst.op) == ("PRECISION_MODE", side, "linear")
    assert side.capitalize() in run.headline
    assert "test_headline.py" in run.headline
    assert ("NVIDIA_TF32_OVERRIDE=0" in str(run)) == (side == "paddle")
    assert ("allow_tf32" in str(run)) == (side == "torch")
    assert run.headline in str(run)


def test_a_wrong_gradient_is_named():
    run = compared(lambda gradient, name, *_: gradient * 1.5 if name == "weight" else gradient, gradients=True)
    worst = run.worst(1)[0]
    assert (str(worst.verdict), str(worst.side), worst.op, worst.tensor) == ("WRONG", "paddle", "linear", "grad:weight")
    assert "linear (weight)" in run.headline


def test_where_nothing_is_wrong_the_bound_is_told():
    run = compared(lambda out, x, weight, bias, *_: torch.nn.functional.linear(x.flip(-1), weight.flip(-1), bias))
    stats = run.counts.innocent.largest()[0][0]["stats"]
    assert figure(stats["allowed"]) in run.answer


def test_equal_results_are_told_apart_from_rounding():
    with testing.planted("relu", lambda out, x: torch.relu(x)), padiff_shim.compare("torch", audit=1) as run:
        paddle.nn.functional.relu(paddle.to_tensor([1.0, -1.0, 0.5]))
    assert run
    assert set(run.verdicts) == {"EQUAL"}


def test_a_run_without_calls():
    with padiff_shim.compare("torch") as run:
        pass
    assert run.answer == "Nothing was compared."


def test_of_calls_of_integers_alone_no_number_is_said():
    with padiff_shim.compare("torch") as run:
        paddle.argmax(paddle.to_tensor([1.0, 3.0, 2.0]))
    assert (run.counts.records, run.coverage()["float_calls"]) == (1, 0)
    assert set(run.verdicts) == {"EQUAL"}


@pytest.fixture
def known(tmp_path):
    """A file in which the epsilon that Paddle rounds is a known difference, whatever the version."""
    entry = {"name": "our epsilon", "op": "layer_norm", "verdict": "PRECISION_MODE", "reason": "we know"}
    file = tmp_path / "known.json"
    file.write_text(json.dumps({"known": [entry]}))
    return file


def test_what_is_known_is_not_said_to_be_equal(known):
    with padiff_shim.compare("torch", known_differences=known) as run:
        paddle.nn.functional.layer_norm(paddle.to_tensor([[1e-3, -1e-3]], dtype="float64"), 2)
    assert run.first_divergence(), "it has the difference"
    assert "our epsilon" in run.answer


@pytest.mark.parametrize(
    ("options", "judged"),
    [({}, "Judged: all 3 float calls."), ({"every": 3}, "Judged: 1 of 3 float calls (33.3 %).")],
    ids=["all", "a part"],
)
def test_of_how_many_calls_it_is_said(options, judged):
    x = paddle.to_tensor([1.0, -1.0])
    with padiff_shim.compare("torch", **options) as run:
        for _ in range(3):
            paddle.nn.functional.relu(x)
    assert run
    assert judged in run.headline
    assert judged in str(run)
    assert judged in run.markdown()


def test_ops_that_nobody_judged_are_named():
    table = paddle.nn.Embedding(5, 4, sparse=True)
    with padiff_shim.compare("torch") as run:
        (table(paddle.arange(5)) * 2).sum().backward()
    assert run.coverage()["checked_calls"] < run.coverage()["float_calls"]
    assert "embedding" in run.headline


def test_a_budget_says_how_much_of_the_program_it_left_out(tmp_path):
    layer = paddle.nn.Linear(8, 8)
    with padiff_shim.compare("torch", budget="0.001%", log=tmp_path) as run:
        for _ in range(30):
            layer(paddle.ones([2, 8])).sum().backward()
    idle, stretches = run.coverage()["idle"], run.coverage()["stretches"]
    assert 0 < idle <= stretches
    assert f"{idle} of {stretches} " in run.answer
    assert padiff_shim.load(tmp_path).answer == run.answer


def test_where_nothing_could_be_judged_none_is_cleared():
    counts = Counts()
    counts.add({"op": "relu", "tensor": "out", "verdict": "UNVERIFIED", "phase": "forward", "shape": [2], "site": "", "layer": ""})
    assert status(counts) == ("UNVERIFIED", "open")
    assert "Judged: 0 of 1 float call" in headline(counts, counts.coverage.to_dict())


@pytest.mark.parametrize("updates", [0, 1_000])
def test_a_headline_without_a_finding_always_says_of_how_many_calls_that_is_known(updates):
    run = filled([{**record(0), "op": "scaled_dot_product_attention"}])
    partial = {**run.coverage(), "float_calls": 123_456_789, "checked_calls": 61_728_394, "updates": updates}
    for way in brief(run.counts, partial):
        assert "61,728,394 of 123,456,789" in way


def test_with_a_budget_an_accusation_says_of_how_much():
    run = filled([wrong(0)])
    partial = {**run.coverage(), "float_calls": 10, "checked_calls": 1, "idle": 3, "stretches": 4}
    assert re.findall(r"\d+", headline(run.counts, partial))[-5:] == ["1", "10", "10", "3", "4"]


@pytest.mark.parametrize(
    ("records", "badge"),
    [
        ([], ("NOT COMPARED", "open")),
        ([{"verdict": "EQUAL"}, {"verdict": "TIE"}], ("EQUAL", "good")),
        ([{"verdict": "UNVERIFIED"}, {"verdict": "ROUNDING"}], ("ROUNDING", "good")),
        ([{"verdict": "UNVERIFIED"}], ("UNVERIFIED", "open")),
        ([{"verdict": "ROUNDING"}, {"verdict": "LOW_ACCURACY", "side": "paddle"}], ("LOW_ACCURACY", "warning")),
        ([{"verdict": "LOW_ACCURACY", "side": "paddle"}, {"verdict": "WRONG", "side": "torch"}], ("WRONG", "bad")),
        ([{"verdict": "SEMANTICS", "side": "paddle", "quirk": "epsilon"}], ("KNOWN", "good")),
    ],
)
def test_the_badge_is_the_verdict_of_the_headline(records, badge):
    counts = Counts()
    for fields in records:
        counts.add(record(**fields))
    assert status(counts) == badge
