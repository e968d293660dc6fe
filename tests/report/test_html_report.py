"""The HTML report as text: what is embedded, what is kept of very many records, and that no string gets out of its place."""

import base64
import hashlib
import json
import math
import random
import re
from html.parser import HTMLParser

import pytest
from report_data import COVERAGE, HEADER, record, run_of

from padiff_shim.files import write
from padiff_shim.present.html import FOLDER
from padiff_shim.report.compare_page import SCRIPTS, pack, render, text as page_of
from padiff_shim.runlog.counts import Counts
from padiff_shim.text import SENTENCE, shown

EVIL = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>{{SCRIPT}}\u2028\u2029&lt;"


class Elements(HTMLParser):
    """Every element with its attributes, and the text inside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.blocks = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.blocks.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if self.blocks and self.cdata_elem:
            tag, attrs, text = self.blocks[-1]
            self.blocks[-1] = (tag, attrs, text + data)


def data_of(text):
    (block,) = (text for tag, attrs, text in Elements(text).blocks if attrs.get("type") == "application/json")
    return json.loads(block, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def rows_of(data):
    """The embedded rows as records again: (position, verdict, layer, reason)."""

    def read(column, row):
        return column["all"] if isinstance(column, dict) else column[row]

    table = data["table"]
    for row in range(data["rows"]):
        kind, outcome = data["kinds"][read(table["kind"], row)], data["outcomes"][read(table["outcome"], row)]
        yield read(table["position"], row), outcome["verdict"], kind["layer"], data["reasons"][read(table["reason"], row)]


class Run:
    """What a page asks of a run."""

    class Calls(list):
        def records(self):
            return iter(self)

    def __init__(self, records, header=HEADER):
        self.header, self.calls, self.warnings = header, self.Calls(records), ["look here first"]
        self.counts = Counts()
        for item in records:
            self.counts.add(item)

    def coverage(self):
        return COVERAGE


def test_write_embeds_every_record(tmp_path):
    records = list(run_of(200, rare=0.1))
    path = write(tmp_path / "report.html", page_of(Run(records)), "the page ")
    data = data_of(path.read_text(encoding="utf-8"))
    assert list(rows_of(data)) == [(place, r["verdict"], r["layer"], r["reason"]) for place, r in enumerate(records)]
    assert data["coverage"] == COVERAGE
    assert data["warnings"] == [*HEADER["warnings"], "look here first"]
    assert data["figures"]["k"] == [r["stats"]["k"] for r in records]
    got = data["figures"]["paddle.prob"]
    wanted = [r["stats"]["paddle"].get("prob") for r in records]
    assert [g is None for g in got] == [w is None for w in wanted]
    assert all(math.isclose(g, w, rel_tol=1e-5) for g, w in zip(got, wanted) if w is not None)


def test_page_asks_for_nothing_from_elsewhere():
    text = render(HEADER, run_of(5), COVERAGE)
    for tag, attrs in Elements(text).found:
        assert tag not in ("link", "img", "iframe", "object", "embed")
        assert "src" not in attrs
        assert not attrs.get("href", "#").strip("#").startswith(("http", "//"))
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|innerHTML|insertAdjacent|document\.write|eval\(", text)


def test_policy_admits_the_page_s_own_script_and_style_alone():
    elements = Elements(render(HEADER, run_of(5), COVERAGE))
    (policy,) = (a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for tag in ("script", "style"):
        (text,) = (text for name, attrs, text in elements.blocks if name == tag and "type" not in attrs)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_strings_of_the_user_stay_strings():
    rng = random.Random(0)
    names = ("op", "entry", "site", "file", "layer", "tensor", "reason", "hypothesis", "quirk")
    evil = record(0, rng, **dict.fromkeys(names, EVIL), attributes={EVIL: EVIL})
    evil["stats"][EVIL] = EVIL
    header = {**HEADER, "flags": {EVIL: EVIL}, "environment": {EVIL: EVIL}, "warnings": [EVIL]}
    text = render(header, [evil], {**COVERAGE, "unchecked": {EVIL: 1}}, [EVIL])
    plain_page = Elements(render(HEADER, [record(0, rng)], COVERAGE))
    assert [tag for tag, _ in Elements(text).found] == [tag for tag, _ in plain_page.found]
    data = data_of(text)
    text = shown(EVIL, SENTENCE)  # the same, but for control characters and the like
    assert data["kinds"][0]["layer"] == text
    assert data["kinds"][0]["attributes"] == {text: text}
    assert data["warnings"] == [text]
    assert data["header"]["flags"] == {text: text}


def test_file_names_that_are_no_unicode_are_written(tmp_path):
    rng = random.Random(0)
    odd = b"/tmp/\xff.py".decode("utf-8", "surrogateescape")
    path = write(tmp_path / "report.html", page_of(Run([record(0, rng, file=odd)])), "the page ")
    assert data_of(path.read_text(encoding="utf-8"))["kinds"][0]["file"] == r"/tmp/\udcff.py"


def test_an_empty_run_and_a_bare_header():
    data = data_of(render({}, [], {}))
    assert data["rows"] == data["total"] == 0
    assert data["findings"] == []


def test_beyond_the_limit_only_usual_records_are_sampled():
    records = list(run_of(3000, rare=0.05))
    data = data_of(render(HEADER, records, COVERAGE, limit=1000))
    rows = list(rows_of(data))
    unusual = [(place, r["verdict"]) for place, r in enumerate(records) if r["verdict"] not in ("EQUAL", "ROUNDING")]
    assert len(rows) == 1000
    assert [(place, verdict) for place, verdict, *_ in rows if verdict not in ("EQUAL", "ROUNDING")] == unusual
    assert all(records[place]["reason"] == reason and records[place]["layer"] == layer for place, _, layer, reason in rows)
    assert sum(data["verdicts"].values()) == data["total"] == 3000
    assert sum(sum(counts.values()) for counts in data["layers"].values()) == 3000
    assert sum(sum(counts.values()) for counts in data["ops"].values()) == 3000
    places = [place for place, *_ in rows]
    assert places == sorted(places)
    halves = sum(place < 1500 for place in places)
    assert 400 < halves < 600, "the sample is from the whole run"


def test_too_many_serious_records_leave_the_least_serious_out():
    rng = random.Random(1)
    records = [
        record(i, rng, verdict=("LOW_ACCURACY", "WRONG", "ROUNDING")[i % 3], guilty="paddle", share=20.0) for i in range(900)
    ]
    rows = list(rows_of(pack(records, {}, 400)))
    counts = {name: sum(verdict == name for _, verdict, *_ in rows) for name in ("WRONG", "LOW_ACCURACY", "ROUNDING")}
    assert counts == {"WRONG": 300, "LOW_ACCURACY": 60, "ROUNDING": 40}


def test_findings_group_and_rank():
    rng = random.Random(2)
    low = {"verdict": "LOW_ACCURACY", "guilty": "paddle", "op": "sum", "tensor": "out", "site": "a.py:1 in f"}
    wrong = {"verdict": "WRONG", "guilty": "torch", "op": "linear", "tensor": "out", "site": "a.py:2 in f"}
    records = [
        record(0, rng, **low, share=15.0, layer="l1"),
        record(1, rng, **low, share=40.0, layer="l2"),
        record(2, rng, **wrong, share=3.0, layer="l1"),
        record(3, rng, **wrong, share=1e9, layer="l9", muted=True),
        record(4, rng),
    ]
    data = pack(records, {}, 100)
    assert [(f["verdict"], f["records"], f["first"], f["worst"], f["layers"]) for f in data["findings"]] == [
        ("WRONG", 1, 2, 2, ["l1"]),
        ("LOW_ACCURACY", 2, 0, 1, ["l1", "l2"]),
    ]
    assert data["muted"] == 1
    assert data["layers"]["l9"] == {"muted": 1}
    assert data["verdicts"] == {"LOW_ACCURACY": 2, "WRONG": 2, "ROUNDING": 1}


def test_the_same_records_give_the_same_page():
    assert render(HEADER, run_of(500), COVERAGE, limit=100) == render(HEADER, run_of(500), COVERAGE, limit=100)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit):
    with pytest.raises(ValueError, match="from 1 on"):
        render(HEADER, [], COVERAGE, limit=limit)


def test_an_unknown_verdict_is_refused():
    with pytest.raises(ValueError, match="FINE"):
        render(HEADER, [{**record(0, random.Random(0)), "verdict": "FINE"}], COVERAGE)


def test_figures_are_short_and_non_finite_ones_are_strings():
    given_stats = {"a": 0.123456789, "b": math.nan, "c": -math.inf, "d": 3.0, "e": None, "f": [1, 2.5], "paddle": {"g": math.inf}}
    records = [{**record(0, random.Random(0)), "stats": stats} for stats in (given_stats, {"a": 2.0}, {"a": 1e-7}, {"a": None})]
    figures = data_of(render(HEADER, records, COVERAGE))["figures"]
    first = {"a": 0.123457, "b": "nan", "c": "-inf", "d": 3, "e": None, "f": [1, 2.5], "paddle.g": "inf"}
    assert {name: values["all"] if isinstance(values, dict) else values[0] for name, values in figures.items()} == first
    assert figures["a"] == [0.123457, 2, 1e-7, None]


def test_every_script_is_part_of_the_page():
    assert {path.name for path in FOLDER.glob("*.js")} == set(SCRIPTS)
