"""What a reference run says of calls that this Paddle has no kernel for."""

import paddle
import pytest

import padiff_shim
from padiff_shim.errors import PadiffShimError

pytestmark = pytest.mark.compat


def program():
    x = paddle.ones([3, 4]).astype("bfloat16")
    for _ in range(3):
        paddle.nn.functional.softmax(x @ x.t())
    paddle.nn.functional.gelu(x.astype("float16"))
    paddle.nn.functional.gelu(x.astype("float32"))
    paddle.isclose(x, x)


SAID = "Native kernel missing: 8 calls that this Paddle cannot run natively: matmul in bfloat16 (3), softmax in bfloat16 (3), "


def test_they_are_counted_by_op_and_dtype(tmp_path):
    with padiff_shim.reference("torch", log=tmp_path) as run:
        program()
    counted = {"matmul": {"bfloat16": 3}, "softmax": {"bfloat16": 3}, "gelu": {"float16": 1}, "isclose": {"bfloat16": 1}}
    assert run.without_kernel == counted
    assert run.substituted["gelu"] == 2
    assert SAID in str(run)
    assert SAID in run.markdown().replace("\\", "")
    assert SAID in run.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert run.to_dict()["ops"]["matmul"]["without_kernel"] == {"bfloat16": 3}
    assert "without_kernel" not in run.to_dict()["ops"]["cast"]
    assert padiff_shim.load(tmp_path).without_kernel == counted


def test_nothing_is_said_where_there_are_none():
    with padiff_shim.reference("torch") as run:
        paddle.nn.functional.gelu(paddle.ones([3]))
    assert run.without_kernel == {}
    assert "Native kernel missing" not in str(run)
    assert "no kernel" not in str(run)


def test_a_profiled_run_counts_them():
    with padiff_shim.reference("torch", profile=True) as run:
        program()
    assert run.without_kernel["matmul"] == {"bfloat16": 3}


@pytest.mark.parametrize("grad", [False, True])
def test_paddles_own_error_where_that_is_wanted(grad):
    x = paddle.ones([3, 4]).astype("bfloat16")
    x.stop_gradient = not grad
    calls = {
        "matmul": lambda: x @ x.t(),
        "softmax": lambda: paddle.nn.functional.softmax(x),
        "isclose": lambda: paddle.isclose(x, x),
        "linspace": lambda: paddle.linspace(0, 1, 3, "bfloat16"),
        "uniform_": lambda: x.detach().uniform_(),
    }
    for _ in range(2):
        with padiff_shim.reference("torch"):
            program()  # which is learnt from
            paddle.nn.functional.softmax(x)
        with padiff_shim.reference("torch", kernels="paddle") as run:
            for call in calls.values():
                with pytest.raises(RuntimeError, match="is not registered"):
                    call()
        assert run.without_kernel == {}
        assert not set(run.substituted) & {"matmul", "softmax"}


def test_a_comparison_has_no_such_option():
    with pytest.raises(PadiffShimError, match="kernels= belongs to reference"):
        padiff_shim.reference("torch", compare=True, kernels="paddle")
