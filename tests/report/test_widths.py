"""Everything that commands print, at 80, 100 and 160 columns, with names as long as programs have them."""

import random
import re
from pathlib import Path

import pytest
from report_data import account_data, record, run_of
from rich.cells import cell_len

from padiff_shim.dispatch.call_site import CallSite
from padiff_shim.measure.distance import Distance
from padiff_shim.present import markdown, text as terminal
from padiff_shim.proof.carriers import CarriedBy, CarrierRow
from padiff_shim.proof.distances import DriftRow
from padiff_shim.proof.drift import Drift
from padiff_shim.proof.findings import Cause, LayerRow, Mistake, ProgramPlace, ProofVerdict, Stage, StepRow
from padiff_shim.proof.proof import Proof
from padiff_shim.questions.bisect import Bisection, Unit
from padiff_shim.recording.difference import Difference, TensorRow
from padiff_shim.recording.tensors import Tensor
from padiff_shim.report import reference
from padiff_shim.runs.compare_run import CompareRun
from padiff_shim.runs.gate import BaselineEntry, Gate
from padiff_shim.text import reader

NAMES = {
    "short": ("encoder.0", "train.py:7 in forward"),
    "long": (
        "model.encoder.layers.11.self_attention.output.dense",
        "src/my_company/models/transformers/modeling_layers.py:1234 in scaled_dot_product",
    ),
    "longest": (
        "model." + "a_layer_with_a_long_name." * 7 + "dense",
        "/home/somebody/" + "a_folder/" * 14 + "model.py:98765 in forward",
    ),
}


def substituted(layer, site):
    data = account_data()
    for place in (*data["lines"], *data["profile"]["places"]):
        place["layer"], place["site"] = place["layer"] and layer, place["site"] and site
    return reference.document(reference.ReferenceFigures(data))


def compared(layer, site):
    run = CompareRun()
    run.begin({"paddle": "3.3.1", "torch": "2.13.0"}, {}, ["a warning of some words " * 12])
    run.header["command"] = "python train.py " + "--option value " * 14
    rng = random.Random(3)
    guilty = record(0, rng, verdict="WRONG", guilty="paddle", share=1e6, layer=layer, site=site)
    for call in (guilty, *run_of(60, rare=0.2)):
        run.counts.add({**call, "layer": call.get("layer") and layer, "site": site})
    return run


def proof(layer, site):
    place = ProgramPlace(layer, *placed(site), "return self.dense(hidden) " + "+ x " * 40, "linear(x)")
    mistake = Mistake(
        Cause.ATTRIBUTE, "eps=1e-05 against 1e-06", place, place, (layer,), ((place.file, place.line),) * 20, effect=0.25
    )
    return Proof(
        ProofVerdict.CODE_DIFFERS,
        "",
        [Stage("forward", False, "output 0: largest difference 0.000133 " * 4), Stage("inputs", True, "equal")],
        [mistake, mistake],
        [LayerRow(layer, layer, 1, True, 0.0, 1e-7), LayerRow("", "", 3, False, 0.25, 1e-7)],
        [StepRow(step, 0.5, True, 0.0, 1e-6) for step in range(3)],
        CarriedBy([CarrierRow(layer, "linear", 2, 1.0, 2.0, 3.0, 4.0, 0.4, 0.9)], 0.9, 1e-6),
        ["a note of many words " * 12],
    )


def placed(site):
    """File and line."""
    file, _, rest = site.partition(":")
    return file, int(rest.partition(" ")[0])


def bisection(layer, site):
    path, _, rest = site.rpartition(":")
    number, _, function = rest.partition(" in ")
    unit = Unit("linear", layer, None)
    unit.places["linear", layer, CallSite(path, int(number), function)] = 3
    return Bisection("ops", "paddle", [unit], 7, True, 12)


def gate(layer, site):
    entry = BaselineEntry("linear", "out", "float32", layer, site, "WRONG", "paddle", units=1e4)
    return Gate("baseline.jsonl", 4.0, worse=[(entry, entry)], new=[entry], gone=[entry] * 12, places=30)


def drift(layer, site):
    far = Distance(False, 2e-6, 1e-7)
    return Drift([DriftRow("layer", layer, layer, 0, site, far, far, far)], ["a note of many words " * 12])


def difference(layer, site):
    tensor = Tensor(3, "op", ("linear",), "out", layer, site, *placed(site), "f", 2, (4,), "float32", "", {}, "", (), Path(), None)
    rows = [
        TensorRow(0, tensor, tensor, Distance(False, 1e-5, 1e-6, 1e-4, 12.0, 4, 3, "values"), True),
        TensorRow(0, tensor, None, None, True),
    ] * 10
    return Difference("here", "there", rows, [("paddle", "3.3.1", "2.6.2")], ["a note of many words " * 12])


class Shown:
    """A document that has its text and its Markdown."""

    def __init__(self, document):
        self.text = lambda **look: terminal.render(document, **look)
        self.markdown = lambda: markdown.render(document)


PRINTED = {
    "diff": difference,
    "reference": lambda *names: Shown(substituted(*names)),
    "compare": compared,
    "proof": proof,
    "bisect": bisection,
    "gate": gate,
    "drift": drift,
}


@pytest.mark.rows(20)
@pytest.mark.parametrize(("width", "colour"), [(80, False), (100, True), (160, False)])
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("what", PRINTED)
def test_no_line_is_longer_than_the_terminal(what, names, width, colour):
    """In both languages: Chinese characters are two columns wide."""
    for lang in ("en", "zh"):
        with reader(lang):
            text = PRINTED[what](*NAMES[names]).text(width=width, colour=colour)
        assert ("\x1b[" in text) == colour
        lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
        assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("names", ["short", "long", "longest"])
@pytest.mark.parametrize("what", sorted(set(PRINTED) - {"drift"}))
def test_a_line_of_the_program_keeps_its_file_and_number(what, names, width):
    layer, site = NAMES[names]
    file, _, rest = site.rpartition("/")[2].partition(":")
    text = PRINTED[what](layer, site).text(width=width)
    assert f"{file}:{rest.split()[0]}" in text


@pytest.mark.parametrize("what", PRINTED)
def test_words_that_have_room_are_whole(what):
    apart = re.compile(r"[\s│┃━─┏┓┗┛┡┩┳┻╇└┘┴┬├┤┼]+")
    words = {}
    for width in (80, 400):
        words[width] = {word.strip(":;,.()[]") for word in apart.split(PRINTED[what](*NAMES["short"]).text(width=width))}
    assert words[80] - words[400] <= {"", "line", "record"}, "only the heads of columns, in paragraphs"
    assert not any("…" in word for word in words[80])


@pytest.mark.parametrize("length", [40, 60, 70, 76, 200])
def test_a_layer_is_not_listed_without_its_share(length):
    """Where names leave no room for figures beside them, rows are paragraphs."""
    text = terminal.render(substituted("l" * length, "train.py:7 in forward"), 80)
    layers = text.partition("\nCoverage by layer")[2].partition("\nLines")[0]
    assert re.search(r"\d %", layers)


@pytest.mark.parametrize("what", PRINTED)
def test_tables_for_a_pull_request_have_at_most_six_columns(what):
    lines = PRINTED[what](*NAMES["long"]).markdown().splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert tables
    assert max(len(re.findall(r"(?<!\\)\|", line)) - 1 for line in tables) <= 6
    assert "".join(lines).count("<details>") == "".join(lines).count("</details>")
    assert lines[0].startswith("**")


MARKS = "a*b*c `x` __init__ [y](z) @user #12 ~~w~~ <b> | &amp;"


@pytest.mark.parametrize("what", PRINTED)
def test_names_are_no_markup_in_markdown(what):
    text = PRINTED[what](MARKS, f"model.py:7 in {MARKS}").markdown()
    assert markdown.in_markdown(MARKS) in text
    assert MARKS not in text
    assert "*b*" not in text.replace("\\*b\\*", "")
    assert not re.search(r"(?<!\\)(__init__|~~w|\[y\]\()|@user|#12|<b>", text)
