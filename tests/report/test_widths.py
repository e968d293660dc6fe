"""Everything that commands print, at 80, 100 and 160 columns, with names as long as programs have them."""

import random
import re
from pathlib import Path

import pytest
from report_data import account_data, record, run_of
from rich.cells import cell_len

from padiff_shim.dispatch.call_site import CallSite
from padiff_shim.measure.distance import Distance
from padiff_shim.present import markdown
from padiff_shim.present import text as terminal
from padiff_shim.proof.carried import CarriedBy, CarrierRow, GradientRow
from padiff_shim.proof.distances import DriftRow
from padiff_shim.proof.drift import Drift
from padiff_shim.proof.findings import LayerRow, ProgramPlace, Stage, StepRow
from padiff_shim.proof.pages import proof_document
from padiff_shim.questions.bisect import Bisection, Unit
from padiff_shim.recording.difference import Difference, TensorRow
from padiff_shim.recording.tensors import Tensor
from padiff_shim.report import compare, reference
from padiff_shim.runlog.counts import Counts
from padiff_shim.runs.gate import BaselineEntry, Gate

WIDTHS = (80, 100, 160)
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


class Compared:
    """A comparison of made up records."""

    backend, replicas = "torch", None

    def __init__(self, layer, site):
        self.warnings = ["a warning of some words " * 12]
        self.header = {
            "environment": {"paddle": "3.3.1", "torch": "2.13.0"},
            "command": "python train.py " + "--option value " * 14,
        }
        rng = random.Random(3)
        self.counts = Counts()
        guilty = record(0, rng, verdict="WRONG", guilty="paddle", share=1e6, layer=layer, site=site)
        for call in (guilty, *run_of(60, rare=0.2)):
            self.counts.add({**call, "layer": call.get("layer") and layer, "site": site})

    def by_line(self):
        return self.counts.sorted_findings()

    def by_op(self):
        return self.counts.groups("op")

    def by_layer(self):
        return self.counts.groups("layer")

    def coverage(self):
        return self.counts.coverage.to_dict()

    def first_divergence(self):
        return None


class Proof:
    def __init__(self, layer, site):
        place = ProgramPlace(layer, *placed(site), "return self.dense(hidden) " + "+ x " * 40, "linear(x)")
        self.headline = f"CODE_DIFFERS: another attribute: eps=1e-05 against 1e-06 at {site} (layer {layer})"
        self.stages = [Stage("forward", False, "output 0: largest difference 0.000133 " * 4), Stage("inputs", True, "equal")]
        self.mistakes = [Mistaken(place), Mistaken(place)]
        self.layers = [LayerRow(layer, layer, 1, True, 0.0, 1e-7), LayerRow("", "", 3, False, 0.25, 1e-7)]
        self.training = [StepRow(step, 0.5, True, 0.0, 1e-6) for step in range(3)]
        self.carried = CarriedBy([CarrierRow(layer, "linear", 2, 1.0, 2.0, 3.0, 4.0, 0.4, 0.9)], 0.9, 1e-6)
        back = [CarrierRow(layer, "linear", 2, 1.0, 2.0, 3.0, 4.0, 0.4, 0.9, "backward")]
        held = [GradientRow(f"{layer}.{name}", 1e-6, 1e-3, 0.5) for name in ("weight", "bias")]
        self.carried_gradients = {"gradients": CarriedBy(back, 0.9, 1e-6, "gradients", held)}
        self.notes = ["a note of many words " * 12]
        self.environment = {"paddle": "3.3.1", "torch": "2.13.0", "device": "cpu"}

    def __bool__(self):
        return False


def placed(site):
    """File and line."""
    file, _, rest = site.partition(":")
    return file, int(rest.partition(" ")[0])


class Mistaken:
    def __init__(self, place):
        self.torch = self.paddle = place
        self.also = ((place.file, place.line),) * 20
        self.effect, self.fix = 0.25, None

    def __str__(self):
        return "another attribute: eps=1e-05 against 1e-06"


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
    return Drift("float32", [DriftRow("layer", layer, layer, 0, site, far, far, far)], ["a note of many words " * 12])


def difference(layer, site):
    tensor = Tensor(3, "op", ("linear",), "out", layer, site, *placed(site), "f", 2, (4,), "float32", "", {}, "", (), Path(), None)
    rows = [
        TensorRow(0, tensor, tensor, Distance(False, 1e-5, 1e-6, 1e-4, 12.0, 4, 3, "values"), True),
        TensorRow(0, tensor, None, None, True),
    ] * 10
    return Difference("here", "there", rows, [("paddle", "3.3.1", "2.6.2")], ["a note of many words " * 12])


PRINTED = {
    "diff": lambda *names, **look: difference(*names).text(**look),
    "reference": lambda *names, **look: terminal.render(substituted(*names), **look),
    "compare": lambda *names, **look: terminal.render(compare.document(Compared(*names)), **look),
    "proof": lambda *names, **look: terminal.render(proof_document(Proof(*names)), **look),
    "bisect": lambda *names, **look: bisection(*names).text(**look),
    "gate": lambda *names, **look: gate(*names).text(**look),
    "drift": lambda *names, **look: drift(*names).text(**look),
}


@pytest.mark.parametrize("colour", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("what", PRINTED)
def test_no_line_is_longer_than_the_terminal(what, names, width, colour):
    text = PRINTED[what](*NAMES[names], width=width, colour=colour)
    assert ("\x1b[" in text) == colour
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("names", ["short", "long", "longest"])
@pytest.mark.parametrize("what", sorted(set(PRINTED) - {"drift"}))
def test_a_line_of_the_program_keeps_its_file_and_number(what, names, width):
    layer, site = NAMES[names]
    file, _, rest = site.rpartition("/")[2].partition(":")
    text = PRINTED[what](layer, site, width=width)
    assert f"{file}:{rest.split()[0]}" in text


@pytest.mark.parametrize("what", PRINTED)
def test_words_that_have_room_are_whole(what):
    apart = re.compile(r"[\s│┃━─┏┓┗┛┡┩┳┻╇└┘┴┬├┤┼]+")
    words = {}
    for width in (80, 400):
        words[width] = {word.strip(":;,.()[]") for word in apart.split(PRINTED[what](*NAMES["short"], width=width))}
    assert words[80] - words[400] <= {"", "line", "record"}, "only the heads of columns, in paragraphs"
    assert not any("…" in word for word in words[80])


@pytest.mark.parametrize("length", [40, 60, 70, 76, 200])
def test_a_layer_is_not_listed_without_its_share(length):
    """Where names leave no room for figures beside them, rows are paragraphs."""
    text = terminal.render(substituted("l" * length, "train.py:7 in forward"), 80)
    layers = text.partition("\nCoverage by layer")[2].partition("\nLines")[0]
    assert re.search(r"\d %", layers)


MARKDOWN = {
    "bisect": bisection,
    "gate": gate,
    "drift": drift,
    "proof": lambda *names: Shown(proof_document(Proof(*names))),
    "compare": lambda *names: Shown(compare.document(Compared(*names))),
    "reference": lambda *names: Shown(substituted(*names)),
    "diff": difference,
}


class Shown:
    """A document that has its Markdown."""

    def __init__(self, document):
        self.markdown = lambda: markdown.render(document)


@pytest.mark.parametrize("what", MARKDOWN)
def test_tables_for_a_pull_request_have_at_most_six_columns(what):
    lines = MARKDOWN[what](*NAMES["long"]).markdown().splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert tables
    assert max(len(re.findall(r"(?<!\\)\|", line)) - 1 for line in tables) <= 6
    assert "".join(lines).count("<details>") == "".join(lines).count("</details>")
    assert lines[0].startswith("**")


MARKS = "a*b*c `x` __init__ [y](z) @user #12 ~~w~~ <b> | &amp;"


@pytest.mark.parametrize("what", MARKDOWN)
def test_names_are_no_markup_in_markdown(what):
    text = MARKDOWN[what](MARKS, f"model.py:7 in {MARKS}").markdown()
    assert markdown.in_markdown(MARKS) in text
    assert MARKS not in text
    assert "*b*" not in text.replace("\\*b\\*", "")
    assert not re.search(r"(?<!\\)(__init__|~~w|\[y\]\()|@user|#12|<b>", text)
