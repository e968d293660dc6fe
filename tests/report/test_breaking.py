"""Where a page breaks long words: behind / . _ and the like, never a short word, or a line's number from its file's name."""

import random

import pytest
import report_page
from report_data import account_data, record, run_of
from report_page import DESKTOP
from test_widths import NAMES, PRINTED

from padiff_shim.present import html
from padiff_shim.present.html import markup, pieces
from padiff_shim.report.reference import ReferenceFigures, document

browser, show = report_page.browser, report_page.show  # fixtures
PHONE = {"width": 390, "height": 844}
PATH = "some_company/computer_vision/modelling/encoder_blocks_with_long_names.py:1234 in one_step_of_the_training_loop"

# Words of up to 24 characters that stand in two lines.
BROKEN = r"""() => {
    const found = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode;
        if (node.parentElement.closest("pre, svg, script, style")) continue;
        for (const word of node.data.matchAll(/\S+/g)) {
            if (word[0].length > 24) continue;
            const range = document.createRange();
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const tops = [...range.getClientRects()].filter((one) => one.width > 0).map((one) => Math.round(one.top));
            if (tops.length && Math.max(...tops) - Math.min(...tops) > 4) found.push(word[0]);
        }
    }
    return found;
}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("  a short word ", ["  a short word "]),
        ("the encoder.layers.0 and", ["the encoder.layers.0 and"]),
        ("a/folder_of/many_names/model.py:12 in f", ["a/", "folder_", "of/", "many_", "names/", "model.py:12 in f"]),
        ("x" * 30, ["x" * 6, "x" * 24]),
        ("/" + "n" * 30 + ".py:98765 in f", ["/", "n" * 15, "n" * 15 + ".py:98765 in f"]),
        ("model.encoder.layers.11.dense", ["model.", "encoder.", "layers.", "11.", "dense"]),
    ],
)
def test_the_pieces_of_a_text(text, expected):
    assert pieces(text) == expected


def test_no_piece_is_long_and_none_is_lost():
    draw = random.Random(3)
    for _ in range(300):
        text = "".join(draw.choices("abcdefgh/\\._,;|=-: é\U0001f600<&0123456789", k=draw.randrange(200)))
        parts = pieces(text)
        assert "".join(parts) == text
        assert all(len(word) <= 24 for part in parts for word in part.split())


def test_markup_is_text_alone():
    assert markup("<b> & 2e-06 --quiet") == '&lt;b&gt; &amp; <span class="keep">2e-06</span> <span class="keep">--quiet</span>'
    assert "<wbr>" in markup("<" * 40)
    assert "<<" not in markup("<" * 40)


@pytest.mark.browser
@pytest.mark.slow
def test_the_comparisons_page_breaks_as_the_others_do(show):
    page = show(run_of(3))
    ours = f"(text) => {{ {html.read('base.js')}; return h('p', {{}}, text).innerHTML; }}"
    draw = random.Random(4)
    for _ in range(60):
        text = "".join(draw.choices("abcdefgh/\\._,;|=-: é\U0001f600<&0123456789", k=draw.randrange(120)))
        assert page.evaluate(ours, text) == markup(text)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("viewport", [PHONE, DESKTOP, {"width": 768, "height": 900}], ids=["phone", "desktop", "tablet"])
@pytest.mark.parametrize("more", [0, 5, 19])
def test_no_short_word_and_no_lines_number_is_broken(browser, show, tmp_path, viewport, more):
    site = "s" * more + PATH
    worst = record(20, random.Random(1), verdict="WRONG", guilty="paddle", share=1e9, layer="layers_of_the_stage.0." * 3, site=site)
    assert show([*run_of(20, rare=0.3), worst], viewport=viewport).evaluate(BROKEN) == []
    data = account_data()
    for place in (*data["lines"], *data["profile"]["places"]):
        place["site"] = place["site"] and site
    with report_page.pages(browser, tmp_path) as pages:
        assert pages(html.render(document(ReferenceFigures(data))), viewport=viewport).evaluate(BROKEN) == []


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("what", ["proof", "drift", "diff", "bisect", "gate"])
def test_on_a_phone_names_are_broken_behind_their_dots(browser, tmp_path, what):
    with report_page.pages(browser, tmp_path) as pages:
        for names in ("short", "long"):
            page = pages(PRINTED[what](*NAMES[names]).html(), viewport=PHONE)
            assert page.evaluate(BROKEN) == []
            assert not report_page.scrolls_sideways(page)
