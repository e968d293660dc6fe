"""``padiff_shim.difference``: trees of either framework, what counts as equal, and one unit in the last place for all answers."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ArgumentError


def test_two_tensors_of_either_framework():
    values = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    assert padiff_shim.difference(paddle.to_tensor(values), torch.from_numpy(values))
    other = values.copy()
    other[1, 2] += 0.25
    apart = padiff_shim.difference(paddle.to_tensor(other), torch.from_numpy(values))
    assert not apart
    assert (apart.first, apart.max_abs, apart.different, apart.equal_share) == ((1, 2), 0.25, 1, pytest.approx(23 / 24))
    assert apart.dtypes == ("float32", "float32")
    with pytest.raises(AttributeError):
        _ = apart.largest_of_all


def test_trees_are_compared_by_name():
    a = {"logits": torch.ones(3), "states": [paddle.zeros([2]), np.ones(2)], "note": "x"}
    b = {"logits": torch.ones(3), "states": [torch.zeros(2), torch.ones(2, dtype=torch.float64)], "note": "x"}
    b["extra"] = torch.ones(1)
    apart = padiff_shim.difference(a, b)
    assert [each.name for each in apart.tensors] == ["logits", "states[0]", "states[1]"]
    assert apart.unpaired == [("extra", "b")]
    assert not apart
    assert not apart.differing
    del b["extra"]
    assert padiff_shim.difference(a, b)
    b["states"][0][1] = -0.0
    assert [each.name for each in padiff_shim.difference(a, b).differing] == ["states[0]"]


def test_tolerances_and_a_comparator_of_the_user():
    a, b = {"x": np.float32([1.0, 2.0]), "y": np.float32([1.0])}, {"x": np.float32([1.0, 2.125]), "y": np.float32([1.0])}
    assert not padiff_shim.difference(a, b, atol=0.1)
    assert padiff_shim.difference(a, b, atol=0.125)
    assert padiff_shim.difference(a, b, rtol=0.0625)
    names = []

    def near(first, second, name):
        names.append(name)
        return np.abs(first - second).max() < 0.2

    assert padiff_shim.difference(a, b, equal=near)
    assert names == ["x"]  # what is equal bit for bit is no question
    assert not padiff_shim.difference(a, b, atol=1.0, equal=lambda first, second, name: False)
    assert padiff_shim.difference(a, b, atol=1.0, equal=lambda first, second, name: None)
    for rtol in (1e-9, 1.0):
        judged = padiff_shim.difference(
            a, b, equal=lambda first, second, name, rtol=rtol: padiff_shim.difference(first, second, rtol=rtol)
        )
        assert bool(judged) is (rtol == 1.0)
    with pytest.raises(ArgumentError, match="equal="):
        padiff_shim.difference(a, b, equal=lambda first, second, name: 3)


def test_other_shapes_dtypes_and_nothing_to_compare():
    assert padiff_shim.difference(torch.ones(2), torch.ones(2, 1)).how == "shape"
    assert not padiff_shim.difference(torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert padiff_shim.difference([1.0, 2.0], np.array([1.0, 2.0]))
    assert padiff_shim.difference(torch.eye(3).to_sparse(), torch.eye(3).to_sparse())
    for empty in ({}, "text", None):
        with pytest.raises(ArgumentError, match="no tensor"):
            padiff_shim.difference(empty, torch.ones(1))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"x": [np.ones(2), 1]}, {"x": [np.ones(2), 2]}, False),
        ({"x": [np.ones(2), 1]}, {"x": [np.ones(2), 1]}, True),
        ((np.ones(2), True), (np.ones(2), False), False),
        ((np.ones(2), 1j), (np.ones(2), 2j), False),
        ((np.ones(2), 2**70), (np.ones(2), 2**70 + 1), False),
        ((np.ones(2), "text"), (np.ones(2), "words"), False),
        ((np.ones(2), None), (np.ones(2), 0), False),
        ((np.ones(2), None), (np.ones(2),), False),
        ((np.ones(2), None), (np.ones(2), None), True),
        ((np.ones(2), float("nan")), (np.ones(2), float("nan")), True),
        ([1, [2, 3]], [1, [2, 4]], False),
        ([1, [2, 3]], [1, [2, 3]], True),
    ],
)
def test_what_stands_beside_tensors_counts(first, second, same):
    apart = padiff_shim.difference(first, second)
    assert bool(apart) is same
    assert bool(apart.findings) is not same
    assert apart.answer.startswith("SAME" if same else "DIFFERENT")


def test_tolerances_hold_for_numbers_too():
    assert padiff_shim.difference({"x": np.ones(2), "loss": 1.0}, {"x": np.ones(2), "loss": 1.125}, atol=0.125)


@pytest.mark.parametrize("nothing", [[], {}, ()])
def test_two_trees_without_a_tensor_are_equal_and_no_tensor_is_counted(nothing):
    apart = padiff_shim.difference(nothing, [])
    assert apart
    assert apart.tensors == []
    assert "1 tensor" not in apart.answer


def test_an_object_that_cannot_be_compared_is_named_in_the_headline():
    apart = padiff_shim.difference({"x": np.ones(2), "cache": object()}, {"x": np.ones(2), "cache": object()})
    assert apart.unmeasured == ["cache"]
    assert "cache" in apart.headline


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "Inf")])
def test_nan_and_infinity_stand_in_the_headline(value, name):
    headline = padiff_shim.difference(np.float32([value, 1.0]), np.float32([1.0, 1.0])).headline
    assert f"{name}: 1" in headline
    assert "max inf" not in headline


def test_one_pair_has_one_ulp_in_every_answer(tmp_path):
    """The units of a comparison's log, of two recordings, of a drift and of this function are one."""
    values = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    with padiff_shim.compare("torch") as run:
        native = paddle.nn.functional.softmax(paddle.to_tensor(values), -1)
    reference = torch.softmax(torch.from_numpy(values), -1)
    expected = padiff_shim.difference(native, reference)
    assert expected.ulp
    (call,) = [call for call in run.calls if call.tensor == "out"]
    assert call.stats["ulp_max"] == pytest.approx(expected.ulp)
    for folder, result in (("a", native), ("b", reference)):
        with padiff_shim.record(tmp_path / folder, framework="paddle" if folder == "a" else "torch") as recording:
            recording.note("softmax", result)
    (row,) = padiff_shim.diff(tmp_path / "a", tmp_path / "b").rows
    assert row.apart.ulp == pytest.approx(expected.ulp)
    assert row.apart.max_abs == expected.max_abs
