"""One document, three renderers: each says all of it, cuts at its own number of rows, and reads nothing as markup."""

import re

import pytest
from rich.cells import cell_len

from padiff_shim.present import document, html, markdown, text
from padiff_shim.present.document import (
    MARKDOWN,
    PAGE,
    TEXT,
    Cell,
    Column,
    Document,
    ListedFinding,
    ListItem,
    Most,
    Only,
    Place,
    Share,
    Word,
)

EVIL = "<b>x</b> *y* `z` @user #12 | \x1b[31m"
RENDERERS = {TEXT: lambda made: text.render(made, 120), MARKDOWN: markdown.render, PAGE: html.render}


def plain(renderer, written):
    """What a reader sees."""
    if renderer == PAGE:
        written = re.sub(r"<style>.*?</style>|<[^>]*>", "", written, flags=re.DOTALL)
    return written.replace("\\", "")


class Words:
    """A word for each place of a document."""

    def __init__(self, word):
        self.word, self.places = word, []

    def __call__(self, place):
        self.places.append(place)
        return f"{self.word}:{place};"


def everything(word):
    """A document of all blocks, and its words."""
    at = Words(word)
    place = Place(
        at("side"),
        at("title of the side"),
        at("where"),
        [Word(at("source"), True)],
        [Word(at("call"))],
        ([at("before")], [at("behind")]),
    )
    table = document.Table(
        [Column(at("head")), Column(at("second head"), right=True)],
        [(at("cell"), Cell([at("line"), at("second line")], "bad", 0.5, 2))],
    )
    points = [document.ChartPoint(0, 0.5), document.ChartPoint(3, 1e-3, soft=True)]
    blocks = [
        document.Facts([at("fact")]),
        document.Paragraph(at("paragraph"), "strong"),
        document.Notes([at("note")]),
        document.Notes([at("warning")], warning=True),
        document.Items([ListItem(at("item"), at("name"), "good")], marks=True),
        document.Code([at("code")]),
        document.Findings([ListedFinding(at("finding"), [place], [("also", at("detail"))])]),
        document.Section(at("section"), [table], at("note of the section"), folded=True),
        document.Section(at("second section"), [document.Folded(at("fold"), [document.Paragraph(at("folded"))])]),
        Only((TEXT,), [document.Paragraph(at("text alone"))]),
        Only((MARKDOWN, PAGE), [document.Paragraph(at("not text"))]),
        document.Shares([Share("native", 1.0, at("part"), at("figure"))]),
        document.Scatter(points, 3, at("across"), at("up")),
        document.HeatChart([at("line of heat")], 2, [document.HeatCell(0, 1, 0.5, at("heat"))], (at("start"), at("end"))),
    ]
    return Document(at("headline"), blocks, contents=True), at.places


DRAWN = {"part", "figure", "across", "up", "line of heat", "heat", "start", "end"}
LEFT_OUT = {
    TEXT: {"title of the side", "before", "behind", "fold", "folded", "not text"} | DRAWN,
    MARKDOWN: {"title of the side", "before", "behind", "text alone"} | DRAWN,
    PAGE: {"side", "text alone"},
}


@pytest.mark.parametrize("renderer", RENDERERS)
def test_each_renderer_says_all_but_what_is_not_its_own(renderer):
    made, places = everything("word")
    written = plain(renderer, RENDERERS[renderer](made))
    assert {place for place in places if f"word:{place};" not in written} == LEFT_OUT[renderer]


@pytest.mark.parametrize("renderer", RENDERERS)
def test_nothing_is_markup(renderer):
    written = RENDERERS[renderer](everything(EVIL)[0])
    assert "\x1b" not in written
    if renderer == PAGE:
        assert "<b>x" not in written
    if renderer == MARKDOWN:
        outside = re.sub(r"```.*?```|``.*?``", "", written, flags=re.DOTALL)
        assert not re.search(r"<b>|(?<!\\)\*y|@user|(?<!&)#12", outside)


def table_of(count, **options):
    columns = (Column("name"), Column("size", right=True))
    return Document("rows", [document.Table(columns, [(f"row{place}", str(place)) for place in range(count)], **options)])


@pytest.mark.parametrize(("renderer", "most"), [(TEXT, 2), (MARKDOWN, 3), (PAGE, 4)])
def test_rows_are_cut_at_each_renderers_number(renderer, most):
    written = plain(renderer, RENDERERS[renderer](table_of(9, most=Most(2, 3, 4), hint="run.rows()")))
    assert sorted(set(re.findall(r"row\d", written))) == [f"row{place}" for place in range(most)]
    assert f"{9 - most} more" in written
    assert "run.rows()" in written
    total = plain(renderer, RENDERERS[renderer](table_of(3, total=1000)))
    assert "997 more" in total


@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_rows_that_weigh_most_are_shown_in_their_order(renderer):
    written = plain(renderer, RENDERERS[renderer](table_of(6, most=Most(2, 2, 2), rank=(5, 3, 0, 1, 2, 4))))
    assert re.findall(r"row\d", written) == ["row3", "row5"]


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_row_may_stand_for_the_others(renderer):
    options = {"most": Most(2, 2, 2), "others": lambda most: (f"{6 - most} others", "")}
    written = plain(renderer, RENDERERS[renderer](table_of(6, **options)))
    assert "4 others" in written
    assert "more" not in written
    assert "others" not in plain(renderer, RENDERERS[renderer](table_of(2, **options)))


def test_markdown_stands_columns_below_each_other():
    columns = (
        Column("what"),
        Column("layer", markdown="under"),
        Column("mean", right=True, markdown="absent"),
        Column("max", right=True),
    )
    rows = [("a", "b", "1", "2"), ("c", "c", "3", "4")]
    lines = markdown.render(Document("answer", [document.Table(columns, rows)])).splitlines()
    assert lines[2:] == ["| what, layer | max |", "| --- | ---: |", "| a<br>b | 2 |", "| c | 4 |"]


@pytest.mark.parametrize("renderer", RENDERERS)
def test_empty_columns_are_left_out(renderer):
    made = Document("answer", [document.Table((Column("name"), Column("nothing")), [("a", ""), ("b", Cell([""]))])])
    assert "nothing" not in plain(renderer, RENDERERS[renderer](made))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_wide_characters_keep_tables_straight(width):
    columns = (Column("层"), Column("原因", fold=True), Column("误差", 1, right=True))
    rows = [("编码器.0", "没有 Torch 公式 " * 12, "1e-6"), ("x", "其他", "2e-3")]
    lines = text.render(Document("结论 " * 60, [document.Table(columns, rows)]), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    frame = [line for line in lines if line[0] in "┏┃┡│└"]
    assert len(frame) > 6
    assert len(set(map(cell_len, frame))) == 1


def test_a_foldable_column_gets_what_is_free():
    columns = (Column("op"), Column("why", fold=True), Column("calls", right=True))
    rows = [("dropout", "random op: its values come from Paddle's generator " * 3, "12")]
    for width in (80, 150):
        lines = text.render(Document("x", [document.Table(columns, rows)]), width).splitlines()
        assert max(map(cell_len, lines)) == width
        assert not any("…" in line for line in lines)


def test_the_page_is_one_file_that_runs_nothing():
    page = html.render(everything("word")[0])
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert not re.search(r'\sstyle="|\son\w+=', page)
    assert "<title>word:headline;</title>" in page
