"""An audit of real kernels: what it finds is true, each finding has a script that shows it, and the reports say it."""

import json
import re

import forked
import pytest

import padiff_shim
from padiff_shim.auditing import reproducing
from padiff_shim.auditing.outcome import Audit
from padiff_shim.auditing.report import (
    ACCURACY,
    RANGE,
    TREATMENT,
    UNJUDGED,
    WRONG,
    AuditFinding,
    OpReport,
    findings,
    kind_of,
    stress_of,
)
from padiff_shim.auditing.reproducing import DefectOutcome
from padiff_shim.catalogue.defects import defects
from padiff_shim.cli.main import main

NAMES = ["softmax", "concat"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    assert (
        main(
            [
                "audit",
                *(word for name in NAMES for word in ("--ops", name)),
                "--folder",
                str(folder),
                "--no-defects",
                "--workers",
                "1",
            ]
        )
        == 0
    )
    return folder, json.loads((folder / "audit.json").read_text())


@pytest.mark.slow
def test_a_device_that_paddle_refuses_is_told_with_its_words(tmp_path, capsys):
    assert main(["audit", "--ops", "relu", "--device", "tpu", "--folder", str(tmp_path), "--no-defects"]) == 2
    assert "nothing can be audited on the device 'tpu': ValueError: The device must be" in capsys.readouterr().err


def test_every_op_was_tried_and_judged(audited):
    _, data = audited
    assert sorted(entry["name"] for entry in data["ops"]) == sorted(NAMES)
    assert data["complete"]
    for entry in data["ops"]:
        assert entry["judged"] >= entry["calls"] > 5
        assert sum(entry["verdicts"].values()) == entry["judged"]
        assert not entry["deaths"]
    assert data["environment"].keys() >= {"paddle", "torch", "device", "processor"}


def test_what_moves_values_is_judged_and_right(audited):
    _, data = audited
    assert not [entry for entry in data["findings"] if entry["op"] == "concat" and entry["kind"] == WRONG]


def test_a_clipped_softmax_is_found_named_and_shown(audited):
    """Paddle's CPU kernel has it on every processor."""
    folder, data = audited
    clipped = [entry for entry in data["findings"] if entry["known"] == "softmax clipped at -64"]
    assert {entry["tensor"] for entry in clipped} == {"out", "grad:x"}
    assert {entry["side"] for entry in clipped} == {"paddle"}
    assert data["known_differences"]["softmax clipped at -64"]
    assert "relu of NaN" not in data["known_differences"], "nobody looked"
    script = folder / "repro" / next(entry for entry in clipped if entry["tensor"] == "out")["worst"]["script"]
    done = forked.run([script])
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.endswith("\nREPRODUCED\n")


def test_the_reports_say_the_same(audited):
    folder, data = audited
    text, page = (folder / "audit.md").read_text(), (folder / "audit.html").read_text()
    assert "softmax clipped at -64" in text
    assert "softmax clipped at -64" in re.sub("<[^>]*>", "", page)
    assert not re.search(r"<(script|img|link)", page)
    assert page.count("<section") == text.count("\n### ")
    for line in text.splitlines():
        assert len(re.findall(r"(?<!\\)\|", line)) <= 7, line
    assert len(data["findings"]) == sum(int(number) for number in re.findall(r"^### .*\((\d+)\)$", text.replace("\\", ""), re.M))


def test_it_is_not_overwritten(audited, capsys):
    folder, _ = audited
    assert main(["audit", "--ops", "relu", "--folder", str(folder)]) == 2
    assert "holds an audit already: go on with it (--resume" in capsys.readouterr().err


# --- what the records say together --------------------------------------------------------------------------------------


def record(verdict, stress="plain", side="paddle", **more):
    return {
        "case": f"relu: sample 0, {stress}, float32",
        "tensor": "out",
        "dtype": "float32",
        "verdict": verdict,
        "side": side,
        **more,
    }


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (record("WRONG"), WRONG),
        (record("WRONG", stats={"paddle": {"prob": 5.0}}), WRONG),
        (record("WRONG", stats={"paddle": {"prob": 3.0}}), ACCURACY),
        (record("WRONG", side="both", stats={"paddle": {"prob": 300.0}, "torch": {"prob": 290.0}}), ACCURACY),
        (record("WRONG", side="both", stats={"paddle": {"prob": 300.0}, "torch": {"prob": 9.0}}), WRONG),
        (record("WRONG", "ties"), TREATMENT),
        (record("NONFINITE", reason="at [0]: paddle 0, torch nan, oracle nan"), TREATMENT),
        (record("NONFINITE", reason="at [0]: paddle nan, torch 0, oracle 0"), WRONG),
        (record("WRONG", "long 3"), WRONG),
        (record("SEMANTICS", modifiers=["negligible"]), ACCURACY),
        (record("LOW_ACCURACY", "long 3"), ACCURACY),
        (record("NONFINITE", "huge"), RANGE),
        (record("WRONG", "denormal"), RANGE),
        (record("NONFINITE", "nan"), TREATMENT),
        (record("NONFINITE", "empty 3"), TREATMENT),
        (record("NONFINITE", "nan", quirk="relu of NaN"), WRONG),
        (record("UNVERIFIED", "nan"), UNJUDGED),
    ],
)
def test_parts_of_the_report(outcome, kind):
    assert kind_of(outcome) == kind


def test_one_op_is_one_op_and_a_known_defect_is_no_ordinary_operand(tmp_path):
    """It said "wrong in 1 ops with ordinary operands" of a known defect with NaN."""
    report = OpReport("relu", 1, 1, records=[record("NONFINITE", "nan", quirk="relu of NaN", reason="at [0]")])
    audited = Audit(tmp_path, {"paddle": "3.3.1"}, {"relu": report})
    text = " ".join(audited.text(160).split())
    assert "1 op, 1 call," in text
    assert text.endswith("audit.json")
    assert "Wrong: 1 op: relu" in text


def test_one_that_was_stopped_at_once_accuses_and_acquits_nobody(tmp_path):
    audited = Audit(tmp_path, {}, {}, seconds=3.0)
    assert not audited
    assert not audited.findings
    assert "None" not in audited.text(80)


def test_records_that_say_the_same_are_one_finding():
    report = OpReport("relu", records=[record("WRONG"), record("WRONG", "long 3"), record("WRONG", side="torch")])
    first, second = findings([report])
    assert (first.side, first.stresses, len(first.cases)) == ("paddle", ["plain", "long"], 2)
    assert second.side == "torch"
    assert stress_of("relu: sample 0, long 3, float32") == "long 3"


def test_what_other_processors_have_alone_is_not_gone(tmp_path):
    audited = Audit(tmp_path, {"paddle": "3.3.1", "torch": "2.13.0"}, {})
    for of_some in (False, True):
        audited.defects = [DefectOutcome("NaN", "relu", "relu of NaN", True, 0, 1, "", of_some)]
        assert ("relu of NaN" in audited.known) is not of_some
        assert ("NaN" in str(audited)) is not of_some


HOSTILE = "<script>alert(1)</script> | `x` \x1b[31m"


def test_pages_escape_what_they_show(tmp_path):
    report = OpReport("relu", calls=1, judged=1, refusals={HOSTILE: 1}, native={HOSTILE: 2})
    report.records = [{**record("WRONG"), "reason": HOSTILE, "hypothesis": HOSTILE, "script": "relu_0.py"}]
    report.died("relu: sample 0, plain, float32", "SIGSEGV")
    audited = Audit(tmp_path, {"paddle": "3", "torch": "2", "processor": HOSTILE, "device": "cpu"}, {"relu": report})
    audited.defects = [
        DefectOutcome("a defect", "relu", "", True, 0, 1, ""),
        DefectOutcome("another", "relu", "", False, 1, 1, "SIGSEGV"),
    ]
    audited.defects.append(DefectOutcome("of others", "relu", "relu of NaN", True, 0, 1, "", by_processor=True))
    page, text = audited.html(), audited.markdown()
    assert "<script>" not in page
    assert "<script>" not in text
    assert "\x1b" not in page + text
    assert "SIGSEGV" in page
    assert "SIGSEGV" in text
    assert "a defect" in str(audited)
    assert "| of others | relu |" in text
    assert "of others" not in str(audited), "it did not go: this processor has it not"
    assert [path.name for path in audited.save_all()] == ["audit.md", "audit.html", "audit.json"]
    assert isinstance(audited.entries[0], AuditFinding)


# --- the programs of the defects ----------------------------------------------------------------------------------------


ENDS = {
    "print('nothing of this is seen')": "",
    "assert False": "AssertionError",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": "SIGSEGV",
    "import time; time.sleep(3600)": "SIGALRM",
}


@pytest.mark.slow
def test_programs_end_as_they_do_and_a_defect_is_seen_or_no_longer(monkeypatch):
    defect = defects()["softmax of masked entries is not zero"]
    ended = reproducing.ended
    how = {}

    def with_others(programs, seconds):
        endings, versions = ended({**programs, **{program: program for program in ENDS}}, 2)  # all but one need milliseconds
        how.update(endings)
        return endings, versions

    monkeypatch.setattr(reproducing, "ended", with_others)
    (seen,) = reproducing.run_defects([defect])
    assert (seen.claimed, seen.shown, seen.gone, seen.new) == (True, len(list(defect.programs())), False, False)
    assert {program: how[program] for program in ENDS} == ENDS


def test_the_public_names():
    assert padiff_shim.audit.__module__ == "padiff_shim.auditing.audit"
    assert padiff_shim.Audit is Audit
