"""Text in so many columns: no line is longer, no word is sliced that has room, and a line's number is never cut off."""

import io
import re
import sys

import pytest
from hypothesis import given, settings, strategies as st
from rich.cells import cell_len

from padiff_shim.present.document import Column, Table
from padiff_shim.present.text import Screen, folded

WIDTHS = (80, 100, 160)
WORDS = st.lists(st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=24), max_size=60)
PATHS = st.lists(st.text("abcdefghij", min_size=1, max_size=20), min_size=1, max_size=20).map("/".join)


def plain(text):
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@settings(max_examples=30)
@given(WORDS, st.sampled_from(WIDTHS), st.integers(0, 8), st.integers(0, 8))
def test_sentences_fold_between_words(words, width, indent, hang):
    lines = folded(" ".join(words), width, indent, hang)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(words)
    whole = {word for word in words if not re.search(r"[\u2018\u201c\u2e80-\uffff]", word)}  # Chinese is folded behind any sign
    assert not whole - {word for line in lines for word in line.split()}, "no word was sliced"


@given(PATHS, st.integers(1, 99_999), st.sampled_from(WIDTHS))
def test_a_path_keeps_its_line_number(path, number, width):
    site = f"{path}/module.py:{number} in forward"
    lines = folded(f"error 3.0 at {site}", width, 2, 4)
    assert all(len(line) <= width for line in lines)
    assert any(f"module.py:{number}" in line for line in lines)
    assert "".join("".join(lines).split()) == "".join(f"error 3.0 at {site}".split())


@given(st.text("x", min_size=200, max_size=900), st.sampled_from(WIDTHS))
def test_what_cannot_be_folded_fills_lines(word, width):
    lines = folded(word, width)
    assert all(len(line) == width for line in lines[:-1])
    assert "".join(lines) == word


CELLS = st.tuples(PATHS, PATHS.map(lambda path: f"{path}.py:12 in forward"), st.sampled_from(["1.0e-05", "", "37"]))


@given(st.lists(CELLS, min_size=1, max_size=5), st.sampled_from(WIDTHS), st.booleans())
def test_tables_keep_to_the_width_and_cut_nothing(rows, width, colour):
    screen = Screen(width, colour=colour)
    screen.table(Table((Column("layer"), Column("line"), Column("error", 1, right=True)), rows), "what differs")
    text = plain(screen.text())
    assert all(cell_len(line) <= width for line in text.splitlines())
    solid = re.sub(r"[\s│┃]", "", text)
    for layer, line, _ in rows:
        assert layer in solid
        assert line.replace(" ", "") in solid
    assert "…" not in text


def test_columns_are_left_out_before_a_word_is_broken():
    heads = (Column("layer"), Column("line", 1), Column("mean", 3), Column("max", 2))
    rows = [("a" * 30, "b" * 30, "1" * 8, "2" * 8)]
    texts = {}
    for width in (100, 88, 80, 60):
        screen = Screen(width)
        screen.table(Table(heads, rows))
        texts[width] = [head.head for head in heads if head.head in screen.text()]
    assert texts == {
        100: ["layer", "line", "mean", "max"],
        88: ["layer", "line", "max"],
        80: ["layer", "line", "max"],
        60: ["layer"],
    }


def test_rows_are_paragraphs_where_no_table_fits():
    screen = Screen(80)
    screen.table(Table((Column("layer"), Column("line")), [("a" * 60, "b" * 60 + ".py:7")]), "all")
    assert screen.text().splitlines() == ["all", "  " + "a" * 60, "    line: " + "b" * 60 + ".py:7"]


@pytest.mark.parametrize("width", [200, 400])
def test_sentences_stay_one_line_where_the_output_is_no_terminal(width):
    screen = Screen(width)
    screen.say("word " * 200)
    assert len(screen.text().splitlines()) == 1


def test_the_default_is_the_outputs_own_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert Screen().width == 100
    monkeypatch.delenv("COLUMNS")
    assert Screen().width == 200
