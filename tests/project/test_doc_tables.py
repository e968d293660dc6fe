"""docs/ops.md, docs/defects.md, docs/formulations.md and docs/tables.html are what the declarations say."""

import re

import doc_tables
import pytest
from formulations import formulations
from helpers import ROOT
from padiff_shim.patches import _unsubstituted

from padiff_shim.catalogue.defects import defects
from padiff_shim.catalogue.registry import families, ops


@pytest.fixture(scope="module")
def pages():
    """{file's name: text}, as they are committed."""
    return {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("ops.md", "defects.md", "formulations.md")}


@pytest.fixture(scope="module")
def op_rows(pages):
    """{op: (reached by, gradient, judge, differences and notes)}"""
    lines = [line for line in pages["ops.md"].partition("## optimizers")[0].splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_the_pages_are_up_to_date():
    assert doc_tables.main(["--check"]) == 0


def test_every_op_has_a_row_with_all_its_entry_points(op_rows):
    assert set(op_rows) == set(ops())
    for name, (reached, *_) in op_rows.items():
        shown = reached.replace("`", "").replace("legacy ", "_legacy_C_ops.")
        last = {spelling.rpartition(".")[2] for spelling in shown.split(",")}
        assert last == {entry.target.rpartition(".")[2] for entry in ops()[name].entries}


def test_families_and_native_ops_are_all_there(pages):
    text = pages["ops.md"]
    assert all(f"\n## {family}\n" in text for family in families())
    native = text[text.index("## What stays native") :]
    for name in (*_unsubstituted.EXACT, *_unsubstituted.NATIVE, *_unsubstituted.LEGACY):
        assert f"`{name}`" in native
    assert all(f"`{prefix}*`" in native for prefix in _unsubstituted.PREFIXES)


def test_every_defect_has_a_line_that_leads_to_its_program(pages):
    linked = re.findall(r"^\| \[.+?\]\(\.\./tests/defects/(\w+\.py#L\d+)\)", pages["defects.md"], re.MULTILINE)
    assert sorted(linked) == sorted(f"{defect.file}#L{defect.line}" for defect in defects().values())


def test_writing_and_checking(tmp_path, monkeypatch, capsys):
    few = {name: formulations()[name] for name in ("division by a number",)}
    monkeypatch.setattr(doc_tables, "formulations", lambda: few)
    monkeypatch.setattr(doc_tables, "FOLDER", tmp_path)
    assert doc_tables.main(["--check"]) == 1
    assert capsys.readouterr().err.count("make docs") == 4
    assert doc_tables.main([]) == 0
    assert doc_tables.main(["--check"]) == 0
    page, search = tmp_path / "formulations.md", tmp_path / "tables.html"
    text = page.read_text(encoding="utf-8")
    assert "1 computations in 2 spellings" in text
    for changed, late in (
        (re.sub(r"\d ulp", "7 ulp", text), []),
        (re.sub("one thread, on .*", "one thread, on another machine.", text), []),
        (text.replace("`x * (1 / c)`", "`x * 1 / c`"), [page]),
    ):
        page.write_text(changed, encoding="utf-8")
        search.write_text(doc_tables.searchable([(tmp_path / name).read_text() for name in ("ops.md", "defects.md", page.name)]))
        assert list(doc_tables.stale()) == late
    search.write_text("old")
    assert search in doc_tables.stale()


def test_cells_are_shown_as_text():
    page = doc_tables.searchable(["# A\n\n## b\n\n| x | y |\n| --- | --- |\n| `a<b \\| c` | **d** [e](f.py) &lt;g |\n"])
    assert '<td><code>a&lt;b | c</code></td><td><b>d</b> <a href="f.py">e</a> &lt;g</td>' in page
