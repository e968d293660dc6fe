"""The HTML report in headless Chromium, offline: sorting, filtering, choosing, by pointer and by keys."""

import random

import pytest
import report_page
from report_data import record, run_of
from report_page import column, settled

browser, show = report_page.browser, report_page.show  # fixtures
pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_sorting(show):
    page = show(run_of(300, rare=0.1))
    assert column(page, "verdict")[0] == "WRONG", "the worst stands first"
    head = page.get_by_role("columnheader", name="#")
    head.get_by_role("button").click()
    assert column(page, "position")[:4] == ["0", "1", "2", "3"]
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert column(page, "position")[:3] == ["299", "298", "297"]
    page.get_by_role("columnheader", name="Op").get_by_role("button").click()
    ops = column(page, "op")
    assert ops == sorted(ops)
    assert ops[0] == "gelu"


def test_filtering(show):
    records = list(run_of(500, rare=0.1))
    page = show(records)
    page.locator("#filter-op").select_option("sum")
    assert set(column(page, "op")) == {"sum"}
    page.locator("#filter-phase").select_option("backward")
    wanted = sum(r["op"] == "sum" and r["phase"] == "backward" for r in records)
    assert page.locator("#shown").inner_text().startswith(f"{wanted} of 500 records")
    page.locator("#reset").click()
    page.locator("#verdicts [data-verdict=WRONG]").click()
    page.locator("#verdicts [data-verdict=SEMANTICS]").click()
    wanted = sum(r["verdict"] in ("WRONG", "SEMANTICS") for r in records)
    assert page.locator("#shown").inner_text().startswith(f"{wanted} of")
    page.locator("#reset").click()
    page.locator("#filter-text").fill("Epsilon->FLOAT32 paddle")
    page.locator("#shown", has_text=" of ").wait_for()
    assert set(column(page, "verdict")) == {"SEMANTICS"}
    page.locator("#filter-text").fill("nothing has this text")
    page.get_by_text("No record passes the filter.").wait_for()
    page.locator("#reset").click()
    page.locator("#filter-layer").fill("norm1")
    page.locator("#shown", has_text=" of ").wait_for()
    assert all("norm1" in layer for layer in column(page, "layer"))
    page.locator("#reset").click()
    page.locator("#filter-side").select_option("torch")
    assert set(column(page, "side")) == {"torch"}


def test_details(show):
    rng = random.Random(5)
    wrong = record(1, rng, verdict="SEMANTICS", guilty="paddle", hypothesis="epsilon->float32", share=50.0, call=0)
    wrong.update(op="layer_norm", site="model.py:7 in forward", tensor="out", alternatives=["eps=1e-6"], quirk="layer-norm-epsilon")
    wrong.update(modifiers=["negligible"], attributes={"epsilon": 1e-12})
    wrong["inputs"] = [{"name": "x", "shape": [8, 64], "dtype": "float64", "strides": "transposed"}, {"name": "y", "number": 2.5}]
    wrong["stats"].update(bound=2e-9, error=1e-7, incoming=1e-6, propagated=3e-5, amplification=30.0, alpha=0.98)
    gradient = record(2, rng, call=0, op="layer_norm", site="model.py:7 in forward", tensor="grad:x")
    page = show([record(0, rng, call=9), wrong, gradient])
    page.locator("tr[data-row]").first.click()
    text = page.locator("#details").inner_text()
    for part in (
        "SEMANTICS", "side: paddle", "epsilon->float32", "eps=1e-6", "layer-norm-epsilon", "negligible", "model.py:7 in forward",
        "float64 [8, 64], transposed", "the number 2.5", "1e-12", "Predicted bound 2e-9, observed error 1e-7, 50 times the bound",
        "amplification × 30", 'run.repro(run.calls[1], "repro.py")', "padiff-shim log LOG --repro 1 -o repro.py",
        wrong["reason"], "rounding units", "float64", "alpha",
    ):  # fmt: skip
        assert part in text
    page.locator("#details").get_by_role("button", name="grad:x").click()
    assert "record 2" in page.locator("#details").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#details").is_hidden()


def test_repro_line_is_copied(show):
    page = show(run_of(10), permissions=["clipboard-read", "clipboard-write"])
    page.locator("tr[data-row]").nth(3).click()
    line = page.locator("#details code").first.inner_text()
    page.get_by_role("button", name="Copy").first.click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == line


def test_keyboard_alone(show):
    page = show(run_of(200, rare=0.1))
    page.locator("#table").focus()
    for key in ("ArrowDown", "ArrowDown", "End", "Home", "PageDown", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    place = int(page.locator("#details code").first.inner_text().split("[")[1].split("]")[0])
    active = page.locator("#table").get_attribute("aria-activedescendant")
    assert active == f"row-{place}"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "table"
    page.locator("#canvas").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert "record 1 " in page.locator("#tip").inner_text()
    page.keyboard.press("Enter")
    assert "run.calls[1]" in page.locator("#details code").first.inner_text()


def test_chart_point_is_hovered_clicked_and_enlarged(show):
    rng = random.Random(6)
    wrong = record(50, rng, verdict="WRONG", guilty="torch", share=1e6, site="here.py:3 in f")
    page = show([*run_of(50, rare=0), wrong, *run_of(49, seed=1, rare=0)])
    page.locator("#canvas").scroll_into_view_if_needed()
    box = page.locator("#canvas").bounding_box()
    # The worst error stands alone near the top, at the middle of the run.
    x = box["x"] + 70 + (box["width"] - 90) * 50 / 99
    row = None
    for y in range(int(box["y"]), int(box["y"] + box["height"] / 2), 6):
        page.mouse.move(x, y)
        settled(page)
        if page.locator("#tip").is_visible() and "here.py:3" in page.locator("#tip").inner_text():
            row = y
            break
    assert row is not None
    page.mouse.click(x, row)
    assert "run.calls[50]" in page.locator("#details code").first.inner_text()
    page.keyboard.press("Escape")
    settled(page)
    page.locator("#canvas").scroll_into_view_if_needed()
    box = page.locator("#canvas").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Whole run").click()
    assert page.get_by_role("button", name="Whole run").is_hidden()


def test_layer_tree(show):
    rng = random.Random(7)
    layers = [f"encoder.layers.{i}.linear1" for i in range(3)]
    records = [record(i, rng, layer=layers[i % 3]) for i in range(30)]
    records.append(record(30, rng, layer=layers[1], verdict="WRONG", guilty="paddle", share=1e5))
    records.append(record(31, rng, layer=layers[2], verdict="WRONG", guilty="paddle", share=1e5, muted=True, quirk="known"))
    page = show(records)
    tree = page.get_by_role("tree")
    assert tree.get_by_role("treeitem", name="encoder.layers: worst WRONG, 32 records, 1 to look at").is_visible()
    calm = tree.get_by_role("treeitem", name="2.linear1: worst ROUNDING, 11 records")
    assert calm.is_visible()
    guilty = tree.get_by_role("treeitem", name="1.linear1: worst WRONG")
    guilty.click()
    assert set(column(page, "layer")) == {layers[1]}
    assert guilty.get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert calm.is_hidden()
    page.keyboard.press("ArrowRight")
    assert calm.is_visible()
    page.keyboard.press("Enter")
    assert page.locator("#shown").inner_text().startswith("32 of 32")
