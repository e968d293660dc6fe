"""Defects that no known difference stands for: a comparison accuses Paddle."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim
from padiff_shim.catalogue.defects import defects
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
# Name of the defect -> what a comparison says of its program: op, tensor and hypothesis.
ACCUSED = {
    "attention ignores its mask with is_causal": ("scaled_dot_product_attention", "out", "mask-ignored"),
    "householder_product writes to its operand": ("householder_product", "x", "writes-operand"),
    "svdvals merges batch axes": ("svdvals", "out", "one-batch-axis"),
    "norm of a 0-D tensor along an axis is zero": ("vector_norm", "out", "no-element-seen"),
}
HERE = [name for name in ACCUSED if paddle.__version__ in defects()[name].paddle]


def run_program(program):
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(("name", "title"), [(name, title) for name in HERE for title, _ in defects()[name].programs()])
def test_a_comparison_accuses_paddle(name, title):
    program = dict(defects()[name].programs())[title]
    with padiff_shim.compare("torch") as run, pytest.raises(AssertionError):
        run_program(program)
    op, tensor, hypothesis = ACCUSED[name]
    accused = {(call.op, call.tensor, str(call.side), call.hypothesis): str(call.verdict) for call in run.calls if call.side}
    verdict = accused.get((op, tensor, "paddle", hypothesis))
    assert verdict in ("SEMANTICS", "NONFINITE"), [str(call) for call in run.calls]
    assert run.answer.startswith(f"Paddle's {op}")
    assert verdict == "NONFINITE" or f"({hypothesis})" in run.answer


@pytest.mark.skipif(not IS_3, reason="2.6 has no kernel of it for a CPU")
@pytest.mark.parametrize("kind", ["numbers", "booleans"])
def test_a_mask_that_says_what_is_causal_says_is_innocent(kind):
    past = np.tril(np.ones((5, 5), bool))[None, None]
    mask = paddle.to_tensor(past if kind == "booleans" else np.where(past, 0.0, -1e9).astype("float32"))
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((2, 5, 2, 8)).astype("float32"))
    with padiff_shim.compare("torch") as run:
        F.scaled_dot_product_attention(x, x, x, mask, 0.0, is_causal=True)
    assert run, run.answer
    assert not run.warnings


def test_the_result_of_what_writes_its_operand_is_judged_as_well():
    """A function that writes an operand is accused once, and its result on its own."""
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((2, 4, 3)).astype("float32"))
    with padiff_shim.compare("torch") as run:
        paddle.linalg.householder_product(x, x[:, 0].clone())
    tensors = [(call.tensor, str(call.verdict)) for call in run.calls.filter(op="householder_product")]
    assert [tensor for tensor, _ in tensors] == ["out", "x"]
    assert dict(tensors)["out"] in ("EQUAL", "ROUNDING")
    assert run.coverage()["float_calls"] == len({call.call for call in run.calls})


@pytest.mark.parametrize("norm", ["batch", "instance"])
@pytest.mark.parametrize(("x_turned", "grad_turned"), [(True, False), (False, True)])
def test_gradients_that_torch_reads_in_another_order_are_right(norm, x_turned, grad_turned):
    """Where x and the incoming gradient lie unlike, and an axis has one element."""

    def laid(values, turned):
        flat = values.transpose(0, 3, 2, 1) if turned else values
        tensor = paddle.to_tensor(np.ascontiguousarray(flat).astype("float32"))
        return tensor.transpose([0, 3, 2, 1]) if turned else tensor

    def gradients():
        x = laid(np.arange(12.0).reshape(1, 4, 3, 1) ** 2, x_turned).detach()
        x.stop_gradient = False
        zeros, ones = paddle.zeros([4]), paddle.ones([4])
        y = F.batch_norm(x, zeros, ones, training=True) if norm == "batch" else F.instance_norm(x)
        return paddle.grad([y], [x], [laid(np.arange(12.0).reshape(1, 4, 3, 1) ** 3, grad_turned)])[0].numpy()

    native = gradients()
    for mode in (padiff_shim.reference, padiff_shim.compare):
        with mode("torch") as run:
            np.testing.assert_allclose(gradients(), native, atol=1e-4 * abs(native).max())
        assert run, run.headline
