"""The pages in Chinese follow the English ones: the same programs, the same outputs or these in Chinese, the same sections, no
figure of their own."""

import re

import pytest
from helpers import ROOT

FENCE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e-?\d+)?")
CHINESE = re.compile("[\u4e00-\u9fff]")
# Their outputs in Chinese are checked where those of the English page are.
TRIED = (
    "README.zh-CN.md",
    *(f"docs/zh/{name}.md" for name in ("README", "port-a-model", "prove", "models", "run", "compare")),
)
PAIRS = {
    "README.zh-CN.md": "README.md",
    **{f"docs/zh/{path.name}": f"docs/{path.name}" for path in ROOT.glob("docs/zh/*.md") if path.name != "glossary.md"},
}


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def links(page):
    """The files that a page links to, and its links' words."""
    folder = (ROOT / page).parent
    named = re.findall(r"\[([^\]]*)\]\(([^)#\s]+)\)", text_of(page))
    return {(words, (folder / name).resolve()) for words, name in named if not re.match(r"\w+:", name)}


def numbers(text):
    """Numbers in the prose of a page, those in the links' addresses left out."""
    return set(NUMBER.findall(re.sub(r"\]\([^)]*\)", "]", FENCE.sub("", text))))


def test_the_pages_that_users_read_first_are_there():
    names = ("README", "port-a-model", "prove", "compare", "models")
    assert {"README.zh-CN.md", *(f"docs/zh/{name}.md" for name in names)} <= set(PAIRS)


@pytest.mark.parametrize("chinese", PAIRS)
def test_a_page_follows_the_english_one(chinese):
    english = PAIRS[chinese]
    assert ("English", ROOT / english) in links(chinese)
    assert ("中文", ROOT / chinese) in links(english)
    assert ("术语表", ROOT / "docs" / "zh" / "glossary.md") in links(chinese)
    source, text = text_of(english), text_of(chinese)
    assert HEADING.findall(FENCE.sub("", text)) == HEADING.findall(FENCE.sub("", source))
    # Other tests run the English page's programs and commands, and look for its outputs.
    own = [block[0] for block in FENCE.finditer(text) if block[0] not in source]
    assert [block for block in own if block.startswith("```python") or not CHINESE.search(block)] == []
    assert not own or chinese in TRIED
    assert len(FENCE.findall(text)) <= len(FENCE.findall(source))
    assert numbers(text) - numbers(source) == set()


def test_a_figure_of_its_own_is_found():
    assert numbers("约 [3 秒](#2)，1.5e-3\n```\n7\n```\n") - numbers("1.5e-3") == {"3"}
