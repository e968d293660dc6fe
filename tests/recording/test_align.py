"""Which tensors belong together, whatever is missing between them, and in which layout."""

import dataclasses
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import D

import padiff_shim
from padiff_shim.recording import align as aligning
from padiff_shim.recording import figures
from padiff_shim.recording.align import align
from padiff_shim.recording.measure import apart
from padiff_shim.recording.reading import read

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def made(like, index, names=("op",), layer="", values=(0.0,)):
    array = np.asarray(values, "float64")
    return dataclasses.replace(
        like, index=index, names=names, layer=layer, shape=array.shape, dtype="float64", digest=figures.digest(array),
        figures=figures.figures(array), sample=tuple(array), _at=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def like(tmp_path_factory):
    folder = tmp_path_factory.mktemp("like")
    with padiff_shim.record(folder, framework="torch") as recording:
        recording.note("x", np.zeros(1))
    return read(folder)[0].tensors[0]


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
        words = {}
        table = aligning.Likeness(aligning.Columns(mine, words), aligning.Columns(yours, words))
        return sum(aligning._GAP if a is None or b is None else table.row(a.index, b.index, b.index + 1)[0] for a, b in pairs)

    whole = align(mine, yours)
    with mock.patch.object(aligning, "_STEPS", 4):
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
    one, other, same = (read(tmp_path / name)[0].tensors[0] for name in "abc")
    assert apart(one, other).identical
    assert apart(one, other).layout == "transposed"
    assert apart(one, same).layout == ""
