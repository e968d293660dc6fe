"""A reference run as text, Markdown and page: what they say, and that nothing in a run is read as markup."""

import re

import pytest
from report_data import account_data

from padiff_shim.errors import FileError
from padiff_shim.present import html, markdown, text
from padiff_shim.report.reference import HOW, ReferenceFigures, document, seconds_of
from padiff_shim.runs.run import Run


def page_of(data):
    return html.render(document(ReferenceFigures(data)))


def text_of(data, width=None, **look):
    return text.render(document(ReferenceFigures(data)), width, **look)


def markdown_of(data):
    return markdown.render(document(ReferenceFigures(data)))


def test_the_headline_names_what_stayed_native_most_and_where():
    headline = ReferenceFigures(account_data()).headline()
    assert re.findall(r"[0-9.]+", headline.partition("dropout")[0]) == ["460", "552", "83.3", "92"]
    assert "dropout at net.py:7" in headline
    everything = account_data(native={})
    assert "All 460 float calls" in ReferenceFigures(everything).headline()
    assert "No float call" in ReferenceFigures(account_data(native={}, substituted={})).headline()
    wanted = account_data(native={("softmax", "filtered out by ops= or exclude="): 5})
    assert re.findall("[0-9]+", ReferenceFigures(wanted).headline()) == ["460", "5"]


def test_updates_of_optimizers_are_no_calls():
    assert ReferenceFigures(account_data()).ops["adamw"]["substituted"] == 560
    assert ReferenceFigures(account_data()).substituted == 460


def test_parts_of_the_time_add_up_to_all_of_it():
    account = ReferenceFigures(account_data())
    assert sum(account.parts().values()) == pytest.approx(account.profile["seconds"])
    assert "2 s" in account.spending()


def test_layers_hold_those_inside_of_them():
    layers = {layer.name: layer for layer in ReferenceFigures(account_data()).layers()}
    assert list(layers) == ["", "blocks", "blocks.2", "blocks.2.drop", "blocks.10", "blocks.10.up"], "in the order of numbers"
    assert layers["blocks"].native == layers["blocks.2.drop"].native == 80
    assert layers["blocks"].total == pytest.approx(layers["blocks.2"].total + layers["blocks.10"].total)


def test_without_a_profile_everything_says_how_to_get_one():
    data = account_data(profile=False)
    page = page_of(data)
    assert HOW.partition("`")[0] in page.replace("&#x27;", "'")
    assert "Coverage by layer" not in page
    assert "layers" not in text_of(data, 100).replace("(layers", "")


def test_times_on_a_device_are_explained():
    data = account_data()
    data["environment"]["device"] = "gpu:0"
    assert "starting its kernels" in " ".join(text_of(data, 100).split())
    assert "starting its kernels" in page_of(data)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, ""), (3e-8, "< 0.1 µs"), (2e-6, "2 µs"), (0.0021, "2.1 ms"), (0.35, "0.35 s"), (12.3, "12 s"), (1e4, "10,000 s")],
)
def test_times_in_words(seconds, words):
    assert seconds_of(seconds) == words


def test_a_page_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"the page .* cannot be written"):
        Run("torch", "view").save(tmp_path / "file" / "page.html")
