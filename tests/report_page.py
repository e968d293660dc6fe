"""A page of the HTML report in headless Chromium: fixtures and what the tests ask of it."""

import contextlib
import shutil

import pytest
from helpers import PATIENCE
from report_data import COVERAGE, HEADER

from padiff_shim.report.compare_page import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
DESKTOP = {"width": 1440, "height": 900}
MILLISECONDS = 1000 * PATIENCE


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install padiff_shim[test])")
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian package chromium)")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=MILLISECONDS)
        yield opened
        opened.close()


@contextlib.contextmanager
def pages(browser, folder):
    """A function: a page's text and options of the browser -> the open page.

    Afterwards: no word on the console, no errors, no requests but the file itself.
    """
    contexts, complaints, requests = [], [], []

    def opened(text, viewport=DESKTOP, **options):
        path = folder / f"page{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        contexts.append(browser.new_context(viewport=viewport, offline=True, **options))
        contexts[-1].set_default_timeout(MILLISECONDS)
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert len(requests) == len(contexts)


@pytest.fixture
def show(browser, tmp_path):
    """A function: records and options of the page -> the open page."""
    with pages(browser, tmp_path) as opened:

        def shown(records, *, header=HEADER, coverage=COVERAGE, warnings=(), limit=100_000, **options):
            page = opened(render(header, records, coverage, warnings, limit=limit), **options)
            page.wait_for_selector("html[data-ready]")
            return page

        yield shown


def column(page, name):
    return page.locator(f"tr[data-row] .c-{name}").all_inner_texts()


def settled(page):
    """After two frames everything that was asked to be drawn is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def scrolls_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth")
