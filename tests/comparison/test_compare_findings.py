"""What compare mode says of Paddle 3.3.1 itself: the real defects by name, and the users' suspects found innocent."""

import paddle
import pytest
from encoder import randn
from paddle.nn import functional as F

import padiff_shim
from padiff_shim import testing
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.verdicts import Side, Verdict

pytestmark = [
    pytest.mark.bitexact,
    pytest.mark.usefixtures("undone"),
    pytest.mark.skipif(not IS_3, reason="defects of Paddle 3.3.1"),
]


def compared(program):
    with padiff_shim.compare("torch") as run:
        program()
    return run


def test_layer_norm_rounds_epsilon_to_float32_in_float64():
    x = randn(16, 64, dtype="float64")
    run = compared(lambda: F.layer_norm(x, [64], epsilon=1e-5).square().sum().backward())
    calls = run.calls.filter(op="layer_norm")
    assert {call.phase for call in calls} == {"forward", "backward"}
    for call in calls:
        assert call.side == Side.PADDLE
        assert call.verdict in (Verdict.PRECISION_MODE, Verdict.SEMANTICS)
        assert call.hypothesis.startswith("epsilon->float32")
        assert call.quirk == "epsilon in float32"


@pytest.mark.parametrize("order", ["as it is", "backwards"])
@pytest.mark.parametrize("scale", [0.02, 1.0], ids=["N(0, 0.02)", "N(0, 1)"])
@pytest.mark.parametrize("op", ["linear", "matmul"])
def test_the_suspected_products_are_innocent(op, scale, order):
    """Whether the two kernels differ is up to the machine; with one of them summing backwards they do."""
    x, w = randn(32, 768), randn(768, 768, seed=1) * scale
    program = {"linear": lambda: F.linear(x, w), "matmul": lambda: paddle.matmul(x, w)}[op]
    product = {"linear": lambda x, w: x.flip(-1) @ w.flip(-1).t(), "matmul": lambda x, w: x.flip(-1) @ w.flip(-2)}[op]
    change = {"as it is": lambda out, *values: out, "backwards": lambda out, x, w, *rest: product(x, w)}[order]
    with testing.planted(op, change):
        run = compared(lambda: program().sum().backward())
    calls = run.calls.filter(op=op)
    assert len(calls) == 3
    assert all(call.verdict in (Verdict.EQUAL, Verdict.ROUNDING) for call in calls), run
    if order == "backwards":
        (forward,) = run.calls.filter(op=op, phase="forward")
        assert forward.verdict == Verdict.ROUNDING
        assert max(forward.stats[side]["rho_max"] for side in ("paddle", "torch")) < 4


def test_known_differences_can_be_muted(tmp_path):
    known = tmp_path / "known.toml"
    known.write_text('[[known]]\nname = "sequential sum"\nmute = true\n')
    x = paddle.full([4, 65536], 0.1)
    with padiff_shim.compare("torch", known_differences=known, on_mismatch="raise") as run:
        paddle.sum(x, axis=1)
    assert run.calls[0].muted
    assert run.first_divergence() is None


def test_random_ops_get_no_verdict_and_say_so():
    x = randn(8, 8)
    run = compared(lambda: F.dropout(x, 0.5))
    assert not len(run.calls)
    assert any("random" in reason for reason in run.coverage()["unchecked"])
