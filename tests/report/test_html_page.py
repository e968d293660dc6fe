"""The HTML report in headless Chromium, offline: what people see, on a phone and in the dark, with very much and with nothing."""

import random

import pytest
import report_page
from report_data import COVERAGE, HEADER, record, run_of
from report_page import DESKTOP, column, scrolls_sideways, settled

PHONE = {"width": 360, "height": 740}
LONG = "model." + "a_layer_with_a_very_long_name" * 12
EVIL = "</script><script>window.broken=1</script><img src=x onerror=window.broken=2>"

browser, show = report_page.browser, report_page.show  # fixtures
pytestmark = pytest.mark.browser


def test_header_comes_first(show):
    page = show(run_of(50), warnings=["the second warning"])
    text = page.locator("body").inner_text()
    order = [text.index(part) for part in (HEADER["warnings"][0], "the second warning", "3.3.1", "Verdicts", "95.0 %", "Calls")]
    assert order == sorted(order)
    page.get_by_text("Flags and switches").click()
    assert page.get_by_text("torch.float32_matmul_precision").is_visible()
    page.get_by_text("Not checked, and why").click()
    assert page.get_by_text("no reference for this op").is_visible()
    assert page.get_by_text("40 calls: conv2d (30), cumsum (10)").is_visible()


def test_counts_of_verdicts(show):
    records = list(run_of(400, rare=0.1))
    page = show(records)
    for chip in page.locator("#verdicts .chip").all():
        name, count = chip.inner_text().split()
        assert int(count) == sum(r["verdict"] == name for r in records) > 0
    assert page.locator("#verdicts .chip").count() == len({r["verdict"] for r in records})
    assert page.locator("h1 .status.bad").inner_text() == "WRONG"
    assert "NVIDIA_TF32_OVERRIDE=0" in page.locator("#findings-body").inner_text(), "what can be done about the findings"


def test_chart_scales_draw_something(show):
    page = show(run_of(300, rare=0.1))
    drawn = set()
    for value in page.locator("#scale option").evaluate_all("all => all.map(o => o.value)"):
        page.locator("#scale").select_option(value)
        settled(page)
        drawn.add(page.evaluate("document.querySelector('#canvas').toDataURL()"))
    assert len(drawn) == 4


@pytest.mark.parametrize("viewport", [PHONE, {"width": 768, "height": 1024}, DESKTOP], ids=["phone", "tablet", "desktop"])
def test_page_never_scrolls_sideways(show, viewport):
    rng = random.Random(8)
    records = [*run_of(120, rare=0.1)]
    long = record(120, rng, verdict="WRONG", guilty="both", share=1e9, layer=LONG, site=LONG, entry=LONG, reason=LONG)
    page = show([*records, long], viewport=viewport, warnings=[LONG])
    assert not scrolls_sideways(page)
    page.locator("tr[data-row]").first.click()
    settled(page)
    assert page.locator("#details").is_visible()
    assert not scrolls_sideways(page)
    assert page.evaluate("document.querySelector('#details').scrollWidth <= document.querySelector('#details').clientWidth")


def test_phone_shows_the_verdict_of_each_row(show):
    page = show(run_of(100, rare=0.1), viewport=PHONE, has_touch=True, is_mobile=True)
    box = page.locator("tr[data-row] .c-verdict").first.bounding_box()
    assert box["width"] > 100
    assert page.evaluate("[...document.querySelectorAll('tr[data-row] .c-verdict')].every(td => td.scrollWidth <= td.clientWidth)")
    page.locator("tr[data-row]").nth(2).tap()
    assert page.locator("#details").is_visible()


def brightness(page):
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    return (red + green + blue) / 3


def test_dark_and_light(show):
    assert brightness(show(run_of(20), color_scheme="light")) > 200
    page = show(run_of(20), color_scheme="dark")
    assert brightness(page) < 60
    page.locator("#theme").click()
    assert brightness(page) > 200
    page.locator("#theme").click()
    assert brightness(page) < 60


def test_strings_are_shown_as_text(show):
    rng = random.Random(9)
    evil = record(0, rng, verdict="WRONG", guilty="paddle", share=5.0, op=EVIL, layer=EVIL, site=EVIL, reason=EVIL, entry=EVIL)
    evil.update(tensor=EVIL, hypothesis=EVIL, quirk=EVIL, attributes={EVIL: EVIL})
    page = show(
        [evil], header={**HEADER, "environment": {EVIL: EVIL}}, warnings=[EVIL], coverage={**COVERAGE, "unchecked": {EVIL: 3}}
    )
    page.locator("tr[data-row]").first.click()
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert page.locator("#details").inner_text().count(EVIL) > 4
    assert page.locator("#warnings").inner_text().count(EVIL) == 1


def test_an_empty_run(show):
    page = show([], header={}, coverage={}, viewport=PHONE)
    assert page.locator("h1").first.is_visible()
    assert not scrolls_sideways(page)


def test_one_call_of_non_finite_figures(show):
    only = record(0, random.Random(10), verdict="NONFINITE", guilty="paddle", share=0.5)
    for name in only["stats"]:
        if isinstance(only["stats"][name], float):
            only["stats"][name] = "nan"
    only["stats"].update(max_abs="inf", bound="-inf", paddle={"rho_max": "inf", "prob": "nan", "nan": 3, "inf": 1})
    page = show([only])
    assert column(page, "diff") == ["∞"]
    page.locator("tr[data-row]").first.click()
    text = page.locator("#details").inner_text()
    assert "Predicted bound −∞, observed error NaN." in text


def test_a_sampled_page_says_so(show):
    page = show(run_of(2000, rare=0.05), limit=500)
    note = page.locator("#sampled").inner_text()
    assert "500 of 2 000 records" in note.replace("\u202f", " ")
    assert page.locator("#verdicts [data-verdict=ROUNDING] b").inner_text().replace("\u202f", "") > "1500"


@pytest.mark.slow
def test_fifty_thousand_records(show):
    """Opens (the fixture waits a minute at most), sorts and filters; only the visible rows exist."""
    page = show(run_of(50_000))
    assert page.locator("tr[data-row]").count() < 60
    page.get_by_role("columnheader", name="#").get_by_role("button").click()
    page.locator("#table").focus()
    page.keyboard.press("End")
    settled(page)
    assert column(page, "position")[-1] == "49999"
    page.locator("#filter-text").fill("gelu rounding")
    page.locator("#shown", has_text=" of ").wait_for()
    assert set(column(page, "op")) == {"gelu"}
    assert page.locator("tr[data-row]").count() < 60
