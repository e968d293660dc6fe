"""A record whose fields are written out already has the line that it has without that."""

import json

import pytest

from padiff_shim.numerics.difference import equal_stats
from padiff_shim.runlog.encoding import WrittenFields, encode

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
