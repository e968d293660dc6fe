"""Calls of integers, or without elements, round nothing: they are no float calls, and lower no share."""

import paddle
import pytest

import padiff_shim
from padiff_shim import testing
from padiff_shim.report.reference import ReferenceFigures
from padiff_shim.runlog.counts import is_float, rounds
from padiff_shim.table import reasons

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def program():
    ids = paddle.to_tensor([[1, 2], [3, 4]])
    words = paddle.nn.functional.embedding(ids + 1, paddle.ones([8, 4]))
    total = (ids * 2).sum()
    return words.sum() * paddle.cast(total, "float32")


def test_a_program_on_torchs_kernels_may_count_in_integers():
    run = testing.assert_on_torch(program)
    assert run.native["add"] == {reasons.INTEGER.text: 1}, "it is there, with its reason"
    with padiff_shim.reference("torch", strict=True):
        program()


def test_a_float_call_on_paddles_kernel_fails_all_the_same():
    boxes = paddle.to_tensor([[0.0, 0.0, 1.0, 1.0]])
    with pytest.raises(AssertionError, match="nms") as caught:
        testing.assert_on_torch(lambda: paddle.vision.ops.nms(boxes + (paddle.to_tensor([1]) + 1).astype("float32"), 0.5))
    assert "integer" not in str(caught.value)


def test_shares_of_reference_count_them_apart(tmp_path):
    a, x = paddle.to_tensor([1, 2]), paddle.ones([2, 2])
    with padiff_shim.reference("torch", log=tmp_path) as run:
        a + a
        a.sum()
        paddle.matmul(x, x)
    account = ReferenceFigures(run.to_dict())
    assert (account.substituted, account.native, account.exact) == (1, 0, 2)
    assert run.to_dict()["ops"]["sum"]["integers"] == 1
    assert ReferenceFigures(padiff_shim.load(tmp_path).to_dict()).headline() == account.headline()


def test_a_profile_counts_them_apart():
    class Shifted(paddle.nn.Layer):
        def forward(self, x):
            return x + (paddle.to_tensor([1]) + 1).astype("float32")

    layers = paddle.nn.Sequential(paddle.nn.Linear(2, 2), Shifted())
    with padiff_shim.reference("torch", profile=True) as run:
        layers(paddle.ones([1, 2]))
    assert {spent.covered for spent in ReferenceFigures(run.to_dict()).layers() if spent.calls} == {"100 %"}


def test_coverage_of_compare_counts_them_apart(tmp_path):
    a, x = paddle.to_tensor([1, 2]), paddle.ones([2, 2])
    with padiff_shim.compare("torch", log=tmp_path) as run:
        a + a
        a.sum()
        paddle.matmul(x, x)
        paddle.argmax(x)
    coverage = run.coverage()
    assert (coverage["float_calls"], coverage["checked_calls"], coverage["float_elements"]) == (1, 1, 4)
    assert coverage["exact_calls"] == 3
    assert padiff_shim.load(tmp_path).coverage() == coverage


def test_what_is_left_uncompared_is_counted_alike():
    a, x = paddle.to_tensor([1, 2]), paddle.ones([2, 2])
    with padiff_shim.compare("torch", first=1) as run:
        for _ in range(3):
            a.sum()
            paddle.matmul(x, x)
    coverage = run.coverage()
    assert (coverage["float_calls"], coverage["exact_calls"]) == (3, 3)
    assert coverage["checked_calls"] < 3
    assert list(coverage["unchecked_ops"]) == ["matmul"]


def test_the_reasons_that_round_nothing():
    codes = {reason.code for reason in vars(reasons).values() if isinstance(reason, reasons.Reason) and not rounds(reason.text)}
    assert codes == {"integer", "empty", "counted", "graph-sampling", "whole"}


def test_dtypes():
    assert [name for name in ("float16", "bfloat16", "complex64", "int8", "bool", "uint8") if not is_float(name)] == [
        "int8", "bool", "uint8",
    ]  # fmt: skip
