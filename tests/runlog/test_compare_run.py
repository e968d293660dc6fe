"""What is asked of a compare run, on made-up records: sequences, counts, the worst, coverage, saving and loading, reports."""

import gc
import json
import os
import re
from pathlib import Path

import paddle
import pytest
from log_data import filled, record, wrong

import padiff_shim
from padiff_shim.errors import PadiffShimError, UnknownNameError
from padiff_shim.runlog import compare_logs
from padiff_shim.runlog.counts import NO_VERDICT
from padiff_shim.runs.compare_run import CompareRun, load
from padiff_shim.verdicts import Verdict


class TestWorst:
    def test_class_first_then_the_multiple_of_the_bound(self):
        run = filled(
            [
                record(0, prob=0.9),
                wrong(1, verdict="LOW_ACCURACY", prob=1e9),
                wrong(2, prob=3),
                wrong(3, prob=float("nan")),
                wrong(4, prob=7),
                wrong(5, prob=7),
            ]
        )
        assert [call.call for call in run.worst()] == [3, 4, 5, 2, 1, 0]
        assert [call.call for call in run.worst(2)] == [3, 4]
        assert run.worst(1)[0] == run.calls[3]
        assert run.worst(0) == []

    def test_beyond_what_is_in_memory(self):
        run = filled([wrong(call, prob=2 + call) for call in range(250)])
        assert [call.call for call in run.worst(220)] == list(range(249, 29, -1))

    def test_muted_differences_are_counted_and_never_the_worst(self):
        muted = wrong(0, quirk="ours", muted=True)
        run = filled([muted, record(1), wrong(2, verdict="LOW_ACCURACY", quirk="theirs")])
        assert [call.call for call in run.worst()] == [2, 1]
        assert run.first_divergence().call == 2
        assert run.verdicts == {"WRONG": 1, "LOW_ACCURACY": 1, "ROUNDING": 1}
        assert run.by_op()["linear"].worst is Verdict.ROUNDING
        assert run.by_op()["linear"].muted == 1
        assert "Known difference: ours: 1 record (muted)" in str(run)
        assert "Known difference: theirs: 1 record" in str(run).splitlines()

    def test_first_divergence(self):
        run = filled([record(0), record(1, verdict="UNVERIFIED"), wrong(2, verdict="LOCAL_SUSPECT"), wrong(3), wrong(4)])
        assert run.first_divergence().call == 2
        assert run.first_divergence("WRONG").call == 3
        assert run.first_divergence(Verdict.UNVERIFIED).call == 1
        assert filled([record()]).first_divergence() is None
        with pytest.raises(UnknownNameError, match="WRONG"):
            run.first_divergence("WRNG")


def test_groups_by_op_and_layer():
    run = filled([record(layer="a"), record(layer="b", op="sum", prob=0.5), wrong(layer="b", side="both"), record(layer="")])
    assert list(run.by_layer()) == ["b", "a", ""] or list(run.by_layer()) == ["b", "", "a"]
    counts = run.by_layer()["b"].to_dict()
    assert counts == {
        "records": 2,
        "muted": 0,
        "verdicts": {"ROUNDING": 1, "WRONG": 1},
        "sides": {"both": 1},
        "worst": "WRONG",
        "prob": 50,
    }
    assert [(group.name, group.records) for group in run.by_op().values()] == [("linear", 3), ("sum", 1)]


EXPECTED = {
    "float_calls": 5,
    "checked_calls": 1,
    "float_elements": 2 * 2048 + 2048,
    "checked_elements": 2048,
    "unchecked": {"no Torch formula": 2, NO_VERDICT: 1, "not compared: every=": 1},
    "unchecked_ops": {
        "conv2d": {"no Torch formula": 2},
        "einsum": {NO_VERDICT: 1},
        "exp": {"not compared: every=": 1},
    },
}


class TestCoverage:
    def run(self, **options):
        run = filled(
            [record(0), record(0, phase="backward", tensor="grad:x"), record(1, verdict="UNVERIFIED", op="einsum")], **options
        )
        for _ in range(2):
            run.recorder.add_native("conv2d", "no Torch formula", 1000)
        run.recorder.add_native("exp", "not compared: every=", 48)
        return run

    def test_shares_and_reasons(self):
        run = self.run()
        assert run.coverage() == EXPECTED
        assert run.native == EXPECTED["unchecked_ops"]
        text = str(run)
        assert {"20 %", "33.3 %"} <= set(re.findall(r"[\d.]+ %", text))
        assert "no Torch formula: 2 calls (conv2d 2)" in text

    def test_what_filters_kept_away_counts_as_unchecked(self):
        run = self.run()
        run.tally().native["tanh", "filtered out by ops= or exclude="] += 3
        assert run.coverage()["float_calls"] == 8
        assert run.coverage()["unchecked"]["filtered out by ops= or exclude="] == 3

    def test_the_shares_never_round_up_to_everything(self):
        run = filled([record(0)])
        run.counts.coverage.checked_calls = run.counts.coverage.float_calls = 10**6
        run.recorder.add_native("exp", "reason", 1)
        assert "99.9 % of 1,000,001 float calls" in str(run)

    def test_it_survives_saving_and_a_missing_end(self, tmp_path):
        run = self.run(folder=tmp_path / "a")
        run.recorder.close()
        assert load(tmp_path / "a").coverage() == EXPECTED
        (path,) = compare_logs.files(tmp_path / "a")
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"type":"end"')))
        killed = load(tmp_path / "a").coverage()
        assert (killed["float_calls"], killed["checked_calls"]) == (2, 1)

    def test_a_long_run_writes_it_down_now_and_then(self, tmp_path):
        run = filled([], folder=tmp_path)
        run.recorder.add_native("exp", "reason", 10)
        for call in range(1100):
            run.recorder.add(record(call))
        killed = load(tmp_path)  # no "end" yet
        assert killed.coverage() == run.coverage()
        assert killed.coverage()["unchecked"] == {"reason": 1}


class TestSaving:
    def test_a_loaded_run_says_what_the_live_one_said(self, tmp_path):
        run = filled([record(0), wrong(1), record(2, quirk="ours", muted=True, verdict="LOW_ACCURACY")])
        run.recorder.add_native("conv2d", "no Torch formula", 1000)
        run.warn("look here first")
        run.recorder.close()
        assert run.copy_log(tmp_path / "kept") == tmp_path / "kept"
        again = load(tmp_path / "kept")
        assert list(again.calls) == list(run.calls)
        assert again.to_dict() == run.to_dict()
        assert str(again) == str(run)
        assert again.markdown() == run.markdown()
        assert again.worst() == run.worst()

    def test_a_running_run_can_be_saved_repeatedly(self, tmp_path):
        run = filled([record(0)])
        run.copy_log(tmp_path)
        run.recorder.add(record(1))
        run.copy_log(tmp_path)
        assert len(load(tmp_path).calls) == 2
        assert load(tmp_path).coverage()["checked_calls"] == 2

    def test_another_runs_folder_is_refused(self, tmp_path):
        filled([record()], folder=tmp_path)
        with pytest.raises(PadiffShimError, match="another run"):
            filled([record()]).copy_log(tmp_path)

    def test_without_a_log_there_is_nothing_to_save(self, tmp_path):
        with pytest.raises(PadiffShimError, match="no log"):
            CompareRun().copy_log(tmp_path)

    def test_the_temporary_folder_lives_as_long_as_anything_reads_it(self):
        run = filled([record(0)])
        folder, calls = run.recorder.log.folder, run.calls
        del run
        gc.collect()
        assert calls[0].call == 0
        del calls
        gc.collect()
        assert not os.path.exists(folder)


class TestReports:
    def test_warnings_come_first(self):
        run = CompareRun()
        run.begin({"paddle": "3.3.1", "torch": "2.13.0"}, {}, ["TF32 is allowed in one framework only"])
        run.recorder.add(wrong())
        for text in (str(run), run.markdown()):
            assert "TF32 is allowed in one framework only" in text
            headline, rest = text.split("\n", 1)
            assert "linear" in headline
            assert rest.index("TF32") < rest.index("Worst calls")
            assert "paddle 3.3.1, torch 2.13.0" in text

    def test_the_table_takes_calls_that_say_the_same_together(self):
        run = filled([wrong(step, step=step, prob=2 + step) for step in range(5)] + [wrong(9, prob=1, side="torch", layer="head")])
        table = run.markdown()
        rows = [line for line in table.splitlines() if line.startswith("| WRONG")]
        assert len(rows) == 2
        assert rows[0].endswith("| 5 |")
        assert "| 6.0e-06 / 1.0e-06 | 1.0e-06 |" in rows[0]  # the worst of the five
        assert len({row.count("|") for row in table.splitlines() if row.startswith("|")}) == 1

    def test_strings_of_the_program_are_not_markup(self):
        run = filled([wrong(layer="a|b[red]*_c", site="<script>|`x`:1 in [/]", reason="[bold]", hypothesis="p|q")])
        row = next(line for line in run.markdown().splitlines() if line.startswith("| WRONG"))
        assert row.replace("\\|", "").count("|") == 7
        assert "<script" not in run.markdown()
        assert "[red]" in str(run).replace("\n", "").replace(" ", "") or "a|b[red]*_c" in str(run)
        assert "[/]" in str(run)

    def test_nobody_is_called_and_no_issue_is_named(self):
        text = filled([wrong(layer="@maintainer", site="GH#12.py:3 in @f")]).markdown()
        assert "@&#8203;maintainer" in text
        assert not re.search(r"@\w|#\d", text.replace("&#8203;", "\u200b"))

    def test_terminal_markdown_and_page_show_the_same_findings(self, tmp_path):
        layers = [f"encoder.layers.{number}.linear1" for number in range(3)]
        run = filled(
            [wrong(place, prob=2 + place, layer=layer) for place, layer in enumerate(layers)]
            + [wrong(9, verdict="NONFINITE", prob=place, layer="head") for place in range(2)]
        )
        second, first = run.by_line()
        assert (first.worst["verdict"], first.records, first.place) == ("NONFINITE", 2, 3)
        assert (second.records, second.place, second.layers) == (3, 2, set(layers))
        assert "encoder.layers.2.linear1 and 2 other layers" in " ".join(str(run).split())
        assert "encoder.layers.2.linear1 and 2 other layers<br>train.py:41" in run.markdown()
        data = json.loads(re.search(r'"application/json"[^>]*>(.*?)</script>', run.save(tmp_path / "r.html").read_text())[1])
        assert [(finding["worst"], finding["layers"]) for finding in data["findings"]] == [(2, layers), (3, ["head"])]

    def test_an_empty_run_and_a_clean_one(self):
        assert not CompareRun()
        assert filled([record()])


def names_in(record):
    """Every field of a record; those of attributes and free-text keys are the program's."""
    for name, value in record.items():
        yield name
        if isinstance(value, dict) and name not in ("attributes", "environment", "flags", "options", "unchecked", "unchecked_ops"):
            yield from names_in(value)


def test_every_field_that_a_real_run_writes_is_documented(tmp_path):
    x = paddle.ones([4, 4])
    x.stop_gradient = False
    with padiff_shim.compare("torch", shadow=True, log=tmp_path) as run:
        paddle.matmul(x * 1.1, x).exp().sum().backward()
        paddle.nn.functional.conv2d(paddle.ones([1, 1, 3, 3]), paddle.ones([1, 1, 1, 1]))
        run.warn("look here")
    (path,) = compare_logs.files(tmp_path)
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert {record["type"] for record in records} == {"run", "call", "event", "end"}
    text = (Path(__file__).parents[2] / "docs" / "log.md").read_text()
    documented = {word.lstrip(".") for code in re.findall(r"`([^`\n]+)`", text) for word in re.split(r"[^\w.]+", code)}
    documented |= {word.rpartition(".")[2] for word in documented}
    assert {name for record in records for name in names_in(record)} - documented == set()
