"""Which tensors belong together, whatever is missing between them, and in which layout."""

import dataclasses
from unittest import mock

import numpy as np
import paddle
import pytest
import torch
from hypothesis import given, strategies as st
from pairs import D

import padiff_shim
from padiff_shim.recording import alignment, tensors
from padiff_shim.recording.alignment import align, apart
from padiff_shim.recording.reading import merged, read

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def made(like, index, names=("op",), layer="", values=(0.0,)):
    array = np.asarray(values, "float64")
    return dataclasses.replace(
        like, index=index, names=names, layer=layer, shape=array.shape, dtype="float64", digest=tensors.digest(array),
        figures=tensors.figures(array), sample=tuple(array), _at=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def like(tmp_path_factory):
    folder = tmp_path_factory.mktemp("like")
    with padiff_shim.record(folder, framework="torch") as recording:
        recording.note("x", np.zeros(1))
    return merged(read(folder)[0].steps()).tensors[0]


def test_equal_calls_are_told_apart_by_their_values(like):
    """Three equal relus without a layer's name, one gone at the front and one added at the end."""
    first = [made(like, place, values=[float(value)] * 4) for place, value in enumerate((1, 5, 9, 2))]
    second = [made(like, place, values=[float(value)] * 4) for place, value in enumerate((5, 9, 2, 70))]
    assert [(a and a.index, b and b.index) for a, b in align(first, second)] == [(0, None), (1, 0), (2, 1), (3, 2), (None, 3)]


WORDS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 3)), max_size=9)


@given(WORDS, WORDS)
def test_a_divided_table_aligns_as_well_as_a_whole_one(like, first, second):
    mine, yours = (
        [made(like, place, names=(op,), layer=layer, values=[value, 1]) for place, (op, layer, value) in enumerate(words)]
        for words in (first, second)
    )

    def worth(pairs):
        table = alignment.Likeness(mine, yours)
        return sum(alignment._GAP if a is None or b is None else table.row(a.index, b.index, b.index + 1)[0] for a, b in pairs)

    whole = align(mine, yours)
    with mock.patch.object(alignment, "_STEPS", 4):
        divided = align(mine, yours)
    for pairs in (whole, divided):
        assert [a for a, _ in pairs if a] == mine
        assert [b for _, b in pairs if b] == yours
    assert worth(divided) == pytest.approx(worth(whole))


def test_a_transposed_square_matrix_is_recognised(tmp_path):
    values = np.random.default_rng(0).standard_normal((D, D))
    for name, array in (("a", values), ("b", values.T), ("c", values)):
        with padiff_shim.record(tmp_path / name, framework="torch") as recording:
            recording.note("weight", np.ascontiguousarray(array))
    first, other, same = (merged(read(tmp_path / name)[0].steps()).tensors[0] for name in "abc")
    assert apart(first, other).identical
    assert apart(first, other).layout == "transposed"
    assert apart(first, same).layout == ""


def noted(folder, array, name="x"):
    with padiff_shim.record(folder, framework="torch") as recording:
        recording.note(name, np.ascontiguousarray(array))
    return merged(read(folder)[0].steps()).tensors[0]


@pytest.mark.parametrize("size", [2, 3, 4, 8, 16, 64])
def test_unrelated_square_matrices_are_not_turned(size, tmp_path):
    rng = np.random.default_rng(size)
    for number in range(20):
        first, second = (noted(tmp_path / f"{side}{number}", rng.standard_normal((size, size))) for side in "ab")
        assert apart(first, second).layout == ""


@pytest.mark.parametrize("made", ["ones and zeros", "a diagonal", "nearly constant", "one pair exchanged"])
def test_a_coincidence_is_no_arrangement(made, tmp_path):
    rng = np.random.default_rng(0)
    values = {
        "ones and zeros": np.eye(4)[[1, 0, 2, 3]] + np.eye(4, k=2) * 1.0,
        "a diagonal": np.diag(rng.standard_normal(8)),
        "nearly constant": 1 + 1e-3 * rng.standard_normal((8, 8)),
        "one pair exchanged": np.array([[1.0, 2.0], [3.0, 4.0]]),
    }[made]
    other = {
        "ones and zeros": values.T,
        "a diagonal": np.diag(rng.standard_normal(8)),
        "nearly constant": 1 + 1e-3 * rng.standard_normal((8, 8)),
        "one pair exchanged": values.T,
    }[made]
    assert apart(noted(tmp_path / "a", values), noted(tmp_path / "b", other)).layout == ""


def test_masked_scores_with_as_many_heads_as_samples_are_not_turned(tmp_path):
    scores = np.random.default_rng(0).standard_normal((4, 4, 6, 6)).astype("float32") + np.triu(np.full((6, 6), -1e9, "float32"), 1)
    rounded = np.where(scores > -1e8, scores * (1 + np.float32(2**-20)), scores)
    assert apart(noted(tmp_path / "a", scores), noted(tmp_path / "b", rounded)).layout == ""


def test_what_differs_beside_a_transposition_is_measured_there(tmp_path):
    values = np.random.default_rng(0).standard_normal((D, D)).astype("float32")
    turned = values.T * (1 + np.float32(2**-20))
    first, near = noted(tmp_path / "a", values), noted(tmp_path / "b", turned)
    assert apart(first, near).layout == "transposed"
    turned[1, 2] += 1
    wrong = apart(first, noted(tmp_path / "c", turned))
    assert (wrong.layout, wrong.max_abs) == ("transposed", pytest.approx(1, abs=1e-5))


def test_shapes_that_nothing_brings_together(tmp_path):
    rng = np.random.default_rng(0)
    first, second = noted(tmp_path / "a", rng.standard_normal((4, 6))), noted(tmp_path / "b", rng.standard_normal((6, 4)))
    assert apart(first, second).how == "shape"
    flat = noted(tmp_path / "c", np.ones((2, 3, 4)))
    assert apart(flat, noted(tmp_path / "d", np.full((6, 4), 1.5))).layout == "reshaped"
    assert apart(flat, noted(tmp_path / "e", np.full((6, 1, 4), 1.5))).max_abs == 0.5


def test_weights_lie_transposed_in_the_other_framework_also_where_they_have_drifted(tmp_path):
    weight = np.random.default_rng(0).standard_normal((D, D)).astype("float32")
    for name, values in (("torch", weight.T), ("paddle", weight + np.float32(0.1))):
        model = torch.nn.Linear(D, D) if name == "torch" else paddle.nn.Linear(D, D)
        with torch.no_grad(), paddle.no_grad():
            model.weight.copy_(torch.tensor(values)) if name == "torch" else model.weight.set_value(values)
        with padiff_shim.record(tmp_path / name, model, calls=False, layers=False, parameters=True):
            pass
    (row,) = [row for row in padiff_shim.diff(tmp_path / "torch", tmp_path / "paddle").rows if row.any.name == "weight"]
    assert row.apart.layout == "transposed"
    assert row.apart.max_abs == pytest.approx(0.1, abs=1e-6)


def test_a_result_that_is_arranged_otherwise_differs_in_one_framework(tmp_path):
    x = np.random.default_rng(0).standard_normal((D, D)).astype("float32")
    for name, turned in (("a", False), ("b", True)):
        with padiff_shim.record(tmp_path / name):
            held = paddle.to_tensor(x)
            paddle.exp(held.t() if turned else held)
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b")
    assert not difference
    assert "transposed" in difference.answer
