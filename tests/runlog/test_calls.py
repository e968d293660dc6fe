"""Call records as objects and as a sequence over the log, on made-up records."""

import pickle
import re
import tracemalloc

import pytest
from log_data import filled, record, side, wrong

from padiff_shim.errors import ArgumentError, PadiffShimError, UnknownNameError
from padiff_shim.runlog.calls import Call, Calls
from padiff_shim.runlog.counts import Counts
from padiff_shim.runlog.encoding import encode
from padiff_shim.runs.compare_run import CompareRun, load
from padiff_shim.verdicts import Side, Verdict


class TestCall:
    def test_fields_are_attributes_and_cannot_be_changed(self):
        call = filled([wrong(7)]).calls[0]
        assert (call.index, call.call, call.op, call.step, call.layer) == (0, 7, "linear", 0, "encoder.layers.0.linear1")
        assert call.verdict is Verdict.WRONG
        assert call.side is Side.PADDLE
        assert call.stats["paddle"]["prob"] == 50
        with pytest.raises(AttributeError, match="read-only"):
            call.op = "other"
        with pytest.raises(AttributeError, match=r"'epsilon'.*hypothesis"):
            _ = call.epsilon
        assert "hypothesis" in dir(call)
        assert pickle.loads(pickle.dumps(call)) == call

    def test_non_finite_figures_are_floats_in_stats_and_strings_in_the_record(self):
        call = filled([wrong(prob=float("inf"))]).calls[0]
        assert call.stats["paddle"]["prob"] == float("inf")
        assert call.to_dict()["stats"]["paddle"]["prob"] == "inf"

    def test_one_line_says_error_bound_and_the_tolerance_that_was_required(self):
        text = str(filled([wrong(hypothesis="no-bias", verdict="SEMANTICS")]).calls[0])
        for part in ("linear out [8, 256] float32", "SEMANTICS (no-bias) [paddle]", "encoder.layers.0.linear1", "train.py:41"):
            assert part in text
        assert {"5.0e-05", "1.0e-06", "0.001"} <= set(re.findall(r"[\d.e-]+\d", text))
        assert "\n" not in text

    def test_a_non_finite_result_shows_counts_instead_of_an_error(self):
        counts = {"paddle": {"nan": 1, "inf": 0}, "torch": {"nan": 0, "inf": 1}}
        stats = {"count": 2, "different": 1, "max_abs": 0.0, **counts}
        run = filled([record(verdict="NONFINITE", side="paddle", stats=stats)])
        assert "paddle 1 NaN 0 Inf, torch 0 NaN 1 Inf" in str(run.calls[0])
        assert "NaN/Inf" in str(run)


class TestCalls:
    records = tuple(
        record(
            call,
            op=("linear", "sum")[call % 2],
            layer=f"encoder.{call % 3}",
            step=call // 4,
            phase=("forward", "backward")[call > 7],
        )
        for call in range(10)
    )

    def test_sequence(self):
        calls = filled(self.records).calls
        assert len(calls) == 10
        assert [call.call for call in calls] == list(range(10))
        assert calls[-1].call == 9
        assert isinstance(calls[2:8:3], Calls)
        assert [call.call for call in calls[2:8:3]] == [2, 5]
        assert [call.call for call in reversed(calls)] == list(range(9, -1, -1))
        assert calls[3] in calls
        for index in (10, -11):
            with pytest.raises(IndexError):
                calls[index]
        assert not CompareRun().calls

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            ({"op": "sum"}, [1, 3, 5, 7, 9]),
            ({"op": ("s*", "linear"), "layer": "*.2"}, [2, 5, 8]),
            ({"phase": "backward"}, [8, 9]),
            ({"step": 1}, [4, 5, 6, 7]),
            ({"step": range(1, 3), "op": "sum"}, [5, 7, 9]),
            ({"verdict": "WRONG"}, []),
            ({"verdict": [Verdict.ROUNDING], "side": "none", "tensor": "o?t", "muted": False, "step": {2}}, [8, 9]),
            ({"at_least": "LOW_ACCURACY"}, []),
            pytest.param({"where": lambda call: call.call > 7}, [8, 9], id="where"),
        ],
        ids=str,
    )
    def test_filter(self, conditions, expected):
        calls = filled(self.records).calls
        assert [call.call for call in calls.filter(**conditions)] == expected
        assert [call.call for call in calls.filter(op="sum").filter(**conditions)] == [call for call in expected if call % 2]

    def test_layers_are_filtered_as_a_mode_filters_them(self):
        layers = ("", "encoder", "encoder.0", "encoder.0.linear1", "encoder.10", "head")
        calls = filled([record(place, layer=layer) for place, layer in enumerate(layers)]).calls
        for pattern, expected in (
            ("encoder", [1, 2, 3, 4]),
            ("encoder.?", [2, 3]),
            ("**.linear1", [3]),
            ("*", [1, 2, 3, 4, 5]),
            ("", [0]),
            (["", "head"], [0, 5]),
        ):
            assert [call.call for call in calls.filter(layer=pattern)] == expected
        with pytest.raises(ArgumentError, match=r"layer= takes glob patterns"):
            calls.filter(layer=[])

    @pytest.mark.parametrize(
        "conditions", [{"verdict": "WRNG"}, {"at_least": "BAD"}, {"side": "padle"}, {"phase": "back"}], ids=str
    )
    def test_filter_names_what_it_takes(self, conditions):
        with pytest.raises(UnknownNameError, match="Accepted"):
            filled([]).calls.filter(**conditions)

    def test_a_running_log_grows_under_the_sequence(self):
        run = filled([record(0)])
        calls = run.calls
        assert len(calls) == 1
        run.recorder.add(record(1))
        assert (len(calls), calls[-1].call) == (2, 1)

    def test_thirty_thousand_records_take_eight_bytes_each(self, tmp_path):
        count, path = 30_000, tmp_path / "calls-rank0-pid1.jsonl"
        line = encode({"type": "call", "index": 0, **record()})
        path.write_bytes(encode({"type": "run", "schema": 1}) + line * count)
        tracemalloc.start()
        try:
            calls = Calls([path])
            assert len(calls) == count
            assert sum(1 for _ in calls[::1000]) == 30
            held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 12 * count
        assert peak < 20 * count

    @pytest.mark.slow
    def test_loading_keeps_eight_bytes_a_record_and_bounded_counters(self, tmp_path):
        def peak(count):
            folder = tmp_path / str(count)
            folder.mkdir()
            lines = [encode({"type": "call", "index": index, **record(index)}) for index in range(10)]
            (folder / "calls-rank0-pid1.jsonl").write_bytes(encode({"type": "run", "schema": 1}) + b"".join(lines) * (count // 10))
            tracemalloc.start()
            try:
                assert len(load(folder).calls) == count
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        peak(4000)  # what is imported, compiled and kept for reuse (free lists) once
        assert peak(40_000) - peak(12_000) < 28_000 * 12, "beyond a buffer of some megabytes"

    def test_counting_holds_the_worst_only(self):
        counts = Counts()
        for call in range(1000):
            counts.add(record(call))
        tracemalloc.start()
        try:
            for call in range(6_000):
                counts.add(record(call, step=call, verdict=("WRONG", "ROUNDING")[call % 2]))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert counts.records == 7_000
        assert held < 1_000_000  # a hundred records, not six thousand

    def test_the_files_of_several_processes_are_one_run(self, tmp_path):
        for rank, pid in ((1, 5), (0, 9), (0, 30)):
            header = {"type": "run", "schema": 1, "rank": rank}
            content = encode(header) + encode({"type": "call", "index": 0, **record(pid)})
            (tmp_path / f"calls-rank{rank}-pid{pid}.jsonl").write_bytes(content)
        run = load(tmp_path)
        assert [call.call for call in run.calls] == [9, 30, 5]
        assert next(call.log for call in run.calls) == "calls-rank0-pid9"
        assert run.calls[2].call == 5
        assert [call.call for call in run.calls.filter(where=lambda call: call.call > 5)] == [9, 30]


def test_a_step_needs_an_open_mode():
    with pytest.raises(PadiffShimError, match="open compare mode"):
        CompareRun().next_step()


def test_records_of_torch_alone_count_for_their_side():
    run = filled([wrong(0, side="torch", stats={"torch": side(9), "paddle": {}})])
    assert run.by_op()["linear"].prob == 9
    assert isinstance(run.worst()[0], Call)
