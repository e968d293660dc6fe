"""Lines of a log whose form is known are not decoded: they mean, and count, what they mean when they are."""

import json
import random
import re

import pytest
import report_data

from padiff_shim.runlog.counts import Counts
from padiff_shim.runlog.encoding import PLAIN_FIELDS, WrittenFields, encode
from padiff_shim.runlog.plain_lines import PlainLine
from padiff_shim.runlog.reader import CallParser, LogError, parse

RECORDS = [record for record in report_data.run_of(400) if record["verdict"] in ("EQUAL", "ROUNDING")]
LATER = ("type", "index", "call", "step", "verdict", "reason", "stats", *PLAIN_FIELDS)
LINES = [encode(record, WrittenFields({name: value for name, value in record.items() if name not in LATER})) for record in RECORDS]


def known(lines):
    """A parser that has seen lines."""
    parser = CallParser()
    for line in lines:
        parser.parse(line, "log", "line")
    return parser


def meaning(parsed, line):
    """A record, or that there is none; the place is the same for both."""
    try:
        return dict(parsed(line, "log", "line"))
    except LogError as error:
        return str(error)


def test_records_of_known_forms_are_their_tables_and_count_as_these():
    parser, first, other = known(LINES[:80]), Counts(most=4), Counts(most=4)
    for line in LINES:
        record = parser.parse(line, "log", "line")
        assert type(record) is PlainLine
        first.add_plain(record, "log")
        other.add(json.loads(line), "log")
        assert [record.get(name) for name in ("op", "verdict", "step", "absent")] == [
            json.loads(line).get(name) for name in ("op", "verdict", "step", "absent")
        ]
        assert dict(record) == json.loads(line)
    for name in ("records", "calls", "by_op", "by_layer", "coverage", "_probs", "_names"):
        assert getattr(first, name) == getattr(other, name), name
    assert [(dict(record), log) for record, log in first.innocent.largest()] == other.innocent.largest()
    assert [(dict(record), log) for record, log in first.worst()] == other.worst()


@pytest.mark.parametrize(
    "part", ["-1", "01", "1.", ".5", "1e", "1E5", "1e999", "-0", '"nan"', '"inf"', "null", "[1]", "{}", "9" * 25, ""]
)
def test_another_number_means_what_it_means_without_known_forms(part):
    parser, drawn = known(LINES), random.Random(part)
    for line in LINES[::60]:
        numbers = [match.span() for match in re.finditer(rb"(?<=[:\[,])-?\d[^,}\]]*", line)]
        for start, end in drawn.sample(numbers, 12):
            changed = line[:start] + part.encode() + line[end:]
            assert meaning(parser.parse, changed) == meaning(parse, changed), changed


@pytest.mark.parametrize(("old", "new"), [
    (b'"reason":"', b'"reason":"\\u00e9'), (b'"reason":"', b'"reason":"\xc3\xa9'), (b'"reason":"', b'"reason":"\x01'),
    (b'"muted":false', b'"muted":true'), (b'"side":"none"', b'"side":"torch"'), (b'"modifiers":[]', b'"modifiers":["screened"]'),
    (b'"quirk":null', b'"quirk":"x"'), (b'"verdict":"', b'"verdict":"N'), (b'"stats":{', b'"stats":{"count":1,'),
    (b'"stats":{', b'"step":4,"stats":{'), (b'"op":"', b'"reason":"","op":"'), (b'"op":"', b'"verdict":"EQUAL","op":"'),
    (b"}}\n", b"}\n"), (b"}}\n", b"}}\r\n"), (b"}}\n", b"}} \n"), (b"}}\n", b"}}"), (b'"index":', b'"index":0'),
    (b'"shape":', b'"shape":[7],"shape":'),
])  # fmt: skip
def test_another_line_means_what_it_means_without_known_forms(old, new):
    parser = known(LINES)
    for line in LINES[::60]:
        assert (changed := line.replace(old, new, 1)) != line
        assert meaning(parser.parse, changed) == meaning(parse, changed), changed
