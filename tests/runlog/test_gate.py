"""The gate: what got worse than a baseline fails, what moved or came or went is told, and the file is one for people."""

import contextlib
import json
import os

import paddle
import pytest
from log_data import filled, record, side, wrong

import padiff_shim
from padiff_shim.cli.main import main
from padiff_shim.errors import ArgumentError, FileError
from padiff_shim.runs.gate import entries, gate


def at(line, **changes):
    return record(site=f"train.py:{line} in forward", line=line, **changes)


def bad(line, units, verdict="WRONG", **changes):
    made = at(line, verdict=verdict, side="paddle", **changes)
    return {**made, "stats": {**made["stats"], "paddle": {**side(1.0), "rho_max": units}}}


@pytest.fixture
def baseline(tmp_path):
    """Of a run with a rounding line and one of low accuracy."""
    path = tmp_path / "baseline.jsonl"
    assert gate(filled([at(10), bad(20, 30.0, "LOW_ACCURACY", op="sum")]), path, update=True).updated
    return path


def test_the_same_run_passes(baseline):
    result = gate(filled([at(10), bad(20, 30.0, "LOW_ACCURACY", op="sum")]), baseline)
    assert result.passed
    assert (result.worse, result.better, result.new, result.gone) == ([], [], [], [])
    assert result.places == 2


def test_a_worse_class_fails(baseline):
    result = gate(filled([bad(10, 9.0), bad(20, 30.0, "LOW_ACCURACY", op="sum")]), baseline)
    assert not result.passed
    ((now, before),) = result.worse
    assert (now.verdict, before.verdict) == ("WRONG", "ROUNDING")
    assert "worse: linear out float32 at encoder.layers.0.linear1, train.py:10 in forward: WRONG, 9 units; it was ROUNDING" in str(
        result
    )


@pytest.mark.parametrize(
    ("units", "margin", "passes"), [(119, 4, True), (121, 4, False), (121, 5, True), (30, 1, True), (31, 1, False)]
)
def test_a_larger_error_fails_beyond_the_margin(baseline, units, margin, passes):
    result = gate(filled([at(10), bad(20, float(units), "LOW_ACCURACY", op="sum")]), baseline, margin=margin)
    assert result.passed is passes


def test_equal_and_rounding_are_alike(baseline):
    """Which of them it is depends on the processor."""
    assert gate(filled([at(10, verdict="EQUAL"), bad(20, 30.0, "LOW_ACCURACY", op="sum")]), baseline).passed
    assert gate(filled([at(10, prob=0.9), bad(20, 30.0, "LOW_ACCURACY", op="sum")]), baseline).passed


def test_known_and_negligible_differences_are_no_complaint_until_they_are_neither(tmp_path):
    path = tmp_path / "baseline.jsonl"
    gate(filled([bad(10, 9.0, quirk="ours"), bad(20, 9.0, modifiers=["negligible"])]), path, update=True)
    assert gate(filled([bad(10, 900.0, quirk="ours"), bad(20, 9.0, modifiers=["negligible"])]), path).passed
    result = gate(filled([bad(10, 9.0), bad(20, 9.0, modifiers=["negligible"])]), path)
    assert [now.site for now, _ in result.worse] == ["train.py:10 in forward"]


def test_new_calls_fail_where_they_are_not_clean(baseline):
    usual = [at(10), bad(20, 30.0, "LOW_ACCURACY", op="sum")]
    result = gate(filled([*usual, at(30, op="gelu")]), baseline)
    assert (result.passed, [entry.op for entry in result.new], result.gone) == (True, ["gelu"], [])
    assert not gate(filled([*usual, bad(30, 5.0, op="gelu")]), baseline).passed


def test_missing_calls_fail_unless_the_run_was_to_leave_some_out(baseline):
    result = gate(filled([at(10)]), baseline)
    assert (result.passed, [entry.op for entry in result.gone]) == (False, ["sum"])
    (annotation,) = result.findings
    assert annotation.level == "error"
    run = filled([at(10)])
    (run.recorder.log or run.recorder).header["options"] = {"budget": 0.1}
    assert gate(run, baseline).passed


@pytest.mark.parametrize("ending", ["raise RuntimeError('no memory')", "raise SystemExit(3)", "raise SystemExit(0)", "pass"])
def test_a_program_that_failed_fails(tmp_path, ending):
    """Also where all places of the baseline are there, and as the run itself and as its log say."""
    gate(_exp(tmp_path / "usual"), tmp_path / "baseline.jsonl", update=True)
    failed = ending not in ("raise SystemExit(0)", "pass")
    run = _exp(tmp_path / "log", ending)
    for seen in (run, padiff_shim.load(tmp_path / "log")):
        result = gate(seen, tmp_path / "baseline.jsonl")
        assert (result.passed, bool(result.missing), bool(seen.counts.ended_by)) == (not failed, failed, failed)
        assert ("ended" in seen.answer) is failed
    assert gate(run, tmp_path / "baseline.jsonl", update=True).updated is not failed


def _exp(folder, ending="pass"):
    mode = padiff_shim.compare("torch", log=folder, progress=False)
    with contextlib.suppress(BaseException), mode:
        paddle.exp(paddle.zeros([2]))
        exec(ending)
    return mode.run


def test_lines_that_moved_are_the_same_places(baseline):
    result = gate(filled([at(13), bad(26, 31.0, "LOW_ACCURACY", op="sum")]), baseline)
    assert (result.new, result.gone, result.passed) == ([], [], True)
    worse = gate(filled([at(13), bad(26, 31.0, "WRONG", op="sum")]), baseline)
    assert [now.verdict for now, _ in worse.worse] == ["WRONG"]


def test_of_several_that_moved_each_is_its_own_place(tmp_path):
    path = tmp_path / "baseline.jsonl"
    gate(filled([at(10), bad(20, 30.0, "LOW_ACCURACY")]), path, update=True)
    assert gate(filled([at(11), bad(21, 30.0, "LOW_ACCURACY")]), path).passed


def test_what_got_better_is_told(baseline):
    result = gate(filled([at(10), at(20, op="sum")]), baseline)
    assert result.passed
    assert [now.op for now, _ in result.better] == ["sum"]


def test_the_worst_record_of_a_place_counts():
    places = entries(filled([at(10), bad(10, 7.0), bad(10, 5.0), at(10, tensor="grad:x")]).calls)
    assert [(entry.tensor, entry.verdict, entry.units) for entry in places] == [("grad:x", "ROUNDING", 0.8), ("out", "WRONG", 7.0)]


def test_the_file_is_sorted_and_small(baseline, tmp_path):
    text = baseline.read_text()
    first, second = map(json.loads, text.splitlines())
    assert first == {
        "op": "linear", "tensor": "out", "dtype": "float32", "layer": "encoder.layers.0.linear1", "site": "train.py:10 in forward",
        "verdict": "ROUNDING", "units": 0.8,
    }  # fmt: skip
    assert second["verdict"] == "LOW_ACCURACY"
    other = tmp_path / "other.jsonl"
    gate(filled([bad(20, 30.0, "LOW_ACCURACY", op="sum"), at(10), at(10)]), other, update=True)
    assert other.read_text() == text, "neither the order of calls nor their number is in it"


def test_a_baseline_that_is_none(tmp_path, baseline):
    run = filled([at(10)])
    with pytest.raises(FileError, match=r"no baseline .* yet"):
        gate(run, tmp_path / "absent.jsonl")
    baseline.write_text(baseline.read_text() + "nonsense\n")
    with pytest.raises(ArgumentError, match=r"line 3, .*baseline"):
        gate(run, baseline)
    baseline.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match="it is no text"):
        gate(run, baseline)
    with pytest.raises(FileError):
        gate(run, tmp_path, update=True)


def test_arguments(baseline):
    run = filled([wrong(0)])
    for margin in (0.5, float("nan"), "4", True):
        with pytest.raises(ArgumentError, match="margin="):
            gate(run, baseline, margin=margin)
    with pytest.raises(ArgumentError, match="no judged call"):
        gate(filled([]), baseline)


def test_the_command(tmp_path, capsys):
    paddle = pytest.importorskip("paddle")
    with padiff_shim.compare("torch", log=tmp_path / "run"):
        paddle.nn.functional.gelu(paddle.randn([4, 4]))
    file = tmp_path / "baseline.jsonl"
    words = ["gate", str(tmp_path / "run"), "--baseline", str(file)]
    assert main(words) == 2
    assert "no baseline" in capsys.readouterr().err
    assert main([*words, "--update"]) == 0
    assert main(words) == 0
    file.write_text(file.read_text().replace("gelu", "silu"))
    assert main(words) == 1
    assert "gone: silu out" in capsys.readouterr().out
    with padiff_shim.testing.planted("gelu", lambda out, *_: out * 1.5), padiff_shim.compare("torch", log=tmp_path / "bad"):
        paddle.nn.functional.gelu(paddle.randn([4, 4]))
    assert main(["gate", str(tmp_path / "bad"), "--baseline", str(file)]) == 1
    assert "not clean: gelu out" in capsys.readouterr().out


def test_a_log_that_is_not_whole_does_not_pass(tmp_path, baseline):
    """What was lost may be what got worse: a process that was killed, a disk that was full, lines that are none."""
    run = filled([at(10), bad(20, 30.0, "LOW_ACCURACY", op="sum")], folder=tmp_path / "run")
    run.recorder.conclude()
    (log,) = (tmp_path / "run").glob("*.jsonl")
    assert gate(tmp_path / "run", baseline).passed
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b'{"type":"end"')])
    result = gate(tmp_path / "run", baseline)
    assert not result.passed
    assert result.places == 2
    assert f"not whole: {log.name} was not closed: process" in str(result)
    assert "was not closed" in result.markdown().partition("<details>")[0]
    assert main(["gate", str(tmp_path / "run"), "--baseline", str(baseline)]) == 1
    first, _, *others = whole.splitlines(keepends=True)
    log.write_bytes(b"".join([first, b"{}\n", *others]))
    with pytest.warns(RuntimeWarning, match="left out"):
        result = gate(tmp_path / "run", baseline)
    assert "left out" in "".join(result.missing)
    assert not result.passed


def test_a_path_that_is_no_utf8_is_written_and_found_again(tmp_path):
    """Python shows such bytes as halves of surrogate pairs: it ended in a UnicodeEncodeError, and an empty baseline."""
    run = filled([{**at(10), "site": os.fsdecode(b"tr\xe4in.py:10 in forward")}])
    assert gate(run, tmp_path / "baseline.jsonl", update=True).updated
    result = gate(run, tmp_path / "baseline.jsonl")
    assert (result.passed, result.new, result.gone) == (True, [], [])
    assert "</html>" in run.save(tmp_path / "page.html").read_text()


def test_single_elements_far_out_inside_their_bound_never_fail(baseline):
    """LOCAL_SUSPECT depends on the operands: another seed passes, and its places are listed."""
    low = bad(20, 30.0, "LOW_ACCURACY", op="sum")
    result = gate(filled([bad(10, 40.0, "LOCAL_SUSPECT"), bad(30, 50.0, "LOCAL_SUSPECT", op="gelu"), low]), baseline)
    assert result.passed
    assert str(result).count("within its bound: ") == 2
    assert gate(filled([at(10), bad(20, 300.0, "LOCAL_SUSPECT", op="sum")]), baseline).passed, "better than LOW_ACCURACY"
    beyond = bad(10, 40.0, "LOCAL_SUSPECT")
    beyond["stats"]["torch"] = {**beyond["stats"]["torch"], "prob": 1.5}  # the other side is of low accuracy
    assert [now.verdict for now, _ in gate(filled([beyond, low]), baseline).worse] == ["LOW_ACCURACY"]


def test_an_update_says_what_it_did_and_not_that_the_run_failed(baseline, tmp_path, capsys):
    run = filled([bad(10, 9.0)], folder=tmp_path / "run")
    run.recorder.conclude()
    words = ["gate", str(tmp_path / "run"), "--baseline", str(baseline)]
    assert main(words) == 1
    assert capsys.readouterr().out.startswith("FAILED")
    assert main([*words, "--update"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("UPDATED: ")
    assert f"{baseline.name} holds 1 place" in text.replace("\n", " ").replace("  ", " ")
    assert "worse: linear out" in text
    assert main(words) == 0


def test_an_update_that_is_refused_is_no_success(baseline, tmp_path, capsys):
    run = filled([at(10)], folder=tmp_path / "run")
    run.recorder.conclude()
    (log,) = (tmp_path / "run").glob("*.jsonl")
    log.write_bytes(log.read_bytes().partition(b'{"type":"end"')[0])
    before = baseline.read_text()
    assert main(["gate", str(tmp_path / "run"), "--baseline", str(baseline), "--update"]) == 1
    assert capsys.readouterr().out.startswith("NOT UPDATED: records")
    assert baseline.read_text() == before
