"""Files, folders and headings that the pages name are there."""

import re

import pytest
from helpers import ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md"))
)
MAINTAINERS = ["docs/architecture.md", "CONTRIBUTING.md"]
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def missing(text):
    """The `folder/file.py` and `folder/` of a text that are neither in the package nor in the checkout; `*` stands for any name."""
    files = re.findall(r"(?<![\w./-])((?:[\w.-]+/)+[\w*]+\.py)\b", text)
    folders = re.findall(r"`((?:[\w.-]+/)+)`", text)
    roots = (ROOT / "padiff_shim", ROOT)
    return [name for name in [*files, *folders] if not any(any(root.glob(name)) for root in roots)]


def anchors(text):
    """GitHub's anchors of a page's headings, and of a source's lines."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | {
        f"L{place}" for place, _ in enumerate(text.splitlines(), 1)
    }


@pytest.mark.parametrize("page", MAINTAINERS)
def test_the_sources_that_a_page_names_exist(page):
    assert missing(text_of(page)) == []


def test_a_source_that_is_gone_is_found():
    assert missing("tape/twins.py, `patches/*.py`, `numerics/`; tape/twin.py, `number/`, tests/nothing/test_it.py") == [
        "tape/twin.py",
        "tests/nothing/test_it.py",
        "number/",
    ]


def test_links_between_pages_lead_somewhere():
    lost = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text_of(page))):
            if re.match(r"\w+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (ROOT / page).parent / name if name else ROOT / page
            if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
                lost.append((page, link))
    assert lost == []


def test_the_pages_are_few_and_the_index_has_all_of_them():
    tables = {"docs/ops.md", "docs/defects.md", "docs/formulations.md"}  # one line each, to be searched and not read
    pages = {page for page in PAGES if page.startswith("docs/")}
    assert len(pages - tables) <= 25
    assert sum(len(text_of(page).split()) for page in pages - tables) <= 50_000
    for folder in ("docs/", "docs/zh/"):
        linked = set(re.findall(r"\]\(([\w-]+\.md)", text_of(f"{folder}README.md")))
        assert {page.rpartition("/")[2] for page in pages if page.rpartition("/")[0] + "/" == folder} - {"README.md"} == linked


def test_the_readme_is_short_and_begins_with_a_picture():
    text = text_of("README.md")
    assert len(text.split()) <= 900
    picture = ROOT / re.search(r"!\[[^]]+\]\((\S+)\)", text[: text.index("## Install")])[1]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 150_000
