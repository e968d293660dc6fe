"""The faults of ``make mutants`` can be planted: each where it says, and into sources that still compile."""

import ast
from collections import Counter

import pytest
from helpers import ROOT
from mutants.faults import AREAS, FAULTS


def test_there_are_ten_faults_of_each_area_with_names_of_their_own():
    assert [len(faults) for faults in AREAS.values()] == [10] * 6
    assert Counter(fault.name for fault in FAULTS).most_common(1)[0][1] == 1
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault):
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    assert text.count(fault.old) == 1
    assert ast.dump(ast.parse(text.replace(fault.old, fault.new))) != ast.dump(ast.parse(text))
