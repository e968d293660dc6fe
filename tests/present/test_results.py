"""Every result has one face: truth, headline, findings, print, repr, text, Markdown, page, data and files; and no second one."""

import importlib
import json
import pkgutil
import warnings
from dataclasses import replace

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ArgumentError, tested, testing
from padiff_shim.auditing.outcome import Audit
from padiff_shim.auditing.report import OpReport
from padiff_shim.modes.environment import versions
from padiff_shim.present.annotations import Finding
from padiff_shim.present.result import Presented
from padiff_shim.questions.doctor import Health

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
    with padiff_shim.reference("torch") as run:
        paddle.tanh(paddle.to_tensor(x))
    with padiff_shim.reference("torch", exclude=["tanh"]) as empty:
        paddle.tanh(paddle.to_tensor(x))
    with padiff_shim.compare("torch") as good, warnings.catch_warnings():
        paddle.tanh(paddle.to_tensor(x))
    with testing.planted("tanh", lambda out, x: out * 1.01), padiff_shim.compare("torch") as bad:
        paddle.tanh(paddle.to_tensor(x))
    port, original = models()
    proof = padiff_shim.prove(port, original, x)
    right = padiff_shim.prove(paddle.nn.LayerNorm(8), original, x)
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
        "Bitwise": (padiff_shim.prove(paddle.nn.LayerNorm(8), original, x).bits(), None),
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
        "HarmReport": (padiff_shim.do_no_harm(lambda: paddle.tanh(paddle.to_tensor(x))), None),
        "Bisection": (bisection, None),
    }


def test_every_class_of_results_is_here(results):
    assert every_result() - OPTIONAL == set(results)


def test_they_are_true_where_nothing_is_wrong(results):
    for name, (good, bad) in results.items():
        assert bool(good) is not (name == "CarriedBy" and bool(good.rows)), name
        assert bad is None or not bad, name


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
            json.dumps(result.to_dict(), default=str)
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
