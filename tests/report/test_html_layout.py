"""How the comparison's page is laid out in headless Chromium: whole rows, whole line numbers, axes with their names, phones."""

import random

import pytest
import report_page
from report_data import record, run_of
from report_page import DESKTOP, settled

PHONE = {"width": 390, "height": 844}
SITE = "src/my_company/models/" + "a_folder_with_a_long_name/" * 4 + "modeling.py:98765 in forward"
LAYER = "model.encoder.layers.11." + "a_block." * 6 + "dense"

browser, show = report_page.browser, report_page.show  # fixtures
pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Whether the last characters of a cell's text lie within it.
END_IS_SEEN = """(cell, many) => {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    let last = null;
    while (texts.nextNode()) last = texts.currentNode;
    const range = document.createRange();
    range.setStart(last, Math.max(0, last.length - many));
    range.setEnd(last, last.length);
    const box = cell.getBoundingClientRect();
    return [...range.getClientRects()].every(one => one.left >= box.left - 1 && one.right <= box.right + 1);
}"""


def guilty():
    """A call at a long path, in a deep layer, among others."""
    worst = record(60, random.Random(1), verdict="WRONG", guilty="paddle", share=1e9, layer=LAYER, site=SITE)
    return [*run_of(60, rare=0.1), worst]


def test_a_call_sites_line_number_is_never_cut(show):
    page = show(guilty())
    cell = page.locator("tr[data-row] .c-site").first
    assert cell.inner_text().endswith("modeling.py:98765 in forward")
    assert cell.evaluate("one => one.scrollWidth > one.clientWidth"), "else nothing is shown"
    assert cell.evaluate(END_IS_SEEN, 18)
    page = show([record(0, random.Random(1), site="models/attention.py:1013 in forward")], viewport={"width": 1200, "height": 800})
    assert page.locator("tr[data-row] .c-site").first.evaluate(END_IS_SEEN, len("/attention.py:1013 in forward"))


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP, {"width": 1024, "height": 701}], ids=["phone", "desktop", "low"])
def test_lists_end_with_whole_rows(show, viewport):
    page = show(run_of(400, rare=0.1), viewport=viewport)
    settled(page)
    box = page.locator("#table").bounding_box()
    inner = page.evaluate("document.querySelector('#table').clientHeight - document.querySelector('#table thead').offsetHeight")
    height = page.locator("tr[data-row]").first.bounding_box()["height"]
    assert box["height"] <= viewport["height"]
    assert inner / height == pytest.approx(round(inner / height), abs=0.02)
    lines = page.locator("#layers .line").first.bounding_box()["height"]
    assert page.evaluate("document.querySelector('#layers').clientHeight") / lines == pytest.approx(8, abs=0.02)


def test_on_a_phone_layer_and_line_of_each_call_are_read(show):
    page = show(guilty(), viewport=PHONE, has_touch=True, is_mobile=True)
    settled(page)
    first = page.locator("tr[data-row]").first
    for column, end, many in (("verdict", "modeling.py:98765 in forward", 18), ("op", "block.dense", 11)):
        under = first.locator(f".c-{column} .under")
        assert under.is_visible()
        assert under.inner_text().endswith(end)
        assert under.evaluate(END_IS_SEEN, many)
    assert first.bounding_box()["height"] == pytest.approx(54, abs=1)


def test_axes_say_what_they_are(show):
    page = show(run_of(50))
    drawn = page.evaluate(
        """() => {
            const told = [];
            const draw = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
                told.push(text);
                return draw.call(this, text, ...rest);
            };
            document.querySelector('#scale').dispatchEvent(new Event('change'));
            return told;
        }"""
    )
    assert page.locator("#scale option:checked").inner_text() in drawn


def test_on_a_phone_the_answer_has_the_whole_width(show):
    page = show(run_of(50, rare=0.1), viewport=PHONE)
    assert page.locator("#headline").bounding_box()["width"] > 0.8 * PHONE["width"]
