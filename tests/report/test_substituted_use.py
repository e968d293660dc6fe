"""The page of a reference run in headless Chromium, offline: light, dark and on a phone."""

import pytest
import report_page
from report_data import account_data
from report_page import DESKTOP, scrolls_sideways

from padiff_shim.present import html
from padiff_shim.report.reference import ReferenceFigures, document

PHONE = {"width": 390, "height": 844}
LONG = "a_layer_with_a_very_long_name" * 12

browser = report_page.browser  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def opened(browser, tmp_path):
    """A function: data and options of the browser -> the open page."""
    with report_page.pages(browser, tmp_path) as pages:
        yield lambda data, **options: pages(html.render(document(ReferenceFigures(data))), **options)


def brightness(page):
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    return (red + green + blue) / 3


def test_it_follows_the_colours_of_the_system(opened):
    """As all pages do, whose colours stand in one file."""
    assert brightness(opened(account_data(), color_scheme="light")) > 200
    assert brightness(opened(account_data(), color_scheme="dark")) < 60


def test_the_answer_comes_first_then_times_natives_layers(opened):
    text = opened(account_data()).locator("body").inner_text()
    parts = (
        "460 of 552 float calls",
        "a warning",
        "Where the time went",
        "What stayed on Paddle's kernels",
        "Coverage by layer",
        "Lines",
    )
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert "net.py:7 in forward" in text


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_it_never_scrolls_sideways(opened, viewport):
    assert not scrolls_sideways(opened(account_data(name=LONG), viewport=viewport))


def test_on_a_phone_layer_and_line_are_readable(opened):
    page = opened(account_data(), viewport=PHONE, has_touch=True, is_mobile=True)
    for text in ("blocks.10.up", "net.py:7 in forward"):
        cell = page.locator("td", has_text=text).last
        assert cell.is_visible()
        assert cell.evaluate("one => one.scrollWidth <= one.clientWidth")
        assert cell.bounding_box()["x"] + cell.bounding_box()["width"] <= PHONE["width"]


def test_on_a_phone_figures_are_whole(opened):
    page = opened(account_data(), viewport=PHONE, has_touch=True, is_mobile=True)
    figures = page.locator(".legend .figure")
    heights = figures.evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert heights
    assert max(heights) < 1.5 * min(heights)


def test_bars_show_the_shares(opened):
    page = opened(account_data())
    widths = page.locator("svg.bar.wide rect").evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    whole = page.locator("svg.bar.wide").bounding_box()["width"]
    assert sum(widths) == pytest.approx(whole, rel=0.01)
    assert widths[0] == pytest.approx(0.25 * whole, rel=0.02), "0.5 s of 2 s"
