"""Records of which there is little to say take a shorter way to their line, which is the same line."""

import json

import pytest

from padiff_shim.numerics.difference import equal_stats
from padiff_shim.runlog.counts import Counts
from padiff_shim.runlog.encoding import Plain, WrittenFields, encode

WRITTEN = WrittenFields({"op": "linear", "site": 'a "file" ü:3', "layer": "blocks.0", "phase": "forward", "shape": [2, 3]})
DIFFERENT = {**equal_stats(6), "different": 2, "max_abs": 1.25e-7, "mean_abs": 1 / 3, "rel_fro": 3e-8, "ulp_max": 1.5}
PLAIN = {
    "verdict": "ROUNDING",
    "side": "none",
    "hypothesis": None,
    "alternatives": [],
    "modifiers": [],
    "quirk": None,
    "muted": False,
    "reason": 'nowhere further apart than 0.5 of "it" ü',
    "stats": DIFFERENT,
}
OTHERS = {
    "equal": {"verdict": "EQUAL", "stats": equal_stats(6)},
    "sampled": {"stats": {**DIFFERENT, "sampled": 4, "oracle": "float64", "paddle": {"prob": 0.5, "nan": 0}}},
    "infinite": {"stats": {**DIFFERENT, "rel_fro": float("inf"), "tolerance": {"atol": 1.0, "rtol": float("nan")}}},
    "whole numbers": {"stats": {**DIFFERENT, "max_abs": 2, "tolerance": {"atol": 2, "rtol": 1.0}}},
    "no stats": {"stats": {}},
    "serious": {"verdict": "WRONG", "side": "paddle", "hypothesis": "eps=1e-6", "alternatives": ["eps=1e-7"]},
    "screened": {"modifiers": ["screened"]},
    "known": {"quirk": "a known one", "muted": True},
    "second result": {"result": 1},
}


@pytest.mark.parametrize("change", [{}, *OTHERS.values()], ids=["plain", *OTHERS])
def test_a_line_holds_the_record(change):
    record = {"type": "call", "index": 7, "call": 3, "step": 1, **WRITTEN.fields, **PLAIN, **change}
    line = encode(record, WRITTEN)
    assert json.loads(line) == json.loads(encode(record))
    read = json.loads(line)
    assert set(read) == {name for name in record if name != "stats" or record["stats"]} | set(read) & {"stats"}
    assert all(read[name] == record[name] for name in record if name != "stats")


def test_a_record_without_a_usual_field_is_written_all_the_same():
    record = {"type": "call", "index": 7, "call": 3, **WRITTEN.fields, **PLAIN, "other": 1}
    assert json.loads(encode(record, WRITTEN))["other"] == 1


FIGURES = {
    "equal": ("EQUAL", equal_stats(6)),
    "different": ("ROUNDING", DIFFERENT),
    "further apart": ("ROUNDING", {**DIFFERENT, "max_abs": 3.5e-7}),
    "audited": ("EQUAL", {**equal_stats(6), "k": 8, "allowed": 2e-6, "paddle": {"prob": 0.25}, "torch": {"prob": 0.5}}),
    "sampled": ("ROUNDING", {**DIFFERENT, "allowed": 1e-6, "paddle": {"prob": 0.75}, "torch": {"prob": float("nan")}}),
    "infinite": ("ROUNDING", {**DIFFERENT, "rel_fro": float("inf")}),
}
SCREENED = {"count": 6, "max_abs": 1.25e-7, "rel_fro": 3e-8}
COUNTED = ({"call": 3, "step": 1}, {"call": 3, "step": 1, "result": 1})


def plain(verdict, stats, counted, phase="forward"):
    fields = {**WRITTEN.fields, "tensor": "out", "phase": phase}
    return Plain(counted, WrittenFields(fields), verdict, "because", stats)


@pytest.mark.parametrize(("verdict", "stats"), FIGURES.values(), ids=[*FIGURES])
@pytest.mark.parametrize("counted", COUNTED, ids=["first", "second result"])
def test_a_plain_record_has_the_line_of_its_table(verdict, stats, counted):
    record = plain(verdict, stats, counted)
    record.index = 7
    wanted = encode({"type": "call", **record}, record.written)
    for _ in range(2):  # what is equal is written out once
        assert record.line() in (wanted, None)
    assert (record.line() is None) == ("result" in counted or b'"inf"' in wanted or b'"nan"' in wanted)
    assert record["index"] == 7
    assert record["verdict"] == verdict


def screened(counted=COUNTED[0], phase="forward"):
    fields = {**WRITTEN.fields, "tensor": "out", "phase": phase}
    return Plain(counted, WrittenFields(fields), "ROUNDING", "a difference as before", SCREENED, ("screened",))


def test_a_screened_record_says_so_and_is_counted_so():
    record = screened()
    record.index = 7
    assert record.line() == encode({"type": "call", **record}, record.written)
    assert json.loads(record.line())["modifiers"] == record["modifiers"] == ["screened"]
    first, other = Counts(), Counts()
    for record in (screened(), screened(COUNTED[1]), screened(phase="backward")):
        first.add_plain(record, "log")
        other.add(dict(record), "log")
    assert first.coverage.screened == 3
    for name in ("records", "calls", "by_op", "by_layer", "coverage"):
        assert getattr(first, name) == getattr(other, name), name
    assert not first.innocent.largest()
    assert not other.innocent.largest()


def test_two_counters_count_records_of_one_place_apart():
    """A forked child begins counters of its own."""
    written = WrittenFields({**WRITTEN.fields, "tensor": "out"})
    parent, child = Counts(), Counts()
    for counts in (parent, child, child, parent, child):
        counts.add_plain(Plain(COUNTED[0], written, "EQUAL", "bit for bit equal", equal_stats(6)), "log")
    assert (parent.verdicts(), child.verdicts()) == ({"EQUAL": 2}, {"EQUAL": 3})
    assert [group.records for group in child.groups("layer").values()] == [3]


def test_a_record_that_is_looked_at_has_figures_of_its_own():
    """Those of equal tensors are made once: who changes them in one record changes no other."""
    shared = equal_stats(6)
    first, other = (Plain(COUNTED[0], WRITTEN, "EQUAL", "bit for bit equal", shared) for _ in range(2))
    first["stats"]["max_abs"] = first["stats"]["tolerance"]["atol"] = 1.0
    assert other["stats"] == shared == equal_stats(6)


def test_equal_tensors_of_other_sizes_have_lines_of_their_own():
    written = WrittenFields({**WRITTEN.fields, "tensor": "out"})
    for size in (6, 7, 6):
        record = Plain(COUNTED[0], written, "EQUAL", "bit for bit equal", equal_stats(size))
        assert json.loads(record.line())["stats"]["count"] == size


def test_plain_records_are_counted_as_their_tables():
    first, other = Counts(most=4), Counts(most=4)
    records = [
        plain(*figures, counted, phase) for figures in FIGURES.values() for counted in COUNTED for phase in ("forward", "backward")
    ]
    for record in records:
        first.add_plain(record, "log")
        other.add(dict(record), "log")
    for name in ("records", "calls", "by_op", "by_layer", "coverage", "_probs", "_names"):
        assert getattr(first, name) == getattr(other, name), name
    for counts in (first, other):
        assert len(counts.worst()) == 4
    assert [dict(record) for record, _ in first.worst()] == [record for record, _ in other.worst()]
    assert [dict(record) for record, _ in first.innocent.largest()] == [record for record, _ in other.innocent.largest()]
    for severity in (0, 1):
        assert dict(first.first(severity)[0]) == other.first(severity)[0]
