"""The page of a difference in headless Chromium, offline, also on a phone."""

import pytest
import report_page
from pairs import paddle_run, seeded
from report_page import DESKTOP, scrolls_sideways

from padiff_shim import diff
from padiff_shim.present import document, html

PHONE = {"width": 360, "height": 740}
EVIL = "</style><script>window.broken=1</script>"

browser = report_page.browser  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def difference(tmp_path_factory):
    """What two runs differ in, of which one has another bias."""
    folder = tmp_path_factory.mktemp("runs")
    paddle_run(folder / "here", seeded(), parameters=True, gradients=True)
    port = seeded()
    port.v.bias.set_value(port.v.bias + 2**-10)
    paddle_run(folder / "there", port, parameters=True, gradients=True)
    return diff(folder / "here", folder / "there")


@pytest.fixture
def opened(browser, tmp_path):
    """A function: a difference and options of the browser -> its open page."""
    with report_page.pages(browser, tmp_path) as show:
        yield lambda result, **options: show(
            html.render(result) if isinstance(result, document.Document) else result.html(), **options
        )


def test_the_answer_comes_first_then_the_run_then_rows(opened, difference):
    page = opened(difference)
    text = page.locator("body").inner_text()
    parts = (difference.headline.partition(": ")[2], "Along the run", "max, mean: absolute differences")
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert page.locator("table.rows").first.locator("tbody tr").count() == len(difference.differing)
    assert page.locator("h1 .status.bad").inner_text() == "DIFFERENT"
    assert "pairs.py:" in text


def test_each_difference_is_drawn_and_axes_are_named(opened, difference):
    page = opened(difference)
    drawn = [row for row in difference.compared if row.apart.relative > 0]
    assert page.locator("svg.along circle").count() == len(drawn) > 3
    names = page.locator("svg.along text").all_text_contents()
    assert {"0", f"{len(difference.rows) - 1}"} < set(names)
    box = page.locator("svg.along").bounding_box()
    for place in page.locator("svg.along text, svg.along circle").all():
        inner = place.bounding_box()
        assert box["x"] <= inner["x"] <= inner["x"] + inner["width"] <= box["x"] + box["width"]


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_many_rows_scroll_in_a_box_and_are_all_there(opened, tmp_path, viewport):
    rows = [[f"call {number}", "layer", "a.py:1", "b.py:2"] for number in range(1000)]
    tones = ["bad" if number % 2 else "good" for number in range(1000)]
    columns = [document.Column(head) for head in ("what", "layer", "a", "b")]
    made = document.Document("DIFFERENT: 500", [document.Table(columns, rows, tones)], "bad")
    page = opened(made, viewport=viewport)
    assert page.locator("main").bounding_box()["height"] < 2 * viewport["height"]
    assert page.locator("tbody tr").count() == 1000
    last = page.get_by_text("call 999", exact=True)
    page.get_by_role("region", name="1,000 rows").focus()
    page.keyboard.press("End")
    box = page.locator(".long").bounding_box()
    page.wait_for_timeout(400)  # scrolling is smooth
    assert box["y"] <= last.bounding_box()["y"] <= box["y"] + box["height"]
    if viewport is DESKTOP:
        head = page.locator("th").first.bounding_box()
        assert head["y"] == pytest.approx(box["y"], abs=2)
    page.get_by_label("only those that differ").check()
    assert not page.get_by_text("call 998", exact=True).is_visible()
    assert not scrolls_sideways(page)


def test_runs_that_are_the_same_and_what_is_hostile(opened, tmp_path):
    for name in ("one", "other"):
        paddle_run(tmp_path / name, seeded())
    same = diff(tmp_path / "one", tmp_path / "other")
    same.notes.append(EVIL)
    same.surroundings.append((EVIL, EVIL, 1))
    page = opened(same)
    assert "SAME" in page.locator("h1").inner_text()
    assert page.locator("svg.along").count() == 0
    assert EVIL in page.locator("body").inner_text()
    assert page.evaluate("window.broken") is None
