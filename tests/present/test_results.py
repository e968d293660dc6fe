"""Every result has one face: truth, headline, findings, print, repr, text, Markdown, page, data and files; and no second one."""

import importlib
import json
import os
import pkgutil
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from log_data import record
from test_chinese import english

import padiff_shim
from padiff_shim import ArgumentError, tested, testing
from padiff_shim.auditing.outcome import Audit
from padiff_shim.auditing.report import OpReport
from padiff_shim.measure.distance import Distance
from padiff_shim.modes.environment import versions
from padiff_shim.present.annotations import Finding
from padiff_shim.present.document import Findings, Folded, Only, Section, Table
from padiff_shim.present.result import Presented
from padiff_shim.proof.alignment import AlignedDtype, Alignment
from padiff_shim.proof.attribution import NOWHERE
from padiff_shim.proof.bits.result import BitOrigin, Bitwise
from padiff_shim.proof.carriers import CarriedBy
from padiff_shim.proof.distances import DriftRow
from padiff_shim.proof.drift import Drift
from padiff_shim.proof.findings import Cause, Fix, Mistake, ProgramPlace, ProofVerdict
from padiff_shim.proof.locate import Located
from padiff_shim.proof.proof import Proof
from padiff_shim.proof.prove import _bit_for_bit, _within_rounding
from padiff_shim.questions.doctor import Health
from padiff_shim.recording.difference import Difference, TensorRow
from padiff_shim.recording.reasons import DifferenceReason
from padiff_shim.recording.tensors import Tensor
from padiff_shim.runs.compare_run import CompareRun
from padiff_shim.runs.gate import Gate
from padiff_shim.text import reader, tr

FORMER = ("to_html", "to_markdown", "as_dict", "annotations", "page", "write", "to_csv", "plot", "done")
OPTIONAL = {"ShardedProof"}  # of several ranks: tests/distributed asks it


def every_result():
    """All classes of results that this library has."""
    for module in pkgutil.walk_packages(padiff_shim.__path__, "padiff_shim."):
        if "bootstrap" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    classes, waiting = set(), [Presented]
    while waiting:
        waiting += (subclasses := waiting.pop().__subclasses__())
        classes.update(subclasses)
    public = [each for each in classes if each.__module__.startswith("padiff_shim.") and not each.__name__.startswith("_")]
    return {each.__name__ for each in public} - {"ProofAnswer"}


def models():
    paddle.seed(0)
    torch.manual_seed(0)
    return paddle.nn.LayerNorm(8, epsilon=1e-6), torch.nn.LayerNorm(8)


class Multiplied(paddle.nn.Layer):
    def forward(self, x):
        return x * (1 / 1.3)


class Divided(torch.nn.Module):
    def forward(self, x):
        return x / 1.3


def mean(out):
    return out.mean()


def gradient_at_a_kink():
    x = paddle.zeros([3])
    x.stop_gradient = False
    paddle.nn.functional.leaky_relu(paddle.tanh(x), 0.01).sum().backward()
    return x.grad


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Name of a class -> a result that found something, and one that found nothing where there can be one."""
    folder = tmp_path_factory.mktemp("results")
    x = np.ones((2, 8), "float32") * np.arange(8, dtype="float32") / 3
    with padiff_shim.reference("torch", profile=True) as run:
        paddle.tanh(paddle.to_tensor(x))
    with padiff_shim.reference("torch", exclude=["tanh"]) as empty:
        paddle.tanh(paddle.to_tensor(x))
    with padiff_shim.compare("torch") as good, warnings.catch_warnings():
        paddle.tanh(paddle.to_tensor(x))
    with testing.planted("tanh", lambda out, x: out * 1.01), padiff_shim.compare("torch") as bad:
        paddle.tanh(paddle.to_tensor(x))
    port, original = models()
    proof = padiff_shim.prove(port, original, x)
    right = padiff_shim.prove(paddle.nn.LayerNorm(8), original, x, phase="train", optimizer="AdamW", steps=2, loss=mean)
    for name, shift in (("a", 0.0), ("b", 1e-3), ("c", 0.0)):
        with padiff_shim.record(folder / name, framework="torch"):
            torch.exp(torch.from_numpy(x) + shift)
    padiff_shim.gate(good, folder / "baseline.jsonl", update=True)
    mapping = padiff_shim.transfer_weights(original, port)
    wrong = replace(mapping, left=(mapping.pairs and [mapping.pairs[0].torch_slot.weight], []))
    check = mapping.check(original, port)
    with torch.no_grad():
        other = torch.nn.LayerNorm(8)
        other.weight += 1
    audits = [Audit(folder, versions(), {"tanh": OpReport("tanh")}, complete=complete) for complete in (True, False)]
    bisection = padiff_shim.bisect(gradient_at_a_kink, paddle.full([3], 0.01), atol=1e-6, progress=False)
    return {
        "Run": (run, empty),
        "CompareRun": (good, bad),
        "Proof": (right, proof),
        "Alignment": (right.report(), proof.report()),
        "CarriedBy": (right.carriers(), None),
        "Bitwise": (
            padiff_shim.prove(paddle.nn.LayerNorm(8), original, x).bits(),
            padiff_shim.prove(Multiplied(), Divided(), np.random.default_rng(0).standard_normal((8, 16))).bits(),
        ),
        "Drift": (
            padiff_shim.prove(paddle.nn.LayerNorm(8), original, x, phase="forward").drift(),
            padiff_shim.prove(port, original, x, phase="forward").drift(),
        ),
        "Difference": (padiff_shim.diff(folder / "a", folder / "c"), padiff_shim.diff(folder / "a", folder / "b")),
        "TreeDifference": (padiff_shim.difference(x, x), padiff_shim.difference({"x": x}, {"x": x + 1, "y": x})),
        "Gate": (padiff_shim.gate(good, folder / "baseline.jsonl"), padiff_shim.gate(bad, folder / "baseline.jsonl")),
        "Mapping": (mapping, wrong),
        "WeightCheck": (check, mapping.check(other, port)),
        "Audit": tuple(audits),
        "Health": (Health(versions(), {}), None),
        "Bisection": (bisection, None),
    }


def test_every_class_of_results_is_here(results):
    assert every_result() - OPTIONAL == set(results)


def test_they_are_true_where_nothing_is_wrong(results):
    for name, (good, bad) in results.items():
        assert bool(good) is not (name == "CarriedBy" and bool(good.rows)), name
        assert bad is None or not bad, name


CATALOGUE = Path(__file__).with_name("headlines.md")
MEASURED = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]\d+)|(?<![\w.])\d+\.\d+%?")


def further(results):
    """Situation -> a result that the fixture has not."""
    place = ProgramPlace("blocks.0", "port.py", 7, "x = y", "softmax(axis=1)")
    share = tr("Paddle's momentum is the share of the old statistics that stays, Torch's that of the new: ")
    long = tr(
        "{name}={own} against {other} ({note}write {name}={value})", name="momentum", own=0.1, other=0.9, note=share, value=0.9
    )
    axis = tr("{here} against {there} (write {there})", here="axis=1", there="axis=-1")
    fix = Fix("momentum=0.9", place.file, 7)
    mistakes = {
        "two mistakes": [Mistake(Cause.ATTRIBUTE, axis, place, place, ("blocks.0",))] * 2,
        "mended on another line": [
            Mistake(Cause.ATTRIBUTE, axis, place, place, ("pool",), fix=Fix("axis=-1", "/models" * 20 + "/port.py", 3)),
            Mistake(Cause.ATTRIBUTE, long, place, place, ("pool",), fix=Fix("momentum=0.9", "port.py", 4)),
        ],
        "a mistake in many words": [Mistake(Cause.ATTRIBUTE, long, place, place, ("blocks.0",), fix=fix)],
        "a call too many": [
            Mistake(Cause.EXTRA, tr("the port calls {alone} here, the original does not", alone="sum()"), None, place, ("",))
        ],
    }
    proofs = {name: Proof(ProofVerdict.CODE_DIFFERS, "", mistakes=these) for name, these in mistakes.items()}
    right = Proof(ProofVerdict.CODE_CORRECT, _bit_for_bit(3e-7, True, []))
    located = Located([], True, 5.5e-14)
    reason = _within_rounding(located, "output 0: largest difference 1e-06", "float64")
    rounded = Proof(ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, reason, differences={"float64": 5.5e-14})
    unknown = Proof(ProofVerdict.NOT_COMPARABLE, tr("weights without partner: {in_one_line}", in_one_line="x" * 200))
    spelled = BitOrigin("rounding", "scale of attention", "", place, place, ("",), "forward", 1.0, 0.5, change="x * c")
    sizes = {"results": (0, 9), "gradients": (0, 15)}
    changed = {"results_changed": (9, 9), "gradients_changed": (15, 15)}
    wrong = proofs["two mistakes"]
    aligned = [AlignedDtype(dtype, proof, None) for dtype, proof in (("float32", right), ("bfloat16", right))]
    return {
        "native kernels alone differ": right,
        "equal everywhere": Proof(ProofVerdict.CODE_CORRECT, _bit_for_bit(0.0, True, [])),
        "natively it fails": Proof(ProofVerdict.CODE_CORRECT, _bit_for_bit(None, True, [])),
        "rounding": rounded,
        **proofs,
        "bits differ, mended": Bitwise(rounded, origins=[spelled] * 3, **sizes, **changed),
        "bits differ, unmended": Bitwise(rounded, origins=[replace(spelled, change="")], **sizes),
        "bits of a wrong port": Bitwise(wrong, comparable=False),
        "a report of two dtypes": Alignment({}, {}, aligned),
        "a report of a wrong port": Alignment({}, {}, [AlignedDtype("float32", wrong, None), aligned[1]]),
        "not comparable": unknown,
        "a report that knows nothing": Alignment({}, {}, [AlignedDtype("float32", unknown, None)]),
        **accused(),
        **drifted(),
        **parted(),
        "an audit with findings": audited(normal=3, crash=1),
        "an audit of edges, stopped": audited(huge=2, complete=False),
        "nothing wrong in an audit": audited(),
        "records of a gate are lost": Gate(Path("baseline.jsonl"), 4.0, missing=["a line is cut"]),
        "carriers that are not known": CarriedBy([], 0.0, 0.0, failed=NOWHERE),
    }


def accused():
    """Situation -> a comparison whose sentences are long."""
    runs = {}
    for verdict in ("WRONG", "PRECISION_MODE", "NONFINITE", "LOW_ACCURACY", "ROUNDING", "UNVERIFIED"):
        runs[f"compared: {verdict}"] = CompareRun()
        runs[f"compared: {verdict}"].counts.add(
            record(
                verdict=verdict,
                side="paddle",
                site=f"{'/models/' * 20}blocks.py:7 in forward",
                layer="encoder.layers.11.attention.self.query",
                prob=99.0,
            )
        )
    ended = CompareRun()
    ended.counts.ended_by = "ValueError: " + "too much " * 30
    return {**runs, "compared: ended early": ended}


def drifted():
    """Situation -> a drift of values and gradients."""

    def drift(native, substituted, wide):
        sides = [Distance(not size, max_abs=size, different=int(size > 0), elements=8) for size in (native, substituted, wide)]
        kinds = ("layer", "output", "gradient of parameter")
        return Drift(rows=[DriftRow(kind, "blocks.0", "blocks.0", 0, "port.py:7", *sides) for kind in kinds])

    return {"drift: rounding": drift(3e-7, 0.0, 1e-16), "drift: a mistake": drift(1e-2, 1e-2, 1e-2)}


def parted():
    """Situation -> two recordings whose difference takes many words."""
    site = f"{'/models/' * 20}blocks.py:7 in forward"
    long = Tensor(
        3, "op", ("linear",), "out", "encoder.layers.11", site, "", 7, "", 4, (2,), "float32", "", {}, "", (), Path(), None
    )
    row = TensorRow(0, long, long, Distance(False, max_abs=1e-3, relative=1e-3, different=1, elements=2), differs=True)
    texts = "rounding explains what differs before layer_norm; " * 4, "learning rate 0.1 in a, 0.01 in b"
    reason = DifferenceReason("learning rate", texts[0] + texts[1], {}, texts[1])
    lost = {"rows": [row], "holes": ["rank 1 has written nothing since step 3"]}
    return {
        "diff: a reason": Difference("a", "b", [row], reason=reason),
        "diff: no reason": Difference("a", "b", [row]),
        "diff: a hole": Difference("a", "b", **lost),
    }


def audited(*, complete=True, **stresses):
    """An audit; a stress of operands, or a crash -> how many ops are wrong there."""
    reports = {"tanh": OpReport("tanh")}
    for stress, ops in stresses.items():
        for name in (f"{stress}{number}" for number in range(ops)):
            report = reports[name] = OpReport(name)
            if stress == "crash":
                report.died("exp, normal, float32", "SIGSEGV")
            else:
                report.records.append(record(case=f"{name}, {stress}, float32", verdict="WRONG", side="paddle", prob=99.0))
    return Audit(Path(), versions(), reports, complete=complete)


def test_headlines(results):
    """What is wrong, where, do this: at most 120 characters, in both languages; headlines.md is for a reviewer's eyes.

    With WRITE_HEADLINES set it is written anew. Measured numbers stand as N.
    """
    named = [(name, each) for name, pair in results.items() for each in pair if each is not None]
    rows = ["# Headlines of results", "", "| result | English | 中文 |", "|---|---|---|"]
    for name, result in [*named, *further(results).items()]:
        texts = []
        for language in ("en", "zh"):
            with reader(language):
                texts.append(str(result.headline))
        assert max(map(len, texts)) <= 120, (name, texts)
        rows.append("| " + " | ".join([name, *(shown_alike(text) for text in texts)]) + " |")
    written = "\n".join(rows) + "\n"
    if os.environ.get("WRITE_HEADLINES"):
        CATALOGUE.write_text(written, encoding="utf-8")
    assert written == CATALOGUE.read_text(encoding="utf-8")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_headline_of_a_mistake_names_the_line_to_edit_what_to_write_and_how_many_more(results, language):
    for name in ("mended on another line", "mended in many words"):
        proof = further(results)["mended on another line"]
        if name == "mended in many words":
            proof = replace(proof, mistakes=proof.mistakes[::-1])
        line, fix = ("port.py:3", "axis=-1") if name == "mended on another line" else ("port.py:4", "momentum=0.9")
        with reader(language):
            report = Alignment({}, {}, [AlignedDtype("float32", proof, None)])
            sentences = [each for result in (proof, report) for each in (result.headline, result.to_dict()["headline"])]
            sentences.append(Bitwise(proof, comparable=False).headline)
            more = str(tr("{text}, and {more} more", text="", more=1))
            for sentence in map(str, sentences):
                assert line in sentence
                assert "port.py:7" not in sentence
                assert fix in sentence
                assert more in sentence


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_stands_below_the_headline_of_a_comparison_says_nothing_twice(language):
    layer = paddle.nn.Linear(8, 8)
    optimizer = paddle.optimizer.AdamW(parameters=layer.parameters())
    with padiff_shim.compare("torch") as run:
        layer(paddle.ones([2, 8])).tanh().mean().backward()
        optimizer.step()
    with reader(language):
        first, *_ = tr("Judged: {scope}.", scope="|").split("|")
        (headline, *_) = str(run).splitlines()
        assert str(run.headline) == headline
        assert str(run).count(first) == str(run.answer).count(first) == 1
        below = str(run).splitlines()[1]
        largest, *_ = tr("The largest rounding is that of {what}.", what="|").split("|")
        assert largest in below or largest in headline


def shown_alike(text):
    """Without what differs from machine to machine."""
    text = re.sub(r"\S*/baseline\.jsonl", "baseline.jsonl", re.sub(r"[^\s（]*(test_results|norm)\.py:\d+", r"\1.py:LINE", text))
    return MEASURED.sub("N", text)


def test_each_has_the_whole_face(results, tmp_path):
    for name, pair in results.items():
        for number, result in enumerate(result for result in pair if result is not None):
            assert isinstance(result.headline, str), name
            assert "\n" not in result.headline, name
            for finding in result.findings:
                assert isinstance(finding, Finding), name
                assert finding.what, name
                assert finding.where or name in ("Proof", "Alignment"), (name, finding)
                assert isinstance(finding.write, str), name
                assert all(isinstance(value, (int, float)) for value in finding.numbers.values()), name
                json.dumps(finding.to_dict())
            assert repr(result).startswith(f"<padiff_shim.{name}: "), name
            assert len(repr(result)) < 300, name
            assert str(result) == result.text(), name
            assert result.headline.partition(" ")[0] in result.text(), name
            assert result.markdown(), name
            assert result.html().startswith("<!doctype html>"), name
            data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
            assert name in ("Run", "CompareRun") or (data["headline"], data["right"]) == (result.answer, bool(result)), name
            for suffix in (".html", ".md", ".txt", ".json"):
                target = result.save(tmp_path / f"{name}{number}{suffix}")
                assert target.stat().st_size, name
            with pytest.raises(ArgumentError, match=r"\.html, \.md"):
                result.save(tmp_path / "file.pdf")
            assert not [former for former in FORMER if hasattr(type(result), former)], name


def test_each_carries_versions(results, monkeypatch):
    """In print, Markdown, page and plain types; where the tests were not run on one of them, a line below the headline says so."""
    shown = [(name, result) for name, pair in results.items() for result in pair if result is not None]
    for name, result in shown:
        forms = [result.text(), result.markdown(), result.html(), str(result.to_dict())]
        assert [torch.__version__.partition("+")[0] in form for form in forms] == [True] * 4, name
        assert not any("Not tested on" in form for form in forms), name
    monkeypatch.setitem(tested._LISTS, "Torch", ("2.5.1",))  # another one is installed
    for name, result in shown:
        if name != "Health":  # whose checks say so
            assert [line.startswith("Not tested on Torch") for line in result.text().splitlines()[:3]] == [False, True, False], name
            assert "Not tested on Torch" in result.markdown(), name
            assert "Not tested on Torch" in result.html(), name
            assert "Not tested on Torch" in result._repr_html_().partition("<iframe")[0], name


def test_what_is_wrong_is_a_finding(results):
    without = {name for name, (_, bad) in results.items() if bad is not None and not bad.findings}
    assert without <= {"Run", "Audit"}  # a run without float calls, an audit that was broken off
    (mistake,) = results["Proof"][1].findings
    assert mistake.write == "epsilon=1e-05"
    (apart, alone) = sorted(results["TreeDifference"][1].findings, key=lambda finding: finding.where)
    assert (apart.where, apart.numbers["max_abs"], alone.where) == ("x", pytest.approx(1.0), "y")


def test_none_holds_english_in_chinese(results, monkeypatch):
    for name, result in ((name, each) for name, pair in results.items() for each in pair if each is not None):
        own = getattr(result, "difference", result)
        machine = " ".join([*sys.orig_argv, *(str(getattr(own, name, "")) for name in ("environment", "environments"))])
        assert not list(english(result.text(200, lang="zh"), machine)), name
        assert not list(english(re.sub(r"</?\w+>|`+[^`]+`+|\\\\", " ", result.markdown(lang="zh")), machine)), name
    monkeypatch.setenv("PADIFF_SHIM_LANG", "zh")
    data = padiff_shim.prove(*models(), np.eye(8)).to_dict()
    assert not re.findall(r"[\u2e80-\uffff]+", json.dumps(data, ensure_ascii=False)), "JSON is English"


SIDES = [("paddle", "torch"), ("port", "original"), ("native", "torch's kernels"), ("native", "substituted")]


def parts_of(parts):
    for part in parts:
        yield part
        if isinstance(part, (Only, Section, Folded)):
            yield from parts_of(part.parts)


def in_order(heads):
    """Whether of each pair of sides Paddle's is named first."""
    places = [[min((at for at, head in enumerate(heads) if side in head.lower()), default=None) for side in pair] for pair in SIDES]
    return all(None in pair or pair[0] <= pair[1] for pair in places)


def test_paddle_stands_before_torch(results):
    tables = findings = 0
    for name, result in ((name, each) for name, pair in results.items() for each in pair if each is not None):
        for part in parts_of(result.document().parts):
            if isinstance(part, Table):
                heads = [column.head for column in part.columns]
                tables += any(side in head.lower() for head in heads for pair in SIDES for side in pair)
                assert in_order(heads), (name, heads)
            elif isinstance(part, Findings):
                for finding in part.findings:
                    sides = [place.side for place in finding.places]
                    findings += len(sides) == 2
                    assert sides == sorted(sides), (name, sides)
        markdown = [line for line in result.markdown().splitlines() if line.startswith("| ")]
        assert all(in_order(line.split("|")) for line in markdown if "|" in line and not any(c.isdigit() for c in line)), name
    assert tables >= 10
    assert findings >= 2


def test_the_order_is_looked_at():
    assert in_order(["layer", "paddle", "torch"])
    assert not in_order(["layer", "original, Torch", "port, Paddle"])
    assert not in_order(["step", "on Torch's kernels", "native"])
