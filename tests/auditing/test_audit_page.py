"""The page of an audit in headless Chromium, offline, also on a phone."""

import pytest
import report_page
from report_page import DESKTOP, scrolls_sideways

from padiff_shim.auditing.outcome import Audit
from padiff_shim.auditing.report import OpReport
from padiff_shim.auditing.reproducing import DefectOutcome

PHONE = {"width": 360, "height": 740}
OP = "sigmoid_cross_entropy_with_logits"

browser = report_page.browser  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.slow]


def audited(folder, defects=()):
    """An audit of many ops: findings of every part, reasons without a space, ops that were not tried."""
    stats = {"paddle": {"prob": 3e5, "error_max": 1e-3}, "torch": {"prob": 0.1, "error_max": 0.0}}
    report = OpReport(OP, calls=9, judged=9, native={"x" * 300: 2}, refusals={"y" * 300: 1}, untried={"time limit": 7})
    for verdict, stress, reason in (("WRONG", "plain", "off"), ("NONFINITE", "nan", "at [0]: " + "z" * 300)):
        case = f"{OP}: sample 0, {stress}, float32"
        more = {"hypothesis": "numbers->float32", "quirk": "number in float32", "stats": stats, "script": f"{OP}_{OP}_0.py"}
        fields = {"verdict": verdict, "case": case, "dtype": "float32", "tensor": "grad:x", "side": "paddle", "reason": reason}
        report.records += [{**fields, **more}, {**fields, "side": "torch"}]
    report.died(f"{OP}: sample 1, empty 3, float32", "SIGSEGV")
    environment = {"paddle": "3.3.1", "torch": "2.13.0", "processor": "a processor", "device": "cpu"}
    idle = {f"idle_{number}": OpReport(f"idle_{number}") for number in range(60)}
    audited = Audit(folder, environment, {OP: report, **idle})
    audited.defects = [*defects] or [
        DefectOutcome("a defect", "relu, " * 30, "", True, 0, 1, ""),
        DefectOutcome("another", "relu", "", False, 1, 1, "SIGSEGV"),
    ]
    return audited


@pytest.fixture
def opened(browser, tmp_path):
    """A function: options of the browser -> the open page."""
    with report_page.pages(browser, tmp_path) as show:
        yield lambda defects=(), **options: show(audited(tmp_path, defects).html(), **options)


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_it_never_scrolls_sideways(opened, viewport):
    assert not scrolls_sideways(opened(viewport=viewport))


LINES = """one => {
    const words = document.createRange();
    words.selectNodeContents(one);
    return new Set([...words.getClientRects()].map(box => Math.round(box.top))).size;
}"""


def test_short_words_are_whole(opened):
    page = opened()
    for cell in ("td[data-of=side]:text-is('paddle')", "td[data-of=verdict]:text-is('SIGSEGV')", "th:text-is('side')"):
        assert page.locator(cell).first.evaluate(LINES) == 1, cell


def test_on_a_phone_each_cell_says_what_it_is(opened):
    page = opened(viewport=PHONE, has_touch=True, is_mobile=True)
    operands = page.locator("td[data-of=operands]").first
    assert operands.is_visible()
    assert "operands: " in operands.evaluate("one => getComputedStyle(one, '::before').content").replace('"', "")
    row = page.locator("tr", has=page.locator("td[data-of=side]")).first
    side, verdict = (row.locator(f"td[data-of={of}]").bounding_box() for of in ("side", "verdict"))
    assert side["y"] == verdict["y"], "the side and what it is accused of: one line"
    assert not page.locator("thead").first.is_visible()
    widths = page.locator("td").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(widths) <= PHONE["width"]


def test_reproducers_are_links(opened, tmp_path):
    script = f"{OP}_{OP}_0.py"
    page = opened()
    assert page.locator("td a").first.get_attribute("href") == f"repro/{script}"
    assert f"python repro/{script}" in page.locator("body").inner_text()
    (tmp_path / "repro").mkdir()
    (tmp_path / "repro" / script).write_text("print(1)")
    elsewhere = audited(tmp_path).save(tmp_path / "pages" / "audit.html")
    assert f'href="../repro/{script}"' in elsewhere.read_text()
    assert f"](repro/{script})" in audited(tmp_path).markdown()


def test_each_part_is_led_to(opened):
    page = opened()
    for link in page.locator("nav a").all():
        assert page.locator(link.get_attribute("href")).locator("h2").inner_text() == link.inner_text()


def test_long_tables_are_folded_and_said_in_short(opened):
    """All defects' programs, a card each, were what a phone scrolled through."""
    defects = [DefectOutcome(f"defect {number}", "relu", "", number < 2, 1 if number else 0, 1, "") for number in range(40)]
    page = opened(viewport=PHONE, defects=defects)
    part = page.locator("section", has_text="Known defects")
    assert part.locator("p").nth(1).inner_text().endswith(": defect 0")
    row = part.locator("td", has_text="defect 39")
    assert not row.is_visible()
    part.locator("summary", has_text="All 40 rows").click()
    assert row.is_visible()
    assert not scrolls_sideways(page)
    assert page.locator("td", has_text=OP).first.is_visible(), "a short table is not folded"
