"""docs/record.md says what Paddle refuses on gloo: each line of its table, tried with two ranks."""

import re

import pytest
import ranks
from helpers import ROOT

pytestmark = pytest.mark.slow
_ROW = re.compile(r"^\| `([\w ]+)` \| (.*) \|$", re.MULTILINE)


@pytest.mark.parametrize("program", ["collectives", "mp", "pp", "sharding"])
def test_the_table_is_right(program):
    page = (ROOT / "docs" / "record.md").read_text()
    table = dict(_ROW.findall(page[page.index("### What Paddle refuses on gloo") :]))
    lines = [line.split("\t") for line in ranks.run([ROOT / "tests" / "gloo_support.py", program])[1].splitlines() if "\t" in line]
    assert lines
    for name, outcome in lines:
        assert table[name].strip("`") in outcome, name
