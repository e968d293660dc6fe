"""What is only rounding: the largest difference of each place, and the tolerance that fails no right kernel."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ArgumentError, Verdict, testing
from padiff_shim.runlog import words
from padiff_shim.runlog.counts import PLACES, Innocent

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def reordered(out, x, weight, bias, *_):
    """A right product whose sums are taken from the other end."""
    return torch.nn.functional.linear(x.flip(-1), weight.flip(-1), bias)


@pytest.fixture(scope="module")
def compared():
    paddle.seed(0)
    layer, x = paddle.nn.Linear(768, 64), paddle.to_tensor(np.random.default_rng(0).standard_normal((16, 768)).astype("float32"))
    with testing.planted("linear", reordered), padiff_shim.compare("torch", audit=1) as run:
        layer(x)
        layer(x * 10.0)
    return run


def test_the_largest_difference_has_its_bound(compared):
    assert set(compared.verdicts) <= {"ROUNDING", "EQUAL"}
    largest = compared.rounding(1)[0]
    stats = largest.stats
    assert largest.op == "linear"
    assert largest.verdict is Verdict.ROUNDING
    assert stats["k"] == 768
    assert 0 < stats["max_abs"] <= stats["allowed"]
    assert stats["allowed"] >= 2 * stats["bound"] * (1 - 1e-8)


def test_it_is_printed(compared):
    largest = compared.rounding(1)[0].stats
    for text in (str(compared), compared.markdown()):
        assert "smallest safe atol" in text
        assert words.figure(largest["max_abs"]) in text
        assert words.figure(largest["allowed"]) in text


def test_a_saved_run_says_the_same(compared, tmp_path):
    assert [str(call) for call in padiff_shim.load(compared.copy_log(tmp_path / "log")).rounding()] == [
        str(call) for call in compared.rounding()
    ]


def test_an_equal_result_has_a_bound_too_if_all_are_audited():
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((4, 64)).astype("float32"))
    for audit in (0, 1):
        planted = testing.planted("softmax", lambda out, x, *_: torch.softmax(x, -1))
        with planted, padiff_shim.compare("torch", audit=audit) as run:
            paddle.nn.functional.softmax(x)
        (call,) = run.calls
        assert call.verdict is Verdict.EQUAL
        assert [call.stats["max_abs"] for call in run.rounding()] == [0] * audit


def test_what_is_wrong_is_not_among_it():
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((4, 64)).astype("float32"))
    with testing.planted("softmax", lambda out, *_: out * 1.01), padiff_shim.compare("torch") as run:
        paddle.nn.functional.softmax(x)
    assert run.verdicts["WRONG"] == 1
    assert run.rounding() == []
    with pytest.raises(ArgumentError):
        run.rounding("all")


def test_its_memory_is_bounded():
    innocent = Innocent()
    for line in range(PLACES + 5):
        for size in (1.0, 3.0, 2.0):
            stats = {"different": 1, "max_abs": size + line / PLACES / 10, "allowed": "inf"}
            innocent.add({"verdict": "ROUNDING", "op": "add", "tensor": "out", "site": f"a.py:{line}", "stats": stats}, "log")
    assert len(innocent.largest()) == PLACES
    assert innocent.largest()[0][0]["stats"]["max_abs"] == pytest.approx(3.0 + (PLACES - 1) / PLACES / 10)
