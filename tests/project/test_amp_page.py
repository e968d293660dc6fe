"""docs/run.md: the table of lists is what both libraries say."""

import amp_lists
import pytest
from helpers import ROOT


@pytest.mark.slow
def test_the_table_is_what_both_libraries_say():
    lines = (ROOT / "docs/run.md").read_text("utf-8").splitlines()
    start = lines.index(amp_lists.HEAD[0])
    table = lines[start : lines.index("", start)]
    assert table == [*amp_lists.HEAD, *amp_lists.rows()], "python tests/amp_lists.py prints the table as it is"
