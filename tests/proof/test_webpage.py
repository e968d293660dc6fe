"""The page of a proof: the guilty lines side by side, their differing words marked, also on a phone."""

import numpy as np
import paddle
import pytest
import report_page
import torch

from padiff_shim import ProofVerdict, prove
from padiff_shim.proof.carriers import CarriedBy, CarrierRow
from padiff_shim.proof.findings import LayerRow, StepRow
from padiff_shim.proof.pages import far, marked, marked_calls
from padiff_shim.proof.proof import Proof

browser = report_page.browser  # a fixture
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
EVIL = "</script><script>window.broken=1</script><img src=x onerror=window.broken=2>"


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(6, 12), torch.nn.LayerNorm(12), torch.nn.Linear(12, 6)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.norm(self.up(x)))
        return x + self.down(hidden)


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = paddle.nn.Linear(6, 12), paddle.nn.LayerNorm(12, epsilon=1e-3), paddle.nn.Linear(12, 6)

    def forward(self, x):
        hidden = paddle.nn.functional.gelu(self.norm(self.up(x)), approximate=True)
        return x + self.down(hidden)


@pytest.fixture(scope="module")
def proof():
    torch.manual_seed(0)
    return prove(Port(), Original(), np.random.default_rng(0).standard_normal((4, 6)))


@pytest.fixture
def show(browser, tmp_path):
    """A function: a proof and options of the browser -> its open page."""
    with report_page.pages(browser, tmp_path) as pages:
        yield lambda proof, *viewport, **options: pages(proof.html(), *viewport, **options)


def test_words_that_differ_are_marked():
    def brackets(words):
        return "".join(f"[{word.text}]" if word.marked else word.text for word in words)

    assert [*map(brackets, marked("a = gelu(x)", "a = gelu(x)"))] == ["a = gelu(x)"] * 2
    assert [*map(brackets, marked("F.softmax(x, axis=1)", "TF.softmax(x, dim=-1)"))] == [
        "F.softmax(x, axis=[1])",
        "TF.softmax(x, dim=[-1])",
    ]
    assert brackets(marked("norm(eps=1e-12)", "norm(eps=1e-05)")[0]) == "norm(eps=[1e-12])"
    assert brackets(marked("a &lt b + c d", "a &lt b")[0]) == "a &lt b [+ c d]"
    assert [*map(brackets, marked("", "relu(x)"))] == ["", "relu(x)"]
    assert [*map(brackets, marked_calls("relu", "gelu(approximate='none')"))] == ["[relu]", "[gelu](approximate='none')"]


def test_colours_follow_the_magnitude():
    strengths = [far(size) for size in (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e6, float("inf"))]
    assert strengths == sorted(strengths)
    assert strengths[0] == 0
    assert strengths[-1] <= 1


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_guilty_lines_stand_on_top_side_by_side(show, proof, viewport):
    assert [str(mistake.cause) for mistake in proof.mistakes] == ["another attribute"] * 2
    page = show(proof, viewport)
    cards = page.locator(".mistake")
    assert cards.count() == 2
    text = page.locator("body").inner_text()
    order = [
        text.index(part) for part in ("CODE_DIFFERS", "port, Paddle", "original, Torch", "equal on both sides", "layers identical")
    ]
    assert order == sorted(order)
    second = cards.nth(1)
    assert second.locator(".guilty").all_inner_texts() == [
        "hidden = paddle.nn.functional.gelu(self.norm(self.up(x)), approximate=True)",
        "hidden = torch.nn.functional.gelu(self.norm(self.up(x)))",
    ]
    assert "return x + self.down(hidden)" in second.locator(".source").first.inner_text()  # the line behind it
    assert "approximate=True" in "".join(second.locator(".side").first.locator(".source mark").all_inner_texts())
    assert second.locator(".call mark").all_inner_texts() == ["approximate=True", "approximate='none'"]
    boxes = [second.locator(".side").nth(side).bounding_box() for side in (0, 1)]
    if viewport is DESKTOP:
        assert boxes[0]["y"] == boxes[1]["y"]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    else:
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert not report_page.scrolls_sideways(page)


@pytest.mark.browser
@pytest.mark.slow
def test_layers_stand_side_by_side_and_those_that_differ_can_be_chosen(show, proof):
    page = show(proof)
    rows = page.locator(".layers tbody tr")
    assert rows.count() == len(proof.layers) == 4
    assert rows.nth(1).locator("td").first.inner_text() == proof.layers[1].paddle == proof.layers[1].torch, "one column says both"
    same = [row.identical for row in proof.layers]
    assert same.count(True) == page.locator(".layers tr.good").count() == 1
    page.get_by_label("only those that differ").check()
    assert [rows.nth(at).is_visible() for at in range(rows.count())] == [not identical for identical in same]
    shades = page.evaluate("[...document.querySelectorAll('td.bad, td.good')].map(td => getComputedStyle(td).backgroundColor)")
    assert len(shades) == rows.count()
    assert all(shade != "rgba(0, 0, 0, 0)" for shade in shades)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_what_carries_a_native_difference_has_a_table(show, viewport):
    rows = [CarrierRow(f"layers.{n}.linear", "linear", 1, 1.0, 3.0, 2.0, 0.5, 2.0**-n, 2.0**-n) for n in range(1, 60)]
    made = Proof(ProofVerdict.CODE_CORRECT, "bit for bit", carried=CarriedBy(rows, 1.0, 1e-3))
    page = show(made, viewport)
    table = page.locator(".carriers tbody tr")
    assert table.count() == 41
    assert table.first.locator("td").last.inner_text() == "50.0%"
    assert "19 others" in table.last.inner_text()
    assert not report_page.scrolls_sideways(page)
    markdown = [line for line in made.markdown().splitlines() if line.startswith("| ")]
    assert len(markdown) == 15
    assert {row.count("|") for row in markdown} == {7}


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_hostile_and_long_names_neither_run_nor_scroll(show, viewport):
    long = "model." + "a_layer_with_a_very_long_name" * 9
    layers = [LayerRow(EVIL, long, 1, False, float("inf"), 1e-3), LayerRow(long, EVIL, 3, True, 0.0, 0.0)]
    made = Proof(
        ProofVerdict.NOT_COMPARABLE, EVIL + long, layers=layers, notes=[EVIL], training=[StepRow(1, None, False, 1.0, 2.0)]
    )
    page = show(made, viewport)
    assert page.evaluate("window.broken") is None
    assert page.locator("img, script").count() == 0
    assert not report_page.scrolls_sideways(page)


@pytest.mark.slow
def test_markdown_stays_short_for_a_deep_model():
    layers = [LayerRow(f"layers.{n}", f"layers.{n}", 1, n != 700, float(n == 700), 1e-6) for n in range(1000)]
    text = Proof(ProofVerdict.CODE_DIFFERS, "far", layers=layers).markdown()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 102
    assert any("layers.700" in row for row in rows)
    assert all(row.count("|") <= 7 for row in rows)
