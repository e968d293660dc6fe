"""Where the bits of two recorded runs part: the call with its line, and the settings that can be the reason."""

import json
import linecache

import paddle
import pytest
from pairs import paddle_run, seeded

import padiff_shim
from padiff_shim import diff

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """One program on Paddle's kernels, and on Torch's with another setting."""
    monkeypatch.delenv("MKL_CBWR", raising=False)
    paddle_run(tmp_path / "native", seeded())
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    with padiff_shim.reference("torch"):
        paddle_run(tmp_path / "torch", seeded())
    return tmp_path / "native", tmp_path / "torch"


def test_a_call_of_equal_operands_and_other_results_has_its_line_and_the_settings_that_differ(recordings):
    difference = diff(*recordings)
    origins = difference.call_origins
    first = origins.held[0]
    assert (first.kind, first.row.any.name, first.row.any.layer) == ("call", "layer_norm", "norm")
    assert "self.norm(x)" in linecache.getline(first.row.a.file, first.row.a.line)
    assert [(switch.name, switch.a, switch.b) for switch in first.switches] == [("environment.MKL_CBWR", "not set", "COMPATIBLE")]
    differing = [row for row in difference.differing if row.any.kind == "op"]
    assert origins.count + origins.carried == len(differing)
    assert origins.carried > origins.count
    assert "CBWR" in difference.markdown()
    json.dumps(difference.to_dict(), allow_nan=False)


@pytest.mark.parametrize(("seed", "share", "kind"), [(1, 0.5, "random numbers"), (0, 0.25, "arguments")])
def test_random_numbers_and_arguments_are_no_settings(tmp_path, seed, share, kind):
    x = paddle.linspace(-1, 1, 64)
    for folder, start, dropped in (("a", 0, 0.5), ("b", seed, share)):
        paddle.seed(start)
        with padiff_shim.record(tmp_path / folder):
            paddle.nn.functional.dropout(x, dropped)
    (origin,) = diff(tmp_path / "a", tmp_path / "b").call_origins.held
    assert (origin.kind, origin.switches) == (kind, ())


def test_an_update_without_a_model_is_named_by_its_settings(tmp_path):
    x = paddle.linspace(-1, 1, 12).reshape([4, 3])
    for folder, rate in (("a", 0.1), ("b", 0.2)):
        paddle.seed(0)
        layer = paddle.nn.Linear(3, 2)
        optimizer = paddle.optimizer.SGD(rate, parameters=layer.parameters())
        with padiff_shim.record(tmp_path / folder):
            for _ in range(2):
                layer(x).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
    difference = diff(tmp_path / "a", tmp_path / "b")
    assert (difference.reason.kind, difference.reason.numbers["a"], difference.reason.numbers["b"]) == ("learning rate", 0.1, 0.2)
    assert difference.first.any.step == 1
    assert not difference.call_origins.held
